use hearth_image::orientation::{Labels, RAS_LABELS, Reorder, directions, parse_codes};
use hearth_image::{Image, TransformError, spatial};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Effect;
use crate::params::Keys;

/// Permutes and flips axes to the directions of `axcodes`: `RAS`, for instance, is towards Right,
/// Anterior, Superior.
///
/// Values are unchanged, and every voxel keeps its position in the world. `as_closest_canonical`
/// means `RAS`. `labels` are the (start, end) letters of each world axis; by default they are those
/// of the image's own space.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Orientation};
/// let image = tiny::apply(Orientation::new("image", "LAS"), tiny::line([1.0, 2.0, 3.0]))?;
/// assert_eq!((image.orientation().as_str(), image.to_vec()), ("LAS", vec![3.0, 2.0, 1.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Orientation {
    keys: Keys,
    /// Directions in which the axes grow: `RAS` for right, anterior, superior.
    #[serde(default)]
    axcodes: Option<String>,
    #[serde(default)]
    as_closest_canonical: bool,
    #[serde(default)]
    labels: Option<Labels>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl Orientation {
    /// Creates the transform: reorients these keys to `axcodes`.
    pub fn new(keys: impl Into<Keys>, axcodes: &str) -> Self {
        Orientation {
            keys: keys.into(),
            axcodes: Some(axcodes.to_owned()),
            as_closest_canonical: false,
            labels: None,
            allow_missing_keys: false,
        }
    }

    /// Reorients one image.
    ///
    /// # Errors
    /// If the code does not name each of the image's axes once.
    pub fn turn(&self, image: Image, _place: usize) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        let from = directions(&image.affine, n);
        let to: Vec<(usize, bool)> = if self.as_closest_canonical {
            (0..n).map(|axis| (axis, false)).collect()
        } else {
            let labels = self.labels.unwrap_or_else(|| image.meta.space.labels());
            let code: String = self.axcodes.iter().flat_map(|c| c.chars()).take(n).collect();
            parse_codes(&code, &labels).filter(|to| to.len() == n).ok_or_else(|| {
                TransformError::new(format!("axcodes `{code}` does not name {n} axes"))
                    .expected(format!("a letter of each of {labels:?}"))
            })?
        };
        let how = Reorder::between(&from, &to).ok_or_else(|| {
            TransformError::new(format!("the axes of the image (`{}`) have no clear direction", image.orientation()))
                .expected("an affine whose axes are independent")
                .advice("check the file's sform and qform")
        })?;
        Ok(spatial::reorder(image, &how))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        match &self.axcodes {
            None if !self.as_closest_canonical => {
                Err(Fault::at("axcodes", "is missing; for instance `RAS`, or `as_closest_canonical = true`"))
            }
            Some(code) if self.labels.is_none() && parse_codes(code, &RAS_LABELS).is_none() => {
                Err(Fault::at("axcodes", format!("`{code}` is not an orientation; one of L/R, P/A, I/S per axis")))
            }
            _ => Ok(()),
        }
    }
}

setters!(Orientation {
    /// Whether to reorient to `RAS`, ignoring `axcodes`.
    as_closest_canonical: bool,
    /// Letters of the (start, end) of each world axis.
    labels: Option<Labels>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Orientation {
    fn of_grid(&self) -> Effect {
        Effect::Moves
    }
}

per_image!(Orientation { apply: turn, lazy: true, check: check_parameters, effect: of_grid });

transform_entry!(
    Orientation,
    r#"keys = ["image", "label"]
axcodes = "RAS""#
);
