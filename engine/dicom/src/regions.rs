//! Regions drawn on images, from either kind of file: [`StructureSet`] (RTSTRUCT) or
//! [`Segmentation`] (SEG).

use std::path::Path;

use crate::error::DicomError;
use crate::finding::{Finding, FindingKind, Severity};
use crate::geometry::Grid;
use crate::options::ReadOptions;
use crate::pattern::{is_pattern, matches};
use crate::rtstruct::StructureSet;
use crate::seg::Segmentation;
use crate::write::Coding;

/// A named region.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Region {
    /// The value in a label map.
    pub label: u32,
    /// ROIName or SegmentLabel.
    pub name: String,
    /// ROIDescription or SegmentDescription.
    pub description: Option<String>,
    /// The type: RTROIInterpretedType, or the meaning of SegmentedPropertyTypeCodeSequence.
    pub property: Option<String>,
    /// Red, green, blue.
    pub color: Option<[u8; 3]>,
    /// The codes of the region. Without them, files are written with codes derived from the name.
    pub coding: Option<Coding>,
}

impl Region {
    /// A region of this label and name.
    pub fn new(label: u32, name: impl Into<String>) -> Self {
        Region { label, name: name.into(), description: None, property: None, color: None, coding: None }
    }
}

/// Regions on a grid.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RegionVolume {
    /// The values `[C, X, Y, Z]`, Z fastest. A label map has one channel with labels, 0 for none.
    /// Otherwise there is one channel per region with 0 or 1, or a fraction between.
    pub values: Vec<f32>,
    /// `[C, X, Y, Z]`.
    pub shape: [usize; 4],
    /// The regions, in the order of channels.
    pub regions: Vec<Region>,
    /// The positions of the voxels.
    pub grid: Grid,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Whether there is a channel for each region.
    pub(crate) channels: bool,
}

impl RegionVolume {
    /// Regions from a label map `[X, Y, Z]`, Z fastest, on a grid; 0 is the background.
    pub fn of_labels(values: Vec<f32>, regions: Vec<Region>, grid: Grid) -> Self {
        let [x, y, z] = grid.shape();
        RegionVolume { values, shape: [1, x, y, z], regions, grid, findings: Vec::new(), channels: false }
    }

    /// Regions that may overlap, from one channel per region `[C, X, Y, Z]`, Z fastest, on a grid.
    /// A voxel belongs to a region if its value is at least one half.
    pub fn of_channels(values: Vec<f32>, regions: Vec<Region>, grid: Grid) -> Self {
        let [x, y, z] = grid.shape();
        let shape = [regions.len(), x, y, z];
        RegionVolume { values, shape, regions, grid, findings: Vec::new(), channels: true }
    }

    /// The regions that have no voxel.
    pub fn empty(&self) -> Vec<Region> {
        let size = self.shape[1..].iter().product::<usize>().max(1);
        let has = |i: usize, region: &Region| match self.channels {
            true => self.values.chunks(size).nth(i).is_some_and(|channel| channel.iter().any(|v| *v >= 0.5)),
            false => self.values.contains(&(region.label as f32)),
        };
        self.regions.iter().enumerate().filter(|(i, region)| !has(*i, region)).map(|(_, r)| r.clone()).collect()
    }
}

/// A file of regions.
#[derive(Clone, Debug)]
pub enum Regions {
    /// An RTSTRUCT.
    Structures(StructureSet),
    /// A SEG.
    Segments(Box<Segmentation>),
}

