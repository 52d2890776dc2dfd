//! A run's network with the weights of one of its checkpoints.

use std::sync::Arc;

use burn::module::Module;
use hearth_nn::inferers::Inferer;
use hearth_nn::networks::AnyNetwork;
use hearth_nn::weights;
use hearth_registry::unknown;
use hearth_train::checkpoint::{self, Checkpoint, CheckpointError};
use hearth_train::{RunFolder, TestTimeAugmentation};

use super::Plan;
use crate::error::{Context, Outcome, RecipeError};
use crate::notice::notice;
use crate::recipe::{Document, Tta};

/// The file of a checkpoint that holds the weights.
pub(super) const WEIGHTS: &str = "network.safetensors";

/// A trained network, ready to predict.
pub struct Trained {
    /// The run's recipe, on the requested device.
    pub plan: Plan,
    /// The network, in evaluation mode, read in the recipe's precision.
    pub network: AnyNetwork,
    /// Which checkpoint it came from.
    pub checkpoint: String,
    /// How the network is applied to an image: the recipe's inferer, with test-time augmentation if
    /// requested.
    pub inferer: Arc<dyn Inferer>,
    /// The augmentation, if there is one.
    pub augmentation: Option<TestTimeAugmentation>,
}

impl Trained {
    /// Opens a run on a device. `which` is `best`, `latest` or the name of a checkpoint's folder;
    /// `tta` replaces the recipe's test-time augmentation.
    pub fn open(folder: &RunFolder, which: &str, device: &str, tta: Option<Tta>) -> Outcome<Self> {
        let mut document = Document::open(&folder.recipe())?;
        document.set_option("--device", "training.device", device)?;
        let mut plan = Plan::new(document)?;
        if let Some(tta) = tta {
            plan.recipe.tta = tta;
        }
        let checkpoint = choose(folder, which)?;
        let name = checkpoint.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let network = plan.network(&plan.device)?;
        let (network, _) = weights::from_bytes(network, &checkpoint.file(WEIGHTS)?)
            .while_doing(|| format!("the weights of checkpoint {name} do not fit the run's recipe"))?;
        let network = plan.precision.apply(network.valid());
        let augmentation = plan.augmentation()?;
        let inferer: Arc<dyn Inferer> = match &augmentation {
            Some(augmentation) => Arc::new(augmentation.clone()),
            None => plan.recipe.inferer.shared(),
        };
        Ok(Self { plan, network, checkpoint: name, inferer, augmentation })
    }
}

/// The name of a run's checkpoint and its file of weights. `which` is `best`, `latest` or the name
/// of a checkpoint's folder.
pub fn checkpoint_file(folder: &RunFolder, which: &str) -> Outcome<(String, Vec<u8>)> {
    let checkpoint = choose(folder, which)?;
    let name = checkpoint.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = checkpoint.file(WEIGHTS)?;
    Ok((name, bytes))
}

pub(super) fn choose(folder: &RunFolder, which: &str) -> Outcome<Checkpoint> {
    let dir = folder.checkpoints();
    match which {
        "latest" => Ok(checkpoint::newest(&dir)?),
        "best" => match checkpoint::newest_tagged(&dir, "best") {
            Err(CheckpointError::None { .. }) => {
                let latest = checkpoint::newest(&dir)?;
                notice!("no checkpoint is marked as best (the run has not validated); taking the latest");
                Ok(latest)
            }
            found => Ok(found?),
        },
        name => {
            let entries = checkpoint::list(&dir)?;
            let names: Vec<String> =
                entries.iter().filter_map(|e| e.path.file_name()).map(|n| n.to_string_lossy().into_owned()).collect();
            if !names.iter().any(|known| known == name) {
                let mut known = vec!["best", "latest"];
                known.extend(names.iter().map(String::as_str));
                return Err(RecipeError::new(unknown("checkpoint", name, &known)));
            }
            Ok(Checkpoint::open(&dir.join(name))?)
        }
    }
}
