//! Training: [`SupervisedTrainer`](crate::SupervisedTrainer), its step, its precision, and the
//! search for a learning rate.

pub(crate) mod builder;
pub(crate) mod grad_scaler;
pub(crate) mod layer_statistics;
pub(crate) mod lr_find;
pub(crate) mod precision;
pub(crate) mod step;
pub(crate) mod trainer;
