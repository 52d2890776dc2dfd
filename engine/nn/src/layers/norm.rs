//! Normalization layers: batch, instance and group.
//!
//! All norms compute sums in f32 and return their input's type.

use std::sync::Arc;

use burn::module::{Flag, Module, Param};
use burn::tensor::{DType, Tensor};

use hearth_kernels::conv3d::{NormAct, NormBehind};
use hearth_kernels::normalize::{Normalized, Over, Slope, follow, normalize, scale};

use super::single_value::{check_batch_norm, check_group_norm};
use super::{Act, ConfigError, LayerPath, LayerSpec, Scope, SyncedNorms, relu};
use crate::cost;
use crate::running::{Buffer, Counter};
use crate::trace::{self, Op, Weight};

/// Counts the output of a layer, which is identified by its weight, if any.
fn counted(weight: &Option<Param<Tensor<1>>>, y: Tensor<5>) -> Tensor<5> {
    cost::output(weight.as_ref().map(|weight| weight.id), y)
}

/// No activation after the norm.
const NONE: Slope = Slope::Fixed(1.0);

/// Scale and offset as weights in the network's graph.
fn told(weight: &Option<Param<Tensor<1>>>, bias: &Option<Param<Tensor<1>>>) -> [Option<Weight>; 2] {
    [weight, bias].map(|values| values.as_ref().map(|values| Weight::of(&values.val())))
}

/// Scale and offset in f32, if the layer has them.
fn affine(weight: &Option<Param<Tensor<1>>>, bias: &Option<Param<Tensor<1>>>) -> Option<(Tensor<1>, Tensor<1>)> {
    weight
        .as_ref()
        .zip(bias.as_ref())
        .map(|(weight, bias)| (weight.val().cast(DType::F32), bias.val().cast(DType::F32)))
}

/// `torch.nn.BatchNorm3d` (Ioffe and Szegedy, <https://arxiv.org/abs/1502.03167>).
///
/// In training, the batch is normalized with its biased variance, and the running variance is
/// updated with the unbiased one, as in PyTorch.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// Scale per channel.
    pub weight: Option<Param<Tensor<1>>>,
    /// Offset per channel.
    pub bias: Option<Param<Tensor<1>>>,
    /// Mean per channel, used in evaluation.
    pub running_mean: Buffer,
    /// Variance per channel, used in evaluation.
    pub running_var: Buffer,
    /// Number of training batches so far.
    pub num_batches_tracked: Counter,
    /// Whether the layer is in training mode; `freeze` clears it.
    pub training: Param<Flag>,
    #[module(skip)]
    eps: f64,
    #[module(skip)]
    momentum: f64,
    /// Whether the statistics are computed over all ranks.
    #[module(skip)]
    synced: bool,
    #[module(skip)]
    path: LayerPath,
}

impl BatchNorm {
    /// A batch norm with scale 1, offset 0, running mean 0 and running variance 1.
    pub fn new(scope: &Scope, channels: usize, eps: f64, momentum: f64, affine: bool) -> Self {
        let device = scope.device().clone().inner();
        // The length of mean and variance. In a rehearsal they have no values.
        let kept = if scope.count("running_mean", &[2, channels]) { 1 } else { channels };
        BatchNorm {
            weight: affine.then(|| scope.draw("weight", [channels], scope.init().scales())),
            bias: affine.then(|| scope.constant([channels], 0.0)),
            running_mean: Buffer::new(Tensor::zeros([kept], &device)),
            running_var: Buffer::new(Tensor::ones([kept], &device)),
            num_batches_tracked: Counter::new(&device),
            training: Param::from_bool(true),
            eps,
            momentum,
            synced: false,
            path: LayerPath::of(scope),
        }
    }

    /// Computes the statistics over all ranks that train together (`torch.nn.SyncBatchNorm`); see
    /// [`SyncedNorms`].
    pub fn synced(self) -> Self {
        Self { synced: true, ..self }
    }

