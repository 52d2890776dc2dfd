//! The sums of a convolution on the CPU: which kernels do them.

use rayon::prelude::*;

use super::geometry::Geometry;
use super::wide::{self, Plan, Weight};
use super::{narrow, wide::tile::Kernels};

/// From so many output channels on they fill the lanes of a register well enough.
const WIDE: usize = 9;

/// The inner loops of one processor.
pub struct Loops<'a> {
    pub wide: &'a Kernels,
    pub narrow: &'a narrow::tile::Inner,
}

impl Loops<'_> {
    /// What this processor runs.
    pub fn here() -> Loops<'static> {
        Loops { wide: &wide::tile::KERNELS, narrow: &narrow::tile::INNER }
    }

    /// The convolution: `x` is `[B, I, ...input]`, `weight` `[O, I, ...kernel]`; gives `[B, O, ...output]`.
    pub fn forward(&self, x: &[f32], weight: &[f32], bias: Option<&[f32]>, g: &Geometry) -> Vec<f32> {
        let g = &g.flat_first();
        if g.channels_out < WIDE {
            return narrow::forward(self.narrow, x, weight, bias, g);
        }
        let weight = Weight { values: weight, lane: g.channels_in * g.taps(), channel: g.taps() };
        wide::outputs(self.wide, &Plan::forward(g), g.batch, x, weight, bias)
    }

    /// The gradient with respect to the input, which is also the transposed convolution: `dy` is `[B, O, ...output]`;
    /// gives `[B, I, ...input]`, plus `bias` `[I]`.
    pub fn input_gradient(&self, dy: &[f32], weight: &[f32], bias: Option<&[f32]>, g: &Geometry) -> Vec<f32> {
        let g = &g.flat_first();
        if g.channels_in < WIDE {
            return narrow::input_gradient(self.narrow, dy, weight, bias, g);
        }
        let weight = Weight { values: weight, lane: g.taps(), channel: g.channels_in * g.taps() };
        wide::outputs(self.wide, &Plan::input_gradient(g), g.batch, dy, weight, bias)
    }

    /// The gradient with respect to the weight, `[O, I, ...kernel]`.
    pub fn weight_gradient(&self, x: &[f32], dy: &[f32], g: &Geometry) -> Vec<f32> {
        let g = &g.flat_first();
        if g.channels_out < WIDE {
            return narrow::weight_gradient(self.narrow, x, dy, g);
        }
        wide::weight_gradient(self.wide, x, dy, g)
    }
}

/// The gradient with respect to the bias: the sum of `values` (`[B, channels, ...]`) over everything but the channel.
pub fn bias_gradient(values: &[f32], batch: usize, channels: usize) -> Vec<f32> {
    let each = values.len() / (batch * channels).max(1);
    (0..channels)
        .into_par_iter()
        .map(|c| {
            let image = |b: usize| &values[(b * channels + c) * each..][..each];
            (0..batch).map(|b| image(b).iter().map(|v| f64::from(*v)).sum::<f64>()).sum::<f64>() as f32
        })
        .collect()
}
