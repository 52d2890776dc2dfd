//! Measures one kind of data set: the spleen recipe's chain, and a crop of each case in every epoch.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hearth_data::caches::CacheRun;
use hearth_data::{DataLoader, Dataset, DecathlonDataset, LoaderOptions, Pipeline, Progress, host_device};
use hearth_files::Scratch;
use hearth_machine::peak_resident;

use super::super::files::{DETERMINISTIC, pipeline};
use super::super::{Args, SCRATCH};
use super::kind::Kind;
use super::measured::Measured;
use crate::error::{Context, Failure, Outcome};

/// Crops from one case, as in the spleen recipe.
const CROPS: u32 = 4;

/// The patch size along each axis.
pub fn patch(args: &Args) -> u32 {
    args.patch.unwrap_or(64)
}

/// The number of cases in a batch.
pub fn batch(args: &Args) -> u32 {
    args.batch.unwrap_or(2)
}

/// The number of epochs.
pub fn epochs(args: &Args) -> u64 {
    args.epochs.unwrap_or(3)
}

/// Fills a data set and loads all batches of some epochs.
pub fn measure(args: &Args, kind: Kind, data: &Path, described: &str) -> Outcome<Measured> {
    let (patch, batch, epochs) = (patch(args), batch(args), epochs(args));
    let threads = rayon::current_num_threads();
    let folder = Scratch::new(SCRATCH).while_doing(|| "cannot make a temporary folder")?;
    let steps = Arc::new(pipeline(&chain(patch))?.seed(args.seed()));
    let begin = Instant::now();
    let dataset = open(kind, data, &steps, folder.path(), threads)?;
    let start_seconds = begin.elapsed().as_secs_f64();
    let cases = dataset.len();
    let options = LoaderOptions {
        batch_size: batch as usize,
        shuffle: true,
        workers: threads,
        seed: args.seed(),
        ..LoaderOptions::default()
    };
    let loader = DataLoader::new(dataset, options)?;
    let (mut epoch_seconds, mut samples) = (Vec::new(), 0);
    for epoch in 1..=epochs {
        let begin = Instant::now();
        samples = 0;
        for batch in loader.epoch(epoch, 0) {
            samples += batch?.len();
        }
        epoch_seconds.push(begin.elapsed().as_secs_f64());
    }
    let peak = peak_resident();
    drop(loader);
    let again = Instant::now();
    let restart_seconds = match kind.outlives() {
        true => open(kind, data, &steps, folder.path(), threads).map(|_| Some(again.elapsed().as_secs_f64()))?,
        false => None,
    };
    Ok(Measured {
        bench: "datasets".to_owned(),
        kind: kind.name().to_owned(),
        data: described.to_owned(),
        cases,
        samples,
        patch,
        batch,
        start_seconds,
        restart_seconds,
        seconds: start_seconds + epoch_seconds.iter().sum::<f64>(),
        epoch_seconds,
        peak,
    })
}

/// The data set of a folder, with a filled cache.
fn open(kind: Kind, data: &Path, steps: &Arc<Pipeline>, folder: &Path, threads: usize) -> Outcome<Arc<dyn Dataset>> {
    let cases = DecathlonDataset::open(data)?.training;
    if cases.is_empty() {
        return Err(Failure::new(format!("{}: expected at least one training case", data.display())));
    }
    let run = CacheRun {
        device: host_device(),
        progress: Progress::None,
        whole: false,
        free: None,
        beside: 0,
        ranks_here: 1,
    };
    let made = kind.cache(folder, threads)?.dataset(cases, steps.clone(), &run);
    made.while_doing(|| format!("filling {}", kind.name()))
}

/// The deterministic steps of the spleen recipe, and its crop.
fn chain(patch: u32) -> String {
    format!(
        r#"{DETERMINISTIC}
{{ name = "FgBgToIndices", keys = ["label"], image_key = "image" }},
{{ name = "RandCropByPosNegLabel", keys = ["image", "label"], label_key = "label", spatial_size = [{patch}, {patch}, {patch}],
  pos = 1.0, neg = 1.0, num_samples = {CROPS}, fg_indices_key = "label_fg", bg_indices_key = "label_bg",
  allow_smaller = true }},
"#
    )
}
