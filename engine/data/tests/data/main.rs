//! Real files, from the file to the checked data set, and how long common steps take.

#[path = "../../../../tests/clients.rs"]
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod real_files;
mod timing;
