//! The output files of a prediction: one row of [`WRITERS`] for each kind of file.
//!
//! A row has the option that requests the file, its requirements of the model, the endings of its
//! files and the function that writes them. Rejections and claims follow from the table, so no
//! option is ignored.

mod codes;
mod format;
mod options;
mod picture;
pub mod regions;
mod rows;
mod saliency;
mod slides;

use std::path::{Path, PathBuf};

use hearth_data::dicom::{Authorship, Series};
use hearth_recipe::{Outcome, RecipeError};
use hearth_run::outputs::Outputs;
use serde_json::Value;

pub use codes::check_codes;
pub use format::VolumeFormat;
pub(crate) use format::{check_slices, in_format, write_volume};
pub use options::{Codes, OutputOptions, SurfaceFormat};
pub use picture::{Pictures, only, reading, window};
pub use rows::WRITERS;

use crate::cases::Case;
use crate::job::CaseReport;
use crate::model::{Abilities, Card, Kind, PredictedMap, Prediction};
use crate::nnunet::FAMILY;
use crate::saliency::SaliencyMap;
use crate::slides::SlideMap;

/// The requirement of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any prediction.
    Any,
    /// Labels, regions or an image.
    Volume,
    /// A map of a slide.
    SlideMap,
    /// Labels or regions.
    Labels,
    /// A probability for each label or region.
    Probabilities,
    /// Augmented predictions.
    Uncertainty,
    /// The gradient of a number of the whole image, by a single network.
    Saliency,
}

/// The most channels of a PNG.
const MOST_CHANNELS: usize = 4;

/// The content of files, of which `--format` chooses the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The result on the grid of an image.
    Result,
    /// Further numbers on that grid, such as probabilities.
    Numbers,
    /// Anything else, which has a format of its own.
    Other,
}

/// A kind of file.
pub struct Writer {
    /// The option that requests it; empty for files that are always written.
    pub flag: &'static str,
    /// A description, after the flag in a sentence: "writes regions".
    pub what: &'static str,
    /// The requirement of the model.
    pub need: Need,
    /// The content of its files.
    pub holds: Holds,
    /// Whether it refers to a DICOM series.
    pub needs_series: bool,
    /// Whether its files may be missing: an empty label has no surface.
    pub optional: bool,
    /// Whether the file is requested.
    pub(crate) wanted: fn(&OutputOptions, &Card) -> bool,
    /// The endings that are appended to a case's name for its files, where no format is requested: see
    /// [`endings_in`](Self::endings_in).
    pub(crate) endings: fn(&OutputOptions, &Card) -> Vec<String>,
    /// Writes the files.
    pub(crate) write: fn(&mut Writing<'_, '_>, &[PathBuf]) -> Outcome,
}

impl Writer {
    /// The endings that are appended to a case's name for its files, with volumes in the format of an ending.
    pub(crate) fn endings_in(&self, options: &OutputOptions, card: &Card, format: Option<&str>) -> Vec<String> {
        let own = (self.endings)(options, card).into_iter();
        own.map(|end| in_format(end, self.holds, format)).collect()
    }
}

/// A prediction that is being written.
pub(crate) struct Writing<'a, 'b> {
    pub(crate) options: &'a OutputOptions,
    pub(crate) card: &'a Card,
    pub(crate) case: &'a Case,
    pub(crate) prediction: &'a Prediction,
    pub(crate) series: Option<&'a Series>,
    /// Author and time of the case's DICOM files: the same for all, so that a report refers to its
    /// segmentation.
    pub(crate) by: Option<Authorship>,
    /// The drawn picture; the other results are written even if it fails.
    pub(crate) picture: Option<Outcome<Vec<u8>>>,
    /// The content of records.
    pub(crate) facts: Value,
    pub(crate) outputs: &'a Outputs,
    pub(crate) report: &'a mut CaseReport<'b>,
}

/// The author of a case's DICOM files.
pub(crate) fn authorship(card: &Card, series: &Series) -> Authorship {
    let by = Authorship::new(&card.description).description(&card.title);
    by.contribution(format!("{}; series {}", card.made_by, series.name()))
}

