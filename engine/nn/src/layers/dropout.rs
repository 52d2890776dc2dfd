//! Dropout whose mask is a function of (seed, step, layer), so that a resumed run draws what the first one would have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::{Flag, Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;
use rayon::prelude::*;

use super::ConfigError;

/// What all dropout layers of a network key their draws by. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DropoutClock(Arc<[AtomicU64; 3]>);

impl DropoutClock {
    /// Sets seed and training step, and counts forward passes within the step from 0 again.
    pub fn set(&self, seed: u64, step: u64) {
        let [own_seed, own_step, pass] = &*self.0;
        own_seed.store(seed, Ordering::Relaxed);
        own_step.store(step, Ordering::Relaxed);
        pass.store(0, Ordering::Relaxed);
    }

    /// Counts one forward pass; the passes of one step have masks of their own.
    pub fn next_pass(&self) {
        self.0[2].fetch_add(1, Ordering::Relaxed);
    }

    /// Draws of N(0, 1) of this step and pass, on the device of `like`.
    pub(crate) fn normal(&self, layer: &str, shape: [usize; 2], like: &Device) -> Tensor<2> {
        let key = self.key().with_text("normal").with_text(layer);
        let count = shape.iter().product::<usize>() as u64;
        let values: Vec<f32> = (0..count).map(|i| key.normal(i) as f32).collect();
        Tensor::from_data(TensorData::new(values, shape), like)
    }

    pub(super) fn key(&self) -> Key {
        let [seed, step, pass] = &*self.0;
        Key::new(seed.load(Ordering::Relaxed))
            .with_text("dropout")
            .with(step.load(Ordering::Relaxed))
            .with(pass.load(Ordering::Relaxed))
    }
}

/// `torch.nn.Dropout`, or `Dropout2d` and `Dropout3d` by channel: in training each element, or each channel of each item,
/// is 0 with probability `p`, else scaled by `1 / (1 - p)`.
#[derive(Module, Debug)]
pub struct Dropout {
    /// Whether the layer takes part in training; `freeze` clears it.
    pub training: Param<Flag>,
    #[module(skip)]
    p: f64,
    #[module(skip)]
    by_channel: bool,
    #[module(skip)]
    layer: String,
    #[module(skip)]
    clock: DropoutClock,
}

impl Dropout {
    /// A dropout layer; `layer` is its state-dict path.
    pub fn new(layer: &str, p: f64, clock: &DropoutClock) -> Result<Self, ConfigError> {
        if !(0.0..=1.0).contains(&p) {
            return Err(ConfigError::value("dropout", p, "a probability is in [0, 1]"));
        }
        Ok(Dropout {
            training: Param::from_bool(true),
            p,
            by_channel: false,
            layer: layer.to_owned(),
            clock: clock.clone(),
        })
    }

    /// The same layer, dropping whole channels.
    #[must_use]
    pub fn by_channel(self) -> Self {
        Dropout { by_channel: true, ..self }
    }

    /// Whether anything would be dropped.
    pub(crate) fn is_active<const D: usize>(&self, x: &Tensor<D>) -> bool {
        self.p != 0.0 && x.is_autodiff() && self.training.val().is_enabled()
    }

    /// Same shape out as in; unchanged outside training.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if !self.is_active(&x) {
            return x;
        }
        if self.p == 1.0 {
            return x * 0.0;
        }
        let key = self.clock.key().with_text(&self.layer);
        let mut shape = x.dims();
        if self.by_channel {
            shape.iter_mut().skip(2).for_each(|n| *n = 1);
        }
        let count = shape.iter().product::<usize>() as u64;
        let scale = (1.0 / (1.0 - self.p)) as f32;
        let mask: Vec<f32> =
            (0..count).into_par_iter().map(|i| if key.uniform(i) < self.p { 0.0 } else { scale }).collect();
        let mask = Tensor::<D>::from_data(TensorData::new(mask, shape), &x.device().inner()).cast(x.dtype());
        x * mask
    }
}
