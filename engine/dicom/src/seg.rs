//! SEG: segmentations, binary, fractional, overlapping, or as a label map.

use std::path::{Path, PathBuf};

use dicom_core::Tag;
use dicom_dictionary_std::tags;

use rayon::prelude::*;

use crate::error::DicomError;
use crate::finding::{Finding, FindingKind, Severity};
use crate::geometry::{Grid, Orientation, Vector, along, dot, norm};
use crate::image::{Identity, ImageFile};
use crate::open::open;
use crate::options::ReadOptions;
use crate::pixels::{StoredType, lab_to_rgb, stored_frame};
use crate::regions::{Region, RegionVolume, choose, overlap, zeros};
use crate::tags::Attributes;
use crate::write::{Code, Coding};

/// Segmentation Storage and Label Map Segmentation Storage.
const CLASSES: [&str; 2] = ["1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7"];

/// The largest number of slices without a frame in a segmentation's own grid; an invalid file could
/// request millions.
const MOST_SLICES: f64 = 1024.0;

/// The number of frames decoded at once.
const BATCH: usize = 64;

/// The storage of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentationKind {
    /// Frames of one segment each, with values 0 or 1.
    Binary,
    /// Frames of one segment each, whose values up to this number are probabilities or occupancies
    /// from 0 to 1.
    Fractional {
        /// MaximumFractionalValue.
        maximum: u16,
    },
    /// Frames of segment numbers.
    LabelMap,
}

/// A segment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Segment {
    /// SegmentNumber.
    pub number: u16,
    /// SegmentLabel.
    pub label: String,
    /// SegmentDescription.
    pub description: Option<String>,
    /// The category: `Tissue`, `Anatomical Structure`, ...
    pub category: Option<String>,
    /// The type: `Liver`, `Neoplasm`, ...
    pub property: Option<String>,
    /// `AUTOMATIC`, `SEMIAUTOMATIC` or `MANUAL`.
    pub algorithm: Option<String>,
    /// Red, green, blue.
    pub color: Option<[u8; 3]>,
    /// The category and type as codes, if the file has both.
    pub coding: Option<Coding>,
}

/// A segmentation.
#[derive(Clone, Debug)]
pub struct Segmentation {
    path: PathBuf,
    kind: SegmentationKind,
    segments: Vec<Segment>,
    referenced_series: Vec<String>,
    file: ImageFile,
    /// The segment of each frame; empty for a label map.
    frame_segments: Vec<Option<u16>>,
}

/// The position of a frame on a grid: its slice, and column and row of its first pixel.
type Place = (usize, [i64; 2]);

