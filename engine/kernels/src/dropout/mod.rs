//! Dropout (Srivastava et al., JMLR 15, 2014) whose mask is a function of a key: the same on every
//! device and in the backward pass, and never stored in memory.

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::counter_rng::Key;
use crate::place;

/// The dropped values, and the replacements of dropped and kept ones.
#[derive(Clone, Copy, Debug)]
pub struct Drops {
    /// The key of the draws.
    pub key: Key,
    /// The probability of being dropped.
    pub p: f64,
    /// The number of neighbours that share a draw, in row-major order: 1, or the values of a
    /// channel.
    pub run: usize,
    /// The factor of kept values; that of dropped ones is 0.
    pub scale: f32,
    /// The offsets that are added after scaling: to kept values, and to dropped ones.
    pub offsets: [f32; 2],
}

impl Drops {
    /// The threshold of a draw's 53 bits below which it drops.
    fn threshold(&self) -> u64 {
        // Exact: a power of two.
        (self.p * (1_u64 << 53) as f64).ceil() as u64
    }

    /// The factor and the offset of the values of a draw.
    fn of(&self, draw: u64) -> [f32; 2] {
        let [kept, dropped] = self.offsets;
        if self.key.bits(draw) >> 11 < self.threshold() { [0.0, dropped] } else { [self.scale, kept] }
    }
}

/// Drops values of `x`: the value at `i` in row-major order belongs to draw `i / run`. The result
/// has the shape and type of `x`; gradients flow to `x`.
///
/// # Panics
/// Where `run` is 0.
pub fn dropout<const D: usize>(x: Tensor<D>, drops: Drops) -> Tensor<D> {
    assert!(drops.run > 0, "`run` is 0; a draw of dropout covers at least 1 value");
    if place::takes(&x) {
        return ops::dropout(x, drops);
    }
    let count = x.shape().num_elements();
    let both: Vec<[f32; 2]> = (0..count as u64).into_par_iter().map(|i| drops.of(i / drops.run as u64)).collect();
    let (dims, device, dtype) = (x.dims(), x.device().inner(), x.dtype());
    let part = |which: usize| {
        let values: Vec<f32> = both.iter().map(|both| both[which]).collect();
        Tensor::<D>::from_data(TensorData::new(values, dims), &device).cast(dtype)
    };
    if drops.offsets == [0.0; 2] { x * part(0) } else { x * part(0) + part(1) }
}
