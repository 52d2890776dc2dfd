//! The commands, one file each: its arguments, and `run`.

pub mod bench;
pub mod completions;
pub mod convert;
pub mod convert_weights;
pub mod data;
pub mod demo;
pub mod devices;
pub mod doctor;
#[cfg(feature = "download")]
pub mod download;
mod dry_run;
mod empty;
pub mod ensemble;
pub mod evaluate;
pub mod export;
pub mod folds;
mod generate;
pub mod inspect;
pub mod lr_find;
pub mod man;
pub mod memory;
pub mod merging;
pub mod metrics;
pub mod models;
mod network;
mod opening;
pub mod plan;
pub mod plugin;
pub mod predict;
mod predict_nnunet;
mod predict_slides;
mod predict_total;
mod predicted;
pub mod preprocess;
pub mod preview;
pub mod profile;
pub mod recipes;
pub mod reference;
pub mod report;
#[cfg(feature = "serve")]
pub mod serve;
pub mod train;
mod tta;
pub mod tune;
pub mod verify;
pub mod watch;
