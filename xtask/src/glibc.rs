//! The glibc version that a program needs.

use std::fs;
use std::path::Path;

use crate::Outcome;

/// Parses `2.28` as a pair.
pub fn parse(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The newest version of glibc whose symbols a program or library uses; `None` if it uses none.
pub fn newest_needed(file: &Path) -> Outcome<Option<(u32, u32)>> {
    Ok(newest_in(&fs::read(file)?))
}

/// Finds versions in the table of dynamic symbols, where they are texts between zero bytes:
/// `GLIBC_2.28`.
fn newest_in(bytes: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"\0GLIBC_";
    let starts = bytes.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    let versions = starts.filter_map(|(at, _)| {
        let rest = &bytes[at + PREFIX.len()..];
        let end = rest.iter().take(16).position(|byte| *byte == 0)?;
        // A third number occurs only in 2.2 and older versions.
        let text = std::str::from_utf8(&rest[..end]).ok()?;
        let mut parts = text.split('.').map(str::parse::<u32>);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        assert_eq!(newest_in(b"\0libc.so.6\0GLIBC_2.2.5\0GLIBC_2.28\0GLIBC_2.14\0GLIBC_PRIVATE\0"), Some((2, 28)));
        assert_eq!(newest_in(b"weak GLIBC_9.9 in a text"), None);
        assert_eq!(newest_in(b"\0GLIBC_"), None);
        assert_eq!((parse("2.28"), parse("2"), parse("x.y")), (Some((2, 28)), None, None));
        assert!(parse("2.9") < parse("2.28"));
    }

    /// `objdump` parses the table completely.
    #[cfg(target_os = "linux")]
    #[test]
    fn objdump_says_the_same() {
        let program = std::env::current_exe().unwrap();
        let Ok(text) = crate::output_of(std::process::Command::new("objdump").arg("-T").arg(&program)) else {
            panic!("objdump is part of every C compiler's tools")
        };
        let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
            parse(rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?.trim_end_matches(".5"))
        });
        assert_eq!(newest_needed(&program).unwrap(), versions.max());
    }
}
