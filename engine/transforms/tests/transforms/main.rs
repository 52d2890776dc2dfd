//! Tests of the public transforms and pipelines, against closed forms and recorded values.

mod absurd;
mod check_case;
mod choices;
mod crops;
#[path = "../../../dicom/tests/common/files.rs"]
mod dicom;
mod dicom_folders;
mod intensity;
mod lazy;
mod pipeline;
mod properties;
mod registry;
mod save_image;
mod smooth_fields;
mod warps;
