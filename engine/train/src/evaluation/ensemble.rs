//! [`EnsembleEvaluator`]: several networks, one prediction.

use hearth_engine::{Engine, Metrics, RunEnd, RunError};
use hearth_nn::networks::Network;

use crate::evaluation::builder::{EnsembleBuilder, EvaluatorBuilder};
use crate::evaluation::evaluator::{CaseRow, evaluator_parts};
use crate::evaluation::pass::Evaluation;

/// The reason why an ensemble cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnsembleError {
    /// There is no network.
    #[error("an ensemble needs at least one network")]
    Empty,
    /// The number of keys differs from that of networks.
    #[error("{keys} pred_keys for {networks} networks; give one for each")]
    Keys {
        /// The number of keys.
        keys: usize,
        /// The number of networks.
        networks: usize,
    },
    /// A key is reserved or given twice.
    #[error("`{0}` cannot be a member's key: it is given twice, or is one of image, label, pred")]
    Key(String),
}

/// Evaluates several networks on the same inputs with the same inferer (MONAI's
/// `EnsembleEvaluator`).
///
/// All networks predict, in order, into `pred_0`, `pred_1`, ...; then `forward_completed` is fired
/// once. A handler may combine them there (`cx.host.combine(&["pred_0", "pred_1"], &how, "pred")`),
/// or [`combine`](EnsembleBuilder::combine) does. If several handlers make a `pred`, the last one
/// is used. The rest is as in [`SupervisedEvaluator`](crate::SupervisedEvaluator).
///
/// Members are always combined after [`post_member`](EvaluatorBuilder::post_member). Handlers see
/// them raw at `forward_completed`, and processed from `model_completed` on.
///
/// ```
/// # use hearth_engine::{BoxError, Combine, Metrics};
/// # use hearth_nn::{metrics::DiceMetric, networks::UNet};
/// # use hearth_train::{EnsembleEvaluator, Post, SupervisedEvaluator};
/// # fn of(networks: Vec<UNet>, loader: hearth_data::DataLoader) -> Result<Metrics, BoxError> {
/// let evaluator = SupervisedEvaluator::builder(loader)
///     .post(Post::argmax(2), Post::onehot(2))
///     .key_metric("mean_dice", DiceMetric::default());
/// let mean = Combine::Mean { weights: None };
/// let metrics = EnsembleEvaluator::builder(networks, evaluator).combine(mean).build()?.run(1)?;
/// # Ok(metrics)
/// # }
/// ```
pub struct EnsembleEvaluator<N> {
    engine: Engine,
    networks: Vec<N>,
    work: Evaluation<N>,
}

evaluator_parts!(EnsembleEvaluator);

impl<N: Network> EnsembleEvaluator<N> {
    /// Builds an ensemble of these networks with the data, inferer, post-processing and metrics of
    /// `evaluator`. The predictions' keys are `pred_0`, `pred_1`, ...
    pub fn builder(networks: Vec<N>, evaluator: EvaluatorBuilder<N>) -> EnsembleBuilder<N> {
        EnsembleBuilder::new(networks, evaluator)
    }

    pub(crate) fn of(engine: Engine, networks: Vec<N>, work: Evaluation<N>) -> Self {
        Self { engine, networks, work }
    }

    /// Runs one pass and returns the metrics; `global_epoch` numbers it.
    ///
    /// # Errors
    /// Any error that ended the pass early; it names the cases.
    pub fn run(&mut self, global_epoch: u64) -> Result<Metrics, RunError> {
        self.work.set_networks(self.networks.iter().map(|network| network.valid()));
        Ok(self.pass(global_epoch)?.0)
    }
}
