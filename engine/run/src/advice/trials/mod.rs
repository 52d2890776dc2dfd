//! Levers that a profile does not show: a step on synthetic crops is measured with and without each
//! of them.

mod chain;

use hearth_data::Sample;
use hearth_kernels::memory;

use crate::advice::Finding;
use crate::advice::facts::Facts;
use crate::cases::Cases;
use crate::memory::synthetic::samples::crops;
use crate::memory::synthetic::steps::{paced, stepped};
use crate::plan::Plan;
use hearth_recipe::recipe::{Document, Node};
use hearth_recipe::{Outcome, notice};

/// The smallest relative gain of a step that counts.
const LEAST: f64 = 0.05;

/// The share of the free memory that a larger batch may use.
const ROOM: f64 = 0.7;

/// The plan with some changes; `None` for invalid changes.
fn with(document: &Document, sets: &[String]) -> Option<Plan> {
    let mut document = document.clone();
    sets.iter().try_for_each(|set| document.set(set)).ok()?;
    Plan::new(document).ok()
}

/// The number of rounds in which a gain must show.
const ROUNDS: usize = 3;

/// The seconds of a step without and with a change, and the relative gain for each crop.
struct Pace {
    before: f64,
    after: f64,
    won: f64,
}

/// Measures two plans in turn, because other load on the machine is no gain of a lever: a gain counts if
/// it shows in every round, and then as the smallest one. `None` without a gain.
fn in_turn(plan: &Plan, changed: &Plan, crop: &Sample, counts: [usize; 2]) -> Outcome<Option<Pace>> {
    let mut best = Pace { before: f64::INFINITY, after: f64::INFINITY, won: f64::INFINITY };
    let times = counts[1] as f64 / counts[0] as f64;
    for _ in 0..ROUNDS {
        let (before, after) = (paced(plan, crop, counts[0])?, paced(changed, crop, counts[1])?);
        let won = 1.0 - after / (times * before);
        if won < LEAST {
            return Ok(None);
        }
        best = Pace { before: best.before.min(before), after: best.after.min(after), won: best.won.min(won) };
    }
    best.won = best.won.min(1.0 - best.after / (times * best.before));
    Ok((best.won >= LEAST).then_some(best))
}

/// The result of a trial. One that fails, as without memory, is reported, and the others are still tried.
fn attempted<T>(lever: &str, trial: impl FnOnce() -> Outcome<T>) -> Option<T> {
    match trial() {
        Ok(found) => Some(found),
        Err(why) => {
            notice!("not measured: {lever}: {}", why.line());
            None
        }
    }
}

/// Whether as much memory as a step takes is left, with room; reports a trial that is skipped without.
fn fits(lever: &str, peak: f64) -> bool {
    let allowance = hearth_machine::Allowance::now();
    let fits = peak < allowance.free as f64 * ROOM;
    if !fits {
        let (takes, free) = (hearth_machine::readable(peak as u64), hearth_machine::readable(allowance.free));
        notice!("not measured: {lever}: a step takes {takes}, and {free} of {allowance} are left");
    }
    fits
}

