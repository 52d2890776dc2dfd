//! Where a layer is being built: device, seed and state-dict path.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;

/// Device, seed and path of the layer under construction.
///
/// Initial weights are draws keyed by (seed, parameter path): the same on any device, and a parameter keeps its draw
/// when other layers come or go.
#[derive(Clone, Debug)]
pub struct Scope {
    device: Device,
    seed: u64,
    path: String,
}

impl Scope {
    /// The root of a network.
    pub fn new(device: &Device, seed: u64) -> Self {
        Scope { device: device.clone(), seed, path: String::new() }
    }

    /// The scope of a submodule.
    pub fn enter(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Scope { path, ..self.clone() }
    }

    /// The device parameters go to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The state-dict path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A parameter drawn from U(-bound, bound).
    pub fn uniform<const D: usize>(&self, name: &str, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        let key = Key::new(self.seed).with_text("init").with_text(&self.enter(name).path);
        let count = shape.iter().product::<usize>() as u64;
        let values: Vec<f32> = (0..count).map(|i| ((2.0 * key.uniform(i) - 1.0) * bound) as f32).collect();
        Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), &self.device))
    }

    /// A parameter of one value.
    pub fn constant<const D: usize>(&self, shape: [usize; D], value: f64) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::full(shape, value, &self.device))
    }
}
