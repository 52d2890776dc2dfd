use std::collections::HashMap;

use hearth_image::{Image, OneOrMany, TransformError, affine};
use hearth_kernels::label;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{axes, yes};
use crate::params::Keys;
use crate::transforms::intensity::on_host;

/// Sets to 0 objects with at most `min_size` voxels, or with `by_measure` at most that many mm^3
/// (mm^2 in 2-D).
///
/// The definition of an object depends on the values, as in MONAI. An image with values up to 1 (a
/// mask, a one-hot map) is binarized and its connected components are measured. In an image with
/// larger values all voxels of one label value form an object. With `independent_channels = false`
/// the components of all voxels above 0 are measured, and the values are kept. Channels count as a
/// further axis: with `connectivity` above 1 components connect across neighbouring channels.
///
/// The size of a voxel is the image's own; `pixdim` is for images without a geometry (an affine of
/// 1).
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RemoveSmallObjects};
/// let step = RemoveSmallObjects::new("image").min_size(1.0);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 0.0, 1.0, 1.0]))?.to_vec(), [0.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveSmallObjects {
    keys: Keys,
    #[serde(default = "min_size")]
    min_size: f64,
    #[serde(default = "one")]
    connectivity: usize,
    #[serde(default = "yes")]
    independent_channels: bool,
    #[serde(default)]
    by_measure: bool,
    #[serde(default)]
    pixdim: Option<OneOrMany<f64>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn min_size() -> f64 {
    64.0
}

fn one() -> usize {
    1
}

impl RemoveSmallObjects {
    /// Creates the transform: removes objects of less than 64 voxels.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RemoveSmallObjects {
            keys: keys.into(),
            min_size: min_size(),
            connectivity: 1,
            independent_channels: true,
            by_measure: false,
            pixdim: None,
            allow_missing_keys: false,
        }
    }

    /// Cleans one image.
    ///
    /// # Errors
    /// If a label is negative, or `pixdim` does not have one number per axis.
    pub fn remove(&self, image: Image) -> Result<Image, TransformError> {
        let smallest = self.smallest(&image)?;
        let mut shape = axes(&image);
        shape.insert(0, image.channels());
        let connectivity = self.connectivity.clamp(1, shape.len());
        let mut result = Ok(());
        let image = on_host(image, |values| {
            if values.iter().all(|v| *v == values[0]) {
                return;
            }
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            result = match self.independent_channels {
                true if largest > 1.0 => remove_labels(values, smallest),
                independent => {
                    let set = |v: f32| if independent { v != 0.0 } else { v > 0.0 };
                    let mask: Vec<bool> = values.iter().map(|v| set(*v)).collect();
                    label::components(&mask, &shape, connectivity).map_err(TransformError::from).map(|found| {
                        let kept: Vec<bool> = found.regions().iter().map(|r| r.size as f64 > smallest).collect();
                        let mut keep = vec![false; values.len()];
                        found.paint(&mut keep, |component| kept[component].then_some(true));
                        for (value, keep) in values.iter_mut().zip(keep) {
                            *value = match keep {
                                true if independent => 1.0,
                                true => *value,
                                false => 0.0,
                            };
                        }
                    })
                }
            };
        });
        result?;
        Ok(image)
    }

    /// An object with more voxels than this is kept, as in MONAI 1.6.1 with scikit-image 0.26.
    fn smallest(&self, image: &Image) -> Result<f64, TransformError> {
        if !self.by_measure {
            return Ok(self.min_size);
        }
        let n = image.meta.spatial_dims;
        let own = affine::spacing_in(&image.affine, n);
        let spacing: Vec<f64> = match &self.pixdim {
            Some(pixdim) if affine::restrict(&image.affine, n) == affine::IDENTITY => match pixdim {
                OneOrMany::One(value) => vec![*value; n],
                OneOrMany::Many(values) if values.len() == n => values.clone(),
                OneOrMany::Many(values) => {
                    let found = values.len();
                    return Err(TransformError::new(format!("`pixdim` has {found} numbers for {n} axes")));
                }
            },
            _ => own[..n].to_vec(),
        };
        let volume: f64 = spacing.iter().product();
        Ok((self.min_size / if volume == 0.0 { 1.0 } else { volume }).ceil())
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if !self.min_size.is_finite() {
            return Err(Fault::at("min_size", "is not finite"));
        }
        Ok(())
    }
}

/// Removes the label values with too few voxels, over all channels.
fn remove_labels(values: &mut [f32], smallest: f64) -> Result<(), TransformError> {
    let mut counts: HashMap<i32, usize> = HashMap::new();
    for run in values.chunk_by(|a, b| a == b) {
        *counts.entry(run[0] as i32).or_default() += run.len();
    }
    if let Some(negative) = counts.keys().find(|label| **label < 0) {
        return Err(TransformError::new(format!("a label of {negative}")).expected("labels from 0"));
    }
    for run in values.chunk_by_mut(|a, b| a == b) {
        let label = run[0] as i32;
        let enough = counts.get(&label).is_some_and(|count| *count as f64 > smallest);
        run.fill(if enough { label as f32 } else { 0.0 });
    }
    Ok(())
}

setters!(RemoveSmallObjects {
    /// The largest size of a removed object: in voxels, or mm^3 with `by_measure`.
    min_size: f64,
    /// Maximum number of orthogonal steps to a neighbour.
    connectivity: usize,
    /// Whether to process labels separately instead of all voxels above 0.
    independent_channels: bool,
    /// Whether to measure in mm instead of voxels.
    by_measure: bool,
    /// Size of a voxel in mm, for images without a geometry.
    pixdim: Option<OneOrMany<f64>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(RemoveSmallObjects, remove, through_host: |_| true);

#[cfg(test)]
mod tests {
    use super::super::tests::{rows, values};
    use super::*;

    #[test]
    fn sizes_are_measured_on_the_image_s_own_grid() {
        let mut image = rows(&[[1, 1, 0, 1, 0]]);
        let transform = RemoveSmallObjects::new("x").min_size(4.0).by_measure(true);
        // Voxels of 1 mm^2: both objects are too small. Of 4 mm^2: only the second is.
        assert_eq!(values(&transform.remove(image.clone()).expect("removed")), [0; 5]);
        (image.affine[0][0], image.affine[1][1]) = (2.0, -2.0);
        assert_eq!(values(&transform.remove(image.clone()).expect("removed")), [1, 1, 0, 0, 0]);
        let given = transform.clone().pixdim(OneOrMany::One(100.0));
        assert_eq!(values(&given.remove(image.clone()).expect("removed")), [1, 1, 0, 0, 0]);
        image.affine = affine::IDENTITY;
        assert_eq!(values(&given.remove(image.clone()).expect("removed")), [1, 1, 0, 0, 0]);
        let text = transform.pixdim(OneOrMany::from([1.0; 3])).remove(image).expect_err("refused").to_string();
        assert!(text.contains("3 numbers for 2 axes"), "{text}");
    }

    #[test]
    fn labels_are_objects_and_never_negative() {
        let image = rows(&[[2, 0, 2, 0, 1]]);
        let transform = RemoveSmallObjects::new("x").min_size(1.0);
        assert_eq!(values(&transform.remove(image.clone()).expect("removed")), [2, 0, 2, 0, 0]);
        let negative = Image { data: image.data.clone() - 1.5, ..image };
        let text = transform.remove(Image { data: negative.data * 4.0, ..negative }).expect_err("refused").to_string();
        assert!(text.contains("a label of -"), "{text}");
    }
}

transform_entry!(
    RemoveSmallObjects,
    r#"keys = ["mask"]
min_size = 8"#
);
