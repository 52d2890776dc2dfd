//! A local store of trained models: folders that `hearth predict` takes by name.
//!
//! A model is copied into the store with the BLAKE3 hash of each file. Nothing is downloaded, no
//! code of the model runs, links are rejected, and a model appears only when it is complete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hearth_bundle::Bundle;
use hearth_files::Scratch;
use hearth_nnunet::{DatasetJson, ModelFolder};
use hearth_package::{END, Kind, MODEL, Package};
use hearth_plugin_host::user_data;
use hearth_registry::unknown;
use serde::{Deserialize, Serialize};

use crate::nnunet::TotalSegmentator;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::choose;
use hearth_run::folders::open_run;

/// The environment variable with the store's folder.
pub const VARIABLE: &str = "HEARTH_MODELS";

/// The file that describes a model.
const MANIFEST: &str = "hearth-model.json";

/// The limits of a model: number of files, depth of folders, and bytes.
const MAX_FILES: usize = 100_000;
const MAX_DEPTH: usize = 16;
const MAX_BYTES: u64 = 1 << 38;

/// The kind of a stored model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// A trained model of nnU-Net v2.
    Nnunet,
    /// A folder of several nnU-Net models, as in TotalSegmentator.
    NnunetSet,
    /// A run of `hearth train`.
    Run,
    /// A package of a run, or of an ensemble of runs.
    Package,
    /// A bundle of MONAI.
    Bundle,
}

/// A file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// The size in bytes.
    pub bytes: u64,
    /// The BLAKE3 hash, in hexadecimal digits.
    pub blake3: String,
}

/// A model of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredModel {
    /// The name in the store.
    #[serde(skip)]
    pub name: String,
    /// The folder.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The kind of the model.
    pub kind: ModelKind,
    /// The subfolder that predicts, if it is not the whole folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<PathBuf>,
    /// The source from which it was added.
    pub source: String,
    /// The time of adding in seconds since 1970.
    pub added: u64,
    /// Files with a licence, and the licence in `dataset.json`.
    pub licences: Vec<String>,
    /// All files, by their paths with `/`.
    pub files: BTreeMap<String, StoredFile>,
}

impl StoredModel {
    /// The folder, or the package, that `hearth predict` takes.
    pub fn path(&self) -> PathBuf {
        self.inner.as_ref().map_or_else(|| self.folder.clone(), |inner| self.folder.join(inner))
    }

    /// The number of bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    /// The files that are missing or whose hashes have changed since they were added.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn changed(&self) -> Outcome<Vec<String>> {
        let mut changed = Vec::new();
        for (name, expected) in &self.files {
            let path = self.folder.join(name);
            if !path.is_file() || digest(&path, &mut io::sink())? != *expected {
                changed.push(name.clone());
            }
        }
        Ok(changed)
    }
}

/// A folder of models.
#[derive(Clone, Debug)]
pub struct ModelStore {
    root: PathBuf,
}

impl ModelStore {
    /// Opens the given folder, that of the variable `HEARTH_MODELS`, or the user's data folder.
    ///
    /// # Errors
    /// None of these folders is known.
    pub fn open(given: Option<&Path>) -> Outcome<Self> {
        let variable = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let root = given.map(Path::to_owned).or_else(variable).or_else(|| user_data("models"));
        let none = || RecipeError::new(format!("there is no folder for models: set the variable {VARIABLE}"));
        Ok(ModelStore { root: root.ok_or_else(none)? })
    }

    /// The folder of the store, which may not exist yet.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Copies a folder into the store. `source` is recorded as its origin.
    ///
    /// # Errors
    /// A folder that is not a model, has links, or exceeds the limits; a run whose best checkpoint is
    /// damaged; a name that is taken or invalid.
    pub fn add(&self, folder: &Path, name: &str, source: &str) -> Outcome<StoredModel> {
        let (kind, inner) = kind_of(folder)?;
        let found = files_of(folder)?;
        if kind == ModelKind::Run {
            // Damage is found while the run that was copied still exists.
            let run = open_run(&inner.as_ref().map_or_else(|| folder.to_owned(), |inner| folder.join(inner)))?;
            choose(&run, "best")?;
        }
        self.place(name, source, &|_| Ok(Model { kind, inner: inner.clone(), files: from(folder, &found) }))
    }

