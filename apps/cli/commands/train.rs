//! `hearth train`.

use std::path::{Path, PathBuf};

use crate::commands::dry_run::dry_run;
use crate::commands::folds;
use crate::error::{Failure, Outcome};
use crate::folders;
use crate::interrupt;
use crate::note;
use crate::ranks::{self, RanksArgs, Restarts, is_first};
use crate::recipe::{Document, PluginChanges, bundled, isolate, leave_out, list_for_sets, list_given};
use crate::run::{Finished, Plan, Session, check_resume, not_held_out, together};
use crate::sharing::finished;
use crate::terminal::{self, seconds};
use crate::warnings;
use hearth_engine::RunEnd;
use hearth_plugin_host::{Given, provide_components};
use hearth_recipe::RecipeError;
use hearth_registry::counted;
use hearth_train::Ranks;

/// Arguments of `hearth train`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe (`hearth recipes list`) or a TOML file; optional with --resume
    #[arg(value_name = "RECIPE", required_unless_present = "resume")]
    pub recipe: Option<String>,
    /// The data set: a folder with a dataset.json, a table (.csv) of images and labels, or a DICOM
    /// folder
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// If the folder of --data is missing or empty, download what its name says: a task of the Medical
    /// Segmentation Decathlon, such as data/Task09_Spleen, or a collection of The Cancer Imaging Archive
    #[cfg(feature = "download")]
    #[arg(long, conflicts_with = "dry_run")]
    pub download: bool,
    /// The folder of the run; it is created if it is missing, and must be empty unless --resume is
    /// given
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// The device to train on: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long)]
    pub device: Option<String>,
    /// Time to spend on choosing GPU kernels, in place of the recipe's: off, quick, full or auto
    #[arg(long, value_name = "HOW")]
    pub tune: Option<String>,
    /// Whose kernels compute convolutions on a GPU of NVIDIA, in place of the recipe's choice: own,
    /// vendor (cuDNN) or auto
    #[arg(long, value_name = "WHOSE")]
    pub convolutions: Option<String>,
    /// The number of epochs to train, in place of the recipe's
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub epochs: Option<String>,
    /// The seed of every random draw, in place of the recipe's
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub seed: Option<String>,
    /// The precision in place of the recipe's: fp32, tf32, bf16, fp16 or auto
    #[arg(long)]
    pub precision: Option<String>,
    /// A plugin: its library, a folder to search for plugins, or the name of a bundled or installed
    /// one; may be given several times
    #[arg(long = "plugin", value_name = "PATH|NAME")]
    pub plugins: Vec<PathBuf>,
    /// With --resume: continue without this plugin, or handler, and its state
    #[arg(long, value_name = "NAME", requires = "resume")]
    pub without: Vec<String>,
    /// Run plugins in separate processes, so that a crash, an exit or a hang disables the plugin, and
    /// the run continues; all plugins, or those named, such as --isolated=mine,stats
    #[arg(long, value_name = "NAME", num_args = 0.., require_equals = true, value_delimiter = ',')]
    pub isolated: Option<Vec<String>>,
    /// For the second stage of a cascade: the folder with the labels that the first stage predicted for
    /// cases it did not train on, as written by `hearth predict --held-out`
    #[arg(long, value_name = "DIR")]
    pub previous_stage: Option<PathBuf>,
    /// Start from these weights: a safetensors file, the folder of a checkpoint, or the folder of a run
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// Skip weights of --init whose shape differs from the network's, such as a head for other classes
    #[arg(long)]
    pub init_skip_mismatched: bool,
    /// Parameters to freeze, by name; * matches any characters; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub freeze: Vec<String>,
    /// Change one value of the recipe, such as optimizer.lr=0.01 or transforms.CropForeground.margin=5
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Train a run for each fold of a cross-validation, RUN/fold0, RUN/fold1, ...: the number of folds,
    /// or a file that lists their cases (an earlier folds.json, or nnU-Net's splits_final.json)
    #[arg(long, value_name = "N|FILE")]
    pub folds: Option<String>,
    /// Train only this fold, counted from 0; may be given several times
    #[arg(long, value_name = "K")]
    pub fold: Vec<usize>,
    /// Keep cases with the same value of this column in one fold; BIDS, BraTS and DICOM have the column
    /// `patient`
    #[arg(long, value_name = "COLUMN")]
    pub group_by: Option<String>,
    /// Give each fold the same share of each value of this column
    #[arg(long, value_name = "COLUMN")]
    pub stratify_by: Option<String>,
    /// The number of ranks: each has a part of the data, or its own folds.
    #[command(flatten)]
    pub ranks: RanksArgs,
    /// With --ranks or --hosts: restart the ranks after a failure from the newest checkpoint, at most N times
    #[arg(long, value_name = "N", default_value_t = 0, requires = "RanksArgs")]
    pub max_restarts: u32,
    /// Resume from the newest intact checkpoint of RUN, with RUN's own recipe
    #[arg(long)]
    pub resume: bool,
    /// Resume RUN if it exists, and start it otherwise: one command for a job that may be queued again
    #[arg(long = "continue", conflicts_with = "resume")]
    pub continues: bool,
    /// Print cases, cache size, network, device, plugins and pipelines, without training
    #[arg(long)]
    pub dry_run: bool,
    /// With --dry-run: also print the recipe with all defaults
    #[arg(long, requires = "dry_run")]
    pub defaults: bool,
}

