//! What the images of a training look like, for comparison with the images that its network predicts:
//! [`Fingerprint`], [`ImageFacts`].

mod contrast;

use std::path::Path;

use hearth_data::orientation::directions;
use hearth_data::{Affine, DrawKey, Image, Item, Pipeline, Value, affine};
use hearth_files::replace;
use hearth_recipe::{Context, Outcome, warning};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::cases::Cases;
use crate::plan::Plan;
use contrast::without_contrast;

/// The file in a run's folder, and the member of a package.
pub const FINGERPRINT: &str = "fingerprint.json";

/// The number of training cases whose values are read; of the others only headers are.
const READ: usize = 12;

/// The number of values of an axis that are looked at.
const PER_AXIS: usize = 26;

/// Steps that scale each image by its own values, after which its unit does not matter.
const SCALING: [&str; 4] =
    ["NormalizeIntensity", "ScaleIntensity", "ScaleIntensityRangePercentiles", "HistogramNormalize"];

/// How far outside of the training's range a spacing may be, as a factor.
const SPACING_ROOM: f64 = 1.25;

/// How far outside of the training's range a field of view may be, as a factor.
const EXTENT_ROOM: f64 = 1.5;

/// How far outside of the training's range a value may be, as a part of the whole range of values.
const VALUE_ROOM: f64 = 0.25;

/// How much coarser an image may be than the voxels to which it is resampled, or than the median of the
/// training's, where the range of the training's voxel sizes is not known: nnU-Net's limit of anisotropy.
const COARSE_ROOM: f64 = 3.0;

/// The least part of the range that a chain scales to the network's values that an image must fill.
const FILLED: f64 = 0.05;

/// The names of the world axes.
const AXES: [&str; 3] = ["left to right", "back to front", "feet to head"];

/// A range of numbers: the least and the greatest.
pub type Span = [f64; 2];

/// The values of a channel: percentiles 0.5, 50 and 99.5.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles<T> {
    /// Percentile 0.5.
    pub low: T,
    /// The median.
    pub median: T,
    /// Percentile 99.5.
    pub high: T,
}

/// Spacing, extent and values of a loaded image.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageFacts {
    /// The voxel size in mm along the world axes: left to right, back to front, feet to head.
    pub spacing_mm: [f64; 3],
    /// The size in mm along the same axes.
    pub extent_mm: [f64; 3],
    /// The values of each channel, from a sample of the voxels; empty if they are not known.
    pub channels: Vec<Percentiles<f64>>,
}

/// The fingerprint of a training: the ranges of [`ImageFacts`] over its cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The number of cases.
    pub cases: usize,
    /// The DICOM modality of the images, as far as the names of their channels tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modality: Option<String>,
    /// The voxel size in mm along the world axes: left to right, back to front, feet to head.
    pub spacing_mm: [Span; 3],
    /// The size in mm along the same axes.
    pub extent_mm: [Span; 3],
    /// The values of each channel; empty if the recipe scales each image by its own values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<Percentiles<Span>>,
    /// The values of the labelled structures alone, for each channel; empty if they are not known or do not
    /// matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreground: Vec<Percentiles<Span>>,
    /// A voxel size along the world axes that is compared where the range of the training is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical: Option<Typical>,
    /// The range of values that the preprocessing scales to those of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled_from: Option<Span>,
}

/// A voxel size in mm along the world axes where the range of the training's voxel sizes is not known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Typical {
    /// The median of the training's images.
    Median([f64; 3]),
    /// The size to which all images are resampled.
    Resampled([f64; 3]),
}

impl ImageFacts {
    /// The facts of an image as it was loaded.
    pub fn of(image: &Image) -> Self {
        let (shape, dims) = (image.shape(), image.meta.spatial_dims);
        let mut facts = Self::of_grid(&image.affine, shape, dims);
        facts.channels = image.with_values(|values| percentiles_of(values, shape));
        facts
    }

    /// The facts that a header tells.
    pub fn of_grid(affine: &Affine, shape: [usize; 3], dims: usize) -> Self {
        let (directions, spacing) = (directions(affine, dims), affine::spacing(affine));
        let mut facts = Self { spacing_mm: [1.0; 3], extent_mm: [1.0; 3], channels: Vec::new() };
        for axis in 0..3 {
            let world = directions[axis].map_or(axis, |(world, _)| world);
            facts.spacing_mm[world] = spacing[axis];
            facts.extent_mm[world] = spacing[axis] * shape[axis] as f64;
        }
        facts
    }

