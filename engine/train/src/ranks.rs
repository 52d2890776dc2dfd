//! What the ranks of one training do together: [`Ranks`].

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

/// How many values are added to see whether a card adds in place.
const PROBE: usize = 1000;

/// The ranks of one training, seen from one of them: how to reach the others, and how gradients
/// travel.
#[derive(Clone)]
pub struct Ranks {
    communicator: Arc<dyn Communicator>,
    /// How gradients are added.
    pub how: AllReduce,
    /// The most bytes of gradients that travel together; of 4 MiB or more, an eighth where that is
    /// less.
    pub bucket_bytes: usize,
    /// Whether gradients travel while the backward pass computes the rest; where nothing is said, they
    /// do.
    pub overlap: Option<bool>,
    /// Whether every batch norm has the statistics of all ranks' batches, and not only those named
    /// `syncbatch`.
    pub sync_batch_norm: bool,
    /// Whether convolutions round each image as one rank with the whole batch does. Ways to compute
    /// that are faster for fewer images are then not taken.
    pub rounds_alike: bool,
    /// How long one rank waits for the others before it ends with an error that names them.
    pub deadline: Duration,
    /// Where gradients stay on a card.
    pub(crate) in_place: Option<OnDevice>,
    /// Whether a batch norm has asked the other ranks for their statistics.
    norms_meet: Arc<AtomicBool>,
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, world) = (self.rank(), self.world());
        f.debug_struct("Ranks").field("rank", &rank).field("world", &world).field("how", &self.how).finish()
    }
}

/// An evaluation that ranks share: each evaluates the cases that [`Share`] gives it, one a batch,
/// and all have the results of all. A rank that is given none evaluates any one, which does not
/// count.
#[derive(Clone, Debug)]
pub struct SharedCases {
    /// The ranks.
    pub ranks: Ranks,
    /// How many cases all of them have.
    pub cases: usize,
}

