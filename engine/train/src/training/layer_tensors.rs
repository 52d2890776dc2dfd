//! Weights and gradients by name, as handlers read and replace them: `weights.conv.weight`.

use burn::module::{ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
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

/// The names of the weights, and of the gradients where there are any.
pub(crate) fn names<N: Network>(network: &N, gradients: Option<&Gradients>) -> Vec<String> {
    let all = parameters(network);
    let weights = all.iter().map(|parameter| format!("weights.{}", parameter.name()));
    let trained = gradients
        .into_iter()
        .flat_map(|gradients| all.iter().filter(|parameter| gradients.get(&parameter.path).is_some()));
    weights.chain(trained.map(|parameter| format!("gradients.{}", parameter.name()))).collect()
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

/// Replaces the values of one parameter by its position in the visiting order.
struct Replace {
    wanted: usize,
    at: usize,
    values: Option<Vec<f32>>,
}

impl ModuleMapper for Replace {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let here = self.at == self.wanted;
        self.at += 1;
        let Some(values) = self.values.take_if(|_| here) else { return param };
        let (id, old, mapper) = param.consume();
        let (trains, autodiff) = (old.is_require_grad(), old.is_autodiff());
        let old = old.without_autodiff();
        let value = Tensor::from_data(TensorData::new(values, old.dims()), &old.device());
        let value = if autodiff { value.autodiff().set_require_grad(trains) } else { value };
        Param::from_mapped_value(id, value, mapper)
    }
}

/// Whether a tensor of this name is one of the network's, not of the batch.
pub(crate) fn is_of_network(name: &str) -> bool {
    wanted(name).is_some()
}

/// Replaces the weights or gradients of this name; `None` for any other name.
pub(crate) fn write<N: Network>(
    network: &mut Option<N>,
    gradients: Option<&mut Gradients>,
    name: &str,
    tensor: &HostTensor<'_>,
) -> Option<Result<(), HostError>> {
    Some(match wanted(name)? {
        Wanted::Weights(layer) => put_weights(network, layer, tensor),
        Wanted::Gradients(layer) => put_gradient(network, gradients, layer, tensor),
    })
}

fn no_network() -> HostError {
    HostError::new("the network was lost in a step that failed")
}

/// The values, where they have the shape of the parameter.
fn values_for(layer: &str, shape: &[usize], tensor: &HostTensor<'_>) -> Result<Vec<f32>, HostError> {
    if tensor.shape != shape {
        return Err(HostError::new(format!("{layer} has the shape {shape:?}, not {:?}", tensor.shape)));
    }
    tensor.to_f32()
}

fn put_weights<N: Network>(network: &mut Option<N>, layer: &str, tensor: &HostTensor<'_>) -> Result<(), HostError> {
    let here = network.as_ref().ok_or_else(no_network)?;
    let index = index_of(&parameters(here), layer)?;
    let values = values_for(layer, &find(here, index)?.1, tensor)?;
    let mut replace = Replace { wanted: index, at: 0, values: Some(values) };
    *network = network.take().map(|network| network.map(&mut replace));
    Ok(())
}

fn put_gradient<N: Network>(
    network: &Option<N>,
    gradients: Option<&mut Gradients>,
    layer: &str,
    tensor: &HostTensor<'_>,
) -> Result<(), HostError> {
    let network = network.as_ref().ok_or_else(no_network)?;
    let gradients =
        gradients.ok_or_else(|| HostError::new("there are no gradients now; put them at backward_completed"))?;
    let all = parameters(network);
    let index = index_of(&all, layer)?;
    let values = values_for(layer, &find(network, index)?.1, tensor)?;
    let path = &all[index].path;
    let old =
        gradients.get(path).ok_or_else(|| HostError::new(format!("{layer} has no gradient: it is not trained")))?;
    let count = values.len();
    let value = Tensor::from_data(TensorData::new(values, [count]), &old.device());
    gradients.put(path, value);
    Ok(())
}
