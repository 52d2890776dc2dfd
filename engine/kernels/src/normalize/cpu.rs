//! Normalization on the CPU: one task for each channel of each item; sums are combined in a fixed
//! order.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::DType;

use super::ops::NormalizeOps;
use super::shape::Shape;
use crate::flex::{floats, with};
use crate::moments::Moments;
use crate::precision::{Precision, by_precision, filled, read, tensor, with_values, write};
use crate::ranges::kernel;
use crate::simd::widest;

/// The number of values summed in f32 before they are added to a sum in f64.
const RUN: usize = 2048;

/// The number of parallel sums, so that the loops fill registers.
const LANES: usize = 16;

/// The approximate number of values per task.
const TASK: usize = 16 << 10;

impl NormalizeOps for Flex {
    fn normalize(
        mut x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        slope: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let _range = kernel!("normalize", [x, x]);
        let dims = x.layout().shape().to_vec();
        let rows = shape.rows();
        with([weight, bias, slope], |[w, b, s]| {
            if let Some((values, planes)) = own(&mut x).zip(planes_of_task(&shape)) {
                let (mean, variance) = in_place(values, planes, w, b, s, &shape);
                return (x, floats(mean, [rows]), floats(variance, [rows]));
            }
            by_precision!(x.dtype(), S => {
                let (y, mean, variance) = with_values([x], |[x]: [&[S]; 1]| forward(x, w, b, s, &shape));
                (tensor(y, dims), floats(mean, [rows]), floats(variance, [rows]))
            })
        })
    }

    fn normalize_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        slope: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let _range = kernel!("normalize gradient", [x, dy, x]);
        let dims = x.layout().shape().to_vec();
        with([weight, bias, slope, mean, variance], |[w, b, s, m, v]| {
            by_precision!(x.dtype(), S => {
                let run = |[x, dy]: [&[S]; 2]| backward(x, dy, w, b, s, m, v, &shape);
                let (dx, [dw, db, ds]) = with_values([x, dy], run);
                let (channels, slopes) = (shape.channels, ds.len());
                (tensor(dx, dims), floats(dw, [channels]), floats(db, [channels]), floats(ds, [slopes]))
            })
        })
    }
}

/// The sum of `f` over all values.
#[inline(always)]
fn sum(values: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    // Parallel registers: a single one would wait for each addition.
    let mut lanes = [[0.0_f32; LANES]; 4];
    let (chunks, rest) = values.as_chunks::<LANES>();
    let (fours, left) = chunks.as_chunks::<4>();
    for four in fours {
        for (lanes, chunk) in lanes.iter_mut().zip(four) {
            for i in 0..LANES {
                lanes[i] += f(chunk[i]);
            }
        }
    }
    for (lanes, chunk) in lanes.iter_mut().zip(left) {
        for i in 0..LANES {
            lanes[i] += f(chunk[i]);
        }
    }
    let mut whole = 0.0;
    for lanes in &lanes {
        whole += lanes.iter().map(|lane| f64::from(*lane)).sum::<f64>();
    }
    whole + rest.iter().map(|value| f64::from(f(*value))).sum::<f64>()
}

fn moments<S: Precision>(values: &[S]) -> Moments {
    let mut all = Moments::default();
    read([values], RUN, |[run]| {
        let part = widest(
            #[inline(always)]
            || {
                let count = run.len() as f64;
                let mean = sum(run, |v| v) / count;
                let centre = mean as f32;
                // Around a value near the mean; its offset is corrected afterwards.
                let squares = sum(run, |v| (v - centre) * (v - centre));
                let off = mean - f64::from(centre);
                Moments { count, mean, squares: squares - count * off * off }
            },
        );
        all = all.and(part);
    });
    all
}

fn planes_per_task(shape: &Shape) -> usize {
    TASK.div_ceil(shape.volume.max(1))
}

/// The values of a tensor without another owner, f32 in row-major order.
fn own(x: &mut FloatTensor<Flex>) -> Option<&mut [f32]> {
    if x.dtype() != DType::F32 || !x.is_contiguous() || x.layout().start_offset() != 0 {
        return None;
    }
    let count = x.layout().num_elements();
    x.try_storage_mut::<f32>().filter(|values| values.len() == count)
}

