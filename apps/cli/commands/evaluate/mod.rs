//! `hearth evaluate`: measures a run's network on labelled cases.

mod measure;
mod of_others;
mod shown;

use std::path::{Path, PathBuf};

use hearth_plugin_host::{Given, provide_components};
use hearth_train::Ranks;
use serde_json::json;

use self::measure::{All, Found, on_original_grids, on_the_networks_grid};
pub use self::shown::{Confusion, Evaluated, Measured};
use crate::commands::empty::EmptyWord;
use crate::commands::merging::{self, MergeArgs};
use crate::commands::opening::OpeningArgs;
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::ranks::{RanksArgs, is_first, local_rank};
use crate::run::outputs::{Outputs, remove_result};
use crate::run::{Chosen, digest, listed, same};
use crate::sharing::{prepared, shared};
use crate::{note, out, warnings};
use hearth_models::run::Trained;

/// Arguments of `hearth evaluate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run; a folder with fold0, fold1, ..., whose merged predictions are measured; or
    /// an nnU-Net or TotalSegmentator model or a MONAI bundle, for the Dice of each label on the
    /// images' own grids
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// More runs, whose predictions are merged with the first
    #[arg(value_name = "RUN")]
    pub more: Vec<PathBuf>,
    /// How the predictions are merged.
    #[command(flatten)]
    pub merge: MergeArgs,
    /// The data set: a folder with a dataset.json, a table (.csv) of images and labels, or a DICOM
    /// folder
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The network, and how it runs.
    #[command(flatten)]
    pub opening: OpeningArgs,
    /// A plugin: its library, a folder to search for plugins, or the name of a bundled or installed
    /// plugin
    #[arg(long = "plugin", value_name = "PATH|NAME")]
    pub plugins: Vec<PathBuf>,
    /// Evaluate every labelled case [default: the cases that the run validated on; for other data all
    /// labelled cases]
    #[arg(long)]
    pub all: bool,
    /// Evaluate only the cases with these names
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all")]
    pub cases: Vec<String>,
    /// The grid on which predictions and labels are compared
    #[arg(long, value_enum, default_value_t = Grid::Network)]
    pub grid: Grid,
    /// The distance to count if the prediction or the label has no voxel of a class
    #[arg(long, value_enum, value_name = "RULE", default_value_t = EmptyWord::Penalty)]
    pub empty: EmptyWord,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print comma-separated values, one line per case and class
    #[arg(long)]
    pub csv: bool,
    /// Also write DIR/report.json and DIR/report.csv (the output of --json and --csv), and the
    /// confusion matrix of the classes, DIR/confusion.csv
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace a report of an earlier call that was not changed since
    #[arg(long, requires = "out")]
    pub overwrite: bool,
    /// The number of ranks, each of which processes some of the cases.
    #[command(flatten)]
    pub ranks: RanksArgs,
}

impl Args {
    /// The arguments without any option: evaluates the best checkpoint of a run on the cases that fit
    /// it.
    pub fn new(run: &Path, data: &Path, device: &str, tune: Option<&str>) -> Self {
        Self {
            run: run.to_owned(),
            more: Vec::new(),
            merge: MergeArgs::default(),
            data: data.to_owned(),
            opening: OpeningArgs::new(device, tune),
            plugins: Vec::new(),
            all: false,
            cases: Vec::new(),
            grid: Grid::Network,
            empty: EmptyWord::Penalty,
            json: false,
            csv: false,
            out: None,
            overwrite: false,
            ranks: RanksArgs::default(),
        }
    }
}

/// The grid of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Grid {
    /// The network's grid, as in validation during training
    Network,
    /// The images' own grids, as in the files that `predict` writes
    Original,
}

/// Evaluates, and prints the result.
pub fn run(args: &Args) -> Outcome {
    shared(&args.ranks, |ranks| of_rank(args, ranks))
}

fn of_rank(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    Given::check(&args.plugins)?;
    provide_components(&args.plugins);
    if of_others::is_one(&args.run) {
        if !args.plugins.is_empty() {
            return Err(Failure::new(format!(
                "--plugin: {} is no run of hearth, and has no plugins: remove the option",
                args.run.display()
            )));
        }
        return kept(args, ranks, of_others::run(args, ranks));
    }
    kept(args, ranks, of_run(args, ranks))
}

/// Keeps the warnings of an evaluation with its report.
fn kept(args: &Args, ranks: Option<&Ranks>, done: Outcome) -> Outcome {
    if let Some(dir) = args.out.as_deref().filter(|_| is_first(ranks)) {
        warnings::add_to(dir, false);
    }
    done
}

fn of_run(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    // Claimed before the work, so that files in the way are reported first.
    let report = args.out.as_deref().map(|dir| Report::claim(dir, args.overwrite)).transpose();
    let report = prepared(ranks, report)?;
    let found = evaluate_shared(args, ranks)?;
    if let Some(report) = report.filter(|_| is_first(ranks)) {
        report.write(&found, args)?;
    }
    if args.json {
        out!("{}", serde_json::to_string_pretty(&found.to_json())?);
    } else if args.csv {
        found.to_csv().iter().for_each(|line| out!("{line}"));
    } else {
        found.print();
    }
    Ok(())
}

/// The files of `--out`.
struct Report {
    outputs: Outputs,
    json: PathBuf,
    csv: PathBuf,
    confusion: PathBuf,
}

impl Report {
    fn claim(dir: &Path, overwrite: bool) -> Outcome<Self> {
        let mut outputs = Outputs::new("evaluate", overwrite);
        let [json, csv, confusion] = ["report.json", "report.csv", "confusion.csv"].map(|name| dir.join(name));
        [&json, &csv, &confusion].into_iter().try_for_each(|file| outputs.claim(file))?;
        std::fs::create_dir_all(dir).while_doing(|| format!("cannot make the folder {}", dir.display()))?;
        Ok(Self { outputs, json, csv, confusion })
    }

