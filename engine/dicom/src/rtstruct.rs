//! RTSTRUCT: contours drawn on slices, and their masks.

use std::path::{Path, PathBuf};

use dicom_dictionary_std::tags;

use crate::contours::{Area, Polygon, area, raster};
use crate::error::DicomError;
use crate::finding::{Finding, FindingKind, Severity};
use crate::geometry::{Grid, Vector, along, dot, norm};
use crate::image::Identity;
use crate::open::open;
use crate::options::ReadOptions;
use crate::regions::{Region, RegionVolume, choose, overlap, zeros};
use crate::tags::Attributes;

/// RT Structure Set Storage.
const CLASS: &str = "1.2.840.10008.5.1.4.1.1.481.3";

/// A structure set: named regions drawn as contours.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StructureSet {
    /// The file.
    pub path: PathBuf,
    /// StructureSetLabel.
    pub label: Option<String>,
    /// The regions, in the order of the file.
    pub rois: Vec<Roi>,
    /// SeriesInstanceUIDs of the images that the regions were drawn on.
    pub referenced_series: Vec<String>,
    /// The frame of reference.
    pub frame_of_reference: Option<String>,
}

/// A region of interest.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Roi {
    /// ROINumber.
    pub number: i64,
    /// ROIName; may be empty.
    pub name: String,
    /// ROIDescription.
    pub description: Option<String>,
    /// RTROIInterpretedType: `GTV`, `ORGAN`, `ISOCENTER`, ...
    pub interpreted_type: Option<String>,
    /// Red, green, blue.
    pub color: Option<[u8; 3]>,
    /// The contours.
    pub contours: Vec<Contour>,
}

/// One contour.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Contour {
    /// The meaning of the points.
    pub kind: ContourKind,
    /// The points in mm, LPS.
    pub points: Vec<[f64; 3]>,
}

/// The meaning of the points of a contour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContourKind {
    /// A polygon in a plane. Only closed polygons make masks.
    ClosedPlanar,
    /// As `ClosedPlanar`, but those of a plane are combined by exclusive or.
    ClosedPlanarXor,
    /// A line in a plane.
    OpenPlanar,
    /// A line.
    OpenNonplanar,
    /// Points.
    Point,
}

/// The voxels of a grid that lie in a region.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Mask {
    /// 0 or 1 per voxel, `[X, Y, Z]`, Z fastest.
    pub values: Vec<u8>,
    /// The grid.
    pub grid: Grid,
    /// Findings: contours outside the grid, or between its slices.
    pub findings: Vec<Finding>,
}

