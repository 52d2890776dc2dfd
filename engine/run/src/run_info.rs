//! What handlers can ask about the run as a whole: `Host::run_info`.

use std::path::Path;

use hearth_recipe::Outcome;
use hearth_train::{Train, device};
use serde_json::json;

use crate::plan::Plan;
use crate::record::Record;

/// The information about a run, as JSON. `record` has its cases; a run of an early version has none.
pub fn run_info(plan: &Plan, trainer: &dyn Train, run: &Path, data: &Path, record: Option<&Record>) -> Outcome<String> {
    let (total, trained) = trainer.parameter_counts();
    let state = trainer.engine().state();
    // JSON holds text alone; other bytes of a path become marks.
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let folder = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
    let info = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "run": record.and_then(Record::id),
        "run_folder": text(&folder),
        "device": device::name(&plan.device),
        "precision": plan.precision,
        "rank": state.rank,
        "world_size": state.world_size,
        "parameters": { "total": total, "trainable": trained },
        "data": {
            "folder": text(data),
            "training": record.map(|record| record.cases().0),
            "validation": record.map(|record| record.cases().1),
        },
        "recipe": serde_json::to_value(&plan.recipe)?,
    });
    Ok(info.to_string())
}
