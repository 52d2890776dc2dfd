//! Statistics of the weights or gradients of each layer: computed on the device, and read back
//! together.

use burn::module::{ModuleVisitor, Param};
use burn::tensor::{DType, Int, Tensor};
use hearth_engine::{HostError, LayerStatistics};
use hearth_kernels::device_error::reason;
use hearth_nn::networks::Network;
use hearth_nn::optim::Gradients;
use hearth_nn::parameters;

/// Statistics of the parameters and running statistics, in the network's order.
pub(crate) fn of_weights<N: Network>(network: &N) -> Result<Vec<LayerStatistics>, HostError> {
    let mut values = Values::default();
    network.visit(&mut values);
    let names = parameters(network).into_iter().map(|parameter| parameter.name().to_owned());
    of(names.zip(values.0).collect())
}

/// Statistics of the gradients, in the order of the network's parameters; parameters without a
/// gradient are skipped.
pub(crate) fn of_gradients<N: Network>(network: &N, gradients: &Gradients) -> Result<Vec<LayerStatistics>, HostError> {
    let parameters = parameters(network);
    let gradient = |parameter: &hearth_nn::ParameterName| {
        Some((parameter.name().to_owned(), gradients.get(&parameter.path)?.clone()))
    };
    of(parameters.iter().filter_map(gradient).collect())
}

/// The values of all parameters in the order of a visit.
#[derive(Default)]
struct Values(Vec<Tensor<1>>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // The master weights: a forward pass in half precision sees them rounded.
        let values = param.base().without_autodiff();
        let count = values.shape().num_elements();
        self.0.push(values.reshape([count]));
    }
}

fn of(layers: Vec<(String, Tensor<1>)>) -> Result<Vec<LayerStatistics>, HostError> {
    if layers.is_empty() {
        return Ok(Vec::new());
    }
    let counts: Vec<usize> = layers.iter().map(|(_, values)| values.dims()[0]).collect();
    let (numbers, finite): (Vec<_>, Vec<_>) = layers.iter().map(|(_, values)| measure(values.clone())).unzip();
    let unread = |error: &dyn std::fmt::Display| {
        let why = reason(&error);
        HostError::new(format!("the statistics of the layers cannot be read back from the device: {why}"))
    };
    let numbers: Vec<f32> = Tensor::cat(numbers, 0).try_into_vec_as().map_err(|error| unread(&error))?;
    let finite: Vec<i64> = Tensor::cat(finite, 0).try_into_vec_as().map_err(|error| unread(&error))?;
    let each = layers.into_iter().zip(counts).zip(finite.into_iter().zip(numbers.as_chunks::<4>().0));
    let each = each.map(|(((name, _), count), (finite, numbers))| {
        let [mean, std, min, max] = numbers.map(|number| if finite == 0 { f64::NAN } else { f64::from(number) });
        let non_finite = (count as u64).saturating_sub(finite.unsigned_abs());
        LayerStatistics { name, count: count as u64, mean, std, min, max, non_finite }
    });
    Ok(each.collect())
}

/// Mean, standard deviation, minimum and maximum `[4]` of the finite values, and their number
/// `[1]`.
fn measure(values: Tensor<1>) -> (Tensor<1>, Tensor<1, Int>) {
    let values = values.cast(DType::F32);
    let wild = values.clone().is_finite().bool_not();
    let finite = wild.clone().bool_not().int().sum();
    // Counted as an integer: f32 cannot count beyond 2^24.
    let divisor = finite.clone().float().cast(DType::F32).clamp_min(1.0);
    let mean = values.clone().mask_fill(wild.clone(), 0.0).sum() / divisor.clone();
    let off = (values.clone() - mean.clone()).mask_fill(wild.clone(), 0.0);
    let std = ((off.clone() * off).sum() / divisor).sqrt();
    let min = values.clone().mask_fill(wild.clone(), f32::INFINITY).min();
    let max = values.mask_fill(wild, f32::NEG_INFINITY).max();
    (Tensor::cat(vec![mean, std, min, max], 0), finite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// The reference: plain sums in f64.
    fn plain(name: &str, values: &[f32]) -> LayerStatistics {
        let finite: Vec<f64> = values.iter().filter(|value| value.is_finite()).map(|value| f64::from(*value)).collect();
        let count = finite.len() as f64;
        let mean = finite.iter().sum::<f64>() / count;
        LayerStatistics {
            name: name.into(),
            count: values.len() as u64,
            mean,
            std: (finite.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt(),
            min: finite.iter().copied().reduce(f64::min).unwrap_or(f64::NAN),
            max: finite.iter().copied().reduce(f64::max).unwrap_or(f64::NAN),
            non_finite: (values.len() - finite.len()) as u64,
        }
    }

    #[test]
    fn the_device_says_what_plain_sums_say() {
        let wave = |count: usize, offset: f32| -> Vec<f32> {
            (0..count).map(|index| (index as f32 * 0.37).sin() * 0.5 + offset).collect()
        };
        let mut wild = wave(1000, -3.0);
        (wild[7], wild[300], wild[999]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        let layers = [
            ("one", vec![2.5]),
            ("small", wave(27, 0.0)),
            ("wild", wild),
            ("large", wave(3_000_000, 1.0)),
            ("none", vec![f32::NAN, f32::INFINITY]),
        ];
        let device = Device::flex();
        let tensors =
            layers.iter().map(|(name, values)| ((*name).to_owned(), Tensor::from_data(values.as_slice(), &device)));
        let found = of(tensors.collect()).expect("a device that can be read");
        assert_eq!(found.len(), layers.len());
        for (found, (name, values)) in found.iter().zip(&layers) {
            let plain = plain(name, values);
            assert_eq!((&found.name, found.count, found.non_finite), (&plain.name, plain.count, plain.non_finite));
            let pairs =
                [(found.mean, plain.mean), (found.std, plain.std), (found.min, plain.min), (found.max, plain.max)];
            for (found, plain) in pairs {
                let near = (found - plain).abs() <= 2e-6 + 2e-5 * plain.abs();
                assert!(near || (found.is_nan() && plain.is_nan()), "{name}: {found} and not {plain}");
            }
        }
        assert!(of(Vec::new()).expect("nothing to read").is_empty());
    }
}
