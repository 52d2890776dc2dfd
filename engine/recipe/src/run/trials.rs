//! Levers that a profile does not show: a step is taken with each, on crops that are made up, and with
//! none.

use hearth_kernels::memory;

use super::made_up::{crops, paced, stepped};
use super::{Cases, Plan};
use crate::advice::{Facts, Finding};
use crate::error::Outcome;
use crate::recipe::Document;

/// A step that is less than this faster is not.
const LEAST: f64 = 0.05;

/// The part of the free memory that a larger batch may take.
const ROOM: f64 = 0.7;

/// What steps with another precision or with more crops win.
pub(super) fn tried(document: &Document, cases: &Cases, facts: &Facts) -> Outcome<Vec<Finding>> {
    let plan = Plan::new(document.clone())?;
    // Two networks that compete do not wait for each other's batches.
    if plan.recipe.learns().generates() || facts.training <= facts.wait {
        return Ok(Vec::new());
    }
    let crops = crops(&plan, cases)?;
    let Some(crop) = crops.first() else { return Ok(Vec::new()) };
    let count = crops.len() * plan.recipe.training.batch_size;
    let base = paced(&plan, crop, count)?;
    let computing = facts.training - facts.wait;
    let with = |sets: &[String]| -> Option<Plan> {
        let mut document = document.clone();
        sets.iter().try_for_each(|set| document.set(set)).ok()?;
        Plan::new(document).ok()
    };
    let mut found = Vec::new();
    for word in ["bf16", "fp16"] {
        let sets = vec![format!("training.precision={word}")];
        // What the device cannot do is no lever.
        let Some(changed) = with(&sets).filter(|changed| changed.precision != plan.precision) else { continue };
        let Ok(step) = paced(&changed, crop, count) else { continue };
        let won = 1.0 - step / base;
        if won >= LEAST {
            found.push(Finding {
                lever: "compute with fewer bits",
                evidence: format!(
                    "a step takes {:.0} ms in {} and {:.0} ms in {word}, tried with this recipe's crops",
                    base * 1e3,
                    plan.precision,
                    step * 1e3
                ),
                line: format!("precision = \"{word}\"        # in [training]"),
                sets,
                seconds: computing * won,
                same_course: false,
            });
        }
    }
    let doubled = plan.recipe.training.batch_size * 2;
    let sets = vec![format!("training.batch_size={doubled}")];
    let fits = || -> Outcome<bool> {
        let (before, free) = (memory::in_use(), hearth_machine::Allowance::now().free as f64);
        Ok((stepped(&plan, crop, count, before)?.peak as f64) < free * ROOM)
    };
    // An epoch of one batch has no second one to join it.
    if cases.training.len() >= 2 * doubled
        && plan.on_processor
        && fits()?
        && let Some(changed) = with(&sets)
        && let Ok(step) = paced(&changed, crop, 2 * count)
    {
        let won = 1.0 - step / (2.0 * base);
        if won >= LEAST {
            found.push(Finding {
                lever: "more cases in a batch",
                evidence: format!(
                    "a step of {count} crops takes {:.0} ms, one of {} crops {:.0} ms: {:.0} % less for each crop",
                    base * 1e3,
                    2 * count,
                    step * 1e3,
                    won * 100.0
                ),
                line: format!(
                    "batch_size = {doubled}        # in [training]; half as many steps, so the rate may have to grow"
                ),
                sets,
                seconds: computing * won,
                same_course: false,
            });
        }
    }
    Ok(found)
}