impl Segmentation {
    /// Opens a SEG file with default options. Its pixels are read on demand.
    ///
    /// # Errors
    /// If it is not one, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DicomError> {
        Segmentation::open_with(path, &ReadOptions::default())
    }

    /// Opens a SEG file.
    ///
    /// # Errors
    /// As [`Segmentation::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, DicomError> {
        let path = path.as_ref();
        let opened = open(path, &options.limits)?;
        let attributes = Attributes::new(&opened.object, path);
        let identity = Identity::read(&attributes);
        if !is_segmentation(&identity) {
            let what = format!("modality {:?}; expected a segmentation (SEG)", identity.modality);
            return Err(DicomError::Nothing { path: path.to_owned(), what });
        }
        if attributes.int(tags::NUMBER_OF_FRAMES)? == Some(0) {
            let what = "0: a segmentation has one frame at least, of zeros if nothing was found; its writer left out \
                        the empty frames, or failed. Write it again with its empty frames";
            return Err(attributes.error(tags::NUMBER_OF_FRAMES, what));
        }
        let Some(element) = &opened.pixels else {
            return Err(DicomError::Damaged {
                path: path.to_owned(),
                what: "a segmentation without pixels".to_owned(),
            });
        };
        let file = ImageFile::read(&opened, element, &options.limits)?;
        let kind = match attributes.text(tags::SEGMENTATION_TYPE).as_deref() {
            Some("BINARY") => SegmentationKind::Binary,
            Some("LABELMAP") => SegmentationKind::LabelMap,
            Some("FRACTIONAL") => {
                let maximum = attributes.required(tags::MAXIMUM_FRACTIONAL_VALUE, 1, 65_535)? as u16;
                SegmentationKind::Fractional { maximum }
            }
            other => return Err(attributes.error(tags::SEGMENTATION_TYPE, format!("{other:?} is not known"))),
        };
        let segments: Vec<Segment> =
            attributes.items(tags::SEGMENT_SEQUENCE).map(|s| segment(&s)).collect::<Result<_, _>>()?;
        let shared = attributes.item(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE);
        let own: Vec<Attributes<'_>> = attributes.items(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE).collect();
        let frame_segments = (0..file.frames.len())
            .map(|i| {
                if kind == SegmentationKind::LabelMap {
                    return Ok(None);
                }
                let mut groups = own.get(i).into_iter().chain(&shared);
                let item = groups.find_map(|g| g.item(tags::SEGMENT_IDENTIFICATION_SEQUENCE));
                let item = item.ok_or_else(|| attributes.error(tags::SEGMENT_IDENTIFICATION_SEQUENCE, "missing"))?;
                let number = item.required(tags::REFERENCED_SEGMENT_NUMBER, 1, 65_535)? as u16;
                if segments.iter().any(|s| s.number == number) {
                    return Ok(Some(number));
                }
                Err(item.error(tags::REFERENCED_SEGMENT_NUMBER, format!("{number}: there is no such segment")))
            })
            .collect::<Result<_, _>>()?;
        if !matches!(file.format.stored_type(), StoredType::U8 | StoredType::U16) || file.format.channels() != 1 {
            let what = format!("segments stored as {}", file.format.stored_type().name());
            return Err(DicomError::Unsupported { path: path.to_owned(), what });
        }
        let referenced_series = referenced_series(&attributes);
        Ok(Segmentation { path: path.to_owned(), kind, segments, referenced_series, file, frame_segments })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The storage of segments.
    pub fn kind(&self) -> SegmentationKind {
        self.kind
    }

    /// The segments, in the order of the file. A label map may list its background as segment 0.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// SeriesInstanceUIDs of the images that the segments were drawn on.
    pub fn referenced_series(&self) -> &[String] {
        &self.referenced_series
    }

    /// FrameOfReferenceUID.
    pub fn frame_of_reference(&self) -> Option<&str> {
        self.file.identity.frame_of_reference.as_deref()
    }

    /// The segments without the background; labels are segment numbers.
    pub fn regions(&self) -> Vec<Region> {
        let region = |s: &Segment| Region {
            label: u32::from(s.number),
            name: s.label.clone(),
            description: s.description.clone(),
            property: s.property.clone(),
            color: s.color,
            coding: s.coding.clone(),
        };
        self.segments.iter().filter(|s| s.number > 0).map(region).collect()
    }

    /// The grid of the segmentation's own frames. Files often omit frames without any segment, so
    /// distances of frames may be multiples of the distance of slices.
    ///
    /// # Errors
    /// If frames have no position (whole slides), or do not lie at multiples of one distance.
    pub fn own_grid(&self) -> Result<Grid, DicomError> {
        let mut places: Vec<Vector> = self.positions()?;
        let (orientation, spacing) = self.plane()?;
        let normal = orientation.normal();
        places.sort_by(|a, b| dot(*a, normal).total_cmp(&dot(*b, normal)));
        let info = &self.file.frames[0];
        let tiny = 1e-3 * info.distance().unwrap_or(spacing[0]);
        places.dedup_by(|b, a| dot(along(*b, *a, -1.0), normal) < tiny);
        let gaps: Vec<f64> = places.windows(2).map(|w| dot(along(w[1], w[0], -1.0), normal)).collect();
        let least = gaps.iter().copied().fold(f64::INFINITY, f64::min);
        let said = info.slice_spacing.map(f64::abs).filter(|s| *s <= least * 1.01);
        let step = said.or(least.is_finite().then_some(least)).or(info.distance()).unwrap_or(1.0);
        if let Some(odd) = gaps.iter().find(|g| (*g / step - (*g / step).round()).abs() > 0.05) {
            let what =
                format!("frames {odd:.3} mm apart don't lie at multiples of {step:.3} mm; give the grid of the images");
            return Err(DicomError::Grid { path: self.path.clone(), what });
        }
        let (first, last) = (places[0], places[places.len() - 1]);
        let across = along(last, first, -1.0);
        let steps = (dot(across, normal) / step).round();
        if steps > MOST_SLICES + places.len() as f64 {
            let what = format!("frames lie {steps} slices apart; give the grid of the images");
            return Err(DicomError::Grid { path: self.path.clone(), what });
        }
        let origins = (0..=steps as usize).map(|k| along(first, across, k as f64 / steps.max(1.0))).collect();
        let size = [self.file.format.columns, self.file.format.rows];
        Ok(Grid::stack(size, &orientation, spacing, origins, step))
    }

    /// One channel per segment; see [`crate::Regions::channels`].
    ///
    /// # Errors
    /// As there.
    pub fn channels(&self, names: &[&str], grid: &Grid, options: &ReadOptions) -> Result<RegionVolume, DicomError> {
        let mut findings = Vec::new();
        let all = self.regions();
        let chosen = choose(&all, names, &self.path, options, &mut findings)?;
        let (mut values, shape) = zeros(chosen.len(), grid, &self.path, options)?;
        let size = shape[1] * shape[2] * shape[3];
        let numbers = |(c, (places, _)): (usize, &(Vec<usize>, Region))| -> Vec<(usize, u16)> {
            places.iter().map(|at| (c, all[*at].label as u16)).collect()
        };
        let channels: Vec<(usize, u16)> = chosen.iter().enumerate().flat_map(numbers).collect();
        let full = self.full();
        self.visit(grid, options, &mut findings, |segment, voxel, value| {
            for (c, number) in &channels {
                match segment {
                    // If several segments are combined, the largest fraction is used.
                    Some(segment) if segment == *number => {
                        let held = &mut values[c * size + voxel];
                        *held = held.max(f32::from(value) / full);
                    }
                    None if value == *number => values[c * size + voxel] = 1.0,
                    _ => {}
                }
            }
        })?;
        let regions = chosen.into_iter().map(|(_, r)| r).collect();
        Ok(RegionVolume { values, shape, regions, grid: grid.clone(), findings, channels: true })
    }

    /// A label map; see [`crate::Regions::labels`].
    ///
    /// # Errors
    /// As there.
    pub fn labels(&self, names: &[&str], grid: &Grid, options: &ReadOptions) -> Result<RegionVolume, DicomError> {
        let mut findings = Vec::new();
        let all = self.regions();
        let chosen = choose(&all, names, &self.path, options, &mut findings)?;
        let (mut values, shape) = zeros(1, grid, &self.path, options)?;
        let label = |number: u16| {
            let of = |(places, region): &(Vec<usize>, Region)| {
                places.iter().any(|i| all[*i].label == u32::from(number)).then_some(region.label)
            };
            chosen.iter().find_map(of)
        };
        let full = self.full();
        let mut fractions = if full > 1.0 { vec![0; values.len()] } else { Vec::new() };
        let mut twice = 0;
        self.visit(grid, options, &mut findings, |segment, voxel, value| {
            let Some(label) = label(segment.unwrap_or(value)) else { return };
            if full > 1.0 {
                // The largest fraction is used, if it is at least one half.
                if f32::from(value) / full < 0.5 || value <= fractions[voxel] {
                    return;
                }
                fractions[voxel] = value;
            }
            let label = label as f32;
            twice += usize::from(values[voxel] != 0.0 && values[voxel] != label);
            // The later label is used, independent of the order of frames.
            if full > 1.0 || label > values[voxel] {
                values[voxel] = label;
            }
        })?;
        findings.extend(overlap(twice));
        let regions = chosen.into_iter().map(|(_, r)| r).collect();
        Ok(RegionVolume { values, shape, regions, grid: grid.clone(), findings, channels: false })
    }

    /// The stored value of a fully covered voxel.
    fn full(&self) -> f32 {
        match self.kind {
            SegmentationKind::Fractional { maximum } => f32::from(maximum),
            SegmentationKind::Binary | SegmentationKind::LabelMap => 1.0,
        }
    }

    /// Positions of all frames.
    fn positions(&self) -> Result<Vec<Vector>, DicomError> {
        let what = "frames without ImagePositionPatient (of a whole slide?) don't lie on a grid of voxels";
        let missing = || DicomError::Unsupported { path: self.path.clone(), what: what.to_owned() };
        self.file.frames.iter().map(|f| f.position.ok_or_else(missing)).collect()
    }

    /// Orientation and pixel distances, shared by all frames.
    fn plane(&self) -> Result<(Orientation, [f64; 2]), DicomError> {
        let unsupported = |what: &str| DicomError::Unsupported { path: self.path.clone(), what: what.to_owned() };
        let first = &self.file.frames[0];
        let orientation = first.orientation.ok_or_else(|| unsupported("frames without ImageOrientationPatient"))?;
        let spacing = first.spacing.ok_or_else(|| unsupported("frames without PixelSpacing"))?;
        let same = |o: Option<Orientation>| o.is_some_and(|o| o.is_close(&orientation));
        if !self.file.frames.iter().all(|f| same(f.orientation) && f.spacing == Some(spacing)) {
            return Err(unsupported("frames of different orientation or spacing"));
        }
        Ok((orientation, spacing))
    }

    /// The position of each frame on a grid; `None` above or below it.
    fn place(&self, grid: &Grid) -> Result<Vec<Option<Place>>, DicomError> {
        let fail = |what: String| DicomError::Grid { path: self.path.clone(), what };
        let advice = "use `own_grid`, and resample";
        let positions = self.positions()?;
        let (orientation, [dx, dy]) = self.plane()?;
        let plane = grid.plane().ok_or_else(|| fail("rows and columns of the grid are parallel".to_owned()))?;
        let parallel = |step: Vector, direction: Vector, by: f64| norm(along(step, direction, -by)) <= 2e-3 * by;
        if !parallel(grid.step(0), orientation.row, dx) || !parallel(grid.step(1), orientation.column, dy) {
            return Err(fail(format!("its pixels have another size or direction than those of the grid; {advice}")));
        }
        let spacing = grid.spacing()[2];
        let place = |position: Vector| {
            let away = |k: &usize| dot(along(position, grid.origins()[*k], -1.0), plane.normal).abs();
            let slices = 0..grid.shape()[2];
            let Some(slice) = slices.min_by(|a, b| away(a).total_cmp(&away(b))) else { return Ok(None) };
            if away(&slice) > 0.1 * spacing {
                let end = slice == 0 || slice + 1 == grid.shape()[2];
                if end && away(&slice) > 0.9 * spacing {
                    return Ok(None);
                }
                let what = format!("a frame lies {:.3} mm from the nearest slice of the grid; {advice}", away(&slice));
                return Err(fail(what));
            }
            let from = plane.column_row(grid.origins()[slice], position);
            if from.iter().any(|v| (v - v.round()).abs() > 0.1) {
                return Err(fail(format!("a frame lies between pixels of the grid (at {from:.2?}); {advice}")));
            }
            Ok(Some((slice, from.map(|v| v.round() as i64))))
        };
        positions.into_iter().map(place).collect()
    }

    /// Calls `each` with segment, voxel and stored value, for nonzero values.
    fn visit(
        &self,
        grid: &Grid,
        options: &ReadOptions,
        findings: &mut Vec<Finding>,
        mut each: impl FnMut(Option<u16>, usize, u16),
    ) -> Result<(), DicomError> {
        let places = self.place(grid)?;
        let reader = self.file.frame_reader()?;
        let format = &self.file.format;
        let [nx, ny, nz] = grid.shape();
        let mut outside = places.iter().filter(|p| p.is_none()).count();
        let frames: Vec<(usize, (usize, [i64; 2]))> =
            places.into_iter().enumerate().filter_map(|(i, p)| Some((i, p?))).collect();
        for batch in frames.chunks(BATCH) {
            let decode = |(i, _): &(usize, _)| stored_frame(&reader, format, *i, &options.limits);
            let decoded: Vec<Vec<u8>> = batch.par_iter().map(decode).collect::<Result<_, _>>()?;
            for ((i, (slice, [x0, y0])), bytes) in batch.iter().zip(decoded) {
                let segment = self.frame_segments[*i];
                let mut cut = false;
                for (at, sample) in bytes.chunks_exact(format.sample_bytes()).enumerate() {
                    let value = sample.iter().rev().fold(0_u16, |v, b| v << 8 | u16::from(*b));
                    if value == 0 {
                        continue;
                    }
                    // A position far away saturates.
                    let x = x0.saturating_add((at % format.columns) as i64);
                    let y = y0.saturating_add((at / format.columns) as i64);
                    if (0..nx as i64).contains(&x) && (0..ny as i64).contains(&y) {
                        each(segment, (x as usize * ny + y as usize) * nz + slice, value);
                    } else {
                        cut = true;
                    }
                }
                outside += usize::from(cut);
            }
        }
        if outside > 0 {
            let text =
                format!("{outside} of {} frames lie outside the grid, in whole or in part", self.file.frames.len());
            findings.push(Finding::new(FindingKind::OutsideGrid, Severity::Warning, text));
        }
        Ok(())
    }
}

