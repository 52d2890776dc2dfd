use std::collections::BTreeSet;

use hearth_image::{Image, TransformError, affine};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fg_bg_to_indices::with_values;
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// The tolerance between the axes of image and label, as a fraction of the spacing.
const AXES: f64 = 1e-3;
/// The tolerance between the positions of their first voxels, in voxels.
const POSITION: f64 = 0.1;
/// The largest absolute value: the squares of larger values overflow f32, so means and deviations
/// become infinite.
const LARGEST: f32 = 1e18;
/// The maximum number of invalid label values that a message lists.
const NAMED: usize = 5;

/// Rejects a case that would break a run. Use it directly after [`super::LoadImage`] and
/// [`super::EnsureChannelFirst`].
///
/// The image must be finite, at most 1e18 from 0, and have `channels` channels. The label must have
/// the image's shape and affine (axes within 0.001 of the spacing, position within 0.1 voxel), and
/// whole values from 0 to `num_classes - 1`, or `ignore_label`; without `num_classes` any finite
/// values. If the sample has only one of the two, only that one is checked. Nothing is changed.
/// (MONAI has no such transform.)
///
/// ```
/// # use hearth_transforms::{tiny, transforms::CheckCase};
/// let step = CheckCase::new().channels(2);
/// assert!(tiny::apply(step.clone(), tiny::ramp([2, 4, 1, 1])).is_ok());
/// let error = tiny::apply(step, tiny::line([1.0])).unwrap_err().to_string();
/// assert!(error.contains("channel"), "{error}");
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckCase {
    #[serde(default)]
    keys: Keys,
    #[serde(default = "image")]
    image_key: String,
    #[serde(default = "label")]
    label_key: String,
    #[serde(default)]
    num_classes: Option<usize>,
    #[serde(default)]
    ignore_label: Option<u16>,
    #[serde(default)]
    channels: Option<usize>,
    #[serde(default = "yes")]
    allow_missing_keys: bool,
}

fn image() -> String {
    "image".to_owned()
}

fn label() -> String {
    "label".to_owned()
}

fn yes() -> bool {
    true
}

impl Default for CheckCase {
    fn default() -> Self {
        CheckCase {
            keys: Keys::default(),
            image_key: image(),
            label_key: label(),
            num_classes: None,
            ignore_label: None,
            channels: None,
            allow_missing_keys: true,
        }
    }
}

impl CheckCase {
    /// Creates the transform for `image` and `label`, with any number of channels and any finite
    /// label values.
    pub fn new() -> Self {
        CheckCase::default()
    }

