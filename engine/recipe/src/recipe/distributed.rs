//! `[distributed]`: how several ranks train together.

use std::time::Duration;

use hearth_registry::Fault;
use hearth_train::{Ranks, distributed};
use serde::{Deserialize, Serialize};

const MIB: f64 = (1 << 20) as f64;

/// The options for training on several ranks; ignored for a single rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Distributed {
    /// The cases on which a rank trains.
    pub mode: Mode,
    /// The type in which gradients are sent: `f32` or `bf16`.
    pub wire: distributed::Wire,
    /// The order in which gradients are added.
    pub order: Order,
    /// Whether all batch norms use the statistics of all ranks' batches, and not only those named
    /// `syncbatch` (`torch.nn.SyncBatchNorm`).
    pub sync_batch_norm: bool,
    /// Whether gradients are reduced on the GPUs of the ranks, by NCCL or RCCL.
    pub cards: Cards,
    /// The largest bucket of gradients in MiB; from 4 MiB of gradients on, at most an eighth of them.
    pub bucket_mib: f64,
    /// Whether gradients are reduced during the backward pass.
    pub overlap: Overlap,
    /// Seconds that a rank waits for the others before it fails with an error that names them.
    pub deadline: f64,
}

/// The cases on which a rank trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its own part of them, which only this rank caches (MONAI's `partition_dataset`). A case
    /// always stays on its rank.
    #[default]
    Partition,
    /// A part of each batch of a single rank: N ranks with batches of b take the same steps as one
    /// rank with N * b. Each rank caches all cases.
    Exact,
}

/// The order in which gradients are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// `any` if gradients can stay on the GPUs that computed them and `mode` is not `exact`;
    /// otherwise `rank`.
    #[default]
    Auto,
    /// By rank: the same result on any machine.
    Rank,
    /// The order of the library: NCCL, RCCL or MPI.
    Any,
}

/// Whether gradients are reduced on the GPUs of the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cards {
    /// If every rank computes on a GPU, and a library is found.
    #[default]
    Auto,
    /// Always: an error if that is not possible.
    On,
    /// Never: gradients are sent through the host's memory.
    Off,
}

/// Whether gradients are reduced during the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// If gradients are sent through the host's memory or stay on the GPUs; not if they are copied
    /// from GPUs and added by rank.
    #[default]
    Auto,
    /// Always, if there are several buckets.
    On,
    /// Never: all of them are reduced after the backward pass.
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
    /// Whether all values are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether GPUs may add the gradients, in any order.
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
        // A day is longer than any useful wait, and short enough for the clock's arithmetic.
        if (0.1..=86_400.0).contains(&self.deadline) {
            return Ok(());
        }
        let what = format!("{} seconds; expected 0.1 to 86400", self.deadline);
        Err(Fault::at("distributed.deadline", what))
    }

    /// Applies the table to these ranks.
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