impl<'a> Writing<'a, '_> {
    /// The prediction as a map on the grid of an image.
    pub(crate) fn map(&self) -> Outcome<&'a dyn PredictedMap> {
        match self.prediction {
            Prediction::Map(map) => Ok(&**map),
            Prediction::Scores(_) => Err(RecipeError::new("numbers of a whole image are no map")),
            Prediction::SlideMap(_) => Err(RecipeError::new("the map of a slide is not on the grid of an image")),
        }
    }

    /// What the numbers of a whole image depend on.
    pub(crate) fn saliency(&self) -> Option<&'a SaliencyMap> {
        match self.prediction {
            Prediction::Scores(scores) => scores.saliency.as_deref(),
            Prediction::Map(_) | Prediction::SlideMap(_) => None,
        }
    }

    /// The prediction as a map of a slide.
    pub(crate) fn slide(&self) -> Outcome<&'a SlideMap> {
        match self.prediction {
            Prediction::SlideMap(map) => Ok(map),
            Prediction::Map(_) | Prediction::Scores(_) => Err(RecipeError::new("it is no map of a slide")),
        }
    }

    /// Writes a claimed file and its record.
    pub(crate) fn make(&self, path: &Path, write: impl FnOnce() -> Outcome) -> Outcome {
        self.outputs.make(path, self.facts.clone(), write)
    }
}

/// The requested rows.
pub(crate) fn wanted<'a>(options: &'a OutputOptions, card: &'a Card) -> impl Iterator<Item = &'static Writer> + 'a {
    WRITERS.iter().filter(move |writer| (writer.wanted)(options, card))
}

/// Rejects files that a model cannot produce, with the ones that it can.
///
/// # Errors
/// The first unsupported option.
pub fn check(options: &OutputOptions, card: &Card, abilities: Abilities) -> Outcome {
    for writer in wanted(options, card) {
        let lacks = match writer.need {
            Need::Any => None,
            Need::Volume => (!card.kind.is_volume()).then(|| predicts(card)),
            Need::Saliency if card.kind != Kind::Scores => Some(predicts(card)),
            Need::Saliency => (!abilities.saliency).then(|| {
                format!("this {} merges several networks: remove it, or give one of its runs to predict", card.family)
            }),
            Need::SlideMap => (card.kind != Kind::SlideMap).then(|| predicts(card)),
            Need::Labels => (!card.kind.is_map()).then(|| predicts(card)),
            Need::Probabilities if !card.kind.is_map() => Some(predicts(card)),
            Need::Probabilities => (!abilities.probabilities).then(|| of_family(card, "probabilities")),
            Need::Uncertainty if !card.kind.is_volume() => Some(predicts(card)),
            Need::Uncertainty if abilities.augmentation && !abilities.uncertainty => {
                Some("this call predicts each image once: remove --tta none".to_owned())
            }
            Need::Uncertainty if card.family == FAMILY && !abilities.uncertainty => {
                Some("one network predicts each image once: give more folds or models, or allow mirroring".to_owned())
            }
            Need::Uncertainty => (!abilities.uncertainty).then(|| {
                let others = "runs, ensembles of runs and models of nnU-Net compare predictions";
                format!("this {} predicts each image once: remove it; {others}", card.family)
            }),
        };
        if let Some(lacks) = lacks {
            return Err(RecipeError::new(format!("{} {}; {lacks}", writer.flag, writer.what)));
        }
    }
    if let Some(saliency) = &options.saliency {
        saliency.check()?;
    }
    if let Some(format) = options.format {
        if !wanted(options, card).any(|writer| writer.holds != Holds::Other) {
            let what = "--format chooses the format of volumes";
            return Err(RecipeError::new(format!("{what}; {}", predicts(card))));
        }
        if format == VolumeFormat::Png && !wanted(options, card).any(|writer| writer.holds == Holds::Result) {
            let what = "png stores whole numbers, and maps with fractions stay nii.gz";
            return Err(RecipeError::new(format!("--format: {what}: remove it, or give another format")));
        }
        format.suits(card)?;
        let channels = if abilities.channels { card.labels.len() } else { 1 };
        if format == VolumeFormat::Png && channels > MOST_CHANNELS {
            let what = format!("png holds {MOST_CHANNELS} channels, and this {} writes {channels}", card.family);
            return Err(RecipeError::new(format!("--format: {what}: give another format, such as nii.gz")));
        }
    }
    if options.dicom_seg == Some(hearth_data::dicom::write::SegmentationType::Fractional) && !abilities.probabilities {
        let what = "--seg-type fractional stores probabilities";
        return Err(RecipeError::new(format!("{what}; {}", of_family(card, "probabilities"))));
    }
    if !options.codes.is_empty() && options.dicom_seg.is_none() && !options.dicom_sr {
        return Err(RecipeError::new("--codes are those of --dicom-seg and --dicom-sr: give one of them, too"));
    }
    check_codes(&options.codes, &card.labels.iter().map(|label| label.name.as_str()).collect::<Vec<_>>())
}

