//! The numbers that describe the logits.

/// Sums of one class: `p y`, `p` or `p^2`, `y`, `-y log p`, and how much is odd.
pub const SUMS: usize = 5;

/// Of a tensor `[batch, classes, ...]` with so many values behind the classes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub batch: usize,
    pub classes: usize,
    pub volume: usize,
    pub squared: bool,
}
