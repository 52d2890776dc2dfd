//! `hearth data convert`.

use std::path::PathBuf;

use hearth_data::writers::Segment;
use hearth_data::{ReadOptions, WriteOptions, read_image_with, write_image};

use crate::error::{Failure, Outcome};
use crate::out;

/// Arguments of `hearth data convert`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An image in any format that a reader knows
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The output; its extension decides the format: .nii.gz, .nii, .nrrd, .seg.nrrd, .mha, .npy, .png
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Write integers: a label map
    #[arg(long)]
    pub label: bool,
    /// The name of a label in a .seg.nrrd, as in 1=liver; may be given several times
    #[arg(long = "segment", value_name = "LABEL=NAME", requires = "label")]
    pub segments: Vec<String>,
    /// The reader to use, by name; by default chosen by the file's content
    #[arg(long, value_name = "NAME")]
    pub reader: Option<String>,
    /// The DICOM series of a folder with several: its UID, number, description (*thorax*), or a
    /// rule: most-slices, thinnest
    #[arg(long, value_name = "NAME")]
    pub series: Option<String>,
    /// Faults of a DICOM series that are accepted, as in MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
}

/// Converts the image.
pub fn run(args: &Args) -> Outcome {
    if args.output.symlink_metadata().is_ok() {
        let advice = "remove it, or give another name";
        return Err(Failure::new(format!("{} exists already; {advice}", args.output.display())));
    }
    let mut options = ReadOptions::default();
    options.reader.clone_from(&args.reader);
    options.series.clone_from(&args.series);
    options.accept.clone_from(&args.accept);
    let image = read_image_with(&args.input, &options)?;
    let mut written = if args.label { WriteOptions::label() } else { WriteOptions::default() };
    for given in &args.segments {
        let segment =
            given.split_once('=').and_then(|(label, name)| Some(Segment::new(label.trim().parse().ok()?, name)));
        let wrong = || Failure::new(format!("--segment {given}: expected LABEL=NAME, as in 1=liver"));
        written.segments.push(segment.ok_or_else(wrong)?);
    }
    write_image(&args.output, &image, &written)?;
    let [x, y, z] = image.shape();
    let [a, b, c] = image.spacing();
    let channels = if image.channels() > 1 { format!(", {} channels", image.channels()) } else { String::new() };
    let place = format!("{a:.3} x {b:.3} x {c:.3} mm, {}", image.orientation());
    out!("{}  {x} x {y} x {z}{channels}, {place}", args.output.display());
    Ok(())
}
