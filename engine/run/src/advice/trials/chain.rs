//! Levers of the chain: a case or a batch is prepared with and without each of them.

use std::time::Instant;

use hearth_data::DrawKey;
use hearth_data::spatial::Lazy;

use crate::advice::Finding;
use crate::advice::facts::Facts;
use crate::advice::trials::{LEAST, with};
use crate::cases::Cases;
use crate::memory::dataset;
use crate::plan::Plan;
use hearth_recipe::Outcome;
use hearth_recipe::recipe::{Document, Node};

/// The number of prepared cases, and of repetitions.
const CASES: usize = 2;
const TIMES: usize = 3;

/// The seconds of a case before the first random step, and from it on.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    fixed: f64,
    random: f64,
}

/// Prepares some cases with both plans in turn, and takes the fastest time of each.
fn took(plans: [&Plan; 2], cases: &Cases) -> Outcome<[Took; 2]> {
    let looked_at = &cases.training[..cases.training.len().min(CASES)];
    let mut sums = [Took::default(); 2];
    for item in looked_at {
        let mut best = [Took { fixed: f64::INFINITY, random: f64::INFINITY }; 2];
        for time in 0..TIMES {
            for (plan, best) in plans.iter().zip(&mut best) {
                let start = Instant::now();
                let samples = plan.training.run_deterministic(item.sample())?;
                let between = Instant::now();
                best.fixed = best.fixed.min((between - start).as_secs_f64());
                // The same draws with each lever.
                plan.training.run_random(samples, DrawKey::new(plan.recipe.training.seed, 0, time as u64))?;
                best.random = best.random.min(between.elapsed().as_secs_f64());
            }
        }
        for (sum, best) in sums.iter_mut().zip(best) {
            (sum.fixed, sum.random) = (sum.fixed + best.fixed, sum.random + best.random);
        }
    }
    let count = looked_at.len().max(1) as f64;
    Ok(sums.map(|sum| Took { fixed: sum.fixed / count, random: sum.random / count }))
}

/// The gain per epoch from saved seconds of the threads that prepare batches: at most the time that
/// the training waits, or a part of the saved time if the network uses the same cores.
fn of_an_epoch(saved: f64, plan: &Plan, facts: &Facts) -> f64 {
    let threads = plan.recipe.data.workers.clamp(1, facts.cores.max(1)) as f64;
    let beside = if facts.on_processor { saved / facts.cores.max(1) as f64 } else { 0.0 };
    (saved / threads).min(facts.wait).max(beside)
}

/// Tries sampling spatial steps together.
pub(crate) fn lazy(document: &Document, plan: &Plan, cases: &Cases, facts: &Facts) -> Outcome<Vec<Finding>> {
    let words = match plan.recipe.data.lazy {
        Lazy::Off => &["exact", "on"][..],
        Lazy::Exact => &["on"][..],
        Lazy::On => return Ok(Vec::new()),
    };
    let steps = plan.training.steps();
    // A single step is sampled once in any case.
    if steps.iter().filter(|step| step.is_lazy()).count() < 2 {
        return Ok(Vec::new());
    }
    let all = cases.training.len();
    // Cached cases are prepared once.
    let again = all.saturating_sub(plan.recipe.data.cache.kept(all)) as f64;
    let of_cases = |took: Took| took.fixed * again + took.random * all as f64;
    let mut found = Vec::new();
    for word in words {
        let sets = vec![format!("data.lazy={word}")];
        let Some(changed) = with(document, &sets) else { continue };
        let [before, after] = took([plan, &changed], cases)?;
        let saved = of_cases(before) - of_cases(after);
        if saved < LEAST * of_cases(before) {
            continue;
        }
        let whole = |took: Took| (if again > 0.0 { took.fixed } else { 0.0 } + took.random) * 1e3;
        found.push(Finding {
            lever: "sample spatial steps together",
            evidence: format!(
                "a case takes {:.0} ms in the steps of every epoch, and {:.0} ms with lazy resampling, tried with {} cases",
                whole(before),
                whole(after),
                all.min(CASES)
            ),
            line: match *word {
                "on" => "lazy = \"on\"        # in [data]; interpolates once where there were several".to_owned(),
                word => format!("lazy = \"{word}\"        # in [data]"),
            },
            sets,
            seconds: of_an_epoch(saved, plan, facts),
            same_course: *word == "exact",
        });
    }
    Ok(found)
}

