//! A training run: a trainer and an evaluator built from a recipe, with data, memory and handlers.
//!
//! * [`Plan`]: a recipe that is checked and ready to run.
//! * [`Session`]: a run that trains.
//! * [`Cases`], [`FoldList`], [`Chosen`]: the cases for training, validation and evaluation.
//! * [`Fingerprint`]: what the images of a training look like.
//! * [`footprint`], [`check_training`]: estimates of memory before it is used.
//! * [`advice`], [`profile`]: suggestions for a faster run, from a profile of it.
//! * [`outputs`]: files that a command claims before it writes them.
//!
//! Nothing here predicts, and nothing prints: the crate reports through errors and notices
//! ([`mod@hearth_recipe::notice`]).

#![forbid(unsafe_code)]

mod adversarial;
pub mod advice;
mod cases;
mod checkpoints;
mod checks;
pub mod confusion;
mod dataset;
mod ended;
mod fingerprint;
pub mod folders;
pub mod handlers;
mod kernel_tuning;
mod memory;
pub mod outputs;
pub mod penalty;
mod plan;
mod profile;
mod progress;
mod ranks;
mod record;
mod resume;
mod run_info;
pub mod session;
mod start;
mod summary;

pub use adversarial::gan_trainer;
pub use cases::evaluated::{Chosen, Rule};
pub use cases::fitness::{CaseFitness, ClassFitness, Fitness, fitness};
pub use cases::folds::FoldList;
pub use cases::previous_stage::{as_predicted, labels_of_stage, not_held_out, previous_labels};
pub use cases::usable::{read_some, usable};
pub use cases::{Cases, list, wants};
pub use checkpoints::{WEIGHTS, checkpoint_file, choose, name_of};
pub use checks::batches::check_batches;
pub use checks::check_training;
pub use checks::remarks::warn_of_recipe;
pub use confusion::CONFUSION;
pub use ended::Ended;
pub use fingerprint::{FINGERPRINT, Fingerprint, ImageFacts, Percentiles, Span, Typical, modality_of, percentiles_of};
pub use handlers::peak_flops::measure_roof;
pub use handlers::{HandlerFailure, plugins};
pub use kernel_tuning::choose_kernels;
pub use memory::caches::check_caches;
pub use memory::check::check_windows;
pub use memory::footprint::{Footprint, Sizes, ValidationFootprint, footprint};
pub use penalty::{Empty, Penalties};
pub use plan::{Plan, named};
pub use profile::{Profiled, Profiling, profile};
pub use progress::{PassProgress, Windows};
pub use ranks::{digest, evaluated, finish, gathered, is_reported, listed, same, together};
pub use record::{held_out, warn_of_edits};
pub use resume::check_resume;
pub use session::{Finished, Session, evaluator, trainer};
pub use start::{Start, weights_file};
