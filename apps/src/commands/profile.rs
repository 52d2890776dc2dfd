//! `hearth profile`: where the time of a training goes, and which lines of the recipe change that.

use std::path::{Path, PathBuf};

use hearth_handlers::Unit;
use hearth_profile::Schedule;
use hearth_recipe::advice::{Facts, Finding};
use serde_json::json;

use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::interrupt;
use crate::picture::{Bar, bars, save};
use crate::recipe::{Document, bundled};
use crate::run::{Plan, Profiled, Profiling, measure_roof, profile};
use crate::table::{self, Lean};
use crate::terminal::{self, bold};
use crate::{note, out};

/// Arguments of `hearth profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe (`hearth recipes list`) or a TOML file
    #[arg(value_name = "RECIPE")]
    pub recipe: String,
    /// The data set, as for `hearth train`
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The output folder, for trace.json.gz (opens in Perfetto, ui.perfetto.dev), summary.txt,
    /// summary.json, findings.json, and the run itself; new or empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Which steps are recorded: WAIT,WARMUP,ACTIVE or WAIT,WARMUP,ACTIVE,REPEAT. Without it: one
    /// epoch to warm up, and one with a validation, which the findings need
    #[arg(long, value_name = "STEPS")]
    pub schedule: Option<String>,
    /// What --schedule counts: iterations or epochs
    #[arg(long, value_name = "UNIT", default_value = "iterations", requires = "schedule")]
    pub unit: String,
    /// Try the findings one after the other, keep what is faster, and write the recipe, faster.toml
    #[arg(long, conflicts_with = "schedule")]
    pub apply: bool,
    /// Where to train: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long)]
    pub device: Option<String>,
    /// A plugin library, or a folder to look for plugins in; may be given several times
    #[arg(long = "plugin", value_name = "PATH")]
    pub plugins: Vec<PathBuf>,
    /// Changes one value of the recipe, as in training.batch_size=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// Less than this is within what two runs of the same differ by.
const NOISE: f64 = 0.03;

/// Profiles, and reports what it found.
pub fn run(args: &Args) -> Outcome {
    let mut document = bundled::open(&args.recipe)?;
    if let Some(device) = &args.device {
        document.set_option("--device", "training.device", device)?;
    }
    args.sets.iter().try_for_each(|set| document.set(set))?;
    let schedule = args.schedule.as_deref().map(|text| schedule(text, &args.unit)).transpose()?;
    let on_processor = Plan::new(document.clone())?.on_processor;
    interrupt::listen()?;
    let roof = on_processor.then(measure_roof);
    let how = Profiling { schedule, roof, progress: terminal::progress() };
    let reserved = folders::Reserved::new(&args.out)?;
    let found = measured(args, &document, &args.out, &how)?;
    drop(reserved);
    show(&found);
    let findings = json!({ "facts": found.facts, "findings": found.findings });
    folders::replace(&args.out.join("findings.json"), &(serde_json::to_string_pretty(&findings)? + "\n"))?;
    if args.apply {
        apply(args, document, found, &how)?;
    }
    out!("trace    {} (opens in https://ui.perfetto.dev)", args.out.join("trace.json.gz").display());
    out!("tables   {}", args.out.join("summary.txt").display());
    Ok(())
}

