//! The tests of the plugins. `hearth plugin new` writes those of a template, under the name `rehearsal.rs`.

#[path = "../../../../tests/clients.rs"]
mod clients;

mod boundary_loss;
mod hard_cases;
mod loaded;
mod lr_finder;
mod mixup;
mod mlflow;
mod noise_scale;
mod nrrd_writer;
mod page;
mod readers;
mod wandb;
mod worst_cases;
