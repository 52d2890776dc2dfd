//! The sum of a bucket over the ranks: [`BucketSum`].

use std::mem::ManuallyDrop;
use std::ops::Range;

use burn::tensor::{DType, Device, Tensor};
use hearth_distributed::nccl::CardValues;
use hearth_distributed::{At, Buckets, CommError, OnCards, Pending, Released, Wire};
use hearth_kernels::InPlace;

use crate::ranks::Ranks;

/// A gradient to be reduced.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few of them, and a box would be one more allocation for each")]
pub(crate) enum Arrived {
    /// The values in host memory.
    Values(Vec<f32>),
    /// The values on the GPU that adds them to those of other ranks.
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

/// Empty for values on a GPU.
impl AsRef<[f32]> for Arrived {
    fn as_ref(&self) -> &[f32] {
        match self {
            Self::Values(values) => values,
            Self::OnCard(_) => &[],
        }
    }
}

/// A function that yields the address of values, on a GPU or in a test.
pub(crate) type Place = fn(Tensor<1>) -> Result<InPlace, String>;

/// Gradients that stay on the GPU.
#[derive(Clone, Debug)]
pub(crate) struct OnDevice {
    pub device: Device,
    pub place: Place,
}

/// A sum in progress.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few of them, and a box would be one more allocation for each")]
pub(crate) enum BucketSum {
    ThroughHost(Pending<Vec<f32>>),
    OnCard {
        /// Not released before the GPU has finished with it.
        values: ManuallyDrop<InPlace>,
        done: Pending<()>,
    },
}

/// A completed sum.
#[expect(clippy::large_enum_variant, reason = "there are few of them, and a box would be one more allocation for each")]
pub(crate) enum Summed {
    Values(Vec<f32>),
    OnCard(Tensor<1>),
}

impl BucketSum {
    /// # Errors
    /// Where gradients on a GPU cannot stay there.
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
        // SAFETY: the values are on this rank's GPU, as `Ranks::stay_on_card` has checked,
        // contiguous and of this type. `InPlace` has waited for the work that writes them, so that
        // the default stream (null) is in order, and nothing else has them. They are kept, and not
        // used, until the wait has succeeded; otherwise they are never released.
        let done = unsafe { cards.start_all_reduce_on_card(there, std::ptr::null_mut(), at) };
        Ok(Self::OnCard { values: ManuallyDrop::new(values), done })
    }

    /// # Errors
    /// Same as [`Pending::wait`].
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
