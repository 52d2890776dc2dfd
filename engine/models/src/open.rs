//! Opens the model at a path, of any kind, as a [`Model`].

use std::path::{Path, PathBuf};

use hearth_data::Progress;
use hearth_data::readers::accepted;
use hearth_nnunet::{Folds, ModelFolder};
use hearth_package::{Package, PublicKey};
use hearth_recipe::recipe::{Tta, bundled};
use hearth_recipe::{Context, Outcome, RecipeError, notice};
use hearth_run::folders::open_run;
use hearth_train::device::ConvolutionsWord;
use hearth_train::{Precision, device};

use crate::bundle::{Bundle, BundleModel};
use crate::ensemble::packed::{LIST, PackedEnsemble};
use crate::model::Model;
use crate::near_model::near_model;
use crate::nnunet::{
    NnunetEnsemble, NnunetModel, NnunetOptions, TotalModel, TotalOptions, TotalSegmentator, lone_model,
};
use crate::package::{Unpacked, unpacked};
use crate::run::{Opening, RunModel, Trained};
use crate::store::ModelStore;

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The folder of a run, or a package of one.
    Run,
    /// A recipe with weights.
    Recipe,
    /// A trained model of nnU-Net v2, or a package of one.
    Nnunet,
    /// Several nnU-Net models in one folder, as in TotalSegmentator.
    Total,
    /// A MONAI bundle.
    Bundle,
    /// A package of an ensemble of runs.
    Ensemble,
}

impl Family {
    /// The family in words: "this is ...".
    pub fn words(self) -> &'static str {
        match self {
            Family::Run => "a run",
            Family::Recipe => "a recipe with weights",
            Family::Nnunet => "a model of nnU-Net",
            Family::Total => "a folder of several models of nnU-Net",
            Family::Bundle => "a MONAI bundle",
            Family::Ensemble => "a package of an ensemble",
        }
    }

    /// The family of a path. Unknown paths count as runs, whose error names what is missing.
    pub fn of(path: &Path, weights: bool) -> Self {
        match path {
            _ if weights => Family::Recipe,
            _ if ModelFolder::is_one(path) => Family::Nnunet,
            _ if TotalSegmentator::is_one(path) => Family::Total,
            _ if is_bundle(path) => Family::Bundle,
            _ if lone_model(path).is_some() => Family::Nnunet,
            _ if path.join(LIST).is_file() => Family::Ensemble,
            _ => Family::Run,
        }
    }
}

/// Whether a path is a bundle: a folder, or a zip, which no other family uses.
fn is_bundle(path: &Path) -> bool {
    let zip = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("zip"));
    Bundle::is_one(path) || (zip && path.is_file())
}

/// The options for opening a model. Missing ones use the model's own settings.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The device: `cpu`, `cuda:0`, `auto`.
    pub device: String,
    /// `--weights`: a file in safetensors, for a recipe.
    pub weights: Option<PathBuf>,
    /// `--verify-key`: the public key that must have signed a package.
    pub verify_key: Option<PathBuf>,
    /// `--checkpoint`: the name of a checkpoint.
    pub checkpoint: Option<String>,
    /// `--tune`: the choice of GPU kernels.
    pub tune: Option<String>,
    /// `--convolutions`: whose kernels compute convolutions on GPUs.
    pub convolutions: Option<String>,
    /// `--tta`: test-time augmentation.
    pub tta: Option<Tta>,
    /// `--uncertainty`: all flips, if no other augmentation is named.
    pub uncertainty: bool,
    /// `--accept`: accepted faults of DICOM series.
    pub accept: Vec<String>,
    /// `--classes`: a label convention for brain tumours.
    pub classes: Option<String>,
    /// `--previous-stage`: the folder of the labels of an earlier stage.
    pub previous_stage: Option<PathBuf>,
    /// `--folds`: the folds of nnU-Net that predict.
    pub folds: Vec<String>,
    /// `--step-size`: the distance of two tiles as a share of the patch.
    pub step_size: Option<f64>,
    /// `--no-mirroring`.
    pub no_mirroring: bool,
    /// `--precision`: the type in which the network computes.
    pub precision: Option<String>,
    /// `--postprocessing`: a postprocessing file of nnU-Net.
    pub postprocessing: Option<PathBuf>,
    /// `--with`: models whose probabilities are averaged with this one's.
    pub with: Vec<PathBuf>,
    /// `--roi-subset`: the only classes to predict.
    pub roi_subset: Vec<String>,
    /// `--task`: a task of TotalSegmentator.
    pub task: Option<String>,
    /// `--variant`: the choice of a task's models.
    pub variant: Option<String>,
    /// How progress is shown.
    pub progress: Progress,
    /// The index among several ranks on this machine.
    pub local_rank: usize,
}

