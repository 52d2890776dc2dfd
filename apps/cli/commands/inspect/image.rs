//! `hearth data inspect` of an image: its header, geometry and values.

use std::path::Path;

use hearth_data::nifti::Header;
use hearth_data::quality::{Inspection, LabelValues, ValueSummary};
use hearth_data::{Affine, Image, affine};
use serde_json::{Value, json};

use super::facts::{Facts, Hide};
use crate::terminal::{bytes, thousands};

/// The maximum number of label values that are listed.
const LABELS: usize = 24;

/// The names of NIfTI's transform codes.
const CODES: [&str; 6] = ["unknown", "scanner", "aligned", "talairach", "mni", "template"];

/// The facts of an image that was read.
pub fn facts(path: &Path, format: &str, image: &Image, found: &Inspection, hide: &Hide) -> Facts {
    let mut facts = Facts::new(hide.name(), format);
    if let Some(size) = path.metadata().ok().filter(std::fs::Metadata::is_file).map(|facts| facts.len()) {
        facts.add("bytes", bytes(size), "bytes", size);
    }
    describe(&mut facts, found);
    if let Some(header) = &image.meta.header {
        nifti(&mut facts, header, &image.affine, hide);
    }
    values(&mut facts, found);
    facts.findings(&found.findings, hide);
    facts.values(json_of(found, hide));
    facts
}

/// The inspection as JSON, with names instead of paths.
pub fn json_of(found: &Inspection, hide: &Hide) -> Value {
    let mut json = serde_json::to_value(found).unwrap_or_default();
    if let Some(file) = &found.file {
        json["file"] = json!(hide.inside(file));
    }
    for finding in json["findings"].as_array_mut().into_iter().flatten() {
        if let Value::Object(finding) = finding {
            finding.remove("file");
            for key in ["what", "advice"] {
                if let Some(Value::String(text)) = finding.get_mut(key) {
                    *text = hide.text(text);
                }
            }
        }
    }
    json
}

/// Size, type, geometry.
pub fn describe(facts: &mut Facts, found: &Inspection) {
    let stored: Vec<String> = found.stored_shape.iter().map(usize::to_string).collect();
    facts.line("shape", format!("{}, {}", shape(found), hearth_registry::counted(found.channels, "channel")));
    facts.line("stored", format!("{} as {}", stored.join(" x "), found.stored_type));
    facts.line("voxel", voxel(found));
    let [x, y, z] = [0, 1, 2].map(|row| found.affine[row][3]);
    facts.line("origin", format!("{x:.2}, {y:.2}, {z:.2} mm (RAS+)"));
    facts.line("affine", rows(&found.affine));
}

/// The first three rows of an affine.
fn rows(affine: &Affine) -> String {
    let row = |row: &[f64; 4]| row.map(number).join(" ");
    format!("[{}]", affine[..3].iter().map(row).collect::<Vec<_>>().join("; "))
}

