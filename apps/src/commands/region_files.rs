//! Options of `hearth predict` for regions as files of hospitals and viewers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use hearth_data::dicom::write::{Coding, SegmentationType};
use hearth_data::writers::{RegionFile, SurfaceOptions, file_part, read_codes};

use crate::error::{Failure, Outcome};
use crate::recipe::{Output, Recipe};

/// What labels are, by name.
pub type Codes = BTreeMap<String, Coding>;

/// Options that say in which formats regions are written.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RegionArgs {
    /// Also write NAME_seg.dcm: the labels as a DICOM segmentation (SEG) that refers to the series
    #[arg(long)]
    pub dicom_seg: bool,
    /// How the SEG stores its voxels [default: binary]
    #[arg(long, value_name = "TYPE", requires = "dicom_seg")]
    pub seg_type: Option<SegType>,
    /// Also write NAME_rtstruct.dcm: their contours as a DICOM structure set (RTSTRUCT)
    #[arg(long)]
    pub rtstruct: bool,
    /// Also write NAME_sr.dcm: volumes and diameters as a DICOM Structured Report, which refers to the
    /// SEG if there is one
    #[arg(long)]
    pub dicom_sr: bool,
    /// A table of codes for labels in DICOM files, TOML; by default codes of SNOMED CT by their names
    #[arg(long, value_name = "FILE")]
    pub codes: Option<PathBuf>,
    /// Also write NAME_LABEL.stl or .obj: a smooth surface of each label, in mm, LPS
    #[arg(long, value_name = "FORMAT")]
    pub surfaces: Option<SurfaceFormat>,
}

/// Ways to store voxels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SegType {
    /// A bit for each voxel of each label; every viewer reads it
    Binary,
    /// The probability of each label, in 255 steps
    Fractional,
    /// The label of each voxel; newer viewers read it
    Labelmap,
}

/// Formats of surfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SurfaceFormat {
    /// Binary STL
    Stl,
    /// Wavefront OBJ
    Obj,
}

/// The files of an image's surfaces.
pub struct Surfaces {
    /// `stl` or `obj`.
    pub end: &'static str,
    /// One for each region, in the order of the labels.
    pub paths: Vec<PathBuf>,
    /// How they are made.
    pub options: SurfaceOptions,
}

/// Whether a file needs probabilities.
pub fn is_fractional(file: RegionFile) -> bool {
    let fractional = SegmentationType::Fractional;
    file == RegionFile::Segmentation(fractional) || file == RegionFile::Report(Some(fractional))
}

impl RegionArgs {
    /// Whether any of these files is wanted.
    pub fn any(&self) -> bool {
        self.dicom_seg || self.rtstruct || self.dicom_sr || self.surfaces.is_some()
    }

    /// Checks the options, and reads the table of codes.
    pub fn check(&self) -> Outcome<Codes> {
        let Some(path) = &self.codes else { return Ok(Codes::new()) };
        if !self.dicom_seg && !self.dicom_sr {
            return Err(Failure::new("--codes are those of --dicom-seg and --dicom-sr: give one of them, too"));
        }
        Ok(read_codes(path)?)
    }

    /// The DICOM files.
    pub fn files(&self) -> Vec<RegionFile> {
        let kind = match self.seg_type.unwrap_or(SegType::Binary) {
            SegType::Binary => SegmentationType::Binary,
            SegType::Fractional => SegmentationType::Fractional,
            SegType::Labelmap => SegmentationType::LabelMap,
        };
        let seg = self.dicom_seg.then_some(RegionFile::Segmentation(kind));
        let set = self.rtstruct.then_some(RegionFile::StructureSet);
        let report = self.dicom_sr.then(|| RegionFile::Report(self.dicom_seg.then_some(kind)));
        [seg, set, report].into_iter().flatten().collect()
    }

    /// Those of `--surfaces`, with names by `named`.
    pub fn surfaces(&self, recipe: &Recipe, named: &dyn Fn(&str) -> PathBuf) -> Option<Surfaces> {
        let end = match self.surfaces? {
            SurfaceFormat::Stl => "stl",
            SurfaceFormat::Obj => "obj",
        };
        // The first label is the background.
        let skipped = usize::from(recipe.output() == Output::Labels);
        let labels = recipe.labels.iter().skip(skipped);
        let paths = labels.map(|label| named(&format!("_{}.{end}", file_part(label)))).collect();
        Some(Surfaces { end, paths, options: SurfaceOptions::default() })
    }
}
