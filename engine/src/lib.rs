//! **Hearth** trains, evaluates and runs medical-imaging networks on any GPU that [Burn](burn) runs on.
//!
//! An [`Engine`](engine::Engine) walks through a run and says what happens; handlers listen. A trainer owns network, loss,
//! optimizer and data, and does one step when the engine says so. This crate is the door to all of it:
//!
//! | module | what is in it |
//! |---|---|
//! | [`engine`] | events, handlers, state: the event machine, no tensor library |
//! | [`data`] | images with geometry, readers and writers, transforms, caches, loaders |
//! | [`nn`] | networks, losses, metrics, optimizers, inferers |
//! | [`train`] | trainer, evaluators, precision, devices, checkpoints |
//! | [`kernels`] | the device operations that Burn lacks |
//!
//! # A whole training run
//!
//! Volumes are made up here; a Decathlon folder of your own takes their place.
//!
//! ```
//! use std::sync::Arc;
//! use hearth::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! # let folder = std::env::temp_dir().join(format!("hearth-doc-{}", std::process::id()));
//! // Data: three cases to train on, one to validate.
//! let phantom = { let mut options = phantom::SpleenOptions::default(); options.size = 32; options };
//! phantom::spleen(&folder, 4, &phantom)?;
//! let (training, validation) = DecathlonDataset::open(&folder)?.split_last(1)?;
//!
//! // What is done to them: what is fixed is cached, the crop is drawn anew each epoch.
//! let both = ["image", "label"];
//! let steps = Pipeline::new((
//!     LoadImage::new(both),
//!     EnsureChannelFirst::new(both),
//!     Orientation::new(both, "RAS"),
//!     ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true),
//!     RandCropByPosNegLabel::new(both, "label", 16).num_samples(2_usize),
//! ))?;
//! let cache = |items, steps: Pipeline| {
//!     CacheDataset::new(items, Arc::new(steps), 0, 0, CacheOptions::default()).map(Arc::new)
//! };
//! let (train, val) = (cache(training, steps.clone())?, cache(validation, steps.without_random())?);
//! let train_loader = DataLoader::new(train, LoaderOptions { batch_size: 2, shuffle: true, ..Default::default() })?;
//! let val_loader = DataLoader::new(val, LoaderOptions { batch_size: 1, ..Default::default() })?;
//!
//! // Network, loss, optimizer.
//! let device = device::parse("cpu")?; // "cuda:0", "vulkan", "rocm:0", "metal": nothing else changes
//! let net = UNetConfig { num_res_units: 1, norm: Some("batch".into()), ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) };
//! let net = net.init(&device, 0)?;
//! let loss = DiceCELoss { softmax: true, to_onehot_y: true, ..DiceCELoss::default() };
//! let optimizer = OptimizerConfig::sgd(0.9).with("lr", 0.05)?;
//!
//! // Validation: windows over the whole volume, the class of the largest logit, Dice of the foreground.
//! let mut options = EvaluatorOptions::new(&device);
//! options.inferer = Arc::new(SlidingWindowInferer::new(&[16, 16, 16]));
//! options.post_pred = Post::argmax(2);
//! options.post_label = Post::onehot(2);
//! let dice = DiceMetric { include_background: false, ..DiceMetric::default() };
//! let evaluator = SupervisedEvaluator::new(options, val_loader)?.with_key_metric("mean_dice", dice, Better::Higher);
//!
//! // The trainer, and what happens when.
//! let mut options = TrainerOptions::new(&device);
//! options.max_epochs = 2;
//! let mut trainer = SupervisedTrainer::builder(net, loss, &optimizer, train_loader).options(options).build()?;
//! trainer.add_evaluator("validation", evaluator);
//! trainer.engine_mut().on(Event::IterationCompleted.every(2), |cx| {
//!     let loss = cx.host.output("loss")?;
//!     println!("iteration {}: loss {loss:.4}", cx.state.iteration);
//!     Ok(())
//! })?;
//! trainer.engine_mut().on(Event::EpochCompleted, |cx| Ok(cx.host.run("validation").map(|_| ())?))?;
//! let checkpoints = folder.join("checkpoints");
//! trainer.engine_mut().on(Event::EpochCompleted, move |cx| {
//!     let tag = if cx.state.is_best() { "best" } else { "epoch" };
//!     Ok(cx.host.save_checkpoint(CheckpointRequest { dir: checkpoints.clone(), tag: tag.into(), keep_last: Some(1) })?)
//! })?;
//! trainer.run()?;
//!
//! let state = trainer.engine().state();
//! println!("best {:?} in epoch {:?}", state.best_metric, state.best_epoch);
//! # assert_eq!((state.epoch, state.iteration), (2, 4));
//! # assert!(state.best_metric.is_some_and(|dice| (0.0..=1.0).contains(&dice)));
//! # assert!(hearth::train::checkpoint::newest(&folder.join("checkpoints")).is_ok());
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Your own handler
//!
//! A closure will do, as above; a struct where there is state to keep. `examples/custom_handler.rs` shows both in forty lines, and
//! the `hearth-plugin` crate turns the same struct into a plugin that is loaded from a file.
//!
//! # Features
//!
//! `cpu` (the default), `cuda`, `rocm`, `metal`, `vulkan`, `wgpu`: which devices a build can use. Several may be on at once; which
//! one a run takes is said at run time by [`train::device::parse`].

pub use burn;
pub use hearth_data as data;
pub use hearth_engine as engine;
pub use hearth_handlers as handlers;
pub use hearth_kernels as kernels;
pub use hearth_nn as nn;
pub use hearth_registry as registry;
pub use hearth_train as train;

pub mod prelude;