impl StructureSet {
    /// Opens an RTSTRUCT file with default options.
    ///
    /// # Errors
    /// If it is not one, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DicomError> {
        StructureSet::open_with(path, &ReadOptions::default())
    }

    /// Opens an RTSTRUCT file.
    ///
    /// # Errors
    /// As [`StructureSet::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, DicomError> {
        let path = path.as_ref();
        let opened = open(path, &options.limits)?;
        let attributes = Attributes::new(&opened.object, path);
        let identity = Identity::read(&attributes);
        if !is_structure_set(&identity) {
            let what = format!("modality {:?}; expected a structure set (RTSTRUCT)", identity.modality);
            return Err(DicomError::Nothing { path: path.to_owned(), what });
        }
        let number = |item: &Attributes<'_>, named| item.required(named, i64::MIN, i64::MAX);
        let mut rois = Vec::new();
        for item in attributes.items(tags::STRUCTURE_SET_ROI_SEQUENCE) {
            rois.push(Roi {
                number: number(&item, tags::ROI_NUMBER)?,
                name: item.text(tags::ROI_NAME).unwrap_or_default(),
                description: item.text(tags::ROI_DESCRIPTION),
                interpreted_type: None,
                color: None,
                contours: Vec::new(),
            });
        }
        for item in attributes.items(tags::RTROI_OBSERVATIONS_SEQUENCE) {
            let roi = item.int(tags::REFERENCED_ROI_NUMBER)?;
            if let Some(roi) = rois.iter_mut().find(|r| Some(r.number) == roi) {
                roi.interpreted_type = item.text(tags::RTROI_INTERPRETED_TYPE);
            }
        }
        for item in attributes.items(tags::ROI_CONTOUR_SEQUENCE) {
            let number = number(&item, tags::REFERENCED_ROI_NUMBER)?;
            let Some(roi) = rois.iter_mut().find(|r| r.number == number) else {
                return Err(item.error(tags::REFERENCED_ROI_NUMBER, format!("{number}: there is no such ROI")));
            };
            roi.color = item.vector::<3>(tags::ROI_DISPLAY_COLOR).ok().flatten().map(|c| c.map(|v| v as u8));
            for contour in item.items(tags::CONTOUR_SEQUENCE) {
                roi.contours.push(read_contour(&contour)?);
            }
        }
        Ok(StructureSet {
            path: path.to_owned(),
            label: attributes.text(tags::STRUCTURE_SET_LABEL),
            rois,
            referenced_series: referenced_series(&attributes),
            frame_of_reference: frame_of_reference(&attributes),
        })
    }

    /// The region of that name.
    ///
    /// # Errors
    /// If it is missing; the message lists the existing names.
    pub fn roi(&self, name: &str) -> Result<&Roi, DicomError> {
        self.rois.iter().find(|r| r.name == name).ok_or_else(|| {
            let there: Vec<&str> = self.rois.iter().map(|r| r.name.as_str()).collect();
            DicomError::Nothing { path: self.path.clone(), what: format!("no ROI {name:?}; there are {there:?}") }
        })
    }

    /// Regions with an area; labels count from 1 in the order of the file.
    pub fn regions(&self) -> Vec<Region> {
        let region = |(i, r): (usize, &Roi)| Region {
            label: i as u32 + 1,
            name: r.name.clone(),
            description: r.description.clone(),
            property: r.interpreted_type.clone(),
            color: r.color,
            coding: None,
        };
        self.areas().enumerate().map(region).collect()
    }

    fn areas(&self) -> impl Iterator<Item = &Roi> {
        self.rois.iter().filter(|r| r.has_area())
    }

    /// One channel per region; see [`crate::Regions::channels`].
    ///
    /// # Errors
    /// As there.
    pub fn channels(&self, names: &[&str], grid: &Grid, options: &ReadOptions) -> Result<RegionVolume, DicomError> {
        let mut findings = Vec::new();
        let chosen = choose(&self.regions(), names, &self.path, options, &mut findings)?;
        let (mut values, shape) = zeros(chosen.len(), grid, &self.path, options)?;
        let size = shape[1] * shape[2] * shape[3];
        for (channel, (places, _)) in values.chunks_exact_mut(size.max(1)).zip(&chosen) {
            for at in places {
                let Some(mask) = self.chosen_mask(*at, grid)? else { continue };
                channel.iter_mut().zip(&mask.values).filter(|(_, m)| **m > 0).for_each(|(v, _)| *v = 1.0);
                findings.extend(mask.findings);
            }
        }
        let regions = chosen.into_iter().map(|(_, r)| r).collect();
        Ok(RegionVolume { values, shape, regions, grid: grid.clone(), findings, channels: true })
    }

    /// A label map; see [`crate::Regions::labels`].
    ///
    /// # Errors
    /// As there.
    pub fn labels(&self, names: &[&str], grid: &Grid, options: &ReadOptions) -> Result<RegionVolume, DicomError> {
        let mut findings = Vec::new();
        let chosen = choose(&self.regions(), names, &self.path, options, &mut findings)?;
        let (mut values, shape) = zeros(1, grid, &self.path, options)?;
        let mut twice = 0;
        for (places, region) in &chosen {
            let label = region.label as f32;
            for at in places {
                let Some(mask) = self.chosen_mask(*at, grid)? else { continue };
                for (value, _) in values.iter_mut().zip(&mask.values).filter(|(_, m)| **m > 0) {
                    twice += usize::from(*value != 0.0 && *value != label);
                    *value = label;
                }
                findings.extend(mask.findings);
            }
        }
        findings.extend(overlap(twice));
        let regions = chosen.into_iter().map(|(_, r)| r).collect();
        Ok(RegionVolume { values, shape, regions, grid: grid.clone(), findings, channels: false })
    }

    fn chosen_mask(&self, at: usize, grid: &Grid) -> Result<Option<Mask>, DicomError> {
        let Some(roi) = self.areas().nth(at) else { return Ok(None) };
        let fail = |what| DicomError::Grid { path: self.path.clone(), what };
        roi.mask(grid).map(Some).map_err(fail)
    }

    /// The mask of the region of that name on a grid: that of the series it was drawn on, or any
    /// whose slices are parallel to the contours.
    ///
    /// # Errors
    /// If there is no such region, or its contours are not parallel to the slices.
    pub fn mask(&self, name: &str, grid: &Grid) -> Result<Mask, DicomError> {
        self.roi(name)?.mask(grid).map_err(|what| DicomError::Grid { path: self.path.clone(), what })
    }
}

