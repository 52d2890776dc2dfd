//! Gradients by parameter path.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;
use hearth_kernels::{Watch, gradients};

use crate::named::PathStack;
use crate::running;

/// The gradients of a network's parameters by path, each flat and outside autodiff.
///
/// Gradients of several passes can be summed before a step (gradient accumulation), and scaled
/// (gradient scaler, clipping), without reading a value back.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, UNetConfig};
/// # use hearth_nn::optim::Gradients;
/// let device = Device::default().autodiff();
/// let net = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).init(&device, 0)?;
/// let loss = || net.forward(Tensor::ones([1, 1, 8, 8, 8], &device)).mean();
/// let gradients = Gradients::of(&net, &loss()) + Gradients::of(&net, &loss());
/// let norm = gradients.scale(0.5).clip_norm(1.0).norm();
/// assert!(norm.is_some_and(|norm| norm.into_scalar::<f32>() < 1.001));
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gradients(BTreeMap<String, Tensor<1>>);

struct Collect<'a> {
    path: PathStack,
    source: &'a mut burn::tensor::Gradients,
    found: BTreeMap<String, Tensor<1>>,
}

impl ModuleVisitor for Collect<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.base().grad_remove(self.source) {
            let count = gradient.shape().num_elements();
            self.found.insert(self.path.path(), gradient.reshape([count]));
        }
    }
}

/// A callback that receives the path and the flat gradient of a parameter.
pub type SeeGradient = Arc<dyn Fn(&str, Tensor<1>) + Send + Sync>;

struct Watched {
    path: PathStack,
    see: SeeGradient,
    watch: Option<Watch>,
}

impl ModuleMapper for Watched {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (see, path) = (Arc::clone(&self.see), self.path.path());
        let (id, value, mapper) = param.consume();
        let value = if value.is_require_grad() {
            let watch = self.watch.get_or_insert_with(|| Watch::new(&value.device()));
            watch.watch(value, move |gradient| see(&path, gradient))
        } else {
            value
        };
        Param::from_mapped_value(id, value, mapper)
    }
}

/// Returns a clone of the network for one forward pass, in which `see` is called with the gradient
/// of each parameter as soon as the backward pass has completed it. The gradients belong to
/// `network` itself, from which [`Gradients::of`] takes them, and the running statistics are shared
/// with `network`.
pub fn watch_gradients<N: Module>(network: &N, see: SeeGradient) -> N {
    running::shared(|| network.clone().map(&mut Watched { path: PathStack::default(), see, watch: None }))
}

impl Gradients {
    /// Back-propagates a loss, `[1]`, and collects the gradients of the network's parameters. Consumes
    /// the loss's graph.
    pub fn of<N: Module, const D: usize>(net: &N, loss: &Tensor<D>) -> Self {
        Self::take(net, &mut loss.backward())
    }

    /// Collects the gradients of the network's parameters from a backward pass.
    pub fn take<N: Module>(net: &N, source: &mut burn::tensor::Gradients) -> Self {
        let mut visitor = Collect { path: PathStack::default(), source, found: BTreeMap::new() };
        net.visit(&mut visitor);
        Gradients(visitor.found)
    }

    /// Creates gradients from a map: the path of module fields, and the flat gradient, `[n]`.
    pub fn from_map(gradients: BTreeMap<String, Tensor<1>>) -> Self {
        Gradients(gradients)
    }

    /// The gradient of one parameter, `[n]`.
    pub fn get(&self, path: &str) -> Option<&Tensor<1>> {
        self.0.get(path)
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<Tensor<1>> {
        self.0.remove(path)
    }

    /// Replaces the gradient of a parameter by its path; `[n]`, and outside autodiff.
    /// [`Optimizer::step`](super::Optimizer::step) refuses one of another length.
    pub fn put(&mut self, path: &str, gradient: Tensor<1>) {
        self.0.insert(path.to_owned(), gradient);
    }

    /// Iterates over paths and gradients `[n]`, sorted by path.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Tensor<1>)> {
        self.0.iter().map(|(path, gradient)| (path.as_str(), gradient))
    }

    /// The number of parameters with a gradient.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no parameter has a gradient.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Multiplies every gradient by `factor`.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        self.each(|gradient| gradient * factor)
    }

    /// Multiplies every gradient by a factor that stays on the device, `[1]`.
    #[must_use]
    pub fn scale_by(self, factor: &Tensor<1>) -> Self {
        let (paths, all): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        Gradients(paths.into_iter().zip(gradients::scaled(all, factor)).collect())
    }

    /// Euclidean norm over all parameters, `[1]`, on the device. It is non-finite if and only if a
    /// gradient is (or the squares overflow), which a gradient scaler checks. `None` without
    /// gradients.
    pub fn norm(&self) -> Option<Tensor<1>> {
        gradients::square_sum(&self.0.values().collect::<Vec<_>>()).map(Tensor::sqrt)
    }

    /// Scales down so that the norm over all parameters is at most `max_norm`
    /// (`torch.nn.utils.clip_grad_norm_`).
    #[must_use]
    pub fn clip_norm(self, max_norm: f64) -> Self {
        match self.norm() {
            Some(norm) => {
                let factor = ((norm + 1e-6).recip() * max_norm).clamp_max(1.0);
                self.scale_by(&factor)
            }
            None => self,
        }
    }

    /// Clamps every value to `-clip_value..=clip_value` (`torch.nn.utils.clip_grad_value_`).
    #[must_use]
    pub fn clip_value(self, clip_value: f64) -> Self {
        self.each(|gradient| gradient.clamp(-clip_value, clip_value))
    }

    fn each(self, apply: impl Fn(Tensor<1>) -> Tensor<1>) -> Self {
        Gradients(self.0.into_iter().map(|(path, gradient)| (path, apply(gradient))).collect())
    }
}

/// Adds another pass's gradients.
impl std::ops::Add for Gradients {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (path, gradient) in other.0 {
            let sum = match self.0.remove(&path) {
                Some(own) => own + gradient,
                None => gradient,
            };
            self.0.insert(path, sum);
        }
        self
    }
}