    /// A remark if no value is below 0: in Hounsfield units air is -1000 and fat -100.
    pub fn not_hounsfield(&self) -> Option<String> {
        let low = self.channels.first()?.low;
        (low >= 0.0).then(|| format!("lowest values {}, and CT has Hounsfield units, with air at -1000", number(low)))
    }

    /// The image of a case as the first step of a chain loads it, and the facts about it; `None` if
    /// the chain does not begin by loading a whole image.
    ///
    /// # Errors
    /// An image that cannot be read.
    pub fn of_loaded(
        chain: &Pipeline,
        sample: hearth_data::Sample,
    ) -> Result<(Vec<hearth_data::Sample>, Option<Self>), Box<hearth_data::StepError>> {
        let samples = chain.run_steps(vec![sample], DrawKey::new(0, 0, 0), 0, 1)?;
        let facts = match (loads(chain), samples.first().and_then(|sample| sample.values.get("image"))) {
            (true, Some(Value::Image(image))) => Some(Self::of(image)),
            _ => None,
        };
        Ok((samples, facts))
    }
}

/// Whether the first step loads whole images.
fn loads(chain: &Pipeline) -> bool {
    chain.steps().first().is_some_and(|step| step.name() == "LoadImage")
}

/// The percentiles of each channel of an image `[channel, x, y, z]` with axes of this length, from values
/// spread over it.
pub fn percentiles_of(values: &[f32], shape: [usize; 3]) -> Vec<Percentiles<f64>> {
    let [x, y, z] = shape;
    let steps = shape.map(|n| n.div_ceil(PER_AXIS).max(1));
    let channel = |values: &[f32]| {
        let mut some = Vec::with_capacity(PER_AXIS * PER_AXIS * PER_AXIS);
        for i in (0..x).step_by(steps[0]) {
            for j in (0..y).step_by(steps[1]) {
                let row = (i * y + j) * z;
                some.extend(values[row..row + z].iter().step_by(steps[2]).filter(|value| value.is_finite()));
            }
        }
        percentiles(some)
    };
    values.chunks_exact((x * y * z).max(1)).map(channel).collect()
}

fn percentiles(mut values: Vec<f32>) -> Percentiles<f64> {
    values.sort_unstable_by(f32::total_cmp);
    let at = |share: f64| match values.len() {
        0 => 0.0,
        count => f64::from(values[((count - 1) as f64 * share).round() as usize]),
    };
    Percentiles { low: at(0.005), median: at(0.5), high: at(0.995) }
}

impl Fingerprint {
    /// A fingerprint that knows nothing yet: every image is like it.
    pub fn unknown() -> Self {
        const ANY: Span = [0.0, f64::INFINITY];
        Self {
            cases: 0,
            modality: None,
            spacing_mm: [ANY; 3],
            extent_mm: [ANY; 3],
            channels: Vec::new(),
            foreground: Vec::new(),
            typical: None,
            scaled_from: None,
        }
    }