    /// Applies the layer to `[b, c, x, y, z]`; the shape is unchanged.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_then(x, &NONE)
    }

    /// Applies the norm and a ReLU.
    pub(crate) fn forward_relu(&self, x: Tensor<5>) -> Tensor<5> {
        if cost::apart() { relu(self.forward(x)) } else { self.forward_then(x, &Slope::Fixed(0.0)) }
    }

    fn forward_then(&self, x: Tensor<5>, slope: &Slope) -> Tensor<5> {
        let _range = self.path.enter(0);
        let training = x.is_autodiff() && self.training.val().is_enabled();
        let taken = trace::inputs([&x]);
        let y = if training { self.forward_training(x, slope) } else { self.forward_evaluation(x, slope) };
        let op = || {
            let (scale, offset) = self.evaluation();
            Op::Scale { scale: Weight::of(&scale), offset: Weight::of(&offset) }
        };
        trace::note(taken, self.path.name(), op, counted(&self.weight, y))
    }

    /// Scale and offset per channel, from the running statistics.
    pub(crate) fn evaluation(&self) -> (Tensor<1>, Tensor<1>) {
        let inverse = (self.running_var.value() + self.eps).sqrt().recip();
        let (factor, start) = match affine(&self.weight, &self.bias) {
            Some((weight, bias)) => (weight * inverse, Some(bias)),
            None => (inverse, None),
        };
        let moved = self.running_mean.value() * factor.clone();
        let offset = start.map_or_else(|| -moved.clone(), |bias| bias - moved.clone());
        (factor, offset)
    }

    fn forward_evaluation(&self, x: Tensor<5>, slope: &Slope) -> Tensor<5> {
        let (factor, offset) = self.evaluation();
        scale(x, factor, offset, slope)
    }

    fn forward_training(&self, x: Tensor<5>, slope: &Slope) -> Tensor<5> {
        if let Some(synced) = SyncedNorms::current(self.synced) {
            return self.forward_synced(x, slope, &synced);
        }
        let [b, _, dx, dy, dz] = x.dims();
        check_batch_norm(&self.path, x.dims());
        let result = normalize(x, affine(&self.weight, &self.bias), slope, Over::Batch, self.eps);
        let Normalized { output, mean, variance } = result;
        self.follow(mean, variance, (b * dx * dy * dz) as f64);
        output
    }

    /// Applies the norm with statistics over the batches of all ranks, which may differ in size.
    fn forward_synced(&self, x: Tensor<5>, slope: &Slope, synced: &Arc<SyncedNorms>) -> Tensor<5> {
        let [b, c, dx, dy, dz] = x.dims();
        let (number, dtype) = (synced.next(), x.dtype());
        let x = x.cast(DType::F32);
        let by_channel = |x: Tensor<5>| x.swap_dims(0, 1).reshape([c, b * dx * dy * dz]).sum_dim(1).reshape([c]);
        let wide = |values: Tensor<1>| values.reshape([1, c, 1, 1, 1]);
        let own = Tensor::full([1], (b * dx * dy * dz) as f32, &x.device());
        let sums = synced.sum(number, "mean", Tensor::cat(vec![by_channel(x.clone()), own], 0));
        let count = sums.clone().narrow(0, c, 1);
        let mean = sums.narrow(0, 0, c) / count.clone();
        let centred = x - wide(mean.clone());
        let variance = synced.sum(number, "variance", by_channel(centred.clone().square())) / count.clone();
        let y = centred * wide((variance.clone() + self.eps).sqrt().recip());
        let y = match affine(&self.weight, &self.bias) {
            Some((weight, bias)) => y * wide(weight) + wide(bias),
            None => y,
        };
        let y = match slope {
            Slope::Fixed(1.0) => y,
            Slope::Fixed(slope) => y.clone().clamp_min(0.0) + y.clamp_max(0.0) * *slope,
            Slope::Learned(slope) => {
                y.clone().clamp_min(0.0) + y.clamp_max(0.0) * slope.clone().reshape([1, -1, 1, 1, 1])
            }
        };
        let count = count.without_autodiff().into_data().iter::<f64>().next().unwrap_or(1.0);
        self.follow(mean.without_autodiff(), variance.without_autodiff(), count);
        y.cast(dtype)
    }

    /// Updates the running statistics with those of `count` values.
    fn follow(&self, mean: Tensor<1>, variance: Tensor<1>, count: f64) {
        let running = [self.running_mean.value(), self.running_var.value()];
        let [mean, variance] = follow(running, [mean, variance], self.momentum, count);
        self.running_mean.set(mean);
        self.running_var.set(variance);
        self.num_batches_tracked.increment();
    }
}

