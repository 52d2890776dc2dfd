//! Writes regions as DICOM: [`segmentation`] (SEG), [`structure_set`] (RTSTRUCT) and the
//! [`report()`] of their measurements (SR), in the study and frame of reference of the series that
//! they were found on; and volumes as CT series ([`ct_slices`]).

mod codes;
mod ct;
mod measure;
mod object;
mod report;
mod rtstruct;
mod seg;

pub use codes::{Code, Coding, coding, known_codes, known_coding};
pub use ct::{CtIdentity, ct_slices};
pub use measure::{Diameters, Measured, measure};
pub use object::uid;
pub use report::report;
pub use rtstruct::structure_set;
pub use seg::{Reference, SegmentationType, reference, segmentation, segmentation_as};

use std::time::SystemTime;

use crate::error::DicomError;
use crate::geometry::{Grid, Vector, along, dot, norm};
use crate::regions::{Region, RegionVolume};
use crate::series::Series;

/// The longest name in characters (value representation LO).
const LONGEST: usize = 64;

/// The author of the regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DrawnBy {
    /// An algorithm alone.
    #[default]
    Automatic,
    /// A person with an algorithm.
    Semiautomatic,
    /// A person.
    Manual,
}

impl DrawnBy {
    fn term(self) -> &'static str {
        match self {
            DrawnBy::Automatic => "AUTOMATIC",
            DrawnBy::Semiautomatic => "SEMIAUTOMATIC",
            DrawnBy::Manual => "MANUAL",
        }
    }
}

/// The authorship data of a written file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Authorship {
    /// SeriesDescription, and StructureSetLabel in 16 characters.
    pub description: String,
    /// SegmentAlgorithmName: the algorithm that found the regions.
    pub algorithm: String,
    /// The author of the regions.
    pub drawn_by: DrawnBy,
    /// The time of creation. Files of the same regions, series and time have the same UIDs.
    pub created: SystemTime,
    /// SoftwareVersions.
    pub software: String,
    /// ContributionDescription: the model that found the regions, and its input.
    pub contribution: Option<String>,
    /// Remarks for the reader of a report, such as in what the images are unusual.
    pub remarks: Vec<String>,
    /// Whether to write regions without a voxel, which are an error by default: a SEG has a frame
    /// of zeros for them, an RTSTRUCT an ROI without contours.
    pub keep_empty: bool,
}

impl Authorship {
    /// The authorship of regions that this algorithm found now.
    pub fn new(algorithm: impl Into<String>) -> Self {
        Authorship {
            description: "Segmentation".to_owned(),
            algorithm: algorithm.into(),
            drawn_by: DrawnBy::default(),
            created: SystemTime::now(),
            software: concat!("hearth ", env!("CARGO_PKG_VERSION")).to_owned(),
            contribution: None,
            remarks: Vec::new(),
            keep_empty: false,
        }
    }

    /// Sets SeriesDescription.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds remarks for the reader of a report.
    pub fn remarks(mut self, remarks: impl IntoIterator<Item = String>) -> Self {
        self.remarks.extend(remarks);
        self
    }

    /// Sets the author of the regions.
    pub fn drawn_by(mut self, drawn_by: DrawnBy) -> Self {
        self.drawn_by = drawn_by;
        self
    }

    /// Sets the time of creation.
    pub fn created(mut self, created: SystemTime) -> Self {
        self.created = created;
        self
    }

    /// Sets SoftwareVersions.
    pub fn software(mut self, software: impl Into<String>) -> Self {
        self.software = software.into();
        self
    }

    /// Names the model that found the regions in a ContributingEquipmentSequence.
    pub fn contribution(mut self, contribution: impl Into<String>) -> Self {
        self.contribution = Some(contribution.into());
        self
    }

    /// Sets whether regions without a voxel are written.
    pub fn keep_empty(mut self, keep: bool) -> Self {
        self.keep_empty = keep;
        self
    }
}

/// Checks, before any regions are known, that regions can be written for a series.
///
/// # Errors
/// If slices have no positions or are not in order, or the series lacks UIDs or a frame of
/// reference.
pub fn check(series: &Series) -> Result<(), DicomError> {
    positions(series)?;
    object::identified(series)
}

