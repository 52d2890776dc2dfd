//! Smooth random fields: values at a few points, interpolated over an image ([`SmoothField`]).

use burn::tensor::{Device, Tensor, TensorData};
use hearth_image::spatial::ResizeMode;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::interpolate;
use hearth_registry::Fault;

use crate::Draw;
use crate::params::per_axis;

/// The most points that a field is made from.
const MOST_POINTS: usize = 1 << 22;

/// The values at the points of a smooth field, with a border of constant values around them.
#[derive(Clone, Debug)]
pub struct SmoothField {
    /// Row-major, channels first.
    values: Vec<f32>,
    /// Channels, and points along each axis.
    shape: [usize; 4],
}

impl SmoothField {
    /// Makes a field of `points`, the values of all channels without the border; `size` are the
    /// channels and the numbers of points along each axis. The border of `pad` points has the value
    /// `pad_val`; axes from `spatial_dims` on have none.
    ///
    /// # Errors
    /// If there are more or fewer values than points.
    pub fn new(
        points: &[f32],
        size: [usize; 4],
        spatial_dims: usize,
        pad: usize,
        pad_val: f32,
    ) -> Result<Self, TransformError> {
        if points.len() != size.iter().product::<usize>() {
            return Err(TransformError::new(format!("{} values of a field", points.len()))
                .expected(format!("one for each of {size:?} points")));
        }
        let border: [usize; 3] = std::array::from_fn(|axis| if axis < spatial_dims { pad } else { 0 });
        let shape = std::array::from_fn(|axis| if axis == 0 { size[0] } else { size[axis] + 2 * border[axis - 1] });
        let mut values = vec![pad_val; shape.iter().product()];
        let [_, x, y, z] = size;
        for (row, given) in points.chunks_exact(z.max(1)).enumerate() {
            let at = [row / (x * y), row / y % x + border[0], row % y + border[1]];
            let start = ((at[0] * shape[1] + at[1]) * shape[2] + at[2]) * shape[3] + border[2];
            values[start..start + z].copy_from_slice(given);
        }
        Ok(SmoothField { values, shape })
    }

    /// Interpolates over a grid of this shape, then scales to the range of the points: `[C, X, Y, Z]`.
    /// A field that is the same everywhere stays as it is.
    pub fn over(&self, shape: [usize; 3], mode: ResizeMode, align_corners: bool, device: &Device) -> Tensor<4> {
        let low = self.values.iter().copied().fold(f32::INFINITY, f32::min);
        let high = self.values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let points = Tensor::<4>::from_data(TensorData::new(self.values.clone(), self.shape), device);
        let field = interpolate(points, shape, mode.kernel(), align_corners);
        if low >= high || self.shape[0] * shape.iter().product::<usize>() <= 1 {
            return field;
        }
        let least = field.clone().min().reshape([1; 4]);
        let most = field.clone().max().reshape([1; 4]);
        (field - least.clone()) / (most - least) * (high - low) + low
    }
}

/// The parameters that the transforms with smooth fields share.
pub(in crate::transforms) struct FieldParameters<'a> {
    pub(in crate::transforms) spatial_size: Option<&'a OneOrMany<i64>>,
    pub(in crate::transforms) rand_size: &'a OneOrMany<usize>,
    pub(in crate::transforms) pad: usize,
    pub(in crate::transforms) pad_val: f32,
}

impl FieldParameters<'_> {
    /// The number of points along each axis of a field over this image.
    fn points(&self, image: &Image) -> Result<[usize; 3], TransformError> {
        let (shape, n) = (image.shape(), image.meta.spatial_dims);
        if let Some(size) = self.spatial_size {
            let size: [i64; 3] = per_axis("spatial_size", size, n, 1)?;
            if (0..n).any(|axis| size[axis] != shape[axis] as i64) {
                return Err(TransformError::new(format!("the image has {:?} voxels", &shape[..n]))
                    .expected(format!("{:?}, the `spatial_size` of the step", &size[..n]))
                    .advice("remove `spatial_size`: fields then have the size of the image"));
            }
        }
        per_axis("rand_size", self.rand_size, n, 1)
    }

    /// Draws the points of a field uniformly from a range, with one channel or one for each axis.
    pub(in crate::transforms) fn draw(
        &self,
        draw: &Draw,
        image: &Image,
        per_axis: bool,
        (low, high): (f64, f64),
    ) -> Result<SmoothField, TransformError> {
        let ([x, y, z], n) = (self.points(image)?, image.meta.spatial_dims);
        let size = [if per_axis { n } else { 1 }, x, y, z];
        let mut points = vec![0.0; size.iter().product()];
        draw.fill_uniform(&mut points, low as f32, high as f32);
        SmoothField::new(&points, size, n, self.pad, self.pad_val)
    }

    /// Checks sizes; `range` is the name and the ends of the range of values.
    pub(in crate::transforms) fn check(&self, range: &str, (low, high): (f64, f64)) -> Result<(), Fault> {
        let sizes = self.rand_size.as_slice();
        if !(1..=3).contains(&sizes.len()) || sizes.contains(&0) {
            return Err(Fault::at("rand_size", "must be one positive number, or one per axis"));
        }
        let axis = |axis: usize| self.rand_size.at(axis).unwrap_or(1).saturating_add(self.pad.saturating_mul(2));
        let points = (0..3).map(axis).fold(1_usize, usize::saturating_mul);
        if points > MOST_POINTS {
            let what = format!("{points} points with the padding; a smooth field has at most {MOST_POINTS}");
            return Err(Fault::at("rand_size", what));
        }
        match low.is_finite() && high.is_finite() && low < high {
            true => Ok(()),
            false => Err(Fault::at(range, format!("{low}..{high} is not a range of finite numbers"))),
        }
    }
}

/// The ends of a `gamma`: a pair, or 0.5 to a number.
pub(super) fn gamma_range(gamma: &OneOrMany<f64>) -> (f64, f64) {
    match gamma.as_slice() {
        [a, b] => (a.min(*b), a.max(*b)),
        one => (0.5, one.first().copied().unwrap_or(0.5)),
    }
}

/// Checks that a `gamma` is one number, or two.
pub(super) fn check_gamma_list(gamma: &OneOrMany<f64>) -> Result<(), Fault> {
    match gamma.as_slice().len() {
        1 | 2 => Ok(()),
        _ => Err(Fault::at("gamma", "must be one number or a pair")),
    }
}
