//! `hearth trace`: summarizes Chrome traces.

use std::path::PathBuf;

use hearth_profile::summarize;

use crate::error::{Context, Outcome};
use crate::out;

/// Arguments of `hearth trace`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Times of loading, forward pass, backward pass and steps in traces of PyTorch or Hearth
    Summarize(SummarizeArgs),
}

#[derive(Debug, clap::Args)]
struct SummarizeArgs {
    /// Traces: .json, .json.gz or .zip, such as torch.profiler's, or trace.json.gz of a Hearth run
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// A row for every step, too
    #[arg(long)]
    each: bool,
    /// JSON: a list with an object for each file, times in seconds
    #[arg(long)]
    json: bool,
}

/// Carries out the action.
pub fn run(args: &Args) -> Outcome {
    let Action::Summarize(SummarizeArgs { files, each, json }) = &args.action;
    let mut all = Vec::new();
    for file in files {
        let summary = summarize(file).while_doing(|| "cannot summarize the trace")?;
        if *json {
            let statistics: serde_json::Map<_, _> =
                summary.statistics().into_iter().map(|(name, of)| (name.to_owned(), serde_json::json!(of))).collect();
            let mut one = serde_json::json!({ "file": file.to_string_lossy(), "statistics": statistics });
            one["summary"] = serde_json::to_value(&summary)?;
            all.push(one);
            continue;
        }
        let of = if summary.kernels { "kernels of the GPU" } else { "the CPU's time" };
        out!("{}: {} steps of {}; forward and backward: {of}", file.display(), summary.steps.len(), summary.program);
        out!("{}", summary.table(*each));
    }
    if *json {
        out!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}