/// The number of planes of one mean, where a task takes all of them and there are enough tasks: the
/// values are then still in the cache when they are scaled.
fn planes_of_task(shape: &Shape) -> Option<usize> {
    shape.planes_together().filter(|_| shape.rows() >= 2 * rayon::current_num_threads())
}

/// The moments of a row, plane by plane.
fn of_row<S: Precision>(row: &[S], shape: &Shape) -> Moments {
    row.chunks(shape.volume.max(1)).map(moments).fold(Moments::default(), Moments::and)
}

/// The moments of every plane.
fn of_planes<S: Precision>(x: &[S], shape: &Shape) -> Vec<Moments> {
    x.par_chunks(shape.volume.max(1)).with_min_len(planes_per_task(shape)).map(moments).collect()
}

/// The moments of all rows, from those of their planes.
fn of_rows(planes: &[Moments], shape: &Shape) -> Vec<Moments> {
    let mut rows = vec![Moments::default(); shape.rows()];
    for (plane, part) in planes.iter().enumerate() {
        let row = &mut rows[shape.row(plane)];
        *row = row.and(*part);
    }
    rows
}

/// Mean and variance.
fn statistics(row: Moments) -> (f32, f32) {
    (row.mean as f32, (row.squares / row.count.max(1.0)) as f32)
}

/// Scale and offset of a channel.
fn line(weight: f32, bias: f32, (mean, variance): (f32, f32), eps: f64) -> (f32, f32) {
    let scale = weight * inverse(variance, eps);
    (scale, bias - mean * scale)
}

/// Same as [`forward`], in place; `planes` planes form a row.
fn in_place(
    values: &mut [f32],
    planes: usize,
    weight: &[f32],
    bias: &[f32],
    slope: &[f32],
    shape: &Shape,
) -> (Vec<f32>, Vec<f32>) {
    let volume = shape.volume.max(1);
    let rows = values.par_chunks_mut(planes * volume).with_min_len(TASK.div_ceil(planes * volume)).enumerate();
    let found = rows.map(|(number, row)| {
        let of = statistics(of_row(row, shape));
        for (plane, values) in row.chunks_mut(volume).enumerate() {
            let channel = (number * planes + plane) % shape.channels;
            let (scale, offset) = line(weight[channel], bias[channel], of, shape.eps);
            change(values, scale, offset, slope[channel % slope.len()]);
        }
        of
    });
    found.collect::<Vec<_>>().into_iter().unzip()
}

/// Same as [`in_place`] for values whose moments by plane may be known.
pub fn in_place_of(values: &mut [f32], known: Option<&[Moments]>, [weight, bias, slope]: [&[f32]; 3], shape: &Shape) {
    if let (None, Some(planes)) = (known, planes_of_task(shape)) {
        in_place(values, planes, weight, bias, slope, shape);
        return;
    }
    let found;
    let known = match known {
        Some(known) => known,
        None => {
            found = of_planes(values, shape);
            &found
        }
    };
    let rows: Vec<_> = of_rows(known, shape).into_iter().map(statistics).collect();
    let planes = values.par_chunks_mut(shape.volume.max(1)).with_min_len(planes_per_task(shape)).enumerate();
    planes.for_each(|(plane, values)| {
        let channel = plane % shape.channels;
        let (scale, offset) = line(weight[channel], bias[channel], rows[shape.row(plane)], shape.eps);
        change(values, scale, offset, slope[channel % slope.len()]);
    });
}

/// Output, means and biased variances.
fn forward<S: Precision>(
    x: &[S],
    weight: &[f32],
    bias: &[f32],
    slope: &[f32],
    shape: &Shape,
) -> (Vec<S>, Vec<f32>, Vec<f32>) {
    if let Some(planes) = planes_of_task(shape) {
        return by_row(x, planes, weight, bias, slope, shape);
    }
    let rows = of_rows(&of_planes(x, shape), shape);
    let (mean, variance): (Vec<f32>, Vec<f32>) = rows.into_iter().map(statistics).unzip();
    let output = filled(x.len(), |out| {
        let planes = out.par_chunks_mut(shape.volume.max(1)).zip(x.par_chunks(shape.volume.max(1)));
        planes.with_min_len(planes_per_task(shape)).enumerate().for_each(|(plane, (out, x))| {
            let (row, channel) = (shape.row(plane), plane % shape.channels);
            let of = (mean[row], variance[row]);
            let (scale, offset) = line(weight[channel], bias[channel], of, shape.eps);
            let slope = slope[channel % slope.len()];
            write(out, [x], |_, out, [x]| apply(out, x, scale, offset, slope));
        });
    });
    (output, mean, variance)
}

