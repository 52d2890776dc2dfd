//! Weights that follow those of another network: [`moving_average`].

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// The values of a network in the visiting order, flat, and whether they are trained.
#[derive(Default)]
struct Values(Vec<(Tensor<1>, bool)>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // The master weights: a forward pass in half precision sees them rounded.
        let value = param.base();
        let trains = value.is_require_grad();
        let flat = value.without_autodiff();
        let count = flat.shape().num_elements();
        self.0.push((flat.reshape([count]), trains));
    }
}

struct Follow {
    values: std::vec::IntoIter<(Tensor<1>, bool)>,
    decay: f64,
}

impl ModuleMapper for Follow {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some((value, trains)) = self.values.next() else { return param };
        let (id, average, mapper) = param.consume();
        let average = average.without_autodiff();
        let value = value.reshape(average.dims());
        let value = if trains { average * self.decay + value * (1.0 - self.decay) } else { value };
        Param::from_mapped_value(id, value, mapper)
    }
}

/// One step of an exponential moving average of weights: `average * decay + network * (1 - decay)`,
/// for each parameter that `network` trains (on an autodiff device). Frozen parameters and running
/// statistics are copied. `average` is a network of the same kind, outside autodiff:
/// `network.valid()` at the start.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::{Device, Tensor};
/// use hearth_nn::moving_average;
/// use hearth_nn::networks::{Network, UNetConfig};
///
/// let device = Device::default().autodiff();
/// let new = |seed| UNetConfig::new(3, 1, 1, &[2, 4], &[2]).init(&device, seed);
/// let (mut average, network) = (new(0)?.valid(), new(1)?);
/// for _ in 0..200 {
///     average = moving_average(average, &network, 0.9);
/// }
/// let x = Tensor::ones([1, 1, 4, 4, 4], &device.inner());
/// let off = (average.forward(x.clone()) - network.valid().forward(x)).abs().max();
/// assert!(off.into_scalar::<f32>() < 1e-5);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[must_use]
pub fn moving_average<N: Module>(average: N, network: &N, decay: f64) -> N {
    let mut values = Values::default();
    network.visit(&mut values);
    average.map(&mut Follow { values: values.0.into_iter(), decay })
}
