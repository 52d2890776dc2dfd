//! The context of a layer under construction: device, seed and state-dict path.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;
use rayon::prelude::*;

use super::awaited::{are_awaited, are_undrawn, when_used};
use super::rehearsal::{self, unwritten};
use super::{Draw, Init};

/// The context of a layer under construction: device, seed and path.
///
/// Initial weights are draws keyed by (seed, parameter path): they are the same on any device, and
/// do not change when other layers are added or removed.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::layers::{Linear, Scope};
/// let scope = Scope::new(&Device::default(), 7).enter("head");
/// assert_eq!(scope.path(), "head");
/// let (first, second) = (Linear::new(&scope, [4, 2], true), Linear::new(&scope, [4, 2], true));
/// let difference = first.weight.val() - second.weight.val();
/// assert_eq!(difference.abs().max().into_scalar::<f32>(), 0.0); // the same seed and path
/// ```
#[derive(Clone, Debug)]
pub struct Scope {
    device: Device,
    seed: u64,
    path: String,
    init: Init,
}

impl Scope {
    /// The root of a network.
    pub fn new(device: &Device, seed: u64) -> Self {
        Scope { device: device.clone(), seed, path: String::new(), init: Init::default() }
    }

    /// The scope of a submodule.
    pub fn enter(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Scope { path, ..self.clone() }
    }

    /// The same scope with another distribution of initial weights.
    pub fn with_init(&self, init: Init) -> Self {
        Scope { init, ..self.clone() }
    }

    /// The distribution of initial weights.
    pub fn init(&self) -> Init {
        self.init
    }

    /// The device of the parameters.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The state-dict path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A parameter of this name and shape, drawn from U(-bound, bound).
    pub fn uniform<const D: usize>(&self, name: &str, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        self.draw(name, shape, Draw::Uniform(bound))
    }

    /// A parameter of this name and shape, drawn from a distribution.
    pub fn draw<const D: usize>(&self, name: &str, shape: [usize; D], draw: Draw) -> Param<Tensor<D>> {
        if self.count(name, &shape) {
            return unwritten(shape, &self.device);
        }
        if are_undrawn() {
            return Param::from_tensor(Tensor::zeros(shape, &self.device));
        }
        let key = self.key(name);
        let values = move |device: &Device| Tensor::from_data(TensorData::new(drawn(key, &shape, draw), shape), device);
        if are_awaited() { when_used(shape, &self.device, values) } else { Param::from_tensor(values(&self.device)) }
    }

    /// The key of the draws of a parameter.
    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(self.seed).with_text("init").with_text(&self.enter(name).path)
    }

    /// Counts values that a layer creates itself, if a rehearsal is in progress; returns whether
    /// one is.
    pub(crate) fn count(&self, name: &str, shape: &[usize]) -> bool {
        rehearsal::count(|| self.enter(name).path, shape)
    }

    /// A parameter of this shape, filled with one value.
    pub fn constant<const D: usize>(&self, shape: [usize; D], value: f64) -> Param<Tensor<D>> {
        if self.count("*", &shape) {
            return unwritten(shape, &self.device);
        }
        Param::from_tensor(Tensor::full(shape, value, &self.device))
    }
}

/// The values of a parameter, drawn with this key.
fn drawn(key: Key, shape: &[usize], draw: Draw) -> Vec<f32> {
    let count = shape.iter().product::<usize>() as u64;
    match draw {
        Draw::Constant(value) => vec![value as f32; shape.iter().product()],
        Draw::Uniform(bound) => each(count, |i| (2.0 * key.uniform(i) - 1.0) * bound),
        Draw::Normal(deviation) => each(count, |i| key.normal(i) * deviation),
        Draw::NormalAboutOne(deviation) => each(count, |i| 1.0 + key.normal(i) * deviation),
        Draw::NormalInGroups(deviation, copies) => {
            let entry = shape.iter().skip(1).product::<usize>().max(1) as u64;
            let group = entry * copies.max(1) as u64;
            each(count, |i| key.normal(i / group * entry + i % entry) * deviation)
        }
    }
}

fn each(count: u64, value: impl Fn(u64) -> f64 + Sync) -> Vec<f32> {
    (0..count).into_par_iter().map(|i| value(i) as f32).collect()
}
