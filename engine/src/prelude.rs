//! What most programs need: `use hearth::prelude::*`.

// For `#[derive(Module)]`, whose code names the crate.
pub use burn;
pub use burn::module::Module;
pub use burn::tensor::{Device, Tensor};
pub use hearth_data::spatial::{GridMode, GridPadding};
pub use hearth_data::transforms::*;
pub use hearth_data::{
    Affine, Batch, CacheDataset, CacheOptions, DataLoader, Dataset, DecathlonDataset, Draw, Fault, Image, Item, Items,
    Keys, LoaderOptions, NiftiOptions, Pipeline, Sample, ThreadDataLoader, Transform, TransformDataset, TransformError,
    Value, WriteOptions, image_fn, phantom, read_image, read_nifti, write_image, write_nifti,
};
pub use hearth_engine::{
    Better, CheckpointRequest, Combine, Context, Engine, Event, Handler, HandlerError, Host, HostTensor, Level,
    Metrics, OnError, RunEnd, RunError, State, When,
};
pub use hearth_handlers::*;
pub use hearth_nn::ConfigError;
pub use hearth_nn::inferers::{Inferer, SimpleInferer, SlidingWindowInferer};
pub use hearth_nn::layers::{Convolution, ConvolutionOptions, Scope};
pub use hearth_nn::losses::{
    BceWithLogitsLoss, CrossEntropyLoss, DiceCELoss, DiceLoss, Loss, LossConfig, LossError, loss_fn,
};
pub use hearth_nn::metrics::{DiceMetric, Metric, MetricError, MetricReduction, PerItem, metric_fn};
pub use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig, ShapeError, UNet, UNetConfig};
pub use hearth_nn::optim::{
    AdamConfig, AdamWConfig, NovogradConfig, OptimizerConfig, OptimizerSpec, ParameterGroup, RmsPropConfig, SgdConfig,
};
pub use hearth_nn::post::{Activations, AsDiscrete};
pub use hearth_nn::weights;
pub use hearth_train::{
    Averaged, EnsembleEvaluator, Evaluate, EvaluatorOptions, Fixed, GanTrainer, Latents, Learned, Loader, Post,
    Precision, Predictor, RunFolder, SupervisedEvaluator, SupervisedTrainer, TrainerOptions, device,
};
