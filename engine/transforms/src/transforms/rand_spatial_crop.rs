use std::collections::BTreeSet;

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::center_spatial_crop::center_box;
use super::crop_centers::{cut, same_shape};
use crate::params::{Keys, resolve_size};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Crops a box of `roi_size` voxels at a random position, in the same way for all keys; an entry of
/// 0 or less, or beyond the image, means the whole axis.
///
/// With `random_size` the size of each axis is drawn first, from `roi_size` to `max_roi_size` (by
/// default the image's size). Without `random_center` the box lies in the middle.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandSpatialCrop};
/// let step = RandSpatialCrop::new("image", [2, 1, 1]).random_size(false);
/// let values = tiny::apply(step, tiny::ramp([1, 4, 1, 1]))?.to_vec();
/// assert!(values.len() == 2 && values[1] == values[0] + 1.0);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandSpatialCrop {
    keys: Keys,
    roi_size: OneOrMany<i64>,
    #[serde(default)]
    max_roi_size: Option<OneOrMany<i64>>,
    #[serde(default = "yes")]
    random_center: bool,
    #[serde(default)]
    random_size: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

pub(super) fn yes() -> bool {
    true
}

impl RandSpatialCrop {
    /// Creates the transform: a box of this size anywhere in the image.
    pub fn new(keys: impl Into<Keys>, roi_size: impl Into<OneOrMany<i64>>) -> Self {
        RandSpatialCrop {
            keys: keys.into(),
            roi_size: roi_size.into(),
            max_roi_size: None,
            random_center: true,
            random_size: false,
            allow_missing_keys: false,
        }
    }
}

/// The range of boxes that are drawn.
pub(super) struct Boxes {
    /// Smallest size, or the only one.
    pub least: [usize; 3],
    /// Largest size, if the size is drawn.
    pub most: Option<[usize; 3]>,
    /// Whether the position is random instead of the middle.
    pub random_center: bool,
}

impl Boxes {
    /// Creates a range with sizes as in [`RandSpatialCrop`].
    pub(super) fn new(
        (roi_size, max_roi_size): (&OneOrMany<i64>, Option<&OneOrMany<i64>>),
        (random_center, random_size): (bool, bool),
        shape: [usize; 3],
        n: usize,
    ) -> Result<Self, TransformError> {
        let least = resolve_size(roi_size, shape, n)?;
        let most = match (random_size, max_roi_size) {
            (false, _) => None,
            (true, None) => Some(shape),
            (true, Some(most)) => Some(resolve_size(most, shape, n)?),
        };
        Ok(Boxes { least, most, random_center })
    }

    /// Draws the first voxel and one past the last: sizes are drawn first, then positions, axis by
    /// axis.
    pub(super) fn draw(
        &self,
        draw: &Draw,
        shape: [usize; 3],
        n: usize,
    ) -> Result<([usize; 3], [usize; 3]), TransformError> {
        let mut size = self.least;
        if let Some(most) = self.most {
            if (0..n).any(|a| size[a] > most[a]) {
                return Err(TransformError::new(format!(
                    "the smallest box {size:?} is larger than the largest, {most:?}"
                ))
                .expected("a roi_size within max_roi_size, or without that within the image"));
            }
            for axis in 0..n {
                size[axis] += draw.below((most[axis] - size[axis] + 1) as u64) as usize;
            }
        }
        if !self.random_center {
            return Ok(center_box(shape, size));
        }
        let size: [usize; 3] = std::array::from_fn(|a| size[a].min(shape[a]));
        let start: [usize; 3] = std::array::from_fn(|a| match shape[a] - size[a] {
            0 => 0,
            room => draw.below(room as u64 + 1) as usize,
        });
        Ok((start, std::array::from_fn(|a| start[a] + size[a])))
    }
}

/// Returns shape and number of axes of the first key's image; the others must have the same shape.
pub(super) fn common_shape(sample: &Sample, keys: &[(usize, &str)]) -> Result<([usize; 3], usize), TransformError> {
    let Some((_, first)) = keys.first() else { return Ok(([0; 3], 3)) };
    let shape = sample.shape(first).map_err(|e| e.at(first))?;
    same_shape(sample, keys, shape, first)?;
    Ok((shape, sample.meta(first)?.spatial_dims))
}

setters!(RandSpatialCrop {
    /// Largest size in voxels.
    max_roi_size: Option<OneOrMany<i64>>,
    /// Whether the position is random instead of the middle.
    random_center: bool,
    /// Whether the size is drawn, too.
    random_size: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandSpatialCrop {
    fn name(&self) -> &'static str {
        "RandSpatialCrop"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn reads_boxes(&self, _key: &str) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        if self.random_size { Effect::Regrids } else { Effect::sizing("roi_size", self.roi_size.as_slice()) }
    }

    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        let (shape, n) = common_shape(&sample, &keys)?;
        let sizes = (&self.roi_size, self.max_roi_size.as_ref());
        let boxes = Boxes::new(sizes, (self.random_center, self.random_size), shape, n)?;
        let region = boxes.draw(draw, shape, n)?;
        cut(sample, &keys, &[region])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;
    use proptest::prelude::*;

    proptest! {
        /// Every box lies in the image and has a requested size, and all positions and sizes occur.
        #[test]
        fn boxes_lie_inside(
            shape in [1usize..9, 1usize..9, 1usize..9],
            least in [1i64..5, 1i64..5, -1i64..5],
            most in [5i64..9, 5i64..9, 5i64..9],
            flags in any::<[bool; 2]>(),
            seed in any::<u64>(),
        ) {
            let (least, most) = (OneOrMany::from(least), OneOrMany::from(most));
            let boxes = Boxes::new((&least, Some(&most)), (flags[0], flags[1]), shape, 3).expect("sizes");
            let fits = boxes.most.is_none_or(|most| (0..3).all(|a| boxes.least[a] <= most[a]));
            match boxes.draw(&DrawKey::new(seed, 0, 0).draw("x", 0, 0), shape, 3) {
                Err(_) => prop_assert!(!fits),
                Ok((start, end)) => for a in 0..3 {
                    prop_assert!(start[a] < end[a] && end[a] <= shape[a]);
                    let size = end[a] - start[a];
                    prop_assert!(size >= boxes.least[a].min(shape[a]));
                    prop_assert!(size <= boxes.most.map_or(boxes.least[a], |most| most[a]));
                },
            }
        }
    }

    #[test]
    fn every_place_is_drawn() {
        let size = OneOrMany::One(3);
        let boxes = Boxes::new((&size, None), (true, false), [5, 3, 4], 3).expect("sizes");
        let draw = DrawKey::new(1, 0, 0).draw("x", 0, 0);
        let mut seen = [[0; 3]; 3];
        for _ in 0..3000 {
            let (start, _) = boxes.draw(&draw, [5, 3, 4], 3).expect("a box");
            (0..3).for_each(|a| seen[a][start[a]] += 1);
        }
        assert!(seen[0].iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(seen[1], [3000, 0, 0]);
        assert!(seen[2][..2].iter().all(|n| (1350..1650).contains(n)), "{seen:?}");
    }
}

transform_entry!(
    RandSpatialCrop,
    r#"keys = ["image", "label"]
roi_size = [8, 8, 8]
random_size = false"#
);
