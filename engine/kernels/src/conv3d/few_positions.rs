//! Convolutions with many weights that are used at few positions: the deep layers of networks on
//! small patches.
//!
//! Most of their time is spent on reading the weights. The weights are read once, in their own
//! layout, as the left factor of a matrix product; the inputs that each weight multiplies are
//! gathered into the right factor, which is small. No weights are packed, and their gradient is
//! written in the same layout.

use rayon::prelude::*;

use super::blocked::{Behind, Source};
use super::geometry::Geometry;
use super::winograd::parts;
use crate::product::{Left, ROWS, Size, WIDTH, product};

/// The maximum number of outputs of a channel, over all images: with more, packing the weights pays
/// off.
const MOST: usize = 64;

/// The minimum number of weights: packing fewer costs next to nothing.
const FEWEST: usize = 1 << 15;

/// The number of rows of a task.
const TASK: usize = 2 * ROWS;

/// Marks a position outside the input.
const OUTSIDE: u32 = u32::MAX;

/// A prepared convolution of this kind.
pub struct Few<'a> {
    g: &'a Geometry,
    /// The input that each tap and output reads, or [`OUTSIDE`].
    places: Vec<u32>,
    /// The positions of an image that are read and written.
    from: usize,
    to: usize,
}

impl<'a> Few<'a> {
    /// Prepares the convolution; `None` where another algorithm is faster, or the sizes do not fill
    /// registers.
    pub fn new(g: &'a Geometry) -> Option<Self> {
        let to: usize = g.output.iter().product();
        (g.batch * parts() * to <= MOST && g.weight_len() >= FEWEST).then(|| Self::fitting(g)).flatten()
    }

    /// Same as [`new`](Self::new), even where it is slower.
    pub fn fitting(g: &'a Geometry) -> Option<Self> {
        let fits = g.groups == 1
            && g.channels_out.is_multiple_of(TASK)
            && g.channels_in.is_multiple_of(ROWS)
            && (g.channels_in * g.taps()).is_multiple_of(WIDTH);
        let [from, to] = [g.input, g.output].map(|size| size.iter().product::<usize>());
        (fits && from < OUTSIDE as usize).then(|| Few { g, places: places(g), from, to })
    }

    /// The number of columns of the output matrices, zero-padded.
    fn columns(&self) -> usize {
        (self.g.batch * self.to).next_multiple_of(WIDTH)
    }

    /// The number of rows of the input matrices: one for each weight of an output channel.
    fn rows(&self) -> usize {
        self.g.channels_in * self.g.taps()
    }

    /// Computes the convolution, as [`cpu::forward`](super::cpu::forward); `None` where a value is
    /// not finite, because zeros beyond the edge would then turn into NaN.
    pub fn forward(&self, x: Source<'_>, weight: &[f32], behind: Behind<'_>) -> Option<Vec<f32>> {
        let (columns, depth, channels) = (self.columns(), self.rows(), self.g.channels_out);
        let inputs = self.inputs(x);
        let mut sums = vec![0.0; channels * columns];
        sums.par_chunks_mut(TASK * columns).zip(weight.par_chunks(TASK * depth)).for_each(|(sums, weight)| {
            let left = Left { values: weight, row: depth, column: 1 };
            product(left, &inputs, sums, Size { rows: TASK, depth, columns }, false);
        });
        let row = |image: usize, channel: usize| &sums[channel * columns + image * self.to..][..self.to];
        finished(self.g.batch, channels, self.to, row, behind)
    }

    /// Computes the gradient with respect to the input, as
    /// [`cpu::input_gradient`](super::cpu::input_gradient); `None` as above.
    pub fn input_gradient(&self, dy: Source<'_>, weight: &[f32], behind: Behind<'_>) -> Option<Vec<f32>> {
        let (columns, taps, depth) = (self.columns(), self.g.taps(), self.g.channels_out);
        let outputs = self.outputs(dy);
        let (channels, images) = (self.g.channels_in, self.g.batch);
        let mut sums = vec![0.0; channels * images * self.from];
        sums.par_chunks_mut(ROWS * images * self.from).enumerate().for_each(|(task, sums)| {
            let size = Size { rows: ROWS * taps, depth, columns };
            let mut each = vec![0.0; size.rows * columns];
            let left = Left { values: &weight[task * size.rows..], row: 1, column: self.rows() };
            product(left, &outputs, &mut each, size, false);
            for (row, each) in each.chunks_exact(columns).enumerate() {
                let (channel, places) = (row / taps, self.places_of(row % taps));
                let sums = &mut sums[channel * images * self.from..][..images * self.from];
                for (sums, each) in sums.chunks_exact_mut(self.from).zip(each.chunks_exact(self.to)) {
                    let inside = places.iter().zip(each).filter(|(place, _)| **place != OUTSIDE);
                    inside.for_each(|(place, value)| sums[*place as usize] += value);
                }
            }
        });
        let row = |image: usize, channel: usize| &sums[(channel * images + image) * self.from..][..self.from];
        finished(images, channels, self.from, row, behind)
    }

