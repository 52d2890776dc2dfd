use std::collections::BTreeSet;

use hearth_image::spatial::crop;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Crops a box, given as `roi_center` and `roi_size`, as `roi_start` and `roi_end`, or as
/// `roi_slices`.
///
/// A box is limited to the image. One number for centre and size (or start and end) applies to the
/// first axis only, as in MONAI; axes without an entry are kept whole. `roi_slices` has Python's
/// meaning: `[1, 4]`, `[-3]` (from the third last on), `[]`.
///
/// Differs from MONAI: a box without voxels is an error, unless `allow_empty`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::SpatialCrop};
/// let step = SpatialCrop::between("image", [1, 0, 0], [3, 1, 1]);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0, 3.0, 4.0]))?.to_vec(), [2.0, 3.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpatialCrop {
    keys: Keys,
    /// Centre of the box in voxels; used with `roi_size`.
    #[serde(default)]
    roi_center: Option<OneOrMany<i64>>,
    #[serde(default)]
    roi_size: Option<OneOrMany<i64>>,
    /// First voxel of the box; used with `roi_end`.
    #[serde(default)]
    roi_start: Option<OneOrMany<i64>>,
    /// Voxel after the last of the box; used with `roi_start`.
    #[serde(default)]
    roi_end: Option<OneOrMany<i64>>,
    /// A slice for each axis, `[start, end]` or `[start, end, step]`.
    #[serde(default)]
    roi_slices: Option<Vec<Slice>>,
    #[serde(default)]
    allow_empty: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// A Python slice of an axis: from `start` to `stop` (not included); either may be omitted or count
/// from the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<Option<i64>>", into = "Vec<Option<i64>>")]
pub struct Slice {
    start: Option<i64>,
    stop: Option<i64>,
}

impl Slice {
    /// Creates a slice from `start` to `stop`.
    pub fn new(start: Option<i64>, stop: Option<i64>) -> Self {
        Slice { start, stop }
    }

    /// The selected voxels of an axis of `n`.
    fn resolve(self, n: usize) -> (i64, i64) {
        let n = n as i64;
        let place = |v: i64| if v < 0 { v.saturating_add(n).max(0) } else { v.min(n) };
        (self.start.map_or(0, place), self.stop.map_or(n, place))
    }
}

impl TryFrom<Vec<Option<i64>>> for Slice {
    type Error = String;

    fn try_from(written: Vec<Option<i64>>) -> Result<Self, String> {
        match written[..] {
            [] => Ok(Slice::default()),
            [start] => Ok(Slice::new(start, None)),
            [start, stop] | [start, stop, None | Some(1)] => Ok(Slice::new(start, stop)),
            _ => Err(format!("{written:?} is not a slice of step 1; write [start, stop]")),
        }
    }
}

impl From<Slice> for Vec<Option<i64>> {
    fn from(slice: Slice) -> Self {
        match slice {
            Slice { start: None, stop: None } => vec![],
            Slice { start, stop: None } => vec![start],
            // A recipe cannot express an absent value: such a slice starts at 0.
            Slice { start, stop } => vec![Some(start.unwrap_or(0)), stop],
        }
    }
}

impl SpatialCrop {
    fn empty(keys: Keys) -> Self {
        SpatialCrop {
            keys,
            roi_center: None,
            roi_size: None,
            roi_start: None,
            roi_end: None,
            roi_slices: None,
            allow_empty: false,
            allow_missing_keys: false,
        }
    }

    /// Creates the transform for the box of `size` voxels around `center`.
    pub fn around(keys: impl Into<Keys>, center: impl Into<OneOrMany<i64>>, size: impl Into<OneOrMany<i64>>) -> Self {
        SpatialCrop { roi_center: Some(center.into()), roi_size: Some(size.into()), ..SpatialCrop::empty(keys.into()) }
    }

    /// Creates the transform for the box from `start` to `end` (exclusive).
    pub fn between(keys: impl Into<Keys>, start: impl Into<OneOrMany<i64>>, end: impl Into<OneOrMany<i64>>) -> Self {
        SpatialCrop { roi_start: Some(start.into()), roi_end: Some(end.into()), ..SpatialCrop::empty(keys.into()) }
    }

    /// Creates the transform for the box of these slices, one per axis.
    pub fn slices(keys: impl Into<Keys>, slices: impl Into<Vec<Slice>>) -> Self {
        SpatialCrop { roi_slices: Some(slices.into()), ..SpatialCrop::empty(keys.into()) }
    }

    /// Returns the first voxel and one past the last, per axis, for an image of this shape.
    ///
    /// # Errors
    /// If the parameters do not define a box, or their lengths differ.
    pub fn region(&self, shape: [usize; 3], n: usize) -> Result<([usize; 3], [usize; 3]), Fault> {
        let ranges = self.ranges(shape)?;
        let (mut start, mut end) = ([0; 3], shape);
        for (axis, (from, to)) in ranges.into_iter().enumerate().take(n) {
            let inside = |v: i64| v.clamp(0, shape[axis] as i64) as usize;
            start[axis] = inside(from);
            end[axis] = inside(to).max(start[axis]);
        }
        Ok((start, end))
    }

