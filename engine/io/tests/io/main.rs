//! Tests of the public readers and writers, against closed forms, recorded values and nibabel.

mod blosc2;
#[path = "../../../../tests/clients.rs"]
mod clients;
mod formats;
mod nifti;
mod readers;
mod reports;
mod volumes;
