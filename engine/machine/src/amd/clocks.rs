//! Reads `rsmi_frequencies_t`, whose layout depends on the version of the library.

/// Words that the structure needs in any version: 264 bytes before ROCm 6, 280 since.
pub(super) const ROOM: usize = 64;

/// The structure as words, as the library wrote it.
pub(super) type Words = [u64; ROOM];

/// The current frequency in Hz, `None` where the library marks no frequency as current.
///
/// ROCm 5 has `{u32 count, u32 current, u64 hertz[32]}`, ROCm 6 and 7 have
/// `{bool sleep, u32 count, u32 current, u64 hertz[33]}`. The older layout is tried first. A newer
/// structure never passes as an older one: the flag (0 or 1) is then read as `count`, and the count
/// (at least 1) as `current`, which must be below `count`.
pub(super) fn present(words: &Words) -> Option<u64> {
    let half = |at: usize| (words[at / 2] >> (32 * (at % 2))) as u32;
    let at = |count: u32, current: u32, first: usize, most: u32| {
        let plausible = (1..=most).contains(&count) && current < count;
        plausible.then(|| words[first + current as usize]).filter(|hertz| *hertz > 0)
    };
    // In the newer structure, the three bytes after the flag are padding with arbitrary values.
    at(half(0), half(1), 1, 32).or_else(|| at(half(1), half(2), 2, 33))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(halves: &[u32], from: usize, hertz: &[u64]) -> Words {
        let mut words = [0; ROOM];
        for (at, half) in halves.iter().enumerate() {
            words[at / 2] |= u64::from(*half) << (32 * (at % 2));
        }
        words[from..from + hertz.len()].copy_from_slice(hertz);
        words
    }

    #[test]
    fn both_layouts_are_told_apart() {
        let hertz = [500_000_000, 1_300_000_000, 2_100_000_000];
        for current in 0..3 {
            let present_now = Some(hertz[current as usize]);
            assert_eq!(present(&words(&[3, current], 1, &hertz)), present_now, "ROCm 5, {current}");
            for flag in [0, 1, 0xAB_CD_EF_00, 0xAB_CD_EF_01] {
                let newer = words(&[flag, 3, current], 2, &hertz);
                assert_eq!(present(&newer), present_now, "ROCm 6, {current}, flag {flag:x}");
            }
        }
        // One frequency only.
        assert_eq!(present(&words(&[1, 0], 1, &hertz[..1])), Some(hertz[0]));
        assert_eq!(present(&words(&[1, 1, 0], 2, &hertz[..1])), Some(hertz[0]));
    }

    #[test]
    fn none_is_marked() {
        assert_eq!(present(&[0; ROOM]), None);
        assert_eq!(present(&[u64::MAX; ROOM]), None);
        assert_eq!(present(&words(&[3, 34], 1, &[5, 6, 7])), None);
        assert_eq!(present(&words(&[0, 3, 34], 2, &[5, 6, 7])), None);
    }
}
