//! Applies a network to an input.

use std::cell::RefCell;

use burn::tensor::{DType, Tensor};
use hearth_engine::BoxError;
use hearth_nn::inferers::Inferer;
use hearth_nn::layers::take_single_value_norm;
use hearth_nn::networks::Network;

/// Computes the network's output for `x`, `[B, C, X, Y, Z]`, in f32. An input or window that the
/// network does not accept is an error.
pub(crate) fn infer<N: Network>(inferer: &dyn Inferer, x: Tensor<5>, network: &N) -> Result<Tensor<5>, BoxError> {
    let _range = tracing::trace_span!("forward").entered();
    guarded(inferer, x, network, &|x| {
        let _range = tracing::trace_span!("network", shape = ?x.dims()).entered();
        network.forward(x).cast(DType::F32)
    })
}

/// The outputs of a network in training, in f32.
pub(crate) struct Outputs {
    /// All outputs, the main one first and then those nearest to it.
    pub all: Vec<Tensor<5>>,
    /// The loss that the network itself adds.
    pub loss: Option<Tensor<1>>,
}

/// Computes the outputs for `x` with their autodiff graph. An inferer that calls the network more
/// than once combines the main outputs. The other outputs are then dropped, and the losses are
/// averaged.
pub(crate) fn infer_all<N: Network>(inferer: &dyn Inferer, x: Tensor<5>, network: &N) -> Result<Outputs, BoxError> {
    let _range = tracing::trace_span!("forward").entered();
    let (calls, others, losses) = (RefCell::new(0_usize), RefCell::new(Vec::new()), RefCell::new(None));
    let main = guarded(inferer, x, network, &|x| {
        let _range = tracing::trace_span!("network", shape = ?x.dims()).entered();
        let (outputs, loss) = network.forward_with_loss(x.clone());
        let mut outputs = main_first(outputs, network.main_output()).into_iter().map(|y| y.cast(DType::F32));
        let Some(main) = outputs.next() else { return network.forward(x) };
        *calls.borrow_mut() += 1;
        *others.borrow_mut() = if *calls.borrow() == 1 { outputs.collect() } else { Vec::new() };
        if let Some(loss) = loss {
            let mut sum = losses.borrow_mut();
            *sum = Some(match sum.take() {
                Some(sum) => sum + loss,
                None => loss,
            });
        }
        main
    })?;
    let calls = calls.into_inner().max(1) as f64;
    let mut all = vec![main];
    all.extend(others.into_inner());
    Ok(Outputs { all, loss: losses.into_inner().map(|sum: Tensor<1>| sum / calls) })
}

/// Moves the main output to the front; the outputs before it follow in reverse order, nearest
/// first.
fn main_first<T>(mut outputs: Vec<T>, main: usize) -> Vec<T> {
    let after = outputs.split_off((main + 1).min(outputs.len()));
    outputs.reverse();
    outputs.extend(after);
    outputs
}

fn guarded<N: Network>(
    inferer: &dyn Inferer,
    x: Tensor<5>,
    network: &N,
    forward: &dyn Fn(Tensor<5>) -> Tensor<5>,
) -> Result<Tensor<5>, BoxError> {
    let misfit = RefCell::new(None);
    let forward = |x: Tensor<5>| match network.check_input(x.dims()) {
        Ok(()) => forward(x),
        Err(error) => {
            // The closure must return a tensor; its value is ignored.
            misfit.borrow_mut().get_or_insert(error);
            x
        }
    };
    // What ran on this thread before is not this pass.
    let _earlier = take_single_value_norm();
    let output = inferer.infer(x, &forward);
    match (misfit.into_inner(), take_single_value_norm()) {
        (Some(error), _) => Err(error.into()),
        (None, Some(norm)) => Err(norm.into()),
        (None, None) => Ok(output?),
    }
}

#[cfg(test)]
mod tests {
    use super::main_first;

    #[test]
    fn the_main_output_comes_first_and_its_neighbours_next() {
        assert_eq!(main_first(vec![0, 1, 2], 0), [0, 1, 2]);
        assert_eq!(main_first(vec![0, 1, 2, 3], 3), [3, 2, 1, 0]);
        assert_eq!(main_first(vec![0, 1, 2, 3], 1), [1, 0, 2, 3]);
        assert_eq!(main_first(vec![0], 3), [0]);
    }
}
