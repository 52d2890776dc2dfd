use std::collections::BTreeSet;

use burn::tensor::Tensor;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::foreground_mask::{note_new_keys, to_new_keys};
use super::linear::{Linear, map_linear};
use super::padding::{FilterPadding, filtered};
use super::statistics::image_extremes;
use super::yes;
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Computes gradients by Sobel's kernels: all channels along the first of `spatial_axes`, then all
/// along the next. The default is all axes.
///
/// `normalize_kernels` yields true gradients, `normalize_gradients` scales those along each axis to
/// 0..1. Larger kernels are the kernel of size 3 smoothed by `[1, 2, 1]`. With `new_key_prefix` the
/// gradients are a new value and the image is kept.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::SobelGradients};
/// // A channel for each axis; along the first one the values grow by 16.
/// let image = tiny::apply(SobelGradients::new("image"), tiny::ramp([1, 4, 4, 4]))?;
/// assert_eq!(image.channels(), 3);
/// assert!((image.to_vec()[21] - 16.0).abs() < 1e-3);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SobelGradients {
    keys: Keys,
    #[serde(default = "three")]
    kernel_size: usize,
    #[serde(default)]
    spatial_axes: Option<OneOrMany<i64>>,
    #[serde(default = "yes")]
    normalize_kernels: bool,
    #[serde(default)]
    normalize_gradients: bool,
    #[serde(default = "reflect")]
    padding_mode: FilterPadding,
    #[serde(default)]
    new_key_prefix: Option<String>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The maximum size of a kernel: the numbers of larger unnormalized kernels exceed f32.
const MAX_KERNEL: usize = 63;

fn three() -> usize {
    3
}

fn reflect() -> FilterPadding {
    FilterPadding::Reflect
}

impl SobelGradients {
    /// Creates the transform: along all axes, with kernels of 3 voxels.
    pub fn new(keys: impl Into<Keys>) -> Self {
        SobelGradients {
            keys: keys.into(),
            kernel_size: three(),
            spatial_axes: None,
            normalize_kernels: true,
            normalize_gradients: false,
            padding_mode: reflect(),
            new_key_prefix: None,
            allow_missing_keys: false,
        }
    }

    /// Computes the gradients of one image.
    ///
    /// # Errors
    /// If an axis does not exist, or the image is too small for the kernel and its padding.
    pub fn gradients(&self, mut image: Image) -> Result<Image, TransformError> {
        self.check_parameters().map_err(|e| TransformError::new(e.to_string()))?;
        let n = image.meta.spatial_dims as i64;
        let all: Vec<i64> = (0..n).collect();
        let axes = self.spatial_axes.as_ref().map_or(&all[..], OneOrMany::as_slice);
        let (difference, smooth) = self.kernels();
        let mut found = Vec::with_capacity(axes.len());
        for axis in axes {
            if !(-n..n).contains(axis) {
                return Err(TransformError::new(format!("axis {axis} of an image of {n} spatial axes"))
                    .expected(format!("{} to {}", -n, n - 1)));
            }
            let mut taps: [&[f32]; 3] = [&[]; 3];
            taps[..n as usize].fill(&smooth);
            taps[axis.rem_euclid(n) as usize] = &difference;
            let gradient = filtered(image.clone(), taps, self.padding_mode)?;
            found.push(if self.normalize_gradients { to_unit(gradient) } else { gradient }.data);
        }
        image.data = Tensor::cat(found, 0);
        Ok(image)
    }

    /// Returns the taps that differentiate and those that smooth.
    fn kernels(&self) -> (Vec<f32>, Vec<f32>) {
        let scale = |taps: [f32; 3], by: f32| taps.map(|t| if self.normalize_kernels { t / by } else { t });
        let smooth = scale([1.0, 2.0, 1.0], 4.0);
        let grown =
            |taps: [f32; 3]| (3..self.kernel_size).step_by(2).fold(taps.to_vec(), |taps, _| widen(&taps, smooth));
        (grown(scale([-1.0, 0.0, 1.0], 2.0)), grown(smooth))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if !(3..=MAX_KERNEL).contains(&self.kernel_size) || self.kernel_size.is_multiple_of(2) {
            let message = format!("{} is not an odd number from 3 to {MAX_KERNEL}", self.kernel_size);
            return Err(Fault::at("kernel_size", message));
        }
        match &self.spatial_axes {
            Some(axes) if axes.as_slice().is_empty() => Err(Fault::at("spatial_axes", "is an empty list")),
            Some(axes) if axes.as_slice().iter().any(|a| !(-3..3).contains(a)) => {
                Err(Fault::at("spatial_axes", "has an entry that is not an axis (-3 to 2)"))
            }
            _ => Ok(()),
        }
    }
}

/// Convolves taps with three further taps.
fn widen(taps: &[f32], by: [f32; 3]) -> Vec<f32> {
    let mut wide = vec![0.0; taps.len() + 2];
    for (i, tap) in taps.iter().enumerate() {
        wide[i..i + 3].iter_mut().zip(by).for_each(|(v, b)| *v += tap * b);
    }
    wide
}

/// Scales the smallest value to 0 and the largest to 1; a constant is only divided by itself, if it
/// is positive.
fn to_unit(image: Image) -> Image {
    let Some((low, high)) = image_extremes(&image, false).first().copied() else { return image };
    let shift = if low == high { 0.0 } else { low };
    let factor = if high - shift > 0.0 { 1.0 / (high - shift) } else { 1.0 };
    map_linear(image, &[Linear { shift, factor, ..Linear::IDENTITY }])
}

setters!(SobelGradients {
    /// Size of the kernel in voxels.
    kernel_size: usize,
    /// Axes along which gradients are computed.
    spatial_axes: Option<OneOrMany<i64>>,
    /// Whether kernels are normalized, so that the gradients are true ones.
    normalize_kernels: bool,
    /// Whether to scale the gradients along each axis to 0..1.
    normalize_gradients: bool,
    /// Values beyond the edge.
    padding_mode: FilterPadding,
    /// Prefix of a new key to which the gradients are written.
    new_key_prefix: Option<String>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for SobelGradients {
    fn name(&self) -> &'static str {
        "SobelGradients"
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        to_new_keys(sample, keys, self.new_key_prefix.as_deref(), |image| self.gradients(image))
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.check_parameters()?;
        note_new_keys(&self.keys, self.new_key_prefix.as_deref(), known);
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    SobelGradients,
    r#"keys = ["image"]
spatial_axes = 0"#
);
