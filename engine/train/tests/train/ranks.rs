//! Several ranks take the same steps as one with larger batches, measure the same, and end
//! together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Balls, loss};
use burn::tensor::Device;
use hearth_data::{Batch, DataError};
use hearth_distributed::{BUCKET_BYTES, Share, threads};
use hearth_engine::{Context, Event, Handler, HandlerError, Metrics, RunEnd, When};
use hearth_nn::metrics::DiceMetric;
use hearth_nn::networks::{UNet, UNetConfig};
use hearth_nn::optim::{AdamConfig, GradientClip, OptimizerConfig, SgdConfig};
use hearth_nn::weights;
use hearth_train::{
    BatchStream, CaseRow, Loader, Post, Ranks, RanksError, SharedCases, SupervisedEvaluator, SupervisedTrainer,
    TrainerOptions,
};

/// A rank's part of each batch of eight, and its cases of the validation.
#[derive(Clone)]
struct Part {
    cases: Vec<u64>,
    batch: usize,
}

impl Loader for Part {
    fn batches(&self) -> Option<u64> {
        Some((self.cases.len() / self.batch) as u64)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        let part = self.clone();
        let make = move |index: u64| {
            let cases = &part.cases[index as usize * part.batch..][..part.batch];
            let single = |case: &u64| Balls { cases: 1_000, batch: 1 }.make(pass, *case);
            let all: Vec<Batch> = cases.iter().map(single).collect();
            let join = |key: &str| {
                let parts = all.iter().map(|batch| batch.tensors[key].clone()).collect();
                (key.to_owned(), burn::tensor::Tensor::cat(parts, 0))
            };
            let tensors = BTreeMap::from([join("image"), join("label")]);
            let cases = all.iter().flat_map(|batch| batch.cases.clone()).collect();
            Ok::<_, DataError>(Batch { tensors, cases, ..Batch::default() })
        };
        Box::new((skip..self.batches().unwrap()).map(make))
    }
}

/// The results of a run.
#[derive(Debug)]
struct Run {
    losses: Vec<f64>,
    metrics: Metrics,
    rows: Vec<CaseRow>,
    weights: Vec<u8>,
    end: RunEnd,
}

/// Records the loss, and requests the end of the run in one iteration.
struct Watch {
    losses: Arc<std::sync::Mutex<Vec<f64>>>,
    ends_at: u64,
}

impl Handler for Watch {
    fn name(&self) -> &str {
        "watch"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::IterationCompleted.into(), Event::EpochCompleted.into()]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        if event == Event::EpochCompleted {
            let measured = cx.host.run("validation")?;
            for (name, value) in measured {
                cx.host.set_metric(&name, value);
            }
            return Ok(());
        }
        self.losses.lock().unwrap().push(cx.host.output("loss")?);
        if cx.state.iteration == self.ends_at {
            cx.host.terminate("enough");
        }
        Ok(())
    }
}

const CASES: u64 = 32;
const VALIDATION: usize = 5;

/// 20 steps of 8 cases each: 5 epochs of 4. Instance norm, so that an item does not depend on others.
fn train(ranks: Option<Ranks>, optimizer: &OptimizerConfig, ends_at: u64) -> Run {
    train_with("instance", ranks, optimizer, ends_at)
}

fn train_with(norm: &str, ranks: Option<Ranks>, optimizer: &OptimizerConfig, ends_at: u64) -> Run {
    let (rank, world) = ranks.as_ref().map_or((0, 1), |ranks| (ranks.rank(), ranks.world()));
    let config = UNetConfig { norm: Some(norm.into()), ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) };
    let network: UNet = config.init(&Device::flex().autodiff(), 3).unwrap();
    let mut options = TrainerOptions::new(&Device::flex());
    options.max_epochs = 5;
    options.clip = Some(GradientClip::Norm(0.5));
    options.ranks = ranks.clone();
    let part = Part { cases: (rank as u64..CASES).step_by(world).collect(), batch: 8 / world };
    let mut trainer = SupervisedTrainer::builder(network, loss(), optimizer, part).options(options).build().unwrap();
    let mut own: Vec<u64> = Share::new(VALIDATION, world).of(rank).map(|case| 100 + case as u64).collect();
    if own.is_empty() {
        own.push(100);
    }
    let mut evaluating = hearth_train::EvaluatorOptions::default();
    evaluating.post_pred = Post::argmax(2);
    evaluating.post_label = Post::onehot(2);
    evaluating.shared = ranks.map(|ranks| SharedCases { ranks, cases: VALIDATION });
    let dice = DiceMetric { include_background: false, ..DiceMetric::default() };
    let evaluator = SupervisedEvaluator::<UNet>::builder(Part { cases: own, batch: 1 })
        .options(evaluating)
        .key_metric("dice", dice)
        .loss("val_loss", loss())
        .build()
        .unwrap();
    trainer.add_evaluator("validation", evaluator);
    let losses = Arc::default();
    trainer.engine_mut().add(Watch { losses: Arc::clone(&losses), ends_at }).unwrap();
    let end = trainer.run().unwrap();
    let rows = trainer.evaluator("validation").unwrap().rows().to_vec();
    let losses = losses.lock().unwrap().clone();
    let weights = weights::to_bytes(trainer.network().unwrap()).unwrap();
    Run { losses, metrics: trainer.engine().state().metrics.clone(), rows, weights, end }
}

