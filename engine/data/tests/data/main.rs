//! Tests on real files, from the file to the checked data set, and timings of common steps.

#[path = "../../../../tests/clients.rs"]
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod real_files;
mod timing;
