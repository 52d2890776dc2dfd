use std::collections::BTreeSet;

use hearth_image::spatial::{ResizeMode, check_grid, resize};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::filter::{Approximation, TRUNCATED, gaussian};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, resolve_size};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// The axes to which `spatial_size` applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SizeMode {
    /// All axes.
    #[default]
    All,
    /// The longest axis; the others keep their ratio to it.
    Longest,
}

/// Resizes to `spatial_size` voxels: one number for all axes, or one per axis; an entry that is not
/// positive keeps that axis. Three numbers turn a 2-D image into a 3-D one.
///
/// With `anti_aliasing` an image that shrinks is smoothed first, along the axes that shrink, by a
/// Gaussian of `anti_aliasing_sigma` voxels. The default sigma is half of the factor's
/// excess over 1. A list of sigmas has an entry per key, each one number or one per axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Resize};
/// let image = tiny::apply(Resize::new("image", [2, 1, 1]), tiny::line([1.0, 3.0, 5.0, 7.0]))?;
/// assert!(tiny::is_near(&image, [2.0, 6.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    keys: Keys,
    spatial_size: OneOrMany<i64>,
    #[serde(default)]
    size_mode: SizeMode,
    #[serde(default)]
    mode: OneOrMany<ResizeMode>,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default)]
    anti_aliasing: OneOrMany<bool>,
    #[serde(default)]
    anti_aliasing_sigma: Option<OneOrMany<OneOrMany<f64>>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl Resize {
    /// Creates the transform: by area, along every axis.
    pub fn new(keys: impl Into<Keys>, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        Resize {
            keys: keys.into(),
            spatial_size: spatial_size.into(),
            size_mode: SizeMode::default(),
            mode: OneOrMany::default(),
            align_corners: OneOrMany::default(),
            anti_aliasing: OneOrMany::default(),
            anti_aliasing_sigma: None,
            allow_missing_keys: false,
        }
    }

    /// Resizes one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If the size is too large, or has fewer entries than the image has axes.
    pub fn resize(&self, mut image: Image, place: usize) -> Result<Image, TransformError> {
        let size = self.size(image.shape(), image.meta.spatial_dims)?;
        check_grid(image.channels(), size)?;
        if self.anti_aliasing.at(place).unwrap_or_default() {
            image = self.smooth(image, size, place)?;
        }
        let mode = self.mode.at(place).unwrap_or_default();
        resize(image, size, mode, self.align_corners.at(place).unwrap_or_default())
    }

    fn size(&self, shape: [usize; 3], n: usize) -> Result<[usize; 3], TransformError> {
        match (self.size_mode, self.spatial_size.as_slice()) {
            (SizeMode::Longest, [longest]) if *longest > 0 => {
                let scale = *longest as f64 / shape[..n].iter().copied().max().unwrap_or(1).max(1) as f64;
                let mut size = shape;
                size[..n].iter_mut().for_each(|length| *length = (*length as f64 * scale).round_ties_even() as usize);
                Ok(size)
            }
            (SizeMode::Longest, size) => {
                Err(TransformError::new(format!("the longest axis cannot have the size {size:?}"))
                    .expected("one positive number of voxels"))
            }
            (SizeMode::All, size) => {
                let n = if matches!(self.spatial_size, OneOrMany::Many(_)) { size.len().clamp(n, 3) } else { n };
                resolve_size(&self.spatial_size, shape, n)
            }
        }
    }

    /// Smooths along the axes that shrink.
    fn smooth(&self, mut image: Image, size: [usize; 3], place: usize) -> Result<Image, TransformError> {
        let shape = image.shape();
        let given = match &self.anti_aliasing_sigma {
            None => None,
            Some(OneOrMany::One(sigma)) => Some(sigma),
            Some(OneOrMany::Many(per_key)) => per_key.get(place).or(per_key.last()),
        };
        let sigma: [f64; 3] = std::array::from_fn(|axis| {
            let factor = shape[axis] as f64 / size[axis] as f64;
            match given {
                _ if factor <= 1.0 => 0.0,
                None => (factor - 1.0) / 2.0,
                Some(sigma) => sigma.at(axis).unwrap_or(0.0),
            }
        });
        image.data = gaussian(image.data, sigma, TRUNCATED, Approximation::Erf)
            .map_err(|e| TransformError::new(e.to_string()))?;
        Ok(image)
    }
}

setters!(Resize {
    /// Axes to which `spatial_size` applies.
    size_mode: SizeMode,
    /// Interpolation, one or per key.
    mode: OneOrMany<ResizeMode>,
    /// Whether to align the centres of the corner voxels; for linear and cubic modes, one or per
    /// key.
    align_corners: OneOrMany<bool>,
    /// Whether to smooth first if the image shrinks; one or per key.
    anti_aliasing: OneOrMany<bool>,
    /// The sigma of the Gaussian in voxels, one or per key.
    anti_aliasing_sigma: Option<OneOrMany<OneOrMany<f64>>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for Resize {
    fn name(&self) -> &'static str {
        "Resize"
    }

    /// Smoothing reads the values.
    fn is_lazy(&self) -> bool {
        !self.anti_aliasing.as_slice().contains(&true)
    }

    fn effect(&self) -> Effect {
        match self.size_mode {
            SizeMode::All => Effect::sizing("spatial_size", self.spatial_size.as_slice()),
            SizeMode::Longest => Effect::Regrids,
        }
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.resize(image, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("align_corners", &self.align_corners)?;
        self.keys.check_list("anti_aliasing", &self.anti_aliasing)?;
        let sizes = self.spatial_size.as_slice();
        if sizes.is_empty() || sizes.len() > 3 {
            return Err(Fault::at("spatial_size", format!("has {} entries; it takes 1 to 3", sizes.len())));
        }
        if self.size_mode == SizeMode::Longest && !matches!(sizes, [size] if *size > 0) {
            return Err(Fault::at("spatial_size", "must be one positive number where `size_mode` is `longest`"));
        }
        let sigma = self.anti_aliasing_sigma.iter().flat_map(|s| s.as_slice()).flat_map(|s| s.as_slice());
        if sigma.clone().any(|s| !s.is_finite() || *s < 0.0) {
            return Err(Fault::at("anti_aliasing_sigma", "must be finite numbers, not negative"));
        }
        match &self.anti_aliasing_sigma {
            Some(sigma) => self.keys.check_list("anti_aliasing_sigma", sigma),
            None => Ok(()),
        }
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    Resize,
    r#"keys = ["image"]
spatial_size = [12, 12, 12]
mode = "trilinear""#
);
