//! The store of trained models: `hearth models add`, `list --stored`, `info`, `remove`.

use std::path::{Path, PathBuf};

use hearth_files::Scratch;
use hearth_models::store::{ModelKind, ModelStore, StoredModel};
use hearth_package::Package;
use hearth_registry::counted;
use serde_json::{Value, json};

use crate::commands::package::{describe as describe_package, facts as of_package};
use crate::error::{Context, Failure, Outcome};
use crate::table::{self, Lean};
use crate::{note, out};
use hearth_models::open::package;

/// The place of the store.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct StoreArgs {
    /// The folder of the store [default: HEARTH_MODELS, or hearth/models in the user's data folder]
    #[arg(long = "store", value_name = "DIR")]
    store: Option<PathBuf>,
}

impl StoreArgs {
    fn open(&self) -> Outcome<ModelStore> {
        Ok(ModelStore::open(self.store.as_deref())?)
    }
}

/// Arguments of `hearth models add`.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// The model: a package (.hearth), a run, an nnU-Net v2 model, a folder of such models, a MONAI
    /// bundle, or a zip of one of these
    #[arg(value_name = "PACKAGE|ZIP|FOLDER")]
    model: PathBuf,
    /// Add a package only if it is signed by the holder of this public key (PEM, Ed25519)
    #[arg(long, value_name = "FILE")]
    verify_key: Option<PathBuf>,
    /// The name in the store [default: that of the folder or zip]
    #[arg(long)]
    name: Option<String>,
    /// The place of the store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `hearth models info`.