    fn write(&self, found: &Evaluated, args: &Args) -> Outcome {
        let mut all = found.to_json();
        let runs: Vec<String> = std::iter::once(&args.run).chain(&args.more).map(|r| r.display().to_string()).collect();
        all["hearth"] = json!(env!("CARGO_PKG_VERSION"));
        all["runs"] = json!(runs);
        all["data"] = json!(args.data.display().to_string());
        self.outputs.write(&self.json, serde_json::to_string_pretty(&all)? + "\n")?;
        self.outputs.write(&self.csv, found.to_csv().join("\n") + "\n")?;
        match &found.confusion {
            Some(confusion) => self.outputs.write(&self.confusion, confusion.to_csv().join("\n") + "\n")?,
            // Of an earlier call, whose report this one replaces.
            None => remove_result(&self.confusion)?,
        }
        note!("report  {}, {}", self.json.display(), self.csv.display());
        Ok(())
    }
}

/// Measures a run's network.
pub fn evaluate(args: &Args) -> Outcome<Evaluated> {
    evaluate_shared(args, None)
}

/// What to measure, and on which cases.
struct Opened {
    trained: Trained,
    chosen: Chosen,
    checkpoint: String,
    several: bool,
}

fn open(args: &Args, ranks: Option<&Ranks>) -> Outcome<Opened> {
    let given: Vec<PathBuf> = std::iter::once(&args.run).chain(&args.more).cloned().collect();
    let runs = merging::runs(&given)?;
    let several = runs.len() > 1 || runs[0] != args.run;
    if args.merge.given() && !several {
        return Err(Failure::new("--mean, --vote, --staple and --weights merge runs: give several"));
    }
    let folders = runs.iter().map(|run| folders::open_run(run)).collect::<Result<Vec<_>, _>>()?;
    let options = args.opening.options();
    let opening = options.opening().of_rank(local_rank(ranks));
    let trained = match several {
        true => merging::open(&runs, &opening, &args.merge, &[])?,
        false => Trained::open_with(&folders[0], opening)?,
    };
    if trained.plan.recipe.learns().generates() {
        let what = "this run generates images, and there is no label to compare them with";
        return Err(Failure::new(format!(
            "{what}: look at some, hearth predict {} --count 16 -o DIR",
            args.run.display()
        )));
    }
    let chosen = Chosen::of_runs(&folders, &trained.plan, &args.data, args.all, &args.cases)?;
    let checkpoint = match several {
        true => format!("{} of {} runs ({})", args.opening.checkpoint(), runs.len(), args.merge.words()),
        false => trained.checkpoint.clone(),
    };
    if args.grid == Grid::Original && !trained.plan.recipe.output().is_map() {
        return Err(Failure::new("--grid original compares label maps on the scanner's grid; this run predicts none"));
    }
    Ok(Opened { trained, chosen, checkpoint, several })
}

/// Evaluates on several ranks, each of which gets the result.
fn evaluate_shared(args: &Args, ranks: Option<&Ranks>) -> Outcome<Evaluated> {
    let Opened { trained, chosen, checkpoint, several } = prepared(ranks, open(args, ranks))?;
    let (cases, recipe) = (chosen.words(), trained.plan.recipe.clone());
    // Each rank has its own device.
    let mut alike = recipe.clone();
    alike.training.device.clear();
    let facts = [
        ("the run", args.run.display().to_string()),
        ("the checkpoint", checkpoint.clone()),
        ("the recipe", digest(&alike.to_toml()?)),
        ("the cases", listed(chosen.items.iter().map(|item| item.case.clone()))),
    ];
    prepared(ranks, same(ranks, facts))?;
    let augmented = trained.augmentation.is_some();
    let All { metrics: values, confusion } = match args.grid {
        Grid::Network => {
            let files = args.run.join(if several { FOLDER_OF_SEVERAL } else { FOLDER });
            on_the_networks_grid(trained, chosen.items, &files, args, ranks)?
        }
        Grid::Original => on_original_grids(&trained, &chosen.items, args.empty.rule(), ranks)?,
    };
    let metrics = recipe.metric.list().into_iter().zip(values).map(|((name, config), found)| {
        let Found { value, rows, penalties } = found;
        let counted = recipe.labels.iter().skip(usize::from(!config.includes_background()));
        let classes: Vec<String> = counted.cloned().collect();
        let each = rows.iter().all(|row| row.values.len() == classes.len());
        Measured {
            kind: (*config).name(),
            higher_is_better: config.higher_is_better(),
            value,
            penalised: (0..classes.len()).map(|class| penalties.get(class).copied().unwrap_or_default()).collect(),
            classes: if each { classes } else { Vec::new() },
            rows,
            name,
        }
    });
    let augmentation = augmented.then(|| recipe.tta.words());
    let (grid, empty, maps) = (args.grid, args.empty.rule(), recipe.output().is_map());
    let unit = if maps { "voxels" } else { "images" };
    let confusion = confusion.map(|counts| Confusion { labels: recipe.labels.clone(), counts, unit });
    Ok(Evaluated { metrics: metrics.collect(), confusion, checkpoint, augmentation, cases, grid, maps, empty })
}

/// The folder in the run's folder for files of handlers that run during the evaluation.
const FOLDER: &str = "evaluation";

/// The same for several merged runs, in the first run's folder.
const FOLDER_OF_SEVERAL: &str = "evaluation/ensemble";
