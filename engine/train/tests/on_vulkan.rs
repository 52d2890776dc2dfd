//! A whole training on software Vulkan, compared with the CPU: cases and random transforms on the
//! device, batches handed over in advance, validation, checkpoints, a resume, a prediction.

#![cfg(feature = "vulkan")]

#[path = "../../../tests/src/gpu.rs"]
mod gpu;

use std::path::Path;
use std::sync::{Arc, Mutex};

use burn::tensor::Device;
use hearth_data::phantom::{self, SpleenOptions};
use hearth_data::transforms::*;
use hearth_data::{
    CacheDataset, CacheOptions, DataLoader, Dataset, DecathlonDataset, Item, LoaderOptions, Pipeline, TransformDataset,
};
use hearth_engine::{CheckpointRequest, Event};
use hearth_nn::inferers::SlidingWindowInferer;
use hearth_nn::losses::DiceCELoss;
use hearth_nn::metrics::DiceMetric;
use hearth_nn::networks::{AnyNetwork, NetworkConfig};
use hearth_nn::optim::OptimizerConfig;
use hearth_train::device::{self, TuneWord};
use hearth_train::{
    Post, Precision, PrecisionError, Predictor, SupervisedEvaluator, SupervisedTrainer, TrainerOptions,
};

const BOTH: [&str; 2] = ["image", "label"];

const UNET: &str = "name = 'UNet'\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nchannels = [4, 8]\nstrides = [2]\n\
                    num_res_units = 1\nnorm = 'batch'\ndropout = 0.1";

const SEGRESNET: &str = "name = 'SegResNet'\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\ninit_filters = 8\n\
                         blocks_down = [1, 1]\nblocks_up = [1]";

const SWIN_UNETR: &str = "name = 'SwinUNETR'\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nfeature_size = 12\n\
                          depths = [1, 1, 1, 1]\nnum_heads = [1, 1, 2, 2]\nwindow_size = 3";

/// The steps, with crops of this many voxels along each axis.
fn steps(crop: i64) -> Arc<Pipeline> {
    let indices = |key: &str| Some(format!("label_{key}"));
    let crops = RandCropByPosNegLabel::new(BOTH, "label", crop)
        .num_samples(1_usize)
        .fg_indices_key(indices("fg"))
        .bg_indices_key(indices("bg"));
    let steps = Pipeline::new((
        LoadImage::new(BOTH),
        EnsureChannelFirst::new(BOTH),
        Orientation::new(BOTH, "RAS"),
        ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true),
        SpatialPad::new(BOTH, crop),
        FgBgToIndices::new("label"),
        (crops, RandFlip::new(BOTH).prob(0.5), RandRotate90::new(BOTH).prob(0.5)),
        (RandScaleIntensity::new("image", 0.1).prob(1.0), RandGaussianNoise::new("image").prob(1.0).std(0.05)),
    ));
    Arc::new(steps.expect("sound").seed(5))
}

struct Problem {
    items: Vec<Item>,
    network: &'static str,
    crop: i64,
    device: Device,
}

/// The results of a training.
#[derive(Debug, Default)]
struct Outcome {
    losses: Vec<f64>,
    dice: f64,
    labels: Vec<f32>,
}

impl Problem {
    fn trainer(&self, epochs: u64) -> SupervisedTrainer<AnyNetwork> {
        let config: NetworkConfig = toml::from_str(self.network).expect("a network");
        let network = config.init(&self.device, 3).expect("sound");
        let loss = DiceCELoss { softmax: true, to_onehot_y: true, ..DiceCELoss::default() };
        let (steps, cases) = (steps(self.crop), self.items[..3].to_vec());
        let cache = CacheOptions { device: Some(self.device.clone()), ..CacheOptions::default() };
        let cached = CacheDataset::new(cases, steps.clone(), cache).expect("cached");
        for sample in cached.get(0, 1).expect("samples") {
            assert_eq!(sample.image("image").expect("an image").data.device(), self.device, "drawn on the device");
        }
        let batches = LoaderOptions {
            batch_size: 2,
            shuffle: true,
            workers: 1,
            device: Some(self.device.clone()),
            ..LoaderOptions::default()
        };
        let mut options = TrainerOptions::new(&self.device);
        (options.max_epochs, options.seed) = (epochs, 7);
        let optimizer = OptimizerConfig::sgd(0.9).with("lr", 0.02).expect("a rate");
        let loader = DataLoader::new(cached, batches).expect("a loader");
        let mut trainer = SupervisedTrainer::builder(network, Box::new(loss), &optimizer, loader)
            .options(options)
            .build()
            .expect("a trainer");
        let whole = TransformDataset::new(self.items[3..].to_vec(), Arc::new(steps.without_random())).expect("a case");
        let dice = DiceMetric { include_background: false, ..DiceMetric::default() };
        let evaluator = SupervisedEvaluator::<AnyNetwork>::builder(
            DataLoader::new(whole, LoaderOptions::default()).expect("a loader"),
        )
        .inferer(SlidingWindowInferer::new(&[self.crop as usize; 3]))
        .post_pred(Post::argmax(2))
        .post_label(Post::onehot(2))
        .key_metric("mean_dice", dice)
        .build()
        .expect("an evaluator");
        trainer.add_evaluator("validation", evaluator);
        trainer
    }

