//! The built-in handlers of Hearth, one file each. They use no tensor library; they make requests
//! of the [`Host`](hearth_engine::Host).
//!
//! A recipe names them, and [`build`] builds them:
//!
//! ```toml
//! [[handlers]]
//! name = "EarlyStop"
//! patience = 20
//! ```
//!
//! | Name | What it does |
//! |---|---|
//! | [`Checkpoints`] | checkpoints: the latest, the best, the last |
//! | [`EarlyStop`] | ends the run when a metric no longer improves |
//! | [`GpuMonitor`] | `gpu.csv`: a row per second about the GPU |
//! | [`LayerStatisticsLog`] | weights and gradients of each layer |
//! | [`LrSchedule`] | sets the learning rate by a [`ScheduleConfig`] |
//! | [`MachineMonitor`] | `machine.csv`, `.json`, `.png`: CPU, memory, disk, GPUs and energy |
//! | [`MetricLog`] | `metrics.csv` and `log.jsonl` |
//! | [`Progress`] | a bar with the time left, or a line per epoch |
//! | [`ReduceLrOnPlateau`] | lowers the learning rate when a metric no longer improves |
//! | [`StopOnNonFinite`] | an error when the loss is not finite |
//! | [`TensorBoardImage`] | pictures of image, label and prediction |
//! | [`TensorBoardStats`] | curves |
//! | [`Timing`] | the time between the events of an iteration |
//! | [`Validation`] | runs an evaluator at intervals |
//!
//! Handlers are called in the order they are added: first handlers that stop a bad run, then those
//! that compute metrics (validation), then those that read them, then those that write checkpoints.
//! A custom handler is a closure or an `impl Handler`:
//!
//! ```
//! use hearth_engine::{Engine, Event};
//! let mut engine = Engine::new("trainer");
//! engine.on(Event::EpochCompleted.every(5), |cx| {
//!     Ok(println!("epoch {}: {:?}", cx.state.epoch, cx.state.metrics))
//! })?;
//! # Ok::<(), hearth_engine::RegisterError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

// Its macro must come before the handlers that use it.
#[macro_use]
mod registry;

mod checkpoints;
mod early_stop;
mod event_file;
mod gpu_monitor;
mod hparams;
mod layer_statistics;
mod lr_schedule;
mod machine_monitor;
mod metric_log;
mod panel;
mod period;
mod plateau;
mod profiler;
mod progress;
mod schedules;
mod stop_on_non_finite;
mod tensorboard_image;
mod tensorboard_stats;
mod text_file;
mod timing;
mod validation;
mod watched;

/// The sampler of [`MachineMonitor`], for direct use.
pub use hearth_machine as machine;

pub use checkpoints::{Checkpoints, CheckpointsOptions};
pub use early_stop::{EarlyStop, EarlyStopOptions};
pub use gpu_monitor::{GpuMonitor, GpuMonitorOptions, GpuProbe, GpuSample};
pub use layer_statistics::{LayerStatisticsLog, LayerStatisticsOptions};
pub use lr_schedule::{LrSchedule, LrScheduleOptions, StepBy};
pub use machine_monitor::{MachineMonitor, MachineMonitorOptions};
pub use metric_log::{MetricLog, MetricLogOptions};
pub use plateau::{PlateauOptions, ReduceLrOnPlateau, ThresholdMode};
pub use profiler::{Profiler, ProfilerOptions, Profiles, Unit};
pub use progress::{Progress, ProgressOptions};
pub use registry::{HandlerSpec, build};
pub use schedules::*;
pub use stop_on_non_finite::{LookAt, StopOnNonFinite, StopOnNonFiniteOptions};
pub use tensorboard_image::{TensorBoardImage, TensorBoardImageOptions};
pub use tensorboard_stats::{TensorBoardStats, TensorBoardStatsOptions};
pub use timing::{Timing, TimingOptions, summary};
pub use validation::{Validation, ValidationOptions};
