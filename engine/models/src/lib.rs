//! Trained models with one interface: runs and ensembles of Hearth, models of nnU-Net and
//! TotalSegmentator, MONAI bundles, packages.
//!
//! * [`Model`](model::Model): the interface of a model.
//! * [`open`](open::open): opens any kind of model.
//! * [`Job`](job::Job): the loop over cases.
//! * [`writers`]: the table of output files of a prediction.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod cases;
pub mod ensemble;
pub mod export;
mod finite;
pub mod job;
pub mod model;
mod near_model;
pub mod nnunet;
pub mod open;
pub mod package;
pub mod picture;
pub mod run;
pub mod saliency;
pub mod slides;
mod spread;
pub mod store;
pub mod writers;