    /// Trains to an epoch, from the newest checkpoint in the folder where there is one.
    fn train(&self, folder: &Path, epochs: u64, resume: bool) -> Outcome {
        let mut trainer = self.trainer(epochs);
        if resume {
            trainer.resume(folder).expect("the checkpoint is read");
        }
        let losses = Arc::new(Mutex::new(Vec::new()));
        let (log, dir) = (losses.clone(), folder.to_owned());
        let engine = trainer.engine_mut();
        engine
            .on(Event::IterationCompleted, move |cx| {
                log.lock().expect("no panic").push(cx.host.output("loss")?);
                Ok(())
            })
            .expect("a handler");
        engine
            .on(Event::EpochCompleted, move |cx| {
                cx.host.run("validation")?;
                Ok(cx.host.save_checkpoint(CheckpointRequest {
                    dir: dir.clone(),
                    tag: "epoch".into(),
                    keep_last: None,
                })?)
            })
            .expect("a handler");
        trainer.run().expect("trains");
        let state = trainer.evaluator("validation").expect("there").engine().state();
        let dice = state.metrics["mean_dice"];
        let network = trainer.network().expect("a network").clone();
        let predictor = Predictor::new(network, steps(self.crop).as_ref().clone())
            .inferer(SlidingWindowInferer::new(&[self.crop as usize; 3]))
            .post(Post::labels());
        let labels = predictor.predict_item(&self.items[3]).expect("predicted").to_vec();
        refuses(predictor, &self.items[3], &self.device);
        let losses = std::mem::take(&mut *losses.lock().expect("no panic"));
        Outcome { losses, dice, labels }
    }

    /// Two epochs in one run, and in two runs.
    fn run(&self) -> [Outcome; 2] {
        let [whole, halves] = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
        let at_once = self.train(whole.path(), 2, false);
        let mut losses = self.train(halves.path(), 1, false).losses;
        let second = self.train(halves.path(), 2, true);
        losses.extend(&second.losses);
        [at_once, Outcome { losses, ..second }]
    }
}

/// A predictor refuses the types that the device lacks, as a trainer does.
fn refuses(mut predictor: Predictor<AnyNetwork>, case: &Item, device: &Device) {
    for precision in [Precision::Bf16, Precision::Fp16, Precision::Fp32] {
        predictor = predictor.precision(precision);
        if let Err(lacks) = precision.check(device) {
            let refused = predictor.predict_item(case).err().expect("refused");
            assert_eq!(refused.downcast_ref::<PrecisionError>(), Some(&lacks), "{refused}");
        }
    }
}

#[track_caller]
fn near(what: &str, expected: &Outcome, found: &Outcome) {
    assert_eq!(expected.losses.len(), found.losses.len(), "{what}");
    for (step, (a, b)) in expected.losses.iter().zip(&found.losses).enumerate() {
        assert!((a - b).abs() <= 2e-3 * a.abs(), "{what}, step {step}: {b}, it is {a} on the CPU");
    }
    assert!((expected.dice - found.dice).abs() < 0.02, "{what}: Dice {} and {}", expected.dice, found.dice);
    let others = expected.labels.iter().zip(&found.labels).filter(|(a, b)| a != b).count();
    let all = expected.labels.len();
    assert!(all == found.labels.len() && others * 100 <= all, "{what}: {others} of {all} labels differ");
}

fn trains(network: &'static str, crop: i64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SpleenOptions::default();
    options.size = 24;
    phantom::spleen(folder.path(), 4, &options).expect("written");
    let items = DecathlonDataset::open(folder.path()).expect("a data set").training;
    let gpu = device::parse(&gpu::word()).expect("a driver");
    TuneWord::Auto.set(&gpu);
    let on = |device: Device| Problem { items: items.clone(), network, crop, device };
    let [cpu, _] = on(device::parse("cpu").expect("always there")).run();
    let [whole, resumed] = on(gpu).run();
    eprintln!("losses on the CPU {:?}, on Vulkan {:?}", cpu.losses, whole.losses);
    near("trained at once", &cpu, &whole);
    near("resumed", &cpu, &resumed);
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn a_unet_trains_on_vulkan() {
    trains(UNET, 16);
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn a_segresnet_trains_on_vulkan() {
    trains(SEGRESNET, 16);
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn a_swin_unetr_trains_on_vulkan() {
    trains(SWIN_UNETR, 32);
}

/// The check that the program runs before it fills a cache on the device.
#[test]
#[ignore = "needs a Vulkan driver"]
fn a_driver_in_software_has_the_machines_memory_on_vulkan() {
    let memory = device::memory(&device::parse(&gpu::word()).expect("a driver")).expect("known");
    assert!(memory.free > 0 && memory.free <= memory.total);
    assert_eq!(TuneWord::Auto.on(&device::parse(&gpu::word()).expect("a driver")), Some(hearth_kernels::Tune::Off));
}
