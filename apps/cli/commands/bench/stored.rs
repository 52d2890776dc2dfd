//! Measures a random crop of a case on disk: a chunked store reads only a part of what `load` reads.

use hearth_data::{Dataset, Item, PersistentDataset, Progress, StoreOptions};
use hearth_files::Scratch;
use serde_json::json;

use super::files::pipeline;
use super::{Args, SCRATCH, file_name, say, timed};
use crate::error::{Context, Outcome};

/// Fills a store with one case and takes crops from it.
pub fn run(args: &Args) -> Outcome {
    let what = "a CT and its label: hearth bench stored CT.nii.gz LABEL.nii.gz";
    let (image, label) = (args.file(0, what)?, args.file(1, what)?);
    let patch = args.patch.unwrap_or(64);
    let chain = pipeline(&format!(
        r#"
{{ name = "LoadImage", keys = ["image", "label"] }},
{{ name = "EnsureChannelFirst", keys = ["image", "label"] }},
{{ name = "ScaleIntensityRange", keys = ["image"], a_min = -57.0, a_max = 164.0, b_min = 0.0, b_max = 1.0, clip = true }},
{{ name = "FgBgToIndices", keys = ["label"] }},
{{ name = "RandCropByPosNegLabel", keys = ["image", "label"], label_key = "label", spatial_size = [{patch}, {patch}, {patch}],
  pos = 1.0, neg = 1.0, num_samples = 1, fg_indices_key = "label_fg", bg_indices_key = "label_bg", allow_smaller = true }},
"#
    ))?;
    let folder = Scratch::new(SCRATCH).while_doing(|| "cannot make a temporary folder".to_owned())?;
    let case = Item::new(file_name(image)).with("image", image).with("label", label);
    let kept = PersistentDataset::new(vec![case], chain.seed(args.seed()), folder.path(), StoreOptions::default())?;
    kept.fill(1, Progress::None)?;
    let mut epoch = 0;
    let times = timed(args.runs() * 10, 1, || {
        epoch += 1;
        kept.get(0, epoch)?;
        Ok(())
    })?;
    say(
        args,
        json!({
            "bench": "stored", "file": file_name(image), "patch": patch,
            "seconds": times.median, "min": times.min, "max": times.max,
        }),
    )
}
