//! [`SupervisedEvaluator`]: a network against labels, over one pass of a loader.

use std::fmt;
use std::sync::Arc;

use burn::tensor::Device;
use hearth_engine::{Better, Engine, Metrics, RunEnd, RunError};
use hearth_nn::inferers::{Inferer, SimpleInferer};
use hearth_nn::losses::Loss;
use hearth_nn::metrics::Metric;
use hearth_nn::networks::Network;
use serde::Serialize;

use crate::evaluate::Evaluate;
use crate::evaluation::{Evaluation, MeanLoss, NamedMetric};
use crate::loader::Loader;
use crate::post::Post;
use crate::precision::{Precision, PrecisionError};

/// How an evaluator works.
#[non_exhaustive]
pub struct EvaluatorOptions {
    /// The engine's name, `validation`.
    pub name: String,
    /// Where it computes.
    pub device: Device,
    /// What weights are read in. A trainer's network brings the trainer's precision along and keeps it.
    pub precision: Precision,
    /// How the network is led over an image.
    pub inferer: Arc<dyn Inferer>,
    /// The batch's image.
    pub image_key: String,
    /// The batch's label.
    pub label_key: String,
    /// Steps on each member's prediction before an ensemble is combined.
    pub post_member: Vec<Post>,
    /// Steps on the prediction.
    pub post_pred: Vec<Post>,
    /// Steps on the label.
    pub post_label: Vec<Post>,
}

impl fmt::Debug for EvaluatorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluatorOptions")
            .field("name", &self.name)
            .field("device", &self.device)
            .field("precision", &self.precision)
            .field("inferer", &self.inferer.name())
            .field("post_member", &self.post_member)
            .field("post_pred", &self.post_pred)
            .field("post_label", &self.post_label)
            .finish_non_exhaustive()
    }
}

impl EvaluatorOptions {
    /// `validation` on this device in fp32, the network called once per batch, no post-processing.
    pub fn new(device: &Device) -> Self {
        Self {
            name: "validation".into(),
            device: device.clone().inner(),
            precision: Precision::Fp32,
            inferer: Arc::new(SimpleInferer {}),
            image_key: "image".into(),
            label_key: "label".into(),
            post_member: Vec::new(),
            post_pred: Vec::new(),
            post_label: Vec::new(),
        }
    }
}

/// A metric's values for one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseRow {
    /// The case.
    pub case: String,
    /// One value for each class that counts, or one for all; NaN where the class is absent. Nothing of metrics that have no value for
    /// one case.
    pub values: Vec<f32>,
}

/// What [`SupervisedEvaluator`] and [`EnsembleEvaluator`](crate::EnsembleEvaluator) have in common.
macro_rules! evaluator_parts {
    ($Evaluator:ident) => {
        impl<N: Network> $Evaluator<N> {
            /// Names the metric that decides what is best. It is recorded as `name`; with a reduction that keeps classes
            /// apart, `name` is the mean over them and `name_label_1`, ... are the classes.
            #[must_use]
            pub fn with_key_metric(self, name: &str, metric: impl Metric + 'static, better: Better) -> Self {
                self.with_boxed_metric(name, Box::new(metric), Some(better))
            }

            /// Adds a further metric.
            #[must_use]
            pub fn with_metric(self, name: &str, metric: impl Metric + 'static) -> Self {
                self.with_boxed_metric(name, Box::new(metric), None)
            }

            /// Adds a metric that is in a box already, such as one that a recipe names; with a direction it is the key metric.
            #[must_use]
            pub fn with_boxed_metric(self, name: &str, metric: Box<dyn Metric>, key: Option<Better>) -> Self {
                self.with_boxed_metric_after(name, metric, key, Vec::new(), Vec::new())
            }

            /// The same, behind further steps on prediction and label that no other metric sees.
            #[must_use]
            pub fn with_boxed_metric_after(
                mut self,
                name: &str,
                metric: Box<dyn Metric>,
                key: Option<Better>,
                post_pred: Vec<$crate::Post>,
                post_label: Vec<$crate::Post>,
            ) -> Self {
                let metric = NamedMetric { post_pred, post_label, ..NamedMetric::new(name, metric) };
                match key {
                    Some(better) => {
                        self.engine.set_key_metric(name, better);
                        self.work.metrics.insert(0, metric);
                    }
                    None => self.work.metrics.push(metric),
                }
                self
            }

            /// Adds a loss as a metric: the mean over the batches of the loss of the raw prediction.
            #[must_use]
            pub fn with_loss(mut self, name: &str, loss: Box<dyn Loss>) -> Self {
                self.work.losses.push(MeanLoss::new(name.to_owned(), loss));
                self
            }

            /// What the first metric (the key metric, where there is one) gave for each case of the last pass.
            pub fn rows(&self) -> &[CaseRow] {
                self.work.rows(None).unwrap_or_default()
            }

            /// What the metric of this name gave for each case of the last pass.
            pub fn rows_of(&self, metric: &str) -> Option<&[CaseRow]> {
                self.work.rows(Some(metric))
            }

            /// Its engine.
            pub fn engine(&self) -> &Engine {
                &self.engine
            }

            /// Its engine, to add handlers to.
            pub fn engine_mut(&mut self) -> &mut Engine {
                &mut self.engine
            }

            fn pass(&mut self, epoch: u64) -> Result<(Metrics, RunEnd), RunError> {
                let end = self.engine.run_epoch(&mut self.work, epoch);
                // An evaluator must not hold on to weights that the trainer is about to replace.
                self.work.networks.clear();
                Ok((self.engine.state().metrics.clone(), end?))
            }
        }

        impl<N> std::fmt::Debug for $Evaluator<N> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let name = stringify!($Evaluator);
                f.debug_struct(name)
                    .field("engine", &self.engine)
                    .field("options", &self.work.options)
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use evaluator_parts;

/// Evaluates one network: forward by the inferer, `forward_completed`, post-processing, `model_completed`, metrics.
///
/// Its handlers see the raw prediction at `forward_completed` and the processed one from `model_completed` on.
pub struct SupervisedEvaluator<N> {
    engine: Engine,
    work: Evaluation<N>,
}

evaluator_parts!(SupervisedEvaluator);

impl<N: Network> SupervisedEvaluator<N> {
    /// An evaluator over this loader.
    ///
    /// # Errors
    /// When the device cannot compute in the precision asked for.
    pub fn new(options: EvaluatorOptions, loader: impl Loader + 'static) -> Result<Self, PrecisionError> {
        options.precision.check(&options.device)?;
        let engine = Engine::new(options.name.clone());
        let work = Evaluation::new(Box::new(loader), options, vec!["pred".to_owned()]);
        Ok(Self { engine, work })
    }

    /// Runs one pass with this network and returns the metrics; `global_epoch` numbers it. See also [`Self::rows`].
    ///
    /// # Errors
    /// Whatever ended the pass early; it names the cases.
    pub fn run(&mut self, network: &N, global_epoch: u64) -> Result<Metrics, RunError> {
        self.work.set_networks([network.valid()]);
        Ok(self.pass(global_epoch)?.0)
    }
}

impl<N: Network> Evaluate<N> for SupervisedEvaluator<N> {
    fn evaluate(&mut self, network: N, epoch: u64) -> Result<Metrics, RunError> {
        self.work.set_networks([network]);
        Ok(self.pass(epoch)?.0)
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn rows(&self) -> &[CaseRow] {
        self.work.rows(None).unwrap_or_default()
    }
}
