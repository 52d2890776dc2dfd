//! The crate as its users see it, against closed forms, recorded values and real clients.

mod absurd;
mod blosc2;
#[path = "../common/cases.rs"]
mod cases;
mod check_case;
#[path = "../../../../tests/clients.rs"]
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod crops;
mod datasets;
#[path = "../common/dicom.rs"]
mod dicom;
mod dicom_folders;
mod disk_caches;
#[cfg(feature = "download")]
mod download;
mod folds;
mod intensity;
mod layouts;
mod lazy;
mod loading;
mod nifti;
mod pipeline;
mod properties;
mod quality;
mod readers;
mod real_files;
mod regions;
mod registry;
#[cfg(feature = "download")]
#[path = "../common/server.rs"]
mod server;
mod slides;
#[cfg(feature = "download")]
mod tcia;
mod timing;
mod volumes;
mod warps;