/// Same as [`forward`], one row at a time.
fn by_row<S: Precision>(
    x: &[S],
    planes: usize,
    weight: &[f32],
    bias: &[f32],
    slope: &[f32],
    shape: &Shape,
) -> (Vec<S>, Vec<f32>, Vec<f32>) {
    let volume = shape.volume.max(1);
    let mut found = Vec::new();
    let output = filled(x.len(), |out| {
        let rows = out.par_chunks_mut(planes * volume).zip(x.par_chunks(planes * volume));
        let rows = rows.with_min_len(TASK.div_ceil(planes * volume)).enumerate().map(|(number, (out, x))| {
            let of = statistics(of_row(x, shape));
            for (plane, (out, x)) in out.chunks_mut(volume).zip(x.chunks(volume)).enumerate() {
                let channel = (number * planes + plane) % shape.channels;
                let (scale, offset) = line(weight[channel], bias[channel], of, shape.eps);
                let slope = slope[channel % slope.len()];
                write(out, [x], |_, out, [x]| apply(out, x, scale, offset, slope));
            }
            of
        });
        found = rows.collect::<Vec<_>>();
    });
    let (mean, variance) = found.into_iter().unzip();
    (output, mean, variance)
}

fn inverse(variance: f32, eps: f64) -> f32 {
    (1.0 / (f64::from(variance) + eps).sqrt()) as f32
}

/// The activation, without a branch, so that the loops around it fill registers.
#[inline(always)]
fn activated(z: f32, slope: f32) -> f32 {
    z * factor(z, slope)
}

#[inline(always)]
fn factor(z: f32, slope: f32) -> f32 {
    if z > 0.0 { 1.0 } else { slope }
}

/// Computes `act(scale x + offset)`.
fn apply(out: &mut [MaybeUninit<f32>], x: &[f32], scale: f32, offset: f32, slope: f32) {
    widest(
        #[inline(always)]
        move || {
            for (out, x) in out.iter_mut().zip(x) {
                out.write(activated(x * scale + offset, slope));
            }
        },
    );
}

/// Computes `act(scale x + offset)` in place, in planes of `volume` values.
pub fn scale(values: &mut [f32], scale: &[f32], offset: &[f32], slope: &[f32], volume: usize) {
    let planes = values.par_chunks_mut(volume).with_min_len(TASK.div_ceil(volume)).enumerate();
    planes.for_each(|(plane, values)| {
        let channel = plane % scale.len();
        change(values, scale[channel], offset[channel], slope[channel % slope.len()]);
    });
}

/// [`apply`] in place.
fn change(values: &mut [f32], scale: f32, offset: f32, slope: f32) {
    widest(
        #[inline(always)]
        move || {
            for value in values {
                *value = activated(*value * scale + offset, slope);
            }
        },
    );
}

