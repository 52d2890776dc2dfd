//! The ranks of one training and their collective operations: [`Ranks`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use burn::tensor::{Device, Tensor};
use hearth_distributed::{AllReduce, At, BUCKET_BYTES, CommError, Communicator, DEADLINE, Order, Share, Wire};
use hearth_engine::{BoxError, State, Wants};
use hearth_kernels::InPlace;
use hearth_nn::layers::SyncedNorms;
use hearth_nn::networks::Network;
use hearth_nn::weights::{self, WeightsError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::floats::Floats;
use crate::training::bucket_sum::{BucketSum, OnDevice, Summed};

/// The number of values in the test of in-place sums on the GPU.
const PROBE: usize = 1000;

/// The ranks of one training, seen from one of them: the connection to the others, and the exchange
/// of gradients.
#[derive(Clone)]
pub struct Ranks {
    communicator: Arc<dyn Communicator>,
    /// How gradients are added.
    pub how: AllReduce,
    /// The maximum number of bytes of gradients in a bucket; for 4 MiB or more of gradients, an
    /// eighth of them where that is less.
    pub bucket_bytes: usize,
    /// Whether gradients are reduced during the backward pass; `None` is the same as
    /// `Some(true)`.
    pub overlap: Option<bool>,
    /// Whether every batch norm uses the statistics of all ranks' batches, and not only those named
    /// `syncbatch`.
    pub sync_batch_norm: bool,
    /// Whether convolutions round each image as a single rank with the whole batch does. Algorithms
    /// that are faster for fewer images are then not used.
    pub rounds_alike: bool,
    /// The time that a rank waits for the others before it fails with an error that names them.
    pub deadline: Duration,
    /// The state of gradients that stay on a GPU.
    pub(crate) in_place: Option<OnDevice>,
    /// Whether a batch norm has exchanged statistics with the other ranks.
    norms_meet: Arc<AtomicBool>,
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, world) = (self.rank(), self.world());
        f.debug_struct("Ranks").field("rank", &rank).field("world", &world).field("how", &self.how).finish()
    }
}

/// An evaluation that ranks share: each evaluates the cases of its [`Share`], one per batch, and
/// all get the results of all. A rank without cases evaluates an arbitrary one, whose result is
/// ignored.
#[derive(Clone, Debug)]
pub struct SharedCases {
    /// The ranks.
    pub ranks: Ranks,
    /// The total number of cases.
    pub cases: usize,
}

/// The error of a collective operation.
#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    /// Another rank did not answer in time, or failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A rank's message cannot be read: the rank runs another version.
    #[error("rank {rank} sent what this version does not read: {why}")]
    Unread {
        /// The rank.
        rank: usize,
        /// The reason.
        why: String,
    },
    /// The weights of rank 0 belong to another network.
    #[error("the weights of rank 0: {0}")]
    Weights(#[from] WeightsError),
    /// The number of results differs from the number of cases.
    #[error("the ranks measured {found} cases instead of {cases}")]
    Cases {
        /// The number of results.
        found: usize,
        /// The number of cases.
        cases: usize,
    },
}

impl Ranks {
    /// Ranks that add gradients in the order of ranks, as f32, in buckets of 25 MiB, with a
    /// deadline of five minutes.
    pub fn new(communicator: Arc<dyn Communicator>) -> Self {
        Self {
            communicator,
            how: AllReduce::default(),
            bucket_bytes: BUCKET_BYTES,
            overlap: None,
            sync_batch_norm: false,
            rounds_alike: false,
            deadline: DEADLINE,
            in_place: None,
            norms_meet: Arc::default(),
        }
    }

    /// Whether gradients are reduced during the backward pass, started by a separate thread
    /// (`apart`) or by that of the pass. Batch norms may exchange statistics in the same pass: two
    /// threads would then start their operations in a different order on each rank.
    pub(crate) fn overlaps(&self, apart: bool) -> bool {
        self.overlap.unwrap_or(true) && !(apart && self.norms_meet.load(Ordering::Relaxed))
    }

    /// Returns the same ranks with another communicator.
    #[must_use]
    pub fn over(self, communicator: Arc<dyn Communicator>) -> Self {
        Self { communicator, in_place: None, ..self }
    }

    /// Keeps gradients on the GPU `device` and adds them there, in place, where the order of
    /// addition is free and sums go over GPUs, and where a test sum is correct on every rank. All
    /// ranks must call it at the same point.
    ///
    /// # Errors
    /// The inner error is the reason why gradients go through host memory instead. The outer error
    /// reports missing ranks.
    pub fn stay_on_card(&mut self, device: &Device) -> Result<Result<(), String>, RanksError> {
        self.stay_at(OnDevice { device: device.clone().inner(), place: InPlace::on_card })
    }

