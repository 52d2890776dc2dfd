//! Writes runs and model folders as packages: [`write()`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_data::dicom::write::{Code, Coding, known_coding};
use hearth_data::writers::coding_of;
use hearth_files::Scratch;
use hearth_nnunet::DatasetJson;
use hearth_package::{
    self as format, Builder, END, Facts, Kind, Label, MODEL, Manifest, Package, RECIPE, SigningKey, Term, WEIGHTS,
};
use hearth_pictures::colours::of_class;
use serde_json::Value;

use crate::bundle::{self, BundleModel};
use crate::ensemble::Merging;
use crate::ensemble::packed::{LIST, PackedEnsemble};
use crate::model::{Card, ClassLabel, Model};
use crate::nnunet::{TotalModel, TotalOptions, TotalSegmentator};
use crate::open::{Family, OpenOptions};
use crate::store::{ModelKind, files_of, kind_of, slashes};
use crate::writers::check_codes;
use hearth_recipe::recipe::{Document, Output, Recipe};
use hearth_recipe::warning;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::FINGERPRINT;
use hearth_run::folders::open_run;
use hearth_run::{choose, name_of};

/// The options of a package.
#[derive(Debug, Default)]
pub struct PackageOptions {
    /// `best`, `latest` or the name of a checkpoint's folder.
    pub checkpoint: String,
    /// The codes of labels by name, used before the words of their names are looked up.
    pub codes: BTreeMap<String, Coding>,
    /// The file with the licence's text.
    pub licence: Option<PathBuf>,
    /// `title`, `description`, `author`, `version`, `licence` (its short name), and any other facts.
    pub about: Vec<(String, String)>,
    /// The key that signs the package.
    pub key: Option<SigningKey>,
}

/// Writes a run, a folder of trained nnU-Net v2 models, or a MONAI bundle as one file. The same
/// model makes the same bytes.
///
/// # Errors
/// A folder that is not a model, a missing or damaged checkpoint, or files that cannot be read or
/// written.
pub fn write(model: &Path, out: &Path, options: &PackageOptions) -> Outcome<Manifest> {
    let doing = || format!("cannot export {}", model.display());
    if Package::is_one(model) {
        return Err(RecipeError::new(format!("{} is a package already", model.display())).context(doing()));
    }
    let family = Family::of(model, false);
    if matches!(family, Family::Bundle | Family::Total) {
        no_checkpoint(options).while_doing(doing)?;
    }
    if family == Family::Total {
        return finish(of_total(model, options).while_doing(doing)?, out, options);
    }
    if family == Family::Bundle {
        // The folder of an unpacked zip exists until its files are in the package.
        let opened = bundle::open(model).while_doing(doing)?;
        return finish(of_bundle(opened.bundle.root(), options).while_doing(doing)?, out, options);
    }
    let (kind, inner) = kind_of(model).while_doing(doing)?;
    let folder = inner.map_or_else(|| model.to_owned(), |inner| model.join(inner));
    if kind != ModelKind::Run {
        no_checkpoint(options).while_doing(doing)?;
    }
    let made = match kind {
        ModelKind::Run => of_run(&folder, options),
        ModelKind::Nnunet | ModelKind::NnunetSet => of_nnunet(&folder, options),
        ModelKind::Bundle => of_bundle(&folder, options),
        ModelKind::Package => Err(RecipeError::new(format!("{} is a package already", model.display()))),
    };
    finish(made.while_doing(doing)?, out, options)
}

