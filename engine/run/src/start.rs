//! Initial weights: `[init]`.

use std::path::{Path, PathBuf};

use burn::module::Module;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_nn::weights::{self, Report};
use hearth_nn::{Frozen, freeze};

use crate::checkpoints;
use crate::folders;
use crate::plan::Plan;
use hearth_recipe::notice;
use hearth_recipe::text::thousands;
use hearth_recipe::{At, Context, Outcome, RecipeError};

/// The source of initial weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The recipe's `[init]`, if it names any.
    Init,
    /// A checkpoint, later on; parameters are frozen now.
    Checkpoint,
}

/// The number of keys of a kind that a message lists.
const LISTED: usize = 6;

impl Plan {
    /// The network at the start of its training: drawn weights, replaced by those of `[init]`, with
    /// the named parameters frozen. Reports both.
    pub fn starting_network(&self, from: Start) -> Outcome<AnyNetwork> {
        let init = &self.recipe.init;
        // Only a network in training mode knows which of its parameters train.
        let mut network = self.network(&self.device)?.train();
        if let (Some(path), Start::Init) = (&init.weights, from) {
            let (loaded, report) = self.load(network, path)?;
            tell(path, &report);
            network = loaded;
        }
        if init.freeze.is_empty() {
            return Ok(network);
        }
        let (network, frozen) =
            freeze(network, &init.freeze).map_err(|error| self.document.error_at("init.freeze", error.to_string()))?;
        let Frozen { names, values, of } = frozen;
        let (values, of) = (thousands(values as u64), thousands(of as u64));
        notice!("frozen: {} parameters and statistics, {values} of {of} values", names.len());
        Ok(network)
    }

    fn load(&self, network: AnyNetwork, path: &Path) -> Outcome<(AnyNetwork, Report)> {
        let fail = |message: String| self.document.error_at("init.weights", message);
        let file = weights_file(path).map_err(|failure| fail(failure.line()))?;
        let name = network.name();
        let (network, report) =
            weights::load_partial(network, &file).map_err(|error| fail(format!("cannot load weights: {error}")))?;
        if report.loaded == 0 {
            let path = file.display();
            return Err(fail(format!("{path} has no weight that fits {name}:\n{report}")));
        }
        if !report.misfits.is_empty() && !self.recipe.init.skip_mismatched {
            let advice = "init.skip_mismatched = true (--init-skip-mismatched of `train`) leaves such weights as they were drawn";
            let misfits = listed(&report.misfits);
            return Err(fail(format!("{} has weights of another shape: {misfits}; {advice}", file.display())));
        }
        Ok((network, report))
    }
}

/// The file of `[init]` or `--weights`; for the folder of a run, that of its best checkpoint.
///
/// # Errors
/// A missing file, or one that is not safetensors.
pub fn weights_file(path: &Path) -> Outcome<PathBuf> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    if ["pt", "pth", "ckpt", "bin", "pkl"].contains(&ending.as_str()) {
        return Err(RecipeError::new(format!(
            "{0} is a PyTorch checkpoint, which can execute code when PyTorch reads it; convert it to safetensors first: \
             hearth convert {0} {1}",
            path.display(),
            path.with_extension("safetensors").display()
        )));
    }
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    if let Some(weights) = checkpoints::weights_in(path)? {
        return Ok(weights);
    }
    let inside = path.join(checkpoints::WEIGHTS);
    if inside.is_file() {
        return Ok(inside);
    }
    let run = folders::open_run(path).while_doing(|| format!("{} holds no weights", path.display()))?;
    Ok(checkpoints::choose(&run, "best")?.path.join(checkpoints::WEIGHTS))
}

fn listed(keys: &[String]) -> String {
    let more = keys.len().saturating_sub(LISTED);
    let shown = keys[..keys.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// Reports which weights came from the file and which did not.
fn tell(path: &Path, report: &Report) {
    let Report { loaded, missing, unexpected, misfits, .. } = report;
    let total = loaded + missing.len() + misfits.len();
    notice!("init: {loaded} of {total} weights from {}", path.display());
    let kinds = [
        ("not in the file, newly drawn", missing),
        ("of another shape, newly drawn", misfits),
        ("not used", unexpected),
    ];
    for (kind, keys) in kinds.into_iter().filter(|(_, keys)| !keys.is_empty()) {
        notice!("init: {} {kind}: {}", keys.len(), listed(keys));
    }
}
