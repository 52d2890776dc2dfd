//! Links the LLVM that compiles kernels for CUDA and ROCm into a program for older systems.
//!
//! CubeCL's build downloads LLVM as archives that were built with GCC's C++ library and for a newer
//! glibc, and some builds of it compress with zlib and Zstandard. Zig has its own C++ library instead
//! of GCC's, an older glibc lacks some functions, and Zig does not search for system libraries. So the
//! linker gets their paths, and the program does not need them at run time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::Features;
use crate::{Outcome, output_of, root};

/// Whether a program contains LLVM.
pub fn is_in(features: Features) -> bool {
    matches!(features, Features::Cuda | Features::Rocm)
}

/// The packages with the system's C++ compiler and libraries.
const PACKAGES: &str = "Debian: apt install g++ zlib1g-dev libzstd-dev; Fedora and RHEL: \
    dnf install gcc-c++ libstdc++-static zlib-static libzstd-static";

/// The system's archives that are linked into the program.
#[derive(Debug)]
pub struct Archives {
    /// GCC's C++ library.
    cxx: PathBuf,
    /// The archives of zlib and Zstandard, with their names in LLVM's build; only those that are
    /// installed, since only some builds of LLVM need them.
    others: Vec<(&'static str, PathBuf)>,
}

impl Archives {
    /// Finds the archives with the compiler `c++`.
    pub fn find() -> Outcome<Self> {
        let cxx = of_compiler("libstdc++.a")?
            .ok_or_else(|| format!("c++ has no libstdc++.a, which LLVM is linked with. {PACKAGES}"))?;
        let mut others = Vec::new();
        for (name, file) in [("z", "libz.a"), ("zstd", "libzstd.a")] {
            others.extend(of_compiler(file)?.map(|path| (name, path)));
        }
        Ok(Self { cxx, others })
    }

    /// Whether the archive with this name in LLVM's build is linked into the program.
    pub fn has(&self, name: &str) -> bool {
        self.others.iter().any(|(other, _)| *other == name)
    }

    /// Writes the linker's inputs into a folder; returns the compiler's arguments.
    pub fn arguments(&self, folder: &Path) -> Outcome<Vec<String>> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        for (name, archive) in &self.others {
            // A text file in place of a library is a linker script, which names the library.
            fs::write(folder.join(format!("lib{name}.so")), format!("INPUT({})\n", archive.display()))?;
        }
        let newer = newer_glibc(folder)?;
        Ok(vec![
            format!("-Lnative={}", folder.display()),
            // `-lstdc++`, which follows, is Zig's own library. Symbols that this archive has are taken
            // from it.
            format!("-Clink-arg={}", self.cxx.display()),
            format!("-Clink-arg={}", newer.display()),
        ])
    }
}

/// Finds a library of the system's C++ compiler.
fn of_compiler(file: &str) -> Outcome<Option<PathBuf>> {
    let said = output_of(Command::new("c++").arg(format!("-print-file-name={file}")))
        .map_err(|error| format!("{error}. LLVM is linked with GCC's C++ library. {PACKAGES}"))?;
    // The compiler prints only the name if there is no such library.
    let path = PathBuf::from(said.trim());
    Ok(path.canonicalize().ok().filter(|path| path.is_absolute() && said.trim() != file))
}