    /// Copies a package into the store: a package of runs as one file, a model folder unpacked. The
    /// hashes of all its members are checked.
    ///
    /// # Errors
    /// A damaged package, or a name that is taken or invalid.
    pub fn add_package(&self, package: &Package, name: &str, source: &str) -> Outcome<StoredModel> {
        package.check()?;
        let path = package.path();
        self.place(name, source, &|beside| match package.manifest().kind {
            Kind::Run | Kind::Ensemble => {
                let bytes = fs::metadata(path).while_doing(|| format!("cannot read {}", path.display()))?.len();
                let name = PathBuf::from(format!("model.{END}"));
                let files = vec![(path.to_owned(), name.clone(), bytes)];
                Ok(Model { kind: ModelKind::Package, inner: Some(name), files })
            }
            Kind::Nnunet | Kind::Bundle => {
                let into = beside.join(MODEL);
                package.unpack_model(&into)?;
                let (kind, inner) = kind_of(&into)?;
                Ok(Model { kind, inner, files: from(&into, &files_of(&into)?) })
            }
        })
    }

    /// Copies the files of a model into its own folder. Some are first created in a temporary
    /// folder next to it.
    fn place(&self, name: &str, source: &str, model: &dyn Fn(&Path) -> Outcome<Model>) -> Outcome<StoredModel> {
        check_name(name)?;
        let target = self.root.join(name);
        if target.symlink_metadata().is_ok() {
            let what = "is in the store already; remove it first (hearth models remove), or give another --name";
            return Err(RecipeError::new(format!("{name} {what}")));
        }
        let making = |path: &Path| format!("cannot make the folder {}", path.display());
        fs::create_dir_all(&self.root).while_doing(|| making(&self.root))?;
        // What a killed process left in the store is removed by the way.
        let made = Scratch::new_in(&self.root, ".making-").while_doing(|| making(&self.root))?;
        let Model { kind, inner, files: mut found } = model(made.path())?;
        // Skips the manifest of another store.
        found.retain(|(_, path, _)| path != Path::new(MANIFEST));
        let total: u64 = found.iter().map(|(.., bytes)| bytes).sum();
        if total > MAX_BYTES {
            return Err(RecipeError::new(format!("{source} has {total} bytes; the limit is {MAX_BYTES}")));
        }
        let beside = Scratch::new_in(&self.root, ".adding-").while_doing(|| making(&self.root))?;
        let mut files = BTreeMap::new();
        for (from, path, _) in &found {
            let copy = beside.path().join(path);
            if let Some(parent) = copy.parent() {
                fs::create_dir_all(parent).while_doing(|| making(parent))?;
            }
            let mut out = File::create_new(&copy).while_doing(|| format!("cannot write {}", copy.display()))?;
            files.insert(slashes(path), digest(from, &mut out)?);
            out.sync_all().while_doing(|| format!("cannot write {}", copy.display()))?;
        }
        let added = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let licences = match (kind, &inner) {
            (ModelKind::Package, Some(inner)) => of_package(&Package::open(&beside.path().join(inner))?),
            _ => licences(beside.path(), &found),
        };
        let name = name.to_owned();
        let source = source.to_owned();
        let model = StoredModel { name, folder: target.clone(), kind, inner, source, added, licences, files };
        hearth_run::folders::replace(&beside.path().join(MANIFEST), serde_json::to_string_pretty(&model)? + "\n")?;
        beside.keep_as(&target).while_doing(|| format!("cannot write {}", target.display()))?;
        Ok(model)
    }