/// Trains, or prints what would be done.
pub fn run(args: &Args) -> Outcome {
    folders::check_path("--out", &args.out)?;
    #[cfg(feature = "download")]
    if args.download && !super::download::is_there(&args.data) {
        if ranks::is_launched()? {
            let what = "--download: every rank would download the same files";
            let remedy = "run `hearth data download` before the launcher, or use --ranks or --hosts";
            return Err(Failure::new(format!("{what}; {remedy}")));
        }
        super::download::of_training(&args.data)?;
    }
    let restarts = Restarts { most: args.max_restarts, may: &|| args.is_begun() };
    args.ranks.run_again(restarts, |ranks| run_rank(&args.settled(), ranks))
}

/// Trains as one rank, or as the only one.
fn run_rank(args: &Args, ranks: Option<Ranks>) -> Outcome {
    if args.resume && folds::are_meant(args) {
        return finished(ranks, |ranks| folds::resume(args, ranks));
    }
    Given::check(&args.plugins)?;
    provide_components(&args.plugins);
    let document = args.document()?;
    if !args.resume && (folds::are_meant(args) || folds::are_in(&document)) {
        return finished(ranks, |ranks| folds::run(args, document, ranks));
    }
    if args.dry_run {
        let show = |plan: &Plan| dry_run(plan, &args.data, &args.plugins, args.defaults);
        return finished(ranks, |ranks| show(&terminal::plan_of_rank(document, ranks)?));
    }
    let first = is_first(ranks.as_ref());
    // A launcher signals each process; ranks that are threads share the first one's handler.
    let listens = first || ranks::is_launched()?;
    if listens {
        interrupt::listen()?;
    }
    let plan = terminal::plan_of_rank(document, ranks.as_ref())?;
    if first {
        say_of_previous_stage(&plan, &args.data)?;
    }
    if args.resume {
        return resume(plan, args, &args.out, ranks);
    }
    let reserve = || folders::check_new_run(&args.out).and_then(|()| folders::Reserved::new(&args.out)).map(Some);
    let reserved = if first { reserve() } else { Ok(None) };
    let reserved = reserved.map_err(|failure| RecipeError::new(failure.line()));
    let _reserved = together(ranks.as_ref(), "making the run's folder", reserved)?;
    let mut session = match ranks {
        Some(ranks) => Session::on_ranks(plan, &args.data, &args.plugins, ranks)?,
        None => Session::new(plan, &args.data, &args.plugins)?,
    };
    if listens {
        interrupt::running(session.interrupt_flag());
    }
    session.start(&args.out)?;
    finish_alone(&mut session)
}

/// Warns if the second stage of a cascade would learn from labels that are better than those of new
/// images.
pub(super) fn say_of_previous_stage(plan: &Plan, data: &Path) -> Outcome {
    let others = not_held_out(&plan.recipe, data)?;
    if let Some(first) = others.first() {
        let count = counted(others.len(), "case");
        let what =
            format!("the labels of the earlier stage for {count}, {first} among them, were not made by --held-out");
        let why =
            "a network predicts the cases that it was trained on too well, and the second stage learns to trust it";
        note!("warning: {what}: {why}");
    }
    Ok(())
}

