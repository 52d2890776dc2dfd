//! Optimizers by name, as in a recipe.

use std::ops::Deref;
use std::sync::Arc;

use hearth_registry::{Fault, Kind, Named, Place};
use serde::{Deserialize, Serialize};

use super::optimizer::Optimizer;
use super::{AdamConfig, AdamWConfig, NovogradConfig, OptimError, ParameterGroup, RmsPropConfig, SgdConfig};

/// The configuration of an optimizer, as [`OptimizerConfig`] holds it.
pub trait OptimizerSpec: std::fmt::Debug + Send + Sync {
    /// The learning rate from which a schedule starts.
    fn lr(&self) -> f64;

    /// Groups of parameters with their own options.
    fn groups(&self) -> &[ParameterGroup];

    /// Builds the optimizer with empty state.
    ///
    /// # Errors
    /// Fails for invalid options.
    fn build(&self) -> Result<Optimizer, OptimError>;
}

impl Kind for dyn OptimizerSpec {
    const WORD: &'static str = "optimizer";

    /// A table's rate is the one that a training starts from; a program may build an optimizer with a rate of
    /// 0 and give each step its own.
    fn check(&self) -> Result<(), Fault> {
        let lr = self.lr();
        if !(lr.is_finite() && lr > 0.0) {
            let what = format!("a learning rate of {lr} cannot train; give a number above 0");
            return Err(Fault::at("lr", what));
        }
        self.build().map(drop).map_err(|error| {
            let place = match &error {
                OptimError::Value { name, .. } => (*name).to_owned(),
                OptimError::Group { params, .. } => {
                    let index = self.groups().iter().position(|group| group.params == *params);
                    index.map_or("groups".to_owned(), |index| format!("groups.{index}"))
                }
                _ => String::new(),
            };
            Fault::at(place, error.to_string())
        })
    }

    fn place(&self) -> Option<Place> {
        Some(Place::AnyDevice)
    }
}

/// An optimizer by name, with PyTorch's or MONAI's parameters and defaults. A schedule starts from
/// the learning rate; each step receives its own rate.
///
/// ```
/// # use hearth_nn::optim::OptimizerConfig;
/// let read: OptimizerConfig = toml::from_str("name = \"SGD\"\nmomentum = 0.9\nlr = 0.2")?;
/// assert_eq!(OptimizerConfig::sgd(0.9).with("lr", 0.2), Ok(read));
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OptimizerConfig(Named<dyn OptimizerSpec>);

impl Deref for OptimizerConfig {
    type Target = Named<dyn OptimizerSpec>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl OptimizerConfig {
    fn of<S: OptimizerSpec + Serialize + Clone + 'static>(name: &str, spec: S) -> Self {
        Self(Named::unchecked(name, &spec.clone(), Arc::new(spec)))
    }

    /// SGD with this momentum and PyTorch's defaults.
    pub fn sgd(momentum: f64) -> Self {
        Self::of("SGD", SgdConfig { momentum, ..SgdConfig::default() })
    }

    /// Adam with PyTorch's defaults.
    pub fn adam() -> Self {
        Self::of("Adam", AdamConfig::default())
    }

    /// Novograd with MONAI's defaults.
    pub fn novograd() -> Self {
        Self::of("Novograd", NovogradConfig::default())
    }

    /// Replaces the value of a parameter.
    ///
    /// # Errors
    /// Fails if the optimizer has no such parameter, or if the value is invalid.
    pub fn with(&self, parameter: &str, value: impl Into<hearth_registry::Node>) -> Result<Self, Fault> {
        self.0.with(parameter, value).map(Self)
    }

    /// Builds the optimizer with empty state.
    ///
    /// # Errors
    /// Fails for invalid options.
    pub fn build(&self) -> Result<Optimizer, OptimError> {
        OptimizerSpec::build(&*self.0)
    }
}

/// Converts an optimizer's parameters to a configuration, with the name under which the optimizer
/// is registered.
macro_rules! from_parameters {
    ($($Config:ty => $name:literal),* $(,)?) => {
        $(
            impl From<$Config> for OptimizerConfig {
                fn from(parameters: $Config) -> Self {
                    Self::of($name, parameters)
                }
            }
        )*
    };
}

from_parameters! {
    SgdConfig => "SGD",
    AdamConfig => "Adam",
    AdamWConfig => "AdamW",
    NovogradConfig => "Novograd",
    RmsPropConfig => "RMSprop",
}

impl From<&OptimizerConfig> for OptimizerConfig {
    fn from(config: &OptimizerConfig) -> Self {
        config.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_what_a_recipe_of_that_name_is() {
        let configs: [OptimizerConfig; 5] = [
            SgdConfig::default().momentum(0.9).into(),
            AdamConfig::default().into(),
            AdamWConfig::default().into(),
            NovogradConfig::default().into(),
            RmsPropConfig::default().into(),
        ];
        for config in configs {
            let text = toml::to_string(&config).expect("a table");
            let read: OptimizerConfig = toml::from_str(&text).expect("an optimizer");
            assert_eq!(read, config);
        }
    }
}
