//! Evaluation and prediction: applies networks to data and turns their outputs into classes, rows
//! and maps.

pub(crate) mod builder;
pub(crate) mod combine;
pub(crate) mod ensemble;
pub(crate) mod evaluate;
pub(crate) mod evaluator;
pub(crate) mod evaluators;
pub(crate) mod gathered;
pub(crate) mod inference;
pub(crate) mod measured;
pub(crate) mod merger;
pub(crate) mod pass;
pub(crate) mod post;
pub(crate) mod predictor;
pub(crate) mod staple;
pub(crate) mod tta;
