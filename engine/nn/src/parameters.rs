//! The parameters of a network by name, and the freezing of parameters.

use std::collections::BTreeSet;

use burn::module::{Flag, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::glob::glob;
use crate::named::PathStack;
use crate::networks::Network;

/// A parameter or running statistic of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterName {
    /// The path of module fields, as in gradients and the optimizer's state.
    pub path: String,
    /// The keys in the state dict: MONAI's names. Empty for parameters that are not stored.
    pub names: Vec<String>,
    /// Number of values.
    pub values: usize,
    /// Whether it is trained: neither frozen nor a running statistic. Only valid for networks on an
    /// autodiff device.
    pub trains: bool,
}

impl ParameterName {
    /// Whether a pattern matches a name or the path; `*` matches any characters.
    pub fn matches(&self, pattern: &str) -> bool {
        glob(pattern, &self.path) || self.names.iter().any(|name| glob(pattern, name))
    }

    /// The name that messages use.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.path)
    }
}

struct List<'a, N> {
    net: &'a N,
    path: PathStack,
    found: Vec<ParameterName>,
}

impl<N: Network> ModuleVisitor for List<'_, N> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.path();
        let names = self.net.torch_name(&path).into_iter().chain(self.net.torch_aliases(&path)).collect();
        let (values, trains) = (param.lazy_shape().num_elements(), param.base().is_require_grad());
        self.found.push(ParameterName { path, names, values, trains });
    }
}

/// All parameters and running statistics of a network, in the network's order.
pub fn parameters<N: Network>(net: &N) -> Vec<ParameterName> {
    let mut list = List { net, path: PathStack::default(), found: Vec::new() };
    net.visit(&mut list);
    list.found
}

/// An error of freezing parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreezeError {
    /// A pattern matches no parameter. With a typo, parameters that are meant to be frozen would be
    /// trained.
    #[error("the pattern `{pattern}` matches no parameter of {network}; its {count} parameters are {examples}")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// Name of the network.
        network: &'static str,
        /// Number of its parameters.
        count: usize,
        /// Some of their names.
        examples: String,
    },
    /// There is nothing left to train.
    #[error("the patterns freeze all {count} parameters of {network}, so there is nothing to train")]
    Everything {
        /// Name of the network.
        network: &'static str,
        /// Number of its parameters.
        count: usize,
    },
}

/// The frozen parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    /// The names of the frozen parameters and running statistics, in the network's order.
    pub names: Vec<String>,
    /// Number of frozen values.
    pub values: usize,
    /// Number of values of the whole network.
    pub of: usize,
}

/// A few names for a message: the first and the last.
pub(crate) fn some_names(found: &[ParameterName]) -> String {
    let names: Vec<&str> = found.iter().map(ParameterName::name).collect();
    match names.len() {
        0..=6 => names.join(", "),
        n => format!("{}, ..., {}", names[..3].join(", "), names[n - 2..].join(", ")),
    }
}

struct Freeze {
    path: PathStack,
    /// The frozen paths.
    paths: BTreeSet<String>,
    /// The modules that directly contain the frozen parameters.
    modules: BTreeSet<String>,
}

impl ModuleMapper for Freeze {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.paths.contains(&self.path.path()) { param.set_require_grad(false) } else { param }
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        let path = self.path.path();
        let module = path.rsplit_once('.').map_or("", |(module, _)| module);
        if self.modules.contains(module) { flag.with_value(false) } else { flag }
    }
}

/// Freezes the parameters whose names (keys of the state dict, or paths of module fields) match one
/// of the patterns; `*` matches any characters.
///
/// A frozen parameter gets no gradient, so the optimizer skips it: no step, no weight decay, no
/// momentum. A batch norm with a frozen part (scale, offset or a running statistic) also uses its
/// running statistics in training, and they do not change. MONAI and PyTorch update them unless the
/// layer is in evaluation mode. Dropout is not affected.
///
/// The network must be on an autodiff device. It stays frozen through `valid`, `train` and loading
/// of weights.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::freeze;
/// # use hearth_nn::networks::UNetConfig;
/// let net = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).init(&Device::default().autodiff(), 0)?;
/// let (net, frozen) = freeze(net, &["*.bias".to_owned()])?;
/// assert!(!frozen.names.is_empty() && frozen.names.iter().all(|name| name.ends_with(".bias")));
/// assert!(freeze(net, &["encoder.*".to_owned()]).is_err()); // matches nothing
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails for a pattern that matches no parameter, and if nothing would be left to train.
pub fn freeze<N: Network>(net: N, patterns: &[String]) -> Result<(N, Frozen), FreezeError> {
    let all = parameters(&net);
    let network = net.name();
    if let Some(pattern) = patterns.iter().find(|pattern| !all.iter().any(|one| one.matches(pattern))) {
        let (pattern, examples) = (pattern.clone(), some_names(&all));
        return Err(FreezeError::NoMatch { pattern, network, count: all.len(), examples });
    }
    let (stays, moves): (Vec<_>, Vec<_>) = all.iter().partition(|one| patterns.iter().any(|p| one.matches(p)));
    if !stays.is_empty() && !moves.iter().any(|one| one.trains) {
        return Err(FreezeError::Everything { network, count: all.len() });
    }
    let module =
        |one: &&ParameterName| one.path.rsplit_once('.').map_or(String::new(), |(module, _)| module.to_owned());
    let mut mapper = Freeze {
        path: PathStack::default(),
        paths: stays.iter().map(|one| one.path.clone()).collect(),
        modules: stays.iter().map(module).collect(),
    };
    let frozen = Frozen {
        names: stays.iter().map(|one| one.name().to_owned()).collect(),
        values: stays.iter().map(|one| one.values).sum(),
        of: all.iter().map(|one| one.values).sum(),
    };
    Ok((net.map(&mut mapper), frozen))
}