    /// Returns the image of a key, if the sample has it and it must be checked.
    fn find<'a>(&self, sample: &'a Sample, key: &str) -> Result<Option<&'a Image>, TransformError> {
        let wanted = self.keys.is_empty() || self.keys.iter().any(|k| k == key);
        if !wanted || (self.allow_missing_keys && !sample.values.contains_key(key)) {
            return Ok(None);
        }
        sample.image(key).map(Some).map_err(|e| e.at(key))
    }

    fn check_image(&self, image: &Image) -> Result<(), TransformError> {
        let channels = image.channels();
        if let Some(expected) = self.channels.filter(|n| *n != channels) {
            let what = if image.meta.original_shape.len() > 3 {
                format!(
                    "the image has {channels} channels: its {}-D file holds {channels} volumes",
                    image.meta.original_shape.len()
                )
            } else {
                format!("the image has {channels} channel{}", if channels == 1 { "" } else { "s" })
            };
            return Err(TransformError::new(what).expected(format!("{expected}, as many as the network takes")));
        }
        let (mut nan, mut infinite, mut huge, mut all) = (0, 0, 0, 0);
        // The files of a case with several images are its channels, in their order.
        let mut hit: Vec<String> = Vec::new();
        with_values(image, |values| {
            all = values.len();
            for (channel, values) in values.chunks((all / channels.max(1)).max(1)).enumerate() {
                let before = nan + infinite + huge;
                for part in values.chunks(4096) {
                    // One cheap check per block; blocks with invalid values are rare.
                    if !part.iter().fold(true, |fine, v| fine & (v.abs() <= LARGEST)) {
                        nan += part.iter().filter(|v| v.is_nan()).count();
                        infinite += part.iter().filter(|v| v.is_infinite()).count();
                        huge += part.iter().filter(|v| v.is_finite() && v.abs() > LARGEST).count();
                    }
                }
                if nan + infinite + huge > before {
                    hit.push(channel.to_string());
                }
            }
        })?;
        let place = || match (channels, &hit[..]) {
            (1, _) => String::new(),
            (_, [one]) => format!(", all in channel {one} (the first is 0)"),
            _ => format!(", in channels {} (the first is 0)", hit.join(", ")),
        };
        if nan + infinite > 0 {
            let (count, place) = (nan + infinite, place());
            let what = format!("{count} of {all} voxels are not finite ({nan} NaN, {infinite} infinite){place}");
            return Err(TransformError::new(what)
                .expected("finite values")
                .advice("one such voxel makes the loss NaN: replace them in the file, or exclude the case"));
        }
        if huge > 0 {
            let what = format!("{huge} of {all} voxels are more than {LARGEST:e} from 0{}", place());
            return Err(TransformError::new(what)
                .expected("values whose squares f32 holds")
                .advice("they often mark voxels without a value: replace them in the file, or exclude the case"));
        }
        Ok(())
    }

    fn check_label(&self, label: &Image) -> Result<(), TransformError> {
        let classes = self.num_classes;
        let largest = classes.map_or(f32::MAX, |n| n.saturating_sub(1) as f32);
        // Converted to an integer and back instead of `fract`, which is a function call on most
        // CPUs. NaN is equal to nothing.
        let ignored = self.ignore_label.map_or(f32::NAN, f32::from);
        let fine = |v: f32| match classes {
            Some(_) => ((v >= 0.0) & (v <= largest) & (v as i32 as f32 == v)) | (v == ignored),
            None => v.is_finite(),
        };
        let (mut wrong, mut all) = (0, 0);
        let mut named: Vec<f32> = Vec::new();
        with_values(label, |values| {
            all = values.len();
            for part in values.chunks(4096) {
                if part.iter().fold(true, |all_fine, v| all_fine & fine(*v)) {
                    continue;
                }
                for value in part.iter().filter(|v| !fine(**v)) {
                    wrong += 1;
                    // All NaNs count as one value.
                    let value = if value.is_nan() { f32::NAN } else { *value };
                    if let Err(place) = named.binary_search_by(|v| v.total_cmp(&value))
                        && place <= NAMED
                    {
                        named.insert(place, value);
                        // One more than the maximum that is listed, to detect whether there are
                        // more.
                        named.truncate(NAMED + 1);
                    }
                }
            }
        })?;
        if wrong == 0 {
            return Ok(());
        }
        let mut list = named.iter().take(NAMED).map(f32::to_string).collect::<Vec<_>>().join(", ");
        if named.len() > NAMED {
            list.push_str(", ...");
        }
        let error = TransformError::new(format!("{wrong} of {all} label voxels have other values: {list}"));
        Err(match classes {
            Some(n) => error
                .expected(match self.ignore_label {
                    Some(label) => format!("0 to {} ({n} classes), or {label}", n.saturating_sub(1)),
                    None => format!("0 to {} (whole numbers: {n} classes)", n.saturating_sub(1)),
                })
                .advice("set the number of classes of the network, or renumber the label file"),
            None => error.expected("finite values"),
        })
    }
}

