//! The build of the program, and the facts about a release.

use std::env;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;
use toml::Table;

use crate::{Outcome, llvm, output_of, root};

/// The device support of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Features {
    /// The CPU only
    Cpu,
    /// AMD's, Intel's and NVIDIA's GPUs through Vulkan
    Vulkan,
    /// NVIDIA's GPUs
    Cuda,
    /// AMD's GPUs
    Rocm,
}

impl Features {
    /// The Cargo feature of the crate `hearth-apps` in addition to the default ones.
    pub fn feature(self) -> Option<&'static str> {
        match self {
            Features::Cpu => None,
            Features::Vulkan => Some("vulkan"),
            Features::Cuda => Some("cuda"),
            Features::Rocm => Some("rocm"),
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.feature().unwrap_or("cpu"))
    }
}

/// The facts that are the same for all results of a commit.
#[derive(Clone, Debug)]
pub struct Release {
    pub version: String,
    pub target: String,
    /// The commit, with a mark if files were changed since.
    pub commit: String,
    /// Seconds since 1970: `SOURCE_DATE_EPOCH`, or the time of the commit. Every file gets this time.
    pub time: u64,
}

impl Release {
    /// The facts of this repository in its current state.
    pub fn read() -> Outcome<Self> {
        let manifest: Table = std::fs::read_to_string(root().join("Cargo.toml"))?.parse()?;
        let version =
            manifest["workspace"]["package"]["version"].as_str().ok_or("Cargo.toml has no version")?.to_owned();
        let rustc = output_of(Command::new("rustc").arg("-vV"))?;
        let target =
            rustc.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc reports no host")?.to_owned();
        let git = |arguments: &[&str]| output_of(Command::new("git").args(arguments).current_dir(root()));
        let time = match env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time.parse().map_err(|_| format!("SOURCE_DATE_EPOCH={time} is not a number of seconds"))?,
            Err(_) => git(&["log", "-1", "--format=%ct"])?.trim().parse()?,
        };
        let mut commit = git(&["rev-parse", "--short=12", "HEAD"])?.trim().to_owned();
        if !git(&["status", "--porcelain", "--untracked-files=no"])?.trim().is_empty() {
            commit += " with changes";
        }
        Ok(Self { version, target, commit, time })
    }
}

/// Cargo's target folder.
fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The folder with the program and its plugins.
pub fn folder(glibc: Option<&str>, release: &Release) -> Outcome<PathBuf> {
    let folder = match glibc {
        Some(_) => target_folder().join(&release.target).join("release"),
        None => target_folder().join("release"),
    };
    match folder.join("hearth").is_file() {
        true => Ok(folder),
        false => Err(format!("{} has no program: leave out --no-build", folder.display()).into()),
    }
}

/// The options of a release build: fat LTO makes the program a twelfth smaller than the usual build
/// with many codegen units, for four more minutes. LLVM then optimizes all crates with the options of
/// the last one, `hearth-apps`.
const ONE_PIECE: [&str; 3] =
    ["profile.release.lto='fat'", "profile.release.package.hearth-apps.opt-level=3", "profile.release.debug=0"];

/// Builds the program; for an older glibc with `cargo zigbuild`, whose linker knows the old symbols,
/// and with [`ONE_PIECE`].
pub fn build(features: Features, glibc: Option<&str>, release: &Release) -> Outcome {
    let mut linking = Vec::new();
    let mut command = match glibc {
        Some(version) => {
            let mut command = Command::new("cargo-zigbuild");
            command.arg("rustc").arg("--target").arg(format!("{}.{version}", release.target)).args(["--bin", "hearth"]);
            command.args(ONE_PIECE.iter().flat_map(|option| ["--config", option]));
            if llvm::is_in(features) {
                linking = llvm::Archives::find()?.arguments(&target_folder().join("llvm-for-old-systems"))?;
                // CubeCL's own C++ connects LLVM and Rust, and needs the headers of the library that is
                // linked.
                let compiler = format!("CXX_{}", release.target.replace('-', "_"));
                if env::var_os(&compiler).is_none() {
                    command.env(compiler, "c++");
                }
            }
            command
        }
        None => {
            let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            command.arg("build");
            command
        }
    };
    command.args(["--release", "--locked", "--package", "hearth-apps"]);
    if let Some(feature) = features.feature() {
        command.arg("--features").arg(format!("hearth-apps/{feature}"));
    }
    if !linking.is_empty() {
        // Only for the program: flags for all crates would compile them again.
        command.arg("--").args(linking);
    }
    let status = command.current_dir(root()).env("HEARTH_COMMIT", &release.commit).status();
    match (status, glibc) {
        (Ok(status), _) if status.success() => Ok(()),
        (Err(error), Some(_)) if error.kind() == ErrorKind::NotFound => {
            Err("cargo-zigbuild is not found; `pip install cargo-zigbuild` installs it and Zig".into())
        }
        (Err(error), _) => Err(format!("{}: {error}", command.get_program().display()).into()),
        (Ok(_), _) => Err("the build failed".into()),
    }
}
