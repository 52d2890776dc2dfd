//! `hearth profile`: measures where the training time goes, and which recipe settings would change it.

mod apply;
mod compare;
mod course;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hearth_handlers::Unit;
use hearth_plugin_host::{Given, provide_components};
use hearth_profile::{Format, Report, Schedule};
use hearth_run::advice::{Finding, imbalance};
use serde_json::json;

use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::interrupt;
use crate::recipe::{Document, bundled};
use crate::run::{Plan, Profiled, Profiling, measure_roof, profile};
use crate::table::{self, Lean};
use crate::terminal::{self, bold};
use crate::{note, out};

/// Arguments of `hearth profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe (`hearth recipes list`) or a TOML file
    #[arg(value_name = "RECIPE", required_unless_present = "compare")]
    pub recipe: Option<String>,
    /// The data set, as for `hearth train`
    #[arg(long, value_name = "DIR", required_unless_present = "compare")]
    pub data: Option<PathBuf>,
    /// The output folder for trace.json.gz (opens in Perfetto, ui.perfetto.dev), summary.txt,
    /// summary.json, findings.json, and the run itself; new or empty
    #[arg(long, value_name = "DIR", required_unless_present = "compare")]
    pub out: Option<PathBuf>,
    /// Record nothing: compare the profiles in two folders, by parts of a step, kernels, waits, layers and
    /// memory
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], exclusive = true)]
    pub compare: Vec<PathBuf>,
    /// The steps to record: WAIT,WARMUP,ACTIVE or WAIT,WARMUP,ACTIVE,REPEAT [default: an epoch to warm
    /// up, then one with a validation, which the findings need]
    #[arg(long, value_name = "STEPS")]
    pub schedule: Option<String>,
    /// The unit of --schedule: iterations or epochs
    #[arg(long, value_name = "UNIT", default_value = "iterations", requires = "schedule", conflicts_with = "apply")]
    pub unit: String,
    /// Also write these reports, report_KIND.json and .csv: summary (parts of a step), kernel, iteration, op
    /// (every kind of range), layer (records layers), idle (what the training thread does outside of kernels)
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    pub reports: Vec<Report>,
    /// The formats of --reports
    #[arg(long, value_name = "json,csv", value_delimiter = ',', default_values = ["json", "csv"], requires = "reports")]
    pub formats: Vec<Format>,
    /// Also record each layer of the network, by its path
    #[arg(long)]
    pub layers: bool,
    /// Try the findings one after the other, keep what is faster, and write the resulting recipe,
    /// faster.toml
    #[arg(long, conflicts_with = "schedule")]
    pub apply: bool,
    /// Also try findings that affect learning: train this number of epochs with and without them, from
    /// three seeds, and revert changes that worsen the key metric
    #[arg(long, value_name = "EPOCHS", requires = "apply", conflicts_with = "schedule",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub check: Option<u64>,
    /// A run of this recipe on several ranks; its summary shows which rank the others wait for
    #[arg(long, value_name = "RUN")]
    pub ranks: Option<PathBuf>,
    /// The device to train on: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long)]
    pub device: Option<String>,
    /// A plugin: its library, a folder to search for plugins, or the name of a bundled or installed
    /// one; may be given several times
    #[arg(long = "plugin", value_name = "PATH|NAME")]
    pub plugins: Vec<PathBuf>,
    /// Change one value of the recipe, such as training.batch_size=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

impl Args {
    /// The data set; required unless profiles are compared.
    fn data(&self) -> &Path {
        self.data.as_deref().unwrap_or(Path::new(""))
    }

    /// The output folder; required unless profiles are compared.
    fn out(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new(""))
    }
}

/// Profiles, and reports the findings; or compares two profiles.
pub fn run(args: &Args) -> Outcome {
    if let [before, after] = &args.compare[..] {
        return compare::run(before, after);
    }
    Given::check(&args.plugins)?;
    provide_components(&args.plugins);
    let mut document = bundled::open(args.recipe.as_deref().unwrap_or_default())?;
    if let Some(device) = &args.device {
        document.set_option("--device", "training.device", device)?;
    }
    args.sets.iter().try_for_each(|set| document.set(set))?;
    let schedule = args.schedule.as_deref().map(|text| schedule(text, &args.unit)).transpose()?;
    let on_processor = Plan::new(document.clone())?.on_processor;
    let balance = args.ranks.as_deref().map(|run| balance(run, &document)).transpose()?.flatten();
    interrupt::listen()?;
    let roof = on_processor.then(measure_roof);
    let how = Profiling {
        schedule,
        roof,
        layers: args.layers || args.reports.contains(&Report::Layer),
        progress: terminal::progress(),
    };
    let reserved = folders::Reserved::new(args.out())?;
    let mut found = measured(args, &document, args.out(), &how)?;
    found.findings.extend(balance);
    found.findings.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    drop(reserved);
    show(&found);
    let findings = json!({ "facts": found.facts, "findings": found.findings });
    folders::replace(&args.out().join("findings.json"), &(serde_json::to_string_pretty(&findings)? + "\n"))?;
    reports(args, &found)?;
    if args.apply {
        apply::apply(args, document, found, &how)?;
    }
    out!("trace    {} (opens in https://ui.perfetto.dev)", args.out().join("trace.json.gz").display());
    out!("tables   {}", args.out().join("summary.txt").display());
    Ok(())
}

