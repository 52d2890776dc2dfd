//! `hearth profile --apply`: tries the findings one after the other, and keeps those that are faster.

use std::path::Path;

use hearth_files::Scratch;
use hearth_registry::counted;
use hearth_run::advice::{Candidate, Facts, Finding, converging};
use serde_json::json;

use super::course::learned;
use super::{Args, measured};
use crate::error::{Context, Outcome};
use crate::folders;
use crate::picture::{Bar, bars, save};
use crate::recipe::Document;
use crate::run::{Plan, Profiled, Profiling};
use crate::table::{self, Lean};
use crate::terminal::bold;
use crate::{note, out};

/// The relative difference that two equal runs may have.
const NOISE: f64 = 0.03;

/// A change that was tried.
struct Tried {
    finding: Finding,
    /// Seconds of an epoch with the change, or of the part of the training that now teaches what an
    /// epoch taught before; `None` if it was not tried.
    took: Option<f64>,
    kept: bool,
}

/// Tries findings until none of the rest is faster.
pub fn apply(args: &Args, document: Document, first: Profiled, how: &Profiling) -> Outcome {
    let Some(facts) = &first.facts else { return Ok(()) };
    let start = facts.cost();
    let original = document.clone();
    let mut document = document;
    let (mut best, mut findings, mut tried): (f64, Vec<Finding>, Vec<Tried>) = (start, first.findings, Vec::new());
    while let Some(finding) = next(&findings, &tried) {
        if !finding.same_course && args.check.is_none() {
            note!("not tried: {}; it changes what is learned (--check EPOCHS tries and compares it)", finding.lever);
            tried.push(Tried { finding, took: None, kept: false });
            continue;
        }
        note!("{}", bold(&format!("trying: {}", finding.lever)));
        let mut changed = document.clone();
        finding.sets.iter().try_for_each(|set| changed.set(set))?;
        let folder = Scratch::new_in(args.out(), ".trying-")
            .while_doing(|| format!("cannot write into {}", args.out().display()))?;
        let found = measured(args, &changed, folder.path(), how)?;
        let took = found.facts.as_ref().map_or(f64::INFINITY, Facts::cost);
        let mut kept = took < best * (1.0 - NOISE);
        if kept {
            // Measured in turn: the machine may have had other work before.
            let again = measured(args, &document, folder.path().join("again").as_path(), how)?;
            best = again.facts.as_ref().map_or(best, |facts| facts.cost().min(best));
            kept = took < best * (1.0 - NOISE);
        }
        note!("{took:.2} s an epoch, before {best:.2} s: {}", if kept { "kept" } else { "taken back" });
        if kept {
            (best, document, findings) = (took, changed, found.findings);
        }
        tried.push(Tried { finding, took: Some(took), kept });
    }
    if let Some(epochs) = args.check {
        (document, best) = compared(args, &original, document, &mut tried, epochs, how, best)?;
        (document, best) = converged(args, document, &mut tried, epochs, how, best)?;
    }
    let file = args.out().join("faster.toml");
    folders::replace(&file, &commented(&document, &tried, start, best)?)?;
    ladder(args.out(), &tried, start)?;
    out!("{}", bold(&format!("{start:.2} s an epoch became {best:.2} s: {:.1} times faster", start / best)));
    out!("recipe   {}", file.display());
    out!("ladder   {}", args.out().join("ladder.png").display());
    Ok(())
}

/// Reverts changes that affect learning, one after the other, until the recipe learns as much as
/// before. Returns the recipe, and the seconds of an epoch.
fn compared(
    args: &Args,
    original: &Document,
    changed: Document,
    tried: &mut [Tried],
    epochs: u64,
    how: &Profiling,
    mut best: f64,
) -> Outcome<(Document, f64)> {
    let mut document = changed;
    let doubtful = |tried: &[Tried]| tried.iter().rposition(|tried| tried.kept && !tried.finding.same_course);
    if doubtful(tried).is_none() {
        return Ok((document, best));
    }
    let before = learned(args, original, epochs)?;
    while let Some(last) = doubtful(tried) {
        let after = learned(args, &document, epochs)?;
        note!("{} after {}: {before} before, {after} now", before.metric, counted(epochs as usize, "epoch"));
        if after.is_as_good_as(&before) {
            break;
        }
        note!("taken back, as less is learned: {}", tried[last].finding.lever);
        tried[last].kept = false;
        document = original.clone();
        let kept = tried.iter().filter(|tried| tried.kept).flat_map(|tried| &tried.finding.sets);
        kept.into_iter().try_for_each(|set| document.set(set))?;
        let folder = Scratch::new_in(args.out(), ".trying-")
            .while_doing(|| format!("cannot write into {}", args.out().display()))?;
        best = measured(args, &document, folder.path(), how)?.facts.as_ref().map_or(best, Facts::cost);
    }
    Ok((document, best))
}

