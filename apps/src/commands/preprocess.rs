//! `hearth preprocess`.

use std::path::PathBuf;

use hearth_data::{NiftiOptions, Sample, Value, write_nifti};

use crate::error::{Context, Failure, Outcome};
use crate::out;
use crate::recipe::bundled;
use crate::run::Plan;
use crate::run::outputs::Outputs;
use serde_json::json;

/// Arguments of `hearth preprocess`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe or a TOML file
    #[arg(value_name = "RECIPE")]
    pub recipe: String,
    /// The image: NIfTI, a folder of DICOM slices, or anything else that a reader knows
    #[arg(long, value_name = "FILE")]
    pub image: PathBuf,
    /// Its label
    #[arg(long, value_name = "FILE")]
    pub label: Option<PathBuf>,
    /// The output folder, for image.nii.gz and label.nii.gz
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Changes one value of the recipe
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Replace results of an earlier `hearth preprocess` that were not changed since
    #[arg(long)]
    pub overwrite: bool,
}

/// Runs the chain of validation, or of prediction where there is no label, and writes the result.
pub fn run(args: &Args) -> Outcome {
    let mut outputs = Outputs::new("preprocess", args.overwrite);
    let target = |key: &str| args.out.join(format!("{key}.nii.gz"));
    outputs.claim(&target("image"))?;
    args.label.as_ref().map_or(Ok(()), |_| outputs.claim(&target("label")))?;
    let mut document = bundled::open(&args.recipe)?;
    document.set_option("--device", "training.device", "cpu")?;
    for set in &args.sets {
        document.set(set)?;
    }
    let plan = Plan::new(document)?;
    let name = args.image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut sample = Sample::new(name).with("image", Value::Path(args.image.clone()));
    let mut pipeline = &plan.prediction;
    if let Some(label) = &args.label {
        sample = sample.with("label", Value::Path(label.clone()));
        pipeline = &plan.validation;
    }
    let mut samples = pipeline.run_deterministic(sample)?;
    let sample = samples.pop().ok_or_else(|| Failure::new("the pipeline returned nothing"))?;
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    for (key, value) in &sample.values {
        let Value::Image(image) = value else { continue };
        let target = target(key);
        if !["image", "label"].contains(&key.as_str()) {
            outputs.claim(&target)?;
        }
        let options = if key == "label" { NiftiOptions::label() } else { NiftiOptions::image() };
        write_nifti(&target, image, options).while_doing(|| format!("cannot write {}", target.display()))?;
        outputs.record(&target, json!({ "input": args.image.display().to_string(), "recipe": args.recipe }))?;
        let [x, y, z] = image.shape();
        let [a, b, c] = image.spacing();
        out!("{}  {x} x {y} x {z} voxels of {a:.2} x {b:.2} x {c:.2} mm, {}", target.display(), image.orientation());
    }
    Ok(())
}
