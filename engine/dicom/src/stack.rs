//! Groups the slices of one series into stacks: compatible slices, their order, and findings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::finding::{Finding, FindingKind, Severity, names};
use crate::geometry::{Grid, Orientation, Vector, along, dot, norm};
use crate::image::{FrameInfo, ImageFile};
use crate::interleaved::parted;
use crate::options::Limits;
use crate::volumes::{Line, apart};

/// A slice: one frame of one file.
#[derive(Clone, Debug)]
pub struct Slice {
    pub(crate) file: Arc<ImageFile>,
    pub(crate) frame: usize,
}

impl Slice {
    /// The file of the slice.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Number of the frame within the file, from 0: that of a mosaic for all slices in it.
    pub fn frame(&self) -> usize {
        self.file.stored_frame(self.frame)
    }

    /// SOPInstanceUID of its file.
    pub fn sop_instance(&self) -> &str {
        &self.file.identity.sop_instance
    }

    /// ImagePositionPatient: the centre of the first pixel in mm, LPS.
    pub fn position(&self) -> Option<[f64; 3]> {
        self.info().position
    }

    pub(crate) fn instance_number(&self) -> Option<i64> {
        self.file.identity.instance_number
    }

    pub(crate) fn info(&self) -> &FrameInfo {
        &self.file.frames[self.frame]
    }

    fn placed(&self) -> Option<(Vector, Orientation)> {
        self.info().position.zip(self.info().orientation)
    }

    /// The sort key if positions do not determine the order: time, acquisition, number, name.
    fn order(&self) -> (i64, Option<i64>, Option<i64>, &Path, usize) {
        let identity = &self.file.identity;
        (self.info().time, identity.acquisition_number, self.instance_number(), self.path(), self.frame)
    }
}

/// Slices in order, their grid, and findings.
pub(crate) struct Stack {
    pub slices: Vec<Slice>,
    pub grid: Grid,
    pub findings: Vec<Finding>,
    /// The key of the volume among those of the series, if there are several.
    pub key: Option<String>,
    /// The parts of which the key may consist.
    pub parts: Vec<String>,
}

impl Stack {
    fn new(slices: Vec<Slice>, grid: Grid, findings: Vec<Finding>) -> Self {
        Stack { slices, grid, findings, key: None, parts: Vec::new() }
    }
}

/// Sorts the slices of one series into stacks.
pub(crate) fn stacks(slices: Vec<Slice>) -> Vec<Stack> {
    let kinds = split(slices);
    let split = (kinds.len() > 1).then(|| {
        let kind = |slices: &Vec<Slice>| {
            let format = &slices[0].file.format;
            let placed = if slices[0].placed().is_some() { "" } else { " without position" };
            let files = names(slices.iter().map(Slice::path));
            format!("{} of {} x {}{placed} ({files})", slices.len(), format.columns, format.rows)
        };
        let text = kinds.iter().map(kind).collect::<Vec<_>>().join("; ");
        let text = format!(
            "slices of different size, orientation, spacing, colours or purpose cannot be stacked; read as separate volumes: {text}"
        );
        Finding::new(FindingKind::Split, Severity::Warning, text)
    });
    let mut out: Vec<Stack> = kinds.into_iter().flat_map(arrange).collect();
    for stack in &mut out {
        stack.findings.extend(split.clone());
        stack.findings.extend(of_values(&stack.slices));
    }
    out
}

