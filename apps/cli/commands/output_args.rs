//! Options of `hearth predict` and `hearth ensemble` that select the files to write.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hearth_data::dicom::write::SegmentationType;
use hearth_data::writers::{PluginWriter, read_codes};
use hearth_models::cases::Sought;
use hearth_models::saliency::{Saliency, SaliencyMethod};
use hearth_models::writers::{Codes, OutputOptions, SurfaceFormat, VolumeFormat};
use hearth_registry::component::is_of_a_plugin;

use crate::error::{Failure, Outcome};

/// Options that select the files to write next to each result.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FileArgs {
    /// The format of results that are volumes, and of further volumes, which keep nii.gz where it is png
    /// [default: nii.gz; for an nnU-Net model that of its data set]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<VolumeFormat>,
    /// Also write NAME_prob.nii.gz: the probabilities, one channel per label or region; for an nnU-Net
    /// model NAME.npz
    #[arg(long)]
    pub probabilities: bool,
    /// Also write the result by a writer of a plugin, PLUGIN.NAME: NAME_seg with the ending of its files
    #[arg(long, value_name = "NAME")]
    pub writer: Option<String>,
    /// Label formats for hospitals and viewers.
    #[command(flatten)]
    pub regions: RegionArgs,
    /// Also write NAME_statistics.json: the volume in mm³ and the mean intensity of each label;
    /// TotalSegmentator's models report 0 for classes within 3 voxels of the image border, which may be
    /// cut off
    #[arg(long)]
    pub statistics: bool,
    /// With --statistics: also measure classes near the image border
    #[arg(long, requires = "statistics")]
    pub stats_include_incomplete: bool,
    /// Which DICOM series of a study with several to use: its UID, number or description (*thorax*), or
    /// a rule: most-slices, thinnest, auto (the one that suits the network, with the reason). With #KEY
    /// one of several volumes of a series, as `data inspect` lists them: UID#echo2, #localizer
    #[arg(long, value_name = "WHICH")]
    pub series: Option<String>,
    /// Predict DICOM series of any modality, also those that the model is not for (an MR by a model of CT)
    #[arg(long)]
    pub any_modality: bool,
    /// Also draw NAME_picture.png: outlines, scores or images next to the input; with the true labels
    /// if the data set has them. A map of a slide always has one
    #[arg(long)]
    pub picture: bool,
    /// What the answer of a classifier depends on.
    #[command(flatten)]
    pub saliency: SaliencyArgs,
    /// Replace results of an earlier call that were not changed since
    #[arg(long)]
    pub overwrite: bool,
    /// Write each result's record next to the result instead of into the folder records/
    #[arg(long)]
    pub records_beside: bool,
    /// Print a JSON line for each image instead of the names of its files: input, outputs, seconds per
    /// stage, millilitres per label, scores, or the error
    #[arg(long)]
    pub json: bool,
}

/// Options of the map of a classifier.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SaliencyArgs {
    /// For a model that classifies: also write NAME_saliency.nii.gz, a map of what its answer depends on, on
    /// the image's grid, and draw NAME_saliency.png
    #[arg(long, value_name = "METHOD", value_parser = methods())]
    pub saliency: Option<SaliencyMethod>,
    /// With --saliency gradcam or gradcam++: the layer, as state dicts name it (layer3, features.denseblock2)
    /// [default: the last map of features]
    #[arg(long, value_name = "LAYER", requires = "saliency")]
    pub saliency_layer: Option<String>,
    /// With --saliency: the class to explain, by its name or its number from 0 [default: that of the highest
    /// score]
    #[arg(long, value_name = "CLASS", requires = "saliency")]
    pub saliency_class: Option<String>,
}

impl SaliencyArgs {
    /// The library's options.
    fn options(&self) -> Option<Saliency> {
        let Self { saliency, saliency_layer, saliency_class } = self;
        Some(Saliency { method: (*saliency)?, layer: saliency_layer.clone(), class: saliency_class.clone() })
    }
}

/// The parser of `--saliency`, from the table of methods.
fn methods() -> impl TypedValueParser<Value = SaliencyMethod> {
    let words = SaliencyMethod::words().map(|(word, what)| PossibleValue::new(word).help(what));
    PossibleValuesParser::new(words).try_map(|word| SaliencyMethod::of_word(&word))
}

/// Options that select the formats of regions.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RegionArgs {
    /// Also write NAME_seg.dcm: the labels as a DICOM segmentation (SEG) that refers to the series
    #[arg(long)]
    pub dicom_seg: bool,
    /// How the SEG stores its voxels [default: binary]
    #[arg(long, value_name = "TYPE", requires = "dicom_seg")]
    pub seg_type: Option<SegType>,
    /// Also write NAME_rtstruct.dcm: the label contours as a DICOM structure set (RTSTRUCT)
    #[arg(long)]
    pub rtstruct: bool,
    /// Also write NAME_sr.dcm: volumes and diameters as a DICOM Structured Report, which refers to the
    /// SEG if there is one
    #[arg(long)]
    pub dicom_sr: bool,
    /// A TOML table of codes for labels in DICOM files [default: SNOMED CT codes, by the labels' names]
    #[arg(long, value_name = "FILE")]
    pub codes: Option<PathBuf>,
    /// Also write NAME.seg.nrrd: the labels as a segmentation of 3D Slicer, with names and colours; regions
    /// that overlap are in layers
    #[arg(long)]
    pub seg_nrrd: bool,
    /// Also write NAME_LABEL.stl or .obj: a smooth surface of each label, in mm, LPS
    #[arg(long, value_name = "FORMAT")]
    pub surfaces: Option<Surfaces>,
}

