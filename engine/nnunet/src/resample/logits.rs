//! Resamples the outputs of a network to the size of the image, one head at a time: all heads of a
//! large volume do not fit into memory.

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::axis::{self, linear, nearest};
use super::{Resampling, ResamplingFunction, torch};
use crate::volume::{Axes3, Volume};

/// The heads to be resampled.
pub struct Heads<'a> {
    resampling: Resampling,
    logits: &'a Volume<f16>,
    shape: Axes3,
    separate: Option<usize>,
}

impl<'a> Heads<'a> {
    pub(super) fn new(resampling: Resampling, logits: &'a Volume<f16>, shape: Axes3, separate: Option<usize>) -> Self {
        Heads { resampling, logits, shape, separate }
    }

    /// The number of heads.
    pub fn len(&self) -> usize {
        self.logits.channels
    }

    /// Whether there are no heads.
    pub fn is_empty(&self) -> bool {
        self.logits.channels == 0
    }

    /// The shape of the result: z, y, x.
    pub fn shape(&self) -> Axes3 {
        self.shape
    }

    /// The values of one head at the new size, rounded to half precision for functions that keep
    /// the type of their input.
    pub fn head(&self, index: usize) -> Vec<f32> {
        let (values, from) = (self.logits.channel(index), self.logits.shape);
        let wide = || values.par_iter().map(|value| value.to_f32()).collect::<Vec<f32>>();
        if from == self.shape || self.resampling.function == ResamplingFunction::Nothing {
            return wide();
        }
        match (self.resampling.function, self.resampling.order) {
            (ResamplingFunction::Torch, _) => torch::linear(&wide(), from, self.shape, self.separate),
            (_, 1) => self.linear(values),
            (_, order) => {
                let wide = values.par_iter().map(|value| value.to_f64()).collect();
                let out = axis::resample(wide, from, self.shape, order, self.separate);
                out.into_par_iter().map(|value| f16::from_f64(value).to_f32()).collect()
            }
        }
    }

    /// Linear interpolation in f64, one plane of the result at a time.
    fn linear(&self, values: &[f16]) -> Vec<f32> {
        let (from, to) = (self.logits.shape, self.shape);
        let tables: [Vec<(usize, usize, f64)>; 3] = std::array::from_fn(|axis| {
            let of = |i: usize| match self.separate {
                Some(apart) if apart == axis => {
                    let at = nearest(i, from[axis], to[axis]);
                    (at, at, 0.0)
                }
                _ => linear(i, from[axis], to[axis]),
            };
            (0..to[axis]).map(of).collect()
        });
        let row = |z: usize, y: usize| &values[(z * from[1] + y) * from[2]..][..from[2]];
        let mut out = vec![0.0_f32; to.iter().product()];
        out.par_chunks_mut((to[1] * to[2]).max(1)).zip(&tables[0]).for_each(|(plane, (z0, z1, tz))| {
            // Rows between two planes of the input, blended once for all rows of the result.
            let mut lines = vec![0.0_f64; from[1] * from[2]];
            let mut halves = [vec![0.0_f32; from[2]], vec![0.0_f32; from[2]]];
            for (y, line) in lines.chunks_mut(from[2]).enumerate() {
                let [a, b] = &mut halves;
                row(*z0, y).convert_to_f32_slice(a);
                row(*z1, y).convert_to_f32_slice(b);
                let pairs = a.iter().zip(b.iter());
                line.iter_mut()
                    .zip(pairs)
                    .for_each(|(out, (a, b))| *out = (1.0 - tz) * f64::from(*a) + tz * f64::from(*b));
            }
            let (mut line, mut rounded) = (vec![0.0_f64; from[2]], vec![f16::ZERO; to[2]]);
            for (out, (y0, y1, ty)) in plane.chunks_mut(to[2]).zip(&tables[1]) {
                let pairs = lines[y0 * from[2]..][..from[2]].iter().zip(&lines[y1 * from[2]..][..from[2]]);
                line.iter_mut().zip(pairs).for_each(|(out, (a, b))| *out = (1.0 - ty) * a + ty * b);
                let pairs = out.iter_mut().zip(&tables[2]);
                pairs.for_each(|(out, (x0, x1, tx))| *out = ((1.0 - tx) * line[*x0] + tx * line[*x1]) as f32);
                rounded.convert_from_f32_slice(out);
                rounded.convert_to_f32_slice(out);
            }
        });
        out
    }
}
