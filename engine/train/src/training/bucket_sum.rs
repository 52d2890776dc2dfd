//! The sum of a bucket over the ranks: [`BucketSum`].

use std::mem::ManuallyDrop;
use std::ops::Range;

use burn::tensor::{DType, Device, Tensor};
use hearth_distributed::nccl::CardValues;
use hearth_distributed::{At, Buckets, CommError, OnCards, Pending, Released, Wire};
use hearth_kernels::InPlace;

use crate::ranks::Ranks;

/// A gradient that arrived.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few of them, and a box would be one more allocation for each")]
pub(crate) enum Arrived {
    /// Its values, in the memory of the host.
    Values(Vec<f32>),
    /// On the card on which it is added to those of other ranks.
    OnCard(Tensor<1>),
}

impl Arrived {
    /// # Errors
    /// Where it cannot be read.
    pub fn new(path: &str, gradient: Tensor<1>, ranks: &Ranks) -> Result<Self, String> {
        if ranks.in_place.is_some() {
            return Ok(Self::OnCard(gradient));
        }
        let values = gradient.into_data().convert::<f32>().try_into_vec::<f32>();
        values.map(Self::Values).map_err(|why| format!("the gradient of {path} cannot be read: {why:?}"))
    }

    pub fn count(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::OnCard(gradient) => gradient.dims()[0],
        }
    }
}

/// None for those of a card.
impl AsRef<[f32]> for Arrived {
    fn as_ref(&self) -> &[f32] {
        match self {
            Self::Values(values) => values,
            Self::OnCard(_) => &[],
        }
    }
}

/// How values get an address, on a card or where a test has them.
pub(crate) type Place = fn(Tensor<1>) -> Result<InPlace, String>;

/// Gradients that stay on the card.
#[derive(Clone, Debug)]
pub(crate) struct OnDevice {
    pub device: Device,
    pub place: Place,
}

/// A sum that is under way.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few of them, and a box would be one more allocation for each")]
pub(crate) enum BucketSum {
    ThroughHost(Pending<Vec<f32>>),
    OnCard {
        /// Not released before the card is done with it.
        values: ManuallyDrop<InPlace>,
        done: Pending<()>,
    },
}

/// A sum that has arrived.
#[expect(clippy::large_enum_variant, reason = "there are few of them, and a box would be one more allocation for each")]
pub(crate) enum Summed {
    Values(Vec<f32>),
    OnCard(Tensor<1>),
}

impl BucketSum {
    /// # Errors
    /// Where gradients that a card has cannot stay there.
    pub fn start(
        buckets: &Buckets,
        (number, gradients): &Released<Arrived>,
        ranks: &Ranks,
        at: &At,
    ) -> Result<Self, String> {
        let communicator = ranks.communicator();
        let (Some(on), Some(cards)) = (&ranks.in_place, communicator.on_cards()) else {
            let values = buckets.flatten(*number, gradients);
            return Ok(Self::ThroughHost(communicator.start_all_reduce(values, ranks.how, at)));
        };
        let part = |((_, range), gradient): ((usize, Range<usize>), &Option<Arrived>)| match gradient {
            Some(Arrived::OnCard(gradient)) => gradient.clone().cast(DType::F32),
            _ => Tensor::zeros([range.len()], &on.device),
        };
        let parts: Vec<Tensor<1>> = buckets.ranges(*number).zip(gradients).map(part).collect();
        Self::start_on(cards, Tensor::cat(parts, 0), ranks.how.wire, on.place, at)
    }

    /// # Errors
    /// Where the tensor has no address.
    pub fn start_on(cards: &OnCards, values: Tensor<1>, wire: Wire, place: Place, at: &At) -> Result<Self, String> {
        let values = place(match wire {
            Wire::F32 => values,
            Wire::Bf16 => values.cast(DType::BF16),
        })?;
        let there = CardValues { address: values.address(), count: values.count(), wire };
        // SAFETY: the values are on this rank's card, as `Ranks::stay_on_card` has seen, contiguous and of
        // this type. `InPlace` has waited for the work that writes them, so that the default stream
        // (null) is in order, and nothing else has them. They are kept, and not used, until the wait has
        // ended well; otherwise they are never released.
        let done = unsafe { cards.start_all_reduce_on_card(there, std::ptr::null_mut(), at) };
        Ok(Self::OnCard { values: ManuallyDrop::new(values), done })
    }

    /// # Errors
    /// As [`Pending::wait`].
    pub fn wait(self) -> Result<Summed, CommError> {
        Ok(match self {
            Self::ThroughHost(pending) => Summed::Values(pending.wait()?),
            Self::OnCard { values, done } => {
                done.wait()?;
                Summed::OnCard(ManuallyDrop::into_inner(values).into_tensor().cast(DType::F32))
            }
        })
    }
}