impl Roi {
    /// Whether the region has an area, that is, closed contours.
    pub fn has_area(&self) -> bool {
        self.contours.iter().any(Contour::has_area)
    }

    /// The mask. A voxel belongs to it if its centre lies within the contours of its slice: a contour
    /// within another is a hole, contours that cross are united, and repeated ones count once.
    ///
    /// Contours of one plane belong together. A plane belongs to the slice nearest to it; of several
    /// planes, a slice takes the nearest, so that contours closer together than the slices give no more
    /// than their volume.
    fn mask(&self, grid: &Grid) -> Result<Mask, String> {
        let [nx, ny, nz] = grid.shape();
        let plane = grid.plane().ok_or_else(|| "rows and columns of the grid are parallel".to_owned())?;
        let depth = |p: Vector| dot(p, plane.normal);
        let mut planes: Vec<Vec<Drawn>> = vec![Vec::new(); nz];
        let open = self.contours.iter().filter(|contour| !contour.has_area()).count();
        let mut unusual = Unusual { open, ..Unusual::default() };
        for contour in self.contours.iter().filter(|c| c.has_area()) {
            let at = depth(contour.center());
            let away = |k: &usize| (depth(grid.origins()[*k]) - at).abs();
            let Some(slice) = (0..nz).min_by(|a, b| away(a).total_cmp(&away(b))) else { continue };
            let gap = slice_gap(grid, slice);
            let slope = contour.points.iter().map(|p| (depth(*p) - at).abs()).fold(0.0, f64::max);
            if slope > 0.5 * gap {
                return Err(format!(
                    "ROI {:?} has a contour that is not parallel to the slices (by {slope:.2} mm); use the grid of the series it was \
                     drawn on",
                    self.name
                ));
            }
            if away(&slice) > (0.5 + 1e-3) * gap {
                unusual.outside += 1;
                continue;
            }
            let origin = grid.origins()[slice];
            let polygon = contour.points.iter().map(|p| plane.column_row(origin, *p)).collect();
            planes[slice].push(Drawn {
                away: away(&slice),
                at,
                polygon,
                is_xor: contour.kind == ContourKind::ClosedPlanarXor,
            });
        }
        let mut values = vec![0; nx * ny * nz];
        for (k, drawn) in planes.into_iter().enumerate().filter(|(_, drawn)| !drawn.is_empty()) {
            let gap = slice_gap(grid, k);
            let (contours, skipped) = nearest_plane(drawn, SAME_PLANE * gap);
            unusual.skipped += skipped;
            unusual.between += contours.iter().filter(|one| one.away > 0.1 * gap).count();
            if contours.len() > MOST_CONTOURS {
                let (name, count) = (&self.name, contours.len());
                return Err(format!(
                    "ROI {name:?} has {count} contours in slice {k}, expected at most {MOST_CONTOURS}"
                ));
            }
            let (xor, closed): (Vec<Drawn>, Vec<Drawn>) = contours.into_iter().partition(|one| one.is_xor);
            let [xor, closed] =
                [xor, closed].map(|some| some.into_iter().map(|one| one.polygon).collect::<Vec<Polygon>>());
            let area = area(&closed, [nx, ny]);
            unusual.slice(k, &area);
            let toggled = raster(&xor, [nx, ny]);
            let pixels = area.pixels.iter().zip(&toggled).map(|(closed, xor)| closed ^ xor);
            pixels.enumerate().filter(|(_, within)| *within).for_each(|(pixel, _)| values[pixel * nz + k] = 1);
        }
        Ok(Mask { values, grid: grid.clone(), findings: unusual.findings(&self.name, self.contours.len()) })
    }
}

