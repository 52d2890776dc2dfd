//! The sizes of logits and target.

use super::Focal;

/// The number of sums of one channel: `s t`, `s` or `s^2`, `t` or `t^2`, the focal term, and the
/// count of odd values.
pub const SUMS: usize = 5;

/// The sizes for a tensor `[batch, channels, ...]` with `volume` values per channel.
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
