//! The collectives of an operation, in the order in which every rank queues them: [`Leg`].
//!
//! An operation is cut into chunks, so that one is copied while another is transferred. The order
//! depends only on the number of values: ranks that queue collectives in different orders would
//! combine the wrong ones.

use std::collections::VecDeque;
use std::ops::Range;

use crate::Order;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Sum(Order),
    Broadcast { root: usize },
}

/// One collective of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leg {
    pub kind: Kind,
    /// The chunk.
    pub values: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The library adds.
    Sum,
    /// Each rank receives its slice of the chunk from all ranks, then adds the slices in the order
    /// of ranks.
    Exchange,
    /// The ranks' sums of their slices are gathered, after the exchange of the same chunk.
    Collect,
    Broadcast {
        root: usize,
    },
}

impl Leg {
    /// The number of values of one rank's slice. The last slices are padded with zeros.
    fn slice(&self, world: usize) -> usize {
        self.values.len().div_ceil(world)
    }

    /// The count of the collective.
    pub(super) fn count(&self, world: usize) -> usize {
        match self.kind {
            Kind::Sum | Kind::Broadcast { .. } => self.values.len(),
            Kind::Exchange | Kind::Collect => self.slice(world),
        }
    }

    /// The number of values copied to the GPU.
    pub(super) fn uploaded(&self, rank: usize, world: usize) -> usize {
        match self.kind {
            Kind::Sum => self.values.len(),
            Kind::Exchange => self.slice(world) * world,
            Kind::Collect => self.slice(world),
            Kind::Broadcast { root } => {
                if root == rank {
                    self.values.len()
                } else {
                    0
                }
            }
        }
    }

    /// The number of values copied from the GPU.
    pub(super) fn downloaded(&self, world: usize) -> usize {
        match self.kind {
            Kind::Sum | Kind::Broadcast { .. } => self.values.len(),
            Kind::Exchange | Kind::Collect => self.slice(world) * world,
        }
    }
}

/// The collectives of an operation on `len` values, in chunks of at most `chunk`. By rank, the
/// exchange of a chunk is in progress while the slices of the previous chunk are added.
pub(super) fn legs(task: Task, len: usize, chunk: usize) -> VecDeque<Leg> {
    let chunks: Vec<Range<usize>> = (0..len).step_by(chunk).map(|start| start..len.min(start + chunk)).collect();
    let all = |kind| chunks.iter().map(|values| Leg { kind, values: values.clone() }).collect::<VecDeque<_>>();
    match task {
        Task::Sum(Order::Any) => all(Kind::Sum),
        Task::Broadcast { root } => all(Kind::Broadcast { root }),
        Task::Sum(Order::Rank) => {
            let mut collects = all(Kind::Collect);
            let mut legs = VecDeque::new();
            for (number, exchange) in all(Kind::Exchange).into_iter().enumerate() {
                legs.push_back(exchange);
                if number > 0 {
                    legs.extend(collects.pop_front());
                }
            }
            legs.extend(collects);
            legs
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_rank_a_chunk_is_collected_after_the_next_is_exchanged() {
        let kinds = |len| -> Vec<(Kind, usize)> {
            legs(Task::Sum(Order::Rank), len, 4).into_iter().map(|leg| (leg.kind, leg.values.start)).collect()
        };
        let (a, b) = (Kind::Exchange, Kind::Collect);
        assert_eq!(kinds(9), [(a, 0), (a, 4), (b, 0), (a, 8), (b, 4), (b, 8)]);
        assert_eq!(kinds(3), [(a, 0), (b, 0)]);
        assert_eq!(kinds(0), []);
    }

    #[test]
    fn slices_are_filled_up() {
        let leg = |kind| Leg { kind, values: 10..17 };
        assert_eq!((leg(Kind::Exchange).count(3), leg(Kind::Exchange).uploaded(0, 3)), (3, 9));
        assert_eq!((leg(Kind::Collect).uploaded(2, 3), leg(Kind::Collect).downloaded(3)), (3, 9));
        let broadcast = leg(Kind::Broadcast { root: 1 });
        assert_eq!((broadcast.uploaded(1, 3), broadcast.uploaded(0, 3), broadcast.downloaded(3)), (7, 0, 7));
    }

    proptest! {
        /// Each value is in one chunk of each kind, padded chunks fit, and a chunk is collected
        /// after its exchange.
        #[test]
        fn every_value_travels_once(len in 0_usize..200, slices in 1_usize..20, world in 1_usize..9) {
            let chunk = slices * world;
            for (task, kinds) in [
                (Task::Sum(Order::Any), &[Kind::Sum][..]),
                (Task::Sum(Order::Rank), &[Kind::Exchange, Kind::Collect]),
                (Task::Broadcast { root: 0 }, &[Kind::Broadcast { root: 0 }]),
            ] {
                let legs = legs(task, len, chunk);
                for kind in kinds {
                    let of_kind = legs.iter().filter(|leg| leg.kind == *kind);
                    prop_assert!(of_kind.flat_map(|leg| leg.values.clone()).eq(0..len));
                }
                for (i, leg) in legs.iter().enumerate() {
                    prop_assert!(leg.downloaded(world) <= chunk && leg.uploaded(0, world) <= chunk);
                    let exchanged = legs.iter().take(i).any(|before| {
                        before.kind == Kind::Exchange && before.values == leg.values
                    });
                    prop_assert!(leg.kind != Kind::Collect || exchanged);
                }
            }
        }
    }
}
