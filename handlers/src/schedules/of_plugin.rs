//! Schedules of plugins: `mine.Warm`.

use hearth_registry::component::texts::RateCall;
use hearth_registry::component::{self, ComponentKind, Late};
use hearth_registry::{Fault, Node};
use serde::Deserialize;

use super::Schedule;

/// A schedule that asks a plugin for each rate.
#[derive(Debug)]
struct OfPlugin(Late);

/// The answer of a plugin: a rate that is not finite is written as `null`.
#[derive(Deserialize)]
struct Answer {
    rate: Option<f64>,
}

/// Builds the schedule for a name with a dot, from its table without the name.
pub(super) fn build(name: &str, table: &Node) -> Result<Box<dyn Schedule>, Fault> {
    Ok(Box::new(OfPlugin(Late::new(ComponentKind::Schedule, name, table.clone()))))
}

impl Schedule for OfPlugin {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        self.rate(base_lr, step, None).unwrap_or(f64::NAN)
    }

    fn rate(&self, base_lr: f64, step: u64, steps: Option<u64>) -> Result<f64, Fault> {
        let failed = |why: String| Fault::new(format!("{} has no rate for step {step}: {why}", self.0.name()));
        let text = serde_json::to_string(&RateCall { step, steps, base: base_lr });
        let text = text.map_err(|error| failed(error.to_string()))?;
        let answer = self.0.get()?.call("rate", &[], &text, None);
        let answer = answer.map_err(|why| failed(component::reports(&why)))?.text;
        let Answer { rate } = serde_json::from_str(&answer)
            .map_err(|error| failed(format!("the plugin returned {answer:?}: {error}")))?;
        match rate.filter(|rate| rate.is_finite()) {
            Some(rate) if rate >= 0.0 => Ok(rate),
            Some(rate) => Err(failed(format!("the plugin returned {rate}: expected 0 or more"))),
            None => Err(failed("the plugin returned a number that is not finite: expected 0 or more".to_owned())),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn load(&self) -> Result<(), Fault> {
        self.0.get().map(drop)
    }
}
