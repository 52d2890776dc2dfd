//! Handlers of an evaluator, which load weights and write tables and maps.

use std::path::Path;

use hearth_bundle::{Component, Fault, Value};

use super::classes::Classes;
use super::networks::Loads;
use super::nodes::{components, fault};
use super::slides::Maps;

/// Handlers that only print, or write for TensorBoard.
const QUIET: [&str; 5] =
    ["StatsHandler", "TensorBoardStatsHandler", "TensorBoardImageHandler", "LogfileHandler", "TerminateOnNan"];

/// The supported work of an evaluator's handlers.
#[derive(Default)]
pub(crate) struct Handlers {
    pub loads: Vec<Loads>,
    /// Tables of the network's output for each case.
    pub tables: Vec<Classes>,
    /// Probability maps of slides.
    pub maps: Option<Maps>,
}

impl Handlers {
    /// Parses the handlers of an evaluator; paths are relative to `folder`.
    ///
    /// # Errors
    /// Unsupported handlers and options, or missing weights.
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
                _ => faults.push(fault(&handler, "is a handler that is not supported")),
            }
        }
        if faults.is_empty() { Ok(found) } else { Err(faults) }
    }
}