/// Why ranks could not do something together.
#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    /// Another rank was not there in time, or failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// What a rank sent cannot be read: it is of another version.
    #[error("rank {rank} sent what this version does not read: {why}")]
    Unread {
        /// The rank.
        rank: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The weights of rank 0 are of another network.
    #[error("the weights of rank 0: {0}")]
    Weights(#[from] WeightsError),
    /// A rank has more or fewer results than cases.
    #[error("the ranks measured {found} cases instead of {cases}")]
    Cases {
        /// What came together.
        found: usize,
        /// How many there are.
        cases: usize,
    },
}

impl Ranks {
    /// Ranks that add gradients in order of rank, as f32, in buckets of 25 MiB, and wait for five
    /// minutes.
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

    /// Whether gradients travel while the backward pass goes on, started by a thread `apart` from it or
    /// by its own. In that pass batch norms may meet those of other ranks: what two threads start would
    /// come in another order on each rank.
    pub(crate) fn overlaps(&self, apart: bool) -> bool {
        self.overlap.unwrap_or(true) && !(apart && self.norms_meet.load(Ordering::Relaxed))
    }

    /// The same ranks, reached in another way.
    #[must_use]
    pub fn over(self, communicator: Arc<dyn Communicator>) -> Self {
        Self { communicator, in_place: None, ..self }
    }

    /// Leaves gradients on the card `device` and adds them there, in place, where they are added in
    /// any order over the cards, and a sum of known values comes out right on every rank. All ranks
    /// call it at the same point.
    ///
    /// # Errors
    /// Why they travel through the memory of the host instead. The outer error is of ranks that are
    /// missing.
    pub fn stay_on_card(&mut self, device: &Device) -> Result<Result<(), String>, RanksError> {
        self.stay_at(OnDevice { device: device.clone().inner(), place: InPlace::on_card })
    }

    pub(crate) fn stay_at(&mut self, on: OnDevice) -> Result<Result<(), String>, RanksError> {
        const PHASE: &str = "values on the cards";
        let first = |all: Vec<Option<String>>| {
            let why = |(rank, why): (usize, Option<String>)| why.map(|why| format!("rank {rank}: {why}"));
            all.into_iter().enumerate().find_map(why).map_or(Ok(()), Err)
        };
        let own = Tensor::<1>::full([PROBE], self.rank() as f32 + 1.0, &on.device);
        let may = match (self.how.order, self.communicator.on_cards()) {
            (_, None) => Err("sums do not go over cards".to_owned()),
            (Order::Rank, _) => Err("they are added by rank".to_owned()),
            // Its address alone.
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
                        sum.iter()
                            .find(|sum| **sum != expected)
                            .map(|sum| format!("the card added {expected} as {sum}"))
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

    /// What they are reached by, to be wrapped.
    pub fn shared_communicator(&self) -> Arc<dyn Communicator> {
        Arc::clone(&self.communicator)
    }

    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.communicator.rank()
    }

    /// Number of ranks.
    pub fn world(&self) -> usize {
        self.communicator.world()
    }

    /// The same as engines count them.
    pub(crate) fn place(&self) -> (u32, u32) {
        (self.rank() as u32, self.world() as u32)
    }

    /// What they are reached by.
    pub fn communicator(&self) -> &dyn Communicator {
        &*self.communicator
    }

    /// A place in the run, with this deadline.
    pub(crate) fn at(&self, phase: &'static str, step: u64) -> At {
        At::new(phase, step).within(self.deadline)
    }

    /// A value of each rank, in their order, on every rank.
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

    /// How batch norms of one step reach those of the other ranks.
    pub(crate) fn norms(&self, step: u64) -> Arc<SyncedNorms> {
        let ranks = self.clone();
        SyncedNorms::new(self.sync_batch_norm, move |name, values| {
            ranks.norms_meet.store(true, Ordering::Relaxed);
            // A rank that is at another layer would add what does not belong together.
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

    /// What handlers of any rank want: of several reasons, that of the lowest rank.
    pub(crate) fn agree(&self, state: &State, wants: &Wants) -> Result<Wants, BoxError> {
        let all = self.gather(wants, "deciding whether to go on", state.iteration)?;
        let mut agreed = Wants::default();
        for wants in all {
            agreed.terminate = agreed.terminate.or(wants.terminate);
            agreed.terminate_epoch = agreed.terminate_epoch.or(wants.terminate_epoch);
            agreed.interrupt = agreed.interrupt.or(wants.interrupt);
        }
        Ok(agreed)
    }

    /// The weights and running statistics of rank 0. Weights are the same on all ranks; statistics of
    /// batches are not.
    pub(crate) fn of_first<N: Network>(&self, network: N, epoch: u64) -> Result<N, RanksError> {
        let own = if self.rank() == 0 { weights::to_bytes(&network)? } else { Vec::new() };
        let bytes = self.communicator.broadcast(own, 0, &self.at("weights to validate", epoch))?;
        if self.rank() == 0 { Ok(network) } else { Ok(weights::from_bytes(network, &bytes)?.0) }
    }

    /// Lists of one entry for each case, evaluated by [`Share`]s, in the order of cases.
    pub(crate) fn in_order<T: Serialize + DeserializeOwned>(
        &self,
        mut own: Vec<T>,
        cases: usize,
        epoch: u64,
    ) -> Result<Vec<T>, RanksError> {
        let share = Share::new(cases, self.world());
        // A rank that had none evaluated one all the same, so that no rank skips the pass.
        own.truncate(share.of(self.rank()).count());
        let all = self.gather(&own, "results of the validation", epoch)?;
        let found = all.iter().map(Vec::len).sum();
        share.in_order(all).ok_or(RanksError::Cases { found, cases })
    }
}

/// Fails where the batch norms of a step did not reach those of the other ranks.
pub(crate) fn check_norms(norms: &SyncedNorms) -> Result<(), BoxError> {
    norms.check().map_err(|why| format!("the batch norms of the ranks: {why}").into())
}
