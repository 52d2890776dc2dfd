//! The numbers that describe one normalization.

use super::Over;

/// For a tensor `[batch, channels, ...]` with `volume` values per channel.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub batch: usize,
    pub channels: usize,
    pub volume: usize,
    pub over: Over,
    pub eps: f64,
}

impl Shape {
    /// Items times channels.
    pub fn planes(&self) -> usize {
        self.batch * self.channels
    }

    /// How many means there are.
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

    /// Planes of one mean that follow each other; `None` where those of other means lie between.
    pub fn planes_together(&self) -> Option<usize> {
        match self.over {
            Over::Batch => (self.batch == 1).then_some(1),
            Over::Groups(groups) => Some(self.channels / groups),
        }
    }

    /// Values that share one mean.
    pub fn row_len(&self) -> usize {
        self.planes() * self.volume / self.rows().max(1)
    }

    /// Values of the whole tensor.
    #[cfg(feature = "cube")]
    pub fn len(&self) -> usize {
        self.planes() * self.volume
    }
}
