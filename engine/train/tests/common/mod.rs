//! A small problem for the trainer: finding a ball in noise.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use burn::tensor::{Device, Tensor, TensorData};
use hearth_data::{Batch, DataError};
use hearth_engine::{Event, Metrics};
use hearth_nn::losses::DiceCELoss;
use hearth_nn::metrics::DiceMetric;
use hearth_nn::networks::{UNet, UNetConfig};
use hearth_nn::optim::OptimizerConfig;
use hearth_nn::weights;
use hearth_train::{BatchStream, Loader, Post, SupervisedEvaluator, SupervisedTrainer, TrainerOptions};

/// Axes of a volume.
pub const SIDE: usize = 8;

/// Volumes with one ball each; the noise of pass `p` differs from that of pass `p + 1`.
#[derive(Clone)]
pub struct Balls {
    pub cases: usize,
    pub batch: usize,
}

/// A number in [0, 1) that depends on the key only.
pub fn draw(key: &[u64]) -> f64 {
    let mut h = 0x9E37_79B9_7F4A_7C15_u64;
    for part in key {
        h = (h ^ part).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        h ^= h >> 29;
        h = h.wrapping_mul(0x94D0_49BB_1331_11EB);
        h ^= h >> 32;
    }
    (h >> 11) as f64 / (1_u64 << 53) as f64
}

impl Balls {
    /// Image and label of one case in one pass.
    pub fn volume(case: u64, pass: u64) -> (Vec<f32>, Vec<f32>) {
        let centre = [0, 1, 2].map(|axis| 2.0 + 4.0 * draw(&[case, axis]));
        let (mut image, mut label) = (Vec::new(), Vec::new());
        for i in 0..SIDE.pow(3) {
            let at = [i / (SIDE * SIDE), i / SIDE % SIDE, i % SIDE];
            let distance: f64 = at.iter().zip(centre).map(|(a, c)| (*a as f64 - c).powi(2)).sum();
            let inside = distance <= 5.0;
            label.push(f32::from(u8::from(inside)));
            image.push((f64::from(u8::from(inside)) + 0.6 * draw(&[case, pass, i as u64, 7]) - 0.3) as f32);
        }
        (image, label)
    }

    pub fn make(&self, pass: u64, index: u64) -> Batch {
        let cases: Vec<u64> =
            (0..self.batch as u64).map(|i| (index * self.batch as u64 + i) % self.cases as u64).collect();
        let (mut images, mut labels) = (Vec::new(), Vec::new());
        for case in &cases {
            let (image, label) = Self::volume(*case, pass);
            images.extend(image);
            labels.extend(label);
        }
        let shape = [self.batch, 1, SIDE, SIDE, SIDE];
        let tensor = |values| Tensor::<5>::from_data(TensorData::new(values, shape), &Device::flex());
        let tensors = BTreeMap::from([("image".into(), tensor(images)), ("label".into(), tensor(labels))]);
        Batch { tensors, cases: cases.iter().map(|case| format!("ball_{case}")).collect(), ..Batch::default() }
    }
}

impl Loader for Balls {
    fn batches(&self) -> Option<u64> {
        Some(self.cases.div_ceil(self.batch) as u64)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        let (loader, count) = (self.clone(), self.batches().unwrap());
        Box::new((skip..count).map(move |index| Ok::<_, DataError>(loader.make(pass, index))))
    }
}

pub const TRAINING: Balls = Balls { cases: 8, batch: 2 };

pub fn network(seed: u64, dropout: f64) -> UNet {
    let config = UNetConfig {
        num_res_units: 1,
        dropout: dropout.into(),
        norm: Some("batch".into()),
        ..UNetConfig::new(3, 1, 2, &[4, 8], &[2])
    };
    config.init(&Device::flex().autodiff(), seed).unwrap()
}

pub fn loss() -> Box<DiceCELoss> {
    Box::new(DiceCELoss { softmax: true, to_onehot_y: true, ..DiceCELoss::default() })
}

pub fn evaluator() -> SupervisedEvaluator<UNet> {
    let dice = DiceMetric { include_background: false, ..DiceMetric::default() };
    SupervisedEvaluator::<UNet>::builder(Balls { cases: 3, batch: 1 })
        .post_pred(Post::argmax(2))
        .post_label(Post::onehot(2))
        .key_metric("val_mean_dice", dice)
        .loss("val_loss", loss())
        .build()
        .unwrap()
}

/// A trainer with validation after each epoch.
pub fn trainer(seed: u64, dropout: f64, optimizer: &OptimizerConfig, epochs: u64) -> SupervisedTrainer<UNet> {
    let mut options = TrainerOptions::new(&Device::flex());
    options.max_epochs = epochs;
    options.seed = 11;
    let mut trainer = SupervisedTrainer::builder(network(seed, dropout), loss(), optimizer, TRAINING)
        .options(options)
        .build()
        .unwrap();
    trainer.add_evaluator("validation", evaluator());
    trainer
        .engine_mut()
        .on(Event::EpochCompleted, |cx| cx.host.run("validation").map(|_| ()).map_err(Into::into))
        .unwrap();
    trainer
}

/// The loss of each iteration, as bits, with the iteration's number.
pub type LossLog = Arc<Mutex<Vec<(u64, u64)>>>;

pub fn log_losses(trainer: &mut SupervisedTrainer<UNet>) -> LossLog {
    let log = LossLog::default();
    let own = log.clone();
    trainer
        .engine_mut()
        .on(Event::IterationCompleted, move |cx| {
            let loss = cx.host.output("loss")?;
            own.lock().unwrap().push((cx.state.iteration, loss.to_bits()));
            Ok(())
        })
        .unwrap();
    log
}

/// Everything about a trainer that must be bit-identical in a resumed run.
#[derive(Debug, PartialEq)]
pub struct Fingerprint {
    pub weights: String,
    pub optimizer: BTreeMap<String, TensorData>,
    pub metrics: BTreeMap<String, u64>,
    pub best: (Option<u64>, Option<u64>),
    pub counters: (u64, u64),
    pub learning_rate: u64,
}

pub fn bits(metrics: &Metrics) -> BTreeMap<String, u64> {
    metrics.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect()
}

pub fn fingerprint(trainer: &SupervisedTrainer<UNet>) -> Fingerprint {
    let state = trainer.engine().state();
    Fingerprint {
        weights: blake3::hash(&weights::to_bytes(trainer.network().unwrap()).unwrap()).to_string(),
        optimizer: trainer.optimizer_state(),
        metrics: bits(&state.metrics),
        best: (state.best_metric.map(f64::to_bits), state.best_epoch),
        counters: (state.epoch, state.iteration),
        learning_rate: trainer.learning_rate().to_bits(),
    }
}
