//! `hearth data inspect` of DICOM: the volumes of a file, a folder or a tree, and what was drawn on them.

use std::path::Path;

use hearth_data::dicom::{
    self, AnnotationKind, DicomError, Finding, ReadOptions, Region, Regions, Scan, Segmentation, SegmentationKind,
    Series, Severity, StructureSet, Volume,
};
use hearth_data::quality::{self, Inspection};
use hearth_data::{Image, host_device};
use hearth_registry::counted;
use serde_json::{Value, json};

use super::facts::{Facts, Hide};
use super::image;
use super::{Args, Seen};
use crate::error::{Failure, Outcome};
use crate::table::{self, Lean};

/// The regions of a SEG or RTSTRUCT file as facts; `None` for other files.
pub fn regions(path: &Path, args: &Args, hide: &Hide) -> Outcome<Option<Seen>> {
    let regions = match Regions::open(path, &ReadOptions::default()) {
        Ok(regions) => regions,
        Err(_) => return Ok(None),
    };
    let mut facts = match &regions {
        Regions::Structures(set) => structures(set, hide),
        Regions::Segments(segments) => {
            let mut options = hearth_data::ReadOptions::default();
            options.accept.clone_from(&args.accept);
            let image = hearth_data::read_image_with(path, &options)?;
            let mut found = quality::inspect(&image);
            found.file.get_or_insert_with(|| path.to_owned());
            segmentation(path, segments, &image, &found, hide)
        }
    };
    let list = regions.list();
    facts.value("regions", listed(&list));
    lines(&list).into_iter().for_each(|line| facts.list(line));
    Ok(Some(Seen::new(vec![facts])))
}

fn listed(regions: &[Region]) -> Value {
    let one =
        |r: &Region| json!({ "label": r.label, "name": r.name, "type": r.property, "description": r.description });
    regions.iter().map(one).collect()
}

/// Labels, names and types; `segments` of `LoadImage` takes each of them.
fn lines(regions: &[Region]) -> Vec<String> {
    let line = |region: &Region| {
        let kind = region.property.as_ref().map_or_else(String::new, |kind| format!(", {kind}"));
        format!("  {:>4}    {}{kind}", region.label, region.name)
    };
    regions.iter().map(line).collect()
}

/// A structure set, which has no voxels.
fn structures(set: &StructureSet, hide: &Hide) -> Facts {
    let mut facts = Facts::new(hide.name(), "a structure set (RTSTRUCT): what was drawn on a series of images");
    if let Some(label) = &set.label {
        facts.add("label", hide.text(label), "label", hide.text(label));
    }
    let contours: usize = set.rois.iter().map(|roi| roi.contours.len()).sum();
    let of_areas = set.rois.iter().filter(|roi| roi.has_area()).count();
    let text = format!(
        "{}, {of_areas} with closed contours; {}",
        counted(set.rois.len(), "region"),
        counted(contours, "contour")
    );
    facts.line("regions", text);
    let rois = set.rois.iter().map(|roi| {
        json!({ "number": roi.number, "name": roi.name, "type": roi.interpreted_type, "contours": roi.contours.len(),
            "has_area": roi.has_area() })
    });
    facts.value("rois", rois.collect::<Value>());
    refers(&mut facts, &set.referenced_series, hide);
    facts
}

fn segmentation(path: &Path, seg: &Segmentation, image: &Image, found: &Inspection, hide: &Hide) -> Facts {
    let mut facts = image::facts(path, "a segmentation (SEG)", image, found, hide);
    let kind = match seg.kind() {
        SegmentationKind::Binary => "binary".to_owned(),
        SegmentationKind::Fractional { maximum } => format!("fractional, 0 to {maximum}"),
        SegmentationKind::LabelMap => "label map".to_owned(),
        _ => "another kind".to_owned(),
    };
    facts.add("kind", format!("{kind}, {}", counted(seg.segments().len(), "segment")), "segmentation", kind);
    refers(&mut facts, seg.referenced_series(), hide);
    facts
}

fn refers(facts: &mut Facts, series: &[String], hide: &Hide) {
    let text = match series {
        [] => "no series".to_owned(),
        all if hide.shows_identifiers() => all.join(", "),
        all => format!("{} series", all.len()),
    };
    facts.line("drawn on", text);
    if hide.shows_identifiers() {
        facts.value("referenced_series", series);
    }
}

