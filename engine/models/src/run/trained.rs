//! A run's network with the weights of one of its checkpoints.

use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use hearth_data::{Progress, all_steps};
use hearth_nn::inferers::Inferer;
use hearth_nn::layers::awaiting_weights;
use hearth_nn::networks::AnyNetwork;
use hearth_nn::weights;
use hearth_package::Label;
use hearth_train::{RunFolder, TestTimeAugmentation};
use serde_json::{Value, json};

use crate::ensemble::Ensemble;
use hearth_recipe::notice;
use hearth_recipe::recipe::{Document, Node, Output, Recipe, Tta};
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::Fingerprint;
use hearth_run::Plan;
use hearth_run::check_windows;
use hearth_run::checkpoint_file;
use hearth_run::named;
use hearth_run::warn_of_edits;

/// A trained network, ready to predict.
pub struct Trained {
    /// The run's recipe, on the requested device.
    pub plan: Plan,
    /// The network, in evaluation mode and in the recipe's precision.
    pub network: AnyNetwork,
    /// The name of the checkpoint.
    pub checkpoint: String,
    /// The BLAKE3 hash of its weights: a checkpoint of the same name may come from another training.
    pub weights: String,
    /// How the network is applied to an image: the recipe's inferer, with test-time augmentation if
    /// requested.
    pub inferer: Arc<dyn Inferer>,
    /// The augmentation, if there is one.
    pub augmentation: Option<TestTimeAugmentation>,
    /// The other runs that predict with it, if any: see [`Trained::merged`].
    pub ensemble: Option<Ensemble>,
    /// Colours and coded terms of its labels, if it came in a package.
    pub labels: Vec<Label>,
    /// The properties of the training images; `None` for earlier versions and recipes alone.
    pub fingerprint: Option<Fingerprint>,
}

/// The options for opening a run for predictions.
#[derive(Clone, Debug)]
pub struct Opening<'a> {
    /// `best`, `latest` or the name of a checkpoint's folder.
    pub checkpoint: &'a str,
    /// The device.
    pub device: &'a str,
    /// The tuning, instead of the recipe's.
    pub tune: Option<&'a str>,
    /// Whose kernels compute convolutions, instead of the recipe's choice.
    pub convolutions: Option<&'a str>,
    /// The test-time augmentation, instead of the recipe's.
    pub tta: Option<Tta>,
    /// Whether all flips are predicted if neither `tta` nor the recipe names an augmentation.
    pub uncertainty: bool,
    /// Faults of DICOM series that are accepted in addition to the recipe's: `MissingSlices`.
    pub accept: Vec<String>,
    /// The labels of each region in the data, instead of those of the training: a label convention
    /// for brain tumours.
    pub classes: Option<&'a str>,
    /// The folder of the labels of the earlier stage of a cascade, instead of the training's.
    pub previous_stage: Option<&'a Path>,
    /// How progress is shown.
    pub progress: Progress,
    /// The index among several ranks on this machine: see [`Plan::of_rank`].
    pub local_rank: usize,
}

impl<'a> Opening<'a> {
    /// The settings of the recipe, without showing progress.
    pub fn new(checkpoint: &'a str, device: &'a str) -> Self {
        Self {
            checkpoint,
            device,
            tune: None,
            convolutions: None,
            tta: None,
            uncertainty: false,
            accept: Vec::new(),
            classes: None,
            previous_stage: None,
            progress: Progress::None,
            local_rank: 0,
        }
    }

    /// Sets the index among several ranks on this machine.
    #[must_use]
    pub fn of_rank(self, local_rank: usize) -> Self {
        Self { local_rank, ..self }
    }
}

/// Adds faults that each `LoadImage` of a recipe accepts.
pub fn accept_faults(document: &mut Document, accept: &[String]) -> Outcome {
    if accept.is_empty() {
        return Ok(());
    }
    let steps = document.root().get("transforms").map_or(&[][..], |steps| steps.items());
    let mut changed = Vec::new();
    for (place, step) in all_steps(steps) {
        if !step.text("name").is_some_and(|name| named(&["LoadImage"], name)) {
            continue;
        }
        let known = step.get("accept").map_or(&[][..], |known| known.items());
        let known = known.iter().map(|fault| fault.to_toml());
        let all = known.chain(accept.iter().map(|fault| fault.clone().into()));
        changed.push((place, toml::Value::Array(all.collect())));
    }
    if changed.is_empty() {
        let what = "accepts faults of DICOM series, which LoadImage reads; this recipe has no such step";
        return Err(RecipeError::new(format!("--accept {what}: remove it")));
    }
    for (place, faults) in changed {
        document.set_option("--accept", &format!("transforms.{place}.accept"), &faults.to_string())?;
    }
    Ok(())
}

/// Uses another label convention than that of the training for reading and writing. The resolved
/// chain of a run contains the label numbers as well.
fn renumber(document: &mut Document, convention: &str) -> Outcome {
    let Some(before) = Recipe::read(document)?.learns().region_labels() else {
        let what = "--classes says how the regions of a run number their labels (task.classes), and this one has none";
        return Err(RecipeError::new(format!("{what}: remove it")));
    };
    let value = toml::Value::String(convention.to_owned()).to_string();
    document.set_option("--classes", "task.classes", &value)?;
    let after = Recipe::read(document)?.learns().region_labels();
    let as_toml = |classes| toml::Value::try_from(classes).map_err(RecipeError::from_error);
    let (before, after) = (as_toml(before)?, as_toml(after.unwrap_or_default())?);
    let steps = document.root().get("transforms").map_or(&[][..], |steps| steps.items());
    let has = |step: &Node| step.get("classes").is_some_and(|classes| classes.to_toml() == before);
    let places: Vec<usize> = steps.iter().enumerate().filter(|(_, step)| has(step)).map(|(place, _)| place).collect();
    for place in places {
        document.set_option("--classes", &format!("transforms.{place}.classes"), &after.to_string())?;
    }
    Ok(())
}

