//! Evaluation and prediction: what leads networks over data and makes classes, rows and maps of
//! their outputs.

pub(crate) mod builder;
pub(crate) mod combine;
pub(crate) mod ensemble;
pub(crate) mod evaluate;
pub(crate) mod evaluator;
pub(crate) mod evaluators;
pub(crate) mod inference;
pub(crate) mod pass;
pub(crate) mod post;
pub(crate) mod predictor;
pub(crate) mod tta;
