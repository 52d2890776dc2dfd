use std::collections::BTreeSet;

use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crop_centers::{WarnOnce, check_samples, cut, same_shape};
use super::fg_bg_to_indices::with_values;
use crate::params::{Keys, check_key, resolve_size};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Crops `num_samples` boxes of `spatial_size` voxels whose centres are drawn with the weights of
/// the first channel of `w_key`.
///
/// A size beyond the image means the whole axis. Centres are drawn among those that keep the box
/// inside. If there are negative weights, the smallest is subtracted from all. If all weights are
/// 0, every centre is equally likely, with one warning that names the file.
///
/// Differs from MONAI: weights that are NaN or infinite are an error, rather than counted as equal.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandWeightedCrop};
/// let step = RandWeightedCrop::new("image", "image", [1, 1, 1]);
/// assert_eq!(tiny::apply(step, tiny::line([0.0, 1.0, 0.0]))?.to_vec(), [1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandWeightedCrop {
    keys: Keys,
    /// Key of the map of weights for the centres.
    w_key: String,
    spatial_size: OneOrMany<i64>,
    #[serde(default = "one")]
    num_samples: usize,
    #[serde(default)]
    allow_missing_keys: bool,
    #[serde(skip)]
    warned: WarnOnce,
}

fn one() -> usize {
    1
}

/// Returns the centres of boxes of `size` voxels, one for each random number in [0, 1); `None` if
/// all weights are 0.
///
/// # Errors
/// If a weight is NaN or infinite, or the map is empty.
pub fn weighted_centers(
    weights: &Image,
    size: [usize; 3],
    random: &[f64],
) -> Result<Option<Vec<[usize; 3]>>, TransformError> {
    let shape = weights.shape();
    let (first, room) = centers(shape, size);
    let mut sums = Vec::new();
    with_values(weights, |values| {
        sums.clear();
        sums.reserve(room.iter().product());
        for x in first[0]..first[0] + room[0] {
            for y in first[1]..first[1] + room[1] {
                let row = &values[(x * shape[1] + y) * shape[2] + first[2]..][..room[2]];
                sums.extend(row.iter().map(|v| f64::from(*v)));
            }
        }
    })?;
    let least = sums.iter().copied().fold(0.0, f64::min);
    let mut total = 0.0;
    for sum in &mut sums {
        total += *sum - least;
        *sum = total;
    }
    if !total.is_finite() || sums.is_empty() {
        let what = if sums.is_empty() { "the weight map is empty" } else { "a weight is NaN or infinite" };
        return Err(TransformError::new(what).expected("finite weights"));
    }
    if total == 0.0 {
        return Ok(None);
    }
    let chosen = random.iter().map(|u| sums.partition_point(|sum| *sum <= u * total).min(sums.len() - 1));
    Ok(Some(chosen.map(|flat| place(flat, first, room)).collect()))
}

/// Returns the first centre and the number of centres along each axis that keep a box inside.
fn centers(shape: [usize; 3], size: [usize; 3]) -> ([usize; 3], [usize; 3]) {
    let inside = |a: usize| shape[a] > size[a];
    (
        std::array::from_fn(|a| if inside(a) { size[a] / 2 } else { shape[a] / 2 }),
        std::array::from_fn(|a| if inside(a) { shape[a] - size[a] } else { shape[a].min(1) }),
    )
}

fn place(flat: usize, first: [usize; 3], room: [usize; 3]) -> [usize; 3] {
    let at = [flat / (room[1] * room[2]), flat / room[2] % room[1], flat % room[2]];
    std::array::from_fn(|a| first[a] + at[a])
}

impl RandWeightedCrop {
    /// Creates the transform: one box per case.
    pub fn new(keys: impl Into<Keys>, w_key: &str, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        RandWeightedCrop {
            keys: keys.into(),
            w_key: w_key.to_owned(),
            spatial_size: spatial_size.into(),
            num_samples: one(),
            allow_missing_keys: false,
            warned: WarnOnce::default(),
        }
    }
}

