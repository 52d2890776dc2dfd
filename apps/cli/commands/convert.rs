//! `hearth convert` for images and weights, and `hearth data convert` for images.

use std::path::PathBuf;

use super::convert_image::{self, ImageOptions};
use super::convert_weights::{self, WeightOptions};
use crate::error::{Failure, Outcome};

/// Arguments of `hearth data convert`.
#[derive(Debug, clap::Args)]
pub struct ImageArgs {
    /// The image: a file in any supported format, or a DICOM folder
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The output file; its extension sets the format: .nii.gz, .nii, .nrrd, .seg.nrrd, .mha, .mgz,
    /// .mgh, .npy, .png; for labels also .stl, .obj, .dcm
    #[arg(value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    options: ImageOptions,
}

/// Arguments of `hearth convert`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An image (NIfTI, NRRD, MetaImage, a DICOM folder, SEG or RTSTRUCT) or weights (a .pt or .pth
    /// file, a MONAI bundle as zip or folder, a .safetensors file, the folder of a run)
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The output file; its extension sets the format: .nii.gz, .nii, .nrrd, .seg.nrrd, .mha, .mgz,
    /// .mgh, .npy, .png; for labels also .stl, .obj, .dcm; for weights .safetensors
    #[arg(value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    image: ImageOptions,
    #[command(flatten)]
    weights: WeightOptions,
}

/// Converts an image.
pub fn run_image(args: &ImageArgs) -> Outcome {
    convert_image::run(&args.input, &args.output, &args.options)
}

/// Converts an image or weights.
pub fn run(args: &Args) -> Outcome {
    let Args { input, output, image, weights } = args;
    let refuse = |option: &str, what: &str, other: &str| {
        Err(Failure::new(format!("{option} is for {what}, and {} holds {other}: remove it", input.display())))
    };
    if convert_weights::are_weights(input, output) {
        return match image.given() {
            Some(option) => refuse(option, "images", "weights"),
            None => convert_weights::run(input, output, weights),
        };
    }
    match weights.given() {
        Some(option) => refuse(option, "weights", "an image"),
        None => convert_image::run(input, output, image),
    }
}