impl Trained {
    /// The origin of the results, for their headers: program, recipe, checkpoint, and the first
    /// digits of the weights' hash.
    pub fn made_by(&self) -> String {
        let (title, weights) = (self.plan.recipe.title(), &self.weights[..self.weights.len().min(12)]);
        format!("hearth {} {title} {} {weights}", env!("CARGO_PKG_VERSION"), self.checkpoint)
    }

    /// The key of results, apart from their images: the weights, the recipe's processing, and the
    /// merging of an ensemble.
    ///
    /// # Errors
    /// A recipe that cannot be serialized.
    pub fn key(&self) -> Outcome<Value> {
        let mut key = json!({
            "weights": self.weights,
            "recipe": blake3::hash(self.plan.recipe.to_toml()?.as_bytes()).to_hex().to_string(),
        });
        if let Some(ensemble) = &self.ensemble {
            key["ensemble"] = ensemble.key();
        }
        Ok(key)
    }

    /// Opens a run on a device. `which` is `best`, `latest` or the name of a checkpoint's folder;
    /// `tta` replaces the recipe's test-time augmentation.
    pub fn open(folder: &RunFolder, which: &str, device: &str, tta: Option<Tta>) -> Outcome<Self> {
        Self::open_with(folder, Opening { tta, ..Opening::new(which, device) })
    }

    /// Opens a run with further options.
    ///
    /// # Errors
    /// A damaged run, a missing checkpoint or device, or a fault that cannot be accepted.
    pub fn open_with(folder: &RunFolder, opening: Opening<'_>) -> Outcome<Self> {
        let document = Document::open(&folder.recipe())?;
        warn_of_edits(folder);
        let which = opening.checkpoint;
        let opened = Self::with_weights(document, opening, || {
            let (name, bytes) = checkpoint_file(folder, which)?;
            let of = format!("checkpoint {name}");
            Ok(Weights { name, of, bytes })
        })?;
        Ok(Self { fingerprint: Fingerprint::of_run(folder.root()), ..opened })
    }

    /// Opens the network of a recipe with weights that are read after the recipe was checked.
    pub(crate) fn with_weights(
        mut document: Document,
        opening: Opening<'_>,
        read: impl FnOnce() -> Outcome<Weights>,
    ) -> Outcome<Self> {
        let Opening {
            checkpoint: _,
            device,
            tune,
            convolutions,
            tta,
            uncertainty,
            accept,
            classes,
            previous_stage,
            progress,
            local_rank,
        } = opening;
        document.set_option("--device", "training.device", device)?;
        if let Some(tune) = tune {
            document.set_option("--tune", "training.tune", tune)?;
        }
        if let Some(convolutions) = convolutions {
            document.set_option("--convolutions", "training.convolutions", convolutions)?;
        }
        accept_faults(&mut document, &accept)?;
        if let Some(classes) = classes {
            renumber(&mut document, classes)?;
        }
        if let Some(folder) = previous_stage {
            // As TOML, so that the name of a folder is not parsed as a number.
            let folder = toml::Value::String(folder.display().to_string()).to_string();
            document.set_option("--previous-stage", "data.previous_stage", &folder)?;
        }
        let mut plan = Plan::of_rank(document, local_rank)?;
        plan.progress = progress;
        match tta {
            Some(tta) if tta != Tta::default() && plan.recipe.output() == Output::Scores => {
                let what = "--tta maps predictions of changed images back to the image; this run predicts numbers";
                return Err(RecipeError::new(format!("{what}: remove it")));
            }
            Some(tta) => plan.recipe.tta = tta,
            None if uncertainty && plan.recipe.tta == Tta::default() && plan.recipe.output() != Output::Scores => {
                notice!("--uncertainty: each image is predicted in all flips, and the result is their mean");
                plan.recipe.tta = Tta::all_flips();
            }
            None => {}
        }
        let Weights { name, of, bytes } = read()?;
        let network = awaiting_weights(|| plan.network(&plan.device))?;
        check_windows(&plan, &network)?;
        let (network, _) = weights::from_bytes(network, &bytes)
            .while_doing(|| format!("the weights of {of} do not fit the recipe"))?;
        let network = plan.precision.apply(network.valid());
        plan.recipe.inferer.load().map_err(|fault| plan.document.located("inferer", fault))?;
        plan.note_host_inferer();
        let augmentation = plan.augmentation()?;
        let inferer: Arc<dyn Inferer> = match &augmentation {
            Some(augmentation) => Arc::new(augmentation.clone()),
            None => plan.recipe.inferer.shared(),
        };
        let weights = blake3::hash(&bytes).to_hex().to_string();
        let labels = Vec::new();
        Ok(Self {
            plan,
            network,
            checkpoint: name,
            weights,
            inferer,
            augmentation,
            ensemble: None,
            labels,
            fingerprint: None,
        })
    }
}

/// The weights with which a network is opened.
pub(crate) struct Weights {
    /// The name of the origin in results: the name of a checkpoint.
    pub name: String,
    /// The name of the origin in messages.
    pub of: String,
    /// The content in safetensors.
    pub bytes: Vec<u8>,
}
