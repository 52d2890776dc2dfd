//! The version of cuDNN: [`Version`].

use std::fmt;

/// A version, as `cudnnGetVersion` encodes it: 91500 is 9.15.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(crate) usize);

impl Version {
    /// Major, minor and patch numbers. The factor of the major number is 1000 up to version 8, and
    /// 10000 later.
    fn parts(self) -> (usize, usize, usize) {
        let major = if self.0 < 10_000 { 1000 } else { 10_000 };
        (self.0 / major, self.0 % major / 100, self.0 % 100)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.parts();
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_the_header_writes_them() {
        for (code, text) in
            [(8902, "8.9.2"), (90_800, "9.8.0"), (91_002, "9.10.2"), (91_500, "9.15.0"), (92_801, "9.28.1")]
        {
            assert_eq!(Version(code).to_string(), text);
        }
        assert!(Version(8902) < Version(90_000) && Version(91_002) < Version(91_500));
    }
}