    /// All models, by name.
    ///
    /// # Errors
    /// A store that cannot be read.
    pub fn all(&self) -> Outcome<Vec<StoredModel>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.while_doing(|| format!("cannot read the folder {}", self.root.display()))?,
        };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| self.root.join(name).join(MANIFEST).is_file()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort_unstable();
        names.iter().map(|name| self.get(name)).collect()
    }

    /// One model.
    ///
    /// # Errors
    /// An unknown name, or a damaged manifest.
    pub fn get(&self, name: &str) -> Outcome<StoredModel> {
        check_name(name)?;
        let folder = self.root.join(name);
        let manifest = folder.join(MANIFEST);
        if !manifest.is_file() {
            let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
            let known: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).filter(|name| !name.starts_with('.')).collect();
            if known.is_empty() {
                let what = "add one by hearth models add";
                return Err(RecipeError::new(format!(
                    "there is no model in the store {}: {what}",
                    self.root.display()
                )));
            }
            return Err(RecipeError::new(unknown("model", name, &known)));
        }
        let doing = || format!("cannot read {}", manifest.display());
        let text = hearth_files::read_to_string(&manifest).while_doing(doing)?;
        let mut model: StoredModel = serde_json::from_str(&text).while_doing(doing)?;
        let leads_out = |path: &Path| !path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if model.inner.as_deref().is_some_and(leads_out) || model.files.keys().any(|name| leads_out(Path::new(name))) {
            return Err(RecipeError::new("it names a file out of its folder").context(doing()));
        }
        (model.name, model.folder) = (name.to_owned(), folder);
        Ok(model)
    }

    /// Removes a model.
    ///
    /// # Errors
    /// An unknown name, or files that cannot be removed.
    pub fn remove(&self, name: &str) -> Outcome<StoredModel> {
        let model = self.get(name)?;
        let is_link = model.folder.symlink_metadata().is_ok_and(|facts| facts.file_type().is_symlink());
        if is_link {
            return Err(RecipeError::new(format!("{} is a link: remove it yourself", model.folder.display())));
        }
        fs::remove_dir_all(&model.folder).while_doing(|| format!("cannot remove {}", model.folder.display()))?;
        Ok(model)
    }
}

/// A model to be stored.
struct Model {
    kind: ModelKind,
    inner: Option<PathBuf>,
    /// The files: source path, path in the store, size.
    files: Vec<(PathBuf, PathBuf, u64)>,
}

fn from(folder: &Path, found: &[(PathBuf, u64)]) -> Vec<(PathBuf, PathBuf, u64)> {
    found.iter().map(|(path, bytes)| (folder.join(path), path.clone(), *bytes)).collect()
}

fn check_name(name: &str) -> Outcome {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(allowed) {
        return Ok(());
    }
    let what = "expected letters, digits, dots, dashes and underscores, at most 100, no dot first";
    Err(RecipeError::new(format!("{name:?} cannot be the name of a model: {what}")))
}

fn is_run(folder: &Path) -> bool {
    folder.join("recipe.toml").is_file() && folder.join("checkpoints").is_dir()
}

/// The kind of a folder, and the subfolder that predicts.
pub(crate) fn kind_of(folder: &Path) -> Outcome<(ModelKind, Option<PathBuf>)> {
    if !folder.is_dir() {
        return Err(RecipeError::new(format!("{} is not a folder", folder.display())));
    }
    if is_run(folder) {
        return Ok((ModelKind::Run, None));
    }
    if ModelFolder::is_one(folder) {
        return Ok((ModelKind::Nnunet, None));
    }
    if Bundle::is_one(folder) {
        return Ok((ModelKind::Bundle, None));
    }
    let mut inside = Vec::new();
    crate::nnunet::models_below(folder, 1, &mut inside);
    // A zip of a run or a bundle contains its folder.
    let only = |fits: fn(&Path) -> bool| {
        let below = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut below = below.filter(|path| fits(path));
        below.next().filter(|_| below.next().is_none())?.strip_prefix(folder).ok().map(Path::to_owned)
    };
    match &inside[..] {
        [] if let Some(run) = only(is_run) => Ok((ModelKind::Run, Some(run))),
        [] if let Some(bundle) = only(Bundle::is_one) => Ok((ModelKind::Bundle, Some(bundle))),
        [] => {
            let what = "is no model: expected a run of hearth train (recipe.toml, checkpoints), a model of nnU-Net \
                        (plans.json, dataset.json, fold_0), a MONAI bundle (configs), or a folder of these";
            Err(RecipeError::new(format!("{} {what}", folder.display())))
        }
        // A model of a task of TotalSegmentator has the labels and the processing of its task.
        [one] if !TotalSegmentator::is_one(folder) => {
            Ok((ModelKind::Nnunet, one.strip_prefix(folder).ok().map(Path::to_owned)))
        }
        _ => Ok((ModelKind::NnunetSet, None)),
    }
}

