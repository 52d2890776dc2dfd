//! Training and evaluation: the workflows that an [`Engine`](hearth_engine::Engine) drives, and
//! their building blocks.
//!
//! - [`SupervisedTrainer`] trains a network, [`GanTrainer`] two competing networks;
//!   [`SupervisedEvaluator`] and [`EnsembleEvaluator`] compare networks with labels.
//! - A [`Loader`] is the source of batches; its page has an example that trains in memory.
//! - [`Predictor`] applies a network to the files of images, [`TestTimeAugmentation`] to an image and
//!   its flips.
//! - [`device`] turns `--device` words into devices; it is the only place that names vendors.
//! - [`Precision`] keeps f32 master weights while convolutions run in bf16 or fp16.
//! - [`checkpoint`] writes folders that a crash cannot damage; a resumed run on a CPU is
//!   bit-identical to an uninterrupted one.

mod batch;
pub mod checkpoint;
pub mod device;
mod evaluation;
mod floats;
#[cfg(all(test, feature = "vulkan"))]
#[path = "../../../tests/src/gpu.rs"]
mod gpu;
mod ranks;
mod run;
mod training;

pub use batch::loader::{BatchStream, Loader};
pub use batch::step_error::StepError;
pub use evaluation::builder::{EnsembleBuilder, EvaluatorBuilder, EvaluatorError, EvaluatorOptions};
pub use evaluation::combine::{CombineError, mean_ensemble, vote_ensemble};
pub use evaluation::ensemble::{EnsembleError, EnsembleEvaluator};
pub use evaluation::evaluate::Evaluate;
pub use evaluation::evaluator::{CaseRow, SupervisedEvaluator};
pub use evaluation::merger::{MergeError, Merger};
pub use evaluation::post::Post;
pub use evaluation::predictor::Predictor;
pub use evaluation::staple::{Staple, staple};
pub use evaluation::tta::{TestTimeAugmentation, TtaError, TtaMaps};
pub use floats::Floats;
pub use hearth_distributed as distributed;
pub use ranks::{Ranks, RanksError, SharedCases};
pub use run::folder::{RunFolder, RunFolderError, is_free};
pub use run::lock::{LockError, RunLock};
pub use training::adversarial::adversary::{AdversaryOptions, Shown};
pub use training::adversarial::builder::GanBuilder;
pub use training::adversarial::latents::Latents;
pub use training::adversarial::loss::{AdversarialLoss, Judge};
pub use training::adversarial::trainer::{GanOptions, GanTrainer};
pub use training::builder::TrainerBuilder;
pub use training::custom::averaged::{Averaged, AveragedNetwork};
pub use training::custom::batch::StepBatch;
pub use training::custom::companion::Companion;
pub use training::custom::context::StepContext;
pub use training::custom::fixed::{Fixed, FixedNetwork};
pub use training::custom::learned::{Learned, LearnedNetwork};
pub use training::custom::network::StepNetwork;
pub use training::grad_scaler::{DeviceScaler, GradScaler};
pub use training::lr_find::{RangeError, RangePoint, RangeResult, RangeTest, StepMode};
pub use training::precision::{Abilities, Precision, PrecisionError};
pub use training::train::Train;
pub use training::trainer::{SupervisedTrainer, TrainerError, TrainerOptions};