/// Writes the reports that are asked for.
fn reports(args: &Args, found: &Profiled) -> Outcome {
    if args.reports.contains(&Report::Idle) && found.profile.occupancy.is_none() {
        note!(
            "warning: --reports idle: no kernel of a CPU was recorded, and those of a GPU are not; the report is empty"
        );
    }
    for report in &args.reports {
        for format in &args.formats {
            let file = args.out().join(format!("report_{report}.{format}"));
            folders::replace(&file, &report.text(&found.profile, *format)?)?;
        }
    }
    Ok(())
}

/// The finding about the balance of the ranks, from the summary of a run.
fn balance(run: &Path, document: &Document) -> Outcome<Option<Finding>> {
    let path = run.join("summary.json");
    let doing = || format!("--ranks {}", run.display());
    let text = hearth_files::read_to_string(&path).while_doing(doing)?;
    let summary = serde_json::from_str(&text).while_doing(doing)?;
    let recipe = Plan::new(document.clone())?.recipe;
    imbalance(&summary, &recipe).map_err(|why| Failure::new(format!("{}: {why}", path.display())))
}

/// A profile that Ctrl-C can end.
fn measured(args: &Args, document: &Document, out: &Path, how: &Profiling) -> Outcome<Profiled> {
    let watch = |flag: Option<Arc<AtomicBool>>| match flag {
        Some(flag) => interrupt::running(flag),
        None => interrupt::between("the levers are not all tried"),
    };
    let found = profile(document, args.data(), &args.plugins, out, how, &watch);
    interrupt::over();
    found?.ok_or_else(Failure::interrupted)
}

fn schedule(text: &str, unit: &str) -> Outcome<(Unit, Schedule)> {
    let wrong = |why: &str| Failure::new(format!("--schedule {text}: {why}; give WAIT,WARMUP,ACTIVE or with ,REPEAT"));
    let numbers = text.split(',').map(|number| number.trim().parse::<u64>()).collect::<Result<Vec<u64>, _>>();
    let numbers = numbers.map_err(|_| wrong("these are not numbers"))?;
    let (wait, warmup, active, repeat) = match numbers[..] {
        [wait, warmup, active] => (wait, warmup, active, 1),
        [wait, warmup, active, repeat] => (wait, warmup, active, repeat),
        _ => return Err(wrong("three or four numbers are needed")),
    };
    let schedule = Schedule { wait, warmup, active, repeat };
    schedule.check().map_err(|error| wrong(&error.to_string()))?;
    if repeat == 0 {
        return Err(wrong("a repeat of 0 never ends"));
    }
    if schedule.steps().is_none_or(|steps| steps > 1_000_000) {
        return Err(wrong("that is more than a million steps"));
    }
    let unit = match unit {
        "iterations" => Unit::Iterations,
        "epochs" => Unit::Epochs,
        _ => return Err(Failure::new(format!("--unit {unit}: give iterations or epochs"))),
    };
    Ok((unit, schedule))
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.2}", seconds * 1e3)
}

/// Prints the parts of a step, and the findings.
fn show(found: &Profiled) {
    let summary = &found.profile.summary;
    let heads = ["count", "min", "mean", "median", "p95", "max"].map(|head| (head, Lean::Right));
    let columns = [&[("part of a step, ms", Lean::Left)][..], &heads].concat();
    let rows = summary.step.iter().map(|row| {
        let time = &row.time;
        let values = [time.min, time.mean, time.median, time.p95, time.max].map(milliseconds);
        [vec![row.name.clone(), time.count.to_string()], values.to_vec()].concat()
    });
    table::lines(&columns, &rows.collect::<Vec<_>>()).iter().for_each(|line| out!("{line}"));
    if let Some(memory) = &found.profile.memory {
        let mib = memory.peak as f64 / 1_048_576.0;
        out!("memory   {mib:.0} MiB at most, in {}", memory.at.last().map_or("nothing", String::as_str));
    }
    let Some(facts) = &found.facts else { return };
    out!(
        "an epoch {:.2} s: {:.2} s of training, of which {:.2} s wait for batches; a validation {:.2} s, {}",
        facts.cost(),
        facts.training,
        facts.wait,
        facts.validation,
        match facts.val_interval {
            1 => "every epoch".to_owned(),
            epochs => format!("every {epochs} epochs"),
        }
    );
    if found.findings.is_empty() {
        out!("{}", bold("nothing to win: no lever would save 2 % of an epoch"));
        return;
    }
    for (place, Finding { lever, evidence, line, seconds, .. }) in found.findings.iter().enumerate() {
        let share = seconds / facts.cost() * 100.0;
        out!("{}", bold(&format!("{}. {lever}: about {seconds:.2} s of each epoch ({share:.0} %)", place + 1)));
        out!("   {evidence}");
        out!("   {line}");
    }
}