/// A profile that Ctrl-C ends.
fn measured(args: &Args, document: &Document, out: &Path, how: &Profiling) -> Outcome<Profiled> {
    let found = profile(document, &args.data, &args.plugins, out, how, &interrupt::running);
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

/// The parts of a step and the findings.
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

/// A change that was tried.
struct Tried {
    finding: Finding,
    /// Seconds of an epoch with it.
    took: f64,
    kept: bool,
}

/// Tries findings until none is left that wins.
fn apply(args: &Args, mut document: Document, first: Profiled, how: &Profiling) -> Outcome {
    let Some(facts) = &first.facts else { return Ok(()) };
    let start = facts.cost();
    let (mut best, mut findings, mut tried): (f64, Vec<Finding>, Vec<Tried>) = (start, first.findings, Vec::new());
    while let Some(finding) = next(&findings, &tried) {
        note!("{}", bold(&format!("trying: {}", finding.lever)));
        let mut changed = document.clone();
        finding.sets.iter().try_for_each(|set| changed.set(set))?;
        let folder =
            tempfile::tempdir_in(&args.out).while_doing(|| format!("cannot write into {}", args.out.display()))?;
        let found = measured(args, &changed, folder.path(), how)?;
        let took = found.facts.as_ref().map_or(f64::INFINITY, Facts::cost);
        let kept = took < best * (1.0 - NOISE);
        note!("{took:.2} s an epoch, before {best:.2} s: {}", if kept { "kept" } else { "taken back" });
        if kept {
            (best, document, findings) = (took, changed, found.findings);
        }
        tried.push(Tried { finding, took, kept });
    }
    let file = args.out.join("faster.toml");
    folders::replace(&file, &commented(&document, &tried, start, best)?)?;
    ladder(&args.out, &tried, start)?;
    out!("{}", bold(&format!("{start:.2} s an epoch became {best:.2} s: {:.1} times faster", start / best)));
    out!("recipe   {}", file.display());
    out!("ladder   {}", args.out.join("ladder.png").display());
    Ok(())
}

/// The finding that wins most of those that were not tried.
fn next(findings: &[Finding], tried: &[Tried]) -> Option<Finding> {
    let known = |finding: &&Finding| tried.iter().any(|tried| tried.finding.sets == finding.sets);
    findings.iter().find(|finding| !known(finding)).cloned()
}

/// The recipe, behind comments that say what was changed and why.
fn commented(document: &Document, tried: &[Tried], start: f64, best: f64) -> Outcome<String> {
    let mut text = format!(
        "# Made by `hearth profile --apply`: {start:.2} s an epoch, with its part of a validation, became {best:.2} s.\n"
    );
    let mut before = start;
    for Tried { finding, took, kept } in tried {
        let verdict = if *kept { format!("{before:.2} s to {took:.2} s") } else { format!("{took:.2} s, taken back") };
        text.push_str(&format!("# {}: {verdict}\n#   {}\n", finding.lever, finding.evidence));
        if *kept {
            before = *took;
        }
    }
    text.push('\n');
    text.push_str(&Plan::new(document.clone())?.recipe.to_toml()?);
    Ok(text)
}

/// The table and the picture of what each change gave.
fn ladder(out: &Path, tried: &[Tried], start: f64) -> Outcome {
    let mut rows = vec![("as it was", start, true)];
    rows.extend(tried.iter().map(|tried| (tried.finding.lever, tried.took, tried.kept)));
    let columns =
        [("change", Lean::Left), ("seconds an epoch", Lean::Right), ("times faster", Lean::Right), ("", Lean::Left)];
    let line = |(lever, took, kept): &(&str, f64, bool)| {
        let kept = if *kept { "" } else { "taken back" };
        vec![(*lever).to_owned(), format!("{took:.2}"), format!("{:.1}", start / took), kept.to_owned()]
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    table::lines(&columns, &lines).iter().for_each(|line| out!("{line}"));
    let json: Vec<_> =
        rows.iter().map(|(lever, took, kept)| json!({ "change": lever, "seconds": took, "kept": kept })).collect();
    folders::replace(&out.join("ladder.json"), &(serde_json::to_string_pretty(&json)? + "\n"))?;
    let kept = rows.iter().filter(|(.., kept)| *kept);
    let bar = |(lever, took, _): &(&str, f64, bool)| Bar {
        name: (*lever).to_owned(),
        value: *took,
        text: format!("{took:.2} s, {:.1} times as fast", start / took),
    };
    let drawn: Vec<Bar> = kept.map(bar).collect();
    save(&bars("seconds of an epoch, with its part of a validation", &drawn), &out.join("ladder.png"))
}
