//! Measures reading a volume, and the spleen recipe's deterministic transforms.

use std::path::Path;

use hearth_data::{DrawKey, Pipeline, Sample, Value, read_nifti};
use serde_json::json;

use super::{Args, file_name, say, timed};
use crate::error::{Context, Failure, Outcome};

/// Measures reading one file into memory as f32.
pub fn load(args: &Args) -> Outcome {
    let path = args.file(0, "a NIfTI file: hearth bench load CT.nii.gz")?;
    let bytes = std::fs::metadata(path).while_doing(|| format!("cannot read {}", path.display()))?.len();
    let shape = read_nifti(path)?.spatial_shape();
    let times = timed(args.runs(), 1, || {
        read_nifti(path)?;
        Ok(())
    })?;
    say(
        args,
        json!({
            "bench": "load", "file": file_name(path), "bytes": bytes, "shape": shape,
            "seconds": times.median, "min": times.min, "max": times.max,
        }),
    )
}

/// Measures loading, orienting, resampling, scaling and cropping an image and its label.
pub fn preprocess(args: &Args) -> Outcome {
    let what = "a CT and its label: hearth bench preprocess CT.nii.gz LABEL.nii.gz";
    let (image, label) = (args.file(0, what)?, args.file(1, what)?);
    let chain = pipeline(DETERMINISTIC)?;
    let one = || first(chain.run(sample(image, label), DrawKey::new(0, 0, 0))?);
    let ready = one()?;
    let [x, y, z] = ready.image("image")?.shape();
    let out = [ready.image("image")?.channels(), x, y, z];
    let times = timed(args.runs(), 1, || one().map(|_| ()))?;
    say(
        args,
        json!({
            "bench": "preprocess", "file": file_name(image), "out": out,
            "seconds": times.median, "min": times.min, "max": times.max,
        }),
    )
}

/// A case before its transforms.
pub fn sample(image: &Path, label: &Path) -> Sample {
    let path = |path: &Path| Value::Path(path.to_owned());
    Sample::new(file_name(image)).with("image", path(image)).with("label", path(label))
}

/// The first of the samples.
pub fn first(samples: Vec<Sample>) -> Outcome<Sample> {
    samples.into_iter().next().ok_or_else(|| Failure::new("the pipeline returned nothing"))
}

/// A pipeline from the lines of a TOML list.
pub fn pipeline(steps: &str) -> Outcome<Pipeline> {
    Ok(Pipeline::from_toml(&format!("transforms = [\n{steps}]"))?)
}

/// The deterministic part of the spleen recipe.
pub const DETERMINISTIC: &str = r#"
{ name = "LoadImage", keys = ["image", "label"] },
{ name = "EnsureChannelFirst", keys = ["image", "label"] },
{ name = "Orientation", keys = ["image", "label"], axcodes = "RAS" },
{ name = "Spacing", keys = ["image", "label"], pixdim = [1.5, 1.5, 2.0], mode = ["bilinear", "nearest"] },
{ name = "ScaleIntensityRange", keys = ["image"], a_min = -57.0, a_max = 164.0, b_min = 0.0, b_max = 1.0, clip = true },
{ name = "CropForeground", keys = ["image", "label"], source_key = "image", allow_smaller = true },
"#;