/// Resumes a run.
pub(super) fn resume(plan: Plan, args: &Args, out: &Path, ranks: Option<Ranks>) -> Outcome {
    let folder = folders::open_run(out)?;
    let changes = PluginChanges::of(&args.without, &args.plugins);
    if let Some(ended) = check_resume(&plan, &args.data, &folder, &changes)? {
        return finished(ranks, |ranks| {
            if is_first(ranks) {
                ended.lines(&plan, &folder).iter().for_each(|line| note!("{line}"));
            }
            Ok(())
        });
    }
    let mut session = Session::of_run(plan, &args.data, &args.plugins, &folder, ranks)?;
    session.continue_without(&args.without);
    if session.is_first() || ranks::is_launched()? {
        interrupt::running(session.interrupt_flag());
    }
    session.resume(folder)?;
    finish_alone(&mut session)
}

/// Runs a session and reports how it ended.
pub(crate) fn finish(session: &mut Session) -> Outcome {
    if let Some(folder) = session.folder().filter(|_| session.is_first()) {
        warnings::keep_in(folder.root());
    }
    let finished = session.run();
    warnings::over();
    interrupt::over();
    let Finished { end, epoch, best, seconds: took, tuning, failures, folder, data, plugins, key: _ } = finished?;
    let root = folder.root().display();
    if let RunEnd::Interrupted(_) = end {
        note!("stopped in epoch {epoch}; resume with:");
        let plugins: String = plugins.iter().map(|plugin| format!(" --plugin {}", plugin.display())).collect();
        note!("  hearth train --data {} --out {root} --resume{plugins}", data.display());
        return Err(Failure::interrupted());
    }
    if let RunEnd::Terminated(why) = end {
        note!("ended early: {why}");
    }
    failures.iter().for_each(|failure| note!("{failure}"));
    let best = best.map_or(String::new(), |(name, value, epoch)| format!("best {name} {value:.4} at epoch {epoch}, "));
    if tuning.kernels > 0 {
        let (kernels, time) = (tuning.kernels, seconds(tuning.seconds));
        note!("{time} of it went into choosing {kernels} kernels for this GPU; the next run reuses them");
    }
    note!("{}, {best}{}: {root}", counted(epoch as usize, "epoch"), seconds(took));
    Ok(())
}

/// Like [`finish`], and names the command that follows.
fn finish_alone(session: &mut Session) -> Outcome {
    finish(session)?;
    if let Some(folder) = session.folder().filter(|_| session.is_first()) {
        if !std::fs::read_dir(folder.checkpoints()).is_ok_and(|mut inside| inside.next().is_some()) {
            note!(
                "no checkpoint was written: the recipe's [[plugins]] have no `checkpoint`, so nothing can be predicted"
            );
            return Ok(());
        }
        let images = if session.generates() { "--count 16" } else { "-i IMAGES" };
        note!("next: hearth predict {} {images} -o FOLDER", folder.root().display());
    }
    Ok(())
}

/// Whether an assignment of `--set` is to the schedule, or to a handler that ends runs.
fn of_length(set: &str) -> bool {
    let key = set.split_once('=').map_or(set, |(key, _)| key).trim();
    key == "schedule" || ["schedule.", "handlers.EarlyStop."].iter().any(|table| key.starts_with(table))
}

impl Args {
    /// The arguments with `--continue` resolved to resume or start.
    fn settled(&self) -> Self {
        Self { resume: self.resume || (self.continues && self.is_begun()), ..self.clone() }
    }

    /// Whether the output folder holds a run, or folds of one.
    fn is_begun(&self) -> bool {
        folders::is_run(&self.out) || folds::are_begun(&self.out)
    }

    /// The recipe, with all changes from the command line.
    fn document(&self) -> Outcome<Document> {
        let mut document = match (&self.recipe, self.resume) {
            (recipe, true) => {
                if recipe.is_some() && !self.continues {
                    note!("--resume uses the run's own recipe; the given one is ignored");
                }
                self.check_resume_options()?;
                Document::open(&folders::open_run(&self.out)?.recipe())?
            }
            (Some(_), false) if !self.without.is_empty() => {
                let (names, out) = (self.without.join(", "), self.out.display());
                return Err(Failure::new(format!(
                    "--without {names}: {out} has no run to continue; remove the option"
                )));
            }
            (Some(recipe), false) => bundled::open(recipe)?,
            // clap requires a recipe here.
            (None, false) => return Err(Failure::new("give a recipe")),
        };
        self.set_running(&mut document)?;
        if self.resume {
            return Ok(document);
        }
        let options = [("--seed", "training.seed", &self.seed), ("--precision", "training.precision", &self.precision)];
        for (option, key, value) in options {
            if let Some(value) = value {
                document.set_option(option, key, value)?;
            }
        }
        if let Some(folder) = &self.previous_stage {
            let value = toml::Value::String(folders::check_path("--previous-stage", folder)?).to_string();
            document.set_option("--previous-stage", "data.previous_stage", &value)?;
        }
        self.set_folds(&mut document)?;
        self.set_init(&mut document)?;
        if let Some(names) = &self.isolated {
            isolate(&mut document, names)?;
        }
        list_for_sets(&mut document, &self.sets)?;
        for set in &self.sets {
            document.set(set)?;
        }
        Ok(document)
    }