/// Computes the gradients with respect to x, weight, bias and slope from the output gradient.
#[expect(clippy::too_many_arguments, reason = "the inputs and the results of the forward pass")]
fn backward<S: Precision>(
    x: &[S],
    dy: &[S],
    weight: &[f32],
    bias: &[f32],
    slope: &[f32],
    mean: &[f32],
    variance: &[f32],
    shape: &Shape,
) -> (Vec<S>, [Vec<f32>; 3]) {
    let volume = shape.volume.max(1);
    let plain = |plane: usize| {
        let (row, channel) = (shape.row(plane), plane % shape.channels);
        let inverse = inverse(variance[row], shape.eps);
        Plane {
            mean: mean[row],
            inverse,
            weight: weight[channel],
            bias: bias[channel],
            slope: slope[channel % slope.len()],
        }
    };
    let parts: Vec<[f64; 3]> = x
        .par_chunks(volume)
        .zip(dy.par_chunks(volume))
        .with_min_len(planes_per_task(shape))
        .enumerate()
        .map(|(plane, (x, dy))| plain(plane).sums(x, dy))
        .collect();
    // By channel for the parameters; by row and weighted for x.
    let mut rows = vec![[0.0_f64; 2]; shape.rows()];
    let mut channels = vec![[0.0_f64; 3]; shape.channels];
    for (plane, part) in parts.iter().enumerate() {
        let channel = plane % shape.channels;
        let row = &mut rows[shape.row(plane)];
        row[0] += part[0] * f64::from(weight[channel]);
        row[1] += part[1] * f64::from(weight[channel]);
        channels[channel].iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    let count = shape.row_len() as f64;
    let dx = filled(x.len(), |out| {
        let planes = out.par_chunks_mut(volume).zip(x.par_chunks(volume)).zip(dy.par_chunks(volume));
        planes.with_min_len(planes_per_task(shape)).enumerate().for_each(|(index, ((out, x), dy))| {
            let sums = rows[shape.row(index)];
            let (plain, first, second) = (plain(index), (sums[0] / count) as f32, (sums[1] / count) as f32);
            write(out, [x, dy], |_, out, [x, dy]| plain.gradient(out, x, dy, first, second));
        });
    });
    let of = |part: usize| channels.iter().map(|sums| sums[part] as f32).collect::<Vec<f32>>();
    let dslope = if slope.len() == shape.channels {
        of(2)
    } else {
        vec![channels.iter().map(|sums| sums[2]).sum::<f64>() as f32]
    };
    (dx, [of(1), of(0), dslope])
}

/// The statistics and parameters of one channel of one item.
#[derive(Clone, Copy)]
struct Plane {
    mean: f32,
    inverse: f32,
    weight: f32,
    bias: f32,
    slope: f32,
}

impl Plane {
    /// The sums of `dz`, `dz * normalized` and `dy * z` where `z` is not positive.
    fn sums<S: Precision>(self, x: &[S], dy: &[S]) -> [f64; 3] {
        let mut all = [0.0_f64; 3];
        read([x, dy], RUN, |[x, dy]| {
            let part = widest(
                #[inline(always)]
                move || {
                    let mut lanes = [[0.0_f32; LANES]; 3];
                    let (xs, dys) = (x.chunks_exact(LANES), dy.chunks_exact(LANES));
                    let rest = xs.remainder().iter().zip(dys.remainder());
                    for (x, dy) in xs.zip(dys) {
                        for i in 0..LANES {
                            let [a, b, c] = self.terms(x[i], dy[i]);
                            lanes[0][i] += a;
                            lanes[1][i] += b;
                            lanes[2][i] += c;
                        }
                    }
                    let mut part = [0.0_f64; 3];
                    for (sum, lanes) in part.iter_mut().zip(lanes) {
                        for lane in lanes {
                            *sum += f64::from(lane);
                        }
                    }
                    for (x, dy) in rest {
                        for (sum, term) in part.iter_mut().zip(self.terms(*x, *dy)) {
                            *sum += f64::from(term);
                        }
                    }
                    part
                },
            );
            all.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        });
        all
    }

    #[inline(always)]
    fn terms(self, x: f32, dy: f32) -> [f32; 3] {
        let normalized = (x - self.mean) * self.inverse;
        let z = normalized * self.weight + self.bias;
        let dz = dy * factor(z, self.slope);
        let tail = dy * if z > 0.0 { 0.0 } else { z };
        [dz, dz * normalized, tail]
    }

    /// `inverse * (weight dz - mean of weight dz - normalized * mean of weight dz normalized)`
    fn gradient(self, out: &mut [MaybeUninit<f32>], x: &[f32], dy: &[f32], first: f32, second: f32) {
        widest(
            #[inline(always)]
            move || {
                for ((out, x), dy) in out.iter_mut().zip(x).zip(dy) {
                    let normalized = (x - self.mean) * self.inverse;
                    let z = normalized * self.weight + self.bias;
                    let dz = dy * factor(z, self.slope);
                    out.write(self.inverse * (dz * self.weight - first - normalized * second));
                }
            },
        );
    }
}
