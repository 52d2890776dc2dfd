//! The system libraries that a program is linked to.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::{Outcome, output_of};

/// Debian's packages of the libraries that a program may need. glibc's come first: they are many
/// libraries in one package.
const PACKAGES: [(&str, &str); 12] = [
    ("ld-linux-x86-64.so.2", "libc6"),
    ("ld-linux-aarch64.so.1", "libc6"),
    ("libc.so.6", "libc6"),
    ("libdl.so.2", "libc6"),
    ("libm.so.6", "libc6"),
    ("libpthread.so.0", "libc6"),
    ("librt.so.1", "libc6"),
    ("libutil.so.1", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libstdc++.so.6", "libstdc++6"),
    ("libz.so.1", "zlib1g"),
    ("libzstd.so.1", "libzstd1"),
];

/// The names of the libraries that the loader loads for a program or library.
pub fn needed(file: &Path) -> Outcome<BTreeSet<String>> {
    let said = output_of(Command::new("objdump").arg("-p").arg(file))?;
    let names = said.lines().filter_map(|line| Some(line.trim().strip_prefix("NEEDED")?.trim().to_owned()));
    Ok(names.collect())
}

/// Debian's packages of libraries; an error for a library that is not in the table.
pub fn packages(libraries: &BTreeSet<String>) -> Outcome<BTreeSet<&'static str>> {
    let package = |library: &String| {
        let known = PACKAGES.iter().find(|(name, _)| name == library);
        known.map(|(_, package)| *package).ok_or_else(|| {
            format!(
                "the program needs the library {library}, whose Debian package xtask/src/libraries.rs does not name"
            )
            .into()
        })
    };
    libraries.iter().map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn libraries_are_named_by_their_packages() {
        let of = |names: &[&str]| packages(&set(names)).map(|found| found.into_iter().collect::<Vec<_>>());
        assert_eq!(of(&["libm.so.6", "libc.so.6"]).unwrap(), ["libc6"]);
        assert_eq!(of(&["libz.so.1", "libstdc++.so.6", "libc.so.6"]).unwrap(), ["libc6", "libstdc++6", "zlib1g"]);
        let error = of(&["libodd.so.3"]).unwrap_err().to_string();
        assert!(error.contains("libodd.so.3"), "{error}");
    }

    /// `ldd` lists all libraries that are loaded: the needed ones, and those that these need.
    #[cfg(target_os = "linux")]
    #[test]
    fn ldd_loads_what_is_needed() {
        let program = std::env::current_exe().unwrap();
        let needed = needed(&program).unwrap();
        assert!(needed.contains("libc.so.6"), "{needed:?}");
        let said = output_of(Command::new("ldd").arg(&program)).unwrap();
        for library in &needed {
            assert!(said.contains(library.as_str()), "{library}: {said}");
        }
        packages(&needed).unwrap();
    }

    /// Debian's own list of the files of packages.
    #[test]
    fn live_dpkg_names_the_same_packages() {
        let Some(dpkg) = crate::clients::find_program("dpkg-query", "libraries_are_named_by_their_packages") else {
            return;
        };
        for (library, package) in PACKAGES {
            // Not all of them are installed.
            if let Ok(said) = output_of(Command::new(&dpkg).arg("--search").arg(format!("*/{library}"))) {
                assert!(said.lines().any(|line| line.split([':', ',']).next() == Some(package)), "{library}: {said}");
            }
        }
    }
}