/// Splits slices into groups that can be stacked.
fn split(slices: Vec<Slice>) -> Vec<Vec<Slice>> {
    let fits = |a: &Slice, b: &Slice| {
        let (f, g) = (&a.file.format, &b.file.format);
        let near = |[x, y]: [f64; 2], [u, v]: [f64; 2]| (x - u).abs() <= 1e-3 * x && (y - v).abs() <= 1e-3 * y;
        let spacing = match (a.info().spacing, b.info().spacing) {
            (Some(a), Some(b)) => near(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let placed = match (a.placed(), b.placed()) {
            (Some((_, a)), Some((_, b))) => a.is_close(&b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let kind = a.info().marks.is_localizer() == b.info().marks.is_localizer();
        (f.rows, f.columns, f.channels()) == (g.rows, g.columns, g.channels()) && spacing && placed && kind
    };
    let mut kinds: Vec<Vec<Slice>> = Vec::new();
    for slice in slices {
        match kinds.iter_mut().find(|k| fits(&k[0], &slice)) {
            Some(kind) => kind.push(slice),
            None => kinds.push(vec![slice]),
        }
    }
    kinds
}

/// Sorts slices of one group.
fn arrange(mut slices: Vec<Slice>) -> Vec<Stack> {
    slices.sort_by(|a, b| a.order().cmp(&b.order()));
    let Some((_, orientation)) = slices[0].placed() else { return vec![unplaced(slices)] };
    let mut findings = Vec::new();
    drop_copies(&mut slices, &mut findings);
    let tiny = 1e-3 * slices[0].info().distance().or(slices[0].info().spacing.map(|[x, _]| x)).unwrap_or(1.0);
    let line = Line { normal: orientation.normal(), tiny };
    let parts = apart(slices, &line).into_iter().flat_map(|part| parted(part, &line));
    let mut stacks: Vec<Stack> = parts.flat_map(|part| pile(part, &orientation, &line, &findings)).collect();
    if stacks.len() > 1 {
        let count = stacks.len();
        let text = format!("one of {count} volumes of this series in the same place, such as echoes or time points");
        let repeated = Finding::new(FindingKind::Repeated, Severity::Note, text);
        stacks.iter_mut().for_each(|stack| stack.findings.insert(findings.len(), repeated.clone()));
    }
    stacks
}

/// Stacks slices that differ in no property. If each position has the same number of them, they are volumes in
/// the order of time, acquisition and instance number.
fn pile(slices: Vec<Slice>, orientation: &Orientation, line: &Line, findings: &[Finding]) -> Vec<Stack> {
    let places = line.places(slices);
    let most = places.iter().map(Vec::len).max().unwrap_or(1);
    let volumes = if places.iter().all(|p| p.len() == most) { most } else { 1 };
    (0..volumes)
        .map(|v| {
            let slices: Vec<Slice> = places.iter().map(|p| p[v].clone()).collect();
            let mut findings = findings.to_vec();
            if volumes < most {
                findings.push(crowded(&places));
            }
            let grid = place(&slices, orientation, line.tiny, &mut findings);
            Stack::new(slices, grid, findings)
        })
        .collect()
}

/// Drops copies of a slice: the same SOPInstanceUID, position and pixels in several files. Different
/// slices that share a SOPInstanceUID, as broken anonymizers make them, are all kept.
fn drop_copies(slices: &mut Vec<Slice>, findings: &mut Vec<Finding>) {
    let mut seen: HashMap<(String, usize), Vec<Slice>> = HashMap::new();
    let (mut copies, mut sharing): (Vec<PathBuf>, Vec<PathBuf>) = Default::default();
    slices.retain(|slice| {
        let uid = slice.sop_instance();
        if uid.is_empty() {
            return true;
        }
        let known = seen.entry((uid.to_owned(), slice.frame)).or_default();
        if known.iter().any(|one| is_copy(one, slice)) {
            copies.push(slice.path().to_owned());
            return false;
        }
        if !known.is_empty() {
            sharing.push(slice.path().to_owned());
        }
        known.push(slice.clone());
        true
    });
    if !copies.is_empty() {
        let text = format!(
            "{} slice(s) are in several files; used once, ignoring {}",
            copies.len(),
            names(copies.iter().map(PathBuf::as_path))
        );
        findings.push(Finding::new(FindingKind::DuplicateSlices, Severity::Warning, text).files(copies));
    }
    if !sharing.is_empty() {
        let text = format!(
            "{} slice(s) have the SOPInstanceUID of another one, with other pixels or another position, as after a \
             faulty anonymization: all are used, but no SEG, RTSTRUCT or SR can refer to them: {}",
            sharing.len(),
            names(sharing.iter().map(PathBuf::as_path))
        );
        findings.push(Finding::new(FindingKind::SharedInstance, Severity::Warning, text).files(sharing));
    }
}

/// Whether two slices with the same SOPInstanceUID are the same slice. Pixels that cannot be read are
/// reported when the volume is.
fn is_copy(one: &Slice, other: &Slice) -> bool {
    let near = |a: &Vector, b: &Vector| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
    let same_place = match (one.placed(), other.placed()) {
        (Some((p, a)), Some((q, b))) => near(&p, &q) && a.is_close(&b),
        (a, b) => a.is_none() && b.is_none(),
    };
    let (f, g) = (&one.file.format, &other.file.format);
    let same_shape = (f.rows, f.columns, f.channels()) == (g.rows, g.columns, g.channels());
    let pixels = |slice: &Slice| {
        let reader = slice.file.frame_reader()?;
        slice.file.stored(&reader, slice.frame, &Limits::default())
    };
    same_place
        && same_shape
        && (one.path() == other.path() || !matches!((pixels(one), pixels(other)), (Ok(a), Ok(b)) if a != b))
}

/// Different slices at the same position, but not at every position.
fn crowded(places: &[Vec<Slice>]) -> Finding {
    let files: Vec<PathBuf> = places.iter().filter(|p| p.len() > 1).flatten().map(|s| s.path().to_owned()).collect();
    let text = format!(
        "{} different slices lie at {} position(s), others have one each: {}",
        files.len(),
        places.iter().filter(|p| p.len() > 1).count(),
        names(files.iter().map(PathBuf::as_path))
    );
    Finding::new(FindingKind::DuplicateSlices, Severity::Error, text).files(files)
}

/// The grid of sorted slices, with findings about their positions.
fn place(slices: &[Slice], orientation: &Orientation, tiny: f64, findings: &mut Vec<Finding>) -> Grid {
    let first = &slices[0];
    let spacing = pixel_spacing(first, findings);
    let origins: Vec<Vector> = slices.iter().filter_map(|s| s.info().position).collect();
    if origins.len() > 1 {
        findings.extend(gaps(slices, orientation.normal(), tiny));
        findings.extend(sparse(slices, orientation.normal(), tiny));
        findings.extend(slant(slices, &origins, orientation.normal(), spacing, tiny));
    }
    let format = &first.file.format;
    let thickness = first.info().distance().unwrap_or(1.0);
    Grid::stack([format.columns, format.rows], orientation, spacing, origins, thickness)
}

fn pixel_spacing(slice: &Slice, findings: &mut Vec<Finding>) -> [f64; 2] {
    slice.info().spacing.unwrap_or_else(|| {
        let text = "no PixelSpacing: 1 mm is assumed";
        findings.push(Finding::new(FindingKind::MissingSpacing, Severity::Warning, text));
        [1.0, 1.0]
    })
}

/// The most times that slices may lie further apart than their header states.
const SPARSE: f64 = 3.0;

/// Compares the usual distance of slices with the distance that their header states: even gaps may be too
/// large as well, and of two slices there is no other measure.
fn sparse(slices: &[Slice], normal: Vector, tiny: f64) -> Option<Finding> {
    let (.., usual) = distances(slices, normal);
    let stated = slices.iter().filter_map(|slice| slice.info().stated_distance()).reduce(f64::max)?;
    if usual <= SPARSE * stated + tiny {
        return None;
    }
    let (kind, severity) = match slices.len() {
        2 => (FindingKind::MissingSlices, Severity::Error),
        _ => (FindingKind::SparseSlices, Severity::Warning),
    };
    let text = format!(
        "the {} slices lie {usual:.3} mm apart, and the larger one of SpacingBetweenSlices and SliceThickness is \
         {stated:.3} mm: slices are missing, or parts of the body between them were not scanned",
        slices.len()
    );
    Some(Finding::new(kind, severity, text))
}

/// The depths of slices along their normal, the gaps between them, and the usual gap.
fn distances(slices: &[Slice], normal: Vector) -> (Vec<f64>, Vec<f64>, f64) {
    let depths: Vec<f64> = slices.iter().filter_map(|s| s.info().position).map(|p| dot(p, normal)).collect();
    let gaps: Vec<f64> = depths.windows(2).map(|w| w[1] - w[0]).collect();
    let mut sorted = gaps.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let usual = sorted[(sorted.len() - 1) / 2];
    (depths, gaps, usual)
}

/// Checks for missing slices and uneven distances.
fn gaps(slices: &[Slice], normal: Vector, tiny: f64) -> Option<Finding> {
    let (depths, gaps, usual) = distances(slices, normal);
    let odd = |limit: &dyn Fn(f64) -> bool| (0..gaps.len()).filter(|i| limit(gaps[*i])).collect::<Vec<_>>();
    let missing = odd(&|g| g >= 1.5 * usual - tiny || g <= 0.5 * usual + tiny);
    let uneven = odd(&|g| (g - usual).abs() > 0.01 * usual + tiny);
    // The volume has slices at their mean distance.
    let mean = (depths[depths.len() - 1] - depths[0]) / gaps.len() as f64;
    let even = |(i, depth): (usize, &f64)| (depth - depths[0] - i as f64 * mean).abs();
    let off = depths.iter().enumerate().map(even).fold(0.0, f64::max);
    let (kind, severity, at) = match (missing.is_empty(), uneven.is_empty()) {
        (false, _) => (FindingKind::MissingSlices, Severity::Error, missing),
        (true, false) if off > 0.5 * mean => (FindingKind::UnevenGaps, Severity::Error, uneven),
        (true, false) => (FindingKind::UnevenGaps, Severity::Warning, uneven),
        (true, true) => return None,
    };
    let show = |i: &usize| {
        let pair = names([slices[*i].path(), slices[*i + 1].path()]);
        format!("{:.3} mm between {pair}", gaps[*i])
    };
    let listed = at.iter().take(3).map(show).collect::<Vec<_>>().join("; ");
    let more = if at.len() > 3 { format!("; and {} more", at.len() - 3) } else { String::new() };
    let what = if kind == FindingKind::MissingSlices { "slices are missing" } else { "gaps are uneven" };
    let in_turns = gaps.windows(3).all(|gaps| (gaps[0] - gaps[2]).abs() <= 0.01 * usual + tiny);
    let turns = if in_turns && gaps.len() > 3 {
        "; the gaps alternate, so they may be two volumes, which echo, acquisition, time, b-value and instance numbers do \
         not tell apart"
    } else {
        ""
    };
    let text = format!(
        "{} of {} gaps between slices differ from the usual {usual:.3} mm, {what}{turns}; stacked at their mean distance, \
         slices would lie up to {off:.2} mm off: {listed}{more}",
        at.len(),
        gaps.len()
    );
    let files = at.iter().flat_map(|i| [slices[*i].path().to_owned(), slices[*i + 1].path().to_owned()]).collect();
    Some(Finding::new(kind, severity, text).files(files))
}

/// Checks whether slices are shifted against each other: evenly (tilt) or unevenly (crooked).
fn slant(slices: &[Slice], origins: &[Vector], normal: Vector, spacing: [f64; 2], tiny: f64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (first, last) = (origins[0], origins[origins.len() - 1]);
    let across = along(last, first, -1.0);
    let height = dot(across, normal);
    let sideways = norm(along(across, normal, -height));
    if sideways > 1e-3 * height + tiny {
        let angle = sideways.atan2(height).to_degrees();
        let text = format!(
            "the slices are shifted against their normal by {angle:.1} degrees (gantry tilt): the affine is sheared, and gives the true positions of voxels"
        );
        findings.push(Finding::new(FindingKind::GantryTilt, Severity::Warning, text));
    }
    let off = |p: &Vector| {
        let from = along(*p, first, -1.0);
        norm(along(from, across, -dot(from, normal) / height))
    };
    let crooked: Vec<usize> =
        (0..origins.len()).filter(|i| off(&origins[*i]) > 0.1 * spacing[0].min(spacing[1]) + tiny).collect();
    if !crooked.is_empty() {
        let most = crooked.iter().map(|i| off(&origins[*i])).fold(0.0, f64::max);
        let files: Vec<PathBuf> = crooked.iter().map(|i| slices[*i].path().to_owned()).collect();
        let text = format!(
            "{} slice(s) lie up to {most:.2} mm off the line from the first slice to the last: {}",
            files.len(),
            names(files.iter().map(PathBuf::as_path))
        );
        findings.push(Finding::new(FindingKind::CrookedStack, Severity::Warning, text).files(files));
    }
    findings
}

/// Slices without positions, in the order of SliceLocation, else of their numbers.
fn unplaced(mut slices: Vec<Slice>) -> Stack {
    let mut findings = Vec::new();
    drop_copies(&mut slices, &mut findings);
    let several = slices.iter().any(|s| s.path() != slices[0].path());
    let located: Option<Vec<f64>> = slices.iter().map(|s| s.info().location).collect();
    let mut by = "the order of frames";
    let mut measured = None;
    if several {
        by = "InstanceNumber";
        if let Some(mut locations) = located {
            locations.sort_unstable_by(f64::total_cmp);
            if locations.windows(2).all(|w| w[1] > w[0]) {
                let location = |s: &Slice| s.info().location.unwrap_or(0.0);
                slices.sort_by(|a, b| location(a).total_cmp(&location(b)));
                measured = Some((locations[locations.len() - 1] - locations[0]) / (locations.len() - 1) as f64);
                by = "SliceLocation";
            }
        }
    }
    let severity = match (several, slices.len()) {
        (true, _) => Severity::Error,
        (false, 1) => Severity::Note,
        (false, _) if slices[0].file.is_screen() => Severity::Error,
        (false, _) => Severity::Warning,
    };
    let text = match severity {
        Severity::Note => {
            "no ImagePositionPatient and ImageOrientationPatient: the affine only has the spacing".to_owned()
        }
        _ => format!(
            "{} {} without ImagePositionPatient and ImageOrientationPatient, stacked by {by}: {}",
            slices.len(),
            if slices[0].file.is_screen() { "pictures of a secondary capture (screenshots)" } else { "slices" },
            names(slices.iter().map(Slice::path).take(if several { slices.len() } else { 1 }))
        ),
    };
    findings.push(Finding::new(FindingKind::MissingPosition, severity, text));
    let info = slices[0].info();
    let orientation = info.orientation.unwrap_or(Orientation::AXIAL);
    let spacing = pixel_spacing(&slices[0], &mut findings);
    let distance = measured.or(info.distance());
    if distance.is_none() && slices.len() > 1 {
        let text = "no SpacingBetweenSlices and no SliceThickness: a distance of 1 mm is assumed";
        findings.push(Finding::new(FindingKind::MissingSpacing, Severity::Warning, text));
    }
    let distance = distance.unwrap_or(1.0);
    let start = info.position.unwrap_or_default();
    let origins = (0..slices.len()).map(|i| along(start, orientation.normal(), distance * i as f64)).collect();
    let format = &slices[0].file.format;
    let grid = Grid::stack([format.columns, format.rows], &orientation, spacing, origins, distance);
    Stack::new(slices, grid, findings)
}

/// What the values of a modality with one channel are.
fn measured(modality: &str) -> Option<&'static str> {
    match modality {
        "CT" => Some("in HU"),
        "MR" => Some("a signal"),
        "PT" | "NM" => Some("an activity"),
        "RTDOSE" => Some("a dose"),
        _ => None,
    }
}

/// Findings about values.
fn of_values(slices: &[Slice]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = |odd: &dyn Fn(&Slice) -> bool| -> Vec<PathBuf> {
        slices.iter().filter(|s| odd(s)).map(|s| s.path().to_owned()).collect()
    };
    let units = &slices[0].info().units;
    let other = files(&|s| s.info().units != *units);
    if !other.is_empty() {
        let listed = names(other.iter().map(PathBuf::as_path));
        let text = format!("units differ: {} in the first slice, not in {listed}", units.as_deref().unwrap_or("none"));
        findings.push(Finding::new(FindingKind::MixedUnits, Severity::Warning, text).files(other));
    }
    let first = &slices[0].file;
    if first.is_screen() {
        let text =
            "a secondary capture, such as a screenshot or a picture with several views: its values are for display";
        findings.push(Finding::new(FindingKind::SecondaryCapture, Severity::Warning, text));
    }
    if first.format.channels() > 1
        && let Some(unit) = measured(&first.identity.modality)
    {
        let text =
            format!("slices in colour, such as a fused or annotated copy: their values are for display, not {unit}");
        findings.push(Finding::new(FindingKind::Colours, Severity::Warning, text));
    }
    let lossy = files(&|s| s.file.lossy).len();
    if lossy > 0 {
        let text = format!("{lossy} of {} slice(s) were compressed lossily", slices.len());
        findings.push(Finding::new(FindingKind::Lossy, Severity::Note, text));
    }
    if let Some((low, high)) = slices[0].file.padding {
        let range = if low == high { format!("{low}") } else { format!("{low} to {high}") };
        let text = format!("the stored value {range} is padding outside the scanned area");
        findings.push(Finding::new(FindingKind::Padding, Severity::Note, text));
    }
    findings
}