impl Regions {
    /// Opens an RTSTRUCT or SEG file.
    ///
    /// # Errors
    /// If it is neither, or is damaged.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, DicomError> {
        match Segmentation::open_with(&path, options) {
            Ok(segmentation) => Ok(Regions::Segments(Box::new(segmentation))),
            Err(DicomError::Nothing { .. }) => StructureSet::open_with(&path, options).map(Regions::Structures),
            Err(error) => Err(error),
        }
    }

    /// The regions of the file: names, colours, labels.
    pub fn list(&self) -> Vec<Region> {
        match self {
            Regions::Structures(set) => set.regions(),
            Regions::Segments(segmentation) => segmentation.regions(),
        }
    }

    /// One channel per region, in the order of `names`; all regions if `names` is empty. A name is
    /// a region's name or description, or a pattern (`GTV*`, in any case) whose regions are
    /// combined. Without one, one of its [aliases](ReadOptions::aliases) is used. A region
    /// that this file does not have becomes a channel of zeros and a finding.
    ///
    /// # Errors
    /// If none of the names exists, regions do not lie on the grid, a file is damaged, or limits
    /// are exceeded.
    pub fn channels(&self, names: &[&str], grid: &Grid, options: &ReadOptions) -> Result<RegionVolume, DicomError> {
        match self {
            Regions::Structures(set) => set.channels(names, grid, options),
            Regions::Segments(segmentation) => segmentation.channels(names, grid, options),
        }
    }

    /// A label map with label 1 for the first of `names` and so on; if `names` is empty, with the
    /// labels of [`Regions::list`]. If regions overlap, the later one is used, and a finding
    /// reports it. Fractions of at least one half count.
    ///
    /// # Errors
    /// As [`Regions::channels`].
    pub fn labels(&self, names: &[&str], grid: &Grid, options: &ReadOptions) -> Result<RegionVolume, DicomError> {
        match self {
            Regions::Structures(set) => set.labels(names, grid, options),
            Regions::Segments(segmentation) => segmentation.labels(names, grid, options),
        }
    }

    /// Channels or a label map on the grid of the images that the regions were drawn on. A
    /// segmentation with other voxels stays on its own grid, and a finding reports it: resample it
    /// to the images.
    ///
    /// # Errors
    /// As [`Regions::channels`].
    pub fn on_images(
        &self,
        names: &[&str],
        as_channels: bool,
        grid: &Grid,
        options: &ReadOptions,
    ) -> Result<RegionVolume, DicomError> {
        let draw = |grid: &Grid| match as_channels {
            true => self.channels(names, grid, options),
            false => self.labels(names, grid, options),
        };
        match (draw(grid), self.own_grid()) {
            (Err(DicomError::Grid { what, .. }), Some(own)) => {
                let mut drawn = draw(&own?)?;
                let text = format!("not on the grid of the images ({what}); it is on its own");
                drawn.findings.push(Finding::new(FindingKind::OutsideGrid, Severity::Warning, text));
                Ok(drawn)
            }
            (drawn, _) => drawn,
        }
    }

    /// The file's own grid; an RTSTRUCT has none.
    ///
    /// # Errors
    /// For a SEG whose frames have no position, or do not lie at multiples of one distance.
    pub fn own_grid(&self) -> Option<Result<Grid, DicomError>> {
        match self {
            Regions::Structures(_) => None,
            Regions::Segments(segmentation) => Some(segmentation.own_grid()),
        }
    }
}

/// A selected region with its label, and its places in the list.
pub type Selected = (Vec<usize>, Region);

/// Selects regions of a list as [`Regions::labels`] does, by name, description, pattern or alias, for other
/// formats: for each requested one its places in the list, and the region with its label, from 1. Without
/// names all are selected, with their own labels.
///
/// # Errors
/// If the list has none of them.
pub fn select_regions(
    all: &[Region],
    names: &[&str],
    path: &Path,
    options: &ReadOptions,
) -> Result<(Vec<Selected>, Vec<Finding>), DicomError> {
    let mut findings = Vec::new();
    Ok((choose(all, names, path, options, &mut findings)?, findings))
}

/// Selects the requested regions: for each one its indices in `all`, its name and its label.
pub(crate) fn choose(
    all: &[Region],
    names: &[&str],
    path: &Path,
    options: &ReadOptions,
    findings: &mut Vec<Finding>,
) -> Result<Vec<Selected>, DicomError> {
    if all.is_empty() {
        let what = "it has no region with an area: no closed contours, and no segments".to_owned();
        return Err(DicomError::Nothing { path: path.to_owned(), what });
    }
    if names.is_empty() {
        return Ok(all.iter().cloned().enumerate().map(|(i, r)| (vec![i], r)).collect());
    }
    let found: Vec<Vec<usize>> = names.iter().map(|name| places_of(all, name, options)).collect();
    let there: Vec<&str> = all.iter().map(|r| r.name.as_str()).collect();
    if found.iter().all(Vec::is_empty) {
        let aliases = options.aliases.iter().filter(|(name, _)| names.iter().any(|n| same(n, name)));
        let aliases: Vec<&str> = aliases.flat_map(|(_, others)| others).map(String::as_str).collect();
        let also = if aliases.is_empty() { String::new() } else { format!(", nor of their aliases {aliases:?}") };
        let what = format!("none of the regions {names:?}{also}; there are {there:?}");
        return Err(DicomError::Nothing { path: path.to_owned(), what });
    }
    let chosen = names.iter().zip(found).enumerate().map(|(i, (name, places))| {
        let label = i as u32 + 1;
        let region = match places.as_slice() {
            [] => {
                let text = format!("no region {name:?}: it is empty here; there are {there:?}");
                findings.push(Finding::new(FindingKind::MissingRegion, Severity::Warning, text));
                Region::new(label, *name)
            }
            [one] => Region { label, ..all[*one].clone() },
            several => {
                let joined: Vec<&str> = several.iter().map(|at| all[*at].name.as_str()).collect();
                let text = format!("{name:?} is {} regions, which become one: {joined:?}", joined.len());
                findings.push(Finding::new(FindingKind::JoinedRegions, Severity::Note, text));
                Region { label, name: (*name).to_owned(), ..all[several[0]].clone() }
            }
        };
        (places, region)
    });
    Ok(chosen.collect())
}

