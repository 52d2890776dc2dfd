use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::label::{self, To};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{axes, voxels};
use crate::params::Keys;
use crate::transforms::intensity::on_host;

/// Computes the distance of every nonzero voxel to the nearest zero voxel, for each channel
/// separately; exact, in f32.
///
/// `sampling` is the size of a voxel, one number or one per axis; by default distances are in
/// voxels. In a channel without a 0, distances are to a voxel before the first one, as in scipy.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::DistanceTransformEDT};
/// let mask = tiny::line([0.0, 1.0, 1.0, 1.0, 0.0]);
/// let image = tiny::apply(DistanceTransformEDT::new("image"), mask)?;
/// assert_eq!(image.to_vec(), [0.0, 1.0, 2.0, 1.0, 0.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DistanceTransformEDT {
    keys: Keys,
    #[serde(default)]
    sampling: Option<OneOrMany<f64>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl DistanceTransformEDT {
    /// Creates the transform: distances in voxels.
    pub fn new(keys: impl Into<Keys>) -> Self {
        DistanceTransformEDT { keys: keys.into(), sampling: None, allow_missing_keys: false }
    }

    /// Computes the distances in one image.
    ///
    /// # Errors
    /// If `sampling` does not have one number per axis.
    pub fn distances(&self, image: Image) -> Result<Image, TransformError> {
        let (shape, size) = (axes(&image), voxels(&image));
        let spacing = match &self.sampling {
            None => vec![1.0; shape.len()],
            Some(OneOrMany::One(value)) => vec![*value; shape.len()],
            Some(OneOrMany::Many(values)) => values.clone(),
        };
        if size == 0 {
            return Ok(image);
        }
        let mut result = Ok(());
        let image = on_host(image, |values| {
            result = values.chunks_exact_mut(size).try_for_each(|channel| {
                let distances = label::distances(channel, &shape, &spacing, To::Unset)?;
                channel.copy_from_slice(&distances);
                if channel.first() == Some(&f32::INFINITY) {
                    from_before(channel, &shape, &spacing);
                }
                Ok::<_, TransformError>(())
            });
        });
        result?;
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        let values = self.sampling.as_ref().map_or(&[][..], OneOrMany::as_slice);
        match values.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
            Some(value) => Err(Fault::at("sampling", format!("{value} is not a voxel size"))),
            None => Ok(()),
        }
    }
}

/// Computes distances to the voxel one step before the first, along the first axis.
fn from_before(channel: &mut [f32], shape: &[usize], spacing: &[f64]) {
    for (index, value) in channel.iter_mut().enumerate() {
        let mut rest = index;
        let mut squared = 0.0;
        for axis in (0..shape.len()).rev() {
            let place = rest % shape[axis] + usize::from(axis == 0);
            rest /= shape[axis];
            squared += (place as f64 * spacing[axis]).powi(2);
        }
        *value = squared.sqrt() as f32;
    }
}

setters!(DistanceTransformEDT {
    /// Size of a voxel, one number or one per axis.
    sampling: Option<OneOrMany<f64>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(DistanceTransformEDT, distances, through_host: |_| true);

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;

    #[test]
    fn a_channel_without_background_is_measured_from_before_its_first_voxel() {
        // scipy.ndimage.distance_transform_edt(numpy.ones((2, 3)), sampling=[2, 3])
        let transform = DistanceTransformEDT::new("x").sampling(OneOrMany::from([2.0, 3.0]));
        let found = transform.distances(rows(&[[1, 1, 1], [1, 1, 1]])).expect("distances").to_vec();
        let expected = [2.0, 3.605_551_3, 6.324_555_4, 4.0, 5.0, 7.211_102_5];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    }

    #[test]
    fn a_spacing_for_other_axes_is_refused() {
        let three = DistanceTransformEDT::new("x").sampling(OneOrMany::from([1.0; 3]));
        let text = three.distances(rows(&[[1, 0]])).expect_err("refused").to_string();
        assert!(text.contains("spacing [1.0, 1.0, 1.0] for 2 axes"), "{text}");
        assert!(DistanceTransformEDT::new("x").sampling(OneOrMany::One(0.0)).check_parameters().is_err());
    }
}

transform_entry!(DistanceTransformEDT, r#"keys = ["mask"]"#);
