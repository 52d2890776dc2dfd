use std::collections::BTreeSet;

use hearth_image::spatial::{ComputeType, GridMode, GridPadding, GridSampling, resample_to, shape_and_offset};
use hearth_image::{Affine, Image, OneOrMany, TransformError, affine};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::warp::given_matrix;
use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Resamples to the grid of another affine.
///
/// The affine is `dst_affine`, a matrix of 3x3 or 4x4 numbers (voxel to mm), or that of the image
/// `dst_keys` (one for all keys, or one per key); with neither, it is the image's own.
/// `spatial_size` is the size of the grid: one number for all axes, or one per axis, where a
/// negative one keeps that of the image. By default the grid covers the extent of the image.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::SpatialResample};
/// let voxels_of_2_mm = vec![vec![2.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]];
/// let step = SpatialResample::new("image").dst_affine(voxels_of_2_mm);
/// let image = tiny::apply(step, tiny::ramp([1, 5, 1, 1]))?;
/// assert_eq!((image.spacing(), image.shape()), ([2.0, 1.0, 1.0], [3, 1, 1]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpatialResample {
    keys: Keys,
    #[serde(default)]
    dst_affine: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    dst_keys: Option<OneOrMany<String>>,
    #[serde(default)]
    spatial_size: Option<OneOrMany<i64>>,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default)]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default)]
    dtype: Option<OneOrMany<ComputeType>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl SpatialResample {
    /// Creates the transform for these keys: their own affine until another is given.
    pub fn new(keys: impl Into<Keys>) -> Self {
        SpatialResample {
            keys: keys.into(),
            dst_affine: None,
            dst_keys: None,
            spatial_size: None,
            mode: OneOrMany::default(),
            padding_mode: OneOrMany::default(),
            align_corners: OneOrMany::default(),
            dtype: None,
            allow_missing_keys: false,
        }
    }

    /// Resamples one image to the grid of an affine, or of `dst_affine` without one; `place`
    /// is the index of its key.
    ///
    /// # Errors
    /// If an affine cannot be inverted, or the size is too large.
    pub fn resample(&self, image: Image, destination: Option<&Affine>, place: usize) -> Result<Image, TransformError> {
        let (n, shape) = (image.meta.spatial_dims, image.shape());
        let destination = match (destination, &self.dst_affine) {
            (Some(given), _) => affine::restrict(given, n),
            (None, Some(rows)) => given_matrix(rows, n)?,
            (None, None) => affine::restrict(&image.affine, n),
        };
        let size = match &self.spatial_size {
            None => shape_and_offset(shape, n, &image.affine, &destination, false)?.0,
            Some(OneOrMany::Many(sizes)) if sizes.len() < n => {
                return Err(TransformError::new(format!("a size of {} axes for an image of {n}", sizes.len())));
            }
            Some(size) => std::array::from_fn(|axis| match size.at(axis) {
                Some(length) if axis < n && length >= 0 => length as usize,
                _ => shape[axis],
            }),
        };
        let align_corners = self.align_corners.at(place).unwrap_or_default();
        let sampling = GridSampling::of_key(place, &self.mode, &self.padding_mode, align_corners);
        resample_to(image, &destination, size, sampling)
    }

    fn destination_key(&self, place: usize) -> Option<&str> {
        match self.dst_keys.as_ref()? {
            OneOrMany::One(key) => Some(key),
            OneOrMany::Many(keys) => keys.get(place).map(String::as_str),
        }
    }
}

setters!(SpatialResample {
    /// Affine of the grid: rows of a matrix.
    dst_affine: Option<Vec<Vec<f64>>>,
    /// Key of the image whose affine is the grid's, one or per key.
    dst_keys: Option<OneOrMany<String>>,
    /// Size of the grid in voxels; a negative entry keeps that of the image.
    spatial_size: Option<OneOrMany<i64>>,
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Whether the ends of an axis are the centres of its first and last voxel, one or per key.
    align_corners: OneOrMany<bool>,
    /// Type in which MONAI computes; accepted without effect: coordinates are f64, values f32.
    dtype: Option<OneOrMany<ComputeType>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for SpatialResample {
    fn name(&self) -> &'static str {
        "SpatialResample"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let destination = match self.destination_key(place) {
                Some(like) => Some(sample.image(like).map_err(|e| e.at(like))?.affine),
                None => None,
            };
            sample.update(key, |image| self.resample(image, destination.as_ref(), place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        self.keys.check_list("align_corners", &self.align_corners)?;
        if let Some(keys) = &self.dst_keys {
            self.keys.check_list("dst_keys", keys)?;
            keys.as_slice().iter().try_for_each(|key| check_key("dst_keys", key, known))?;
            if self.dst_affine.is_some() {
                return Err(Fault::at("dst_keys", "and dst_affine exclude each other: give one"));
            }
        }
        match &self.dst_affine {
            Some(rows) => given_matrix(rows, 3).map(|_| ()).map_err(|e| Fault::at("dst_affine", e.to_string())),
            None => Ok(()),
        }
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        let values = (0..4 * 5 * 6).map(|v| v as f32).collect();
        Image::from_values(values, [1, 4, 5, 6], affine::IDENTITY, &hearth_image::host_device())
    }

    #[test]
    fn the_grid_of_another_image_is_taken_by_key() {
        let mut like = image();
        like.affine[0][0] = 2.0;
        let sample = Sample::new("case").with_image("image", image()).with_image("like", like);
        let step = SpatialResample::new(["image"]).dst_keys(OneOrMany::One("like".to_owned()));
        let key = crate::DrawKey::new(0, 0, 0);
        let done = step.apply(sample, &key.draw("case", 0, 0)).expect("a sample").remove(0);
        let image = done.image("image").expect("an image");
        // 4 voxels of 1 mm reach from 0 to 3: round(3 / 2 + 1) = 2 of 2 mm (halves go to the even
        // number).
        assert_eq!((image.shape(), image.affine[0][0]), ([2, 5, 6], 2.0));
        assert_eq!(image.to_vec()[30], 60.0);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let known = || BTreeSet::from(["image".to_owned(), "like".to_owned()]);
        let step = || SpatialResample::new(["image"]);
        let rows = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
        assert!(step().dst_affine(rows).check(&mut known()).is_err());
        assert!(step().dst_keys(OneOrMany::One("lik".to_owned())).check(&mut known()).is_err());
        let flat = vec![vec![1.0, 0.0, 0.0, 0.0]; 4];
        let error = step().dst_affine(flat).resample(image(), None, 0).expect_err("a flat grid");
        assert!(error.to_string().contains("inverted"), "{error}");
        let wide = step().spatial_size(OneOrMany::One(1_i64 << 40)).resample(image(), None, 0);
        assert!(wide.expect_err("too large").to_string().contains("at most"));
        assert!(step().spatial_size(OneOrMany::Many(vec![3_i64, 3])).resample(image(), None, 0).is_err());
    }
}

transform_entry!(
    SpatialResample,
    r#"keys = ["image"]
spatial_size = [12, 12, 12]"#
);