/// Checks that the label lies on the image's grid.
///
/// # Errors
/// If shape, axes or position differ; the message states by how much.
pub fn check_same_grid(image: &Image, label: &Image) -> Result<(), TransformError> {
    let n = image.meta.spatial_dims;
    if image.shape() != label.shape() {
        let text = |i: &Image| i.shape().map(|n| n.to_string())[..n].join(" x ");
        return Err(TransformError::new(format!("the label has {} voxels, the image {}", text(label), text(image)))
            .expected("the same shape")
            .advice("correct the pairing of the files; or resample the label onto the image's grid, by a step ResampleToMatch with keys = [\"label\"] and key_dst = \"image\" behind those that read"));
    }
    let (a, b) = (affine::restrict(&image.affine, n), affine::restrict(&label.affine, n));
    for (name, grid) in [("image", &a), ("label", &b)] {
        if !grid.iter().flatten().all(|v| v.is_finite()) {
            return Err(TransformError::new(format!("the {name}'s affine has values that are not finite")));
        }
    }
    let length = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let column = |c: usize| length(std::array::from_fn(|r| a[r][c] - b[r][c]));
    let spacing = affine::spacing(&a);
    let axes = (0..n).map(|c| column(c) / spacing[c]).fold(0.0, f64::max);
    let apart = column(3);
    // The position of the label's first voxel, in the image's voxels.
    let voxels = match affine::inverse(&a) {
        Some(back) => affine::apply(&back, [b[0][3], b[1][3], b[2][3]]).into_iter().map(f64::abs).fold(0.0, f64::max),
        None => apart / spacing[..n].iter().copied().fold(f64::INFINITY, f64::min),
    };
    if axes <= AXES && voxels <= POSITION {
        return Ok(());
    }
    let what = if axes <= AXES {
        format!("the label lies elsewhere than the image: the origins are {apart:.3} mm apart ({voxels:.2} voxels)")
    } else {
        format!(
            "the label's axes or spacing differ from the image's by {:.2} % of the spacing; the origins are {apart:.3} mm apart",
            100.0 * axes
        )
    };
    Err(TransformError::new(what)
        .expected("the same affine")
        .advice("correct the affine in its header; or, of a label in other axes, let a step Orientation with keys = [\"image\", \"label\"] follow those that read, of one on another grid ResampleToMatch with keys = [\"label\"] and key_dst = \"image\""))
}

setters!(CheckCase {
    /// Keys to check, of image and label; by default both.
    keys: Keys,
    /// Key of the image.
    image_key: String,
    /// Key of the label map.
    label_key: String,
    /// Number of classes, including the background.
    num_classes: Option<usize>,
    /// Additional label: that of voxels which are not annotated.
    ignore_label: Option<u16>,
    /// Number of channels that the network takes.
    channels: Option<usize>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for CheckCase {
    fn name(&self) -> &'static str {
        "CheckCase"
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let image = self.find(&sample, &self.image_key)?;
        let label = self.find(&sample, &self.label_key)?;
        if let Some(image) = image {
            self.check_image(image).map_err(|e| e.at(&self.image_key))?;
        }
        if let Some(label) = label {
            if let Some(image) = image {
                check_same_grid(image, label).map_err(|e| e.at(&self.label_key))?;
            }
            self.check_label(label).map_err(|e| e.at(&self.label_key))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, _: &mut BTreeSet<String>) -> Result<(), Fault> {
        if let Some(key) = self.keys.iter().find(|k| *k != self.image_key && *k != self.label_key) {
            return Err(Fault::at("keys", format!("`{key}` is neither image_key nor label_key")));
        }
        if self.image_key == self.label_key {
            return Err(Fault::at("label_key", "is the same as image_key"));
        }
        if self.num_classes == Some(0) {
            return Err(Fault::at("num_classes", "is 0; a label has at least one class"));
        }
        if self.channels == Some(0) {
            return Err(Fault::at("channels", "is 0; an image has at least one channel"));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    CheckCase,
    r#"image_key = "image"
label_key = "label"
num_classes = 3"#
);
