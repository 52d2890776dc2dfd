//! `[distributed]`: how several ranks train together.

use std::time::Duration;

use hearth_registry::Fault;
use hearth_train::{Ranks, distributed};
use serde::{Deserialize, Serialize};

const MIB: f64 = (1 << 20) as f64;

/// How several ranks train together. One rank ignores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Distributed {
    /// Which cases a rank trains on.
    pub mode: Mode,
    /// The type in which gradients travel: `f32` or `bf16`.
    pub wire: distributed::Wire,
    /// In which order they are added.
    pub order: Order,
    /// Whether every batch norm has the statistics of all ranks' batches, and not only those named
    /// `syncbatch` (`torch.nn.SyncBatchNorm`).
    pub sync_batch_norm: bool,
    /// Whether gradients travel over the cards of the ranks, by NCCL or RCCL.
    pub cards: Cards,
    /// The most MiB of gradients that travel together, and of 4 MiB or more at most an eighth.
    pub bucket_mib: f64,
    /// Whether gradients travel while the backward pass computes the rest.
    pub overlap: Overlap,
    /// Seconds that a rank waits for the others before it ends with an error that names them.
    pub deadline: f64,
}

/// Which cases a rank trains on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its own part of them, which it alone caches (MONAI's `partition_dataset`). A case never
    /// changes its rank.
    #[default]
    Partition,
    /// A part of each batch that one rank would train on: N ranks with batches of b take the steps
    /// of one with N * b. Each rank caches all cases.
    Exact,
}

/// In which order gradients are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// `any` where they can stay on the cards that computed them, and `mode` is not `exact`; otherwise
    /// `rank`.
    #[default]
    Auto,
    /// By rank: the same on any machine.
    Rank,
    /// As the library likes: NCCL, RCCL or MPI.
    Any,
}

/// Whether gradients travel over the cards of the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cards {
    /// Where every rank computes on one, and a library is found.
    #[default]
    Auto,
    /// Always: an error where that cannot be.
    On,
    /// Never: they travel through the memory of the host.
    Off,
}

/// Whether gradients travel while the backward pass computes the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Where they travel through the memory of the host, or stay on the cards; not where they are read
    /// from cards, to be added over these by rank.
    #[default]
    Auto,
    /// Always, where there are several buckets.
    On,
    /// Never: all of them travel at its end.
    Off,
}

impl Default for Distributed {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            wire: Default::default(),
            order: Order::default(),
            sync_batch_norm: false,
            cards: Cards::default(),
            bucket_mib: distributed::BUCKET_BYTES as f64 / MIB,
            overlap: Overlap::default(),
            deadline: distributed::DEADLINE.as_secs_f64(),
        }
    }
}

impl Distributed {
    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether gradients may stay on cards that add them, in whatever order.
    pub fn may_stay_on_cards(&self) -> bool {
        match self.order {
            Order::Auto => self.mode != Mode::Exact,
            Order::Rank => false,
            Order::Any => true,
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first key that is invalid.
    pub fn check(&self) -> Result<(), Fault> {
        if !(0.0..=1024.0).contains(&self.bucket_mib) {
            let what = format!("{} MiB; expected 0 (each gradient on its own) to 1024", self.bucket_mib);
            return Err(Fault::at("distributed.bucket_mib", what));
        }
        // A day is longer than anybody waits, and less than what a clock can add.
        if (0.1..=86_400.0).contains(&self.deadline) {
            return Ok(());
        }
        let what = format!("{} seconds; expected 0.1 to 86400", self.deadline);
        Err(Fault::at("distributed.deadline", what))
    }

    /// These ranks, as the table says.
    pub fn apply(&self, mut ranks: Ranks) -> Ranks {
        let order = match self.order {
            Order::Auto | Order::Rank => distributed::Order::Rank,
            Order::Any => distributed::Order::Any,
        };
        ranks.how = distributed::AllReduce { wire: self.wire, order };
        ranks.sync_batch_norm = self.sync_batch_norm;
        ranks.rounds_alike = self.mode == Mode::Exact;
        ranks.bucket_bytes = (self.bucket_mib * MIB) as usize;
        ranks.overlap = match self.overlap {
            Overlap::Auto => None,
            Overlap::On => Some(true),
            Overlap::Off => Some(false),
        };
        ranks.deadline = Duration::from_secs_f64(self.deadline);
        ranks
    }
}
