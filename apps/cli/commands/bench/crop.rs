//! Measures the random part of the fast recipe on cached data: patches per second.

use hearth_data::DrawKey;
use serde_json::json;

use super::files::{DETERMINISTIC, pipeline, sample};
use super::{Args, say, timed};
use crate::error::Outcome;

/// Patches from one case.
const PATCHES: u32 = 4;

/// Runs the benchmark: crops, flips, rotates, scales, shifts and adds noise.
pub fn run(args: &Args) -> Outcome {
    let what = "a CT and its label: hearth bench crop CT.nii.gz LABEL.nii.gz";
    let (image, label) = (args.file(0, what)?, args.file(1, what)?);
    let patch = args.patch.unwrap_or(64);
    let random = format!(
        r#"
{{ name = "FgBgToIndices", keys = ["label"] }},
{{ name = "RandCropByPosNegLabel", keys = ["image", "label"], label_key = "label", spatial_size = [{patch}, {patch}, {patch}],
  pos = 1.0, neg = 1.0, num_samples = {PATCHES}, fg_indices_key = "label_fg", bg_indices_key = "label_bg",
  allow_smaller = true }},
{{ name = "RandFlip", keys = ["image", "label"], prob = 0.5, spatial_axis = 0 }},
{{ name = "RandRotate90", keys = ["image", "label"], prob = 0.5, max_k = 3 }},
{{ name = "RandScaleIntensity", keys = ["image"], factors = 0.1, prob = 0.5 }},
{{ name = "RandShiftIntensity", keys = ["image"], offsets = 0.1, prob = 0.5 }},
{{ name = "RandGaussianNoise", keys = ["image"], prob = 0.5, std = 0.1 }},
"#
    );
    let chain = pipeline(&format!("{DETERMINISTIC}{random}"))?;
    let cached = chain.run_deterministic(sample(image, label))?;
    let mut epoch = 0;
    let times = timed(args.runs() * 4, 1, || {
        epoch += 1;
        chain.run_random(cached.clone(), DrawKey::new(args.seed(), epoch, 0))?;
        Ok(())
    })?;
    say(
        args,
        json!({
            "bench": "crop", "patch": patch, "patches_per_second": f64::from(PATCHES) / times.median,
            "seconds": times.median, "min": times.min, "max": times.max,
        }),
    )
}