/// A contour on a slice.
#[derive(Clone)]
struct Drawn {
    /// The distance of its plane to the slice, in mm.
    away: f64,
    /// The place of its plane along the slices' normal, in mm.
    at: f64,
    polygon: Polygon,
    is_xor: bool,
}

/// Planes whose distance is at most this share of that of two slices are the same plane.
const SAME_PLANE: f64 = 0.1;

/// The largest number of contours in a plane: each is compared with each.
const MOST_CONTOURS: usize = 2000;

/// The contours in the plane nearest to a slice, and the number of the others.
fn nearest_plane(drawn: Vec<Drawn>, same: f64) -> (Vec<Drawn>, usize) {
    let nearest = drawn.iter().min_by(|a, b| a.away.total_cmp(&b.away)).map_or(0.0, |one| one.at);
    let (here, others): (Vec<Drawn>, Vec<Drawn>) = drawn.into_iter().partition(|one| (one.at - nearest).abs() <= same);
    (here, others.len())
}

/// The unusual contours of a region: how many there are, and the slices in which they lie.
#[derive(Default)]
struct Unusual {
    open: usize,
    outside: usize,
    between: usize,
    skipped: usize,
    repeated: Vec<usize>,
    crossing: Vec<usize>,
}

impl Unusual {
    fn slice(&mut self, slice: usize, area: &Area) {
        self.repeated.extend((area.repeated > 0).then_some(slice));
        self.crossing.extend((area.crossing > 0).then_some(slice));
    }

    fn findings(self, name: &str, contours: usize) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |kind, severity, text: String| {
            findings.push(Finding::new(kind, severity, format!("ROI {name:?}: {text}")));
        };
        let of_all = |count: usize, what: &str| format!("{count} of {contours} contour(s) {what}");
        if self.open > 0 {
            let what = of_all(self.open, "are lines or points, without an area, and were ignored");
            add(FindingKind::OpenContours, Severity::Warning, what);
        }
        if self.outside > 0 {
            let what = of_all(self.outside, "lie above or below the grid and were ignored");
            add(FindingKind::OutsideGrid, Severity::Warning, what);
        }
        if self.between > 0 {
            let what = of_all(self.between, "lie between slices and were moved to the nearest");
            add(FindingKind::OutsideGrid, Severity::Warning, what);
        }
        if self.skipped > 0 {
            let what = of_all(self.skipped, "lie between slices, which have nearer contours, and were skipped");
            add(FindingKind::OutsideGrid, Severity::Note, what);
        }
        if !self.repeated.is_empty() {
            let what = format!("contours that repeat another one count once, in {}", slices(&self.repeated));
            add(FindingKind::RepeatedContours, Severity::Warning, what);
        }
        if !self.crossing.is_empty() {
            let what = format!("contours that cross were united, in {}", slices(&self.crossing));
            add(FindingKind::CrossingContours, Severity::Warning, what);
        }
        findings
    }
}

/// `slice 3`, or `slices 3, 4, 5 and 12 more`; from 0, in the order of the grid.
fn slices(numbers: &[usize]) -> String {
    let listed = |some: &[usize]| some.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    match numbers {
        [one] => format!("slice {one}"),
        some if some.len() <= 6 => format!("slices {}", listed(some)),
        many => format!("slices {} and {} more", listed(&many[..5]), many.len() - 5),
    }
}

impl Contour {
    fn has_area(&self) -> bool {
        matches!(self.kind, ContourKind::ClosedPlanar | ContourKind::ClosedPlanarXor) && self.points.len() >= 3
    }

    fn center(&self) -> Vector {
        let sum = self.points.iter().fold([0.0; 3], |sum, p| along(sum, *p, 1.0));
        sum.map(|v| v / self.points.len() as f64)
    }
}

/// The distance of a slice to its nearer neighbour.
fn slice_gap(grid: &Grid, slice: usize) -> f64 {
    let origins = grid.origins();
    let to = |k: Option<usize>| k.and_then(|k| origins.get(k)).map(|o| norm(along(*o, origins[slice], -1.0)));
    let gap = [to(slice.checked_sub(1)), to(Some(slice + 1))].into_iter().flatten().fold(f64::INFINITY, f64::min);
    if gap.is_finite() { gap } else { grid.spacing()[2] }
}

