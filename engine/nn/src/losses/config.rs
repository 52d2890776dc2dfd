//! Losses by name, as in a recipe.

use hearth_registry::{Fault, FromPlugin, Kind, Named, Place};

use super::{Loss, LossError};

/// A loss by name, as in a recipe: `name = "DiceLoss"` and the loss's parameters.
///
/// ```
/// # use hearth_nn::losses::LossConfig;
/// let loss: LossConfig = toml::from_str("name = \"DiceLoss\"\nsigmoid = true")?;
/// assert_eq!(loss.build().map(|loss| loss.name()), Ok("DiceLoss"));
/// # Ok::<(), toml::de::Error>(())
/// ```
pub type LossConfig = Named<dyn Loss>;

impl Kind for dyn Loss {
    const WORD: &'static str = "loss";

    const SHARED: &'static [(&'static str, &'static str)] = &[];

    const FROM_PLUGIN: Option<FromPlugin<Self>> = Some(super::of_plugin::build);

    fn check(&self) -> Result<(), Fault> {
        Ok(Loss::check(self)?)
    }

    fn place(&self) -> Option<Place> {
        Some(Place::AnyDevice)
    }
}

impl From<LossError> for Fault {
    fn from(error: LossError) -> Self {
        match &error {
            LossError::Option { key, .. } => Fault::at(*key, error.to_string()),
            _ => Fault::new(error.to_string()),
        }
    }
}