    /// Computes the gradient with respect to the weight, as
    /// [`cpu::weight_gradient`](super::cpu::weight_gradient); `None` as above.
    pub fn weight_gradient(&self, x: &[f32], dy: &[f32]) -> Option<Vec<f32>> {
        if !x.iter().chain(dy).all(|value| value.is_finite()) {
            return None;
        }
        let (depth, columns, apart) = (self.g.batch * self.to, self.rows(), self.columns());
        let outputs = self.outputs(dy.into());
        let taps = self.g.taps();
        // A row of inputs for each output.
        let mut inputs = vec![0.0; depth * columns];
        inputs.par_chunks_mut(columns).enumerate().for_each(|(row, inputs)| {
            let (image, output) = (row / self.to, row % self.to);
            let image = &x[image * self.g.channels_in * self.from..];
            for (tap, places) in self.places.chunks_exact(self.to).enumerate() {
                if places[output] != OUTSIDE {
                    let values = image[places[output] as usize..].iter().step_by(self.from);
                    inputs[tap..].iter_mut().step_by(taps).zip(values).for_each(|(to, value)| *to = *value);
                }
            }
        });
        let mut dw = vec![0.0; self.g.weight_len()];
        dw.par_chunks_mut(TASK * columns).zip(outputs.par_chunks(TASK * apart)).for_each(|(dw, outputs)| {
            let left = Left { values: outputs, row: apart, column: 1 };
            product(left, &inputs, dw, Size { rows: TASK, depth, columns }, false);
        });
        Some(dw)
    }

    fn places_of(&self, tap: usize) -> &[u32] {
        &self.places[tap * self.to..][..self.to]
    }

    /// The inputs that each weight of an output channel multiplies, in order.
    fn inputs(&self, x: Source<'_>) -> Vec<f32> {
        let (columns, taps) = (self.columns(), self.g.taps());
        let mut inputs = vec![0.0; self.rows() * columns];
        inputs.par_chunks_mut(taps * columns).enumerate().for_each(|(channel, rows)| {
            for image in 0..self.g.batch {
                let (values, first) = x.image(image, self.g.channels_in, self.from).channel(channel);
                let values = &values[first..][..self.from];
                for (tap, row) in rows.chunks_exact_mut(columns).enumerate() {
                    let row = &mut row[image * self.to..][..self.to];
                    for (value, place) in row.iter_mut().zip(self.places_of(tap)) {
                        if *place != OUTSIDE {
                            *value = values[*place as usize];
                        }
                    }
                }
            }
        });
        inputs
    }

    /// The outputs of a channel of all images, concatenated.
    fn outputs(&self, dy: Source<'_>) -> Vec<f32> {
        let columns = self.columns();
        let mut outputs = vec![0.0; self.g.channels_out * columns];
        for image in 0..self.g.batch {
            let values = dy.image(image, self.g.channels_out, self.to);
            for (channel, row) in outputs.chunks_exact_mut(columns).enumerate() {
                let (values, first) = values.channel(channel);
                row[image * self.to..][..self.to].copy_from_slice(&values[first..][..self.to]);
            }
        }
        outputs
    }
}

fn places(g: &Geometry) -> Vec<u32> {
    let [kd, kh, kw] = g.kernel;
    let [od, oh, ow] = g.output;
    let mut places = Vec::with_capacity(g.taps() * od * oh * ow);
    let read = |axis: usize, tap: usize, output: usize| -> Option<usize> {
        let place = output * g.stride[axis] + tap * g.dilation[axis];
        place.checked_sub(g.padding[axis]).filter(|place| *place < g.input[axis])
    };
    for tap in 0..kd * kh * kw {
        let (a, b, c) = (tap / (kh * kw), tap / kw % kh, tap % kw);
        for output in 0..od * oh * ow {
            let (i, j, k) = (output / (oh * ow), output / ow % oh, output % ow);
            let place = read(0, a, i).zip(read(1, b, j)).zip(read(2, c, k));
            let at = |((x, y), z): ((usize, usize), usize)| ((x * g.input[1] + y) * g.input[2] + z) as u32;
            places.push(place.map_or(OUTSIDE, at));
        }
    }
    places
}

/// Applies the epilogue to sums, image by image; `None` where a sum is not finite.
fn finished<'a>(
    images: usize,
    channels: usize,
    volume: usize,
    row: impl Fn(usize, usize) -> &'a [f32],
    behind: Behind<'_>,
) -> Option<Vec<f32>> {
    let mut out = Vec::with_capacity(images * channels * volume);
    for image in 0..images {
        (0..channels).for_each(|channel| out.extend_from_slice(row(image, channel)));
    }
    if !out.iter().all(|value| value.is_finite()) {
        return None;
    }
    for image in out.chunks_exact_mut(channels * volume) {
        if let Some(bias) = behind.bias {
            for (row, bias) in image.chunks_exact_mut(volume).zip(bias) {
                row.iter_mut().for_each(|value| *value += bias);
            }
        }
        if let Some(epilogue) = behind.epilogue {
            epilogue.apply(0, image, volume);
        }
    }
    if let Some(plus) = behind.plus {
        out.iter_mut().zip(plus).for_each(|(value, plus)| *value += plus);
    }
    Some(out)
}
