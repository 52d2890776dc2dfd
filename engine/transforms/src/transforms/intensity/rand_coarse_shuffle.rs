use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::coarse::{Hole, Holes};
use super::values::on_host;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Shuffles the voxels within random boxes, each channel separately, with probability `prob`
/// (Kang et al., "PatchShuffle regularization", 2017).
///
/// Number and size of the boxes as in [`RandCoarseDropout`](super::RandCoarseDropout). Runs on the
/// CPU.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandCoarseShuffle};
/// let step = RandCoarseShuffle::new("image", 1, [8, 1, 1]).prob(1.0);
/// let mut values = tiny::apply(step, tiny::ramp([1, 8, 1, 1]))?.to_vec();
/// assert!(!values.is_sorted());
/// values.sort_by(f32::total_cmp);
/// assert_eq!(values, tiny::ramp([1, 8, 1, 1]).to_vec());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandCoarseShuffle {
    keys: Keys,
    /// Number of boxes, or the minimum.
    holes: usize,
    spatial_size: OneOrMany<i64>,
    #[serde(default)]
    max_holes: Option<usize>,
    #[serde(default)]
    max_spatial_size: Option<OneOrMany<i64>>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandCoarseShuffle {
    /// Creates the transform: `holes` boxes of this size, with probability 0.1.
    pub fn new(keys: impl Into<Keys>, holes: usize, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        RandCoarseShuffle {
            keys: keys.into(),
            holes,
            spatial_size: spatial_size.into(),
            max_holes: None,
            max_spatial_size: None,
            prob: tenth(),
            allow_missing_keys: false,
        }
    }

    fn boxes(&self) -> Holes<'_> {
        Holes {
            holes: self.holes,
            spatial_size: &self.spatial_size,
            max_holes: self.max_holes,
            max_spatial_size: self.max_spatial_size.as_ref(),
        }
    }

    fn draw(&self, draw: &Draw, images: &[&Image]) -> Result<(Vec<Hole>, Draw), TransformError> {
        let first = images[0];
        Ok((self.boxes().draw(draw, first.shape(), first.meta.spatial_dims)?, draw.part(0)))
    }

    fn change(&self, image: Image, (holes, draw): &(Vec<Hole>, Draw), place: usize) -> Result<Image, TransformError> {
        let shape = image.shape();
        let draw = draw.part(place as u64);
        Ok(on_host(image, |values| {
            for hole in holes.iter().map(|hole| hole.within(shape)) {
                let length = hole.size[2];
                for channel in values.chunks_exact_mut(shape.iter().product::<usize>().max(1)) {
                    let before: Vec<f32> =
                        hole.rows(shape).flat_map(|row| channel[row..][..length].iter().copied()).collect();
                    let mut order = draw.permutation(before.len()).into_iter();
                    for row in hole.rows(shape) {
                        let new = order.by_ref().take(length).map(|from| before[from]);
                        channel[row..][..length].iter_mut().zip(new).for_each(|(v, new)| *v = new);
                    }
                }
            }
        }))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        self.boxes().check()
    }
}

setters!(RandCoarseShuffle {
    /// Maximum number of boxes; `holes` is the minimum.
    max_holes: Option<usize>,
    /// Maximum size in voxels; `spatial_size` is the minimum.
    max_spatial_size: Option<OneOrMany<i64>>,
    /// Probability that the transform is applied.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandCoarseShuffle, through_host: |_| true);

transform_entry!(
    RandCoarseShuffle,
    r#"keys = ["image"]
holes = 2
spatial_size = 4
prob = 0.5"#
);