/// `torch.nn.GroupNorm` (Wu and He, <https://arxiv.org/abs/1803.08494>): normalizes by mean and
/// variance of each item and group of channels.
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// Scale per channel.
    pub weight: Option<Param<Tensor<1>>>,
    /// Offset per channel.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    groups: usize,
    #[module(skip)]
    eps: f64,
    #[module(skip)]
    path: LayerPath,
}

impl GroupNorm {
    /// Builds a group norm. `channels` must be divisible by `groups`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, groups: usize, channels: usize, eps: f64, affine: bool) -> Result<Self, ConfigError> {
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Err(ConfigError::value(
                "group.num_groups",
                groups,
                format!("the {channels} channels of `{}` must be divisible by it", scope.path()),
            ));
        }
        Ok(GroupNorm {
            weight: affine.then(|| scope.constant([channels], 1.0)),
            bias: affine.then(|| scope.constant([channels], 0.0)),
            groups,
            eps,
            path: LayerPath::of(scope),
        })
    }

    /// Applies the layer to `[b, c, x, y, z]`; the shape is unchanged.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_then(x, &NONE)
    }

    fn forward_then(&self, x: Tensor<5>, slope: &Slope) -> Tensor<5> {
        let _range = self.path.enter(0);
        check_group_norm(&self.path, x.dims(), self.groups);
        let over = Over::Groups(self.groups);
        let taken = trace::inputs([&x]);
        let y = counted(&self.weight, normalize(x, affine(&self.weight, &self.bias), slope, over, self.eps).output);
        let op = || {
            let [weight, bias] = told(&self.weight, &self.bias);
            Op::GroupNorm { groups: self.groups, eps: self.eps, weight, bias }
        };
        trace::note(taken, self.path.name(), op, y)
    }
}

/// `torch.nn.InstanceNorm3d` (Ulyanov et al., <https://arxiv.org/abs/1607.08022>): normalizes by
/// mean and variance of each item and channel. Without affine parameters by default.
#[derive(Module, Debug)]
pub struct InstanceNorm {
    /// Scale per channel, if affine.
    pub weight: Option<Param<Tensor<1>>>,
    /// Offset per channel, if affine.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    eps: f64,
    #[module(skip)]
    path: LayerPath,
}

impl InstanceNorm {
    /// Builds an instance norm.
    pub fn new(scope: &Scope, channels: usize, eps: f64, affine: bool) -> Self {
        InstanceNorm {
            weight: affine.then(|| scope.constant([channels], 1.0)),
            bias: affine.then(|| scope.constant([channels], 0.0)),
            eps,
            path: LayerPath::of(scope),
        }
    }

    /// Applies the layer to `[b, c, x, y, z]`; the shape is unchanged.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_then(x, &NONE)
    }

    fn forward_then(&self, x: Tensor<5>, slope: &Slope) -> Tensor<5> {
        let _range = self.path.enter(0);
        let channels = x.dims()[1];
        check_group_norm(&self.path, x.dims(), channels);
        let taken = trace::inputs([&x]);
        let result = normalize(x, affine(&self.weight, &self.bias), slope, Over::Groups(channels), self.eps);
        let op = || {
            let [weight, bias] = told(&self.weight, &self.bias);
            Op::InstanceNorm { eps: self.eps, weight, bias, channels }
        };
        trace::note(taken, self.path.name(), op, counted(&self.weight, result.output))
    }
}

/// A normalization layer, with MONAI's name.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a few dozen of them, and modules cannot be boxed")]
pub enum Norm {
    /// `batch`, `syncbatch`
    Batch(BatchNorm),
    /// `instance`, `instance_nvfuser`
    Instance(InstanceNorm),
    /// `group`
    Group(GroupNorm),
}