/// An option: whether it is given, the families that support it, and its purpose.
struct Flag {
    name: &'static str,
    given: fn(&OpenOptions) -> bool,
    families: &'static [Family],
    what: &'static str,
}

const RUNS: &[Family] = &[Family::Run, Family::Recipe, Family::Ensemble];
const NNUNET: &[Family] = &[Family::Nnunet, Family::Total];

/// Every option that some families do not support.
const FLAGS: &[Flag] = &[
    Flag {
        name: "--weights",
        given: |options| options.weights.is_some(),
        families: &[Family::Recipe],
        what: "is for a recipe; this has weights of its own",
    },
    Flag {
        name: "--checkpoint",
        given: |options| options.checkpoint.is_some(),
        families: &[Family::Run, Family::Nnunet, Family::Total],
        what: "names one of a run, or of a model of nnU-Net",
    },
    Flag {
        name: "--tune",
        given: |options| options.tune.is_some(),
        families: RUNS,
        what: "is for runs of this program",
    },
    Flag {
        name: "--tta",
        given: |options| options.tta.is_some(),
        families: RUNS,
        what: "is for runs of this program; checkpoints of nnU-Net say which axes are mirrored, and --no-mirroring \
               turns that off",
    },
    Flag {
        name: "--classes",
        given: |options| options.classes.is_some(),
        families: RUNS,
        what: "is for runs of this program that learn regions of brain tumours",
    },
    Flag {
        name: "--previous-stage",
        given: |options| options.previous_stage.is_some(),
        families: &[Family::Run, Family::Recipe, Family::Ensemble, Family::Nnunet],
        what: "is for the second stage of a cascade",
    },
    Flag {
        name: "--folds",
        given: |options| !options.folds.is_empty(),
        families: NNUNET,
        what: "is for models of nnU-Net",
    },
    Flag {
        name: "--step-size",
        given: |options| options.step_size.is_some(),
        families: NNUNET,
        what: "is for models of nnU-Net; runs have the overlap of their inferer",
    },
    Flag {
        name: "--no-mirroring",
        given: |options| options.no_mirroring,
        families: NNUNET,
        what: "is for models of nnU-Net; runs have --tta",
    },
    Flag {
        name: "--precision",
        given: |options| options.precision.is_some(),
        families: NNUNET,
        what: "is for models of nnU-Net; runs have the precision of their recipe",
    },
    Flag {
        name: "--postprocessing",
        given: |options| options.postprocessing.is_some(),
        families: &[Family::Nnunet],
        what: "is for a model of nnU-Net; runs have the steps of [post]",
    },
    Flag {
        name: "--with",
        given: |options| !options.with.is_empty(),
        families: &[Family::Nnunet],
        what: "is for models of nnU-Net; `hearth ensemble` merges runs",
    },
    Flag {
        name: "--roi-subset",
        given: |options| !options.roi_subset.is_empty(),
        families: &[Family::Total],
        what: "is for a folder of several models, as TotalSegmentator's",
    },
    Flag {
        name: "--task",
        given: |options| options.task.is_some(),
        families: &[Family::Total],
        what: "is for a folder of several models, as TotalSegmentator's",
    },
    Flag {
        name: "--variant",
        given: |options| options.variant.is_some(),
        families: &[Family::Total],
        what: "is for a folder of several models, as TotalSegmentator's",
    },
];

impl OpenOptions {
    /// The default options for a device.
    pub fn on(device: &str) -> Self {
        Self { device: device.to_owned(), ..Self::default() }
    }

    /// Rejects options that a family does not support.
    ///
    /// # Errors
    /// The first unsupported option, with its purpose.
    pub fn check(&self, family: Family) -> Outcome {
        let refused = |flag: &&Flag| (flag.given)(self) && !flag.families.contains(&family);
        match FLAGS.iter().find(refused) {
            None => Ok(()),
            Some(Flag { name, what, .. }) => {
                Err(RecipeError::new(format!("{name} {what}; this is {}: remove it", family.words())))
            }
        }
    }

