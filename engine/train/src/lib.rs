//! Trains and evaluates: the workflows that drive an [`Engine`](hearth_engine::Engine), and what they stand on.
//!
//! - [`SupervisedTrainer`] trains a network; [`SupervisedEvaluator`] and [`EnsembleEvaluator`] compare networks with
//!   labels.
//! - [`device`] turns `--device` words into devices; it is the only place that names vendors.
//! - [`Precision`] keeps f32 master weights while convolutions run in bf16 or fp16.
//! - [`checkpoint`] writes folders that a crash cannot spoil; a resumed run on a CPU is bit-identical to an
//!   uninterrupted one.

pub mod checkpoint;
mod checkpoint_writer;
mod combine;
pub mod device;
mod ensemble;
mod evaluate;
mod evaluation;
mod evaluator;
mod evaluator_builder;
mod facts;
mod feed;
mod grad_scaler;
mod inference;
mod layer_statistics;
mod loader;
mod lr_find;
mod post;
mod precision;
mod predictor;
mod run_folder;
mod run_lock;
mod snapshot_files;
mod step_error;
mod tensor_file;
mod tensors;
mod trainer;
mod trainer_builder;
mod trainer_files;
mod training;
mod tta;

pub use combine::{CombineError, mean_ensemble, vote_ensemble};
pub use ensemble::{EnsembleError, EnsembleEvaluator};
pub use evaluate::Evaluate;
pub use evaluator::{CaseRow, SupervisedEvaluator};
pub use evaluator_builder::{EnsembleBuilder, EvaluatorBuilder, EvaluatorError, EvaluatorOptions};
pub use grad_scaler::{DeviceScaler, GradScaler};
pub use loader::{BatchStream, Loader};
pub use lr_find::{RangeError, RangePoint, RangeResult, RangeTest, StepMode};
pub use post::Post;
pub use precision::{Precision, PrecisionError};
pub use predictor::Predictor;
pub use run_folder::{RunFolder, RunFolderError};
pub use run_lock::{LockError, RunLock};
pub use step_error::StepError;
pub use trainer::{SupervisedTrainer, TrainerError, TrainerOptions};
pub use trainer_builder::TrainerBuilder;
pub use tta::{TestTimeAugmentation, TtaError, TtaMaps};