    /// The ranges over images; `None` without any.
    pub fn over(images: &[ImageFacts]) -> Option<Self> {
        let channels = images.iter().map(|facts| facts.channels.len()).max()?;
        let span = |of: &dyn Fn(&ImageFacts) -> f64| {
            let values = || images.iter().map(of);
            [values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)]
        };
        // Images of which only the header was read have no channels.
        let of = |channel: usize, pick: &dyn Fn(&Percentiles<f64>) -> f64| {
            let values = || images.iter().filter_map(|facts| facts.channels.get(channel)).map(pick);
            [values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)]
        };
        let channel = |channel: usize| Percentiles {
            low: of(channel, &|values| values.low),
            median: of(channel, &|values| values.median),
            high: of(channel, &|values| values.high),
        };
        Some(Self {
            cases: images.len(),
            spacing_mm: std::array::from_fn(|axis| span(&|facts| facts.spacing_mm[axis])),
            extent_mm: std::array::from_fn(|axis| span(&|facts| facts.extent_mm[axis])),
            channels: (0..channels).map(channel).collect(),
            ..Self::unknown()
        })
    }

    /// The fingerprint of two trainings together, with the values and the modality that both know.
    #[must_use]
    pub fn joined(mut self, other: &Self) -> Self {
        let join = |into: &mut Span, other: &Span| *into = [into[0].min(other[0]), into[1].max(other[1])];
        self.cases += other.cases;
        self.spacing_mm.iter_mut().zip(&other.spacing_mm).for_each(|(into, other)| join(into, other));
        self.extent_mm.iter_mut().zip(&other.extent_mm).for_each(|(into, other)| join(into, other));
        self.modality = self.modality.filter(|own| other.modality.as_ref() == Some(own));
        self.typical = self.typical.filter(|own| other.typical == Some(*own));
        self.scaled_from = self.scaled_from.filter(|own| other.scaled_from == Some(*own));
        for (own, other) in [(&mut self.channels, &other.channels), (&mut self.foreground, &other.foreground)] {
            own.truncate(other.len());
            for (into, other) in own.iter_mut().zip(other) {
                join(&mut into.low, &other.low);
                join(&mut into.median, &other.median);
                join(&mut into.high, &other.high);
            }
        }
        self
    }

    /// The fingerprint of the training cases of a plan; `None` if its recipe does not load whole
    /// images. The values of [`READ`] cases spread over the list are read, and the headers of all.
    pub(crate) fn of_training(plan: &Plan, cases: &Cases) -> Option<Self> {
        let items = &cases.training;
        let chain = &plan.prediction;
        if !loads(chain) || plan.recipe.learns().generates() {
            return None;
        }
        let (count, every) = (items.len(), items.len().div_ceil(READ).max(1));
        let running = plan.progress.start("fingerprint of the cases", count as u64);
        let read = |(place, item): (usize, &Item)| {
            let facts = if place % every == 0 { of_values(chain, item) } else { of_header(item) };
            running.advance();
            facts
        };
        let images: Vec<ImageFacts> = items.iter().enumerate().filter_map(read).collect();
        running.finish();
        without_contrast(chain, &images).iter().for_each(|what| warning!("the training's images: {what}"));
        let mut found = Self::over(&images)?;
        found.modality = modality_of(&cases.channels);
        if scales(chain) {
            found.channels.clear();
        }
        Some(found)
    }

    /// Reads the fingerprint in a run's folder; `None` in runs of earlier versions. A damaged one is
    /// reported, because predictions do not depend on it.
    pub fn of_run(folder: &Path) -> Option<Self> {
        let path = folder.join(FINGERPRINT);
        Self::parse(&hearth_files::read(&path).ok()?, &path.display().to_string())
    }

    /// Reads a fingerprint from its file's content.
    pub fn parse(bytes: &[u8], named: &str) -> Option<Self> {
        match serde_json::from_slice(bytes) {
            Ok(found) => Some(found),
            Err(error) => {
                warning!("{named} is damaged, so images are not compared with those of the training: {error}");
                None
            }
        }
    }

    /// Writes the file into a run's folder.
    pub(crate) fn write(&self, folder: &Path) -> Outcome {
        let path = folder.join(FINGERPRINT);
        let text = serde_json::to_string_pretty(self)? + "\n";
        replace(&path, text).while_doing(|| format!("cannot write {}", path.display()))
    }

    /// The respects in which an image is unlike those of the training, in words; empty for one like
    /// them. Without the values of the training's images, those of CT are compared with Hounsfield units.
    pub fn unlike(&self, image: &ImageFacts) -> Vec<String> {
        let mut found = Vec::new();
        let outside = |value: f64, [least, most]: Span, room: f64| value * room < least || value > most * room;
        let mut lengths = |what: &str, values: &[f64; 3], known: &[Span; 3], room: f64| {
            let other = |axis: &usize| outside(values[*axis], known[*axis], room);
            // Of several axes the one with the largest deviation is named.
            let ratio = |axis: usize| (values[axis] / known[axis][1]).max(known[axis][0] / values[axis]);
            if let Some(axis) = (0..3).filter(other).max_by(|a, b| ratio(*a).total_cmp(&ratio(*b))) {
                let (value, known) = (number(values[axis]), span(known[axis]));
                found.push(format!("{what} {value} mm ({}), trained on {known} mm", AXES[axis]));
            }
        };
        lengths("spacing", &image.spacing_mm, &self.spacing_mm, SPACING_ROOM);
        lengths("field of view", &image.extent_mm, &self.extent_mm, EXTENT_ROOM);
        found.extend(self.coarser(image));
        for (place, (known, values)) in self.channels.iter().zip(&image.channels).enumerate() {
            let room = VALUE_ROOM * (known.high[1] - known.low[0]).abs().max(f64::EPSILON);
            let other = |value: f64, [least, most]: Span| value < least - room || value > most + room;
            let of = if self.channels.len() > 1 { format!("channel {place}: ") } else { String::new() };
            let parts = [
                ("lowest values", values.low, known.low),
                ("median", values.median, known.median),
                ("highest values", values.high, known.high),
            ];
            for (what, value, known) in parts.into_iter().filter(|(_, value, known)| other(*value, *known)) {
                found.push(format!("{of}{what} {}, trained on {}", number(value), span(known)));
            }
        }
        found.extend(self.without_structures(image));
        found.extend(self.outside_of_scale(image));
        if self.channels.is_empty() && self.modality.as_deref() == Some("CT") {
            found.extend(image.not_hounsfield());
        }
        found
    }

    /// A remark about voxels far larger than those that stand for the training's.
    fn coarser(&self, image: &ImageFacts) -> Option<String> {
        let (known, what) = match self.typical? {
            Typical::Median(known) => (known, "trained on a median of"),
            Typical::Resampled(known) => (known, "trained on images resampled to"),
        };
        let ratio = |axis: &usize| image.spacing_mm[*axis] / known[*axis];
        let axis = (0..3).filter(|axis| known[*axis] > 0.0).max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        let (own, name) = (number(image.spacing_mm[axis]), AXES[axis]);
        (ratio(&axis) > COARSE_ROOM).then(|| format!("spacing {own} mm ({name}), {what} {} mm", number(known[axis])))
    }

    /// Remarks about channels whose values do not include the median of the labelled structures.
    fn without_structures(&self, image: &ImageFacts) -> Vec<String> {
        let mut found = Vec::new();
        for (place, (known, values)) in self.foreground.iter().zip(&image.channels).enumerate() {
            let room = VALUE_ROOM * (known.high[1] - known.low[0]).abs().max(f64::EPSILON);
            if values.high < known.median[0] - room || values.low > known.median[1] + room {
                let of = if self.foreground.len() > 1 { format!("channel {place}: ") } else { String::new() };
                let own = span([values.low, values.high]);
                let (median, range) = (span(known.median), span([known.low[0], known.high[1]]));
                found.push(format!("{of}values {own}, trained on structures of {median} ({range})"));
            }
        }
        found
    }

    /// A remark about an image that the preprocessing scales to next to a single value.
    fn outside_of_scale(&self, image: &ImageFacts) -> Option<String> {
        let [least, most] = self.scaled_from?;
        let (low, high) = image.channels.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), values| {
            (low.min(values.low), high.max(values.high))
        });
        let filled = high.min(most) - low.max(least);
        let other = low <= high && filled < FILLED * (most - least);
        other.then(|| format!("values {}, trained on values scaled from {}", span([low, high]), span([least, most])))
    }
}

fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e9 || (size > 0.0 && size < 1e-6) {
        return format!("{value:.1e}");
    }
    // A spacing in metres in place of millimetres is 0.001, not 0.
    let digits = match size {
        100.0.. => 0,
        0.01.. => 2,
        _ => 6,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn span([least, most]: Span) -> String {
    if most.is_infinite() {
        return format!("at least {}", number(least));
    }
    let (least, most) = (number(least), number(most));
    if least == most { least } else { format!("{least} to {most}") }
}

/// The DICOM modality of images with these names of channels or modalities, if all tell the same one.
pub fn modality_of(channels: &[String]) -> Option<String> {
    let one = |name: &String| match name.to_uppercase().as_str() {
        "CT" => Some("CT"),
        "PT" | "PET" => Some("PT"),
        "US" | "ULTRASOUND" => Some("US"),
        "MR" | "MRI" | "T1" | "T1W" | "T1C" | "T1CE" | "T1GD" | "T2" | "T2W" | "FLAIR" | "DWI" | "ADC" => Some("MR"),
        _ => None,
    };
    let first = channels.first().and_then(one)?;
    channels.iter().all(|name| one(name) == Some(first)).then(|| first.to_owned())
}

/// Whether a chain scales each image by its own values.
fn scales(chain: &Pipeline) -> bool {
    chain.steps().iter().any(|step| {
        let fixed = |key: &str| step.describe().get(key).is_some_and(|value| *value != Json::Null);
        SCALING.contains(&step.name()) && !fixed("subtrahend")
    })
}

/// The facts of a case whose image is read. A case that cannot be read ends the training elsewhere.
fn of_values(chain: &Pipeline, item: &Item) -> Option<ImageFacts> {
    let mut sample = item.sample();
    sample.values.retain(|key, _| key == "image");
    ImageFacts::of_loaded(chain, sample).ok()?.1
}

/// The facts in the header of a case's first file, if the header is apart from the values.
fn of_header(item: &Item) -> Option<ImageFacts> {
    let parts = item.parts.get("image").and_then(|parts| parts.files.first());
    let path = item.files.get("image").or(parts)?;
    let name = path.to_string_lossy().to_lowercase();
    if !name.ends_with(".nii") && !name.ends_with(".nii.gz") {
        return None;
    }
    let header = hearth_data::nifti::read_header(path).ok()?;
    let axis = |place: usize| header.dim.get(place).copied().unwrap_or(1) as usize;
    let dims = if header.dim.len() < 3 { 2 } else { 3 };
    Some(ImageFacts::of_grid(&header.affine(), [axis(0), axis(1), axis(2)], dims))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_data::host_device;

    fn image(spacing: [f64; 3], shape: [usize; 3], value: impl Fn(usize) -> f32) -> Image {
        let mut affine = affine::IDENTITY;
        (0..3).for_each(|axis| affine[axis][axis] = spacing[axis]);
        let [x, y, z] = shape;
        Image::from_values((0..x * y * z).map(value).collect(), [1, x, y, z], affine, &host_device())
    }

    #[test]
    fn numbers_are_short_and_never_rounded_to_0() {
        let shown = [0.0, 0.001_000_000_05, -0.004, 0.05, 3.27, 512.4, 3e-9, 3.9e31].map(number);
        assert_eq!(shown, ["0", "0.001", "-0.004", "0.05", "3.27", "512", "3.0e-9", "3.9e31"]);
    }

    #[test]
    fn facts_are_along_the_world_axes_and_of_all_values() {
        let plain = ImageFacts::of(&image([1.0, 2.0, 5.0], [10, 20, 8], |place| place as f32));
        assert_eq!(plain.spacing_mm, [1.0, 2.0, 5.0]);
        assert_eq!(plain.extent_mm, [10.0, 40.0, 40.0]);
        // numpy.percentile(numpy.arange(1600), [0.5, 50, 99.5], method="nearest")
        assert_eq!(plain.channels, [Percentiles { low: 8.0, median: 800.0, high: 1591.0 }]);
        // The first voxel axis runs from feet to head.
        let turned = [[0.0, 0.0, 0.7, 0.0], [0.0, -0.8, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        let facts = ImageFacts::of_grid(&turned, [30, 100, 200], 3);
        assert_eq!(facts.spacing_mm, [0.7, 0.8, 3.0]);
        assert_eq!(facts.extent_mm, [140.0, 80.0, 90.0]);
    }

    fn ct() -> Fingerprint {
        let facts = |spacing, low, median, high| ImageFacts {
            spacing_mm: [0.8, 0.8, spacing],
            extent_mm: [400.0, 400.0, 300.0],
            channels: vec![Percentiles { low, median, high }],
        };
        Fingerprint::over(&[facts(0.7, -1024.0, -900.0, 300.0), facts(1.5, -1000.0, -500.0, 900.0)]).expect("cases")
    }

    #[test]
    fn an_image_like_the_training_has_no_remark_and_another_one_says_in_what() {
        let known = ct();
        assert_eq!(known.spacing_mm[2], [0.7, 1.5]);
        let mut image = ImageFacts {
            spacing_mm: [0.9, 0.9, 1.6],
            extent_mm: [500.0, 500.0, 250.0],
            channels: vec![Percentiles { low: -1024.0, median: -300.0, high: 1200.0 }],
        };
        assert_eq!(known.unlike(&image), Vec::<String>::new());
        image.spacing_mm[2] = 5.0;
        image.extent_mm[2] = 80.0;
        let said = known.unlike(&image);
        let expected = [
            "spacing 5 mm (feet to head), trained on 0.7 to 1.5 mm",
            "field of view 80 mm (feet to head), trained on 300 mm",
        ];
        assert_eq!(said, expected);
        // An MR image: no air of -1000.
        image = ImageFacts {
            spacing_mm: [0.9, 0.9, 1.0],
            extent_mm: [400.0, 400.0, 300.0],
            channels: vec![Percentiles { low: 0.0, median: 40.0, high: 800.0 }],
        };
        let said = known.unlike(&image);
        assert_eq!(said, ["lowest values 0, trained on -1024 to -1000", "median 40, trained on -900 to -500"]);
    }

    #[test]
    fn without_ranges_only_far_coarser_images_and_values_without_the_structures_are_unlike() {
        let structures = Percentiles { low: [-20.0; 2], median: [100.0; 2], high: [240.0; 2] };
        let known = Fingerprint {
            typical: Some(Typical::Resampled([1.5, 1.5, 2.0])),
            foreground: vec![structures],
            scaled_from: Some([-57.0, 164.0]),
            ..Fingerprint::unknown()
        };
        let of = |spacing: f64, low: f64, high: f64| ImageFacts {
            spacing_mm: [0.8, 0.8, spacing],
            extent_mm: [400.0, 400.0, 20.0],
            channels: vec![Percentiles { low, median: low, high }],
        };
        assert_eq!(known.unlike(&of(5.0, -1024.0, 800.0)), Vec::<String>::new());
        let said = known.unlike(&of(8.0, 0.0, 1.0));
        let expected = [
            "spacing 8 mm (feet to head), trained on images resampled to 2 mm",
            "values 0 to 1, trained on structures of 100 (-20 to 240)",
            "values 0 to 1, trained on values scaled from -57 to 164",
        ];
        assert_eq!(said, expected);
        // All voxels become the largest value.
        assert_eq!(known.unlike(&of(2.0, 900.0, 1400.0)).len(), 2);
        let median = Fingerprint { typical: Some(Typical::Median([0.8, 0.8, 1.0])), ..Fingerprint::unknown() };
        assert_eq!(median.unlike(&of(5.0, 0.0, 1.0)), ["spacing 5 mm (feet to head), trained on a median of 1 mm"]);
    }

    #[test]
    fn channels_tell_a_modality_if_all_agree() {
        let of = |names: &[&str]| modality_of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["CT"]).as_deref(), Some("CT"));
        assert_eq!(of(&["FLAIR", "T1w", "t1gd", "T2w"]).as_deref(), Some("MR"));
        assert_eq!(of(&["PET"]).as_deref(), Some("PT"));
        assert_eq!((of(&["CT", "PET"]), of(&["any"]), of(&[])), (None, None, None));
    }

    #[test]
    fn a_fingerprint_is_the_same_after_its_file_and_a_damaged_one_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let known = ct();
        known.write(folder.path()).expect("written");
        assert_eq!(Fingerprint::of_run(folder.path()), Some(known));
        std::fs::write(folder.path().join(FINGERPRINT), "{").expect("written");
        assert_eq!(Fingerprint::of_run(folder.path()), None);
        assert_eq!(Fingerprint::over(&[]), None);
    }

    #[test]
    fn two_trainings_have_the_range_of_both_and_headers_no_values() {
        let header = ImageFacts { spacing_mm: [1.0, 1.0, 9.0], extent_mm: [300.0; 3], channels: Vec::new() };
        let whole = ImageFacts { channels: vec![Percentiles { low: 0.0, median: 5.0, high: 9.0 }], ..header.clone() };
        let of_values = Fingerprint::over(&[header.clone(), whole]).expect("cases");
        assert_eq!(of_values.channels, [Percentiles { low: [0.0; 2], median: [5.0; 2], high: [9.0; 2] }]);
        let both = ct().joined(&of_values);
        assert_eq!((both.cases, both.spacing_mm[2]), (4, [0.7, 9.0]));
        assert_eq!((both.channels[0].low, both.channels[0].high), ([-1024.0, 0.0], [9.0, 900.0]));
        assert!(both.joined(&Fingerprint::over(&[header]).expect("a case")).channels.is_empty());
    }
}
