//! BloscLZ, Blosc's own codec: runs of literals, and copies of earlier bytes, as in FastLZ.

/// The limit of near distances.
const NEAR: usize = 8191;

/// Unpacks a stream and returns the number of bytes written. `None` if it is damaged or does not
/// fit.
pub(super) fn unpack(stream: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut stream = stream.iter();
    let mut next = || stream.next().copied().map(usize::from);
    // The upper bits of the first byte are the variant; only one exists.
    let mut control = next()? & 31;
    let mut at = 0;
    loop {
        if control < 32 {
            for _ in 0..=control {
                *out.get_mut(at)? = next()? as u8;
                at += 1;
            }
        } else {
            let mut length = (control >> 5) - 1;
            if length == 6 {
                loop {
                    let more = next()?;
                    length += more;
                    if more != 255 {
                        break;
                    }
                }
            }
            let low = next()?;
            let mut distance = ((control & 31) << 8) + low;
            if distance == NEAR {
                distance += (next()? << 8) + next()?;
            }
            at = copy(out, at, distance + 1, length + 3)?;
        }
        match next() {
            Some(byte) => control = byte,
            None => return Some(at),
        }
    }
}

/// Copies `length` bytes from `distance` before `at`; source and destination may overlap.
fn copy(out: &mut [u8], at: usize, distance: usize, length: usize) -> Option<usize> {
    let (start, end) = (at.checked_sub(distance)?, at.checked_add(length)?);
    if end > out.len() {
        return None;
    }
    let mut done = at;
    while done < end {
        // A whole number of periods, or the rest.
        let count = (done - start).min(end - done);
        // Not `copy_within`: with a second caller in this crate LLVM no longer inlines it in LZ4's decompressor, which
        // copies 18 bytes with it at most matches (docs/benches/runs/2026-11-28-size.md).
        let (before, after) = out.split_at_mut(done);
        after[..count].copy_from_slice(&before[start..start + count]);
        done += count;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(stream: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; size];
        let written = unpack(stream, &mut out)?;
        out.truncate(written);
        Some(out)
    }

    #[test]
    fn literals_and_copies_that_overlap() {
        // Three literals; three bytes from two positions before; the last byte twelve times.
        let stream = [2, b'a', b'b', b'c', 1 << 5, 1, 7 << 5, 3, 0];
        assert_eq!(unpacked(&stream, 64), Some(b"abcbcbbbbbbbbbbbbb".to_vec()));
        // The same stream does not fit into a shorter output.
        assert_eq!(unpacked(&stream, 17), None);
    }

    #[test]
    fn far_distances_follow_the_longest_near_one() {
        // 32 literals, 255 times; then a copy of three bytes from 8192 + 2 before.
        let mut stream: Vec<u8> = (0..258_u32).flat_map(|run| [vec![31], vec![run as u8; 32]].concat()).collect();
        stream[0] |= 32;
        stream.extend([1 << 5 | 31, 255, 0, 2]);
        let out = unpacked(&stream, 9000).expect("a stream");
        assert_eq!(out.len(), 258 * 32 + 3);
        let from = 258 * 32 - 8194;
        assert_eq!(out[258 * 32..], out[from..from + 3]);
    }

    #[test]
    fn damaged_streams_are_refused() {
        let stream = [2, b'a', b'b', b'c', 1 << 5, 1, 7 << 5, 3, 0];
        for end in [0, 1, 3, 5, 7, 8] {
            assert_eq!(unpacked(&stream[..end], 64), None, "{end}");
        }
        // A copy from before the start.
        assert_eq!(unpacked(&[0, b'a', 1 << 5, 1], 64), None);
    }
}