/// Tries random steps on whole batches.
pub(crate) fn batches(document: &Document, plan: &Plan, cases: &Cases, facts: &Facts) -> Outcome<Vec<Finding>> {
    let transforms = &plan.recipe.transforms;
    let Some(first) = first_on_batches(transforms) else { return Ok(Vec::new()) };
    let trains = |step: &Node| step.text("only") != Some("validation");
    let tables: Vec<String> = (transforms.iter().enumerate())
        .map(|(place, step)| match step {
            step if place >= first && trains(step) => {
                step.clone().with("batch", Node::from(true)).to_toml().to_string()
            }
            step => step.to_toml().to_string(),
        })
        .collect();
    let sets = vec![format!("transforms=[{}]", tables.join(", "))];
    let Some(changed) = with(document, &sets) else { return Ok(Vec::new()) };
    let Some([before, after]) = batch_took([plan, &changed], cases)? else { return Ok(Vec::new()) };
    let count = cases.training.len().div_ceil(plan.recipe.training.batch_size) as f64;
    let saved = (before - after) * count;
    if saved < LEAST * before * count {
        return Ok(Vec::new());
    }
    let name = transforms[first].text("name").unwrap_or_default();
    Ok(vec![Finding {
        lever: "transform whole batches",
        evidence: format!(
            "a batch takes {:.0} ms to prepare, and {:.0} ms where {name} and what follows it work on the whole batch, \
             with one draw for all of it",
            before * 1e3,
            after * 1e3
        ),
        line: format!("batch = true        # for {name} and each transform behind it"),
        sets,
        seconds: of_an_epoch(saved, plan, facts),
        same_course: false,
    }])
}

/// Transforms that process channels separately: they treat the entries of a batch as channels.
const APART: [&str; 12] = [
    "ColorJitter",
    "RandFlip",
    "RandRotate90",
    "RandAxisFlip",
    "RandRotate",
    "RandZoom",
    "RandAffine",
    "RandScaleIntensity",
    "RandShiftIntensity",
    "ScaleIntensityRange",
    "ThresholdIntensity",
    "EnsureType",
];

/// The first transform that may work on batches: a random one from which on all transforms process
/// channels separately.
fn first_on_batches(transforms: &[Node]) -> Option<usize> {
    if transforms.iter().any(|step| step.get("batch").is_some()) {
        return None;
    }
    let name = |step: &Node| step.text("name").map(|name| name.strip_suffix('d').unwrap_or(name).to_owned());
    let apart = |step: &Node| match name(step).as_deref() {
        Some("NormalizeIntensity") => step.get("channel_wise").is_some_and(|by| *by == Node::from(true)),
        Some(name) => APART.contains(&name),
        None => false,
    };
    let trains = |step: &Node| step.text("only") != Some("validation");
    let from = transforms.iter().rposition(|step| trains(step) && !apart(step)).map_or(0, |place| place + 1);
    let random = |step: &Node| name(step).is_some_and(|name| name.starts_with("Rand") || name == "ColorJitter");
    transforms.iter().enumerate().skip(from).find(|(_, step)| random(step)).map(|(place, _)| place)
}

/// The seconds that two plans need to prepare a batch, measured in turn; `None` without a case.
fn batch_took(plans: [&Plan; 2], cases: &Cases) -> Outcome<Option<[f64; 2]>> {
    let [Some(one), Some(other)] = [dataset::first_case(plans[0], cases)?, dataset::first_case(plans[1], cases)?]
    else {
        return Ok(None);
    };
    let mut best = [f64::INFINITY; 2];
    for epoch in 0..TIMES as u64 {
        for (loader, best) in [&one, &other].into_iter().zip(&mut best) {
            let start = Instant::now();
            drop(loader.epoch(epoch, 0).next().transpose()?);
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(Some(best))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_recipe::recipe::{Recipe, bundled};

    #[test]
    fn steps_work_on_batches_where_entries_stay_apart() {
        let first = |name: &str| {
            let document = bundled::find(name).expect("bundled").document().expect("sound");
            let transforms = Recipe::read(&document).expect("sound").transforms;
            let first = first_on_batches(&transforms)?;
            transforms[first].text("name").map(str::to_owned)
        };
        assert_eq!(first("pathology-regular").as_deref(), Some("ColorJitter"));
        assert_eq!(first("brats-regular").as_deref(), Some("RandFlip"));
        assert_eq!(first("spleen-regular"), None, "crops of a case are cut one by one");
        assert_eq!(first("pathology"), None, "they do already");
    }
}
