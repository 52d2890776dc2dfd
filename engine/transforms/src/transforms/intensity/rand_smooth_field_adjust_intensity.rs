use hearth_image::spatial::ResizeMode;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::smooth_field::{FieldParameters, SmoothField, check_gamma_list, gamma_range};
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Multiplies the values by a smooth random field, with probability `prob`.
///
/// The field has `rand_size` random values along each axis, drawn uniformly from `gamma` (a number g
/// means 0.5 to g), with a border of `pad` ones. It is interpolated over the image and scaled to the
/// range of these values. All keys share the values. `spatial_size`, if given, must be the size of the
/// image.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandSmoothFieldAdjustIntensity};
/// let step = RandSmoothFieldAdjustIntensity::new("image", 2).gamma([0.5, 0.9]).prob(1.0);
/// let values = tiny::apply(step, tiny::line([1.0; 4]))?.to_vec();
/// assert!(values.iter().all(|value| (0.5..=0.9).contains(value)) && values[0] != values[3]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandSmoothFieldAdjustIntensity {
    keys: Keys,
    #[serde(default)]
    spatial_size: Option<OneOrMany<i64>>,
    /// Number of random values along each axis, one or per axis.
    rand_size: OneOrMany<usize>,
    #[serde(default)]
    pad: usize,
    #[serde(default)]
    mode: OneOrMany<ResizeMode>,
    #[serde(default)]
    align_corners: bool,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "gammas")]
    gamma: OneOrMany<f64>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn gammas() -> OneOrMany<f64> {
    OneOrMany::from([0.1, 1.0])
}

impl RandSmoothFieldAdjustIntensity {
    /// Creates the transform: factors from 0.1 to 1.0, interpolated by area, with probability 0.1.
    pub fn new(keys: impl Into<Keys>, rand_size: impl Into<OneOrMany<usize>>) -> Self {
        RandSmoothFieldAdjustIntensity {
            keys: keys.into(),
            spatial_size: None,
            rand_size: rand_size.into(),
            pad: 0,
            mode: OneOrMany::default(),
            align_corners: false,
            prob: tenth(),
            gamma: gammas(),
            allow_missing_keys: false,
        }
    }

    fn parameters(&self) -> FieldParameters<'_> {
        let (spatial_size, rand_size) = (self.spatial_size.as_ref(), &self.rand_size);
        FieldParameters { spatial_size, rand_size, pad: self.pad, pad_val: 1.0 }
    }

    fn draw(&self, draw: &Draw, images: &[&Image]) -> Result<SmoothField, TransformError> {
        self.parameters().draw(draw, images[0], false, gamma_range(&self.gamma))
    }

    /// Changes one image by a field; `place` is the index of its key.
    ///
    /// # Errors
    /// None; the type is that of all random transforms.
    pub fn change(&self, image: Image, field: &SmoothField, place: usize) -> Result<Image, TransformError> {
        let mode = self.mode.at(place).unwrap_or_default();
        let field = field.over(image.shape(), mode, self.align_corners, &image.data.device());
        let data = image.data.clone() * field;
        Ok(Image { data, ..image })
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        self.keys.check_list("mode", &self.mode)?;
        check_gamma_list(&self.gamma)?;
        self.parameters().check("gamma", gamma_range(&self.gamma))
    }
}

setters!(RandSmoothFieldAdjustIntensity {
    /// Size of the image in voxels, which it must have.
    spatial_size: Option<OneOrMany<i64>>,
    /// Width of the border of ones around the random values.
    pad: usize,
    /// Interpolation of the field, one or per key.
    mode: OneOrMany<ResizeMode>,
    /// Whether the outermost values are at the centres of the corner voxels.
    align_corners: bool,
    /// Probability that the transform is applied.
    prob: f64,
    /// Range of the values of the field.
    gamma: OneOrMany<f64>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandSmoothFieldAdjustIntensity);

transform_entry!(
    RandSmoothFieldAdjustIntensity,
    r#"keys = ["image"]
rand_size = 4
pad = 1
mode = "trilinear"
gamma = [0.5, 1.5]
prob = 0.5"#
);
