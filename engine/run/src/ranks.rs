//! The part of a data set for each rank of a distributed run, and the work that ranks do together.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use hearth_data::{DistributedSampler, Item, PartitionOptions, Sampler, SharedSampler, partition_dataset};
use hearth_train::distributed::nccl::{self, NcclError};
use hearth_train::distributed::{self, At, Share, Waits};
use hearth_train::{Ranks, device};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cases::Cases;
use crate::cases::seed32;
use crate::plan::Plan;
use hearth_recipe::recipe::{Cards, Mode};
use hearth_recipe::{At as _, Context, Outcome, RecipeError};
use hearth_recipe::{failure, warning};
use hearth_registry::counted;

/// The training cases of a rank, and their order.
pub struct TrainingPart {
    /// The cases.
    pub items: Vec<Item>,
    /// The order of an epoch, if it differs from that of a loader.
    pub sampler: Option<Box<dyn Sampler>>,
}

/// The training part of a rank. Depending on `distributed.mode` it has its own part, of the same
/// size as the others (the first cases of the shuffled list are repeated if they do not divide
/// evenly), or a part of each batch.
pub fn training(plan: &Plan, items: Vec<Item>, ranks: Option<&Ranks>) -> Outcome<TrainingPart> {
    let seed = plan.recipe.training.seed;
    let ordered = |items: &[Item], ranks: usize, seed: u64| {
        let sampler = plan.recipe.data.sampler.as_ref().map(|sampler| sampler.sampler(items, ranks, seed)).transpose();
        sampler.map_err(|fault| plan.document.located("data.sampler", fault))
    };
    let Some(ranks) = ranks.filter(|ranks| ranks.world() > 1) else {
        let sampler = ordered(&items, 1, seed)?;
        return Ok(TrainingPart { items, sampler });
    };
    let (cases, world, rank) = (items.len(), ranks.world(), ranks.rank());
    let doing = || format!("{cases} training cases for {world} ranks");
    match plan.recipe.distributed.mode {
        Mode::Partition => {
            let options =
                PartitionOptions { shuffle: true, seed: seed32(seed), drop_last: false, even_divisible: true };
            let parts = partition_dataset(cases, world, options).while_doing(doing)?;
            let items: Vec<Item> = parts[rank].iter().map(|place| items[*place].clone()).collect();
            // Each rank draws its own random numbers.
            let sampler = ordered(&items, world, seed ^ ((rank as u64) << 32))?;
            Ok(TrainingPart { items, sampler })
        }
        Mode::Exact => {
            let sampler: Box<dyn Sampler> = match ordered(&items, 1, seed)? {
                Some(all) => Box::new(SharedSampler::new(all, world, rank).while_doing(doing)?),
                None => Box::new(DistributedSampler::new(cases, world, rank).while_doing(doing)?.seed(seed)),
            };
            Ok(TrainingPart { items, sampler: Some(sampler) })
        }
    }
}

/// The evaluated cases of a rank: each case goes to one rank, in turn. A rank without cases takes
/// the first one and its result is ignored, so that all ranks have the same events.
pub fn evaluated(items: &[Item], ranks: Option<&Ranks>) -> Vec<Item> {
    let Some(ranks) = ranks else { return items.to_vec() };
    let own: Vec<Item> = Share::new(items.len(), ranks.world()).of(ranks.rank()).map(|i| items[i].clone()).collect();
    if own.is_empty() { items.iter().take(1).cloned().collect() } else { own }
}

/// Whether the first rank has reported why all ranks end.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Whether the first rank has reported why all ranks end, so that the others need not repeat it.
pub fn is_reported() -> bool {
    REPORTED.load(Ordering::Relaxed)
}

/// Returns the rank's own result if all ranks succeeded; if one failed, all fail with its error.
///
/// # Errors
/// This rank's own error, that of another rank, which it names, or missing ranks.
pub fn together<T>(ranks: Option<&Ranks>, phase: &'static str, own: Outcome<T>) -> Outcome<T> {
    let Some(ranks) = ranks else { return own };
    let said = own.as_ref().err().map(RecipeError::line);
    let all = ranks.gather(&said, phase, 0).map_err(RecipeError::from_error)?;
    let Some((rank, said)) = all.into_iter().enumerate().find_map(|(rank, said)| said.map(|said| (rank, said))) else {
        return own;
    };
    // The first rank needs no prefix.
    let why = if rank == 0 { said } else { format!("rank {rank}: {said}") };
    if ranks.rank() == 0 {
        failure!("{why}");
    }
    // A launcher ends all processes when one has ended, so this waits until the error is reported.
    let heard = ranks.communicator().barrier(&At::new(phase, 1).within(ranks.deadline));
    REPORTED.store(heard.is_ok(), Ordering::Relaxed);
    match own {
        Ok(_) => Err(RecipeError::new(why)),
        failed => failed,
    }
}

/// The first digits of the hash of a text, by which [`same`] compares long ones.
pub fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

/// A list of cases for [`same`]: their number, and a hash of their names.
pub fn listed(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<String> = names.into_iter().collect();
    format!("{} ({})", counted(names.len(), "case"), digest(&names.join("\n")))
}