/// Trains with each loss and optimizer that may converge faster, and keeps those that reach the
/// recipe's result in fewer epochs. Returns the recipe, and the seconds of the part of the training
/// that corresponds to an epoch.
fn converged(
    args: &Args,
    document: Document,
    tried: &mut Vec<Tried>,
    epochs: u64,
    how: &Profiling,
    best: f64,
) -> Outcome<(Document, f64)> {
    let (mut document, mut best) = (document, best);
    let candidates = converging(&document, &Plan::new(document.clone())?.recipe);
    if candidates.is_empty() {
        return Ok((document, best));
    }
    let before = learned(args, &document, epochs)?;
    let (mut now, started) = (before.clone(), before.reached(&before).unwrap_or(epochs));
    for Candidate { lever, line, sets } in candidates {
        note!("{}", bold(&format!("trying: {lever}")));
        let mut changed = document.clone();
        sets.iter().try_for_each(|set| changed.set(set))?;
        let after = match learned(args, &changed, epochs) {
            Err(failure) if failure.is_interruption() => return Err(failure),
            // A learning rate that is too high ends in non-finite values.
            Err(failure) => {
                note!("taken back: {}", failure.line());
                continue;
            }
            Ok(after) => after,
        };
        let folder = Scratch::new_in(args.out(), ".trying-")
            .while_doing(|| format!("cannot write into {}", args.out().display()))?;
        let cost = measured(args, &changed, folder.path(), how)?.facts.as_ref().map_or(f64::INFINITY, Facts::cost);
        let reached = after.reached(&before);
        let took = reached.map_or(f64::INFINITY, |reached| cost * reached as f64 / started as f64);
        let sooner = reached.map_or("never".to_owned(), |epoch| format!("by epoch {epoch}"));
        let evidence = format!(
            "{} after {}: {before} before, {after} with it, which reaches {:.4} {sooner} instead of epoch {started}; an epoch \
             takes {cost:.2} s",
            before.metric,
            counted(epochs as usize, "epoch"),
            before.mean()
        );
        let kept = took < best * (1.0 - NOISE) && after.is_as_good_as(&now);
        note!("{evidence}: {}", if kept { "kept" } else { "taken back" });
        let seconds = best - took;
        if kept {
            (best, document, now) = (took, changed, after);
        }
        let finding = Finding { lever, evidence, line, sets, seconds, same_course: false };
        tried.push(Tried { finding, took: took.is_finite().then_some(took), kept });
    }
    Ok((document, best))
}

/// The finding with the largest gain that was not tried. Findings that no key changes are excluded.
fn next(findings: &[Finding], tried: &[Tried]) -> Option<Finding> {
    let known = |finding: &Finding| tried.iter().any(|tried| tried.finding.sets == finding.sets);
    findings.iter().find(|finding| !finding.sets.is_empty() && !known(finding)).cloned()
}

/// The recipe, after comments that describe the changes and their reasons.
fn commented(document: &Document, tried: &[Tried], start: f64, best: f64) -> Outcome<String> {
    let mut text = format!(
        "# Made by `hearth profile --apply`: {start:.2} s an epoch, with its part of a validation, became {best:.2} s.\n"
    );
    let mut before = start;
    for Tried { finding, took, kept } in tried {
        let verdict = match took {
            None if finding.seconds.is_finite() => "not tried: it changes what is learned".to_owned(),
            None => "taken back: it never learned as much".to_owned(),
            Some(took) if *kept => format!("{before:.2} s to {took:.2} s"),
            Some(took) => format!("{took:.2} s, taken back"),
        };
        text.push_str(&format!("# {}: {verdict}\n#   {}\n", finding.lever, finding.evidence));
        if *kept {
            before = took.unwrap_or(before);
        }
    }
    text.push('\n');
    text.push_str(&Plan::new(document.clone())?.recipe.to_toml()?);
    Ok(text)
}

/// Writes the table and the picture of the gain of each change.
fn ladder(out: &Path, tried: &[Tried], start: f64) -> Outcome {
    let mut rows = vec![("as it was", start, true)];
    rows.extend(tried.iter().filter_map(|tried| Some((tried.finding.lever, tried.took?, tried.kept))));
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
    save(&bars("seconds of an epoch, with its part of a validation", &drawn), &out.join("ladder.png"))?;
    Ok(())
}
