//! Merging by the plugin `ensemble`, which is loaded and called like any plugin.

use std::sync::{Mutex, PoisonError};

use burn::tensor::Tensor;
use hearth_engine::Handler;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_plugin_host::Plugin;
use hearth_train::Merger;

use crate::ensemble::Merging;
use crate::ensemble::ways::Merge;
use hearth_recipe::recipe::Output;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::Plan;
use hearth_run::handlers::plugins;

/// The name of the plugin.
const NAME: &str = "ensemble";

/// The plugin with its options.
pub struct ByPlugin {
    plugin: Plugin,
    options: toml::Table,
    /// The plugin's handler, for predictions.
    merger: Mutex<Merger>,
    spatial_dims: usize,
}

impl ByPlugin {
    /// Loads the plugin with the options of a merging: `pred_keys`, `method`, `weights`, `num_classes`.
    pub fn load(plan: &Plan, network: &AnyNetwork, merging: &Merging, members: usize) -> Outcome<Self> {
        let doing = || format!("runs are merged by the plugin `{NAME}`");
        let plugin = plugins::search(plan, &[]).load(NAME).while_doing(doing)?;
        let mut options = toml::Table::new();
        options.insert("pred_keys".into(), Merger::keys(members).into());
        let votes = merging.how == Merge::Vote;
        options.insert("method".into(), if votes { "vote" } else { "mean" }.into());
        if votes && plan.recipe.output() == Output::Labels {
            options.insert("num_classes".into(), toml::Value::Integer(network.channels()[1] as i64));
        }
        if let Some(weights) = &merging.weights {
            options.insert("weights".into(), weights.clone().into());
        }
        let handler = plugin.handler(options.clone()).while_doing(doing)?;
        let merger = Mutex::new(Merger::new(handler).map_err(RecipeError::from_error)?);
        Ok(Self { plugin, options, merger, spatial_dims: network.spatial_dims() })
    }

    /// Creates another handler of the plugin, for an evaluator.
    pub fn handler(&self) -> Outcome<Box<dyn Handler>> {
        Ok(self.plugin.handler(self.options.clone())?)
    }

    /// Merges the members' predictions for an image.
    pub fn merge(&self, image: Tensor<5>, members: Vec<Tensor<5>>) -> Outcome<Tensor<5>> {
        let shape = members.first().map(Tensor::dims);
        let mut merger = self.merger.lock().unwrap_or_else(PoisonError::into_inner);
        let merged = merger.merge(image, members, self.spatial_dims).map_err(RecipeError::from_error)?;
        if Some(merged.dims()) != shape {
            let found = merged.dims();
            let path = self.plugin.path().map_or_else(|| format!("`{NAME}`"), |path| path.display().to_string());
            let expected = shape.unwrap_or_default();
            return Err(RecipeError::new(format!(
                "the plugin {path} merged predictions of shape {expected:?} into one of shape {found:?}; it must keep it"
            )));
        }
        Ok(merged)
    }
}
