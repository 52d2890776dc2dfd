//! [`EvaluatorBuilder`]: the parts of an evaluator, set one by one.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use hearth_engine::{Better, BoxError, Combine, Engine};
use hearth_nn::inferers::{InferError, Inferer, SimpleInferer};
use hearth_nn::losses::{Loss, LossError};
use hearth_nn::metrics::Metric;
use hearth_nn::networks::Network;

use crate::batch::loader::Loader;
use crate::evaluation::ensemble::{EnsembleError, EnsembleEvaluator};
use crate::evaluation::evaluator::SupervisedEvaluator;
use crate::evaluation::measured::NamedMetric;
use crate::evaluation::merger::Merger;
use crate::evaluation::pass::{Combining, Evaluation, MeanLoss};
use crate::evaluation::post::Post;
use crate::ranks::SharedCases;
use crate::training::precision::{Precision, PrecisionError};

/// The options of an evaluator. [`EvaluatorOptions::default`] has the defaults; the methods of
/// [`EvaluatorBuilder`] set each one.
#[non_exhaustive]
pub struct EvaluatorOptions {
    /// The engine's name, `validation`.
    pub name: String,
    /// The device of the evaluation; by default the network's.
    pub device: Option<Device>,
    /// The precision that weights are read in. A trainer's network keeps the trainer's precision.
    pub precision: Precision,
    /// How the network is applied to an image.
    pub inferer: Arc<dyn Inferer>,
    /// The key of the batch's image.
    pub image_key: String,
    /// The key of the batch's label.
    pub label_key: String,
    /// Steps on each member's prediction before an ensemble is combined.
    pub post_member: Vec<Post>,
    /// Steps on the prediction.
    pub post_pred: Vec<Post>,
    /// Steps on the label.
    pub post_label: Vec<Post>,
    /// The ranks that evaluate together, where there are several.
    pub shared: Option<SharedCases>,
}

impl Default for EvaluatorOptions {
    /// An evaluator `validation` in fp32 where the network is, with one call of the network per
    /// batch and no post-processing.
    fn default() -> Self {
        Self {
            name: "validation".into(),
            device: None,
            precision: Precision::Fp32,
            inferer: Arc::new(SimpleInferer {}),
            image_key: "image".into(),
            label_key: "label".into(),
            post_member: Vec::new(),
            post_pred: Vec::new(),
            post_label: Vec::new(),
            shared: None,
        }
    }
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
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// The reason why an evaluator cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluatorError {
    /// The device cannot compute in the requested precision.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
    /// An option of the inferer is invalid.
    #[error("the inferer: {0}")]
    Inferer(#[from] InferError),
    /// An option of a loss is invalid.
    #[error("the loss: {0}")]
    Loss(#[from] LossError),
    /// Two metrics or losses have one name, or one has none.
    #[error("the metric `{name}`: every metric and loss needs a name of its own")]
    MetricName {
        /// The name.
        name: String,
    },
    /// It is unknown which values of the key metric are better.
    #[error("whether a larger `{metric}` is better depends on what it measures: set it with `better`")]
    Direction {
        /// The key metric.
        metric: String,
    },
    /// The members of an ensemble do not fit together.
    #[error(transparent)]
    Ensemble(#[from] EnsembleError),
}

/// Builds a [`SupervisedEvaluator`] or an [`EnsembleEvaluator`]; returned by their `builder`. Unset
/// options are those of [`EvaluatorOptions::default`].
#[must_use]
pub struct EvaluatorBuilder<N> {
    loader: Box<dyn Loader>,
    options: EvaluatorOptions,
    /// The first one is the key metric, where there is one.
    metrics: Vec<NamedMetric>,
    has_key: bool,
    better: Option<Better>,
    losses: Vec<MeanLoss>,
    /// The network's type.
    network: PhantomData<fn(N)>,
}

impl<N> fmt::Debug for EvaluatorBuilder<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics: Vec<&String> = self.metrics.iter().map(|metric| &metric.name).collect();
        f.debug_struct("EvaluatorBuilder")
            .field("options", &self.options)
            .field("metrics", &metrics)
            .finish_non_exhaustive()
    }
}

impl<N: Network> EvaluatorBuilder<N> {
    pub(crate) fn new(loader: impl Loader + 'static) -> Self {
        Self {
            loader: Box::new(loader),
            options: EvaluatorOptions::default(),
            metrics: Vec::new(),
            has_key: false,
            better: None,
            losses: Vec::new(),
            network: PhantomData,
        }
    }