/// Measures the gain of other ways to prepare cases, and of steps with another precision, with more
/// crops, or without label checks.
pub(crate) fn tried(document: &Document, cases: &Cases, facts: &Facts) -> Outcome<Vec<Finding>> {
    let plan = Plan::new(document.clone())?;
    let lazy = attempted("sample spatial steps together", || chain::lazy(document, &plan, cases, facts));
    let batches = attempted("transform whole batches", || chain::batches(document, &plan, cases, facts));
    let mut found: Vec<Finding> = lazy.into_iter().chain(batches).flatten().collect();
    // Two competing networks do not wait for each other's batches.
    if plan.recipe.learns().generates() || facts.training <= facts.wait {
        return Ok(found);
    }
    let Some(crops) = attempted("other steps", || crops(&plan, cases)) else { return Ok(found) };
    let Some(crop) = crops.first() else { return Ok(found) };
    let count = crops.len() * plan.recipe.training.batch_size;
    notice!("trying levers that a profile does not show, each in turn with the recipe");
    // What is measured first also warms up.
    if attempted("other steps", || paced(&plan, crop, count)).is_none() {
        return Ok(found);
    }
    let computing = facts.training - facts.wait;
    for word in ["bf16", "fp16"] {
        let sets = vec![format!("training.precision={word}")];
        // Precisions that the device does not support are skipped.
        let Some(changed) = with(document, &sets).filter(|changed| changed.precision != plan.precision) else {
            continue;
        };
        let pace = attempted(&format!("precision {word}"), || in_turn(&plan, &changed, crop, [count, count]));
        let Some(pace) = pace.flatten() else { continue };
        found.push(Finding {
            lever: "compute with fewer bits",
            evidence: format!(
                "a step takes {:.0} ms in {} and {:.0} ms in {word}, tried with this recipe's crops",
                pace.before * 1e3,
                plan.precision,
                pace.after * 1e3
            ),
            line: format!("precision = \"{word}\"        # in [training]"),
            sets,
            seconds: computing * pace.won,
            same_course: false,
        });
    }
    let checks = attempted("read nothing back for the loss", || checks(document, &plan, crop, count)).flatten();
    found.extend(checks.map(|(evidence, won, sets)| Finding {
        lever: "read nothing back for the loss",
        evidence,
        line: "check_labels = false        # in [loss]; wrong labels are no longer an error".to_owned(),
        sets,
        seconds: computing * won,
        // The steps are the same, but an error is no longer found.
        same_course: false,
    }));
    let doubled = plan.recipe.training.batch_size * 2;
    let sets = vec![format!("training.batch_size={doubled}")];
    let lever = "more cases in a batch";
    let before = memory::in_use();
    let fits = || {
        let step = attempted(lever, || stepped(&plan, crop, count, before));
        step.is_some_and(|step| fits(lever, 2.0 * step.peak as f64))
    };
    // An epoch of a single batch has no second one to merge with.
    if cases.training.len() >= 2 * doubled
        && plan.on_processor
        && fits()
        && let Some(changed) = with(document, &sets)
        && let Some(Some(pace)) = attempted(lever, || in_turn(&plan, &changed, crop, [count, 2 * count]))
    {
        found.push(Finding {
            lever,
            evidence: format!(
                "a step of {count} crops takes {:.0} ms, one of {} crops {:.0} ms: {:.0} % less for each crop",
                pace.before * 1e3,
                2 * count,
                pace.after * 1e3,
                pace.won * 100.0
            ),
            line: format!(
                "batch_size = {doubled}        # in [training]; half as many steps, so the rate may have to grow"
            ),
            sets,
            seconds: computing * pace.won,
            same_course: false,
        });
    }
    Ok(found)
}

/// Measures a loss that reads predictions and labels back to check them: returns a description, its
/// share of a step, and the change.
fn checks(
    document: &Document,
    plan: &Plan,
    crop: &Sample,
    count: usize,
) -> Outcome<Option<(String, f64, Vec<String>)>> {
    let sets = vec!["loss.check_labels=false".to_owned()];
    let is_off = |node: &Node| *node == Node::from(false);
    let off = document.root().get("loss").and_then(|loss| loss.get("check_labels")).is_some_and(is_off);
    // A loss without this option checks nothing.
    let Some(changed) = with(document, &sets).filter(|_| !off) else { return Ok(None) };
    let Some(pace) = in_turn(plan, &changed, crop, [count, count])? else { return Ok(None) };
    let evidence = format!(
        "a step takes {:.1} ms, and {:.1} ms where the loss does not read back whether values are finite and labels are \
         classes",
        pace.before * 1e3,
        pace.after * 1e3
    );
    Ok(Some((evidence, pace.won, sets)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_recipe::RecipeError;

    #[test]
    fn a_trial_that_fails_or_does_not_fit_is_skipped() {
        assert_eq!(attempted("a lever", || Ok(1)), Some(1));
        assert_eq!(attempted::<i32>("a lever", || Err(RecipeError::new("no memory"))), None);
        assert!(fits("a lever", 1.0) && !fits("a lever", f64::MAX));
    }
}
