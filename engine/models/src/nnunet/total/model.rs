//! The model folders below a folder, and the facts in their files.

use std::path::{Path, PathBuf};

use hearth_nnunet::total::{Match, Modality, ModelFacts, matches};
use hearth_nnunet::{Axes3, Configuration, ModelFolder, NetworkClass, Scheme};

use hearth_recipe::Outcome;

/// A model folder.
pub(crate) struct Model {
    pub path: PathBuf,
    /// The labels without background, and their names.
    pub classes: Vec<(u16, String)>,
    /// Whether its labels can be merged with those of others: one channel, no regions.
    pub merges: bool,
    /// Whether its network is a residual one, as in TotalSegmentator's small models.
    pub residual: bool,
    pub modality: Modality,
    /// The places in the table of tasks.
    pub found: Vec<Match>,
}

impl Model {
    /// Reads the model's plans and data set.
    fn open(path: PathBuf) -> Outcome<Self> {
        let folder = ModelFolder::open(&path)?;
        let labels = &folder.dataset.labels;
        let heads = labels.heads.iter().skip(usize::from(!labels.has_regions()));
        let classes: Vec<(u16, String)> =
            heads.filter_map(|(name, labels)| Some((*labels.first()?, name.clone()))).collect();
        let configuration = configuration(&folder);
        let ct = |configuration: &Configuration| configuration.normalization_schemes.first() == Some(&Scheme::Ct);
        let is_ct = configuration.as_ref().is_some_and(ct);
        let modality = if is_ct { Modality::Ct } else { Modality::Mr };
        let merges = !labels.has_regions() && folder.dataset.channel_names.len() == 1;
        let facts = ModelFacts {
            datasets: [folder.plans.dataset_name.clone()].into_iter().chain(name(path.parent())).collect(),
            labels: classes.iter().map(|(_, name)| name.clone()).collect(),
            voxels: configuration.as_ref().and_then(|found| voxels(&folder, found)),
            modality,
        };
        let residual = configuration.is_some_and(|found| found.architecture.class == NetworkClass::ResidualEncoderUNet);
        let found = if merges { matches(&facts) } else { Vec::new() };
        Ok(Model { path, classes, merges, residual, modality, found })
    }

    /// Whether the folder's name has this trainer and this configuration.
    pub fn is_of(&self, trainer: &str, configuration: &str) -> bool {
        let name = name(Some(&self.path)).unwrap_or_default();
        let mut parts = name.split("__");
        parts.next() == Some(trainer) && parts.nth(1) == Some(configuration)
    }
}

/// The models below a folder, in order.
///
/// # Errors
/// Unusable files.
pub(crate) fn models(path: &Path) -> Outcome<Vec<Model>> {
    let mut folders = Vec::new();
    models_below(path, 1, &mut folders);
    folders.into_iter().map(Model::open).collect()
}

/// The model folders below a folder, at most three levels deep, in order.
pub(crate) fn models_below(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_unstable();
    for folder in folders {
        if ModelFolder::is_one(&folder) {
            found.push(folder);
        } else if depth > 0 {
            models_below(&folder, depth - 1, found);
        }
    }
}

/// The folder of an nnU-Net model: the folder itself, or the only model below it, as in an archive of
/// nnU-Net (`Dataset004_Hippocampus/nnUNetTrainer__nnUNetPlans__3d_fullres`). A model of a task of
/// TotalSegmentator, recognised by its labels, belongs to the folder of the task instead.
pub(crate) fn lone_model(path: &Path) -> Option<PathBuf> {
    if ModelFolder::is_one(path) {
        return Some(path.to_owned());
    }
    let mut found = Vec::new();
    models_below(path, 1, &mut found);
    match &found[..] {
        // An unusable model is reported when it is opened for prediction.
        [one] if Model::open(one.clone()).is_ok_and(|model| !model.found.is_empty()) => None,
        [one] => Some(one.clone()),
        _ => None,
    }
}

fn name(path: Option<&Path>) -> Option<String> {
    Some(path?.file_name()?.to_string_lossy().into_owned())
}

/// The configuration in the folder's name, or the only one of its plans. An unusable one is
/// reported when the model is opened for prediction.
fn configuration(folder: &ModelFolder) -> Option<Configuration> {
    let named = name(Some(&folder.path)).unwrap_or_default();
    let named = named.rsplit("__").next().filter(|named| folder.plans.names().any(|known| known == *named));
    let mut all = folder.plans.names();
    let only = all.next().filter(|_| all.next().is_none());
    folder.plans.configuration(named.or(only)?).ok()
}

/// The voxel size of a 3-D configuration in the axes of images.
fn voxels(folder: &ModelFolder, configuration: &Configuration) -> Option<Axes3<f64>> {
    let spacing = Axes3::try_from(configuration.spacing.as_slice()).ok()?;
    Some(folder.plans.transpose_backward.map(|axis| spacing[axis]))
}
