//! The blocks of nnU-Net's networks (`dynamic_network_architectures`), with its state-dict names.

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::{Channels, ConvShape};

use super::facts::Facts;
use crate::layers::{
    Act, Axes, ConfigError, Conv, ConvTranspose, Dropout, LayerSpec, Norm, Scope, act, norm, norm_then_act,
    residual_sum,
};
use crate::named::Named;
use crate::trace::joined;

/// The options that all units of a network share.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    pub bias: bool,
    pub norm: Option<LayerSpec>,
    pub act: Option<LayerSpec>,
    pub dropout: f64,
}

/// The checked features, kernels and strides of each stage, and the layers of their units.
#[derive(Debug)]
pub(super) struct Stages {
    pub facts: Facts,
    pub features: Vec<usize>,
    pub kernels: Vec<[usize; 3]>,
    pub strides: Vec<[usize; 3]>,
    pub layers: Layers,
}

impl Stages {
    /// Checks that each list has an entry per stage, and computes the divisor of the input's axes.
    pub fn new(
        mut facts: Facts,
        features: &[usize],
        [kernels, strides]: [&[Axes]; 2],
        layers: Layers,
    ) -> Result<Self, ConfigError> {
        let stages = features.len();
        if stages < 2 || features.contains(&0) {
            return Err(ConfigError::value("features_per_stage", features, "expected at least two numbers above 0"));
        }
        let dims = facts.spatial_dims;
        let resolve = |name: &str, axes: &[Axes]| -> Result<Vec<[usize; 3]>, ConfigError> {
            one_each(name, axes.len(), stages)?;
            axes.iter().map(|axes| axes.positive(name, dims)).collect()
        };
        let (kernels, strides) = (resolve("kernel_sizes", kernels)?, resolve("strides", strides)?);
        if let Some(even) = kernels.iter().find(|kernel| kernel.iter().any(|length| length % 2 == 0)) {
            return Err(ConfigError::value("kernel_sizes", even, "every axis must be odd"));
        }
        for stride in &strides {
            facts
                .divisor
                .iter_mut()
                .zip(stride)
                .for_each(|(divisor, stride)| *divisor = divisor.saturating_mul(*stride));
        }
        Ok(Stages { facts, features: features.to_vec(), kernels, strides, layers })
    }

    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// One number per stage: the given ones, or `default` everywhere.
    pub fn counts(
        name: &str,
        given: &Option<Vec<usize>>,
        stages: usize,
        default: usize,
    ) -> Result<Vec<usize>, ConfigError> {
        let Some(given) = given else { return Ok(vec![default; stages]) };
        one_each(name, given.len(), stages)?;
        if given.contains(&0) {
            return Err(ConfigError::value(name, given, "expected at least 1"));
        }
        Ok(given.clone())
    }
}

fn one_each(name: &str, given: usize, stages: usize) -> Result<(), ConfigError> {
    if given == stages {
        return Ok(());
    }
    Err(ConfigError::value(format!("the length of {name}"), given, format!("expected {stages}, one for each stage")))
}

/// A convolution with dropout, norm and activation: `ConvDropoutNormReLU`.
#[derive(Module, Debug)]
pub(super) struct ConvUnit {
    conv: Conv,
    dropout: Option<Dropout>,
    norm: Option<Norm>,
    nonlin: Option<Act>,
}

/// The options of a unit that differ within a network.
pub(super) struct UnitOptions {
    pub channels: [usize; 2],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    /// Whether the unit ends with the activation.
    pub activated: bool,
}

impl ConvUnit {
    pub fn new(scope: &Scope, options: UnitOptions, stages: &Stages) -> Result<Self, ConfigError> {
        let UnitOptions { channels, kernel, stride, activated } = options;
        let Layers { bias, dropout, .. } = stages.layers;
        let shape = ConvShape { stride, padding: kernel.map(|length| length / 2), dilation: [1; 3], groups: 1 };
        let drops = |p: f64| Dropout::new(scope.path(), p, &stages.facts.clock).map(Dropout::by_channel);
        let nonlin = act(&scope.enter("nonlin"), &stages.layers.act)?;
        Ok(ConvUnit {
            conv: Conv::new(&scope.enter("conv"), channels, kernel, shape, bias),
            dropout: (dropout > 0.0).then(|| drops(dropout)).transpose()?,
            norm: norm(&scope.enter("norm"), &stages.layers.norm, channels[1])?,
            nonlin: nonlin.filter(|_| activated),
        })
    }

    /// The shortcut's convolution, without bias and activation.
    pub fn projection(scope: &Scope, channels: [usize; 2], stages: &Stages) -> Result<Self, ConfigError> {
        let shape = ConvShape { stride: [1; 3], padding: [0; 3], dilation: [1; 3], groups: 1 };
        Ok(ConvUnit {
            conv: Conv::new(&scope.enter("conv"), channels, [1; 3], shape, false),
            dropout: None,
            norm: norm(&scope.enter("norm"), &stages.layers.norm, channels[1])?,
            nonlin: None,
        })
    }