fn read_contour(item: &Attributes<'_>) -> Result<Contour, DicomError> {
    let kind = match item.text(tags::CONTOUR_GEOMETRIC_TYPE).as_deref() {
        Some("CLOSED_PLANAR") | None => ContourKind::ClosedPlanar,
        Some("CLOSEDPLANAR_XOR") => ContourKind::ClosedPlanarXor,
        Some("OPEN_PLANAR") => ContourKind::OpenPlanar,
        Some("OPEN_NONPLANAR") => ContourKind::OpenNonplanar,
        Some("POINT") => ContourKind::Point,
        Some(other) => return Err(item.error(tags::CONTOUR_GEOMETRIC_TYPE, format!("{other:?} is not known"))),
    };
    let numbers = item.floats(tags::CONTOUR_DATA)?.unwrap_or_default();
    let (points, rest) = numbers.as_chunks::<3>();
    if !rest.is_empty() {
        let what = format!("{} numbers; expected three for each point", numbers.len());
        return Err(item.error(tags::CONTOUR_DATA, what));
    }
    Ok(Contour { kind, points: points.to_vec() })
}

pub(crate) fn is_structure_set(identity: &Identity) -> bool {
    identity.sop_class == CLASS || (identity.sop_class.is_empty() && identity.modality == "RTSTRUCT")
}

/// The frame of reference of the regions.
pub(crate) fn frame_of_reference(attributes: &Attributes<'_>) -> Option<String> {
    attributes.items(tags::STRUCTURE_SET_ROI_SEQUENCE).find_map(|r| r.text(tags::REFERENCED_FRAME_OF_REFERENCE_UID))
}

/// SeriesInstanceUIDs of the images that the regions were drawn on.
pub(crate) fn referenced_series(attributes: &Attributes<'_>) -> Vec<String> {
    let mut out: Vec<String> = attributes
        .items(tags::REFERENCED_FRAME_OF_REFERENCE_SEQUENCE)
        .flat_map(|f| f.items(tags::RT_REFERENCED_STUDY_SEQUENCE))
        .flat_map(|s| s.items(tags::RT_REFERENCED_SERIES_SEQUENCE))
        .filter_map(|s| s.text(tags::SERIES_INSTANCE_UID))
        .collect();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set with one region, a square of 2 x 2 pixels as a contour of each kind.
    fn set(kinds: &[ContourKind]) -> StructureSet {
        let points = vec![[0.5, 0.5, 0.0], [2.5, 0.5, 0.0], [2.5, 2.5, 0.0], [0.5, 2.5, 0.0]];
        let contours = kinds.iter().map(|kind| Contour { kind: *kind, points: points.clone() }).collect();
        let (description, interpreted_type, color) = (None, None, None);
        let roi = Roi { number: 4, name: "GTV".to_owned(), description, interpreted_type, color, contours };
        StructureSet {
            path: PathBuf::from("rs.dcm"),
            label: None,
            rois: vec![roi],
            referenced_series: Vec::new(),
            frame_of_reference: None,
        }
    }

    #[test]
    fn lines_are_reported_and_no_area_at_all_is_an_error() {
        // From left and posterior to right and anterior.
        let affine = [[-1.0, 0.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        let grid = Grid::new([4, 4, 1], affine);
        let labels = |kinds: &[ContourKind]| set(kinds).labels(&[], &grid, &ReadOptions::default());
        let both = labels(&[ContourKind::ClosedPlanar, ContourKind::OpenPlanar]).expect("labels");
        assert_eq!(both.values.iter().sum::<f32>(), 4.0);
        let [finding] = &both.findings[..] else { panic!("{:?}", both.findings) };
        assert_eq!((finding.kind, finding.severity), (FindingKind::OpenContours, Severity::Warning));
        assert!(finding.text.contains("1 of 2 contour(s) are lines or points"), "{}", finding.text);
        assert!(labels(&[ContourKind::ClosedPlanar]).expect("labels").findings.is_empty());
        let error = labels(&[ContourKind::OpenPlanar]).expect_err("no area").to_string();
        assert!(error.contains("rs.dcm") && error.contains("no closed contours"), "{error}");
    }
}