    /// The options for the network of a run.
    pub fn opening(&self) -> Opening<'_> {
        Opening {
            checkpoint: self.checkpoint.as_deref().unwrap_or("best"),
            device: &self.device,
            tune: self.tune.as_deref(),
            convolutions: self.convolutions.as_deref(),
            tta: self.tta.clone(),
            uncertainty: self.uncertainty,
            accept: self.accept.clone(),
            classes: self.classes.as_deref(),
            previous_stage: self.previous_stage.as_deref(),
            progress: self.progress,
            local_rank: self.local_rank,
        }
    }

    /// The options for nnU-Net models.
    ///
    /// # Errors
    /// An unknown type.
    pub fn nnunet(&self) -> Outcome<NnunetOptions> {
        let checkpoint = checkpoint_name(self.checkpoint.as_deref());
        let precision = self.precision.as_deref().unwrap_or("fp32").parse::<Precision>();
        Ok(NnunetOptions {
            folds: if self.folds.is_empty() { Folds::Found } else { Folds::These(self.folds.clone()) },
            checkpoint,
            step_size: self.step_size.unwrap_or(0.5),
            mirroring: !self.no_mirroring,
            postprocessing: self.postprocessing.clone(),
            precision: precision.map_err(RecipeError::from_error).while_doing(|| "--precision".to_owned())?,
            device: self.device.clone(),
            progress: self.progress,
            ..NnunetOptions::default()
        })
    }
}

/// The file of a checkpoint of nnU-Net by its short name.
pub(crate) fn checkpoint_name(given: Option<&str>) -> String {
    match given.unwrap_or("final") {
        word @ ("final" | "best" | "latest") => format!("checkpoint_{word}.pth"),
        name => name.to_owned(),
    }
}

/// The folder of a stored model, if a path is its name and not itself a model: a folder that only
/// has the same name does not hide it.
pub fn stored(path: &Path) -> Option<PathBuf> {
    let name = path.to_str().filter(|name| !is_model(path) && !name.contains(['/', '\\']))?;
    ModelStore::open(None).ok()?.get(name).ok().map(|model| model.path())
}

/// Whether a path counts as a model: any file, or a folder of a family.
fn is_model(path: &Path) -> bool {
    let is_run = || path.join("recipe.toml").is_file();
    path.is_file() || (path.is_dir() && (Family::of(path, false) != Family::Run || is_run()))
}

/// Opens the model at a path: the folder of a run, a package, a recipe with weights, a model folder
/// of nnU-Net, a folder of several of them, a MONAI bundle, or the name of a stored model.
///
/// # Errors
/// A model that cannot be opened, a package not signed with the given key, or options that the
/// family does not support.
pub fn open(path: &Path, options: &OpenOptions) -> Outcome<Box<dyn Model>> {
    if let Some(path) = stored(path).filter(|_| options.weights.is_none()) {
        return open(&path, options);
    }
    if Package::is_one(path) && options.weights.is_none() {
        return open_package(path, options);
    }
    if options.verify_key.is_some() {
        return Err(RecipeError::new("--verify-key is for packages (.hearth): remove it, or give a package"));
    }
    open_family(path, Family::of(path, options.weights.is_some()), options, None)
}

fn open_package(path: &Path, options: &OpenOptions) -> Outcome<Box<dyn Model>> {
    let package = package(path, options.verify_key.as_deref())?;
    let Some(unpacked) = unpacked(&package)? else {
        options.check(Family::Run)?;
        return Ok(Box::new(RunModel::new(Trained::open_package(&package, options.opening())?)));
    };
    let folder = unpacked.path().to_owned();
    open_family(&folder, Family::of(&folder, false), options, Some(unpacked))
}

/// Opens a package, and checks that it is signed with the key, if one is given.
///
/// # Errors
/// A damaged package, or one not signed with the key.
pub fn package(path: &Path, key: Option<&Path>) -> Outcome<Package> {
    let package = Package::open(path)?;
    if let Some(key) = key {
        package.check_signature(&PublicKey::open(key).while_doing(|| "--verify-key".to_owned())?)?;
    } else if let Some(by) = &package.manifest().signed_by {
        notice!(
            "{}: signed by the key {by}; --verify-key FILE takes only packages of a key that you know",
            path.display()
        );
    }
    Ok(package)
}

