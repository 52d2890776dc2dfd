//! The ladder of the fast-training guides: trains a recipe several times, each time with one more of
//! the changes that make it fast, until the validation reaches a target.

mod input;
mod others;
mod pictures;
mod record;
mod records;
mod rungs;
mod table;

use std::path::Path;

use hearth::kernels::use_kernels;
use hearth_registry::Document;
use serde_json::Value;

use super::reach::reach;
use super::{Args, say, stamped};
use crate::error::{Context, Failure, Outcome};
use crate::folders::Reserved;
use crate::run::Plan;
use crate::terminal::bold;
use crate::{folders, note, out};
use input::Input;
use record::{Record, Settings};
use records::Records;
use rungs::{On, Rung, rungs};
use table::Row;

/// The reason in the table for a row that was not chosen.
const LEFT_OUT: &str = "not in --rows";
/// The table as a page.
const PAGE: &str = "ladder.md";

/// Runs the ladder.
pub fn run(args: &Args) -> Outcome {
    let mut input = input::open(args)?;
    for (option, key, value) in [
        ("--epochs", "training.epochs", args.epochs().to_string()),
        ("--device", "training.device", args.device_name().to_owned()),
        ("--tune", "training.tune", args.tune().to_owned()),
        ("--convolutions", "training.convolutions", args.convolutions().to_owned()),
    ] {
        input.document.set_option(option, key, &value)?;
    }
    // Reports errors in the recipe before any training.
    let plan = Plan::new(input.document.clone())?;
    let threads = rayon::current_num_threads();
    let mut rungs = rungs(&plan.recipe, On { processor: plan.on_processor, threads, amp: args.amp })?;
    rungs::only(&mut rungs, &args.rows)?;
    let settings = settings(args, &input, &plan, threads)?;
    let others = args.peer.as_deref().map(|path| others::read(path, &settings)).transpose()?.unwrap_or_default();
    let (mut records, _reserved) = open_records(args, &settings)?;
    let rows = climb(args, &input, &settings, &rungs, &mut records, others);
    use_kernels(true);
    let rows = rows?;
    if !args.json {
        table::lines(&rows).iter().for_each(|line| out!("{line}"));
    }
    if let Some(out) = &args.out {
        for file in [PAGE, pictures::EPOCHS, pictures::DICE, records::FILE] {
            note!("written  {}", out.join(file).display());
        }
    }
    Ok(())
}

/// Trains every row with every seed, except for trainings that are finished. The rows of another program
/// come below ours of the same name, or at the end.
fn climb(
    args: &Args,
    input: &Input,
    settings: &Settings,
    rungs: &[Rung],
    records: &mut Records,
    mut others: Vec<Row>,
) -> Outcome<Vec<Row>> {
    let seeds: Vec<u64> = (0..u64::from(args.seeds.unwrap_or(1))).map(|n| args.seed().saturating_add(n)).collect();
    let mut document = input.document.clone();
    let mut rows: Vec<Row> = Vec::new();
    use_kernels(false);
    for rung in rungs {
        note!("{}", bold(&rung.name));
        if let Some(why) = rung.skipped {
            note!("skipped: {why}");
        } else {
            for (key, value) in &rung.sets {
                document.set_option(&format!("the row {:?}", rung.name), key, value)?;
            }
            if rung.kernels {
                use_kernels(true);
            }
        }
        if rung.left_out {
            note!("{LEFT_OUT}");
        }
        for seed in seeds.iter().filter(|_| rung.skipped.is_none() && !rung.left_out) {
            if records.find(&rung.name, *seed).is_some() {
                note!("seed {seed}: finished before");
                continue;
            }
            let (record, line) = train(args, input, settings, rung, &document, *seed)?;
            records.add(record, &line)?;
        }
        let finished = records.of_row(&rung.name, &seeds);
        let skipped = rung.skipped.or(rung.left_out.then_some(LEFT_OUT)).filter(|_| finished.is_empty());
        rows.push(Row { name: rung.name.clone(), records: finished, skipped, peer: None });
        rows.extend(others.extract_if(.., |other| other.name == rung.name));
        // Written after each row, so that an interrupted run keeps the finished ones.
        args.out.as_deref().map_or(Ok(()), |out| write(out, settings, &rows))?;
    }
    rows.append(&mut others);
    args.out.as_deref().map_or(Ok(()), |out| write(out, settings, &rows))?;
    Ok(rows)
}

/// Trains a row with a seed, and prints its line.
fn train(
    args: &Args,
    input: &Input,
    settings: &Settings,
    rung: &Rung,
    document: &Document,
    seed: u64,
) -> Outcome<(Record, Value)> {
    let mut document = document.clone();
    document.set_option("--seed", "training.seed", &seed.to_string())?;
    let what = || format!("the row {:?}, seed {seed}", rung.name);
    let took = reach(document, &input.data, &args.goal()).while_doing(what)?;
    let record = Record::new(settings.clone(), rung, seed, took);
    let fields = serde_json::to_value(&record)?;
    let line = stamped(fields.clone());
    say(args, fields)?;
    Ok((record, line))
}

/// The settings that the trainings share.
fn settings(args: &Args, input: &Input, plan: &Plan, threads: usize) -> Outcome<Settings> {
    let goal = args.goal();
    if !goal.target.is_finite() {
        return Err(Failure::new(format!("--target {}: expected a number, such as 0.8", goal.target)));
    }
    let recipe_hash = blake3::hash(serde_json::to_string(&plan.recipe)?.as_bytes()).to_hex()[..16].to_owned();
    Ok(Settings {
        recipe: input.recipe.clone(),
        recipe_hash,
        data: input.described.clone(),
        target: goal.target,
        every: goal.every,
        max_epochs: args.epochs(),
        device: args.device_name().to_owned(),
        amp: args.amp.map_or("auto", super::Amp::word).to_owned(),
        threads,
    })
}

/// The finished trainings of `--out --resume`, or none and a new folder.
fn open_records(args: &Args, settings: &Settings) -> Outcome<(Records, Option<Reserved>)> {
    let Some(out) = args.out.as_deref() else { return Ok((Records::new(None), None)) };
    if args.resume && out.join(records::FILE).exists() {
        return Ok((Records::open(out, settings)?, None));
    }
    if out.join(records::FILE).exists() {
        let advice = "add --resume to continue it, or give another folder";
        return Err(Failure::new(format!("--out {} holds a ladder: {advice}", out.display())));
    }
    let reserved = Reserved::new(out)?;
    Ok((Records::new(Some(out)), Some(reserved)))
}

fn write(out: &Path, settings: &Settings, rows: &[Row]) -> Outcome {
    pictures::write(out, settings, rows)?;
    Ok(folders::replace(&out.join(PAGE), table::page(settings, rows))?)
}