/// Writes the runs of an ensemble as one file: a package of each, and their merging.
///
/// # Errors
/// Same as [`write()`], or runs that cannot be merged, as in
/// [`Trained::merged`](crate::run::Trained::merged).
pub fn write_ensemble(runs: &[PathBuf], merging: &Merging, out: &Path, options: &PackageOptions) -> Outcome<Manifest> {
    let doing = || "cannot make a temporary folder for the packages of the runs (TMPDIR)".to_owned();
    let folder = Scratch::new("hearth-ensemble-").while_doing(doing)?;
    let alone = PackageOptions { checkpoint: options.checkpoint.clone(), ..<_>::default() };
    let mut members = Vec::with_capacity(runs.len());
    for (place, run) in runs.iter().enumerate() {
        let name = format!("run{place}.{END}");
        let path = folder.path().join(&name);
        match Package::is_one(run) {
            true => {
                std::fs::copy(run, &path).while_doing(|| format!("cannot copy {}", run.display()))?;
            }
            false => {
                write(run, &path, &alone)?;
            }
        }
        members.push(name);
    }
    let first = Package::open(&folder.path().join(format!("run0.{END}")))?;
    if !options.codes.is_empty() {
        check_codes_of(&recipe_in(&first)?, &options.codes)?;
    }
    let mut facts = Facts::new(format!("{}, {} runs", first.facts().title, runs.len()));
    facts.modalities.clone_from(&first.facts().modalities);
    tell(&mut facts, &options.about);
    let mut labels = first.labels().to_vec();
    for label in labels.iter_mut().filter(|label| coding_of(&options.codes, &label.name).is_some()) {
        label.term = term_of(&options.codes, &label.name);
    }
    check_labels(&options.codes, &labels)?;
    let mut builder = Builder::new(Kind::Ensemble, facts, program()).labels(labels);
    for name in &members {
        builder = builder.file(format!("{MODEL}/{name}"), folder.path().join(name));
    }
    let list = PackedEnsemble { members, merge: merging.how, weights: merging.weights.clone() };
    let text = serde_json::to_string_pretty(&list).map_err(RecipeError::from_error)? + "\n";
    finish(builder.bytes(format!("{MODEL}/{LIST}"), text), out, options)
}

/// Rejects the name of a checkpoint for models without a choice of checkpoints.
fn no_checkpoint(options: &PackageOptions) -> Outcome {
    if ["", "best"].contains(&options.checkpoint.as_str()) {
        return Ok(());
    }
    let what = "is for runs; all weights of this model are packed: remove it";
    Err(RecipeError::new(format!("--checkpoint {} {what}", options.checkpoint)))
}

fn finish(mut builder: Builder, out: &Path, options: &PackageOptions) -> Outcome<Manifest> {
    if let Some(path) = &options.licence {
        builder = builder.file("LICENCE", path);
    }
    Ok(builder.write(out, options.key.as_ref())?)
}

fn program() -> String {
    format!("hearth {}", env!("CARGO_PKG_VERSION"))
}

/// Adds the facts that the user gives.
fn tell(facts: &mut Facts, about: &[(String, String)]) {
    for (key, value) in about {
        let value = value.clone();
        match key.as_str() {
            "title" => facts.title = value,
            "description" => facts.description = Some(value),
            "author" => facts.authors.push(value),
            "version" => facts.version = Some(value),
            "licence" | "license" => facts.licence = Some(value),
            other => {
                facts.more.insert(other.to_owned(), value);
            }
        }
    }
}

/// Whether the labels of a package are those of a map, which have coded terms.
pub fn has_terms(package: &Package) -> bool {
    package.manifest().kind != Kind::Run || recipe_in(package).is_ok_and(|recipe| recipe.output().is_map())
}

fn recipe_in(package: &Package) -> Outcome<Recipe> {
    let text = package.read(RECIPE)?;
    Ok(Recipe::read(&Document::parse(RECIPE, String::from_utf8_lossy(&text).as_ref())?)?)
}

/// Rejects codes for a recipe whose labels are in no DICOM file.
fn check_codes_of(recipe: &Recipe, codes: &BTreeMap<String, Coding>) -> Outcome {
    if codes.is_empty() || recipe.output().is_map() {
        return Ok(());
    }
    Err(RecipeError::new("--codes are those of labels in DICOM files, and this run predicts none: remove it"))
}

/// Checks that the table of codes is one of these labels.
fn check_labels(codes: &BTreeMap<String, Coding>, labels: &[Label]) -> Outcome {
    check_codes(codes, &labels.iter().map(|label| label.name.as_str()).collect::<Vec<_>>())
}

