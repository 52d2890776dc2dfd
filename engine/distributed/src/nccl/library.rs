//! Finds and opens NCCL or RCCL, and the driver that belongs to it.

use std::error::Error as _;
use std::ffi::{OsStr, OsString, c_char, c_int};
use std::fmt;
use std::path::Path;

use libloading::Library;
use serde::{Deserialize, Serialize};

use super::NcclError;
use super::driver::Driver;
use super::nccl::Nccl;
use super::symbols::{Collectives, Cuda, Devices, Hip};

/// The vendor of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Vendor {
    /// NVIDIA: NCCL and CUDA.
    Nvidia,
    /// AMD: RCCL and HIP.
    Amd,
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vendor::Nvidia => "NVIDIA",
            Vendor::Amd => "AMD",
        })
    }
}

impl Vendor {
    fn library(self) -> &'static str {
        match self {
            Vendor::Nvidia => "libnccl.so.2",
            Vendor::Amd => "librccl.so.1",
        }
    }

    fn drivers(self) -> &'static [&'static str] {
        match self {
            Vendor::Nvidia => &["libcuda.so.1"],
            Vendor::Amd => &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"],
        }
    }

    /// The vendor of a library by the name of its file: RCCL exports NCCL's symbols.
    fn of(name: &OsStr) -> Self {
        let file = Path::new(name).file_name().unwrap_or(name).to_string_lossy().to_lowercase();
        if file.contains("rccl") { Vendor::Amd } else { Vendor::Nvidia }
    }
}

/// Opens the library that `HEARTH_NCCL` names, or the first library whose driver is installed.
///
/// # Errors
/// If none can be used, or the named one lacks a function.
pub(super) fn open() -> Result<(Nccl, Driver), NcclError> {
    if let Some(named) = variable("HEARTH_NCCL") {
        let name = named.to_string_lossy().into_owned();
        let named_error = |why| NcclError::Named { variable: "HEARTH_NCCL", name: name.clone(), why };
        let library = load(&named).map_err(named_error)?;
        return both(name.clone(), library, Vendor::of(&named));
    }
    let mut looked = Vec::new();
    for vendor in [Vendor::Nvidia, Vendor::Amd] {
        let name = vendor.library();
        match load(OsStr::new(name)) {
            Err(why) => looked.push(format!("{name}: {why}")),
            // A machine may have the library of one vendor and GPUs of the other.
            Ok(library) => match both(name.to_owned(), library, vendor) {
                Err(error @ NcclError::NoDriver { .. }) => looked.push(error.to_string()),
                opened => return opened,
            },
        }
    }
    Err(NcclError::NoLibrary { looked: looked.join("; ") })
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn both(name: String, library: Library, vendor: Vendor) -> Result<(Nccl, Driver), NcclError> {
    let lacks = |symbol| NcclError::Lacks {
        name: name.clone(),
        symbol,
        advice: "it is not a library of NCCL 2.10 or later, or of RCCL",
    };
    // SAFETY: the library has the name of NCCL or RCCL, or the user names it as one; it is leaked
    // below.
    let functions = unsafe { Collectives::of(&library, vendor) }.map_err(lacks)?;
    // SAFETY: the address is that of `const char *ncclGetLastError(ncclComm_t)`, of version 2.13 and
    // later.
    let last_error = unsafe { library.get("ncclGetLastError") }.map(|function| *function).ok();
    let driver = driver(&name, &library, vendor)?;
    let nccl = Nccl::new(name, vendor, functions, last_error)?;
    // The library starts threads that may outlive the communicators.
    std::mem::forget(library);
    Ok((nccl, driver))
}

/// Opens the driver: the one that `HEARTH_GPU_DRIVER` names, else the one that the library of
/// collectives is linked with (so that both use the same), else the vendor's usual one.
fn driver(library_name: &str, library: &Library, vendor: Vendor) -> Result<Driver, NcclError> {
    if let Some(named) = variable("HEARTH_GPU_DRIVER") {
        let name = named.to_string_lossy().into_owned();
        let named_error = |why| NcclError::Named { variable: "HEARTH_GPU_DRIVER", name: name.clone(), why };
        let driver = load(&named).map_err(named_error)?;
        let opened = driver_of(name.clone(), &driver, vendor);
        std::mem::forget(driver);
        return opened;
    }
    let first = match vendor {
        Vendor::Nvidia => "cuInit",
        Vendor::Amd => "hipInit",
    };
    // SAFETY: only the address is looked up, in the library and its dependencies.
    if unsafe { library.get::<unsafe extern "C" fn(c_int) -> c_int>(first) }.is_ok() {
        return driver_of(library_name.to_owned(), library, vendor);
    }
    let mut looked = Vec::new();
    for name in vendor.drivers() {
        match load(OsStr::new(name)) {
            Ok(driver) => {
                let opened = driver_of((*name).to_owned(), &driver, vendor);
                std::mem::forget(driver);
                return opened;
            }
            Err(why) => looked.push(format!("{name}: {why}")),
        }
    }
    Err(NcclError::NoDriver { library: library_name.to_owned(), vendor, looked: looked.join("; ") })
}

/// The functions of a driver, whose library stays open until the process ends.
fn driver_of(name: String, library: &Library, vendor: Vendor) -> Result<Driver, NcclError> {
    let advice = match vendor {
        Vendor::Nvidia => "it is not the driver of CUDA 11 or later",
        Vendor::Amd => "it is not a HIP runtime of ROCm 5 or later",
    };
    let lacks = |symbol| NcclError::Lacks { name: name.clone(), symbol, advice };
    // SAFETY: the library has the name of the vendor's driver, or the user names it as one, or it
    // exports the driver's first function. The callers leak it.
    let devices = unsafe { Devices::of(library, vendor) }.map_err(lacks)?;
    Ok(match vendor {
        Vendor::Nvidia => {
            // SAFETY: as above.
            let own = unsafe { Cuda::of(library, vendor) }.map_err(lacks)?;
            Driver::cuda(name, devices, own)
        }
        Vendor::Amd => {
            // SAFETY: as above.
            let own = unsafe { Hip::of(library, vendor) }.map_err(lacks)?;
            Driver::hip(name, devices, own)
        }
    })
}

/// The type of `ncclGetLastError`.
pub(super) type LastError = unsafe extern "C" fn(super::symbols::Pointer) -> *const c_char;

#[cfg(unix)]
fn load(name: &OsStr) -> Result<Library, String> {
    // SAFETY: opening a library runs its initializers; those of NCCL, RCCL and the drivers only set
    // up their own state. It is named by the user, or has the name of one of them.
    unsafe { Library::new(name) }.map_err(|error| error.source().map_or_else(|| error.to_string(), ToString::to_string))
}

/// NCCL and RCCL exist on Linux only.
#[cfg(not(unix))]
fn load(_: &OsStr) -> Result<Library, String> {
    Err("NCCL and RCCL are opened on Unix only".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_whose_library_it_is() {
        for (name, vendor) in [
            ("libnccl.so.2", Vendor::Nvidia),
            ("/opt/rocm/lib/librccl.so.1.0.60200", Vendor::Amd),
            ("/opt/rccl-tests/libnccl.so", Vendor::Nvidia),
        ] {
            assert_eq!(Vendor::of(OsStr::new(name)), vendor, "{name}");
        }
    }
}
