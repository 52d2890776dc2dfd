use std::collections::BTreeSet;

use hearth_image::spatial::{
    ComputeType, GridMode, GridPadding, GridSampling, resample_to, scale_affine, shape_and_offset, zoom_affine,
};
use hearth_image::{Image, OneOrMany, TransformError, affine};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Resamples to a voxel size of `pixdim` mm.
///
/// If `pixdim` has fewer entries than axes, the last is repeated; an entry that is not positive (or
/// NaN) keeps that axis. An axis within `min_pixdim..max_pixdim` also keeps its size. Coordinates
/// are f64 and exact: output voxel `i` reads the source at `source_affine^-1 * new_affine * i`. The
/// result is f32.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Spacing};
/// let image = tiny::apply(Spacing::new("image", [2.0, 1.0, 1.0]), tiny::ramp([1, 5, 1, 1]))?;
/// assert_eq!(image.spacing(), [2.0, 1.0, 1.0]);
/// assert!(tiny::is_near(&image, [0.0, 2.0, 4.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spacing {
    keys: Keys,
    /// Voxel size in mm, one or per axis; a non-positive entry keeps that axis.
    pixdim: OneOrMany<f64>,
    #[serde(default)]
    diagonal: bool,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default)]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default)]
    dtype: Option<OneOrMany<ComputeType>>,
    #[serde(default)]
    scale_extent: OneOrMany<bool>,
    #[serde(default)]
    recompute_affine: bool,
    #[serde(default)]
    min_pixdim: Option<OneOrMany<f64>>,
    #[serde(default)]
    max_pixdim: Option<OneOrMany<f64>>,
    #[serde(default = "yes")]
    ensure_same_shape: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn yes() -> bool {
    true
}

impl Spacing {
    /// Creates the transform for these keys: linear.
    pub fn new(keys: impl Into<Keys>, pixdim: impl Into<OneOrMany<f64>>) -> Self {
        Spacing {
            keys: keys.into(),
            pixdim: pixdim.into(),
            diagonal: false,
            mode: OneOrMany::default(),
            padding_mode: OneOrMany::default(),
            align_corners: OneOrMany::default(),
            dtype: None,
            scale_extent: OneOrMany::default(),
            recompute_affine: false,
            min_pixdim: None,
            max_pixdim: None,
            ensure_same_shape: true,
            allow_missing_keys: false,
        }
    }

    /// Resamples one image; `place` is the index of its key, `shape` a fixed output shape.
    ///
    /// # Errors
    /// If the affine's axes are not independent or the result would be too large.
    pub fn resample(&self, image: Image, place: usize, shape: Option<[usize; 3]>) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        let old = affine::spacing_in(&image.affine, n);
        let mut wanted = [0.0; 3];
        for axis in 0..n {
            let target = self.pixdim.at(axis).unwrap_or(f64::NAN);
            let bound = |limits: &Option<OneOrMany<f64>>| match limits {
                // A single number is the limit of the first axis only, as in MONAI.
                Some(OneOrMany::One(value)) if axis == 0 => Some(*value),
                Some(OneOrMany::Many(values)) => values.get(axis).copied(),
                _ => None,
            };
            let low = bound(&self.min_pixdim).filter(|v| !v.is_nan()).map_or(target, |v| v.min(target));
            let high = bound(&self.max_pixdim).filter(|v| !v.is_nan()).map_or(target, |v| v.max(target));
            let fits = low - 1e-3 <= old[axis] && old[axis] <= high + 1e-3;
            wanted[axis] = if fits { old[axis] } else { target };
        }
        let mut destination = zoom_affine(&image.affine, n, wanted, self.diagonal)?;
        let extent = self.scale_extent.at(place).unwrap_or(false);
        let (size, offset) = shape_and_offset(image.shape(), n, &image.affine, &destination, extent)?;
        for axis in 0..n {
            destination[axis][3] = offset[axis];
        }
        let before = image.shape();
        let size = shape.unwrap_or(size);
        let align_corners = self.align_corners.at(place).unwrap_or_default();
        let sampling = GridSampling::of_key(place, &self.mode, &self.padding_mode, align_corners);
        let mut image = resample_to(image, &destination, size, sampling)?;
        if self.recompute_affine {
            image.affine = scale_affine(before, size, n, sampling.align_corners);
        }
        Ok(image)
    }
}

setters!(Spacing {
    /// Whether to drop rotation and flips: the new affine is diagonal.
    diagonal: bool,
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Whether the ends of an axis are the centres of its first and last voxel, one or per key.
    align_corners: OneOrMany<bool>,
    /// Type in which MONAI computes; accepted without effect: coordinates are f64, values f32.
    dtype: Option<OneOrMany<ComputeType>>,
    /// Whether to scale the extent of the voxels instead of the distance between their centres.
    scale_extent: OneOrMany<bool>,
    /// Whether to set the affine finally to the plain scaling between the shapes (MONAI's option).
    recompute_affine: bool,
    /// Smallest spacing that is kept, in mm.
    min_pixdim: Option<OneOrMany<f64>>,
    /// Largest spacing that is kept, in mm.
    max_pixdim: Option<OneOrMany<f64>>,
    /// Whether keys that start on the same grid end on the same grid.
    ensure_same_shape: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for Spacing {
    fn name(&self) -> &'static str {
        "Spacing"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mut first: Option<([usize; 3], [f64; 3], [usize; 3])> = None;
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let image = sample.image(key).map_err(|e| e.at(key))?;
            let (before, spacing) = (image.shape(), image.spacing());
            let shape = first.as_ref().and_then(|(shape, first_spacing, after)| {
                let near = spacing.iter().zip(first_spacing).all(|(a, b)| (a - b).abs() <= 1e-3 + 1e-5 * b.abs());
                (self.ensure_same_shape && before == *shape && near).then_some(*after)
            });
            sample.update(key, |image| self.resample(image, place, shape))?;
            if first.is_none() {
                first = Some((before, spacing, sample.image(key)?.shape()));
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        self.keys.check_list("align_corners", &self.align_corners)?;
        self.keys.check_list("scale_extent", &self.scale_extent)?;
        if self.pixdim.as_slice().is_empty() {
            return Err(Fault::at("pixdim", "is empty"));
        }
        if self.pixdim.as_slice().iter().any(|v| v.is_infinite()) {
            return Err(Fault::at("pixdim", "is infinite"));
        }
        if let (Some(low), Some(high)) = (&self.min_pixdim, &self.max_pixdim) {
            let pairs = low.as_slice().iter().zip(high.as_slice());
            if pairs.clone().any(|(l, h)| h < l || *l < 0.0) {
                return Err(Fault::at("min_pixdim", "must not be negative, nor larger than max_pixdim"));
            }
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    Spacing,
    r#"keys = ["image", "label"]
pixdim = [1.5, 1.5, 2.0]
mode = ["bilinear", "nearest"]"#
);