/// The term of a label from the table, or else from the words of its name.
fn term_of(codes: &BTreeMap<String, Coding>, name: &str) -> Option<Term> {
    let code = |code: Code| format::Code { scheme: code.scheme, value: code.value, meaning: code.meaning };
    let Coding { category, kind, site, side } = coding_of(codes, name).or_else(|| known_coding(name))?;
    Some(Term { category: code(category), kind: code(kind), site: site.map(code), side: side.map(code) })
}

/// The codes of a package's labels, by name.
pub fn codes_of(labels: &[Label]) -> BTreeMap<String, Coding> {
    let code = |code: &format::Code| Code::new(&code.value, &code.scheme, &code.meaning);
    let coding = |label: &Label| {
        let Term { category, kind, site, side } = label.term.as_ref()?;
        let [site, side] = [site, side].map(|of| of.as_ref().map(code));
        Some((label.name.clone(), Coding { site, side, ..Coding::new(code(category), code(kind)) }))
    };
    labels.iter().filter_map(coding).collect()
}

/// The model of a package, unpacked into a temporary folder; `None` for a package of a run.
///
/// # Errors
/// A damaged package, or a temporary folder that cannot be made.
pub fn unpacked(package: &Package) -> Outcome<Option<Unpacked>> {
    if package.manifest().kind == Kind::Run {
        return Ok(None);
    }
    let doing = || "cannot make a temporary folder for the model (TMPDIR)".to_owned();
    let folder = Scratch::new("hearth-model-").while_doing(doing)?;
    let path = folder.path().join("model");
    package.unpack_model(&path)?;
    Ok(Some(Unpacked { path, labels: package.labels().to_vec(), _folder: folder }))
}

/// A model folder that is removed on drop.
pub struct Unpacked {
    path: PathBuf,
    labels: Vec<Label>,
    _folder: Scratch,
}

impl Unpacked {
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The labels of the package.
    pub(crate) fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Adds the package's colours and codes to labels by name.
    pub(crate) fn describe(&self, labels: &mut [ClassLabel]) {
        let codes = codes_of(&self.labels);
        for label in labels {
            label.color = self.labels.iter().find(|packed| packed.name == label.name).map(|packed| packed.colour);
            label.coding = codes.get(&label.name).cloned();
        }
    }
}

fn of_run(folder: &Path, options: &PackageOptions) -> Outcome<Builder> {
    let run = open_run(folder)?;
    let path = run.recipe();
    let text = hearth_files::read_to_string(&path).while_doing(|| format!("cannot read {}", path.display()))?;
    let recipe = Recipe::read(&Document::parse(path.display().to_string(), text.as_str())?)?;
    let checkpoint = choose(&run, &options.checkpoint)?;
    let bytes = checkpoint.file(hearth_run::WEIGHTS)?;
    let mut facts = Facts::new(recipe.title());
    facts.modalities.clone_from(&recipe.data.modalities);
    facts.checkpoint = Some(name_of(&checkpoint));
    // The figures of these weights: another epoch of the run may have been better.
    let metrics = checkpoint.metrics()?;
    if let Some((name, value)) =
        checkpoint.manifest.header.key_metric.as_ref().and_then(|key| metrics.get_key_value(key))
        && value.is_finite()
    {
        facts.metrics.insert(name.clone(), *value);
    }
    tell(&mut facts, &options.about);
    let labels = labels(&recipe, &options.codes);
    check_codes_of(&recipe, &options.codes)?;
    check_labels(&options.codes, &labels)?;
    let mut builder = Builder::new(Kind::Run, facts, program()).labels(labels);
    builder = builder.bytes(RECIPE, without_paths(text)?).bytes(WEIGHTS, bytes);
    if let Ok(fingerprint) = hearth_files::read(run.root().join(FINGERPRINT)) {
        builder = builder.bytes(FINGERPRINT, fingerprint);
    }
    Ok(builder)
}

