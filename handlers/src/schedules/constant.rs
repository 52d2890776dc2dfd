use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Schedule;

/// The same rate throughout.
///
/// ```
/// # use hearth_handlers::{Constant, Schedule};
/// assert_eq!(Constant {}.at(0.1, 5), 0.1);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constant {}

impl Schedule for Constant {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        let _ = step;
        base_lr
    }

    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

entry!(dyn Schedule => Constant, aliases: &["constant"], example: "");