fn number(value: f64) -> String {
    let text = format!("{value:.5}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Both forms of a NIfTI header, and which was used.
fn nifti(facts: &mut Facts, header: &Header, used: &Affine, hide: &Hide) {
    let (sform, qform) = (header.sform(), header.qform());
    let code = |code: i32| {
        let name = usize::try_from(code).ok().and_then(|at| CODES.get(at)).copied().unwrap_or("not a known code");
        format!("{code} ({name})")
    };
    let has = |code: i32| code > 0;
    let of_sform = has(header.sform_code) && affine::distance(used, &sform) <= affine::distance(used, &qform);
    let form = match (has(header.sform_code), has(header.qform_code)) {
        (false, false) => "neither: the header's voxel sizes alone",
        _ if of_sform => "sform",
        _ => "qform",
    };
    for (name, its_code, matrix) in [("sform", header.sform_code, sform), ("qform", header.qform_code, qform)] {
        let text = format!("code {}", code(its_code));
        facts.line(name, if has(its_code) { format!("{text}, {}", rows(&matrix)) } else { text });
    }
    facts.line("used", form);
    let pixdim = header.pixdim.map(number).join(" ");
    let units = match header.xyzt_units & 7 {
        1 => "lengths in m",
        2 => "lengths in mm",
        3 => "lengths in um",
        _ => "no unit of lengths",
    };
    facts.line("header", {
        let order = if header.big_endian { "big-endian" } else { "little-endian" };
        format!("pixdim {pixdim}, {units}, {order}")
    });
    let scaling = header.scaling();
    if let Some((slope, offset)) = scaling.filter(|scaling| *scaling != (1.0, 0.0)) {
        facts.line("scale", format!("stored values x {slope} + {offset}"));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_matches(['\0', ' ']).to_owned();
    if header.intent_code != 0 {
        facts.line("intent", format!("code {} {}", header.intent_code, text(&header.intent_name)));
    }
    let mut json = json!({
        "version": header.version, "big_endian": header.big_endian, "dim": header.dim,
        "datatype": header.datatype, "pixdim": header.pixdim, "xyzt_units": header.xyzt_units,
        "sform_code": header.sform_code, "sform": sform, "qform_code": header.qform_code, "qform": qform,
        "used": form, "scl_slope": header.scl_slope, "scl_inter": header.scl_inter,
        "scaled": scaling.is_some(), "intent_code": header.intent_code, "cal": header.cal,
    });
    // Converters write the patient's name, or the date, into these.
    if hide.shows_identifiers() {
        json["descrip"] = json!(text(&header.descrip));
        json["aux_file"] = json!(text(&header.aux_file));
        facts.line("descrip", text(&header.descrip));
    }
    facts.value("nifti", json);
}

/// The name of a NIfTI file's format.
pub fn nifti_name(header: &Header) -> String {
    let kind = if header.analyze { "Analyze 7.5".to_owned() } else { format!("NIfTI-{}", header.version) };
    if header.single_file { kind } else { format!("{kind}, a pair of .hdr and .img") }
}

/// Statistics of each channel, and labels.
pub fn values(facts: &mut Facts, found: &Inspection) {
    for (channel, summary) in found.values.iter().enumerate() {
        let label = if found.channels == 1 { "values".to_owned() } else { format!("channel {channel}") };
        let mut text = format!("{}, mean {:.4}, deviation {:.4}", range(summary), summary.mean, summary.std);
        if summary.nan + summary.infinite > 0 {
            text.push_str(&format!(", {} NaN, {} infinite", summary.nan, summary.infinite));
        }
        facts.line(&label, text);
    }
    if let Some(labels) = &found.labels {
        facts.line("labels", label_counts(labels));
    }
}

/// `35 x 51 x 35`.
pub fn shape(found: &Inspection) -> String {
    found.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

/// `1.000 x 1.000 x 1.000 mm, RAS`.
pub fn voxel(found: &Inspection) -> String {
    let sizes: Vec<String> = found.spacing.iter().map(|size| format!("{size:.3}")).collect();
    let code = if found.orientation.is_empty() { "?" } else { &found.orientation };
    format!("{} {code}", sizes.join(" x "))
}

/// The smallest and the largest value of all channels.
pub fn range_of(found: &Inspection) -> String {
    let all = found.values.iter().copied().reduce(|mut a, b| {
        (a.min, a.max) = (a.min.min(b.min), a.max.max(b.max));
        a
    });
    all.as_ref().map_or_else(String::new, range)
}

fn range(values: &ValueSummary) -> String {
    let short = |value: f32| format!("{value:.6}").trim_end_matches('0').trim_end_matches('.').to_owned();
    format!("{} to {}", short(values.min), short(values.max))
}

/// `0: 61,232 (98.1 %), 1: 843 (1.4 %)`.
fn label_counts(labels: &LabelValues) -> String {
    let total: usize = labels.counts.iter().map(|c| c.voxels).sum();
    let part = |voxels: usize| 100.0 * voxels as f64 / total.max(1) as f64;
    let listed = labels
        .counts
        .iter()
        .take(LABELS)
        .map(|c| format!("{}: {} ({:.2} %)", c.value, thousands(c.voxels as u64), part(c.voxels)));
    let mut text = listed.collect::<Vec<_>>().join(", ");
    if labels.counts.len() > LABELS {
        text.push_str(&format!(", and {} more values", labels.counts.len() - LABELS));
    }
    text
}