/// The volumes of a file or of all files below a folder, those that `--series` names.
pub fn volumes(path: &Path, args: &Args, hide: &Hide) -> Outcome<Seen> {
    let mut how = ReadOptions::default();
    how.accept = hearth_data::readers::accepted(&args.accept).map_err(Failure::new)?;
    let mut scan = dicom::scan_with(path, &how).map_err(|error| Failure::new(hide.text(&error.to_string())))?;
    if let Some(wanted) = &args.series {
        let at = scan.select(wanted).map_err(|what| Failure::new(format!("{}: {what}", path.display())))?;
        scan.series = vec![scan.series.swap_remove(at)];
    }
    if scan.series.is_empty() && scan.annotations.is_empty() && scan.others.is_empty() && scan.failed.is_empty() {
        return Err(Failure::new(format!("{} holds no image that a reader knows", path.display())));
    }
    let read: Vec<Read> = scan.series.iter().map(|series| Read::new(series, &how)).collect();
    let mut seen = Seen::new(Vec::new());
    let mut facts = match &read[..] {
        [one] => of_one(path, one, hide),
        several => of_several(path, several, hide),
    };
    let annotations = rest(&mut facts, &scan, hide);
    seen.broken = read.iter().filter(|one| one.found.is_err()).count() + scan.failed.len() + annotations;
    seen.all = read.len() + scan.failed.len() + scan.annotations.len();
    seen.why = match (&read[..], scan.failed.first()) {
        ([Read { found: Err(why), .. }], _) => Some(hide.text(&format!("{}: {why}", hide.name()))),
        ([], Some(failed)) => Some(hide.text(&failed.error.to_string())),
        _ => None,
    };
    // Of several images, the last error only counts them.
    if let Some(why) = seen.why.as_ref().filter(|_| seen.all > 1 && read.len() == 1) {
        facts.end(format!("error: {why}"));
    }
    seen.facts.push(facts);
    Ok(seen)
}

/// A series and its values, or why they cannot be read.
struct Read<'a> {
    series: &'a Series,
    found: Result<(Inspection, Volume), String>,
}

impl<'a> Read<'a> {
    fn new(series: &'a Series, how: &ReadOptions) -> Self {
        let read = || -> Result<(Inspection, Volume), String> {
            let mut volume = series.read_with(how).map_err(refused)?;
            let values = std::mem::take(&mut volume.values);
            let mut image = Image::from_values(values, volume.shape, volume.affine, &host_device());
            image.meta.stored_type = volume.stored_type.name().to_owned();
            if let [channels, x, y, z] = volume.shape
                && channels > 1
            {
                image.meta.original_shape = vec![x, y, z, channels];
            }
            Ok((quality::inspect(&image), volume))
        };
        Self { series, found: read() }
    }

