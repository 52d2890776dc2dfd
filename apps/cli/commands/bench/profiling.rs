//! Measures the cost of recording a profile: a step without a recording, with one, and with a range for
//! each layer.

use std::time::Instant;

use hearth::kernels::memory;
use hearth_files::Scratch;
use hearth_nn::layers::layer_ranges;
use hearth_profile::{Profile, Recording, measure_memory};
use serde_json::json;

use super::networks::Training;
use super::{Args, SCRATCH, median, say};
use crate::error::{Context, Outcome};

/// Consecutive steps of a kind, so that a change of the machine's speed affects all kinds alike.
const STRETCH: u32 = 4;

/// Runs steps in turn without a recording, with one, and with one that has layers; then measures how
/// long writing the trace and tables of the last recording takes.
pub fn run(args: &Args) -> Outcome {
    let folder = Scratch::new(SCRATCH).while_doing(|| "a temporary folder")?;
    measure_memory(memory::in_use, memory::owners);
    let mut training = Training::new(args)?;
    training.step()?;
    let mut seconds: [Vec<f64>; 3] = Default::default();
    let mut last = None;
    for _ in 0..args.runs() {
        for (kind, seconds) in seconds.iter_mut().enumerate() {
            layer_ranges(kind == 2);
            let recording = (kind > 0).then(Recording::start).transpose()?;
            for _ in 0..STRETCH {
                let start = Instant::now();
                training.step()?;
                seconds.push(start.elapsed().as_secs_f64());
            }
            last = recording.map(Recording::stop).or(last);
        }
    }
    layer_ranges(false);
    let [off, on, layers] = seconds.map(|mut seconds| median(&mut seconds));
    let start = Instant::now();
    let profile = Profile::of(last.unwrap_or_default(), None, None);
    profile.write(folder.path(), (0, "bench")).while_doing(|| "the trace")?;
    let answer = start.elapsed().as_secs_f64();
    let trace = folder.path().join("trace.json.gz");
    let bytes = trace.metadata().while_doing(|| "the trace")?.len();
    say(
        args,
        json!({
            "bench": "profile", "patch": training.patch, "batch": training.batch, "seconds": off, "recorded": on,
            "with_layers": layers, "cost": on / off - 1.0, "cost_with_layers": layers / off - 1.0,
            "steps": STRETCH, "trace_bytes": bytes, "answer_seconds": answer,
        }),
    )
}
