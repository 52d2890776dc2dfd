//! `hearth data inspect`: describes an input, and reports anything unusual in it.

mod dataset;
mod dicom;
mod facts;
mod image;
mod slide;

use std::path::{Path, PathBuf};

use hearth_data::slides::Slide;
use hearth_data::{ReadOptions, layouts, quality, read_image_with, readers};
use serde_json::{Value, json};

use crate::error::{Failure, Outcome};
use crate::{out, warnings};
use facts::{Facts, Hide};
pub(super) use image::{shape, voxel};

/// Arguments of `hearth data inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An image in any supported format, a folder or tree of DICOM, a slide, a folder of images, or a data
    /// set
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
    /// Which DICOM series of a folder with several: its UID, number or description (*thorax*), or a rule:
    /// most-slices, thinnest; with #KEY one of several volumes of a series: UID#echo2, #localizer. Without
    /// it all are listed
    #[arg(long, value_name = "NAME")]
    pub series: Option<String>,
    /// Accept this fault of DICOM series, such as MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// Also print what may identify a patient: IDs, UIDs, free texts of headers. Names of files are always
    /// printed, without the folders that they are in
    #[arg(long)]
    pub identifiers: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// What was seen of an input.
pub struct Seen {
    facts: Vec<Facts>,
    /// The lines of a table, instead of the facts of each image; the facts of a data set come before it.
    table: Option<(bool, Vec<String>)>,
    /// The number of images, and of those that cannot be read.
    all: usize,
    broken: usize,
    /// Why the only image cannot be read.
    why: Option<String>,
    /// Whether the JSON is a list.
    several: bool,
}

impl Seen {
    fn new(facts: Vec<Facts>) -> Self {
        Self { all: facts.len(), facts, table: None, broken: 0, why: None, several: false }
    }
}

/// Inspects a file, or each image of a folder.
pub fn run(args: &Args) -> Outcome {
    let hide = Hide::new(&args.path, args.identifiers);
    let seen = look(&args.path, args, &hide)?;
    let (all, broken, why) = (seen.all, seen.broken, seen.why.clone());
    if args.json {
        let mut found: Vec<Value> = seen.facts.into_iter().map(Facts::into_json).collect();
        for one in found.iter_mut().filter(|one| one.get("error").is_none()) {
            one["program"] = json!(concat!("hearth ", env!("CARGO_PKG_VERSION")));
        }
        let found = if seen.several {
            Value::Array(found)
        } else {
            let mut one = found.pop().unwrap_or_else(|| json!({}));
            // What readers reported while they read: people see it above the facts.
            one["warnings"] = warnings::so_far().iter().map(|text| hide.text(text)).collect();
            one
        };
        out!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        let printed = match &seen.table {
            Some((has_head, _)) => &seen.facts[..usize::from(*has_head)],
            None => &seen.facts[..],
        };
        printed.iter().for_each(Facts::print);
        seen.table.iter().flat_map(|(_, lines)| lines).for_each(|line| out!("{line}"));
    }
    match (broken, why) {
        (0, _) => Ok(()),
        (1, Some(why)) if all == 1 => Err(Failure::new(why)),
        _ => Err(Failure::new(format!("{broken} of {all} images cannot be read"))),
    }
}

fn look(path: &Path, args: &Args, hide: &Hide) -> Outcome<Seen> {
    let reader = readers::choose(path);
    let name = reader.as_ref().map_or("", |reader| reader.name());
    let is_dicom = name == "DicomReader";
    if args.series.is_some() && !is_dicom && !dataset::is_all_dicom(path) {
        let (series, given) = (args.series.clone().unwrap_or_default(), path.display());
        let what = "--series chooses in a folder of DICOM, which this is not";
        return Err(Failure::new(format!("{given}: --series {series}: {what}")));
    }
    if !args.accept.is_empty() && !is_dicom && path.is_file() {
        let (faults, given) = (args.accept.join(","), path.display());
        let what = "--accept is for faults of DICOM series, which this is not";
        return Err(Failure::new(format!("{given}: {what}: remove --accept {faults}")));
    }
    if path.is_file()
        && !is_dicom
        && let Some(layout) = layouts::recognize_list(path)
    {
        return dataset::list(path, &*layout, hide);
    }
    if name == "WSIReader" {
        let slide = Slide::open(path).map_err(|error| Failure::new(error.to_string()))?;
        return Ok(Seen::new(vec![slide::facts(path, &slide, hide)]));
    }
    if name == "TiffReader"
        && let Ok(slide) = Slide::open(path)
        && slide.vendor() != "generic-tiff"
    {
        return Ok(Seen::new(vec![slide::facts(path, &slide, hide)]));
    }
    if is_dicom {
        if path.is_file()
            && let Some(seen) = dicom::regions(path, args, hide)?
        {
            return Ok(seen);
        }
        return dicom::volumes(path, args, hide);
    }
    if path.is_dir() && reader.is_err() {
        if dataset::is_all_dicom(path) {
            return dicom::volumes(path, args, hide);
        }
        return dataset::folder(path, args, hide);
    }
    let mut options = ReadOptions::default();
    options.accept.clone_from(&args.accept);
    let image = read_image_with(path, &options)?;
    let mut found = quality::inspect(&image);
    found.file.get_or_insert_with(|| path.to_owned());
    let format = match &image.meta.header {
        Some(header) => image::nifti_name(header),
        None => format(name),
    };
    Ok(Seen::new(vec![image::facts(path, &format, &image, &found, hide)]))
}

/// The format that a reader reads.
fn format(reader: &str) -> String {
    match reader {
        "NrrdReader" => "NRRD",
        "MetaImageReader" => "MetaImage",
        "NumpyReader" => "NumPy",
        "RasterReader" => "a picture (PNG, JPEG, BMP)",
        "TiffReader" => "TIFF",
        "MghReader" => "MGH (FreeSurfer)",
        "NnunetReader" => "an array of nnU-Net",
        other => other.strip_suffix("Reader").unwrap_or(other),
    }
    .to_owned()
}
