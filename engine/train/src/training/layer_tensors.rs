//! Weights and gradients by name, as handlers request them: `weights.conv.weight`.

use burn::module::{ModuleVisitor, Param};
use burn::tensor::Tensor;
use hearth_engine::{HostError, HostTensor};
use hearth_kernels::device_error::reason;
use hearth_nn::networks::Network;
use hearth_nn::optim::Gradients;
use hearth_nn::{ParameterName, parameters};

/// Finds the values and the shape of one parameter by its position in the visiting order.
struct Find {
    wanted: usize,
    at: usize,
    found: Option<(Tensor<1>, Vec<usize>)>,
}

impl ModuleVisitor for Find {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.at == self.wanted {
            // The master weights: a forward pass in half precision sees them rounded.
            let values = param.base().without_autodiff();
            let shape = values.dims().to_vec();
            let count = shape.iter().product::<usize>();
            self.found = Some((values.reshape([count]), shape));
        }
        self.at += 1;
    }
}

/// The values that a tensor's name selects, where it is not a tensor of the batch.
enum Wanted<'a> {
    Weights(&'a str),
    Gradients(&'a str),
}

fn wanted(name: &str) -> Option<Wanted<'_>> {
    let weights = name.strip_prefix("weights.").map(Wanted::Weights);
    weights.or_else(|| name.strip_prefix("gradients.").map(Wanted::Gradients))
}

/// The weights or gradients of this name, in the shape of the network's own parameter; `None` for
/// any other name.
pub(crate) fn read<N: Network>(
    network: &N,
    gradients: Option<&Gradients>,
    name: &str,
) -> Option<Result<HostTensor<'static>, HostError>> {
    let wanted = wanted(name)?;
    let all = parameters(network);
    Some(match wanted {
        Wanted::Weights(layer) => weights(network, &all, layer),
        Wanted::Gradients(layer) => gradient(network, &all, gradients, layer),
    })
}

fn index_of(all: &[ParameterName], layer: &str) -> Result<usize, HostError> {
    all.iter().position(|parameter| parameter.name() == layer).ok_or_else(|| {
        let near = hearth_registry::nearest(layer, all.iter().map(ParameterName::name));
        let near = near.map(|near| format!(", did you mean {near}?")).unwrap_or_default();
        HostError::new(format!("the network has no parameter {layer}{near}"))
    })
}

fn find<N: Network>(network: &N, index: usize) -> Result<(Tensor<1>, Vec<usize>), HostError> {
    let mut visitor = Find { wanted: index, at: 0, found: None };
    network.visit(&mut visitor);
    visitor.found.ok_or_else(|| HostError::new("the network does not show its parameter"))
}

fn to_host(values: Tensor<1>, shape: Vec<usize>) -> Result<HostTensor<'static>, HostError> {
    let values = values
        .try_into_vec_as::<f32>()
        .map_err(|e| HostError::new(format!("the values cannot be read back from the device: {}", reason(&e))))?;
    HostTensor::from_f32(shape, &values)
}

fn weights<N: Network>(network: &N, all: &[ParameterName], layer: &str) -> Result<HostTensor<'static>, HostError> {
    let (values, shape) = find(network, index_of(all, layer)?)?;
    to_host(values, shape)
}

fn gradient<N: Network>(
    network: &N,
    all: &[ParameterName],
    gradients: Option<&Gradients>,
    layer: &str,
) -> Result<HostTensor<'static>, HostError> {
    let gradients =
        gradients.ok_or_else(|| HostError::new("there are no gradients now; ask for them at backward_completed"))?;
    let index = index_of(all, layer)?;
    let values = gradients.get(&all[index].path);
    let values = values.ok_or_else(|| HostError::new(format!("{layer} has no gradient: it is not trained")))?;
    to_host(values.clone(), find(network, index)?.1)
}