    /// Applies the options that a resumed run supports.
    pub(super) fn set_running(&self, document: &mut Document) -> Outcome {
        let options = [
            ("--device", "training.device", &self.device),
            ("--tune", "training.tune", &self.tune),
            ("--convolutions", "training.convolutions", &self.convolutions),
            ("--epochs", "training.epochs", &self.epochs),
        ];
        for (option, key, value) in options {
            if let Some(value) = value {
                document.set_option(option, key, value)?;
            }
        }
        if self.resume {
            leave_out(document, &self.without);
        }
        list_given(document, &self.plugins)?;
        // A run that is extended needs a longer schedule, and more patience.
        for set in self.sets.iter().filter(|set| self.resume && of_length(set)) {
            document.set(set)?;
        }
        Ok(())
    }

    /// Fails for an option that a resumed run does not support.
    pub(super) fn check_resume_options(&self) -> Outcome {
        // The options belong to the command that started the run.
        if self.continues {
            return Ok(());
        }
        let changed = [
            ("--seed", self.seed.is_some()),
            ("--precision", self.precision.is_some()),
            ("--previous-stage", self.previous_stage.is_some()),
            ("--init", self.init.is_some()),
            ("--init-skip-mismatched", self.init_skip_mismatched),
            ("--freeze", !self.freeze.is_empty()),
            ("--set", self.sets.iter().any(|set| !of_length(set))),
            ("--isolated", self.isolated.is_some()),
        ];
        if let Some((option, _)) = changed.iter().find(|(_, given)| *given) {
            let advice = "a resumed run only takes --epochs, --device, --tune and --set of schedule, schedule.KEY and \
                          handlers.EarlyStop.KEY; start a new run to change more";
            return Err(Failure::new(format!("{option} cannot be given with --resume: {advice}")));
        }
        Ok(())
    }

    /// The file of `--folds`, unless it is a number.
    pub(super) fn fold_file(&self) -> Option<PathBuf> {
        self.folds.as_ref().filter(|folds| folds.parse::<usize>().is_err()).map(PathBuf::from)
    }

    /// Applies the options that set `[data.folds]`.
    fn set_folds(&self, document: &mut Document) -> Outcome {
        if let Some(count) = self.folds.as_ref().filter(|_| self.fold_file().is_none()) {
            document.set_option("--folds", "data.folds.count", count)?;
        }
        for (option, key, column) in [
            ("--group-by", "data.folds.group", &self.group_by),
            ("--stratify-by", "data.folds.stratify", &self.stratify_by),
        ] {
            let Some(column) = column else { continue };
            if self.fold_file().is_some() {
                return Err(Failure::new(format!("{option} deals cases to folds, which the file of --folds has done")));
            }
            if self.folds.is_none() && !folds::are_in(document) {
                return Err(Failure::new(format!("{option} is about folds: add --folds N")));
            }
            // As TOML, so that a column name is not parsed as a number.
            document.set_option(option, key, &toml::Value::String(column.clone()).to_string())?;
        }
        Ok(())
    }

    /// Applies the options that set `[init]`.
    fn set_init(&self, document: &mut Document) -> Outcome {
        if let Some(path) = &self.init {
            // As TOML, so that a file name is not parsed as a number.
            let value = toml::Value::String(folders::check_path("--init", path)?).to_string();
            document.set_option("--init", "init.weights", &value)?;
        }
        if self.init_skip_mismatched {
            document.set_option("--init-skip-mismatched", "init.skip_mismatched", "true")?;
        }
        if !self.freeze.is_empty() {
            let patterns: Vec<toml::Value> = self.freeze.iter().cloned().map(toml::Value::String).collect();
            document.set_option("--freeze", "init.freeze", &toml::Value::Array(patterns).to_string())?;
        }
        Ok(())
    }
}
