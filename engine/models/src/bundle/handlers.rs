//! Handlers of an evaluator: weights that are loaded, tables and maps that are written.

use std::path::Path;

use hearth_bundle::{Component, Fault, Value};

use super::classes::Classes;
use super::networks::Loads;
use super::nodes::{components, fault};
use super::slides::Maps;

/// Handlers that print, or write what TensorBoard shows.
const QUIET: [&str; 5] =
    ["StatsHandler", "TensorBoardStatsHandler", "TensorBoardImageHandler", "LogfileHandler", "TerminateOnNan"];

/// What the handlers of an evaluator do.
#[derive(Default)]
pub(crate) struct Handlers {
    pub loads: Vec<Loads>,
    /// Tables of what the network says of each case.
    pub tables: Vec<Classes>,
    /// Maps of probabilities of slides.
    pub maps: Option<Maps>,
}

impl Handlers {
    /// Those of an evaluator; paths count from `folder`.
    ///
    /// # Errors
    /// Handlers and options that are not supported, weights that are missing.
    pub fn new(evaluator: &Component, folder: &Path) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut found = Handlers::default();
        let given = evaluator.get("val_handlers");
        let Some(handlers) = components(given) else {
            let wrong = fault(evaluator, "val_handlers is no list of handlers");
            return Err(vec![wrong.about(given.unwrap_or(&Value::None))]);
        };
        for handler in handlers {
            match handler.name() {
                "CheckpointLoader" => match Loads::new(&handler, folder) {
                    Ok(loads) => found.loads.push(loads),
                    Err(wrong) => faults.extend(wrong),
                },
                "ProbMapProducer" => match Maps::new(&handler) {
                    Ok(maps) => found.maps = Some(maps),
                    Err(wrong) => faults.push(wrong),
                },
                "ClassificationSaver" => match Classes::of_handler(&handler) {
                    Ok(table) => found.tables.push(table),
                    Err(wrong) => faults.push(wrong),
                },
                name if QUIET.contains(&name) => {}
                _ => faults.push(fault(&handler, "is a handler that is not here")),
            }
        }
        if faults.is_empty() { Ok(found) } else { Err(faults) }
    }
}
