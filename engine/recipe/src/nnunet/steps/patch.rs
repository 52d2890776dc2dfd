//! A patch of a case, rotated and scaled like in nnU-Net's loader and spatial transform.

use std::collections::BTreeSet;

use hearth_data::affine::{compose, translation};
use hearth_data::spatial::crop;
use hearth_data::{Draw, Effect, Fault, Image, IndexList, Keys, Sample, Transform, TransformError};
use hearth_nnunet::Volume;
use hearth_nnunet::augment::{patch, spatial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_previous, describe, probability, range, tensor, volume};

/// Cuts one patch of a case that `NnunetPreprocess` prepared, in nnU-Net's way. With probability
/// `foreground` the patch lies around a voxel of a class of the case, each class with the same
/// probability; otherwise anywhere or, with `annotated_key`, around any annotated voxel. It may
/// extend beyond the image, where images are 0 and labels -1. A larger part is cut, rotated and
/// scaled about its centre, and cropped to the patch: with linear interpolation for images, and the
/// label with the largest weight for labels.
///
/// Three numbers of `patch_size` are z y x; two cut a slice of the first axis, and the result is an
/// image of two axes. The range of angles follows from the size: 30 degrees; 180 in the plane if
/// the patch is more than three times as wide as high; for slices 180, or 15 if they are longer
/// than 1.5 times their width.
///
/// ```
/// # use hearth_data::tiny;
/// # use hearth_recipe::nnunet::RandNnunetPatch;
/// let step: RandNnunetPatch = toml::from_str("keys = ['image']\npatch_size = [4, 6, 5]").expect("parameters");
/// assert_eq!(tiny::apply(step, tiny::ramp([1, 8, 8, 8]))?.shape(), [4, 6, 5]);
/// # Ok::<(), hearth_data::TransformError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandNnunetPatch {
    keys: Keys,
    /// Size of the patch: z y x, or y x.
    pub patch_size: Vec<usize>,
    /// The key that is a label map.
    #[serde(default = "label")]
    label_key: String,
    /// Key of the labels of the earlier stage of a cascade, of which the same patch is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_key: Option<String>,
    /// Key of the voxels of each class, the background first, as `ClassesToIndices` makes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    indices_key: Option<String>,
    /// Key of the voxels without and with annotation, as `ClassesToIndices` makes them: patches
    /// that are not cut around a class are cut around one of the latter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    annotated_key: Option<String>,
    /// Probability that a patch is cut around a voxel of a class.
    #[serde(default = "third")]
    foreground: f64,
    /// Probability that a patch is rotated.
    #[serde(default = "fifth")]
    rotation_prob: f64,
    /// Probability that a patch is scaled.
    #[serde(default = "fifth")]
    scaling_prob: f64,
    /// Range of the scale, the same for all axes; above 1 the object becomes smaller.
    #[serde(default = "scales")]
    scaling: [f64; 2],
}

fn label() -> String {
    "label".to_owned()
}

fn third() -> f64 {
    0.33
}

fn fifth() -> f64 {
    0.2
}

fn scales() -> [f64; 2] {
    [0.7, 1.4]
}

/// The voxels around which patches are cut.
struct Lists {
    /// The voxels of each class, the background first.
    classes: Vec<IndexList>,
    /// The voxels without annotation, and those with it.
    annotated: Vec<IndexList>,
}

/// The random draws of a patch.
struct Drawn {
    start: [i64; 3],
    initial: [usize; 3],
    matrix: Option<[[f64; 3]; 3]>,
}

impl RandNnunetPatch {
    fn draw(&self, shape: [usize; 3], lists: &Lists, draw: &Draw) -> Result<Drawn, TransformError> {
        let turning = patch::turning(&self.patch_size);
        let (last, initial) = (patch::three(&self.patch_size), patch::initial(&self.patch_size, turning));
        let known: Vec<&IndexList> = lists.classes.iter().skip(1).filter(|list| !list.is_empty()).collect();
        let forced = draw.happens(self.foreground);
        let list = match forced {
            true => known.get(draw.below(known.len() as u64) as usize).copied(),
            false => lists.annotated.get(1).filter(|list| !list.is_empty()),
        };
        let voxel = match list {
            None => None,
            Some(list) => {
                let flat = list.get(draw.below(list.len() as u64) as usize)? as usize;
                Some([flat / (shape[1] * shape[2]), flat / shape[2] % shape[1], flat % shape[2]])
            }
        };
        let mut start = [0; 3];
        for axis in 0..3 {
            start[axis] = if axis == 0 && self.patch_size.len() == 2 {
                voxel.map_or_else(|| draw.below(shape[0] as u64) as i64, |voxel| voxel[0] as i64)
            } else {
                let [first, end] = patch::starts(shape[axis], initial[axis], last[axis]);
                match voxel {
                    Some(voxel) => patch::start_around(voxel[axis], initial[axis], first),
                    None => first + draw.below((end - first).max(0) as u64 + 1) as i64,
                }
            };
        }
        let turns = draw.happens(self.rotation_prob);
        let scales = draw.happens(self.scaling_prob);
        let angle = || if turns { draw.between(-turning.limit, turning.limit) } else { 0.0 };
        let angles = [angle(), angle(), angle()];
        let scale = if scales { draw.between(self.scaling[0], self.scaling[1]) } else { 1.0 };
        let matrix = (turns || scales).then(|| spatial::matrix(angles, scale, turning.in_plane));
        Ok(Drawn { start, initial, matrix })
    }

