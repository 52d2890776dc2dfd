//! Tests of the public data sets, layouts, loaders and downloads, against closed forms and recorded
//! values.

mod cases;
mod datasets;
#[cfg(feature = "download")]
#[path = "../../../dicom/tests/common/files.rs"]
mod dicom;
mod disk_caches;
#[cfg(feature = "download")]
mod download;
mod folds;
mod layouts;
mod loading;
mod plugins;
mod quality;
mod regions;
#[cfg(feature = "download")]
mod server;
mod slides;
#[cfg(feature = "download")]
mod tcia;
mod workers;