/// The indices of a region by its name, by a pattern, or by its aliases: the first that exists.
fn places_of(all: &[Region], name: &str, options: &ReadOptions) -> Vec<usize> {
    let of = |name: &str| match place_of(all, name) {
        Some(at) => vec![at],
        None if is_pattern(name) => {
            let fits = |r: &Region| matches(name, &r.name) || r.description.as_ref().is_some_and(|d| matches(name, d));
            (0..all.len()).filter(|i| fits(&all[*i])).collect()
        }
        None => Vec::new(),
    };
    let aliases = options.aliases.iter().filter(|(known, _)| same(known, name)).flat_map(|(_, others)| others);
    let names = std::iter::once(name).chain(aliases.map(String::as_str));
    names.map(of).find(|places| !places.is_empty()).unwrap_or_default()
}

fn same(a: &str, b: &str) -> bool {
    a.trim().to_lowercase() == b.trim().to_lowercase()
}

/// The index of a region by its name or description; else by its text in a listing of regions: its
/// name (ignoring case and surrounding blanks), its name and kind (`GTV-1, ORGAN`), or its number.
fn place_of(all: &[Region], name: &str) -> Option<usize> {
    let plain = |text: &str| text.trim().to_lowercase();
    let wanted = plain(name);
    let with_kind = |r: &Region| r.property.as_ref().map(|kind| plain(&format!("{}, {kind}", r.name)));
    let rules: [&dyn Fn(&Region) -> bool; 5] = [
        &|r| r.name == name,
        &|r| r.description.as_deref() == Some(name),
        &|r| plain(&r.name) == wanted,
        &|r| with_kind(r).as_ref() == Some(&wanted),
        &|r| r.label.to_string() == wanted,
    ];
    rules.iter().find_map(|rule| all.iter().position(rule))
}

/// Zeros for this number of channels on a grid.
pub(crate) fn zeros(
    channels: usize,
    grid: &Grid,
    path: &Path,
    options: &ReadOptions,
) -> Result<(Vec<f32>, [usize; 4]), DicomError> {
    let [x, y, z] = grid.shape();
    let total = [channels, x, y, z].iter().try_fold(1_u64, |n, by| n.checked_mul(*by as u64));
    let limit = options.limits.volume_values;
    match total {
        Some(total) if total <= limit => Ok((vec![0.0; total as usize], [channels, x, y, z])),
        _ => {
            let what = format!(
                "{channels} channel(s) of {x} x {y} x {z} voxels; the limit is {limit} (Limits::volume_values)"
            );
            Err(DicomError::Limit { path: path.to_owned(), what })
        }
    }
}

/// Reports the number of voxels with more than one label.
pub(crate) fn overlap(voxels: usize) -> Option<Finding> {
    let text = format!("regions overlap in {voxels} voxel(s): the later one was used");
    (voxels > 0).then(|| Finding::new(FindingKind::Overlap, Severity::Warning, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_join_and_aliases_stand_in() {
        let all = [Region::new(1, "GTV_Mass_CT"), Region::new(2, "gtv_node"), Region::new(3, "Lung")];
        let plain = ReadOptions::default();
        assert_eq!(places_of(&all, "GTV*", &plain), [0, 1]);
        assert_eq!(places_of(&all, "?ung", &plain), [2]);
        assert_eq!(places_of(&all, "GTV", &plain), [0_usize; 0]);
        let options = plain.alias("GTV-1", ["tumour", "gtv_mass*", "Lung"]).alias("lung", ["Heart"]);
        assert_eq!(places_of(&all, "gtv-1", &options), [0], "the first alias that exists");
        assert_eq!(places_of(&all, "Lung", &options), [2], "its own name comes first");
        let mut findings = Vec::new();
        let chosen = choose(&all, &["GTV*", "Heart"], Path::new("f"), &options, &mut findings).expect("one is there");
        assert_eq!((chosen[0].1.label, chosen[0].1.name.as_str()), (1, "GTV*"));
        let kinds: Vec<FindingKind> = findings.iter().map(|f| f.kind).collect();
        assert_eq!(kinds, [FindingKind::JoinedRegions, FindingKind::MissingRegion]);
        let none = ReadOptions::default().alias("GTV-1", ["tumour"]);
        let error = choose(&all, &["GTV-1"], Path::new("f"), &none, &mut findings).expect_err("nothing").to_string();
        assert!(error.contains("nor of their aliases [\"tumour\"]") && error.contains("gtv_node"), "{error}");
    }

    #[test]
    fn regions_are_chosen_by_what_a_listing_shows() {
        let region = |label, name: &str, property: Option<&str>| Region {
            label,
            name: name.to_owned(),
            description: None,
            property: property.map(str::to_owned),
            color: None,
            coding: None,
        };
        let all = [region(1, "GTV-1", Some("GTV")), region(2, "Lung, left ", Some("ORGAN")), region(7, "", None)];
        for (name, place) in [
            ("GTV-1", Some(0)),
            ("gtv-1", Some(0)),
            ("GTV-1, GTV", Some(0)),
            ("Lung, left", Some(1)),
            ("Lung, left , ORGAN", Some(1)),
            ("2", Some(1)),
            ("7", Some(2)),
            ("GTV", None),
            ("3", None),
        ] {
            assert_eq!(place_of(&all, name), place, "{name}");
        }
    }
}
