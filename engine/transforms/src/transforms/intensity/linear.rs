//! Linear maps of the values, with one set of numbers for the image or one per channel.

use burn::tensor::{Device, Tensor, TensorData};
use hearth_image::Image;
use hearth_kernels::host;

use super::values::{each_piece, groups};

/// The map `(x - shift) * factor + offset`, then clamped to `low` and `high`. NaN stays NaN; with
/// `keep_zero`, zeros stay zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Linear {
    pub shift: f32,
    pub factor: f32,
    pub offset: f32,
    pub low: f32,
    pub high: f32,
    /// Whether zeros stay zero.
    pub keep_zero: bool,
}

impl Linear {
    /// The identity.
    pub const IDENTITY: Linear =
        Linear { shift: 0.0, factor: 1.0, offset: 0.0, low: f32::NEG_INFINITY, high: f32::INFINITY, keep_zero: false };

    /// Maps `a_min..a_max` to `b_min..b_max`, or to 0..1 if one of them is missing; if the first
    /// range is empty, values are only shifted from `a_min` to `b_min`. `clip` applies to given
    /// ends, and never to an empty range. All as in MONAI.
    pub fn range(a: (f64, f64), b: (Option<f64>, Option<f64>), clip: bool) -> Self {
        let (a_min, a_max) = a;
        let shift = a_min as f32;
        if a_max == a_min {
            return Linear { shift, offset: b.0.unwrap_or(0.0) as f32, ..Linear::IDENTITY };
        }
        let (factor, offset) = match b {
            (Some(low), Some(high)) => ((high - low) / (a_max - a_min), low),
            _ => (1.0 / (a_max - a_min), 0.0),
        };
        let end = |value: Option<f64>, none: f32| value.filter(|_| clip).map_or(none, |v| v as f32);
        Linear {
            shift,
            factor: factor as f32,
            offset: offset as f32,
            low: end(b.0, f32::NEG_INFINITY),
            high: end(b.1, f32::INFINITY),
            keep_zero: false,
        }
    }

    fn clips(&self) -> bool {
        self.low > f32::NEG_INFINITY || self.high < f32::INFINITY
    }

    #[inline(always)]
    fn of(&self, x: f32) -> f32 {
        (x - self.shift) * self.factor + self.offset
    }

    #[inline(always)]
    fn clipped(&self, x: f32) -> f32 {
        let x = self.of(x);
        let x = if x < self.low { self.low } else { x };
        if x > self.high { self.high } else { x }
    }
}

/// Maps all values by the only entry of `maps`, or each channel by its own entry.
pub(super) fn map_linear(mut image: Image, maps: &[Linear]) -> Image {
    let (_, size) = groups(&image, maps.len() > 1);
    let changed = host::change(image.data, |values| {
        for (values, map) in values.chunks_mut(size).zip(maps) {
            if map.keep_zero {
                let of = |x: f32| if x == 0.0 { x } else { map.clipped(x) };
                each_piece(values, |piece| piece.iter_mut().for_each(|v| *v = of(*v)));
            } else if map.clips() {
                each_piece(values, |piece| piece.iter_mut().for_each(|v| *v = map.clipped(*v)));
            } else {
                each_piece(values, |piece| piece.iter_mut().for_each(|v| *v = map.of(*v)));
            }
        }
    });
    image.data = changed.unwrap_or_else(|data| {
        let device = data.device();
        let each = |number: fn(&Linear) -> f32| column(maps.iter().map(number).collect(), &device);
        let zeros = maps.iter().any(|m| m.keep_zero).then(|| (data.clone().equal_elem(0.0), data.clone()));
        let mut data = (data - each(|m| m.shift)) * each(|m| m.factor) + each(|m| m.offset);
        if maps.iter().any(Linear::clips) {
            data = data.max_pair(each(|m| m.low.max(f32::MIN))).min_pair(each(|m| m.high.min(f32::MAX)));
        }
        match zeros {
            Some((zeros, before)) => data.mask_where(zeros, before),
            None => data,
        }
    });
    image
}

/// Converts one number per channel to a tensor that broadcasts over the image.
pub(super) fn column(values: Vec<f32>, device: &Device) -> Tensor<4> {
    let n = values.len();
    Tensor::from_data(TensorData::new(values, [n, 1, 1, 1]), device)
}