/// Regions that were checked against their series.
struct Checked<'a> {
    volume: &'a RegionVolume,
    /// ImagePositionPatient of each slice.
    positions: Vec<Vector>,
    /// The slices on which each region has voxels.
    slices: Vec<Vec<usize>>,
    /// The smallest value at which a voxel belongs to a region with a channel.
    least: f32,
}

impl<'a> Checked<'a> {
    fn new(volume: &'a RegionVolume, series: &Series, by: &Authorship) -> Result<Self, DicomError> {
        Checked::from(0.5, volume, series, by)
    }

    fn from(least: f32, volume: &'a RegionVolume, series: &Series, by: &Authorship) -> Result<Self, DicomError> {
        let path = series.slices()[0].path();
        let fail = |what: String| DicomError::Grid { path: path.to_owned(), what };
        same_grid(&volume.grid, series.grid()).map_err(fail)?;
        let [channels, x, y, z] = volume.shape;
        if [x, y, z] != volume.grid.shape() || volume.values.len() != channels * x * y * z {
            return Err(fail(format!("{} values of shape {:?}", volume.values.len(), volume.shape)));
        }
        let positions = positions(series)?;
        names(volume).map_err(|what| DicomError::Regions { path: path.to_owned(), what })?;
        unnamed(volume).map_err(|what| DicomError::Regions { path: path.to_owned(), what })?;
        let mut checked = Checked { volume, positions, slices: Vec::new(), least };
        checked.slices = (0..volume.regions.len()).map(|region| checked.slices_of(region)).collect();
        let empty = checked.slices.iter().position(Vec::is_empty).filter(|_| !by.keep_empty);
        if let Some(region) = empty {
            let name = &volume.regions[region].name;
            let what = format!("the region {name:?} has no voxel; leave it out, or set Authorship::keep_empty");
            return Err(DicomError::Regions { path: path.to_owned(), what });
        }
        Ok(checked)
    }

    fn regions(&self) -> &'a [Region] {
        &self.volume.regions
    }

    /// Whether a voxel belongs to a region.
    fn has(&self, region: usize, [x, y, z]: [usize; 3]) -> bool {
        let [_, nx, ny, nz] = self.volume.shape;
        let voxel = (x * ny + y) * nz + z;
        match self.volume.channels {
            true => self.volume.values[region * nx * ny * nz + voxel] >= self.least,
            false => self.volume.values[voxel] == self.volume.regions[region].label as f32,
        }
    }

    fn slices_of(&self, region: usize) -> Vec<usize> {
        let [_, nx, ny, nz] = self.volume.shape;
        let mut there = vec![false; nz];
        for x in 0..nx {
            for y in 0..ny {
                there.iter_mut().enumerate().for_each(|(z, t)| *t = *t || self.has(region, [x, y, z]));
            }
        }
        (0..nz).filter(|z| there[*z]).collect()
    }

    /// Whether a voxel belongs to several regions.
    fn overlap(&self) -> bool {
        self.overlapping().is_some()
    }

    /// The first regions that share a voxel.
    fn overlapping(&self) -> Option<Vec<&'a str>> {
        let [channels, nx, ny, nz] = self.volume.shape;
        let size = nx * ny * nz;
        let has = |c: usize, voxel: usize| self.volume.values[c * size + voxel] >= self.least;
        let count = |voxel: usize| (0..channels).filter(|c| has(*c, voxel)).count();
        let voxel = (0..size).find(|voxel| self.volume.channels && count(*voxel) > 1)?;
        let regions = self.volume.regions.iter().enumerate();
        Some(regions.filter(|(c, _)| has(*c, voxel)).map(|(_, region)| region.name.as_str()).collect())
    }
}

