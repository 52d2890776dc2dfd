//! Trained models behind one door: runs and ensembles of ours, models of nnU-Net and TotalSegmentator,
//! MONAI bundles, packages.
//!
//! * [`Model`](model::Model): what each of them can do.
//! * [`open`](open::open): the door, whatever was trained.
//! * [`Job`](job::Job): the loop over cases.
//! * [`writers`]: the table of files that a prediction is written as.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod cases;
pub mod ensemble;
pub mod export;
pub mod job;
pub mod model;
pub mod nnunet;
pub mod open;
pub mod package;
pub mod picture;
pub mod run;
pub mod slides;
pub mod store;
pub mod writers;