impl Norm {
    /// Builds the requested layer.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, spec: &LayerSpec, channels: usize) -> Result<Self, ConfigError> {
        match spec.name().as_str() {
            name @ ("batch" | "syncbatch") => {
                let given = spec.arguments(&["num_features", "eps", "momentum", "affine"])?;
                same_channels(given.count("num_features", channels)?, channels)?;
                let (eps, momentum) = (given.number("eps", 1e-5)?, given.number("momentum", 0.1)?);
                let norm = BatchNorm::new(scope, channels, eps, momentum, given.flag("affine", true)?);
                Ok(Norm::Batch(if name == "syncbatch" { norm.synced() } else { norm }))
            }
            "instance" | "instance_nvfuser" => {
                // Without running statistics the momentum has no effect.
                let given = spec.arguments(&["num_features", "eps", "momentum", "affine"])?;
                same_channels(given.count("num_features", channels)?, channels)?;
                let eps = given.number("eps", 1e-5)?;
                Ok(Norm::Instance(InstanceNorm::new(scope, channels, eps, given.flag("affine", false)?)))
            }
            "group" => {
                let given = spec.arguments(&["num_groups", "num_channels", "eps", "affine"])?;
                same_channels(given.count("num_channels", channels)?, channels)?;
                let groups = given.count("num_groups", 0)?;
                let (eps, affine) = (given.number("eps", 1e-5)?, given.flag("affine", true)?);
                Ok(Norm::Group(GroupNorm::new(scope, groups, channels, eps, affine)?))
            }
            name => Err(ConfigError::UnknownName {
                kind: "norm",
                name: name.to_owned(),
                known: "batch, syncbatch, instance, instance_nvfuser, group",
            }),
        }
    }

    /// The norm followed by an activation of this slope, as the epilogue of a convolution outside
    /// training.
    pub(crate) fn behind_convolution(&self, slope: Slope) -> NormAct {
        let norm = match self {
            Norm::Batch(norm) => {
                let (scale, offset) = norm.evaluation();
                NormBehind::Given { scale, offset }
            }
            Norm::Instance(InstanceNorm { weight, bias, eps, .. }) => {
                NormBehind::OfGroups { groups: None, affine: affine(weight, bias), eps: *eps }
            }
            Norm::Group(GroupNorm { weight, bias, groups, eps, .. }) => {
                NormBehind::OfGroups { groups: Some(*groups), affine: affine(weight, bias), eps: *eps }
            }
        };
        NormAct { norm, slope }
    }

    /// Applies the layer to `[b, c, x, y, z]`; the shape is unchanged.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_then(x, &NONE)
    }

    /// Applies the norm and the activation after it to `[b, c, x, y, z]`, in one pass for activations
    /// like ReLU.
    pub fn forward_with(&self, x: Tensor<5>, act: &Act) -> Tensor<5> {
        match act.slope() {
            Some(slope) if !cost::apart() => self.forward_then(x, &slope),
            _ => act.forward(self.forward(x)),
        }
    }

    /// Applies the norm and a ReLU.
    pub(crate) fn forward_relu(&self, x: Tensor<5>) -> Tensor<5> {
        if cost::apart() { relu(self.forward(x)) } else { self.forward_then(x, &Slope::Fixed(0.0)) }
    }

    /// Applies the norm, and multiplies non-positive results by a slope.
    pub(crate) fn forward_then(&self, x: Tensor<5>, slope: &Slope) -> Tensor<5> {
        match self {
            Norm::Batch(norm) => norm.forward_then(x, slope),
            Norm::Instance(norm) => norm.forward_then(x, slope),
            Norm::Group(norm) => norm.forward_then(x, slope),
        }
    }
}

fn same_channels(given: usize, channels: usize) -> Result<(), ConfigError> {
    if given == channels {
        return Ok(());
    }
    Err(ConfigError::value("norm channels", given, format!("the layer has {channels} channels")))
}
