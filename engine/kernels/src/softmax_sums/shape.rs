//! The sizes of the logits.

/// The number of sums of one class: `p y`, `p` or `p^2`, `y`, `-y log p`, and the count of odd
/// values.
pub const SUMS: usize = 5;

/// The sizes for a tensor `[batch, classes, ...]` with `volume` values per class.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub batch: usize,
    pub classes: usize,
    pub volume: usize,
    pub squared: bool,
}
