//! What a recipe's predictions are.

use super::schema::Recipe;
use hearth_registry::{Node, Value};

/// What comes out of the chain of `[post] prediction`: the same in validation, `evaluate` and `predict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Exclusive classes, the background first: the likeliest wins (`AsDiscrete` with `argmax`).
    Labels,
    /// Regions that may overlap, each decided by itself (a sigmoid and a threshold). There is no
    /// background; `labels` names the channels.
    Regions,
}

impl Recipe {
    /// What its chain of `[post] prediction` gives. Left out, the largest channel wins.
    pub fn output(&self) -> Output {
        let steps = &self.post.prediction;
        let wins = |step: &Node| match step.get("argmax").map(|argmax| &argmax.value) {
            Some(Value::Leaf(toml::Value::Boolean(argmax))) => *argmax,
            Some(_) => true,
            None => false,
        };
        if steps.is_empty() || steps.iter().any(wins) { Output::Labels } else { Output::Regions }
    }
}
