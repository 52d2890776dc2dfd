//! `hearth bundle run`

use std::time::Instant;

use hearth_models::bundle::{self, OpenedBundle, RunOptions, Told};
use serde_json::{Value, json};

use super::RunArgs;
use super::flags::{Flags, read};
use crate::error::Outcome;
use crate::terminal::seconds;
use crate::{note, out};

/// The help for the options, which are mixed with overrides.
pub const HELP: &str = "\
Options:
  --config-file FILE   A config, by name or path; several are merged in order [default: inference]
  -i FILE...           Images in place of those that the config lists
  -o, --out DIR        Where results go that the config names by a relative path [default: BUNDLE; for a
                       zip the working directory]
  --overwrite          Replace results that are there
  --random-weights     Run networks into which the config loads no weights, which is an error otherwise
  --json               Print files and metrics as JSON
  --init_id, --final_id ID   What is evaluated before and behind [default: initialize, finalize]
  --args_file FILE     Defaults of all these, as JSON
  --ID VALUE           Set an item: --dataset_dir /data, --inferer::overlap 0.25

Example: hearth bundle run spleen_ct_segmentation --dataset_dir /data/Task09_Spleen";

/// Opens a bundle, and runs its config.
pub fn run(args: &RunArgs) -> Outcome {
    let Flags { bundle: path, mut options, json, .. } = read(&args.words)?;
    let opened = bundle::open(&path)?;
    options.results.get_or_insert_with(|| opened.results.clone());
    run_opened(&opened, &options, json)
}

/// Runs an opened bundle with these options; prints the progress and the written files.
pub fn run_opened(opened: &OpenedBundle, options: &RunOptions, json: bool) -> Outcome {
    let start = Instant::now();
    let mut tell = |told: Told<'_>| match told {
        Told::Note(text) => note!("{text}"),
        Told::Weights(path) => note!("weights: {}", path.display()),
        Told::Random(id) => {
            note!("WARNING: no weights were loaded into {id}: the network is random, and its results mean nothing");
        }
        Told::Case(seen) => {
            let left = match seen.index {
                0 => String::new(),
                before => {
                    let each = start.elapsed().as_secs_f64() / (before + 1) as f64;
                    format!("  {} left", seconds(each * (seen.total - before - 1) as f64))
                }
            };
            if seen.total > 1 {
                note!("case {} of {}{left}", seen.index + 1, seen.total);
            }
        }
        Told::Denoised { done, total, .. } => {
            if done == total || done % 10 == 0 {
                let each = start.elapsed().as_secs_f64() / done as f64;
                let left = if done == total {
                    String::new()
                } else {
                    format!("  {} left", seconds(each * (total - done) as f64))
                };
                note!("step {done} of {total}{left}");
            }
        }
        Told::Patches { done, total } => note!("{done} of {total} patches"),
    };
    let report = bundle::run(&opened.bundle, options, &mut tell)?;
    let metric = |values: &[f64]| match values {
        [one] => json!(one),
        several => json!(several),
    };
    if json {
        let metrics: serde_json::Map<String, Value> =
            report.metrics.iter().map(|(name, values)| (name.clone(), metric(values))).collect();
        let files: Vec<String> = report.written.iter().map(|path| path.display().to_string()).collect();
        let whole = json!({ "run_id": report.run_id, "cases": report.cases, "written": files, "metrics": metrics });
        out!("{}", serde_json::to_string_pretty(&whole)?);
        return Ok(());
    }
    report.written.iter().for_each(|path| out!("{}", path.display()));
    for (name, values) in &report.metrics {
        out!("{name} {}", metric(values));
    }
    Ok(())
}
