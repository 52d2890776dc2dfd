//! The names in a vendor's library: one row for each library. hipDNN (AMD) has the same model of
//! descriptors under other names; it has no row, because nothing was tried with it.

use crate::raw::Symbols;
use crate::version::Version;

/// How to install cuDNN.
pub const INSTALL: &str = "pip install nvidia-cudnn-cu13";

/// A vendor's library: how it is found, the oldest version that is used, its functions.
#[derive(Debug)]
pub(crate) struct Names {
    /// Its name in messages.
    pub library: &'static str,
    /// The name of its file, with the version of its interface.
    pub file: &'static str,
    /// The environment variable that names the file or its folder.
    pub variable: &'static str,
    /// The command that installs it.
    pub install: &'static str,
    /// The oldest version that is used.
    pub oldest: Version,
    /// The faults of older versions.
    pub faults: &'static str,
    /// The folder of its Python package in a folder of packages. It finds other packages of the vendor
    /// by itself.
    pub package: &'static str,
    /// Its functions.
    pub symbols: Symbols,
}

/// NVIDIA's cuDNN.
pub(crate) static CUDNN: Names = Names {
    library: "cuDNN",
    file: "libcudnn.so.9",
    variable: "HEARTH_CUDNN",
    install: INSTALL,
    oldest: Version(91_500),
    faults: "bf16 3-D convolutions are wrong in 9.8 to 9.10, TF32 in 9.10.2 to 9.15",
    package: "nvidia/cudnn/lib",
    symbols: Symbols {
        create_descriptor: "cudnnBackendCreateDescriptor",
        destroy_descriptor: "cudnnBackendDestroyDescriptor",
        finalize: "cudnnBackendFinalize",
        set_attribute: "cudnnBackendSetAttribute",
        get_attribute: "cudnnBackendGetAttribute",
        execute: "cudnnBackendExecute",
        create: "cudnnCreate",
        destroy: "cudnnDestroy",
        set_stream: "cudnnSetStream",
        get_version: "cudnnGetVersion",
        error_string: "cudnnGetErrorString",
        last_error_string: "cudnnGetLastErrorString",
    },
};
