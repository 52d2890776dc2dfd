//! The report of each rank on its GPU before the GPUs are connected: [`Presence`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::NcclError;
use crate::agree::differences;
use crate::{At, Communicator, Facts};

/// A rank's library and GPU, or the reason why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Presence {
    /// The library, its version, and the GPU's address on the bus.
    Ready { library: String, version: String, bus: String },
    /// It cannot use a GPU.
    Failed(String),
    /// It was not connected in time, perhaps because of another rank.
    Late(String),
}

/// Exchanges the reports of all ranks.
///
/// # Errors
/// If the exchange fails.
pub(super) fn exchange(base: &dyn Communicator, own: &Presence, at: &At) -> Result<Vec<Presence>, NcclError> {
    let own = serde_json::to_vec(own).unwrap_or_default();
    let unreadable = |error: serde_json::Error| Presence::Failed(format!("its report cannot be read: {error}"));
    let parts = base.all_gather(own, at)?;
    Ok(parts.iter().map(|part| serde_json::from_slice(part).unwrap_or_else(unreadable)).collect())
}

/// Checks whether the ranks can be connected. All ranks get the same answer.
///
/// # Errors
/// If a rank has no GPU, the libraries differ, or two ranks of a host share a GPU without
/// `may_share`.
pub(super) fn check(all: &[Presence], hosts: &[Arc<str>], may_share: bool) -> Result<(), NcclError> {
    let failed = |presence: &Presence| matches!(presence, Presence::Failed(_));
    let late = |presence: &Presence| matches!(presence, Presence::Late(_));
    // A rank that failed is the reason why others are late.
    if let Some(rank) = all.iter().position(failed).or_else(|| all.iter().position(late))
        && let Presence::Failed(why) | Presence::Late(why) = &all[rank]
    {
        return Err(NcclError::Rank { rank, host: hosts[rank].clone(), why: why.clone() });
    }
    let mut facts = Vec::new();
    let mut cards: Vec<(usize, &str)> = Vec::new();
    for (rank, presence) in all.iter().enumerate() {
        if let Presence::Ready { library, version, bus } = presence {
            facts.push(Facts::from([("version".to_owned(), format!("{library} {version}"))]));
            cards.push((rank, bus));
        }
    }
    let differences = differences(&facts, hosts);
    if !differences.is_empty() {
        return Err(NcclError::Differ(differences));
    }
    for (second, card) in &cards {
        let same = |(first, other): &&(usize, &str)| first < second && other == card && hosts[*first] == hosts[*second];
        if let (Some((first, _)), false) = (cards.iter().find(same), may_share) {
            let (host, card) = (hosts[*first].clone(), (*card).to_owned());
            return Err(NcclError::SharedCard { first: *first, second: *second, host, card });
        }
    }
    Ok(())
}

/// The index of a rank's GPU: the ranks of a host use the GPUs in turn. If each rank sees only one
/// GPU, because the launcher sets `CUDA_VISIBLE_DEVICES`, this is 0 for all of them.
pub fn card_of(local_rank: usize, cards: usize) -> usize {
    local_rank % cards.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(library: &str, version: &str, bus: &str) -> Presence {
        Presence::Ready { library: library.to_owned(), version: version.to_owned(), bus: bus.to_owned() }
    }

    fn checked(all: &[Presence], hosts: &[&str], may_share: bool) -> Result<(), String> {
        let hosts: Vec<Arc<str>> = hosts.iter().map(|host| (*host).into()).collect();
        check(all, &hosts, may_share).map_err(|error| error.to_string())
    }

    #[test]
    fn ranks_with_cards_of_their_own_are_connected() {
        let (a, b) = (ready("NCCL", "2.21.5", "0000:01:00.0"), ready("NCCL", "2.21.5", "0000:02:00.0"));
        assert_eq!(checked(&[a.clone(), b.clone(), a, b], &["node-a", "node-a", "node-b", "node-b"], false), Ok(()));
    }

    #[test]
    fn the_rank_that_differs_is_named() {
        let a = ready("NCCL", "2.21.5", "0000:01:00.0");
        let hosts = ["node-a", "node-b", "node-c"];
        assert_eq!(
            checked(&[a.clone(), ready("NCCL", "2.20.3", "0000:01:00.0"), a.clone()], &hosts, false),
            Err("the ranks have different libraries for their GPUs: version: NCCL 2.21.5 on ranks 0, 2, but NCCL 2.20.3 \
                 on rank 1 (node-b); install the same on every host"
                .to_owned())
        );
        let other = checked(&[a.clone(), a.clone(), ready("RCCL", "2.21.5", "0000:01:00.0")], &hosts, false);
        assert!(other.is_err_and(|said| said.contains("but RCCL 2.21.5 on rank 2 (node-c)")));
        assert_eq!(
            checked(&[a.clone(), Presence::Failed("there is no GPU 3".to_owned()), a], &hosts, false),
            Err("rank 1 on node-b cannot be connected over its GPU: there is no GPU 3".to_owned())
        );
    }

    #[test]
    fn a_rank_that_failed_is_named_before_those_that_waited_for_it() {
        let (late, failed) = (Presence::Late("not connected".to_owned()), Presence::Failed("no card".to_owned()));
        let said = checked(&[late.clone(), failed], &["node-a", "node-b"], false).expect_err("it failed");
        assert_eq!(said, "rank 1 on node-b cannot be connected over its GPU: no card");
        let said = checked(&[ready("NCCL", "2.21.5", "a"), late], &["node-a", "node-b"], false);
        assert!(said.is_err_and(|said| said.contains("rank 1 on node-b")));
    }

    #[test]
    fn two_ranks_of_a_host_share_no_card_unless_they_may() {
        let a = ready("NCCL", "2.21.5", "0000:01:00.0");
        let all = [ready("NCCL", "2.21.5", "0000:02:00.0"), a.clone(), a];
        let hosts = ["node-b", "node-a", "node-a"];
        let said = checked(&all, &hosts, false).expect_err("one card");
        assert!(said.starts_with("ranks 1 and 2 on node-a have the same GPU (0000:01:00.0): start at most"), "{said}");
        assert_eq!(checked(&all, &hosts, true), Ok(()));
        assert_eq!(checked(&all, &["node-b", "node-a", "node-c"], false), Ok(()));
    }

    #[test]
    fn cards_take_turns() {
        assert_eq!([0, 1, 2, 3, 4].map(|rank| card_of(rank, 4)), [0, 1, 2, 3, 0]);
        assert_eq!([0, 3].map(|rank| card_of(rank, 1)), [0, 0]);
        assert_eq!(card_of(2, 0), 0);
    }
}