/// Builds the archive of functions that an older glibc lacks.
fn newer_glibc(folder: &Path) -> Outcome<PathBuf> {
    let (object, archive) = (folder.join("newer_glibc.o"), folder.join("libnewer_glibc.a"));
    // With C11, `strtol` is not the function of glibc 2.38.
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O2", "-fPIC", "-c"]).arg(root().join("xtask/src/newer_glibc.c"));
    output_of(compile.arg("-o").arg(&object))?;
    output_of(Command::new("ar").arg("rcs").arg(&archive).arg(&object))?;
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They behave like the system's functions, which have other names here.
    #[cfg(target_os = "linux")]
    #[test]
    fn functions_of_newer_glibcs_are_made_of_older_ones() {
        let folder = tempfile::tempdir().unwrap();
        let archive = newer_glibc(folder.path()).unwrap();
        let main = r#"
            #include <stdio.h>
            #include <stdlib.h>
            #include <malloc.h>
            struct wide { size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost; };
            extern char ours___libc_single_threaded;
            struct wide ours_mallinfo2(void);
            unsigned ours_arc4random(void);
            long ours___isoc23_strtol(const char *, char **, int);
            unsigned long long ours___isoc23_strtoull(const char *, char **, int);
            int main(void) {
                void *kept = malloc(100000);
                struct mallinfo of = mallinfo();
                struct wide wide = ours_mallinfo2();
                char *end;
                printf("%d ", ours___libc_single_threaded);
                printf("%d ", (int)wide.arena == of.arena && (int)wide.uordblks == of.uordblks && (int)wide.keepcost == of.keepcost);
                printf("%d ", wide.uordblks >= 100000);
                unsigned both = 0, any = 0;
                for (int i = 0; i < 64; i++) { unsigned value = ours_arc4random(); both |= value; any |= ~value; }
                printf("%x %x ", both, any);
                long parsed = ours___isoc23_strtol("-0x10z", &end, 0);
                printf("%ld %s ", parsed, end);
                printf("%llu\n", ours___isoc23_strtoull("18446744073709551615", &end, 10));
                free(kept);
            }"#;
        let (source, program) = (folder.path().join("main.c"), folder.path().join("main"));
        fs::write(&source, main).unwrap();
        let ours = folder.path().join("libours.a");
        let names = ["__libc_single_threaded", "mallinfo2", "arc4random", "__isoc23_strtol", "__isoc23_strtoull"];
        let renamed = names.map(|name| format!("--redefine-sym={name}=ours_{name}"));
        output_of(Command::new("objcopy").args(&renamed).arg(&archive).arg(&ours)).unwrap();
        output_of(Command::new("cc").arg("-w").arg(&source).arg(&ours).arg("-o").arg(&program)).unwrap();
        assert_eq!(
            output_of(&mut Command::new(&program)).unwrap(),
            "0 1 1 ffffffff ffffffff -16 z 18446744073709551615\n"
        );
    }

    #[test]
    fn arguments_name_the_archives() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("link");
        let archives = Archives { cxx: "/gcc/libstdc++.a".into(), others: vec![("z", "/lib/libz.a".into())] };
        let arguments = archives.arguments(&to).unwrap();
        let expected = [
            format!("-Lnative={}", to.display()),
            "-Clink-arg=/gcc/libstdc++.a".into(),
            format!("-Clink-arg={}", to.join("libnewer_glibc.a").display()),
        ];
        assert_eq!(arguments, expected);
        assert_eq!(fs::read_to_string(to.join("libz.so")).unwrap(), "INPUT(/lib/libz.a)\n");
        assert!(!to.join("libzstd.so").exists() && archives.has("z") && !archives.has("zstd"));
        assert_eq!(archives.arguments(&to).unwrap(), expected, "a second time");
    }

    /// The system's linker accepts the scripts as Zig's does, and the program then needs no C++
    /// library.
    #[cfg(target_os = "linux")]
    #[test]
    fn live_archives_go_into_a_program() {
        if crate::clients::find_program("c++", "arguments_name_the_archives").is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let archives = Archives::find().unwrap();
        let (source, program) = (folder.path().join("main.cpp"), folder.path().join("main"));
        let text = r#"
            #include <iostream>
            #include <memory>
            int main() { std::cout << *std::make_shared<int>(42) << std::endl; }"#;
        fs::write(&source, text).unwrap();
        let mut link = Command::new("cc");
        link.arg(&source);
        for argument in archives.arguments(&folder.path().join("link")).unwrap() {
            let argument = argument.replace("-Lnative=", "-L");
            link.arg(argument.strip_prefix("-Clink-arg=").unwrap_or(&argument));
        }
        link.args(archives.others.iter().map(|(name, _)| format!("-l{name}")));
        output_of(link.arg("-lm").arg("-o").arg(&program)).unwrap();
        assert_eq!(output_of(&mut Command::new(&program)).unwrap(), "42\n");
        let needed = crate::libraries::needed(&program).unwrap();
        assert!(needed.iter().all(|library| !library.contains("stdc++") && !library.starts_with("libz")), "{needed:?}");
    }
}
