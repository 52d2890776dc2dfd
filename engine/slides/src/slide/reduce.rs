//! Reduction and magnification of images with a triangle filter: Pillow's `BILINEAR`.

use std::ops::Range;

use fearless_simd::{Level, Simd, dispatch};

use crate::raster::Samples;

/// The pixels of a source along an axis that are resampled to `count` pixels of a result.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The start of the first pixel, and the span of all pixels, in pixels of the source.
    pub start: f64,
    pub span: f64,
    /// The number of pixels of the source.
    pub len: usize,
    pub count: usize,
}

/// The source pixels and weights of each pixel of a result along an axis.
struct Windows<S> {
    /// The first pixel of the source, and the range of the weights.
    pixels: Vec<(usize, Range<usize>)>,
    weights: Vec<S>,
}

impl<S: Sum> Windows<S> {
    fn new(along: Stretch) -> Self {
        let step = along.span / along.count as f64;
        // A magnification uses the two nearest pixels.
        let reach = step.max(1.0);
        let last = along.len.saturating_sub(1);
        let mut windows = Self { pixels: Vec::with_capacity(along.count), weights: Vec::new() };
        for at in 0..along.count {
            let center = along.start + (at as f64 + 0.5) * step;
            let weight = |x: usize| 1.0 - (x as f64 + 0.5 - center).abs() / reach;
            let mut first = ((center - reach).floor().max(0.0) as usize).min(last);
            let mut end = ((center + reach).ceil().max(0.0) as usize).clamp(first + 1, last + 1);
            // Pixels without weight are omitted, because zero times infinity is NaN; one is kept.
            while first + 1 < end && weight(first) <= 0.0 {
                first += 1;
            }
            while first + 1 < end && weight(end - 1) <= 0.0 {
                end -= 1;
            }
            let total: f64 = (first..end).map(weight).sum();
            let share = |x: usize| if end - first == 1 { 1.0 } else { weight(x) / total };
            let from = windows.weights.len();
            windows.weights.extend((first..end).map(|x| S::of(share(x))));
            windows.pixels.push((first, from..windows.weights.len()));
        }
        windows
    }

    /// Pads all pixels to the same number of weights, with zeros, so that the CPU predicts the end
    /// of each sum. Values must be finite.
    fn pad(&mut self, len: usize) {
        let widest = self.pixels.iter().map(|(_, at)| at.len()).max().unwrap_or(0);
        let mut padded = vec![S::default(); widest * self.pixels.len()];
        for (weights, (first, at)) in padded.chunks_exact_mut(widest.max(1)).zip(&mut self.pixels) {
            let before = (*first + widest).saturating_sub(len);
            *first -= before;
            weights[before..][..at.len()].copy_from_slice(&self.weights[at.clone()]);
        }
        for (at, (_, place)) in self.pixels.iter_mut().enumerate() {
            *place = at * widest..(at + 1) * widest;
        }
        self.weights = padded;
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[S])> {
        self.pixels.iter().map(|(first, at)| (*first, &self.weights[at.clone()]))
    }
}

/// The type of sums.
pub trait Sum:
    Copy + Default + std::ops::AddAssign + std::ops::Mul<Output = Self> + std::ops::Div<Output = Self>
{
    fn of(value: f64) -> Self;
}

impl Sum for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
}

impl Sum for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

/// A sample of an image.
trait Sample: Copy {
    type Sum: Sum + PartialOrd;
    /// Whether the type is an integer, so that every value is finite.
    const IS_INTEGER: bool;
    fn widen(self) -> Self::Sum;
    /// Rounds and clamps to the type.
    fn narrow(sum: Self::Sum) -> Self;
}

macro_rules! sample {
    ($($type:ident in $sum:ident, $is_integer:literal, by $round:expr;)*) => {$(
        impl Sample for $type {
            type Sum = $sum;
            const IS_INTEGER: bool = $is_integer;
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one macro for all types of samples")]
            fn widen(self) -> $sum {
                self as $sum
            }
            #[allow(clippy::unnecessary_cast, reason = "one macro for all types of samples")]
            fn narrow(sum: $sum) -> Self {
                let round: fn($sum) -> $sum = $round;
                round(sum) as $type
            }
        }
    )*};
}

// 32-bit sums are exact to 1 / 250 of a 16-bit step.
sample! {
    u8 in f32, true, by |sum| sum + 0.5;
    u16 in f32, true, by |sum| sum + 0.5;
    i8 in f32, true, by f32::round;
    i16 in f32, true, by f32::round;
    f32 in f32, false, by |sum| sum;
    u32 in f64, true, by f64::round;
    i32 in f64, true, by f64::round;
    f64 in f64, false, by |sum| sum;
}

/// A reduction of images with any number of interleaved channels.
pub struct Reduction {
    pub columns: Stretch,
    pub rows: Stretch,
    pub channels: usize,
    /// Whether the last channel is an opacity, which weights the others.
    pub opacity: bool,
}

impl Reduction {
    /// Resamples `from`, rows x columns of the source. Row `i` of the result is written at
    /// `to[first + i * pitch]`. Both have the same type.
    pub fn run(&self, from: &Samples, to: &mut Samples, first: usize, pitch: usize) {
        macro_rules! pairs {
            ($($kind:ident)*) => {
                match (from, to) {
                    $((Samples::$kind(from), Samples::$kind(to)) => self.run_in(from, &mut to[first..], pitch),)*
                    _ => unreachable!("samples of two types"),
                }
            };
        }
        pairs!(U8 I8 U16 I16 U32 I32 F32 F64)
    }