    /// What tells it apart: the number and description of the series, and the key of the volume.
    fn name(&self, hide: &Hide) -> String {
        let number = self.series.number().map(|number| format!("series {number}"));
        let description = self.series.description().map(|text| format!("{:?}", hide.text(text)));
        let key = self.series.key().map(|key| format!("#{key}"));
        let uid = hide.shows_identifiers().then(|| self.series.uid().to_owned());
        [number, description, key, uid].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn json(&self, hide: &Hide) -> Value {
        let series = self.series;
        let findings = series.findings().iter().map(|finding| finding_json(finding, hide));
        let mut json = json!({
            "modality": series.modality(), "number": series.number(),
            "description": series.description().map(|text| hide.text(text)), "key": series.key(),
            "transfer_syntax": series.transfer_syntax().uid(), "shape": series.shape(), "files": series.files().len(), "slices": series.slices().len(),
            "series_findings": findings.collect::<Value>(),
        });
        if hide.shows_identifiers() {
            json["uid"] = json!(series.uid());
            json["study"] = json!(series.study());
            json["patient"] = json!(series.patient());
        }
        match &self.found {
            Ok((found, volume)) => {
                json["units"] = json!(volume.units);
                json["rescale"] = json!(volume.rescale.map(|rescale| [rescale.slope, rescale.intercept]));
                json["image"] = image::json_of(found, hide);
            }
            Err(why) => json["error"] = json!(hide.text(why)),
        }
        json
    }
}

/// Why a series is not read, with the option that accepts its faults.
fn refused(error: DicomError) -> String {
    let DicomError::Findings { findings, .. } = error else { return error.to_string() };
    let mut kinds: Vec<String> = findings.iter().map(|finding| finding.kind.to_string()).collect();
    kinds.dedup();
    let texts: Vec<&str> = findings.iter().map(|finding| finding.text.as_str()).collect();
    format!("{}; to read it all the same: --accept {}", texts.join("; "), kinds.join(","))
}

fn of_one(path: &Path, read: &Read<'_>, hide: &Hide) -> Facts {
    let series = read.series;
    let mut facts = Facts::new(hide.name(), "DICOM");
    let files = counted(series.files().len(), "file");
    facts.line(
        "series",
        format!("{} {}, {files}, {}", series.modality(), read.name(hide), counted(series.slices().len(), "slice")),
    );
    facts.line("syntax", series.transfer_syntax().to_string());
    if hide.shows_identifiers() {
        facts.line("patient", series.patient().unwrap_or("none"));
        facts.line("study", series.study());
    }
    // Without values, the command ends with the error.
    if let Ok((found, volume)) = &read.found {
        image::describe(&mut facts, found);
        if let Some(rescale) = volume.rescale.filter(|rescale| (rescale.slope, rescale.intercept) != (1.0, 0.0)) {
            let units = volume.units.as_ref().map_or_else(String::new, |units| format!(" {units}"));
            facts.line("scale", format!("stored values x {} + {}{units}", rescale.slope, rescale.intercept));
        }
        image::values(&mut facts, found);
        facts.findings(&found.findings, hide);
        facts.values(image::json_of(found, hide));
    }
    for finding in series.findings().iter().filter(|finding| finding.severity != Severity::Error || read.found.is_ok())
    {
        facts.end(hide.text(&finding.to_string()));
    }
    facts.value("file", hide.inside(path));
    facts.value("series", json!([read.json(hide)]));
    facts
}

/// A table with a row for each volume.
fn of_several(path: &Path, all: &[Read<'_>], hide: &Hide) -> Facts {
    let mut facts = Facts::new(hide.name(), "DICOM");
    facts.line(
        "volumes",
        match all {
            [] => "none".to_owned(),
            all => format!("{}; --series describes one", all.len()),
        },
    );
    let row = |read: &Read<'_>| {
        let series = read.series;
        let [_, x, y, z] = series.shape();
        let folder = series.files().first().and_then(|file| file.parent().map(|folder| hide.inside(folder)));
        let (voxel, stored, values) = match &read.found {
            Ok((found, _)) => (image::voxel(found), found.stored_type.clone(), image::range_of(found)),
            Err(_) => ("-".to_owned(), "-".to_owned(), "not readable".to_owned()),
        };
        vec![
            read.name(hide),
            series.modality().to_owned(),
            folder.unwrap_or_default(),
            format!("{x} x {y} x {z}"),
            voxel,
            stored,
            values,
        ]
    };
    let columns = [
        ("volume", Lean::Left),
        ("", Lean::Left),
        ("folder", Lean::Left),
        ("shape", Lean::Right),
        ("voxel (mm)", Lean::Left),
        ("stored as", Lean::Left),
        ("values", Lean::Left),
    ];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    if !rows.is_empty() {
        table::lines(&columns, &rows).iter().for_each(|line| facts.list(format!("  {line}")));
    }
    for read in all {
        let name = read.name(hide);
        if let Err(why) = &read.found {
            facts.end(format!("error: {name}: {}", hide.text(why)));
        }
        for finding in read.series.findings().iter().filter(|finding| finding.severity == Severity::Warning) {
            facts.end(format!("warning: {name}: {}", hide.text(&finding.text)));
        }
    }
    facts.value("file", hide.inside(path));
    facts.value("series", all.iter().map(|read| read.json(hide)).collect::<Value>());
    facts
}

/// What else the scan found: annotations, other objects, files that cannot be read. Returns the number of
/// annotations that cannot be read.
fn rest(facts: &mut Facts, scan: &Scan, hide: &Hide) -> usize {
    let mut annotations = Vec::new();
    let mut broken = 0;
    for annotation in &scan.annotations {
        let kind = match annotation.kind {
            AnnotationKind::StructureSet => "a structure set (RTSTRUCT)",
            AnnotationKind::Segmentation => "a segmentation (SEG)",
        };
        let name = hide.inside(&annotation.path);
        let list = Regions::open(&annotation.path, &ReadOptions::default()).map(|regions| regions.list());
        facts.list(format!("  {kind}: {name}"));
        match list {
            Ok(list) => {
                lines(&list).into_iter().for_each(|line| facts.list(line));
                annotations.push(json!({ "file": name, "kind": kind, "regions": listed(&list) }));
            }
            Err(error) => {
                broken += 1;
                let why = hide.text(&error.to_string());
                facts.end(format!("error: {why}"));
                annotations.push(json!({ "file": name, "kind": kind, "error": why }));
            }
        }
    }
    facts.value("annotations", annotations);
    let others =
        scan.others.iter().map(|other| json!({ "file": hide.inside(&other.path), "modality": other.modality }));
    facts.value("others", others.collect::<Value>());
    facts.value("not_dicom", scan.not_dicom);
    if !scan.others.is_empty() {
        let mut kinds: Vec<&str> = scan.others.iter().map(|other| other.modality.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let kinds: Vec<&str> =
            kinds.into_iter().map(|kind| if kind.is_empty() { "without modality" } else { kind }).collect();
        facts.line("others", format!("{} without voxels ({})", counted(scan.others.len(), "object"), kinds.join(", ")));
    }
    if scan.not_dicom > 0 {
        facts.line(
            "skipped",
            format!(
                "{} that {} not DICOM",
                counted(scan.not_dicom, "file"),
                if scan.not_dicom == 1 { "is" } else { "are" }
            ),
        );
    }
    let failed: Vec<String> = scan.failed.iter().map(|failed| hide.text(&failed.error.to_string())).collect();
    if scan.failed.len() + scan.series.len() + scan.annotations.len() > 1 {
        failed.iter().for_each(|why| facts.end(format!("error: {why}")));
    }
    facts.value("failed", failed);
    broken
}

fn finding_json(finding: &Finding, hide: &Hide) -> Value {
    let severity = match finding.severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    json!({ "severity": severity, "kind": finding.kind.to_string(), "what": hide.text(&finding.text) })
}
