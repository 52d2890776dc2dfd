//! Trained models behind one door: runs and ensembles of ours, models of nnU-Net and TotalSegmentator,
//! MONAI bundles, packages.

pub mod bundle;
pub mod cases;
pub mod ensemble;
pub mod export;
pub mod job;
pub mod model;
pub mod nnunet;
pub mod package;
pub mod run;
pub mod slides;
pub mod store;