    /// Sums over rows first: that loop is contiguous, and leaves fewer rows for the second one.
    fn run_in<T: Sample>(&self, from: &[T], to: &mut [T], pitch: usize) {
        let mut columns = Windows::<T::Sum>::new(self.columns);
        if T::IS_INTEGER {
            columns.pad(self.columns.len);
        }
        let rows = Windows::<T::Sum>::new(self.rows);
        let source = self.columns.len * self.channels;
        // Pixels are read with the values behind them.
        let mut sums = vec![T::Sum::default(); source + WIDE];
        let mut weighed = Vec::new();
        let level = Level::new();
        for (row, (first, weights)) in rows.iter().enumerate() {
            let taken = &from[first * source..][..weights.len() * source];
            let sums_of_rows = &mut sums[..source];
            if self.opacity {
                weighed.clear();
                weigh(taken, &mut weighed, self.channels);
                add_rows(&weighed, weights, sums_of_rows, |value| value);
            } else {
                dispatch!(level, simd => simd.vectorize(
                    #[inline(always)]
                    || add_rows(taken, weights, sums_of_rows, T::widen)
                ));
            }
            let to = &mut to[row * pitch..][..self.columns.count * self.channels];
            dispatch!(level, simd => simd.vectorize(
                #[inline(always)]
                || match self.channels {
                    1 => self.finish::<T, 1>(&columns, &sums, to),
                    3 => self.finish::<T, 3>(&columns, &sums, to),
                    4 => self.finish::<T, 4>(&columns, &sums, to),
                    _ => self.finish_any(&columns, &sums, to),
                }
            ));
        }
    }

    /// Sums along a row, for a fixed number of channels. `sums` extends one register beyond its
    /// last pixel.
    #[inline(always)]
    fn finish<T: Sample, const CHANNELS: usize>(&self, columns: &Windows<T::Sum>, sums: &[T::Sum], to: &mut [T]) {
        let (pixels, _) = to.as_chunks_mut::<CHANNELS>();
        for (pixel, (first, weights)) in pixels.iter_mut().zip(columns.iter()) {
            let mut all = [T::Sum::default(); WIDE];
            for (values, weight) in sums[first * CHANNELS..].windows(WIDE).step_by(CHANNELS).zip(weights) {
                for (sum, value) in all.iter_mut().zip(values) {
                    *sum += *value * *weight;
                }
            }
            self.unweigh(&mut all[..CHANNELS]);
            for (to, sum) in pixel.iter_mut().zip(all) {
                *to = T::narrow(sum);
            }
        }
    }

    #[inline(always)]
    fn finish_any<T: Sample>(&self, columns: &Windows<T::Sum>, sums: &[T::Sum], to: &mut [T]) {
        let mut all = vec![T::Sum::default(); self.channels];
        for (pixel, (first, weights)) in to.chunks_exact_mut(self.channels).zip(columns.iter()) {
            all.fill(T::Sum::default());
            for (values, weight) in sums[first * self.channels..].chunks_exact(self.channels).zip(weights) {
                for (sum, value) in all.iter_mut().zip(values) {
                    *sum += *value * *weight;
                }
            }
            self.unweigh(&mut all);
            for (to, sum) in pixel.iter_mut().zip(&all) {
                *to = T::narrow(*sum);
            }
        }
    }

    #[inline(always)]
    fn unweigh<S: Sum + PartialOrd>(&self, pixel: &mut [S]) {
        let Some((opacity, colors)) =
            pixel.split_last_mut().filter(|(opacity, _)| self.opacity && **opacity > S::default())
        else {
            return;
        };
        colors.iter_mut().for_each(|value| *value = *value / *opacity);
    }
}

/// The number of channels whose sums fill one register.
const WIDE: usize = 4;

/// Weighted sums of consecutive rows. A few columns at a time stay in registers.
#[inline(always)]
fn add_rows<T: Copy, S: Sum>(rows: &[T], weights: &[S], sums: &mut [S], widen: impl Fn(T) -> S) {
    const COLUMNS: usize = 16;
    let width = sums.len();
    let mut blocks = sums.chunks_exact_mut(COLUMNS);
    let mut at = 0;
    for block in &mut blocks {
        let mut all = [S::default(); COLUMNS];
        for (row, weight) in rows.chunks_exact(width).zip(weights) {
            for (sum, value) in all.iter_mut().zip(&row[at..at + COLUMNS]) {
                *sum += widen(*value) * *weight;
            }
        }
        block.copy_from_slice(&all);
        at += COLUMNS;
    }
    for (at, sum) in (at..).zip(blocks.into_remainder()) {
        *sum = S::default();
        for (row, weight) in rows.chunks_exact(width).zip(weights) {
            *sum += widen(row[at]) * *weight;
        }
    }
}

/// Weights colours by opacity, so that transparent pixels do not contribute.
fn weigh<T: Sample>(values: &[T], weighed: &mut Vec<T::Sum>, channels: usize) {
    for pixel in values.chunks_exact(channels) {
        let opacity = pixel[channels - 1].widen();
        weighed.extend(pixel[..channels - 1].iter().map(|value| value.widen() * opacity));
        weighed.push(opacity);
    }
}