    /// Sets all options at once, replacing those set so far.
    pub fn options(mut self, options: EvaluatorOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the device of the evaluation; by default the network's.
    pub fn device(mut self, device: &Device) -> Self {
        self.options.device = Some(device.clone().inner());
        self
    }

    /// Sets the precision in which weights are read. A trainer's network keeps the trainer's precision.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Sets how the network is applied to an image; by default once to the whole image.
    pub fn inferer(mut self, inferer: impl Inferer + 'static) -> Self {
        self.options.inferer = Arc::new(inferer);
        self
    }

    /// Sets the keys of the batch's image and label; by default `image` and `label`.
    pub fn keys(mut self, image: impl Into<String>, label: impl Into<String>) -> Self {
        (self.options.image_key, self.options.label_key) = (image.into(), label.into());
        self
    }

    /// Sets the steps on each member's prediction before an ensemble is combined.
    pub fn post_member(mut self, steps: Vec<Post>) -> Self {
        self.options.post_member = steps;
        self
    }

    /// Sets the steps on prediction and label before the metrics:
    /// `.post(Post::argmax(classes), Post::onehot(classes))`.
    pub fn post(self, pred: Vec<Post>, label: Vec<Post>) -> Self {
        self.post_pred(pred).post_label(label)
    }

    /// Sets the steps on the prediction before the metrics.
    pub fn post_pred(mut self, steps: Vec<Post>) -> Self {
        self.options.post_pred = steps;
        self
    }

    /// Sets the steps on the label before the metrics.
    pub fn post_label(mut self, steps: Vec<Post>) -> Self {
        self.options.post_label = steps;
        self
    }

    /// Sets the metric that decides what is best, in the direction of [`Metric::higher_is_better`].
    /// It is recorded as `name`. With a reduction that keeps classes separate, `name` is their
    /// mean, and `name_label_1`, ... are the classes.
    pub fn key_metric(mut self, name: impl Into<String>, metric: impl Metric + 'static) -> Self {
        self.has_key = true;
        self.metrics.insert(0, NamedMetric::new(name.into(), Box::new(metric)));
        self
    }

    /// Sets which values of the key metric are better, for metrics without a fixed direction.
    pub fn better(mut self, better: Better) -> Self {
        self.better = Some(better);
        self
    }

    /// Adds a metric.
    pub fn metric(self, name: impl Into<String>, metric: impl Metric + 'static) -> Self {
        self.metric_after(name, metric, Vec::new(), Vec::new())
    }

    /// Adds a metric with its own steps on prediction and label, which do not affect other metrics.
    /// If [`better`](Self::better) is set and no other metric is the key metric, the first one is.
    pub fn metric_after(
        mut self,
        name: impl Into<String>,
        metric: impl Metric + 'static,
        post_pred: Vec<Post>,
        post_label: Vec<Post>,
    ) -> Self {
        let metric = NamedMetric { post_pred, post_label, ..NamedMetric::new(name.into(), Box::new(metric)) };
        self.metrics.push(metric);
        self
    }

    /// Adds a loss as a metric: the mean over the batches of the loss of the raw prediction.
    pub fn loss(mut self, name: impl Into<String>, loss: impl Loss + 'static) -> Self {
        self.losses.push(MeanLoss::new(name.into(), Box::new(loss)));
        self
    }

    /// Builds the evaluator of one network.
    ///
    /// # Errors
    /// When the device cannot compute in the requested precision, an option of the inferer or of a loss is
    /// invalid, a metric has no name of its own, or it is unknown which values of the key metric are better.
    pub fn build(self) -> Result<SupervisedEvaluator<N>, EvaluatorError> {
        let (engine, work) = self.parts(vec!["pred".to_owned()])?;
        Ok(SupervisedEvaluator::of(engine, work))
    }

    /// The first name of a metric or loss that is empty or given twice.
    fn bad_name(&self) -> Option<&str> {
        let metrics = self.metrics.iter().map(|metric| metric.name.as_str());
        let names: Vec<&str> = metrics.chain(self.losses.iter().map(|loss| loss.name.as_str())).collect();
        let bad = |(at, name): &(usize, &&str)| name.trim().is_empty() || names[..*at].contains(name);
        names.iter().enumerate().find(bad).map(|(_, name)| *name)
    }

    /// Makes an engine with the key metric, and the workflow that it drives.
    pub(crate) fn parts(self, pred_keys: Vec<String>) -> Result<(Engine, Evaluation<N>), EvaluatorError> {
        if let Some(device) = &self.options.device {
            self.options.precision.check(device)?;
        }
        self.options.inferer.check()?;
        self.losses.iter().try_for_each(|loss| loss.loss.check())?;
        if let Some(name) = self.bad_name() {
            return Err(EvaluatorError::MetricName { name: name.to_owned() });
        }
        let mut engine = Engine::new(self.options.name.clone());
        if let Some(SharedCases { ranks, .. }) = &self.options.shared {
            let state = engine.state_mut();
            (state.rank, state.world_size) = ranks.place();
        }
        if let Some(key) = self.metrics.first().filter(|_| self.has_key || self.better.is_some()) {
            let known = key.metric.higher_is_better().map(|higher| if higher { Better::Higher } else { Better::Lower });
            let better = self.better.or(known);
            let better = better.ok_or_else(|| EvaluatorError::Direction { metric: key.name.clone() })?;
            engine.set_key_metric(&key.name, better);
        }
        let mut work = Evaluation::new(self.loader, self.options, pred_keys);
        (work.metrics, work.losses) = (self.metrics, self.losses);
        Ok((engine, work))
    }
}

/// Builds an [`EnsembleEvaluator`]: the networks, how to combine them, and the parts of any
/// evaluator.
#[must_use]
pub struct EnsembleBuilder<N> {
    networks: Vec<N>,
    evaluator: EvaluatorBuilder<N>,
    pred_keys: Option<Vec<String>>,
    combine: Option<Combining>,
}

impl<N> fmt::Debug for EnsembleBuilder<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnsembleBuilder")
            .field("networks", &self.networks.len())
            .field("evaluator", &self.evaluator)
            .finish_non_exhaustive()
    }
}

