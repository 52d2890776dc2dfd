//! Training: [`SupervisedTrainer`](crate::SupervisedTrainer) and [`GanTrainer`](crate::GanTrainer),
//! their steps, their precision, and the search for a learning rate.

pub(crate) mod adversarial;
pub(crate) mod bucket_sum;
pub(crate) mod builder;
pub(crate) mod custom;
pub(crate) mod grad_scaler;
#[cfg(all(test, unix))]
mod in_place_tests;
pub(crate) mod layer_statistics;
pub(crate) mod layer_tensors;
pub(crate) mod learner;
pub(crate) mod lr_find;
pub(crate) mod mean_loss;
pub(crate) mod precision;
pub(crate) mod reading;
pub(crate) mod reducer;
pub(crate) mod shared;
pub(crate) mod step;
pub(crate) mod train;
pub(crate) mod train_metrics;
pub(crate) mod trainer;