/// Refuses a grid that differs from the series' grid.
fn same_grid(grid: &Grid, series: &Grid) -> Result<(), String> {
    let advice = "resample them to the series first";
    if grid.shape() != series.shape() {
        let (a, b) = (grid.shape(), series.shape());
        return Err(format!("the regions have {a:?} voxels, the series {b:?}; {advice}"));
    }
    let at = |grid: &Grid, index: [f64; 3]| -> Vector {
        std::array::from_fn(|r| (0..3).map(|c| grid.affine()[r][c] * index[c]).sum::<f64>() + grid.affine()[r][3])
    };
    let last = grid.shape().map(|n| n.saturating_sub(1) as f64);
    let least = series.spacing().into_iter().fold(f64::INFINITY, f64::min);
    for corner in 0..8 {
        let index = std::array::from_fn(|a| if corner >> a & 1 == 1 { last[a] } else { 0.0 });
        let (here, there) = (at(grid, index), at(series, index));
        let apart = norm(along(here, there, -1.0));
        // Non-finite distances count as mismatches.
        if !apart.is_finite() || apart > 0.05 * least {
            return Err(format!(
                "the voxel {index:?} of the regions lies at {here:.2?} mm, that of the series at {there:.2?}; {advice}"
            ));
        }
    }
    Ok(())
}

/// The position of each slice; positions must increase along the normal.
fn positions(series: &Series) -> Result<Vec<Vector>, DicomError> {
    let mut positions: Vec<Vector> = Vec::new();
    let normal = series.slices()[0].info().orientation.map(|o| o.normal());
    for slice in series.slices() {
        let lacks = |name: &'static str| DicomError::Attribute {
            path: slice.path().to_owned(),
            name,
            what: "missing: regions cannot be placed without it".to_owned(),
        };
        let position = slice.position().ok_or_else(|| lacks("ImagePositionPatient"))?;
        let normal = normal.ok_or_else(|| lacks("ImageOrientationPatient"))?;
        if positions.last().is_some_and(|last| dot(along(position, *last, -1.0), normal) <= 0.0) {
            let what = "does not lie above the slice before it; slices must be in order".to_owned();
            return Err(DicomError::Grid { path: slice.path().to_owned(), what });
        }
        positions.push(position);
    }
    Ok(positions)
}

/// Checks names and labels.
fn names(volume: &RegionVolume) -> Result<(), String> {
    let regions = &volume.regions;
    if regions.is_empty() {
        return Err("there is no region to write".to_owned());
    }
    if regions.len() > usize::from(u16::MAX) {
        return Err(format!("{} regions; DICOM has at most {}", regions.len(), u16::MAX));
    }
    if volume.channels && regions.len() != volume.shape[0] {
        return Err(format!("{} names for {} channels", regions.len(), volume.shape[0]));
    }
    if !volume.channels && volume.shape[0] != 1 {
        return Err(format!("a label map of {} channels; expected one", volume.shape[0]));
    }
    for (i, region) in regions.iter().enumerate() {
        let name = &region.name;
        if name.trim().is_empty() {
            return Err(format!("label {} has no name", region.label));
        }
        let count = name.chars().count();
        if count > LONGEST || name.contains('\\') || name.chars().any(char::is_control) {
            let rule = format!("expected at most {LONGEST} characters, without backslash and line breaks");
            return Err(format!("the name {name:?} of label {}: {rule}", region.label));
        }
        if let Some(fault) = region.coding.iter().flat_map(Coding::codes).find_map(Code::fault) {
            return Err(format!("the codes of the region {name:?}: {fault}"));
        }
        if region.label == 0 && !volume.channels {
            return Err(format!("the region {name:?} has the label 0, which is the background"));
        }
        if let Some(other) = regions[..i].iter().find(|other| other.label == region.label && !volume.channels) {
            return Err(format!("the regions {:?} and {name:?} have the same label {}", other.name, region.label));
        }
    }
    Ok(())
}

/// Refuses values of a label map without a name, and non-finite values.
fn unnamed(volume: &RegionVolume) -> Result<(), String> {
    if let Some(value) = volume.values.iter().find(|v| !v.is_finite()) {
        return Err(format!("a voxel has the value {value}"));
    }
    if volume.channels {
        return Ok(());
    }
    let known = |v: f32| v == 0.0 || volume.regions.iter().any(|r| r.label as f32 == v);
    let Some(value) = volume.values.iter().find(|v| !known(**v)) else { return Ok(()) };
    let voxels = volume.values.iter().filter(|v| *v == value).count();
    let named: Vec<String> = volume.regions.iter().map(|r| format!("{} {:?}", r.label, r.name)).collect();
    Err(format!("{voxels} voxel(s) have the label {value}, which has no name; named are {}", named.join(", ")))
}
