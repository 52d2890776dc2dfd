//! The sizes of one normalization.

use super::Over;

/// The sizes for a tensor `[batch, channels, ...]` with `volume` values per channel.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub batch: usize,
    pub channels: usize,
    pub volume: usize,
    pub over: Over,
    pub eps: f64,
}

impl Shape {
    /// The number of planes: items times channels.
    pub fn planes(&self) -> usize {
        self.batch * self.channels
    }

    /// The number of means.
    pub fn rows(&self) -> usize {
        match self.over {
            Over::Batch => self.channels,
            Over::Groups(groups) => self.batch * groups,
        }
    }

    /// The mean that a plane (item and channel) belongs to.
    pub fn row(&self, plane: usize) -> usize {
        match self.over {
            Over::Batch => plane % self.channels,
            Over::Groups(groups) => plane / (self.channels / groups),
        }
    }

    /// The number of consecutive planes of one mean; `None` where planes of other means lie between
    /// them.
    pub fn planes_together(&self) -> Option<usize> {
        match self.over {
            Over::Batch => (self.batch == 1).then_some(1),
            Over::Groups(groups) => Some(self.channels / groups),
        }
    }

    /// The number of values that share one mean.
    pub fn row_len(&self) -> usize {
        self.planes() * self.volume / self.rows().max(1)
    }

    /// The number of values of the whole tensor.
    #[cfg(feature = "cube")]
    pub fn len(&self) -> usize {
        self.planes() * self.volume
    }
}