#[derive(Debug, clap::Args)]
pub struct InfoArgs {
    /// The name of a stored model, or the path of a package (.hearth)
    #[arg(value_name = "NAME|PACKAGE")]
    name: String,
    /// For a package: fail unless it is signed by the holder of this public key (PEM, Ed25519)
    #[arg(long, value_name = "FILE")]
    verify_key: Option<PathBuf>,
    /// Compare all files with the checksums from when the model was added
    #[arg(long)]
    check: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// The place of the store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `hearth models remove`.
#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    /// The name of the stored model
    #[arg(value_name = "NAME")]
    name: String,
    /// The place of the store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Copies a model into the store.
pub fn add(args: &AddArgs) -> Outcome {
    let store = args.store.open()?;
    if !args.model.exists() {
        return Err(Failure::new(format!("there is no file or folder {}", args.model.display())));
    }
    let real = args.model.canonicalize().unwrap_or_else(|_| args.model.clone());
    let stem = if real.is_dir() { real.file_name() } else { real.file_stem() };
    let stem = stem.unwrap_or_default().to_string_lossy().into_owned();
    let name = args.name.clone().unwrap_or(stem);
    let source = args.model.display().to_string();
    let is_package = Package::is_one(&args.model);
    if args.verify_key.is_some() && !is_package {
        return Err(Failure::new(format!("--verify-key is for packages, not for {}: remove it", args.model.display())));
    }
    let model = if is_package {
        let opened = package(&args.model, args.verify_key.as_deref())?;
        store.add_package(&opened, &name, &source)?
    } else if args.model.is_dir() {
        store.add(&args.model, &name, &source)?
    } else {
        let unpacked = unpacked(&args.model, store.root())?;
        store.add(&unpacked.path().join("model"), &name, &source)?
    };
    describe(&model, &args.store);
    if model.licences.is_empty() {
        note!("no file of it states a licence: ask where you got it from");
    }
    Ok(())
}

/// The limit of a zip's content in bytes per byte of the zip; weights hardly shrink.
#[cfg(feature = "download")]
const MOST_PER_BYTE: u64 = 100;

/// The content of a zip, in a folder next to the stored models.
#[cfg(feature = "download")]
fn unpacked(zip: &Path, root: &Path) -> Outcome<Scratch> {
    use hearth_data::download::{ArchiveLimits, unpack};

    let size = std::fs::metadata(zip).while_doing(|| format!("cannot read {}", zip.display()))?.len();
    let limits = ArchiveLimits { bytes: size.saturating_mul(MOST_PER_BYTE), entries: 100_000 };
    std::fs::create_dir_all(root).while_doing(|| format!("cannot make the folder {}", root.display()))?;
    let beside = Scratch::new_in(root, ".unpacked-");
    let beside = beside.while_doing(|| format!("cannot write into {}", root.display()))?;
    let unpacked = unpack(zip, &beside.path().join("model"), limits, crate::terminal::progress());
    unpacked.while_doing(|| format!("cannot add {}", zip.display()))?;
    Ok(beside)
}

/// The error without the feature that reads archives.
#[cfg(not(feature = "download"))]
fn unpacked(zip: &Path, _: &Path) -> Outcome<Scratch> {
    let what =
        "this program was built without the feature `download`, which reads archives: unpack it, and give the folder";
    Err(Failure::new(format!("{}: {what}", zip.display())))
}

/// Prints the models of the store.
pub fn list(json: bool, store: &StoreArgs) -> Outcome {
    let store = store.open()?;
    let models = store.all()?;
    if json {
        let all: Vec<Value> = models.iter().map(facts).collect();
        out!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    if models.is_empty() {
        note!("there is no model in {}: add one by hearth models add", store.root().display());
        return Ok(());
    }
    let columns = [("name", Lean::Left), ("kind", Lean::Left), ("MB", Lean::Right), ("from", Lean::Left)];
    let rows = models.iter().map(|model| {
        let size = format!("{:.1}", model.bytes() as f64 / 1e6);
        vec![model.name.clone(), kind(model.kind).to_owned(), size, model.source.clone()]
    });
    table::lines(&columns, &rows.collect::<Vec<_>>()).iter().for_each(|line| out!("{line}"));
    Ok(())
}

/// Prints the number of stored models, if any, when networks are listed.
pub fn tell_of(store: &StoreArgs) {
    // An unreadable store is reported by the commands that need it.
    let count = store.open().ok().and_then(|store| store.all().ok()).map_or(0, |models| models.len());
    if count > 0 {
        note!("{} trained and stored: hearth models list --stored", counted(count, "model"));
    }
}

/// Prints the facts about a model.
pub fn info(args: &InfoArgs) -> Outcome {
    let file = Path::new(&args.name);
    hearth_files::check_readable(file).while_doing(|| args.name.clone())?;
    if Package::is_one(file) {
        return info_of(args, file);
    }
    let model = args.store.open()?.get(&args.name)?;
    let inner = model.path();
    if model.kind == ModelKind::Package && !args.check {
        return info_of(args, &inner);
    }
    if args.verify_key.is_some() {
        return Err(Failure::new(format!("--verify-key is for packages, not for {}: remove it", args.name)));
    }
    if args.json {
        out!("{}", serde_json::to_string_pretty(&facts(&model))?);
    } else {
        describe(&model, &args.store);
        for (name, file) in &model.files {
            out!("  {}  {:>12}  {name}", file.blake3, file.bytes);
        }
    }
    if args.check {
        let changed = model.changed()?;
        if !changed.is_empty() {
            let what = "differ from what was added, or are missing: remove the model and add it again";
            return Err(Failure::new(format!("{}: {what}\n  {}", args.name, changed.join("\n  "))));
        }
        note!("all {} files are as they were added", model.files.len());
    }
    Ok(())
}

/// Like [`info`], for a package.
fn info_of(args: &InfoArgs, path: &Path) -> Outcome {
    let opened = package(path, args.verify_key.as_deref())?;
    match args.json {
        true => out!("{}", serde_json::to_string_pretty(&of_package(&opened)?)?),
        false => describe_package(&opened),
    }
    if args.check {
        opened.check()?;
        note!("all {} members are as the manifest says", opened.manifest().members.len());
    }
    Ok(())
}

/// Removes a model.
pub fn remove(args: &RemoveArgs) -> Outcome {
    let removed = args.store.open()?.remove(&args.name)?;
    note!("removed {}: {} files", args.name, removed.files.len());
    Ok(())
}

fn kind(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Nnunet => "nnU-Net v2",
        ModelKind::NnunetSet => "models of nnU-Net v2 side by side",
        ModelKind::Run => "run",
        ModelKind::Package => "package",
        ModelKind::Bundle => "MONAI bundle",
    }
}

fn describe(model: &StoredModel, store: &StoreArgs) {
    out!("{}: {}, {} files, {:.1} MB", model.name, kind(model.kind), model.files.len(), model.bytes() as f64 / 1e6);
    out!("  from {}", model.source);
    for licence in &model.licences {
        out!("  licence: {licence}");
    }
    // `predict` looks for names only in the usual store.
    let given = store.store.as_ref().map_or_else(|| model.name.clone(), |_| model.path().display().to_string());
    out!("  hearth predict {given} -i IMAGES -o DIR");
}

fn facts(model: &StoredModel) -> Value {
    let mut facts = serde_json::to_value(model).unwrap_or_default();
    facts["name"] = json!(model.name);
    facts["path"] = json!(model.path().display().to_string());
    facts
}