setters!(RandWeightedCrop {
    /// Number of boxes per case.
    num_samples: usize,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandWeightedCrop {
    fn name(&self) -> &'static str {
        "RandWeightedCrop"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn requires_current_data(&self) -> bool {
        true
    }

    fn reads_boxes(&self, key: &str) -> bool {
        key != self.w_key
    }

    fn effect(&self) -> Effect {
        Effect::sizing("spatial_size", self.spatial_size.as_slice())
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let weights = sample.image(&self.w_key).map_err(|e| e.at(&self.w_key))?;
        let shape = weights.shape();
        let size = resolve_size(&self.spatial_size, shape, weights.meta.spatial_dims)?;
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        same_shape(&sample, &keys, shape, &self.w_key)?;
        let random: Vec<f64> = (0..self.num_samples).map(|_| draw.uniform()).collect();
        let chosen = match weighted_centers(weights, size, &random).map_err(|e| e.at(&self.w_key))? {
            Some(chosen) => chosen,
            None => {
                self.warned.warn(&sample, &self.w_key, || {
                    format!("all weights of `{}` are 0: every centre is equally likely", self.w_key)
                });
                let (first, room) = centers(shape, size);
                let count = room.iter().product::<usize>();
                random.iter().map(|u| place(((u * count as f64) as usize).min(count - 1), first, room)).collect()
            }
        };
        let boxes: Vec<_> = chosen
            .into_iter()
            .map(|center| {
                let start: [usize; 3] = std::array::from_fn(|a| center[a].saturating_sub(size[a] / 2));
                (start, std::array::from_fn(|a| start[a].saturating_add(size[a]).min(shape[a])))
            })
            .collect();
        cut(sample, &keys, &boxes)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_key("w_key", &self.w_key, known)?;
        check_samples(self.num_samples)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;
    use hearth_image::{affine, host_device};
    use proptest::prelude::*;

    fn map(values: Vec<f32>, shape: [usize; 3]) -> Image {
        Image::from_values(values, [1, shape[0], shape[1], shape[2]], affine::IDENTITY, &host_device())
    }

    /// MONAI 1.6.1: `weighted_patch_samples((3, 2, 2), w, 6, RandomState(3))`, w = arange(60) % 7 -
    /// 1 of shape (5, 4, 3), with the numbers `RandomState(3).random(6)`.
    #[test]
    fn centers_are_monais() {
        let weights = map((0..60).map(|i| (i % 7) as f32 - 1.0).collect(), [5, 4, 3]);
        let random = [
            0.550_797_902_574_575_5,
            0.708_147_822_618_104_8,
            0.290_904_738_912_944_3,
            0.510_827_605_197_663,
            0.892_946_954_347_654_7,
            0.896_293_088_933_438_1,
        ];
        let found = weighted_centers(&weights, [3, 2, 2], &random).expect("finite").expect("some weight");
        assert_eq!(found, [[1, 2, 1], [2, 2, 1], [1, 2, 1], [1, 2, 1], [2, 2, 1], [2, 2, 1]]);
    }

    #[test]
    fn weights_that_are_no_numbers_are_refused() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error =
                weighted_centers(&map(vec![1.0, bad, 1.0, 1.0], [4, 1, 1]), [1; 3], &[0.5]).expect_err("no number");
            assert!(error.to_string().contains("NaN"), "{error}");
        }
        assert!(weighted_centers(&map(vec![], [0, 1, 1]), [1; 3], &[0.5]).is_err());
        assert_eq!(weighted_centers(&map(vec![0.0; 8], [2, 2, 2]), [1; 3], &[0.5]), Ok(None));
    }

    proptest! {
        /// Boxes lie inside, and centres have a weight.
        #[test]
        fn centers_have_weight(
            values in prop::collection::vec(prop_oneof![Just(0.0f32), 0.1f32..5.0], 120),
            size in [1i64..8, 1i64..8, -1i64..8],
            seed in any::<u64>(),
        ) {
            let sample = Sample::new("x").with_image("w", map(values.clone(), [6, 5, 4]));
            let step = RandWeightedCrop::new("w", "w", size).num_samples(3_usize);
            for part in step.apply(sample, &DrawKey::new(seed, 0, 0).draw("x", 0, 0)).expect("finite") {
                let cropped = part.image("w").expect("an image").shape();
                for a in 0..3 {
                    let wanted = if size[a] > 0 { (size[a] as usize).min([6, 5, 4][a]) } else { [6, 5, 4][a] };
                    prop_assert_eq!(cropped[a], wanted);
                }
            }
            let random = [0.0, 0.3, 0.999_999_999];
            if let Some(found) = weighted_centers(&map(values.clone(), [6, 5, 4]), [2, 2, 2], &random).expect("finite") {
                for c in found {
                    prop_assert!(values[(c[0] * 5 + c[1]) * 4 + c[2]] > 0.0);
                }
            }
        }
    }
}

transform_entry!(
    RandWeightedCrop,
    r#"keys = ["image"]
w_key = "mask"
spatial_size = [8, 8, 8]
num_samples = 2"#
);
