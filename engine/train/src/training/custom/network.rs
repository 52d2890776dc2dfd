//! The network in a step of the user's own: [`StepNetwork`].

use std::cell::RefCell;

use burn::tensor::Tensor;
use hearth_engine::BoxError;
use hearth_nn::inferers::Inferer;
use hearth_nn::networks::Network;

use crate::evaluation::inference::{Outputs, infer_all};

/// The network that a step trains. Its forward passes are those of the default step: by the
/// trainer's inferer and in its precision, with outputs in f32, and an error for an input that the
/// network does not accept.
///
/// The outputs of the first pass are the tensors `pred` and `output_0`, ... that handlers read. The
/// losses that the network itself adds ([`Network::forward_with_loss`]) are added to that of the
/// step.
pub struct StepNetwork<'a, N> {
    network: &'a N,
    inferer: &'a dyn Inferer,
    seen: RefCell<Seen>,
}

/// What the passes so far leave for the step.
#[derive(Default)]
pub(crate) struct Seen {
    /// The outputs of the first pass, outside autodiff.
    pub first: Vec<Tensor<5>>,
    /// The sum of the losses that the network added.
    pub loss: Option<Tensor<1>>,
}

impl<'a, N: Network> StepNetwork<'a, N> {
    pub(crate) fn new(network: &'a N, inferer: &'a dyn Inferer) -> Self {
        Self { network, inferer, seen: RefCell::default() }
    }

    /// The output for `x`, `[b, c, x, y, z]`, with its autodiff graph; the main one of several.
    ///
    /// # Errors
    /// For an input that the network or the inferer does not accept.
    pub fn forward(&self, x: Tensor<5>) -> Result<Tensor<5>, BoxError> {
        self.forward_all(x)?.into_iter().next().ok_or_else(|| "the network has no output".into())
    }

    /// All outputs for `x`, `[b, c, x, y, z]`, the main one first and then those nearest to it.
    ///
    /// # Errors
    /// For an input that the network or the inferer does not accept.
    pub fn forward_all(&self, x: Tensor<5>) -> Result<Vec<Tensor<5>>, BoxError> {
        let Outputs { all, loss } = infer_all(self.inferer, tracked(x), self.network)?;
        let mut seen = self.seen.borrow_mut();
        if seen.first.is_empty() {
            seen.first = all.iter().map(|output| output.clone().without_autodiff()).collect();
        }
        if let Some(loss) = loss {
            seen.loss = Some(match seen.loss.take() {
                Some(sum) => sum + loss,
                None => loss,
            });
        }
        Ok(all)
    }

    /// The network itself, for its own functions. Layers detect training by an input under autodiff;
    /// in half precision their outputs are in half precision.
    pub fn module(&self) -> &'a N {
        self.network
    }

    pub(crate) fn into_seen(self) -> Seen {
        self.seen.into_inner()
    }
}

/// The same tensor under autodiff, by which layers detect training.
pub(crate) fn tracked(x: Tensor<5>) -> Tensor<5> {
    if x.is_autodiff() { x } else { x.autodiff() }
}
