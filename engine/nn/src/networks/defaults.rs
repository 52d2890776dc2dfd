//! MONAI's default parameters as functions, as serde requires.

use serde_json::json;

use crate::layers::{Axes, DropoutSpec, LayerSpec};

pub(super) fn one() -> usize {
    1
}

pub(super) fn two() -> usize {
    2
}

pub(super) fn three() -> Axes {
    Axes::All(3)
}

pub(super) fn three_dims() -> usize {
    3
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn nda() -> String {
    "NDA".to_owned()
}

pub(super) fn prelu() -> Option<LayerSpec> {
    Some("PRELU".into())
}

pub(super) fn relu() -> Option<LayerSpec> {
    Some("RELU".into())
}

pub(super) fn leaky_relu(negative_slope: f64) -> Option<LayerSpec> {
    Some(LayerSpec::with("leakyrelu", &[("negative_slope", json!(negative_slope))]))
}

pub(super) fn batch() -> Option<LayerSpec> {
    Some("BATCH".into())
}

pub(super) fn instance() -> Option<LayerSpec> {
    Some("INSTANCE".into())
}

pub(super) fn affine_instance() -> Option<LayerSpec> {
    Some(LayerSpec::with("instance", &[("affine", json!(true))]))
}

pub(super) fn group_of(num_groups: usize) -> Option<LayerSpec> {
    Some(LayerSpec::with("group", &[("num_groups", json!(num_groups))]))
}

/// No dropout.
pub(super) fn none() -> Option<DropoutSpec> {
    None
}

/// The dropout of discriminators and critics.
pub(super) fn quarter() -> Option<DropoutSpec> {
    Some(0.25.into())
}