/// The files of a folder, by their paths in it, with their sizes.
pub(crate) fn files_of(folder: &Path) -> Outcome<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    list(folder, Path::new(""), 0, &mut found)?;
    Ok(found)
}

fn list(root: &Path, at: &Path, depth: usize, found: &mut Vec<(PathBuf, u64)>) -> Outcome {
    let folder = root.join(at);
    if depth > MAX_DEPTH {
        return Err(RecipeError::new(format!("{} lies deeper than {MAX_DEPTH} folders", folder.display())));
    }
    let entries = fs::read_dir(&folder).while_doing(|| format!("cannot read the folder {}", folder.display()))?;
    for entry in entries {
        let entry = entry.while_doing(|| format!("cannot read the folder {}", folder.display()))?;
        let (path, name) = (entry.path(), at.join(entry.file_name()));
        let facts = path.symlink_metadata().while_doing(|| format!("cannot read {}", path.display()))?;
        if facts.is_dir() {
            list(root, &name, depth + 1, found)?;
        } else if facts.is_file() {
            if name.to_str().is_none() {
                return Err(RecipeError::new(format!("{} is not a readable name", path.display())));
            }
            found.push((name, facts.len()));
        } else {
            let what = "is a link or a device; a model has only files and folders";
            return Err(RecipeError::new(format!("{} {what}", path.display())));
        }
        if found.len() > MAX_FILES {
            return Err(RecipeError::new(format!("{} has more than {MAX_FILES} files", root.display())));
        }
    }
    Ok(())
}

/// A relative path with `/` between its parts.
pub(crate) fn slashes(path: &Path) -> String {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    parts.join("/")
}

/// Copies a file, and computes its size and hash.
fn digest(path: &Path, out: &mut impl Write) -> Outcome<StoredFile> {
    let doing = || format!("cannot read {}", path.display());
    let mut file = hearth_files::open(path).while_doing(doing)?;
    let (mut hasher, mut buffer, mut bytes) = (blake3::Hasher::new(), vec![0; 1 << 17], 0);
    loop {
        let read = file.read(&mut buffer).while_doing(doing)?;
        if read == 0 {
            return Ok(StoredFile { bytes, blake3: hasher.finalize().to_hex().to_string() });
        }
        hasher.update(&buffer[..read]);
        out.write_all(&buffer[..read]).while_doing(|| format!("cannot copy {}", path.display()))?;
        bytes += read as u64;
    }
}

