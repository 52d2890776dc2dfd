//! A sampler of a plugin: `[data] sampler = { name = "mine.Hard" }`.

use std::sync::Arc;

use hearth_registry::component::texts::{OrderAnswer, OrderCall};
use hearth_registry::component::{self, Component, ComponentKind, Late};
use hearth_registry::{Fault, Node};
use hearth_transforms::DrawKey;

use crate::sampler::turns;
use crate::sampler_config::MOST;
use crate::{CaseLosses, DataError, Item, Sampler, SamplerConfig, Turn};

/// The configuration. The plugin is loaded when a run needs the order: commands that do not train work
/// without it.
#[derive(Debug)]
struct OfPlugin(Late);

/// Builds the sampler for a name with a dot, from its table without the name.
pub(crate) fn build(name: &str, options: &Node) -> Result<Box<dyn SamplerConfig>, Fault> {
    Ok(Box::new(OfPlugin(Late::new(ComponentKind::Sampler, name, options.clone()))))
}

impl SamplerConfig for OfPlugin {
    fn sampler(&self, cases: &[Item], _: usize, seed: u64) -> Result<Box<dyn Sampler>, Fault> {
        let component = self.0.get()?.clone();
        let cases: Vec<String> = cases.iter().map(|item| item.case.clone()).collect();
        let losses = CaseLosses::default();
        let mut made = PluginSampler { name: self.0.name(), component, cases, seed, losses, length: 0 };
        made.length = made.ask(0, OrderCall::default()).map_err(|what| Fault::at("name", what))?.len();
        Ok(Box::new(made))
    }
}

/// The order that a plugin decides.
struct PluginSampler {
    name: &'static str,
    component: Arc<dyn Component>,
    cases: Vec<String>,
    seed: u64,
    losses: CaseLosses,
    /// The number of cases of the first epoch, which all have.
    length: usize,
}

impl PluginSampler {
    /// The order of an epoch; `call` has the losses.
    fn ask(&self, epoch: u64, call: OrderCall) -> Result<Vec<usize>, String> {
        // The first question, for the number of cases, comes before epoch 1.
        let when = if epoch == 0 { "before the first epoch".to_owned() } else { format!("epoch {epoch}") };
        let failed = |what: String| format!("{}, {when}: {what}", self.name);
        let [high, low, ..] = DrawKey::new(self.seed, epoch, 0).draw("order of a plugin", 0, 0).at(0);
        let draw = u64::from(high) << 32 | u64::from(low);
        let call = OrderCall { cases: self.cases.clone(), epoch, draw, ..call };
        let text = serde_json::to_string(&call).map_err(|error| failed(error.to_string()))?;
        let answer = self.component.call("order", &[], &text, None);
        let answer = answer.map_err(|why| failed(component::reports(&why)))?;
        let OrderAnswer { order } = serde_json::from_str(&answer.text)
            .map_err(|error| failed(format!("the plugin answers {:?}: {error}", answer.text)))?;
        if let Some(index) = order.iter().find(|index| **index >= self.cases.len()) {
            let expected = format!("expected less than {}, the number of cases", self.cases.len());
            return Err(failed(format!("the plugin returned the index {index}: {expected}")));
        }
        let wrong = match order.len() {
            0 => "expected at least 1".to_owned(),
            many if many > MOST => format!("expected at most {MOST}"),
            many if self.length > 0 && many != self.length => {
                format!("expected {}, as before the first epoch", self.length)
            }
            _ => return Ok(order),
        };
        Err(failed(format!("the plugin returned {} cases: {wrong}", order.len())))
    }
}

impl Sampler for PluginSampler {
    fn len(&self) -> usize {
        self.length
    }

    /// Empty where [`try_turns`](Sampler::try_turns) fails.
    fn order(&self, epoch: u64) -> Vec<usize> {
        self.ask(epoch, OrderCall { losses: self.losses.at_start_of(epoch), ..OrderCall::default() })
            .unwrap_or_default()
    }

    fn try_turns(&self, epoch: u64) -> Result<Vec<Turn>, DataError> {
        let call = OrderCall { losses: self.losses.at_start_of(epoch), ..OrderCall::default() };
        self.ask(epoch, call).map(turns).map_err(DataError::Option)
    }

    fn losses(&self) -> Option<&CaseLosses> {
        Some(&self.losses)
    }
}
