//! What `hearth predict` predicts with: a run, a package, a recipe with weights.

use std::path::{Path, PathBuf};

use hearth_package::{Kind, Package, PublicKey};
use hearth_recipe::store::ModelStore;

use crate::commands::predict::Args;
use crate::error::{Context, Failure, Outcome};
use crate::folders::{check_path, open_run};
use crate::note;
use crate::recipe::bundled;
use crate::run::Trained;

/// What a model is opened with beside its name.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ModelArgs {
    /// Weights in safetensors for a recipe, a file or the name of a bundled one, in place of a run
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Take a package only if the holder of this public key (PEM, Ed25519) signed it
    #[arg(long, value_name = "FILE", conflicts_with = "weights")]
    pub verify_key: Option<PathBuf>,
}

/// The network that an argument names.
pub fn open(args: &Args, local_rank: usize) -> Outcome<Trained> {
    let (run, opening) = (&args.run, args.opening.opening().of_rank(local_rank));
    if let Some(weights) = &args.model.weights {
        if run.is_dir() || Package::is_one(run) {
            let what = "has weights of its own; --weights are for a recipe: remove it, or give the recipe";
            return Err(Failure::new(format!("{} {what}", run.display())));
        }
        if args.opening.checkpoint.is_some() {
            return Err(Failure::new("--checkpoint names one of a run; --weights is a file: give one of them"));
        }
        let document = bundled::open(&check_path("the recipe", run)?)?;
        return Ok(Trained::open_recipe(document, weights, opening)?);
    }
    if run.is_file() && run.extension().is_some_and(|end| end == "toml") {
        let what = "is a recipe, which has no weights: add --weights FILE.safetensors, or give a run";
        return Err(Failure::new(format!("{} {what}", run.display())));
    }
    if Package::is_one(run) {
        return Ok(Trained::open_package(&package(run, args.model.verify_key.as_deref())?, opening)?);
    }
    unsigned(&args.model)?;
    Ok(Trained::open_with(&open_run(run)?, opening)?)
}

/// Fails where a signature is asked for of what has none.
fn unsigned(model: &ModelArgs) -> Outcome {
    match &model.verify_key {
        Some(_) => Err(Failure::new("--verify-key is for packages (.hearth): remove it, or give a package")),
        None => Ok(()),
    }
}

/// Opens a package, signed by this key if one is given.
pub fn package(path: &Path, key: Option<&Path>) -> Outcome<Package> {
    let package = Package::open(path)?;
    if let Some(key) = key {
        package.check_signature(&PublicKey::open(key).while_doing(|| "--verify-key".to_owned())?)?;
    } else if let Some(by) = &package.manifest().signed_by {
        note!(
            "{}: signed by the key {by}; --verify-key FILE takes only packages of a key that you know",
            path.display()
        );
    }
    Ok(package)
}

/// The model folder of nnU-Net in a package, unpacked into a temporary folder; none of anything else.
pub fn unpacked(args: &Args) -> Outcome<Option<Unpacked>> {
    if args.model.weights.is_some() || !Package::is_one(&args.run) {
        return Ok(None);
    }
    let package = package(&args.run, args.model.verify_key.as_deref())?;
    if package.manifest().kind != Kind::Nnunet {
        return Ok(None);
    }
    let beside = tempfile::Builder::new().prefix("hearth-model-").tempdir();
    let beside = beside.while_doing(|| "cannot make a temporary folder for the model (TMPDIR)".to_owned())?;
    let path = beside.path().join("model");
    package.unpack_model(&path)?;
    Ok(Some(Unpacked { path, _beside: beside }))
}

/// A model folder that is removed when it is dropped.
pub struct Unpacked {
    path: PathBuf,
    _beside: tempfile::TempDir,
}

impl Unpacked {
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder of a stored model, where the argument is its name and no path.
pub fn stored(run: &Path) -> Option<PathBuf> {
    let name = run.to_str().filter(|name| !run.exists() && !name.contains(['/', '\\']))?;
    ModelStore::open(None).ok()?.get(name).ok().map(|model| model.path())
}
