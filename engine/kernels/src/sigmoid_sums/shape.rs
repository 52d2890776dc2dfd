//! The numbers that describe logits and target.

use super::Focal;

/// Sums of one channel: `s t`, `s` or `s^2`, `t` or `t^2`, the focal term, and how much is odd.
pub const SUMS: usize = 5;

/// Of a tensor `[batch, channels, ...]` with so many values behind the channels.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub batch: usize,
    pub channels: usize,
    pub volume: usize,
    /// Whether the targets are class indices, one for all channels.
    pub indices: bool,
    pub squared: bool,
    pub focal: Option<Focal>,
}
