//! Parameters with their own options.

use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule::Rule;
use super::{OptimError, check_rate};
use crate::glob::glob;

/// Options for a group of parameters; omitted options are those of the optimizer.
///
/// ```
/// # use hearth_nn::optim::OptimizerConfig;
/// let text = "name = \"AdamW\"\nlr = 1e-3\n[[groups]]\nparams = \"encoder.*\"\nlr = 1e-4\nbetas = [0.9, 0.95]";
/// assert!(toml::from_str::<OptimizerConfig>(text)?.build().is_ok());
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct ParameterGroup {
    /// Pattern of the parameters: the name in the state dict (or the path of module fields), in
    /// which `*` matches any characters.
    #[setters(into)]
    pub params: String,
    /// The learning rate from which a schedule starts; it changes in proportion to the optimizer's
    /// learning rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lr: Option<f64>,
    /// Factor of the learning rate in each step, as an alternative to `lr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lr_scale: Option<f64>,
    /// Replaces the optimizer's weight decay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// Momentum of SGD and RMSprop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// Dampening of SGD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dampening: Option<f64>,
    /// Nesterov momentum of SGD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nesterov: Option<bool>,
    /// Decay rates of Adam, AdamW and Novograd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub betas: Option<[f64; 2]>,
    /// Constant added to denominators, for all but SGD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eps: Option<f64>,
    /// AMSGrad variant of Adam, AdamW and Novograd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amsgrad: Option<bool>,
    /// Gradient averaging of Novograd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grad_averaging: Option<bool>,
    /// Decay rate of RMSprop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Centered variant of RMSprop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub centered: Option<bool>,
}

/// A prepared group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub params: String,
    pub lr_scale: f64,
    pub weight_decay: f64,
    pub rule: Rule,
}

impl Group {
    /// Whether the group contains the parameter at this path.
    pub fn matches(&self, path: &str) -> bool {
        glob(&self.params, path)
    }
}

/// Replaces an option of the rule; returns the option if the rule does not have it.
macro_rules! replace {
    ($group:ident, $rule:ident, [$($own:ident),*], [$($foreign:ident),*]) => {{
        $( if let Some(value) = $group.$own { $rule.$own = value; } )*
        let foreign: &[(&str, bool)] = &[$( (stringify!($foreign), $group.$foreign.is_some()) ),*];
        foreign.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }};
}

impl ParameterGroup {
    /// The rule and rates of the group, based on those of the optimizer.
    pub(crate) fn build(&self, rule: &Rule, lr: f64, weight_decay: f64) -> Result<Group, OptimError> {
        let wrong = |reason: String| OptimError::Group { params: self.params.clone(), reason };
        let mut rule = rule.clone();
        let (foreign, kind) = match &mut rule {
            Rule::Sgd(own) => (
                replace!(
                    self,
                    own,
                    [momentum, dampening, nesterov],
                    [betas, eps, amsgrad, grad_averaging, alpha, centered]
                ),
                "SGD",
            ),
            Rule::Adam(own) => (
                replace!(
                    self,
                    own,
                    [betas, eps, amsgrad],
                    [momentum, dampening, nesterov, grad_averaging, alpha, centered]
                ),
                if own.decoupled { "AdamW" } else { "Adam" },
            ),
            Rule::Novograd(own) => (
                replace!(
                    self,
                    own,
                    [betas, eps, amsgrad, grad_averaging],
                    [momentum, dampening, nesterov, alpha, centered]
                ),
                "Novograd",
            ),
            Rule::RmsProp(own) => (
                replace!(
                    self,
                    own,
                    [momentum, eps, alpha, centered],
                    [dampening, nesterov, betas, amsgrad, grad_averaging]
                ),
                "RMSprop",
            ),
        };
        if let Some(name) = foreign {
            return Err(wrong(format!("{kind} has no option `{name}`")));
        }
        rule.check().map_err(|error| wrong(error.to_string()))?;
        let lr_scale = match (self.lr, self.lr_scale) {
            (Some(_), Some(_)) => {
                return Err(wrong("`lr` and `lr_scale` are alternatives; give one of them".to_owned()));
            }
            (Some(own), None) if own.is_finite() && own > 0.0 && !(own / lr).is_finite() => {
                return Err(wrong(format!("`lr` cannot be reached from the optimizer's lr of {lr}")));
            }
            (Some(own), None) => own / if lr == 0.0 { 1.0 } else { lr },
            (None, scale) => scale.unwrap_or(1.0),
        };
        let (name, rate) = self.lr.map_or(("lr_scale", lr_scale), |own| ("lr", own));
        check_rate(name, rate).map_err(|error| wrong(error.to_string()))?;
        let weight_decay = self.weight_decay.unwrap_or(weight_decay);
        check_rate("weight_decay", weight_decay).map_err(|error| wrong(error.to_string()))?;
        Ok(Group { params: self.params.clone(), lr_scale, weight_decay, rule })
    }
}
