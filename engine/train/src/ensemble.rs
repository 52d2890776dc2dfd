//! [`EnsembleEvaluator`]: several networks, one prediction.

use hearth_engine::{Better, Combine, Engine, Metrics, RunEnd, RunError};
use hearth_nn::losses::Loss;
use hearth_nn::metrics::Metric;
use hearth_nn::networks::Network;

use crate::evaluation::{Evaluation, MeanLoss, NamedMetric};
use crate::evaluator::{CaseRow, EvaluatorOptions, evaluator_parts};
use crate::loader::Loader;
use crate::precision::PrecisionError;

/// Why an ensemble cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnsembleError {
    /// There is no network.
    #[error("an ensemble needs at least one network")]
    Empty,
    /// Another number of keys than of networks.
    #[error("{keys} pred_keys for {networks} networks; give one for each")]
    Keys {
        /// How many keys there are.
        keys: usize,
        /// How many networks there are.
        networks: usize,
    },
    /// A key that means something else already, or is given twice.
    #[error("`{0}` cannot be a member's key: it is given twice, or is one of image, label, pred")]
    Key(String),
    /// The device cannot compute in the precision asked for.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
}

/// Evaluates several networks on the same inputs with the same inferer, as MONAI's `EnsembleEvaluator`.
///
/// All networks predict, in order, into `pred_0`, `pred_1`, ...; then `forward_completed` is fired once. A handler may
/// combine them there (`cx.host.combine(&["pred_0", "pred_1"], &how, "pred")`), or [`combine`](Self::with_combine) says
/// how. The rest is as in [`SupervisedEvaluator`](crate::SupervisedEvaluator).
pub struct EnsembleEvaluator<N> {
    engine: Engine,
    networks: Vec<N>,
    work: Evaluation<N>,
}

evaluator_parts!(EnsembleEvaluator);

impl<N: Network> EnsembleEvaluator<N> {
    /// An ensemble of these networks over this loader, with keys `pred_0`, `pred_1`, ...
    ///
    /// # Errors
    /// Without a network, or when the device cannot compute in the precision asked for.
    pub fn new(
        networks: Vec<N>,
        options: EvaluatorOptions,
        loader: impl Loader + 'static,
    ) -> Result<Self, EnsembleError> {
        if networks.is_empty() {
            return Err(EnsembleError::Empty);
        }
        options.precision.check(&options.device)?;
        let keys = (0..networks.len()).map(|index| format!("pred_{index}")).collect();
        let engine = Engine::new(options.name.clone());
        Ok(Self { engine, networks, work: Evaluation::new(Box::new(loader), options, keys) })
    }

    /// Other keys than `pred_0`, `pred_1`, ...
    ///
    /// # Errors
    /// When there are not as many keys as networks, or a key is taken.
    pub fn with_pred_keys(mut self, keys: Vec<String>) -> Result<Self, EnsembleError> {
        if keys.len() != self.networks.len() {
            return Err(EnsembleError::Keys { keys: keys.len(), networks: self.networks.len() });
        }
        let taken = |(index, key): (usize, &String)| {
            keys[..index].contains(key) || ["image", "label", "pred"].contains(&key.as_str())
        };
        if let Some(index) = (0..keys.len()).find(|index| taken((*index, &keys[*index]))) {
            return Err(EnsembleError::Key(keys[index].clone()));
        }
        self.work.pred_keys = keys;
        Ok(self)
    }

    /// How the members' predictions become one, after `post_member` of the options was applied to each. Where a handler
    /// has put a `pred` at `forward_completed`, that one is taken.
    #[must_use]
    pub fn with_combine(mut self, how: Combine) -> Self {
        self.work.combine = Some(how);
        self
    }

    /// Runs one pass and returns the metrics; `global_epoch` numbers it.
    ///
    /// # Errors
    /// Whatever ended the pass early; it names the cases.
    pub fn run(&mut self, global_epoch: u64) -> Result<Metrics, RunError> {
        self.work.set_networks(self.networks.iter().map(|network| network.valid()));
        Ok(self.pass(global_epoch)?.0)
    }
}
