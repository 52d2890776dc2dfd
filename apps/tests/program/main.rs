//! The program as users run it: commands, their files, and the errors for mistakes.

mod alone;
mod bad_input;
mod bench_layers;
mod benches;
mod brats;
#[cfg(target_os = "linux")]
mod campaign;
mod cascade;
#[path = "../../../tests/clients.rs"]
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod confusion;
#[cfg(target_os = "linux")]
mod consent;
mod containers;
mod convert;
mod convert_images;
mod counts;
mod damaged_checkpoints;
mod data_commands;
mod demos;
#[path = "../../../engine/dicom/tests/common/files.rs"]
mod dicom;
mod distances;
mod ensembles;
mod escapes;
mod evaluation_report;
mod every_model;
mod exports;
mod from_monai;
mod generation;
mod guide;
mod handlers;
#[cfg(unix)]
mod hosts;
mod inspect;
#[cfg(target_os = "linux")]
mod isolated;
#[path = "../common/launchers.rs"]
mod launchers;
mod learning_parts;
#[cfg(unix)]
mod lost_inputs;
mod lung;
mod memory;
#[cfg(target_os = "linux")]
mod memory_group;
mod metrics;
mod mistakes;
mod models;
mod new_plugin;
mod nnunet;
#[cfg(unix)]
mod odd_files;
#[cfg(unix)]
mod odd_places;
mod packages;
mod pathology;
mod pictures;
mod plan;
mod plugin_kinds;
mod plugins_in_c;
mod plugins_of_a_run;
mod plugins_together;
mod predict;
mod profile;
#[cfg(unix)]
mod ranks;
mod real_data;
mod reference;
#[cfg(unix)]
mod resume;
mod saliency;
#[cfg(feature = "serve")]
mod serve;
#[cfg(unix)]
mod shared;
mod silent;
mod slides;
mod tasks;
#[cfg(target_os = "linux")]
mod terminal;
mod too_large;
mod train_metrics;
mod training;
mod volumes;
mod watch;