/// Voxel encodings of a SEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SegType {
    /// One bit per voxel and label; every viewer reads it
    Binary,
    /// The probability of each label, in 255 steps
    Fractional,
    /// The label of each voxel; newer viewers read it
    Labelmap,
}

/// Formats of surfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Surfaces {
    /// Binary STL
    Stl,
    /// Wavefront OBJ
    Obj,
}

impl FileArgs {
    /// How images become cases.
    pub fn sought(&self) -> Sought<'_> {
        Sought::from(self.series.as_deref()).of_any_modality(self.any_modality)
    }

    /// The library's options.
    pub fn options(&self, uncertainty: bool) -> Outcome<OutputOptions> {
        let Self { regions, .. } = self;
        Ok(OutputOptions {
            format: self.format,
            probabilities: self.probabilities,
            uncertainty,
            dicom_seg: regions.dicom_seg.then(|| regions.segmentation()),
            rtstruct: regions.rtstruct,
            dicom_sr: regions.dicom_sr,
            seg_nrrd: regions.seg_nrrd,
            writer: self.writer.as_deref().map(plugin_writer).transpose()?,
            surfaces: regions.surfaces.map(|format| match format {
                Surfaces::Stl => SurfaceFormat::Stl,
                Surfaces::Obj => SurfaceFormat::Obj,
            }),
            picture: self.picture,
            saliency: self.saliency.options(),
            statistics: self.statistics,
            include_incomplete: self.stats_include_incomplete,
            codes: regions.codes()?,
        })
    }

    /// The given options that apply only to results with volumes.
    pub fn of_volumes(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--format", self.format.is_some()),
            ("--probabilities", self.probabilities),
            ("--dicom-seg", self.regions.dicom_seg),
            ("--rtstruct", self.regions.rtstruct),
            ("--dicom-sr", self.regions.dicom_sr),
            ("--seg-nrrd", self.regions.seg_nrrd),
            ("--writer", self.writer.is_some()),
            ("--surfaces", self.regions.surfaces.is_some()),
            ("--codes", self.regions.codes.is_some()),
            ("--statistics", self.statistics),
            ("--saliency", self.saliency.saliency.is_some()),
            ("--series", self.series.is_some()),
            ("--any-modality", self.any_modality),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// The writer of a plugin that `--writer` names.
fn plugin_writer(name: &str) -> Outcome<PluginWriter> {
    if !is_of_a_plugin(name) {
        let advice = "expected PLUGIN.NAME; the formats of this program are chosen by --format";
        return Err(Failure::new(format!("--writer {name}: {advice}")));
    }
    PluginWriter::find(name).map_err(|fault| Failure::new(format!("--writer {name}: {fault}")))
}

/// The parser of `--format`, from the table of formats.
fn formats() -> impl TypedValueParser<Value = VolumeFormat> {
    let words = VolumeFormat::words().map(|(word, what)| PossibleValue::new(word).help(what));
    PossibleValuesParser::new(words).try_map(|word| VolumeFormat::of_word(&word))
}

impl RegionArgs {
    fn segmentation(&self) -> SegmentationType {
        match self.seg_type.unwrap_or(SegType::Binary) {
            SegType::Binary => SegmentationType::Binary,
            SegType::Fractional => SegmentationType::Fractional,
            SegType::Labelmap => SegmentationType::LabelMap,
        }
    }

    /// The table of codes of `--codes`, or the default.
    fn codes(&self) -> Outcome<Codes> {
        let Some(path) = &self.codes else { return Ok(Codes::new()) };
        if !self.dicom_seg && !self.dicom_sr {
            return Err(Failure::new("--codes are those of --dicom-seg and --dicom-sr: give one of them, too"));
        }
        Ok(read_codes(path)?)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};
    use hearth_models::writers::{VolumeFormat, WRITERS};

    use crate::commands::{ensemble, predict};

    #[test]
    fn each_row_of_the_table_of_writers_has_its_option() {
        let commands = [
            predict::Args::augment_args(Command::new("predict")),
            ensemble::Args::augment_args(Command::new("ensemble")),
        ];
        for flag in WRITERS.iter().map(|writer| writer.flag).filter(|flag| !flag.is_empty()) {
            let has = |command: &Command| command.get_arguments().any(|given| given.get_long() == Some(&flag[2..]));
            assert!(commands.iter().any(has), "no command takes {flag}");
        }
    }

    #[test]
    fn each_format_of_volumes_is_a_word_of_both_commands() {
        for (word, what) in VolumeFormat::words() {
            let words = ["run", "-i", "a", "-o", "out", "--format", word];
            let given = [parsed::<predict::Args>(&words).files, parsed::<ensemble::Args>(&words).files];
            for files in given {
                assert_eq!(files.format, Some(VolumeFormat::of_word(word).expect("a format")), "{what}");
            }
        }
    }

    fn parsed<A: Args>(words: &[&str]) -> A {
        let command = A::augment_args(Command::new("hearth").no_binary_name(true));
        let found = command.try_get_matches_from(words).expect("words that are known");
        A::from_arg_matches(&found).expect("arguments")
    }
}
