//! Optimizers as a recipe names them.

use serde::{Deserialize, Serialize};

use super::optimizer::Optimizer;
use super::rule::Rule;
use super::{Adam, Novograd, OptimError, ParameterGroup, RmsProp, Sgd};

/// An optimizer by name, with PyTorch's or MONAI's parameters and defaults. The learning rate is where a schedule
/// starts; each step is told its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name")]
#[allow(missing_docs)] // The parameters are those of the update rules, where they are described.
pub enum OptimizerConfig {
    /// [`Sgd`]
    #[serde(rename = "SGD", alias = "Sgd", alias = "sgd")]
    Sgd {
        #[serde(default = "lr")]
        lr: f64,
        #[serde(default)]
        momentum: f64,
        #[serde(default)]
        dampening: f64,
        #[serde(default)]
        weight_decay: f64,
        #[serde(default)]
        nesterov: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<ParameterGroup>,
    },
    /// [`Adam`]
    #[serde(alias = "adam")]
    Adam {
        #[serde(default = "lr")]
        lr: f64,
        #[serde(default = "adam_betas")]
        betas: [f64; 2],
        #[serde(default = "eps")]
        eps: f64,
        #[serde(default)]
        weight_decay: f64,
        #[serde(default)]
        amsgrad: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<ParameterGroup>,
    },
    /// [`Adam`] with decoupled weight decay
    #[serde(alias = "adamw")]
    AdamW {
        #[serde(default = "lr")]
        lr: f64,
        #[serde(default = "adam_betas")]
        betas: [f64; 2],
        #[serde(default = "eps")]
        eps: f64,
        #[serde(default = "adamw_decay")]
        weight_decay: f64,
        #[serde(default)]
        amsgrad: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<ParameterGroup>,
    },
    /// [`Novograd`]
    #[serde(alias = "novograd", alias = "NovoGrad")]
    Novograd {
        #[serde(default = "lr")]
        lr: f64,
        #[serde(default = "novograd_betas")]
        betas: [f64; 2],
        #[serde(default = "eps")]
        eps: f64,
        #[serde(default)]
        weight_decay: f64,
        #[serde(default)]
        grad_averaging: bool,
        #[serde(default)]
        amsgrad: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<ParameterGroup>,
    },
    /// [`RmsProp`]
    #[serde(rename = "RMSprop", alias = "rmsprop", alias = "RMSProp")]
    RmsProp {
        #[serde(default = "rmsprop_lr")]
        lr: f64,
        #[serde(default = "rmsprop_alpha")]
        alpha: f64,
        #[serde(default = "eps")]
        eps: f64,
        #[serde(default)]
        weight_decay: f64,
        #[serde(default)]
        momentum: f64,
        #[serde(default)]
        centered: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<ParameterGroup>,
    },
}

fn lr() -> f64 {
    1e-3
}

fn rmsprop_lr() -> f64 {
    1e-2
}

fn rmsprop_alpha() -> f64 {
    0.99
}

fn eps() -> f64 {
    1e-8
}

fn adam_betas() -> [f64; 2] {
    [0.9, 0.999]
}

fn adamw_decay() -> f64 {
    1e-2
}

fn novograd_betas() -> [f64; 2] {
    [0.9, 0.98]
}

impl OptimizerConfig {
    /// SGD with this momentum and PyTorch's defaults.
    pub fn sgd(momentum: f64) -> Self {
        OptimizerConfig::Sgd {
            lr: lr(),
            momentum,
            dampening: 0.0,
            weight_decay: 0.0,
            nesterov: false,
            groups: Vec::new(),
        }
    }

    /// Adam with PyTorch's defaults.
    pub fn adam() -> Self {
        OptimizerConfig::Adam {
            lr: lr(),
            betas: adam_betas(),
            eps: eps(),
            weight_decay: 0.0,
            amsgrad: false,
            groups: Vec::new(),
        }
    }

    /// Novograd with MONAI's defaults.
    pub fn novograd() -> Self {
        OptimizerConfig::Novograd {
            lr: lr(),
            betas: novograd_betas(),
            eps: eps(),
            weight_decay: 0.0,
            grad_averaging: false,
            amsgrad: false,
            groups: Vec::new(),
        }
    }

    /// The learning rate a schedule starts from.
    pub fn lr(&self) -> f64 {
        match self {
            OptimizerConfig::Sgd { lr, .. }
            | OptimizerConfig::Adam { lr, .. }
            | OptimizerConfig::AdamW { lr, .. }
            | OptimizerConfig::Novograd { lr, .. }
            | OptimizerConfig::RmsProp { lr, .. } => *lr,
        }
    }

    /// Replaces the learning rate a schedule starts from.
    pub fn set_lr(&mut self, new: f64) {
        match self {
            OptimizerConfig::Sgd { lr, .. }
            | OptimizerConfig::Adam { lr, .. }
            | OptimizerConfig::AdamW { lr, .. }
            | OptimizerConfig::Novograd { lr, .. }
            | OptimizerConfig::RmsProp { lr, .. } => *lr = new,
        }
    }

    /// Builds the optimizer, with empty state.
    pub fn build(&self) -> Result<Optimizer, OptimError> {
        let lr = self.lr();
        if lr.is_nan() || lr < 0.0 {
            return Err(OptimError::value("lr", lr, "at least 0"));
        }
        let (rule, weight_decay, groups) = match self.clone() {
            OptimizerConfig::Sgd { momentum, dampening, weight_decay, nesterov, groups, .. } => {
                (Rule::Sgd(Sgd { momentum, dampening, nesterov }), weight_decay, groups)
            }
            OptimizerConfig::Adam { betas, eps, weight_decay, amsgrad, groups, .. } => {
                (Rule::Adam(Adam { betas, eps, amsgrad, decoupled: false }), weight_decay, groups)
            }
            OptimizerConfig::AdamW { betas, eps, weight_decay, amsgrad, groups, .. } => {
                (Rule::Adam(Adam { betas, eps, amsgrad, decoupled: true }), weight_decay, groups)
            }
            OptimizerConfig::Novograd { betas, eps, weight_decay, grad_averaging, amsgrad, groups, .. } => {
                (Rule::Novograd(Novograd { betas, eps, grad_averaging, amsgrad }), weight_decay, groups)
            }
            OptimizerConfig::RmsProp { alpha, eps, weight_decay, momentum, centered, groups, .. } => {
                (Rule::RmsProp(RmsProp { alpha, eps, momentum, centered }), weight_decay, groups)
            }
        };
        rule.check()?;
        if weight_decay.is_nan() || weight_decay < 0.0 {
            return Err(OptimError::value("weight_decay", weight_decay, "at least 0"));
        }
        let groups: Result<Vec<_>, _> = groups.iter().map(|group| group.build(&rule, lr, weight_decay)).collect();
        Ok(Optimizer::new(rule, weight_decay, groups?))
    }
}
