//! The parameters of a network by name, and freezing some of them.

use std::collections::BTreeSet;

use burn::module::{Flag, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::glob::glob;
use crate::named::PathStack;
use crate::networks::Network;

/// A parameter or running statistic of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterName {
    /// The path of module fields, as gradients and the optimizer's state have it.
    pub path: String,
    /// The keys of the state dict: MONAI's names. None for what is not stored.
    pub names: Vec<String>,
    /// How many values it has.
    pub values: usize,
    /// Whether it is trained: not frozen, and no running statistic. Known of networks on an
    /// autodiff device.
    pub trains: bool,
}

impl ParameterName {
    /// Whether a pattern fits one of its names or its path; `*` stands for any characters.
    pub fn matches(&self, pattern: &str) -> bool {
        glob(pattern, &self.path) || self.names.iter().any(|name| glob(pattern, name))
    }

    /// The name to show.
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

/// All parameters and running statistics of a network, in its order.
pub fn parameters<N: Network>(net: &N) -> Vec<ParameterName> {
    let mut list = List { net, path: PathStack::default(), found: Vec::new() };
    net.visit(&mut list);
    list.found
}

/// Why parameters cannot be frozen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreezeError {
    /// A pattern without a parameter: a typo would train what was to stay.
    #[error("the pattern `{pattern}` matches no parameter of {network}; its {count} parameters are {examples}")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// The network.
        network: &'static str,
        /// How many parameters it has.
        count: usize,
        /// Some of their names.
        examples: String,
    },
    /// There is nothing left to train.
    #[error("the patterns freeze all {count} parameters of {network}, so there is nothing to train")]
    Everything {
        /// The network.
        network: &'static str,
        /// How many parameters it has.
        count: usize,
    },
}

/// What was frozen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    /// The names of the parameters and running statistics that stay as they are, in the network's
    /// order.
    pub names: Vec<String>,
    /// How many values they have.
    pub values: usize,
    /// How many values the whole network has.
    pub of: usize,
}

/// A few names for a message: the first and the last ones.
pub(crate) fn some_names(found: &[ParameterName]) -> String {
    let names: Vec<&str> = found.iter().map(ParameterName::name).collect();
    match names.len() {
        0..=6 => names.join(", "),
        n => format!("{}, ..., {}", names[..3].join(", "), names[n - 2..].join(", ")),
    }
}

struct Freeze {
    path: PathStack,
    /// What stays.
    paths: BTreeSet<String>,
    /// The modules it is directly in.
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

/// Freezes the parameters whose names (keys of the state dict, or paths of module fields) fit one
/// of the patterns; `*` stands for any characters.
///
/// A frozen parameter gets no gradient, so the optimizer passes over it: no step, no weight decay,
/// no momentum. A batch norm of which anything is frozen (scale, offset or a running statistic)
/// uses its running statistics in training too, and they stay put: MONAI and PyTorch would go on
/// moving them unless the layer is put into evaluation mode. Dropout is left as it is.
///
/// The network must be on an autodiff device. It stays frozen through `valid`, `train` and loading
/// of weights.
///
/// # Errors
/// For a pattern that fits no parameter, and where nothing would be left to train.
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
