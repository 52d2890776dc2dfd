use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::label;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{axes, channels_of, check_connectivity, voxels};
use crate::params::Keys;
use crate::transforms::intensity::on_host;

/// Fills regions enclosed by a label with that label, replacing any other values.
///
/// `applied_labels` are the labels (with several channels: the channels of a one-hot map) that are
/// filled, by default all but 0. A hole at the edge of the image is open. `connectivity` is the
/// number of orthogonal steps between neighbours on a path out of a hole, by default the number of
/// axes. A label map's labels are filled in ascending order; channels of a one-hot map become 0 or
/// 1.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::FillHoles};
/// let ring = tiny::image([1, 3, 3, 1], [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
/// let ring = ring.with_spatial_dims(2);
/// assert_eq!(tiny::apply(FillHoles::new("image"), ring)?.to_vec(), [1.0; 9]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FillHoles {
    keys: Keys,
    #[serde(default)]
    applied_labels: Option<OneOrMany<i64>>,
    #[serde(default)]
    connectivity: Option<usize>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The maximum number of label values of a label map.
const MOST_LABELS: usize = 1 << 12;

impl FillHoles {
    /// Creates the transform: fills the holes of all labels.
    pub fn new(keys: impl Into<Keys>) -> Self {
        FillHoles { keys: keys.into(), applied_labels: None, connectivity: None, allow_missing_keys: false }
    }

    /// Fills one image.
    ///
    /// # Errors
    /// If a label names no channel of a one-hot map, the connectivity is more than the number of
    /// axes, or the image has thousands of values.
    pub fn fill(&self, image: Image) -> Result<Image, TransformError> {
        let (channels, shape, size) = (image.channels(), axes(&image), voxels(&image));
        if size == 0 {
            return Ok(image);
        }
        let connectivity = self.connectivity.unwrap_or(shape.len());
        // MONAI treats an empty list, and a single 0, as an absent list.
        let named = self.applied_labels.as_ref().filter(|l| !matches!(l, OneOrMany::One(0))).map(OneOrMany::as_slice);
        let mut labels: Option<Vec<i64>> = named.filter(|labels| !labels.is_empty()).map(<[i64]>::to_vec);
        if let Some(labels) = &mut labels {
            labels.retain(|label| *label != 0);
            labels.sort_unstable();
        }
        let of_channels = match &labels {
            Some(labels) if channels > 1 => channels_of(labels, channels)?,
            _ => (1..channels).collect(),
        };
        let mut result = Ok(());
        let image = on_host(image, |values| {
            result = if channels > 1 {
                let mut planes: Vec<&mut [f32]> = values.chunks_exact_mut(size).collect();
                of_channels.iter().try_for_each(|channel| {
                    let channel = &mut *planes[*channel];
                    if labels.is_none() && channel.iter().map(|v| f64::from(*v)).sum::<f64>() <= 0.0 {
                        return Ok(());
                    }
                    channel.iter_mut().for_each(|v| *v = f32::from(*v != 0.0));
                    label::fill_holes(channel, &shape, connectivity, 1.0)?;
                    Ok(())
                })
            } else {
                let labels = match labels {
                    Some(labels) => Ok(labels.iter().map(|l| *l as f32).collect()),
                    None => distinct(values),
                };
                labels.and_then(|labels| {
                    labels.iter().try_for_each(|label| {
                        label::fill_holes(values, &shape, connectivity, *label)?;
                        Ok(())
                    })
                })
            };
        });
        result?;
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_connectivity(self.connectivity)
    }
}

/// The label values that occur, ascending, without 0.
fn distinct(values: &[f32]) -> Result<Vec<f32>, TransformError> {
    let mut found: Vec<f32> = Vec::new();
    let mut last = 0.0;
    for value in values {
        if *value == last || *value == 0.0 || value.is_nan() {
            continue;
        }
        last = *value;
        if let Err(place) = found.binary_search_by(|v| v.total_cmp(value)) {
            if found.len() == MOST_LABELS {
                return Err(TransformError::new(format!("the image has more than {MOST_LABELS} different values"))
                    .expected("a label map")
                    .advice("make predictions discrete first (AsDiscrete), or name the labels (applied_labels)"));
            }
            found.insert(place, *value);
        }
    }
    Ok(found)
}

setters!(FillHoles {
    /// Labels to fill (channels of a one-hot map).
    applied_labels: Option<OneOrMany<i64>>,
    /// Maximum number of orthogonal steps between neighbours on a path out of a hole.
    connectivity: Option<usize>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(FillHoles, fill, through_host: |_| true);

#[cfg(test)]
mod tests {
    use super::super::tests::{rows, stack, values};
    use super::*;

    /// The example of MONAI's documentation.
    #[test]
    fn holes_at_the_edge_are_open() {
        let image = rows(&[[1, 1, 1, 2, 2, 2, 3, 3], [1, 0, 1, 2, 0, 0, 3, 0], [1, 1, 1, 2, 2, 2, 3, 3]]);
        let filled = FillHoles::new("x").fill(image).expect("filled");
        let expected = [1, 1, 1, 2, 2, 2, 3, 3, 1, 1, 1, 2, 0, 0, 3, 0, 1, 1, 1, 2, 2, 2, 3, 3];
        assert_eq!(values(&filled), expected);
    }

    #[test]
    fn what_is_enclosed_goes_whatever_it_is() {
        let image = rows(&[[1, 1, 1, 1, 1], [1, 2, 2, 2, 1], [1, 2, 0, 2, 1], [1, 2, 2, 2, 1], [1, 1, 1, 1, 1]]);
        let filled = FillHoles::new("x").fill(image).expect("filled");
        assert_eq!(values(&filled), [1; 25]);
    }

    #[test]
    fn channels_are_filled_and_made_zero_and_one() {
        let ring = rows(&[[2, 2, 2], [2, 0, 2], [2, 2, 2]]);
        let image = stack(&[ring.clone(), ring.clone(), ring]);
        let filled = FillHoles::new("x").applied_labels(OneOrMany::from([2_i64])).fill(image).expect("filled");
        assert_eq!(values(&filled)[..18], [2, 2, 2, 2, 0, 2, 2, 2, 2, 2, 2, 2, 2, 0, 2, 2, 2, 2]);
        assert_eq!(values(&filled)[18..], [1; 9]);
    }

    #[test]
    fn an_image_is_no_label_map() {
        let values: Vec<f32> = (0..10_000).map(|i| i as f32 * 0.5).collect();
        let image =
            Image::from_values(values, [1, 100, 100, 1], hearth_image::affine::IDENTITY, &hearth_image::host_device());
        let text = FillHoles::new("x").fill(image).expect_err("refused").to_string();
        assert!(text.contains("more than 4096 different values") && text.contains("AsDiscrete"), "{text}");
    }
}

transform_entry!(FillHoles, r#"keys = ["mask"]"#);
