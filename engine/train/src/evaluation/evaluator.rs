//! [`SupervisedEvaluator`]: compares a network with labels, over one pass of a loader.

use hearth_engine::{Engine, Metrics, RunEnd, RunError};
use hearth_nn::networks::Network;
use serde::Serialize;

use crate::batch::loader::Loader;
use crate::evaluation::builder::EvaluatorBuilder;
use crate::evaluation::evaluate::Evaluate;
use crate::evaluation::pass::Evaluation;

/// A metric's values for one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseRow {
    /// The case.
    pub case: String,
    /// One value for each class that counts, or one for all; NaN where the class is absent. Empty
    /// for metrics without values per case.
    pub values: Vec<f32>,
}

/// The methods that [`SupervisedEvaluator`] and [`EnsembleEvaluator`](crate::EnsembleEvaluator)
/// share.
macro_rules! evaluator_parts {
    ($Evaluator:ident) => {
        impl<N: Network> $Evaluator<N> {
            /// The values of the first metric (the key metric, where there is one) for each case of
            /// the last pass.
            pub fn rows(&self) -> &[CaseRow] {
                self.work.rows(None).unwrap_or_default()
            }

            /// The values of the metric with this name for each case of the last pass.
            pub fn rows_of(&self, metric: &str) -> Option<&[CaseRow]> {
                self.work.rows(Some(metric))
            }

            /// The evaluator's engine.
            pub fn engine(&self) -> &Engine {
                &self.engine
            }

            /// The evaluator's engine, to add handlers to.
            pub fn engine_mut(&mut self) -> &mut Engine {
                &mut self.engine
            }

            fn pass(&mut self, epoch: u64) -> Result<(Metrics, RunEnd), RunError> {
                let end = self.engine.run_epoch(&mut self.work, epoch);
                // An evaluator must not hold weights that the trainer is about to replace.
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

/// Evaluates one network: forward by the inferer, `forward_completed`, post-processing,
/// `model_completed`, metrics.
///
/// Its handlers see the raw prediction at `forward_completed` and the processed one from
/// `model_completed` on. MONAI's `SupervisedEvaluator`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_data::Batch;
/// # use hearth_nn::{metrics::DiceMetric, networks::UNetConfig};
/// # use hearth_train::{BatchStream, Loader, Post, SupervisedEvaluator};
/// # struct Stripes;
/// # impl Loader for Stripes {
/// #     fn batches(&self) -> Option<u64> { Some(2) }
/// #     fn pass(&self, _: u64, skip: u64) -> BatchStream {
/// #         let stripes = Tensor::<1>::from_floats([0.1, 0.9], &Device::default()).repeat(&[256]);
/// #         let image = stripes.reshape([1, 1, 8, 8, 8]);
/// #         let mut batch = Batch { cases: vec!["stripes".into()], ..Batch::default() };
/// #         batch.tensors.insert("label".into(), image.clone().round());
/// #         batch.tensors.insert("image".into(), image);
/// #         Box::new((skip..2).map(move |_| Ok(batch.clone())))
/// #     }
/// # }
/// # let loader = Stripes;
/// let network = UNetConfig::new(3, 1, 2, &[2, 4], &[2]).init(&Device::default(), 0)?;
/// let mut evaluator = SupervisedEvaluator::builder(loader)
///     .post(Post::argmax(2), Post::onehot(2))
///     .key_metric("mean_dice", DiceMetric::default().include_background(false))
///     .build()?;
/// let metrics = evaluator.run(&network, 1)?;
/// assert!((0.0..=1.0).contains(&metrics["mean_dice"]));
/// assert_eq!(evaluator.rows()[0].case, "stripes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SupervisedEvaluator<N> {
    engine: Engine,
    work: Evaluation<N>,
}

evaluator_parts!(SupervisedEvaluator);

impl<N: Network> SupervisedEvaluator<N> {
    /// Builds an evaluator over this loader:
    /// `SupervisedEvaluator::builder(loader).key_metric("mean_dice", metric).build()?`.
    pub fn builder(loader: impl Loader + 'static) -> EvaluatorBuilder<N> {
        EvaluatorBuilder::new(loader)
    }

    pub(crate) fn of(engine: Engine, work: Evaluation<N>) -> Self {
        Self { engine, work }
    }

    /// Runs one pass with this network and returns the metrics; `global_epoch` numbers it. See also
    /// [`Self::rows`].
    ///
    /// # Errors
    /// Any error that ended the pass early; it names the cases.
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