/// A recipe without the paths of the machine where it was trained: of those, only names stay. A plugin is
/// found by its own name.
fn without_paths(text: String) -> Outcome<String> {
    let mut recipe: toml::Table = toml::from_str(&text)?;
    for plugin in recipe.get_mut("plugins").and_then(toml::Value::as_array_mut).into_iter().flatten() {
        plugin.as_table_mut().and_then(|plugin| plugin.remove("path"));
    }
    let before: toml::Table = toml::from_str(&text)?;
    recipe.iter_mut().for_each(|(_, value)| name_paths(value));
    if recipe == before {
        return Ok(text);
    }
    toml::to_string(&recipe).map_err(RecipeError::from_error)
}

/// Replaces absolute paths by their last parts.
fn name_paths(value: &mut toml::Value) {
    match value {
        toml::Value::String(text) if Path::new(&**text).is_absolute() => {
            if let Some(name) = Path::new(&**text).file_name() {
                *text = name.to_string_lossy().into_owned();
            }
        }
        toml::Value::Array(values) => values.iter_mut().for_each(name_paths),
        toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| name_paths(value)),
        _ => {}
    }
}

/// The labels of a recipe's results. Numbers of whole images are not on a map, so they have no term.
fn labels(recipe: &Recipe, codes: &BTreeMap<String, Coding>) -> Vec<Label> {
    let output = recipe.output();
    let first = usize::from(output == Output::Regions);
    let named = |(place, name): (usize, &String)| {
        let value = place + first;
        let mut label = Label::new(value as u32, name, of_class(value));
        let is_background = output == Output::Labels && place == 0;
        if output.is_map() && !is_background {
            label.term = term_of(codes, name);
        }
        label
    };
    recipe.labels.iter().enumerate().map(named).collect()
}

/// The files of a trained model that are packed: weights and facts, without the validation's results.
const NNUNET_FILES: [&str; 8] = [
    "plans.json",
    "dataset.json",
    "dataset_fingerprint.json",
    "checkpoint_final.pth",
    "checkpoint_best.pth",
    "postprocessing.json",
    "postprocessing.pkl",
    "label_map.json",
];

fn of_nnunet(folder: &Path, options: &PackageOptions) -> Outcome<Builder> {
    let name = folder.canonicalize().ok().and_then(|real| Some(real.file_name()?.to_string_lossy().into_owned()));
    let mut facts = Facts::new(name.unwrap_or_else(|| "nnU-Net v2".to_owned()));
    let set = DatasetJson::read(&folder.join("dataset.json")).ok();
    let said = set.as_ref().and_then(|set| ["licence", "license"].iter().find_map(|key| set.raw.get(key)?.as_str()));
    facts.licence = said.map(str::to_owned);
    tell(&mut facts, &options.about);
    let labels = set.map(|set| of_dataset(&set.raw, &options.codes)).unwrap_or_default();
    check_labels(&options.codes, &labels)?;
    add_nnunet(Builder::new(Kind::Nnunet, facts, program()).labels(labels), folder)
}

/// Packs a folder of several models. If options are needed to select the models that predict,
/// labels are not listed.
fn of_total(folder: &Path, options: &PackageOptions) -> Outcome<Builder> {
    let name = folder.canonicalize().ok().and_then(|real| Some(real.file_name()?.to_string_lossy().into_owned()));
    let mut facts = Facts::new(name.unwrap_or_else(|| "models of nnU-Net".to_owned()));
    let labels = match TotalSegmentator::open(folder, &TotalOptions::default()) {
        Ok(total) => {
            let model = TotalModel::new(total, None);
            facts.title.clone_from(&model.card().title);
            facts.modalities.clone_from(&model.card().modalities);
            labels_of(model.card(), &options.codes)?
        }
        Err(error) => {
            warning!("the package does not list its labels, and has no codes of them: {}", error.line());
            Vec::new()
        }
    };
    tell(&mut facts, &options.about);
    add_nnunet(Builder::new(Kind::Nnunet, facts, program()).labels(labels), folder)
}