    /// Initializes the norm's scale to 0, so that a residual block starts as its shortcut.
    pub fn zeroed(mut self, scope: &Scope) -> Self {
        let parameters = match &mut self.norm {
            Some(Norm::Batch(norm)) => [&mut norm.weight, &mut norm.bias],
            Some(Norm::Instance(norm)) => [&mut norm.weight, &mut norm.bias],
            Some(Norm::Group(norm)) => [&mut norm.weight, &mut norm.bias],
            None => return self,
        };
        for parameter in parameters.into_iter().flatten() {
            *parameter = scope.constant(parameter.lazy_shape().dims(), 0.0);
        }
        self
    }

    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_of(Channels::One(x))
    }

    /// Runs the unit on channels that may be split over two tensors.
    fn forward_of(&self, x: Channels) -> Tensor<5> {
        match &self.dropout {
            None => self.conv.forward_with(x, &self.norm, &self.nonlin),
            Some(dropout) => norm_then_act(&self.norm, &self.nonlin, dropout.forward(self.conv.forward_of(x))),
        }
    }
}

/// A sequence of units: `StackedConvBlocks`.
#[derive(Module, Debug)]
pub(super) struct ConvStack {
    convs: Named<ConvUnit>,
}

impl ConvStack {
    /// Builds `count` units, the first with this stride.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        [input, output]: [usize; 2],
        [kernel, stride]: [[usize; 3]; 2],
        count: usize,
        stages: &Stages,
    ) -> Result<Self, ConfigError> {
        let scope = scope.enter("convs");
        let convs = (0..count).map(|i| {
            let (input, stride) = if i == 0 { (input, stride) } else { (output, [1; 3]) };
            let options = UnitOptions { channels: [input, output], kernel, stride, activated: true };
            ConvUnit::new(&scope.enter(&i.to_string()), options, stages)
        });
        Ok(ConvStack { convs: Named::numbered(convs.collect::<Result<Vec<_>, _>>()?) })
    }

    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_of(Channels::One(x))
    }

    fn forward_of(&self, x: Channels) -> Tensor<5> {
        joined(self.convs.iter().fold(x, |x, unit| Channels::One(unit.forward_of(x))))
    }
}

/// The decoder, from the bottom up: transposed convolution, concatenation with the encoder's
/// features, and units, with an output per step.
#[derive(Module, Debug)]
pub(super) struct UNetDecoder {
    stages: Named<ConvStack>,
    transpconvs: Named<ConvTranspose>,
    seg_layers: Named<Conv>,
}

impl UNetDecoder {
    pub fn new(scope: &Scope, counts: &[usize], classes: usize, stages: &Stages) -> Result<Self, ConfigError> {
        let steps = stages.len() - 1;
        let step = |name: &str, i: usize| scope.enter(name).enter(&i.to_string());
        let (mut stacks, mut ups, mut heads) = (Vec::new(), Vec::new(), Vec::new());
        for (i, count) in counts.iter().copied().enumerate().take(steps) {
            let level = steps - 1 - i;
            let (below, here, stride) = (stages.features[level + 1], stages.features[level], stages.strides[level + 1]);
            let shape = ConvShape { stride, padding: [0; 3], dilation: [1; 3], groups: 1 };
            let bias = stages.layers.bias;
            ups.push(ConvTranspose::new(&step("transpconvs", i), [below, here], stride, shape, [0; 3], bias));
            let sizes = [stages.kernels[level], [1; 3]];
            stacks.push(ConvStack::new(&step("stages", i), [2 * here, here], sizes, count, stages)?);
            let plain = ConvShape { stride: [1; 3], padding: [0; 3], dilation: [1; 3], groups: 1 };
            heads.push(Conv::new(&step("seg_layers", i), [here, classes], [1; 3], plain, true));
        }
        Ok(UNetDecoder {
            stages: Named::numbered(stacks),
            transpconvs: Named::numbered(ups),
            seg_layers: Named::numbered(heads),
        })
    }

    /// Computes the output from the encoder's features, top first. With `all`, the outputs of lower
    /// steps follow, each at its own size.
    pub fn forward(&self, mut skips: Vec<Tensor<5>>, all: bool) -> Vec<Tensor<5>> {
        let mut outputs = Vec::new();
        let Some(mut x) = skips.pop() else { return outputs };
        let steps = self.stages.iter().zip(self.transpconvs.iter()).zip(self.seg_layers.iter());
        for ((stack, up), head) in steps {
            let Some(skip) = skips.pop() else { break };
            x = stack.forward_of(Channels::Two(up.forward_of(Channels::One(x)), skip));
            if all || skips.is_empty() {
                outputs.insert(0, head.forward(x.clone()));
            }
        }
        outputs
    }
}

/// The additional keys of a parameter: every unit registers its layers twice, and the decoder
/// registers the encoder.
pub(super) fn aliases(path: &str, dropout: f64) -> Vec<String> {
    let norm = if dropout > 0.0 { ".all_modules.2." } else { ".all_modules.1." };
    let mut names = vec![path.to_owned()];
    let twice = [(".conv.", ".all_modules.0."), (".norm.", norm)];
    if let Some((own, other)) = twice.into_iter().find(|(own, _)| path.contains(own)) {
        names.push(path.replace(own, other));
    }
    if path.starts_with("encoder.") {
        let again: Vec<String> = names.iter().map(|name| format!("decoder.{name}")).collect();
        names.extend(again);
    }
    names.split_off(1)
}

/// The activation of the sum of a residual block and its shortcut.
pub(super) fn sum_then_act(x: Tensor<5>, shortcut: Tensor<5>, act: &Option<Act>) -> Tensor<5> {
    match act {
        Some(act) => act.forward_sum(x, shortcut),
        None => residual_sum(x, shortcut),
    }
}