    fn cut(&self, image: Image, drawn: &Drawn, is_label: bool) -> Result<Image, TransformError> {
        let flat = self.patch_size.len() == 2;
        // Only the part near the patch is read; a patch may extend beyond the image, but always
        // overlaps it.
        let shape = image.shape();
        let low: [usize; 3] =
            std::array::from_fn(|axis| (drawn.start[axis].max(0) as usize).min(shape[axis].saturating_sub(1)));
        let high = std::array::from_fn(|axis| {
            let end = (drawn.start[axis] + drawn.initial[axis] as i64).max(0) as usize;
            end.clamp((low[axis] + 1).min(shape[axis]), shape[axis])
        });
        let near = volume(&crop(image.clone(), low, high))?;
        let start = std::array::from_fn(|axis| drawn.start[axis] - low[axis] as i64);
        let part = patch::cut(&near, start, drawn.initial, if is_label { -1.0 } else { 0.0 });
        let last = patch::three(&self.patch_size);
        let sample: fn(&Volume, [usize; 3], [[f64; 3]; 3]) -> Volume =
            if is_label { spatial::labels } else { spatial::image };
        let made = match drawn.matrix {
            Some(matrix) => sample(&part, last, matrix),
            None => spatial::middle(&part, last),
        };
        let mut out = Image { data: tensor(made, flat, &image.data.device()), affine: image.affine, meta: image.meta };
        let middle = |axis: usize| (drawn.initial[axis] / 2) as f64 - (last[axis] / 2) as f64;
        let first = std::array::from_fn(|axis| drawn.start[axis] as f64 + middle(axis));
        out.affine = compose(&out.affine, &translation(first));
        // A patch is not mapped back.
        out.meta.applied.clear();
        out.meta.spatial_dims = self.patch_size.len();
        Ok(out)
    }
}

impl Transform for RandNnunetPatch {
    fn is_random(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Sizes { key: "patch_size", size: self.patch_size.iter().map(|length| *length as i64).collect() }
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mut take = |key: &Option<String>| -> Result<Vec<IndexList>, TransformError> {
            let Some(key) = key else { return Ok(Vec::new()) };
            let lists = sample.index_lists(key).map_err(|error| error.at(key))?;
            sample.values.remove(key);
            Ok(lists)
        };
        let lists = Lists { classes: take(&self.indices_key)?, annotated: take(&self.annotated_key)? };
        let keys: Vec<String> = self.keys.iter().chain(self.previous_key.as_deref()).map(str::to_owned).collect();
        let shape = sample.shape(&keys[0]).map_err(|error| error.at(&keys[0]))?;
        let drawn = self.draw(shape, &lists, draw)?;
        for key in keys {
            let other = sample.shape(&key).map_err(|error| error.at(&key))?;
            if other != shape {
                let what = format!("it has {other:?} voxels; expected {shape:?}, as the first key has");
                return Err(TransformError::new(what).at(&key));
            }
            let is_label = key == self.label_key || self.previous_key.as_deref() == Some(&key);
            sample.update(&key, |image| self.cut(image, &drawn, is_label))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_previous(self.previous_key.as_deref(), known)?;
        let few = |size: &[usize]| {
            let voxels = size.iter().try_fold(1_usize, |n, length| n.checked_mul(*length));
            voxels.is_some_and(|n| n > 0 && n <= 1 << 30)
        };
        if !(2..=3).contains(&self.patch_size.len()) || !few(&self.patch_size) {
            let what = format!("{:?}: expected two or three numbers above 0, of at most 2^30 voxels", self.patch_size);
            return Err(Fault::at("patch_size", what));
        }
        // A long thin patch rotates within a cube.
        let initial = patch::initial(&self.patch_size, patch::turning(&self.patch_size));
        if !few(&initial) {
            let what = format!("to be turned it needs {initial:?} voxels, more than 2^30: give a smaller patch");
            return Err(Fault::at("patch_size", what));
        }
        for (parameter, key) in [("indices_key", &self.indices_key), ("annotated_key", &self.annotated_key)] {
            if let Some(key) = key
                && !known.remove(key)
            {
                let what = format!("no value {key:?} exists at this step: ClassesToIndices makes it");
                return Err(Fault::at(parameter, what));
            }
        }
        if self.indices_key.is_none() && self.foreground != third() && self.foreground > 0.0 {
            return Err(Fault::at("foreground", "needs indices_key: the voxels of each class"));
        }
        probability("foreground", self.foreground)?;
        probability("rotation_prob", self.rotation_prob)?;
        probability("scaling_prob", self.scaling_prob)?;
        range("scaling", self.scaling, 0.01)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

hearth_registry::entry!(
    dyn Transform => RandNnunetPatch,
    paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
    example: r#"keys = ["image", "label"]
patch_size = [8, 12, 12]"#
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_that_no_memory_holds_are_refused_before_a_case_is_read() {
        let check = |size: &str| {
            let step: RandNnunetPatch =
                toml::from_str(&format!("keys = ['image']\npatch_size = {size}\nforeground = 0.0"))
                    .expect("parameters");
            step.check(&mut BTreeSet::from(["image".to_owned()])).map_err(|fault| (fault.path.clone(), fault.text()))
        };
        assert_eq!(check("[4, 6, 5]"), Ok(()));
        for (size, part) in [
            ("[8]", "two or three numbers"),
            ("[0, 8, 8]", "above 0"),
            ("[9223372036854775807, 9223372036854775807, 2]", "2^30 voxels"),
            // Within the limit itself, unlike the cube in which it rotates.
            ("[100000, 12, 12]", "to be turned"),
        ] {
            let (key, text) = check(size).expect_err(size);
            assert!(key == "patch_size" && text.contains(part), "{size}: {key}: {text}");
        }
    }
}