fn together(world: usize, optimizer: &OptimizerConfig, ends: impl Fn(usize) -> u64 + Sync) -> Vec<Run> {
    threads::run(world, |communicator| {
        let rank = hearth_distributed::Communicator::rank(&communicator);
        let mut ranks = Ranks::new(Arc::new(communicator));
        ranks.deadline = Duration::from_secs(60);
        // All gradients in one bucket, some per bucket, one per bucket.
        ranks.bucket_bytes = [BUCKET_BYTES, 400, 0][world / 3];
        train(Some(ranks), optimizer, ends(rank))
    })
}

#[test]
fn ranks_take_the_steps_of_one() {
    let sgd = SgdConfig { momentum: 0.9, lr: 0.05, ..SgdConfig::default() };
    for optimizer in [OptimizerConfig::from(sgd), AdamConfig { lr: 2e-3, ..AdamConfig::default() }.into()] {
        let alone = train(None, &optimizer, 0);
        assert_eq!(alone.losses.len(), 20);
        for world in [2, 4, 8] {
            let runs = together(world, &optimizer, |_| 0);
            for step in 0..20 {
                // After the step, every rank has the mean of all.
                for run in &runs {
                    let off = (run.losses[step] - alone.losses[step]).abs();
                    assert!(off < 1e-6, "{world} ranks, step {step}: {} and {}", run.losses[step], alone.losses[step]);
                }
            }
            for run in &runs {
                assert_eq!(run.weights, runs[0].weights, "the same weights on all ranks, to the bit");
                assert_eq!(run.metrics, runs[0].metrics);
                let cases: Vec<&str> = run.rows.iter().map(|row| row.case.as_str()).collect();
                assert_eq!(cases, ["ball_100", "ball_101", "ball_102", "ball_103", "ball_104"]);
                for (name, value) in &alone.metrics {
                    assert!((run.metrics[name] - value).abs() < 1e-6, "{name}: {} and {value}", run.metrics[name]);
                }
            }
        }
    }
}

/// The values of a file of weights.
fn values(weights: &[u8]) -> Vec<f32> {
    let header = u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    weights[8 + header..].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// With the statistics of all ranks, batches of eight are normalized alike however they are
/// divided.
#[test]
fn batch_norms_have_the_statistics_of_all_ranks() {
    let optimizer = OptimizerConfig::from(SgdConfig { momentum: 0.9, lr: 0.05, ..SgdConfig::default() });
    let alone = train_with("batch", None, &optimizer, 0);
    let run = |norm: &'static str, all: bool, world: usize| {
        threads::run(world, |communicator| {
            let mut ranks = Ranks::new(Arc::new(communicator));
            (ranks.deadline, ranks.sync_batch_norm, ranks.bucket_bytes) = (Duration::from_secs(60), all, 400);
            train_with(norm, Some(ranks), &optimizer, 0)
        })
    };
    for (norm, all, world) in [("batch", true, 2), ("syncbatch", false, 4), ("batch", true, 8)] {
        for run in run(norm, all, world) {
            for (step, (own, one)) in run.losses.iter().zip(&alone.losses).enumerate() {
                assert!((own - one).abs() < 1e-5, "{norm}, {world} ranks, step {step}: {own} and {one}");
            }
            let (own, one) = (values(&run.weights), values(&alone.weights));
            let off = own.iter().zip(&one).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(
                own.len() == one.len() && off < 1e-4,
                "{norm}, {world} ranks: weights and statistics differ by {off}"
            );
        }
    }
    let apart = run("batch", false, 2);
    let off = apart[0].losses.iter().zip(&alone.losses).map(|(own, one)| (own - one).abs()).fold(0.0, f64::max);
    assert!(off > 1e-4, "batch norms of each rank's own batch train otherwise: {off}");
    assert_ne!(apart[0].weights, apart[1].weights, "running statistics are each rank's own");
}

#[test]
fn what_one_rank_wants_all_do() {
    let optimizer = OptimizerConfig::from(SgdConfig { lr: 0.01, ..SgdConfig::default() });
    for asking in 0..3 {
        let runs = together(4, &optimizer, |rank| if rank == asking { 7 } else { 0 });
        for run in runs {
            assert_eq!(run.losses.len(), 7);
            assert_eq!(run.end, RunEnd::Terminated("enough".into()));
        }
    }
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let said = threads::run(3, |communicator| {
        let rank = hearth_distributed::Communicator::rank(&communicator);
        if rank == 1 {
            std::thread::sleep(Duration::from_millis(900));
            return String::new();
        }
        let mut ranks = Ranks::new(Arc::new(communicator));
        ranks.deadline = Duration::from_millis(300);
        let failed = ranks.gather(&rank, "start", 0).expect_err("no rank came");
        assert!(matches!(failed, RanksError::Comm(_)));
        failed.to_string()
    });
    for said in [&said[0], &said[2]] {
        assert!(said.contains("rank 1") && said.contains("start"), "{said}");
    }
}
