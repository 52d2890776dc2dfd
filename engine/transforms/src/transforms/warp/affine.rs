use std::collections::BTreeSet;

use hearth_image::spatial::{AffineParameters, GridMode, GridPadding, GridSampling, RotateOrder, Warp, warp};
use hearth_image::{Image, OneOrMany, TransformError, affine as matrices};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, resolve_size};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Rotates, shears, shifts and scales about the centre of the image.
///
/// The numbers describe the mapping from a voxel of the result to the position that is read: a
/// shift of 2 moves the image by -2 voxels, a factor of 2 halves its size. `affine`, a matrix of
/// 3x3 or 4x4 numbers, replaces all of them.
///
/// `rotate_params` are angles in radians (one in 2-D; in 3-D up to three, about the axes of
/// `rotate_order`), `shear_params` 2 or 6 factors (see [`shear`](hearth_image::spatial::shear)),
/// `translate_params` voxels, `scale_params` factors, one per axis. `spatial_size` is the size of
/// the result, about the same centre; an entry that is not positive keeps that axis.
///
/// With `align_corners` the image's affine differs from the sampling by the ratio of n to n - 1
/// voxels, as in MONAI.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Affine};
/// let step = Affine::new("image").translate_params([1.0, 0.0, 0.0]);
/// let values = tiny::apply(step, tiny::line([1.0, 2.0, 3.0]))?.to_vec();
/// assert!((values[0] - 2.0).abs() < 1e-4 && (values[1] - 3.0).abs() < 1e-4);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Affine {
    keys: Keys,
    #[serde(default)]
    rotate_params: OneOrMany<f64>,
    #[serde(default)]
    shear_params: OneOrMany<f64>,
    #[serde(default)]
    translate_params: OneOrMany<f64>,
    #[serde(default = "one")]
    scale_params: OneOrMany<f64>,
    #[serde(default)]
    affine: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    spatial_size: OneOrMany<i64>,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default = "reflection")]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    align_corners: bool,
    #[serde(default)]
    rotate_order: RotateOrder,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> OneOrMany<f64> {
    OneOrMany::One(1.0)
}

pub(super) fn reflection() -> OneOrMany<GridPadding> {
    OneOrMany::One(GridPadding::Reflection)
}

impl Affine {
    /// Creates the transform: no change until parameters are set.
    pub fn new(keys: impl Into<Keys>) -> Self {
        Affine {
            keys: keys.into(),
            rotate_params: OneOrMany::default(),
            shear_params: OneOrMany::default(),
            translate_params: OneOrMany::default(),
            scale_params: one(),
            affine: None,
            spatial_size: OneOrMany::default(),
            mode: OneOrMany::default(),
            padding_mode: reflection(),
            normalized: false,
            align_corners: false,
            rotate_order: RotateOrder::default(),
            allow_missing_keys: false,
        }
    }

    /// Transforms one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If the matrix cannot be inverted, there are too many angles, or the size is too large.
    pub fn transform(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let how = self.warp(&image)?;
        warp(image, &how, GridSampling::of_key(place, &self.mode, &self.padding_mode, self.align_corners))
    }

    /// How an image of this shape is sampled.
    ///
    /// # Errors
    /// Those of [`Affine::transform`].
    pub fn warp(&self, image: &Image) -> Result<Warp, TransformError> {
        let (shape, n) = (image.shape(), image.meta.spatial_dims);
        let size = resolve_size(&self.spatial_size, shape, n)?;
        let matrix = match &self.affine {
            Some(rows) => given_matrix(rows, n)?,
            None => AffineParameters {
                rotate: self.rotate_params.as_slice().to_vec(),
                shear: self.shear_params.as_slice().to_vec(),
                translate: self.translate_params.as_slice().to_vec(),
                scale: self.scale_params.as_slice().to_vec(),
                rotate_order: self.rotate_order.clone(),
            }
            .matrix(n)?,
        };
        Warp::about_centre(&matrix, shape, size, n, self.align_corners, self.normalized)
    }
}

/// A matrix of `n + 1` rows, or the corresponding part of a larger one.
pub(in crate::transforms) fn given_matrix(rows: &[Vec<f64>], n: usize) -> Result<matrices::Affine, TransformError> {
    let length = rows.len();
    let square = (3..=4).contains(&length) && rows.iter().all(|r| r.len() == length);
    if !square || rows.iter().flatten().any(|v| !v.is_finite()) {
        return Err(TransformError::new("`affine` is not a matrix of 3x3 or 4x4 finite numbers"));
    }
    let d = n.min(length - 1);
    let mut out = matrices::IDENTITY;
    for r in 0..d {
        out[r][..d].copy_from_slice(&rows[r][..d]);
        out[r][3] = rows[r][length - 1];
    }
    Ok(out)
}

setters!(Affine {
    /// Rotation angles in radians.
    rotate_params: OneOrMany<f64>,
    /// Factors of the single shears.
    shear_params: OneOrMany<f64>,
    /// Shift in voxels.
    translate_params: OneOrMany<f64>,
    /// Scale factors.
    scale_params: OneOrMany<f64>,
    /// Matrix that replaces all of the above.
    affine: Option<Vec<Vec<f64>>>,
    /// Size of the result in voxels.
    spatial_size: OneOrMany<i64>,
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Whether the matrix yields positions from -1 to 1 instead of voxels.
    normalized: bool,
    /// Whether the ends of an axis are the centres of its first and last voxel, one or per key.
    align_corners: bool,
    /// Rotation axes of the angles.
    rotate_order: RotateOrder,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for Affine {
    fn name(&self) -> &'static str {
        "Affine"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::sizing("spatial_size", self.spatial_size.as_slice())
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.transform(image, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        for (name, values, most) in [
            ("rotate_params", &self.rotate_params, 3),
            ("shear_params", &self.shear_params, 6),
            ("translate_params", &self.translate_params, 3),
            ("scale_params", &self.scale_params, 3),
        ] {
            check_numbers(name, values, most)?;
        }
        if self.scale_params.as_slice().contains(&0.0) {
            return Err(Fault::at("scale_params", "has a factor of 0"));
        }
        match &self.affine {
            Some(rows) => given_matrix(rows, 3).map(|_| ()).map_err(|e| Fault::at("affine", e.to_string())),
            None => Ok(()),
        }
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

/// Checks that there are at most this many numbers, all finite.
pub(super) fn check_numbers(name: &str, values: &OneOrMany<f64>, most: usize) -> Result<(), Fault> {
    let values = values.as_slice();
    if values.len() > most {
        return Err(Fault::at(name, format!("has {} numbers; there are at most {most}", values.len())));
    }
    match values.iter().find(|v| !v.is_finite()) {
        Some(value) => Err(Fault::at(name, format!("has {value}; expected finite numbers"))),
        None => Ok(()),
    }
}

transform_entry!(
    Affine,
    r#"keys = ["image"]
rotate_params = [0.0, 0.0, 0.3]
scale_params = 1.1
padding_mode = "zeros""#
);
