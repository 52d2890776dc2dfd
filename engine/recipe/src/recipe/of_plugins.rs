//! Losses and inferers of plugins in a recipe: loaded where they are used, refused where they cannot be.

use hearth_nn::losses::Loss;
use hearth_registry::Fault;
use hearth_registry::component::is_of_a_plugin;

use super::Recipe;
use super::ignored::{KEY, innermost};

impl Recipe {
    /// The loss of a recipe that trains one network, with its plugin if it is of one.
    ///
    /// # Errors
    /// A recipe without a loss; a plugin that is missing or refuses the options.
    pub fn build_loss(&self) -> Result<Box<dyn Loss>, Fault> {
        let Some(loss) = &self.loss else {
            return Err(Fault::at("loss", "this recipe trains two networks that compete; it has no [loss]"));
        };
        let built = self.with_plugins(|| {
            let built = loss.build()?;
            built.load().map(|()| built)
        });
        built.map_err(|fault| {
            let name = innermost(loss.node()).text("name").unwrap_or_default();
            let refused = fault.path.rsplit('.').next() == Some(KEY);
            if refused && is_of_a_plugin(name) && self.ignore_index().is_some() {
                let what = "counts every voxel, and task.ignore_label says that some are not annotated: the plugin's loss needs \
                            an option";
                return Fault::at("loss", format!("{name} {what} {KEY}"));
            }
            fault.under("loss")
        })
    }

    /// Fails for an inferer of a plugin where none runs.
    pub(super) fn check_inferer(&self) -> Result<(), Fault> {
        let (name, task) = (self.inferer.name(), self.learns());
        let why = if task.generates() {
            "images are made of random numbers"
        } else if task.patches().is_some() {
            "the patches of a slide are predicted one by one, in batches"
        } else {
            return Ok(());
        };
        if !is_of_a_plugin(name) {
            return Ok(());
        }
        Err(Fault::at("inferer.name", format!("{name} would never be called: {why}; leave [inferer] out")))
    }
}