/// Files with a licence, and the licences in the models' data sets.
fn licences(root: &Path, found: &[(PathBuf, PathBuf, u64)]) -> Vec<String> {
    let mut out = Vec::new();
    for (_, path, _) in found {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if ["license", "licence", "copying"].iter().any(|start| name.starts_with(start)) {
            out.push(slashes(path));
        }
        let dataset = (name == "dataset.json").then(|| DatasetJson::read(&root.join(path)).ok()).flatten();
        if let Some(dataset) = dataset {
            let said = ["licence", "license"].iter().find_map(|key| dataset.raw.get(key)?.as_str());
            out.extend(said.map(|said| format!("{}: {said}", slashes(path))));
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// The licences in a package.
fn of_package(package: &Package) -> Vec<String> {
    package.facts().licence.iter().cloned().chain(package.licences().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(folder: &Path) {
        fs::create_dir_all(folder.join("fold_0")).expect("a folder");
        fs::write(folder.join("plans.json"), "{}").expect("written");
        let dataset = r#"{"channel_names": {"0": "CT"}, "labels": {"background": 0, "a": 1}, "file_ending": ".nii",
            "licence": "CC-BY-4.0"}"#;
        fs::write(folder.join("dataset.json"), dataset).expect("written");
        fs::write(folder.join("fold_0/checkpoint_final.pth"), "weights").expect("written");
    }

    #[test]
    fn models_are_added_listed_checked_and_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, store) = (dir.path().join("Dataset001/model"), dir.path().join("store"));
        model(&folder);
        let store = ModelStore::open(Some(&store)).expect("a store");
        assert!(store.all().expect("none").is_empty());
        assert!(store.get("liver").expect_err("none").to_string().contains("hearth models add"));
        let added = store.add(&folder, "liver", "a zip").expect("added");
        assert_eq!((added.kind, added.files.len(), added.path()), (ModelKind::Nnunet, 3, store.root().join("liver")));
        assert_eq!(added.licences, ["dataset.json: CC-BY-4.0"]);
        let error = store.add(&folder, "liver", "").expect_err("taken").to_string();
        assert!(error.contains("hearth models remove"), "{error}");
        // The parent contains the model.
        let nested = store.add(dir.path().join("Dataset001").as_path(), "nested", "").expect("added");
        assert_eq!(nested.path(), store.root().join("nested/model"));
        let names: Vec<String> = store.all().expect("two").into_iter().map(|model| model.name).collect();
        assert_eq!(names, ["liver", "nested"]);
        let liver = store.get("liver").expect("a model");
        assert!(liver.changed().expect("read").is_empty());
        fs::write(liver.folder.join("fold_0/checkpoint_final.pth"), "other").expect("written");
        assert_eq!(liver.changed().expect("read"), ["fold_0/checkpoint_final.pth"]);
        store.remove("liver").expect("removed");
        let error = store.get("liverr").expect_err("unknown").to_string();
        assert!(error.contains("nested") && !store.root().join("liver").exists(), "{error}");
    }

    #[test]
    fn the_bundle_in_a_folder_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let (zip, store) =
            (dir.path().join("zip"), ModelStore::open(Some(&dir.path().join("store"))).expect("a store"));
        fs::create_dir_all(zip.join("spleen/configs")).expect("a folder");
        fs::write(zip.join("spleen/configs/inference.json"), "{}").expect("written");
        fs::write(zip.join("spleen/LICENSE"), "Apache-2.0").expect("written");
        let added = store.add(&zip, "spleen", "a zip").expect("added");
        assert_eq!((added.kind, added.path()), (ModelKind::Bundle, store.root().join("spleen/spleen")));
        assert_eq!(added.licences, ["spleen/LICENSE"]);
    }

    #[test]
    fn what_is_no_model_is_refused_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, store) = (dir.path().join("model"), dir.path().join("store"));
        model(&folder);
        let store = ModelStore::open(Some(&store)).expect("a store");
        for name in ["", "..", "a/b", ".hidden", "a b"] {
            let error = store.add(&folder, name, "").expect_err("refused").to_string();
            assert!(error.contains("cannot be the name"), "{name}: {error}");
        }
        let error = store.add(&folder.join("fold_0"), "x", "").expect_err("refused").to_string();
        assert!(error.contains("plans.json"), "{error}");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/etc/hostname", folder.join("link")).expect("a link");
            let error = store.add(&folder, "x", "").expect_err("refused").to_string();
            assert!(error.contains("a link"), "{error}");
        }
        assert!(!store.root().exists(), "nothing is made");
    }

    #[test]
    fn a_manifest_cannot_lead_out_of_its_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = ModelStore::open(Some(dir.path())).expect("a store");
        fs::create_dir(dir.path().join("bad")).expect("a folder");
        let text = r#"{"kind": "nnunet", "inner": "../../etc", "source": "", "added": 0, "licences": [], "files": {}}"#;
        fs::write(dir.path().join("bad").join(MANIFEST), text).expect("written");
        assert!(store.get("bad").expect_err("refused").line().contains("out of its folder"));
    }
}