fn code(item: &Attributes<'_>, sequence: Tag) -> Option<Code> {
    let code = item.item(sequence)?;
    let text = |tag| code.text(tag);
    let read = Code::new(
        text(tags::CODE_VALUE)?,
        text(tags::CODING_SCHEME_DESIGNATOR)?,
        text(tags::CODE_MEANING).unwrap_or_default(),
    );
    read.fault().is_none().then_some(read)
}

fn segment(item: &Attributes<'_>) -> Result<Segment, DicomError> {
    let meaning = |sequence| item.item(sequence).and_then(|c| c.text(tags::CODE_MEANING));
    Ok(Segment {
        number: item.required(tags::SEGMENT_NUMBER, 0, 65_535)? as u16,
        label: item.text(tags::SEGMENT_LABEL).unwrap_or_default(),
        description: item.text(tags::SEGMENT_DESCRIPTION),
        category: meaning(tags::SEGMENTED_PROPERTY_CATEGORY_CODE_SEQUENCE),
        property: meaning(tags::SEGMENTED_PROPERTY_TYPE_CODE_SEQUENCE),
        algorithm: item.text(tags::SEGMENT_ALGORITHM_TYPE),
        color: item.vector::<3>(tags::RECOMMENDED_DISPLAY_CIE_LAB_VALUE).ok().flatten().map(lab_to_rgb),
        coding: code(item, tags::SEGMENTED_PROPERTY_CATEGORY_CODE_SEQUENCE).and_then(|category| {
            let kind = code(item, tags::SEGMENTED_PROPERTY_TYPE_CODE_SEQUENCE)?;
            let of_kind = item.item(tags::SEGMENTED_PROPERTY_TYPE_CODE_SEQUENCE)?;
            let side = code(&of_kind, tags::SEGMENTED_PROPERTY_TYPE_MODIFIER_CODE_SEQUENCE);
            Some(Coding { site: code(item, tags::ANATOMIC_REGION_SEQUENCE), side, ..Coding::new(category, kind) })
        }),
    })
}

pub(crate) fn is_segmentation(identity: &Identity) -> bool {
    CLASSES.contains(&identity.sop_class.as_str()) || (identity.sop_class.is_empty() && identity.modality == "SEG")
}

/// SeriesInstanceUIDs of the images that the segments were drawn on.
pub(crate) fn referenced_series(attributes: &Attributes<'_>) -> Vec<String> {
    attributes.items(tags::REFERENCED_SERIES_SEQUENCE).filter_map(|s| s.text(tags::SERIES_INSTANCE_UID)).collect()
}