fn open_family(
    path: &Path,
    family: Family,
    options: &OpenOptions,
    unpacked: Option<Unpacked>,
) -> Outcome<Box<dyn Model>> {
    options.check(family)?;
    accepted(&options.accept).map_err(|what| RecipeError::new(format!("--accept: {what}")))?;
    // Those of this program have it in their recipe.
    if let Some(word) = options.convolutions.as_ref().filter(|_| !RUNS.contains(&family)) {
        set_convolutions(word, &options.device).while_doing(|| "--convolutions".to_owned())?;
    }
    Ok(match family {
        Family::Run => Box::new(RunModel::new(open_trained(path, options)?)),
        Family::Recipe => Box::new(RunModel::new(open_recipe(path, options)?)),
        Family::Nnunet => {
            let mut folders = vec![lone_model(path).unwrap_or_else(|| path.to_owned())];
            for folder in &options.with {
                let Some(model) = lone_model(folder) else {
                    let what = "expected plans.json, dataset.json and fold_0 in it";
                    return Err(RecipeError::new(format!(
                        "--with {} is no model of nnU-Net: {what}",
                        folder.display()
                    )));
                };
                folders.push(model);
            }
            let ensemble = NnunetEnsemble::open(&folders, &options.nnunet()?)?;
            let model = NnunetModel::new(ensemble, options.previous_stage.clone(), unpacked)?;
            Box::new(model.accepting(&options.accept))
        }
        Family::Total => {
            let given = TotalOptions {
                subset: options.roi_subset.clone(),
                step: options.step_size,
                task: options.task.clone(),
                variant: options.variant.clone(),
                models: options.nnunet()?,
                ..TotalOptions::default()
            };
            Box::new(TotalModel::new(TotalSegmentator::open(path, &given)?, unpacked).accepting(&options.accept))
        }
        Family::Ensemble => {
            let mut merged = PackedEnsemble::open(path, &options.opening())?;
            // The networks are in memory, so the unpacked folder is no longer needed.
            if let Some(unpacked) = &unpacked {
                merged.labels = unpacked.labels().to_vec();
            }
            Box::new(RunModel::new(merged))
        }
        Family::Bundle => Box::new(BundleModel::open(path, options, unpacked)?),
    })
}

fn set_convolutions(word: &str, device: &str) -> Outcome {
    let word: ConvolutionsWord = word.parse().map_err(RecipeError::from_error)?;
    let device = device::parse(device).map_err(RecipeError::from_error)?;
    word.set(&device).map_err(RecipeError::from_error)
}

fn open_trained(path: &Path, options: &OpenOptions) -> Outcome<Trained> {
    if path.is_file() && path.extension().is_some_and(|end| end == "toml") {
        let what = "is a recipe, which has no weights: add --weights FILE.safetensors, or give a run";
        return Err(RecipeError::new(format!("{} {what}", path.display())));
    }
    if !path.join("recipe.toml").is_file()
        && let Some(what) = near_model(path)
    {
        return Err(RecipeError::new(format!("{} {what}", path.display())));
    }
    Trained::open_with(&open_run(path)?, options.opening())
}

fn open_recipe(path: &Path, options: &OpenOptions) -> Outcome<Trained> {
    if (path.is_dir() && is_model(path)) || Package::is_one(path) {
        let what = "has weights of its own; --weights are for a recipe: remove it, or give the recipe";
        return Err(RecipeError::new(format!("{} {what}", path.display())));
    }
    let Some(weights) = &options.weights else {
        return Err(RecipeError::new("a recipe has no weights: add --weights FILE.safetensors"));
    };
    if options.checkpoint.is_some() {
        return Err(RecipeError::new("--checkpoint names one of a run; --weights is a file: give one of them"));
    }
    let name = path.to_str().ok_or_else(|| {
        let advice = "rename it, or give another one";
        let what = "this path is not UTF-8, which recipes and plugins cannot take";
        RecipeError::new(format!("the recipe {}: {what}; {advice}", path.display()))
    })?;
    Trained::open_recipe(bundled::open(name)?, weights, options.opening())
}
