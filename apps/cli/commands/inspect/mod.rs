//! `hearth data inspect`: describes an image, and reports anything unusual in it.

use std::path::{Path, PathBuf};

use hearth_data::ReadOptions;
use hearth_data::dicom::{self, Region, Regions};
use hearth_data::quality::{self, Finding, Inspection, LabelValues, ValueSummary};
use hearth_data::readers;

use crate::error::{Failure, Outcome};
use crate::table::{self, Lean};
use crate::terminal::{bold, thousands};
use crate::{note, out};

/// The maximum number of label values that are listed.
const LABELS: usize = 24;

/// Arguments of `hearth data inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An image in any supported format, or a folder of images
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
    /// Accept this fault of DICOM series, such as MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Inspects a file, or each file of a folder.
pub fn run(args: &Args) -> Outcome {
    let path = &args.path;
    let mut options = ReadOptions::default();
    options.accept.clone_from(&args.accept);
    // A folder of DICOM slices is one image.
    if path.is_dir() && readers::choose(path).is_err() {
        return folder(path, &options, args.json);
    }
    let regions = Regions::open(path, &dicom::ReadOptions::default()).ok().filter(|_| path.is_file());
    if let Some(Regions::Structures(set)) = &regions {
        return print_structures(path, &set.regions(), args.json);
    }
    let found = quality::inspect_file_with(path, &options)?;
    let regions = regions.map(|regions| regions.list()).unwrap_or_default();
    if args.json {
        let mut whole = serde_json::to_value(&found)?;
        if !regions.is_empty() {
            whole["regions"] = listed(&regions);
        }
        out!("{}", serde_json::to_string_pretty(&whole)?);
    } else {
        print(&found);
        print_regions(&regions);
    }
    Ok(())
}

/// Prints a DICOM structure set, which has no voxels.
fn print_structures(path: &Path, regions: &[Region], json: bool) -> Outcome {
    let file = path.display().to_string();
    if json {
        out!("{}", serde_json::to_string_pretty(&serde_json::json!({ "file": file, "regions": listed(regions) }))?);
        return Ok(());
    }
    out!("{}", bold(&file));
    out!("  a structure set (RTSTRUCT): what was drawn on a series of images");
    print_regions(regions);
    Ok(())
}

fn listed(regions: &[Region]) -> serde_json::Value {
    let one = |r: &Region| serde_json::json!({ "label": r.label, "name": r.name, "type": r.property });
    regions.iter().map(one).collect()
}

/// Prints labels, names and types; `segments` of `LoadImage` takes each of them.
fn print_regions(regions: &[Region]) {
    for region in regions {
        let kind = region.property.as_ref().map_or_else(String::new, |kind| format!(", {kind}"));
        out!("  {:>4}    {}{kind}", region.label, region.name);
    }
}

fn print(found: &Inspection) {
    if let Some(file) = &found.file {
        out!("{}", bold(&file.display().to_string()));
    }
    let stored: Vec<String> = found.stored_shape.iter().map(usize::to_string).collect();
    let channels = if found.channels == 1 { "1 channel".to_owned() } else { format!("{} channels", found.channels) };
    out!("  shape   {}, {channels}", shape(found));
    out!("  stored  {} as {}", stored.join(" x "), found.stored_type);
    out!("  voxel   {}", voxel(found));
    let [x, y, z] = [0, 1, 2].map(|row| found.affine[row][3]);
    out!("  origin  {x:.2}, {y:.2}, {z:.2} mm (RAS+)");
    for (channel, summary) in found.values.iter().enumerate() {
        let head = if found.channels == 1 { "values".to_owned() } else { format!("values of channel {channel}") };
        out!("  {head}  {}, mean {:.4}, deviation {:.4}", range(summary), summary.mean, summary.std);
    }
    if let Some(labels) = &found.labels {
        out!("  labels  {}", label_counts(labels));
    }
    print_findings(&found.findings);
}

fn print_findings(findings: &[Finding]) {
    for finding in findings {
        let advice = finding.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        out!("  {}: {}{advice}", finding.severity.word(), finding.what);
    }
}

fn folder(dir: &Path, options: &ReadOptions, json: bool) -> Outcome {
    let files = quality::inspect_folder_with(dir, options)?;
    if files.is_empty() {
        return Err(Failure::new(format!("{} holds no image that a reader knows", dir.display())));
    }
    let mut broken = 0;
    let mut rows = Vec::new();
    let mut sets = Vec::new();
    let mut described = Vec::new();
    for (file, found) in &files {
        match found {
            Ok(found) if json => described.push(serde_json::to_value(found)?),
            Ok(found) => rows.push(row(dir, file, found)),
            Err(_) if let Some(regions) = structures(file) => {
                described.push(serde_json::json!({ "file": file.display().to_string(), "regions": listed(&regions) }));
                sets.push((file, regions));
            }
            Err(error) => {
                broken += 1;
                note!("{error}");
                described.push(serde_json::json!({ "file": file.display().to_string(), "error": error.why() }));
            }
        }
    }
    if json {
        out!("{}", serde_json::to_string_pretty(&described)?);
    } else {
        let columns = [
            ("file", Lean::Left),
            ("shape", Lean::Right),
            ("channels", Lean::Right),
            ("voxel (mm)", Lean::Left),
            ("stored as", Lean::Left),
            ("values", Lean::Left),
            ("odd", Lean::Left),
        ];
        if !rows.is_empty() {
            table::lines(&columns, &rows).iter().for_each(|line| out!("{line}"));
        }
        for (file, regions) in sets {
            print_structures(file, &regions, false)?;
        }
    }
    match broken {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{broken} of {} images cannot be read", files.len()))),
    }
}

/// The regions of a structure set: of the file, or of the only file in the folder.
fn structures(path: &Path) -> Option<Vec<Region>> {
    let mut files = match path.is_dir() {
        true => std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).collect(),
        false => vec![path.to_owned()],
    };
    let only = files.pop().filter(|_| files.is_empty())?;
    match Regions::open(&only, &dicom::ReadOptions::default()) {
        Ok(Regions::Structures(set)) => Some(set.regions()),
        _ => None,
    }
}

fn row(dir: &Path, file: &Path, found: &Inspection) -> Vec<String> {
    let name = file.strip_prefix(dir).unwrap_or(file).display().to_string();
    let odd: Vec<&str> = found.findings.iter().map(|f| f.kind.words()).collect();
    let all = found.values.iter().copied().reduce(|mut a, b| {
        (a.min, a.max) = (a.min.min(b.min), a.max.max(b.max));
        a
    });
    let values = all.as_ref().map_or_else(String::new, range);
    vec![
        name,
        shape(found),
        found.channels.to_string(),
        voxel(found),
        found.stored_type.clone(),
        values,
        odd.join(", "),
    ]
}

/// `35 x 51 x 35`.
pub(super) fn shape(found: &Inspection) -> String {
    found.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

/// `1.000 x 1.000 x 1.000 mm, RAS`.
pub(super) fn voxel(found: &Inspection) -> String {
    let sizes: Vec<String> = found.spacing.iter().map(|size| format!("{size:.3}")).collect();
    let code = if found.orientation.is_empty() { "?" } else { &found.orientation };
    format!("{} {code}", sizes.join(" x "))
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
