//! The check that all ranks run the same thing: [`agree`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::{At, CommError, Communicator};

/// The facts about a rank's run: names (`version`, `recipe`, `weights`, `data`) and values, usually
/// hashes.
pub type Facts = BTreeMap<String, String>;

/// The reason why ranks do not agree.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AgreeError {
    /// A fact differs: the message names the ranks of each value.
    #[error("the ranks do not run the same: {0}")]
    Differ(String),
    /// The facts could not be exchanged.
    #[error(transparent)]
    Comm(#[from] CommError),
}

/// Compares the facts of all ranks. All ranks get the same answer.
///
/// # Errors
/// If a fact differs or a rank lacks it: names the ranks and hosts that differ from the majority
/// (in a tie, from rank 0). If the exchange fails.
pub fn agree(ranks: &dyn Communicator, facts: &Facts, at: &At) -> Result<(), AgreeError> {
    // A map of strings always serializes.
    let own = serde_json::to_vec(facts).unwrap_or_default();
    let parts = ranks.all_gather(own, at)?;
    let all: Vec<Facts> = parts.iter().map(|part| serde_json::from_slice(part).unwrap_or_default()).collect();
    let differences = differences(&all, ranks.hosts());
    if differences.is_empty() { Ok(()) } else { Err(AgreeError::Differ(differences)) }
}

/// The differences between the facts of the ranks, with the ranks and hosts that differ from the
/// majority; empty if there are none.
pub(crate) fn differences(all: &[Facts], hosts: &[Arc<str>]) -> String {
    let mut differences = String::new();
    let mut names: Vec<&String> = all.iter().flat_map(Facts::keys).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let values: Vec<Option<&str>> = all.iter().map(|facts| facts.get(name).map(String::as_str)).collect();
        let votes = |value: &Option<&str>| values.iter().filter(|other| *other == value).count();
        // The first of the values with most ranks.
        let Some(usual) = values.iter().rev().max_by_key(|value| votes(value)).copied() else { continue };
        let odd: Vec<usize> = (0..values.len()).filter(|rank| values[*rank] != usual).collect();
        if odd.is_empty() {
            continue;
        }
        let separator = if differences.is_empty() { "" } else { "; " };
        let _ = write!(differences, "{separator}{name}: {} on ", usual.unwrap_or("nothing"));
        let others: Vec<String> =
            (0..values.len()).filter(|rank| !odd.contains(rank)).map(|rank| rank.to_string()).collect();
        let _ = write!(differences, "{} {}", if others.len() == 1 { "rank" } else { "ranks" }, others.join(", "));
        for rank in odd {
            let (value, host) = (values[rank].unwrap_or("nothing"), &hosts[rank]);
            let _ = write!(differences, ", but {value} on rank {rank} ({host})");
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    fn compared(all: &[&[(&str, &str)]]) -> Vec<Result<(), AgreeError>> {
        threads::run(all.len(), |ranks| {
            let facts =
                all[ranks.rank()].iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let compared = agree(&ranks, &facts, &At::new("start", 0));
            ranks.finish(&At::new("end", 0)).expect("all arrive");
            compared
        })
    }

    #[test]
    fn ranks_that_run_the_same_agree() {
        let facts: &[_] = &[("version", "1"), ("recipe", "ab")];
        assert_eq!(compared(&[facts; 3]), [const { Ok(()) }; 3]);
    }

    #[test]
    fn the_odd_rank_and_what_differs_are_named() {
        let facts: &[_] = &[("recipe", "ab"), ("version", "1")];
        let other: &[_] = &[("recipe", "cd"), ("version", "1")];
        let said = "the ranks do not run the same: recipe: ab on ranks 0, 2, but cd on rank 1 (this process)";
        for answer in compared(&[facts, other, facts]) {
            assert_eq!(answer.expect_err("they differ").to_string(), said);
        }
        let [first, _] = &compared(&[facts, &[("recipe", "ab")]])[..] else { panic!("two ranks") };
        let said = "the ranks do not run the same: version: 1 on rank 0, but nothing on rank 1 (this process)";
        assert_eq!(first.as_ref().expect_err("they differ").to_string(), said);
    }
}