impl<N: Network> EnsembleBuilder<N> {
    pub(crate) fn new(networks: Vec<N>, evaluator: EvaluatorBuilder<N>) -> Self {
        Self { networks, evaluator, pred_keys: None, combine: None }
    }

    /// Sets other keys than `pred_0`, `pred_1`, ...
    pub fn pred_keys(mut self, keys: Vec<String>) -> Self {
        self.pred_keys = Some(keys);
        self
    }

    /// Sets how the members' predictions are combined, after `post_member` was applied to each. If
    /// a handler has put a `pred` at `forward_completed`, that one is used instead.
    pub fn combine(mut self, how: Combine) -> Self {
        self.combine = Some(Combining::How(how));
        self
    }

    /// Sets a function of the members' predictions, `[B, C, X, Y, Z]` each, that combines them.
    pub fn combine_by(mut self, merge: impl Fn(&[Tensor<5>]) -> Result<Tensor<5>, BoxError> + Send + 'static) -> Self {
        self.combine = Some(Combining::By(Box::new(merge)));
        self
    }

    /// Builds the evaluator of the ensemble.
    ///
    /// # Errors
    /// Without a network; when the number of keys differs from that of networks, or a key is
    /// reserved or repeated; and as [`EvaluatorBuilder::build`].
    pub fn build(self) -> Result<EnsembleEvaluator<N>, EvaluatorError> {
        let networks = self.networks;
        if networks.is_empty() {
            return Err(EnsembleError::Empty.into());
        }
        let keys = self.pred_keys.unwrap_or_else(|| Merger::keys(networks.len()));
        if keys.len() != networks.len() {
            return Err(EnsembleError::Keys { keys: keys.len(), networks: networks.len() }.into());
        }
        let taken = |(index, key): (usize, &String)| {
            keys[..index].contains(key) || ["image", "label", "pred"].contains(&key.as_str())
        };
        if let Some(index) = (0..keys.len()).find(|index| taken((*index, &keys[*index]))) {
            return Err(EnsembleError::Key(keys[index].clone()).into());
        }
        let (engine, mut work) = self.evaluator.parts(keys)?;
        work.combine = self.combine;
        work.is_ensemble = true;
        Ok(EnsembleEvaluator::of(engine, networks, work))
    }
}
