//! Sixteen lanes of a weight's taps, as registers.

use super::super::blocked::{Loops, WIDTH};
use super::tiles::MOST_TAPS;

/// The number of registers for the taps of any supported kernel: up to five by five rows.
pub const TAPS: usize = 25 * MOST_TAPS;

/// Indexed by tap and lane; those beyond a kernel's taps have arbitrary values.
pub type Taps = [[f32; WIDTH]; TAPS];

/// The starts of the squares of sixteen taps that cover `count`; the last one overlaps the one
/// before it.
fn squares(count: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(WIDTH);
    (0..last).step_by(WIDTH).chain([last])
}

/// Reads the taps of `present` channels, `count` each, `lane` apart, for `sharing` lanes per
/// channel; zeros for lanes beyond.
pub fn read(
    loops: Loops<'_>,
    taps: &mut Taps,
    from: &[f32],
    (lane, count): (usize, usize),
    (present, sharing): (usize, usize),
) {
    if present == WIDTH && from.len() >= (WIDTH - 1) * lane + count.max(WIDTH) {
        for first in squares(count) {
            // SAFETY: sixteen rows of sixteen values lie within the weights, and there are
            // registers for whole squares.
            unsafe {
                (loops.channels.transpose)(from[first..].as_ptr(), lane, taps[first..].as_mut_ptr().cast(), WIDTH)
            };
        }
        return;
    }
    for (tap, lanes) in taps.iter_mut().enumerate().take(count) {
        for (channel, lanes) in lanes.chunks_exact_mut(sharing).enumerate() {
            lanes.fill(if channel < present { from[channel * lane + tap] } else { 0.0 });
        }
    }
}

/// The inverse of [`read`]: the first `count` taps of each lane.
pub fn turned(loops: Loops<'_>, taps: &Taps, count: usize, to: &mut [[f32; TAPS]; WIDTH]) {
    for first in squares(count) {
        // SAFETY: there are sixteen registers, and sixteen rows with space for whole squares.
        unsafe {
            let to = to.as_mut_ptr().cast::<f32>().add(first);
            (loops.channels.transpose)(taps[first..].as_ptr().cast(), WIDTH, to, TAPS);
        }
    }
}