/// Checks that all ranks are about to do the same work: each takes its cases by their places in the list,
/// so that another list on one rank would lose some of them. `facts`: names, and values that must be equal.
///
/// # Errors
/// A rank that differs, with its rank, host and difference.
pub fn same<const N: usize>(ranks: Option<&Ranks>, facts: [(&str, String); N]) -> Outcome {
    let Some(ranks) = ranks else { return Ok(()) };
    let version = ("the program's version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
    let at = At::new("comparing the ranks", 0).within(ranks.deadline);
    let compared = distributed::agree(ranks.communicator(), &facts.chain([version]).collect(), &at);
    compared.map_err(RecipeError::from_error)
}

/// Checks that all ranks run the same program, recipe and cases.
///
/// # Errors
/// A rank that differs, with its rank, host and difference.
pub fn agree(plan: &Plan, data: &Path, ranks: &Ranks) -> Outcome {
    let names = |items: &[Item]| items.iter().map(|item| item.case.clone()).collect::<Vec<_>>().join("\n");
    let data = match Cases::open(data, &plan.recipe) {
        Ok(cases) => digest(&(names(&cases.training) + "\n\n" + &names(&cases.validation))),
        Err(error) => error.line(),
    };
    // Each rank has its own device.
    let mut recipe = plan.recipe.clone();
    recipe.training.device.clear();
    same(Some(ranks), [("the recipe", digest(&recipe.to_toml()?)), ("the cases", data)])
}

/// Sets up the sum of gradients on the ranks' GPUs, depending on `distributed.cards`.
///
/// # Errors
/// GPU sums that are required but not available, or a missing rank.
pub fn over_cards(plan: &Plan, ranks: Ranks) -> Outcome<Ranks> {
    let (cards, own) = (plan.recipe.distributed.cards, device::linked_card(&plan.device));
    if cards == Cards::Off {
        return Ok(ranks);
    }
    if cards == Cards::Auto && gathered(&ranks, "which ranks compute on cards", &own.is_some())?.contains(&false) {
        return Ok(ranks);
    }
    match nccl::join(ranks.shared_communicator(), own, ranks.deadline) {
        Ok(over) => {
            let mut ranks = ranks.over(over);
            if !stays_on_cards(plan, &mut ranks)? {
                ranks.overlap.get_or_insert(false);
            }
            Ok(ranks)
        }
        // The communication between the GPUs itself has failed.
        Err(error @ NcclError::Comm(_)) => Err(RecipeError::from_error(error)),
        Err(error) if cards == Cards::Auto => {
            warning!("gradients are sent through the host's memory: {error}");
            Ok(ranks)
        }
        Err(error) => Err(plan.document.error_at("distributed.cards", error.to_string())),
    }
}

/// Keeps gradients on the GPUs, if the recipe and the GPUs allow it.
fn stays_on_cards(plan: &Plan, ranks: &mut Ranks) -> Outcome<bool> {
    if !plan.recipe.distributed.may_stay_on_cards() {
        return Ok(false);
    }
    let by_recipe = std::mem::replace(&mut ranks.how.order, distributed::Order::Any);
    match ranks.stay_on_card(&plan.device).map_err(RecipeError::from_error)? {
        Ok(()) => Ok(true),
        Err(why) => {
            ranks.how.order = by_recipe;
            warning!("gradients are copied from the GPUs to be added: {why}");
            Ok(false)
        }
    }
}

/// Collects one value from each rank on all of them, in rank order.
pub fn gathered<T: Serialize + DeserializeOwned>(ranks: &Ranks, phase: &'static str, own: &T) -> Outcome<Vec<T>> {
    ranks.gather(own, phase, 0).map_err(RecipeError::from_error)
}

/// The time that each rank waited for others.
pub fn waits(ranks: &Ranks) -> Outcome<Vec<Waits>> {
    let at = At::new("the end", 0).within(ranks.deadline);
    distributed::gather_waits(ranks.communicator(), &at).map_err(RecipeError::from_error)
}

/// Waits until all ranks have finished, so that no rank waits any more.
pub fn finish(ranks: &Ranks) -> Outcome {
    let at = At::new("the end", 1).within(ranks.deadline);
    ranks.communicator().finish(&at).map_err(RecipeError::from_error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hearth_train::distributed::threads;

    use super::*;

    /// What `same` says to each of two ranks, of which one has these cases, and the other those.
    fn compared(cases: [&[&str]; 2]) -> Vec<Result<(), String>> {
        threads::run(2, |communicator| {
            let ranks = Ranks::new(Arc::new(communicator));
            let own = cases[ranks.rank()].iter().map(|name| (*name).to_owned());
            let found = same(Some(&ranks), [("the cases", listed(own))]).map_err(|error| error.line());
            finish(&ranks).expect("both arrive");
            found
        })
    }

    #[test]
    fn ranks_that_would_lose_cases_of_each_other_are_refused() {
        assert!(compared([&["a", "b", "c"], &["a", "b", "c"]]).iter().all(Result::is_ok));
        for found in compared([&["a", "b", "c"], &["a", "c"]]) {
            let error = found.expect_err("refused");
            assert!(error.contains("the cases: 3 cases (") && error.contains("but 2 cases ("), "{error}");
            assert!(error.contains("on rank 1"), "{error}");
        }
        // The same number of others, and another order.
        for cases in [[&["a", "b"], &["a", "c"]], [&["a", "b"], &["b", "a"]]] {
            assert!(compared(cases.map(|names| &names[..])).iter().all(Result::is_err));
        }
        assert!(same(None, [("the cases", String::new())]).is_ok());
    }
}