    pub(crate) fn stay_at(&mut self, on: OnDevice) -> Result<Result<(), String>, RanksError> {
        const PHASE: &str = "values on the GPUs";
        let first = |all: Vec<Option<String>>| {
            let why = |(rank, why): (usize, Option<String>)| why.map(|why| format!("rank {rank}: {why}"));
            all.into_iter().enumerate().find_map(why).map_or(Ok(()), Err)
        };
        let own = Tensor::<1>::full([PROBE], self.rank() as f32 + 1.0, &on.device);
        let may = match (self.how.order, self.communicator.on_cards()) {
            (_, None) => Err("sums do not go over GPUs".to_owned()),
            (Order::Rank, _) => Err("they are added by rank".to_owned()),
            // Only the address is needed.
            (Order::Any, Some(_)) => (on.place)(own.clone()).map(drop),
        };
        let may = first(self.gather(&may.err(), PHASE, 0)?);
        let (Ok(()), Some(cards)) = (&may, self.communicator.on_cards()) else { return Ok(may) };
        let expected = (self.world() * (self.world() + 1) / 2) as f32;
        let at = self.at(PHASE, 1);
        let fault = match BucketSum::start_on(cards, own, Wire::F32, on.place, &at) {
            Ok(sum) => match sum.wait()? {
                Summed::OnCard(sum) => sum.into_data().try_into_vec::<f32>().map_or_else(
                    |why| Some(format!("{why:?}")),
                    |sum| {
                        sum.iter().find(|sum| **sum != expected).map(|sum| format!("the GPU added {expected} as {sum}"))
                    },
                ),
                Summed::Values(_) => None,
            },
            Err(why) => Some(why),
        };
        let right = first(self.gather(&fault, PHASE, 2)?);
        if right.is_ok() {
            self.in_place = Some(on);
        }
        Ok(right)
    }

    /// The communicator, to be wrapped.
    pub fn shared_communicator(&self) -> Arc<dyn Communicator> {
        Arc::clone(&self.communicator)
    }

    /// The index of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.communicator.rank()
    }

    /// The number of ranks.
    pub fn world(&self) -> usize {
        self.communicator.world()
    }

    /// Rank and number of ranks, in the engine's types.
    pub(crate) fn place(&self) -> (u32, u32) {
        (self.rank() as u32, self.world() as u32)
    }

    /// The communicator.
    pub fn communicator(&self) -> &dyn Communicator {
        &*self.communicator
    }

    /// A point in the run, with the deadline.
    pub(crate) fn at(&self, phase: &'static str, step: u64) -> At {
        At::new(phase, step).within(self.deadline)
    }

    /// Gathers a value of each rank, in order of ranks, on every rank.
    ///
    /// # Errors
    /// Where a rank is missing at the deadline, or sent something else.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &self,
        own: &T,
        phase: &'static str,
        step: u64,
    ) -> Result<Vec<T>, RanksError> {
        let unread = |rank: usize, why: serde_json::Error| RanksError::Unread { rank, why: why.to_string() };
        let own = serde_json::to_vec(own).map_err(|why| unread(self.rank(), why))?;
        let parts = self.communicator.all_gather(own, &self.at(phase, step))?;
        let read = |(rank, part): (usize, &Vec<u8>)| serde_json::from_slice(part).map_err(|why| unread(rank, why));
        parts.iter().enumerate().map(read).collect()
    }

    /// Makes the exchange of batch norm statistics for one step.
    pub(crate) fn norms(&self, step: u64) -> Arc<SyncedNorms> {
        let ranks = self.clone();
        SyncedNorms::new(self.sync_batch_norm, move |name, values| {
            ranks.norms_meet.store(true, Ordering::Relaxed);
            // A rank that is at another layer would add unrelated statistics.
            let all = ranks.gather(&(name.to_owned(), Floats(values.to_vec())), "statistics of batch norms", step);
            let mut sums = vec![0.0_f64; values.len()];
            for (rank, (theirs, values)) in all.map_err(|why| why.to_string())?.into_iter().enumerate() {
                if theirs != name || values.0.len() != sums.len() {
                    let own = ranks.rank();
                    return Err(format!("rank {rank} is at the {theirs}, rank {own} at the {name}"));
                }
                sums.iter_mut().zip(values.0).for_each(|(sum, value)| *sum += f64::from(value));
            }
            Ok(sums.into_iter().map(|sum| sum as f32).collect())
        })
    }

    /// Combines the requests of the handlers of all ranks; of several reasons, that of the lowest
    /// rank is used.
    pub(crate) fn agree(&self, state: &State, wants: &Wants) -> Result<Wants, BoxError> {
        let all = self.gather(wants, "deciding whether to continue", state.iteration)?;
        let mut agreed = Wants::default();
        for wants in all {
            agreed.terminate = agreed.terminate.or(wants.terminate);
            agreed.terminate_epoch = agreed.terminate_epoch.or(wants.terminate_epoch);
            agreed.interrupt = agreed.interrupt.or(wants.interrupt);
        }
        Ok(agreed)
    }

    /// Broadcasts the weights and running statistics of rank 0. Weights are the same on all ranks;
    /// statistics of batches are not.
    pub(crate) fn of_first<N: Network>(&self, network: N, epoch: u64) -> Result<N, RanksError> {
        let own = if self.rank() == 0 { weights::to_bytes(&network)? } else { Vec::new() };
        let bytes = self.communicator.broadcast(own, 0, &self.at("weights to validate", epoch))?;
        if self.rank() == 0 { Ok(network) } else { Ok(weights::from_bytes(network, &bytes)?.0) }
    }

    /// Gathers lists with one entry for each case, evaluated by [`Share`]s, in the order of cases.
    pub(crate) fn in_order<T: Serialize + DeserializeOwned>(
        &self,
        mut own: Vec<T>,
        cases: usize,
        epoch: u64,
    ) -> Result<Vec<T>, RanksError> {
        let share = Share::new(cases, self.world());
        // A rank without cases evaluated one all the same, so that no rank skips the pass.
        own.truncate(share.of(self.rank()).count());
        let all = self.gather(&own, "results of the validation", epoch)?;
        let found = all.iter().map(Vec::len).sum();
        share.in_order(all).ok_or(RanksError::Cases { found, cases })
    }
}

/// Fails where the batch norms of a step could not exchange statistics with the other ranks.
pub(crate) fn check_norms(norms: &SyncedNorms) -> Result<(), BoxError> {
    norms.check().map_err(|why| format!("the batch norms of the ranks: {why}").into())
}
