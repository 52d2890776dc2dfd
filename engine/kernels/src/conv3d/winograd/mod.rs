//! Convolutions of kernel 3 or 5, stride 1 and several channels by Winograd's minimal filtering
//! over planes and rows (A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks",
//! 2016): F(4 x 4, 3 x 3) with four times fewer products, F(2 x 2, 3 x 3) for small sizes, F(2 x 2,
//! 5 x 5), and F(4, 3) and F(2, 5) over rows only where kernels are flat, as in 2-D. A kernel of 3
//! at stride 2 is one of two taps over the even planes (rows), plus one of a single tap over the
//! odd ones: with F(3, 2) for the former, 49 products replace 81, with F(2, 2) 25 replace 36. The
//! same holds for its transpose, the transposed convolution, where the products are those of the
//! source. Along the row, values at even positions are stored before those at odd ones; the two
//! parts of the outputs of the transpose are summed separately, and joined where components become
//! outputs.
//!
//! A tile is a number of planes by a number of rows of outputs. The rows of the source that it
//! reads become components by additions of whole rows ([`transform`]); each component is multiplied
//! with its own weights, whose taps along the row are not transformed, by the same inner loops as
//! in other convolutions ([`super::blocked::channel_tile`]); and the sums become rows of outputs.
//!
//! Where there are at most eight output channels, they fill half of a register, and two tiles share
//! it: lanes 0, 2, 4 .. belong to the first, lanes 1, 3, 5 .. to the second ([`tiles::Bundle`]).
//! The rows of their sources are interleaved, value by value, before they become components;
//! everything that follows is the same, and the outputs are written, or the weight gradients added
//! up, by tile.
//!
//! NaN and infinity reach the same outputs as in the plain sum. The transforms alone would not
//! ensure that (the difference of two infinities is NaN), so the input is checked while it is read,
//! and the plain sum is used where a value is not finite.

mod axis;
mod outputs;
mod taps;
mod tiles;
pub mod transform;
mod weights;

#[cfg(test)]
pub mod tests;

use std::cell::Cell;

pub use outputs::outputs;
pub use tiles::Walk;
pub use weights::weight_gradient;

use crate::scoped;

thread_local! {
    /// Whether this thread uses the plain sums.
    static PLAIN: Cell<bool> = const { Cell::new(false) };
    /// The number of parts of the batch, of which this thread's batches are one.
    static PARTS: Cell<usize> = const { Cell::new(1) };
}

/// Runs work whose batches are one of `parts` parts of a batch, for convolutions that this thread
/// starts: the algorithm is chosen as for the whole batch, so that each image is rounded as it
/// would be there.
pub fn as_part_of<R>(parts: usize, run: impl FnOnce() -> R) -> R {
    scoped(&PARTS, parts.max(1), run)
}

/// The number of parts of the batch, of which the thread's batches are one.
pub fn parts() -> usize {
    PARTS.get()
}

/// Runs work whose convolutions use the plain sums, as far as this thread starts them: their
/// rounding is closer to that of other programs, but they need more products. GPU kernels are not
/// affected.
pub fn plain_sums<R>(run: impl FnOnce() -> R) -> R {
    scoped(&PLAIN, true, run)
}

/// Whether the thread is within [`plain_sums`].
fn are_plain() -> bool {
    PLAIN.get()
}
