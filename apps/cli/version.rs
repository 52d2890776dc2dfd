//! The output of `hearth --version`: [`Version`].

use std::fmt;

use hearth_plugin_host::{ABI_HASH, LOADER_VERSION, RUSTC, SDK_VERSION, TARGET};
use serde::Serialize;

/// What this program was built from, and what it can use on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Version {
    /// Its version.
    pub version: &'static str,
    /// The commit; preceded by `near` if the build is not a release.
    pub commit: &'static str,
    /// The Cargo features that add capabilities; without a GPU feature it computes on the CPU.
    pub features: Vec<&'static str>,
    /// The instruction sets that both its kernels and this CPU support, the preferred one first.
    pub processor_paths: Vec<&'static str>,
    /// The version of the plugin SDK that it supports.
    pub plugin_sdk: &'static str,
    /// The plugins' binary interface (ABI), in hexadecimal digits.
    pub plugin_abi: String,
    /// The version of the plugin loader.
    pub plugin_loader: u32,
    /// The target triple of the build.
    pub target: &'static str,
    /// The version of the compiler.
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
    /// The version of this program.
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
