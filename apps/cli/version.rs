//! What `hearth --version` says: [`Version`].

use std::fmt;

use hearth_plugin_host::{ABI_HASH, LOADER_VERSION, RUSTC, SDK_VERSION, TARGET};
use serde::Serialize;

/// What this program was built from, and what it can use here.
#[derive(Clone, Debug, Serialize)]
pub struct Version {
    /// Its version.
    pub version: &'static str,
    /// The commit; `near` it where the build was no release.
    pub commit: &'static str,
    /// The Cargo features that choose what it can do; without one for GPUs it computes on the
    /// processor.
    pub features: Vec<&'static str>,
    /// The instruction sets that its kernels have and this processor, too, the one they use first.
    pub processor_paths: Vec<&'static str>,
    /// The version of the plugin SDK that it accepts.
    pub plugin_sdk: &'static str,
    /// The binary interface of plugins, in hexadecimal digits.
    pub plugin_abi: String,
    /// The version of the loader of plugins.
    pub plugin_loader: u32,
    /// What it was built for.
    pub target: &'static str,
    /// The compiler.
    pub rustc: &'static str,
}

/// Cargo features, in the order in which `--version` shows them.
const FEATURES: [(&str, bool); 8] = [
    ("wgpu", cfg!(feature = "wgpu")),
    ("vulkan", cfg!(feature = "vulkan")),
    ("cuda", cfg!(feature = "cuda")),
    ("rocm", cfg!(feature = "rocm")),
    ("metal", cfg!(feature = "metal")),
    ("download", cfg!(feature = "download")),
    ("serve", cfg!(feature = "serve")),
    ("dicom-net", cfg!(feature = "dicom-net")),
];

impl Version {
    /// That of this program.
    pub fn here() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("HEARTH_BUILT_FROM"),
            features: ["cpu"]
                .into_iter()
                .chain(FEATURES.into_iter().filter(|(_, on)| *on).map(|(name, _)| name))
                .collect(),
            processor_paths: hearth::kernels::processor_paths(),
            plugin_sdk: SDK_VERSION,
            plugin_abi: format!("{ABI_HASH:016x}"),
            plugin_loader: LOADER_VERSION,
            target: TARGET,
            rustc: RUSTC,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, commit, features, processor_paths, plugin_sdk, plugin_abi, plugin_loader, target, rustc } =
            self;
        writeln!(f, "{version}")?;
        writeln!(f, "commit     {commit}")?;
        writeln!(f, "features   {}", features.join(", "))?;
        writeln!(f, "processor  {}", processor_paths.join(", "))?;
        writeln!(f, "plugins    SDK {plugin_sdk}, ABI {plugin_abi}, loader {plugin_loader}")?;
        write!(f, "built      for {target} by {rustc}")
    }
}