/// Adds the files of nnU-Net models.
fn add_nnunet(mut builder: Builder, folder: &Path) -> Outcome<Builder> {
    for (path, _) in files_of(folder)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let said = ["license", "licence", "copying", "readme"].iter().any(|start| file.starts_with(start));
        if said || NNUNET_FILES.contains(&file.as_str()) {
            builder = builder.file(format!("{MODEL}/{}", slashes(&path)), folder.join(&path));
        }
    }
    Ok(builder)
}

/// Packs every file of a bundle, because its config may name any of them. The bundle is opened
/// first, so that a package can be run.
fn of_bundle(folder: &Path, options: &PackageOptions) -> Outcome<Builder> {
    let model = BundleModel::open(folder, &OpenOptions::on("cpu"), None)?;
    let card = model.card();
    let mut facts = Facts::new(&card.title);
    facts.modalities.clone_from(&card.modalities);
    tell(&mut facts, &options.about);
    let mut builder = Builder::new(Kind::Bundle, facts, program()).labels(labels_of(card, &options.codes)?);
    for (path, _) in files_of(folder)? {
        builder = builder.file(format!("{MODEL}/{}", slashes(&path)), folder.join(&path));
    }
    Ok(builder)
}

/// The labels of a card, with colours and terms.
fn labels_of(card: &Card, codes: &BTreeMap<String, Coding>) -> Outcome<Vec<Label>> {
    let named = |label: &ClassLabel| Label {
        term: term_of(codes, &label.name),
        ..Label::new(label.value, &label.name, of_class(label.value as usize))
    };
    let labels: Vec<Label> = card.labels.iter().map(named).collect();
    check_labels(codes, &labels)?;
    Ok(labels)
}

/// The labels in a `dataset.json`; for regions the value is their index, from 1.
fn of_dataset(raw: &Value, codes: &BTreeMap<String, Coding>) -> Vec<Label> {
    let known = raw["labels"].as_object().into_iter().flatten();
    let named = |(place, (name, value)): (usize, (&String, &Value))| {
        let value = value.as_u64().map_or(place, |value| value as usize);
        let mut label = Label::new(value as u32, name, of_class(value));
        label.term = term_of(codes, name).filter(|_| value > 0);
        label
    };
    known.enumerate().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_in_a_package_names_no_folder_of_its_machine() {
        let text = "[init]\nweights = \"/home/jane/start.safetensors\"\n[data]\nprevious_stage = \"/data/first\"\n\
                    [[plugins]]\nname = \"mine\"\npath = \"/opt/libmine.so\"\n[[transforms]]\nkeys = [\"a\", \"/b/c\"]\n";
        let kept: toml::Table = toml::from_str(&without_paths(text.to_owned()).expect("TOML")).expect("TOML");
        let expected = "init.weights = \"start.safetensors\"\ndata.previous_stage = \"first\"\n\
                        plugins = [{ name = \"mine\" }]\ntransforms = [{ keys = [\"a\", \"c\"] }]\n";
        assert_eq!(kept, toml::from_str(expected).expect("TOML"));
        let plain = "# As it was written\nepochs   = 3\n";
        assert_eq!(without_paths(plain.to_owned()).expect("TOML"), plain);
    }

    #[test]
    fn codes_of_labels_are_those_that_went_in() {
        let mine = Coding::new(Code::new("1", "99MINE", "a"), Code::new("2", "99MINE", "b"));
        let codes = BTreeMap::from([("Thing".to_owned(), mine.clone())]);
        let label = |value, name: &str| Label { term: term_of(&codes, name), ..Label::new(value, name, [0; 3]) };
        let labels = vec![label(1, "thing"), label(2, "kidney tumour, left"), label(3, "unheard of")];
        let found = codes_of(&labels);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["kidney tumour, left", "thing"]);
        assert_eq!(found["thing"], mine);
        let tumour = &found["kidney tumour, left"];
        assert_eq!(Some(tumour), known_coding("kidney tumour, left").as_ref());
        assert_eq!(tumour.site.as_ref().map(|site| site.meaning.as_str()), Some("Kidney"));
        assert_eq!(tumour.side.as_ref().map(|side| side.meaning.as_str()), Some("Left"));
    }
}
