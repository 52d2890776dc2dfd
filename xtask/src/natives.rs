//! The libraries that a program is linked with and that are not crates.

use std::path::PathBuf;
use std::process::Command;

use crate::build::Features;
use crate::crates::Crates;
use crate::{Outcome, llvm, output_of, root};

/// One library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    pub name: &'static str,
    pub version: Option<String>,
    /// Its licence as an SPDX expression.
    pub licence: &'static str,
    pub address: &'static str,
    /// The file of its licence.
    pub text: PathBuf,
}

impl Native {
    /// The name of its folder of licences.
    pub fn key(&self) -> String {
        match &self.version {
            Some(version) => format!("{}-{version}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// The libraries of the program; with a glibc, those of a build that Zig links.
pub fn of_program(features: Features, glibc: Option<&str>, crates: &Crates) -> Outcome<Vec<Native>> {
    let text = |name: &str| root().join("packaging/licences").join(name);
    let first = |command: &mut Command, nth: usize| {
        let said = output_of(command).ok()?;
        said.split_whitespace().nth(nth).map(str::to_owned)
    };
    let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    let copyright = PathBuf::from(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    let mut natives = vec![Native {
        name: "rust-std",
        version: first(Command::new("rustc").arg("-V"), 1),
        licence: "MIT OR Apache-2.0",
        address: "https://github.com/rust-lang/rust",
        // Compilers of distributions do not include it; the text of one of its licences is in this
        // repository.
        text: if copyright.is_file() { copyright } else { root().join("LICENSE") },
    }];
    if llvm::is_in(features) {
        // The version `23.1.0-4` is the fourth package of 23.1.0.
        let bundler = crates.all.values().find(|one| one.name == "tracel-llvm-bundler");
        natives.push(Native {
            name: "llvm",
            version: bundler.and_then(|one| one.version.split('-').next()).map(str::to_owned),
            licence: "Apache-2.0 WITH LLVM-exception",
            address: "https://github.com/llvm/llvm-project",
            text: text("llvm.txt"),
        });
    }
    if glibc.is_some() {
        let zig = first(Command::new("zig").arg("version"), 0)
            .or_else(|| first(Command::new("python3").args(["-m", "ziglang", "version"]), 0));
        natives.push(Native {
            name: "zig-compiler-rt",
            version: zig.clone(),
            licence: "MIT",
            address: "https://codeberg.org/ziglang/zig",
            text: text("zig.txt"),
        });
        natives.push(Native {
            name: "zig-libunwind",
            version: zig,
            licence: "Apache-2.0 WITH LLVM-exception",
            address: "https://github.com/llvm/llvm-project",
            text: text("libunwind.txt"),
        });
    }
    if llvm::is_in(features) && glibc.is_some() {
        natives.push(Native {
            name: "libstdc++",
            version: first(Command::new("c++").arg("-dumpfullversion"), 0),
            licence: "GPL-3.0-or-later WITH GCC-exception-3.1",
            address: "https://gcc.gnu.org/git/gcc.git",
            text: text("gcc-runtime-exception.txt"),
        });
        // It is passed to the linker whether or not this build of LLVM compresses.
        if llvm::Archives::find()?.has("z") {
            natives.push(Native {
                name: "zlib",
                version: None,
                licence: "Zlib",
                address: "https://github.com/madler/zlib",
                text: text("zlib.txt"),
            });
        }
    }
    Ok(natives)
}
