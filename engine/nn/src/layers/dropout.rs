//! Dropout whose mask is a function of (seed, step, layer), so that a resumed run draws the same
//! masks as an uninterrupted one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::{Flag, Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;
use hearth_kernels::dropout::{Drops, dropout};

use super::{ConfigError, DropoutSpec};

/// The clock that keys the draws of all dropout layers of a network. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DropoutClock(Arc<[AtomicU64; 3]>);

impl DropoutClock {
    /// Sets seed and training step, and resets the count of forward passes within the step to 0.
    pub fn set(&self, seed: u64, step: u64) {
        let [own_seed, own_step, pass] = &*self.0;
        own_seed.store(seed, Ordering::Relaxed);
        own_step.store(step, Ordering::Relaxed);
        pass.store(0, Ordering::Relaxed);
    }

    /// Counts one forward pass; each pass of a step has its own masks.
    pub fn next_pass(&self) {
        self.0[2].fetch_add(1, Ordering::Relaxed);
    }

    /// The current seed, step and pass.
    pub(crate) fn now(&self) -> [u64; 3] {
        self.0.each_ref().map(|part| part.load(Ordering::Relaxed))
    }

    /// Runs a closure at an earlier time of the clock, and restores the current time.
    pub(crate) fn back_at<R>(&self, then: [u64; 3], run: impl FnOnce() -> R) -> R {
        let now = self.now();
        let set =
            |time: [u64; 3]| self.0.iter().zip(time).for_each(|(part, value)| part.store(value, Ordering::Relaxed));
        set(then);
        let result = run();
        set(now);
        result
    }

    /// Draws from N(0, 1) for the current step and pass, on the device of `like`.
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

/// The unit of dropping, and the replacement of dropped values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Each value separately.
    Each,
    /// Whole channels of an item.
    Channels,
    /// Each value separately, as self-normalizing networks require.
    Alpha,
}

/// The lower limit of SELU (Klambauer et al., <https://arxiv.org/abs/1706.02515>): minus alpha
/// times lambda.
const SATURATION: f64 = -1.758_099_340_847_376_6;

/// Dropout (`torch.nn.Dropout`, or `Dropout2d` and `Dropout3d` by channel): in training each
/// element, or each channel of each item, is 0 with probability `p`, otherwise scaled by `1 / (1 -
/// p)`. For `AlphaDropout`, dropped values become SELU's limit, and all are scaled and shifted so
/// that mean and variance are preserved.
#[derive(Module, Debug)]
pub struct Dropout {
    /// Whether the layer is in training mode; `freeze` clears it.
    pub training: Param<Flag>,
    #[module(skip)]
    p: f64,
    #[module(skip)]
    kind: Kind,
    #[module(skip)]
    layer: String,
    #[module(skip)]
    clock: DropoutClock,
}

impl Dropout {
    /// Builds a dropout layer; `layer` is its state-dict path.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(layer: &str, p: f64, clock: &DropoutClock) -> Result<Self, ConfigError> {
        if !(0.0..=1.0).contains(&p) {
            return Err(ConfigError::value("dropout", p, "a probability is in [0, 1]"));
        }
        Ok(Dropout {
            training: Param::from_bool(true),
            p,
            kind: Kind::Each,
            layer: layer.to_owned(),
            clock: clock.clone(),
        })
    }

    /// Builds the layer that is requested by name or by probability.
    ///
    /// # Errors
    /// Fails for an unknown name, an argument that the layer does not have, or a probability
    /// outside [0, 1].
    pub fn of(layer: &str, spec: &DropoutSpec, clock: &DropoutClock) -> Result<Self, ConfigError> {
        let spec = match spec {
            DropoutSpec::Probability(p) => return Self::new(layer, *p, clock),
            DropoutSpec::Layer(spec) => spec,
        };
        let p = spec.arguments(&["p", "inplace"])?.number("p", 0.5)?;
        let plain = Self::new(layer, p, clock)?;
        match spec.name().as_str() {
            "dropout" => Ok(plain),
            "alphadropout" => Ok(Dropout { kind: Kind::Alpha, ..plain }),
            name => {
                Err(ConfigError::UnknownName { kind: "dropout", name: name.to_owned(), known: "dropout, alphadropout" })
            }
        }
    }

    /// Returns the same layer, which drops whole channels.
    #[must_use]
    pub fn by_channel(self) -> Self {
        Dropout { kind: Kind::Channels, ..self }
    }

    /// Whether the layer can drop anything.
    pub(crate) fn is_active<const D: usize>(&self, x: &Tensor<D>) -> bool {
        self.p != 0.0 && x.is_autodiff() && self.training.val().is_enabled()
    }

    /// Applies the layer to `[b, c, ...]`; the shape is unchanged. The identity outside training.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if !self.is_active(&x) {
            return x;
        }
        // A dropped value becomes `dropped`. The rest are scaled and all are shifted, which
        // preserves mean and variance.
        let (dropped, scale, offset) = match self.kind {
            _ if self.p == 1.0 => return x * 0.0,
            Kind::Each | Kind::Channels => (0.0, (1.0 / (1.0 - self.p)) as f32, 0.0),
            Kind::Alpha => {
                let scale = ((1.0 - self.p) * (1.0 + self.p * SATURATION * SATURATION)).powf(-0.5);
                (SATURATION * scale, scale as f32, -SATURATION * self.p * scale)
            }
        };
        let run = if self.kind == Kind::Channels { x.dims().iter().skip(2).product::<usize>().max(1) } else { 1 };
        let key = self.clock.key().with_text(&self.layer);
        let offsets = [offset, dropped + offset].map(|offset| offset as f32);
        dropout(x, Drops { key, p: self.p, run, scale, offsets })
    }
}
