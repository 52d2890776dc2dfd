//! Leads a network over an input.

use std::cell::RefCell;

use burn::tensor::{DType, Tensor};
use hearth_engine::BoxError;
use hearth_nn::inferers::Inferer;
use hearth_nn::networks::Network;

/// The network's output for `x`, `[B, C, X, Y, Z]`, in f32. An input or window the network cannot take is an error.
pub(crate) fn infer<N: Network>(inferer: &dyn Inferer, x: Tensor<5>, network: &N) -> Result<Tensor<5>, BoxError> {
    let misfit = RefCell::new(None);
    let forward = |x: Tensor<5>| match network.check_input(x.dims()) {
        Ok(()) => network.forward(x).cast(DType::F32),
        Err(error) => {
            // The closure has to give a tensor; what comes of it is not looked at.
            misfit.borrow_mut().get_or_insert(error);
            x
        }
    };
    let output = inferer.infer(x, &forward);
    match misfit.into_inner() {
        Some(error) => Err(error.into()),
        None => Ok(output?),
    }
}