    fn ranges(&self, shape: [usize; 3]) -> Result<Vec<(i64, i64)>, Fault> {
        if let Some(slices) = self.roi_slices.as_ref().filter(|slices| !slices.is_empty()) {
            return Ok(slices.iter().zip(shape).map(|(slice, n)| slice.resolve(n)).collect());
        }
        match (&self.roi_center, &self.roi_size, &self.roi_start, &self.roi_end) {
            (Some(center), Some(size), _, _) => Ok(pairs("roi_size", center, size)?
                .map(|(center, size)| {
                    let start = center.saturating_sub(size / 2).max(0);
                    (start, start.saturating_add(size))
                })
                .collect()),
            (_, _, Some(start), Some(end)) => {
                Ok(pairs("roi_end", start, end)?.map(|(start, end)| (start.max(0), end.max(start))).collect())
            }
            _ => Err(Fault::at(
                "roi_center",
                "and roi_size, or roi_start and roi_end, or roi_slices must be given: which box is meant?",
            )),
        }
    }

    /// Crops one image; the box may be empty.
    ///
    /// # Errors
    /// If the parameters do not define a box.
    pub fn crop(&self, image: Image) -> Result<Image, TransformError> {
        let region = self.region(image.shape(), image.meta.spatial_dims);
        let (start, end) = region.map_err(|e| TransformError::new(e.to_string()))?;
        Ok(crop(image, start, end))
    }
}

/// Pairs the entries of two lists of equal length, or of one list and a single number.
fn pairs<'a>(
    name: &str,
    a: &'a OneOrMany<i64>,
    b: &'a OneOrMany<i64>,
) -> Result<impl Iterator<Item = (i64, i64)> + 'a, Fault> {
    let (left, right) = (a.as_slice(), b.as_slice());
    let n = left.len().max(right.len());
    if [left.len(), right.len()].iter().any(|len| *len != 1 && *len != n) {
        return Err(Fault::at(name, format!("{} entries and {}: one list is too short", right.len(), left.len())));
    }
    Ok((0..n).filter_map(|axis| Some((a.at(axis)?, b.at(axis)?))))
}

setters!(SpatialCrop {
    /// Whether a box without voxels becomes an empty image, as in MONAI.
    allow_empty: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for SpatialCrop {
    fn name(&self) -> &'static str {
        "SpatialCrop"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn reads_boxes(&self, _key: &str) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let (shape, n) = (sample.shape(key)?, sample.meta(key)?.spatial_dims);
            let (start, end) = self.region(shape, n).map_err(|e| TransformError::new(e.to_string()).at(key))?;
            if !self.allow_empty && (0..3).any(|a| start[a] >= end[a]) {
                return Err(TransformError::new(format!("the box {start:?} to {end:?} holds no voxel"))
                    .expected(format!("a box that meets the {shape:?} voxels of the image"))
                    .at(key));
            }
            sample.crop(key, start, end)?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if let Some(size) = self.roi_size.iter().flat_map(|s| s.as_slice()).find(|size| **size < 0) {
            return Err(Fault::at("roi_size", format!("{size} is not a size")));
        }
        self.ranges([1; 3]).map(|_| ())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `slice(start, stop).indices(5)` of Python.
    #[test]
    fn slices_are_pythons() {
        let resolve = |start, stop| Slice::new(start, stop).resolve(5);
        assert_eq!(resolve(Some(-3), None), (2, 5));
        assert_eq!(resolve(Some(-9), Some(-1)), (0, 4));
        assert_eq!(resolve(None, Some(9)), (0, 5));
        assert_eq!(resolve(Some(7), Some(9)), (5, 5));
        assert!(serde_json::from_str::<Slice>("[0, 4, 2]").is_err());
        assert_eq!(serde_json::from_str::<Slice>("[null, 4]").expect("a slice"), Slice::new(None, Some(4)));
    }

    #[test]
    fn a_box_must_be_said_in_one_way() {
        let check = |crop: SpatialCrop| crop.check(&mut BTreeSet::from(["image".to_owned()]));
        let mut half = SpatialCrop::around("image", 3, 4);
        half.roi_size = None;
        assert!(check(half).is_err());
        assert!(check(SpatialCrop::around("image", [3, 3], [4, 4, 4])).is_err());
        assert!(check(SpatialCrop::around("image", [3, 3], [4, -4])).is_err());
        assert!(check(SpatialCrop::between("image", 3, [4, 4])).is_ok());
    }

    #[test]
    fn a_box_outside_is_an_error() {
        let image = Image::from_values(
            vec![0.0; 8],
            [1, 2, 2, 2],
            hearth_image::affine::IDENTITY,
            &hearth_image::host_device(),
        );
        let sample = Sample::new("x").with_image("image", image);
        let draw = crate::DrawKey::new(0, 0, 0).draw("x", 0, 0);
        let outside = SpatialCrop::between("image", [5, 0, 0], [7, 2, 2]);
        assert!(outside.apply(sample.clone(), &draw).expect_err("outside").to_string().contains("no voxel"));
        let out = outside.allow_empty(true).apply(sample, &draw).expect("an empty image");
        assert_eq!(out[0].shape("image").expect("an image"), [0, 2, 2]);
    }

    proptest! {
        /// For any parameters the box lies in the image.
        #[test]
        fn boxes_lie_inside(a in any::<i64>(), b in any::<i64>(), small in -9i64..9, size in 0i64..9, n in 0usize..9) {
            for crop in [
                SpatialCrop::around("image", a, b), SpatialCrop::between("image", a, b),
                SpatialCrop::around("image", small, size), SpatialCrop::slices("image", [Slice::new(Some(a), Some(small))]),
            ] {
                let (start, end) = crop.region([n, 3, 3], 3).expect("a box");
                prop_assert!(start[0] <= end[0] && end[0] <= n && start[1..] == [0, 0] && end[1..] == [3, 3]);
            }
        }
    }
}

transform_entry!(
    SpatialCrop,
    r#"keys = ["image"]
roi_start = [2, 2, 2]
roi_end = [10, 10, 10]"#
);
