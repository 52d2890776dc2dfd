//! Plugins to copy. Each module is a template of `hearth plugin new`, and the whole source of its plugin.

#![forbid(unsafe_code)]

pub mod boundary_loss;
pub mod hard_cases;
pub mod lr_finder;
pub mod mixup;
pub mod mlflow;
pub mod noise_scale;
pub mod nrrd_writer;
pub mod wandb;
pub mod worst_cases;
