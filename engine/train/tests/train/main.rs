//! Trainers and evaluators as their users see them, on small networks.

mod adversary;
#[path = "../common/mod.rs"]
mod common;
mod ensemble_golden;
mod evaluator;
mod gan;
mod heads;
mod host;
mod overhead;
mod own_step;
mod precision;
mod ranks;
mod resume;
mod staple;
mod steps;
mod train_metrics;
mod trainer;
mod tta;