/// The kind of a model's predictions, and the files that it writes without an option.
fn predicts(card: &Card) -> String {
    let options = OutputOptions::default();
    let names = wanted(&options, card).flat_map(|writer| (writer.endings)(&options, card));
    let names: Vec<String> = names.map(|end| format!("NAME{end}")).collect();
    let files = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    format!("this {} predicts {}{files}: remove it", card.family, card.kind.words())
}

fn of_family(card: &Card, what: &str) -> String {
    format!("this {} gives no {what}: remove it", card.family)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ClassLabel;
    use crate::saliency::{Saliency, SaliencyMethod};

    fn card(kind: Kind, ending: &str) -> Card {
        Card {
            family: "run",
            title: String::new(),
            description: String::new(),
            made_by: String::new(),
            kind,
            labels: Vec::new(),
            file_labels: Vec::new(),
            channels: Vec::new(),
            modalities: Vec::new(),
            checksum: None,
            ending: ending.to_owned(),
            probability_endings: vec!["_prob.nii.gz"],
            names_a_winner: false,
            maps: Vec::new(),
        }
    }

    #[test]
    fn formats_are_those_of_volumes() {
        let abilities = Abilities { probabilities: true, ..Abilities::default() };
        let checked = |kind: Kind, format: VolumeFormat| {
            let options = OutputOptions { format: Some(format), ..OutputOptions::default() };
            check(&options, &card(kind, "_seg.nii.gz"), abilities).map_err(|error| error.line())
        };
        for (kind, format, words) in [
            (Kind::Scores, VolumeFormat::Nrrd, ["--format", "numbers of the whole image"]),
            (Kind::SlideMap, VolumeFormat::AsInput, ["--format", "maps of whole slides"]),
            (Kind::Image, VolumeFormat::Png, ["--format", "whole numbers"]),
        ] {
            let error = checked(kind, format).expect_err("refused");
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        let saliency = Saliency { method: SaliencyMethod::Occlusion, layer: None, class: None };
        let of_map = |format| {
            let options =
                OutputOptions { format: Some(format), saliency: Some(saliency.clone()), ..OutputOptions::default() };
            let abilities = Abilities { saliency: true, ..Abilities::default() };
            check(&options, &card(Kind::Scores, ""), abilities).map_err(|error| error.line())
        };
        assert!(of_map(VolumeFormat::Nrrd).is_ok() && of_map(VolumeFormat::AsInput).is_ok());
        let error = of_map(VolumeFormat::Png).expect_err("no map is a PNG");
        assert!(error.contains("--format") && error.contains("stay nii.gz"), "{error}");
        let regions = |count: u32, channels| {
            let labels = (1..=count).map(|value| ClassLabel::new(value, format!("r{value}"))).collect();
            let options = OutputOptions { format: Some(VolumeFormat::Png), ..OutputOptions::default() };
            let card = Card { labels, ..card(Kind::Regions, "_seg.nii.gz") };
            check(&options, &card, Abilities { channels, ..Abilities::default() }).map_err(|error| error.line())
        };
        assert!(regions(4, true).is_ok() && regions(5, false).is_ok());
        assert!(regions(5, true).is_err_and(|error| error.contains("4 channels") && error.contains("writes 5")));
        for kind in [Kind::Labels, Kind::Regions, Kind::Image] {
            assert!(checked(kind, VolumeFormat::Nrrd).is_ok() && checked(kind, VolumeFormat::AsInput).is_ok());
        }
    }

    #[test]
    fn all_volumes_of_a_case_have_the_requested_format() {
        let options =
            OutputOptions { probabilities: true, uncertainty: true, statistics: true, ..OutputOptions::default() };
        let card = card(Kind::Labels, "_seg.nii.gz");
        let endings = |format: Option<&str>| -> Vec<String> {
            wanted(&options, &card).flat_map(|writer| writer.endings_in(&options, &card, format)).collect()
        };
        assert_eq!(endings(None), ["_prob.nii.gz", "_statistics.json", "_std.nii.gz", "_seg.nii.gz"]);
        assert_eq!(endings(Some(".mha")), ["_prob.mha", "_statistics.json", "_std.mha", "_seg.mha"]);
        assert_eq!(endings(Some(".png")), ["_prob.nii.gz", "_statistics.json", "_std.nii.gz", "_seg.png"]);
    }
}
