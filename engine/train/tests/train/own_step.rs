//! A closure in place of the training step: everything around it is as with the default step, and its
//! further networks follow, step and resume.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use burn::tensor::{Device, Tensor};
use hearth_data::DrawKey;
use hearth_distributed::threads;
use hearth_engine::{CheckpointRequest, Context, Event, HandlerError, RunEnd};
use hearth_nn::losses::{Loss, MseLoss};
use hearth_nn::networks::{Classifier, DiscriminatorConfig, Network, UNet, UNetConfig};
use hearth_nn::optim::{AdamConfig, GradientClip, Gradients, OptimizerConfig, OptimizerSpec, SgdConfig};
use hearth_nn::weights;
use hearth_train::{
    AdversaryOptions, Averaged, BatchStream, Fixed, Learned, LearnedNetwork, Loader, Precision, RangeTest, Ranks,
    SupervisedTrainer, TrainerBuilder, TrainerError, TrainerOptions,
};

use crate::common::{Balls, Fingerprint, TRAINING, fingerprint, log_losses, loss, network};

fn optimizer() -> OptimizerConfig {
    OptimizerConfig::sgd(0.9).with("lr", 0.05).unwrap()
}

fn options(epochs: u64) -> TrainerOptions {
    let mut options = TrainerOptions::new(&Device::flex());
    (options.max_epochs, options.seed) = (epochs, 5);
    options
}

fn builder(options: TrainerOptions) -> TrainerBuilder<UNet> {
    SupervisedTrainer::builder(network(1, 0.2), loss(), optimizer(), TRAINING).options(options)
}

/// The default step, written as a closure.
fn default_as_closure(builder: TrainerBuilder<UNet>) -> TrainerBuilder<UNet> {
    builder.step(|net, batch, cx| cx.loss_of_all(net.forward_all(batch.image()?)?, batch.label()?))
}

#[test]
fn the_default_step_as_a_closure_gives_the_same_bits() {
    let cases = [
        (1, None, Precision::Fp32),
        (3, Some(GradientClip::Norm(0.1)), Precision::Fp32),
        (1, None, Precision::Bf16),
        (2, Some(GradientClip::Value(0.01)), Precision::Fp16),
    ];
    for (accumulate, clip, precision) in cases {
        let made = || {
            let mut options = options(3);
            (options.accumulate, options.clip, options.precision) = (accumulate, clip, precision);
            builder(options)
        };
        let (mut default, mut own) = (made().build().unwrap(), default_as_closure(made()).build().unwrap());
        let (expected, found) = (log_losses(&mut default), log_losses(&mut own));
        default.run().unwrap();
        own.run().unwrap();
        assert_eq!(*expected.lock().unwrap(), *found.lock().unwrap(), "{accumulate} {precision}");
        assert_eq!(fingerprint(&default), fingerprint(&own), "{accumulate} {precision}");
    }
}

/// The names of all events within iterations, and the shape of the prediction where it exists.
fn events(mut trainer: SupervisedTrainer<UNet>) -> Vec<String> {
    let log = Arc::new(Mutex::new(Vec::new()));
    for event in Event::BUILT_IN.iter().copied().filter(|event| !event.name().contains("exception")) {
        let own = log.clone();
        let note = move |cx: &mut Context<'_>| {
            let pred = cx.host.tensor("pred").map(|tensor| tensor.shape).ok();
            own.lock().unwrap().push(format!("{} {} {pred:?}", cx.event.name(), cx.state.iteration));
            Ok(())
        };
        trainer.engine_mut().on(event, note).unwrap();
    }
    trainer.run().unwrap();
    Arc::try_unwrap(log).map_or_else(|log| log.lock().unwrap().clone(), |log| log.into_inner().unwrap())
}

#[test]
fn a_closure_fires_the_events_of_the_default_step() {
    let expected = events(builder(options(2)).build().unwrap());
    let found = events(default_as_closure(builder(options(2))).build().unwrap());
    assert!(expected.iter().any(|line| line.starts_with("forward_completed 3 Some([2, 2, 8, 8, 8])")), "{expected:?}");
    assert_eq!(found, expected);
}

fn critic() -> Classifier {
    DiscriminatorConfig::new(&[2, 8, 8, 8], &[4, 8], &[2, 2]).init(&Device::flex().autodiff(), 2).unwrap()
}

/// A step with every kind of companion and with draws.
fn with_all(builder: TrainerBuilder<UNet>) -> TrainerBuilder<UNet> {
    let fixed = UNetConfig::new(3, 1, 2, &[2, 4], &[2]).init(&Device::flex(), 9).unwrap();
    let critic = Learned::new("critic", critic(), AdamConfig::default().lr(1e-3));
    let parts = (critic, Averaged::new("mean", 0.9), Fixed::new("fixed", fixed));
    builder.step_with(parts, |net, (critic, mean, fixed), batch, cx| {
        let image = batch.image()? * (0.9 + 0.2 * cx.draw().uniform());
        let pred = net.forward(image.clone())?;
        let near = MseLoss::default().forward(pred.clone(), mean.forward(image.clone())?)?;
        let far = MseLoss::default().forward(pred.clone(), fixed.forward(image)?)?;
        let fooled = critic.forward(pred.clone())?.mean();
        let judged = critic.forward(pred.clone().detach())?.mean();
        let critic_loss = (judged.clone() - 1.0) * (judged - 1.0);
        cx.note("critic_loss", &critic_loss)?;
        critic.step(critic_loss, cx)?;
        Ok(cx.loss(pred, batch.label()?)? + near * 0.1 + far * 0.01 + fooled * 0.01)
    })
}

fn bytes<N: Network>(network: Option<&N>) -> Vec<u8> {
    weights::to_bytes(network.expect("a network")).unwrap()
}

/// Everything that a resumed run must equal.
fn all_bits(trainer: &SupervisedTrainer<UNet>) -> (Fingerprint, String, String) {
    let hash = |bytes: Vec<u8>| blake3::hash(&bytes).to_string();
    let critic = hash(bytes(trainer.companion::<Classifier>("critic")));
    (fingerprint(trainer), critic, hash(bytes(trainer.companion::<UNet>("mean"))))
}

fn save_at(iteration: u64, dir: PathBuf) -> impl FnMut(&mut Context<'_>) -> Result<(), HandlerError> {
    move |cx| {
        if cx.state.iteration == iteration {
            cx.host.save_checkpoint(CheckpointRequest { dir: dir.clone(), tag: "stop".into(), keep_last: None })?;
            cx.host.interrupt("enough");
        }
        Ok(())
    }
}

#[test]
fn companions_and_draws_resume_to_the_bit() {
    for precision in [Precision::Fp32, Precision::Fp16] {
        let made = || {
            let mut options = options(3);
            (options.accumulate, options.precision) = (3, precision);
            with_all(builder(options))
        };
        let mut whole = made().build().unwrap();
        whole.run().unwrap();
        assert!(whole.engine().state().metrics["critic_loss"].is_finite());
        for stop in [4, 6, 7] {
            let dir = tempfile::tempdir().unwrap();
            let mut first = made().on(Event::IterationCompleted, save_at(stop, dir.path().to_owned())).build().unwrap();
            assert!(matches!(first.run().unwrap(), RunEnd::Interrupted(_)));
            let mut second = made().build().unwrap();
            assert_eq!(second.resume(dir.path()).unwrap().1, stop);
            second.run().unwrap();
            assert_eq!(all_bits(&second), all_bits(&whole), "{precision}, stopped at {stop}");
        }
    }
}

#[test]
fn a_checkpoint_without_a_companion_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut plain = default_as_closure(builder(options(1))).build().unwrap();
    plain.run().unwrap();
    plain.save(dir.path(), "end", None).unwrap();
    let mut other = with_all(builder(options(1))).build().unwrap();
    let before = all_bits(&other);
    let error = other.resume(dir.path()).unwrap_err().to_string();
    assert!(error.contains("no network `critic`"), "{error}");
    assert_eq!(all_bits(&other), before);
}

#[test]
fn a_range_test_leaves_companions_as_they_are() {
    let mut plain = with_all(builder(options(2))).build().unwrap();
    plain.run().unwrap();
    let mut tested = with_all(builder(options(2))).build().unwrap();
    let test = RangeTest { num_iter: 6, start_lr: 1e-4, end_lr: 1e-2, ..RangeTest::default() };
    let found = tested.find_learning_rate(&test, |_| ()).unwrap();
    assert_eq!(found.points.len(), 6);
    tested.run().unwrap();
    assert_eq!(all_bits(&tested), all_bits(&plain));
}

/// The first parameter of a network, read from its state dict.
fn first_parameter<N: Network>(network: &N) -> Vec<f32> {
    struct First(Option<Vec<f32>>);
    impl burn::module::ModuleVisitor for First {
        fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
            self.0.get_or_insert_with(|| param.base().without_autodiff().to_data().iter::<f32>().collect());
        }
    }
    let mut first = First(None);
    network.visit(&mut first);
    first.0.unwrap()
}

/// `m = 0.75 m + 0.25 w` after each of the optimizer's steps, computed here from the weights between
/// runs of one epoch each, whose four batches make one step.
#[test]
fn an_average_follows_each_step_of_the_optimizer() {
    let mut options = options(1);
    options.accumulate = 4;
    let made = builder(options);
    let mut trainer = made
        .step_with(Averaged::new("mean", 0.75), |net, _, batch, cx| {
            cx.loss(net.forward(batch.image()?)?, batch.label()?)
        })
        .build()
        .unwrap();
    let mut expected = first_parameter(trainer.network().unwrap());
    for epoch in 1..=3 {
        trainer.set_max_epochs(epoch);
        trainer.run().unwrap();
        let now = first_parameter(trainer.network().unwrap());
        for (mean, weight) in expected.iter_mut().zip(&now) {
            *mean = 0.75 * *mean + 0.25 * weight;
        }
        let found = first_parameter(trainer.companion::<UNet>("mean").unwrap());
        let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let moved = now.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 1e-6 && moved > 1e-4, "epoch {epoch}: {off} {moved}");
    }
}

/// A learned companion takes the step of plain gradient descent on its own loss, whatever the other
/// network's loss sends into it.
#[test]
fn a_learned_companion_descends_its_own_loss_alone() {
    let small = || UNetConfig::new(3, 1, 2, &[2, 4], &[2]).init(&Device::flex().autodiff(), 3).unwrap();
    let sgd = || SgdConfig::default().momentum(0.0).lr(0.1);
    let rate = 0.1;
    let run = |weight: f64| {
        let mut options = options(1);
        options.accumulate = 4;
        let mut trainer =
            SupervisedTrainer::builder(network(1, 0.0), loss(), optimizer(), Balls { cases: 8, batch: 2 })
                .options(options)
                .step_with(
                    Learned::new("other", small(), sgd()),
                    move |net, other: &mut LearnedNetwork<UNet>, batch, cx| {
                        let (image, label) = (batch.image()?, batch.label()?);
                        let pred = net.forward(image.clone())?;
                        let judged = other.forward(image.clone())?;
                        let own = cx.loss(judged, label.clone())?;
                        let through = MseLoss::default().forward(pred.clone(), other.forward(image)?)?;
                        other.step(own, cx)?;
                        Ok(cx.loss(pred, label)? + through * weight)
                    },
                )
                .build()
                .unwrap();
        trainer.run().unwrap();
        (bytes(trainer.companion::<UNet>("other")), bytes(trainer.network()))
    };
    let ((alone, net), (through, other_net)) = (run(0.0), run(10.0));
    assert_eq!(alone, through);
    assert_ne!(net, other_net);
    // The same step by hand: the mean of the gradients of the four batches.
    let mut sum: Option<Gradients> = None;
    let by_hand = small();
    for batch in 0..4 {
        let batch = Balls { cases: 8, batch: 2 }.make(1, batch);
        let pred = by_hand.forward(batch.tensors["image"].clone().autodiff());
        let value = loss().forward(pred, batch.tensors["label"].clone()).unwrap();
        let own = Gradients::of(&by_hand, &value);
        sum = Some(match sum.take() {
            Some(sum) => sum + own,
            None => own,
        });
    }
    let gradients = sum.unwrap().scale(0.25);
    let stepped = sgd().build().unwrap().step(by_hand, gradients, rate).unwrap();
    let (found, expected) = (bytes(Some(&stepped)), alone);
    assert_eq!(found.len(), expected.len());
    assert_eq!(blake3::hash(&found), blake3::hash(&expected));
}

/// A rank's half of each batch of two.
#[derive(Clone)]
struct Half(u64, u64);

impl Loader for Half {
    fn batches(&self) -> Option<u64> {
        Some(4)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        let Half(rank, world) = *self;
        let per_rank = 2 / world;
        Box::new((skip..4).map(move |index| {
            let loader = Balls { cases: 100, batch: per_rank as usize };
            Ok(loader.make(pass, index * world + rank))
        }))
    }
}

fn with_critic(ranks: Option<Ranks>) -> (Vec<f64>, Vec<f32>, Vec<f32>) {
    let (rank, world) = ranks.as_ref().map_or((0, 1), |ranks| (ranks.rank() as u64, ranks.world() as u64));
    let config = UNetConfig { norm: Some("instance".into()), ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) };
    let mut options = options(2);
    options.ranks = ranks;
    let noted = Arc::new(Mutex::new(Vec::new()));
    let log = noted.clone();
    let critic = UNetConfig::new(3, 1, 2, &[2, 4], &[2]).init(&Device::flex().autodiff(), 3).unwrap();
    let network = config.init(&Device::flex().autodiff(), 4).unwrap();
    let mut trainer = SupervisedTrainer::builder(network, loss(), optimizer(), Half(rank, world))
        .options(options)
        .step_with(Learned::new("other", critic, optimizer()), |net, other, batch, cx| {
            let own = cx.loss(other.forward(batch.image()?)?, batch.label()?)?;
            cx.note("other_loss", &own)?;
            other.step(own, cx)?;
            cx.loss(net.forward(batch.image()?)?, batch.label()?)
        })
        .on(Event::IterationCompleted, move |cx| {
            log.lock().unwrap().push(cx.host.output("other_loss")? + 10.0 * cx.host.output("loss")?);
            Ok(())
        })
        .build()
        .unwrap();
    trainer.run().unwrap();
    let noted = noted.lock().unwrap().clone();
    let other = first_parameter(trainer.companion::<UNet>("other").unwrap());
    (noted, first_parameter(trainer.network().unwrap()), other)
}

/// Two ranks with a case each step as one with both: the trained network, its companion, and the mean
/// of what they note. Dice of a batch is the mean over its items.
#[test]
fn ranks_train_a_step_and_its_companion_as_one() {
    let single = with_critic(None);
    let found = threads::run(2, |communicator| with_critic(Some(Ranks::new(Arc::new(communicator)))));
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-5);
    for (noted, network, other) in found {
        assert_eq!(noted.len(), single.0.len());
        for (found, expected) in noted.iter().zip(&single.0) {
            assert!((found - expected).abs() < 1e-4, "{noted:?} {:?}", single.0);
        }
        assert!(near(&network, &single.1) && near(&other, &single.2));
    }
}

#[test]
fn handlers_see_what_a_step_hands_out() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = seen.clone();
    let mut trainer = builder(options(1))
        .step(|net, batch, cx| {
            let first = net.forward(batch.image()?)?;
            net.forward(batch.image()? * 2.0)?;
            cx.put("half", &(first.clone() * 0.5))?;
            cx.note("two", &Tensor::from_floats([1.5 + cx.state.iteration as f32], &cx.device()))?;
            cx.loss(first, batch.label()?)
        })
        .on(Event::LossCompleted, move |cx| {
            let [pred, half] = ["pred", "half"].map(|name| cx.host.tensor(name)?.to_f32());
            own.lock().unwrap().push((pred?, half?, cx.host.output("two")?));
            Ok(())
        })
        .build()
        .unwrap();
    trainer.run().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 4);
    for (iteration, (pred, half, two)) in seen.iter().enumerate() {
        assert!(
            pred.iter().zip(half).all(|(pred, half)| pred * 0.5 == *half) && pred.iter().any(|value| *value != 0.0)
        );
        assert_eq!(*two, 2.5 + iteration as f64);
    }
    // (2.5 + 3.5 + 4.5 + 5.5) / 4
    assert_eq!(trainer.engine().state().metrics["two"], 4.0);
}

#[test]
fn draws_are_those_of_the_iteration() {
    let drawn = Arc::new(Mutex::new(Vec::new()));
    let own = drawn.clone();
    let mut trainer = builder(options(1))
        .step(move |net, batch, cx| {
            own.lock().unwrap().push((cx.draw().uniform(), cx.draw().uniform()));
            cx.loss(net.forward(batch.image()?)?, batch.label()?)
        })
        .build()
        .unwrap();
    trainer.run().unwrap();
    let expected = |iteration: usize, part| DrawKey::new(5, 1, 0).draw("step", iteration, part).uniform();
    let expected: Vec<(f64, f64)> = (1..=4).map(|i| (expected(i, 0), expected(i, 1))).collect();
    assert_eq!(*drawn.lock().unwrap(), expected);
}

fn refused(builder: TrainerBuilder<UNet>) -> TrainerError {
    builder.build().map(drop).unwrap_err()
}

#[test]
fn steps_that_make_no_sense_are_errors() {
    let both = default_as_closure(builder(options(1))).adversary(
        critic(),
        hearth_nn::losses::PatchAdversarialLoss::default(),
        AdversaryOptions::default(),
    );
    assert!(matches!(refused(both), TrainerError::StepAndAdversary));
    for decay in [-0.1, 1.5, f64::NAN] {
        let step = builder(options(1)).step_with(Averaged::new("mean", decay), |_, _, _, _| Err("unused".into()));
        assert!(matches!(refused(step), TrainerError::Decay { name, .. } if name == "mean"));
    }
    let twice = (Averaged::new("mean", 0.5), Averaged::new("mean", 0.9));
    let step = builder(options(1)).step_with(twice, |_, _, _, _| Err("unused".into()));
    assert!(matches!(refused(step), TrainerError::CompanionName { name } if name == "mean"));

    let message = |builder: TrainerBuilder<UNet>| {
        let error = builder.build().unwrap().run().unwrap_err();
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            message += &format!(": {error}");
            source = error.source();
        }
        message
    };
    let error = message(builder(options(1)).step(|_, batch, _| Ok(batch.tensor("mask")?.mean())));
    assert!(error.contains("ball_0") && error.contains("has no `mask`; it has: image, label"), "{error}");
    let error = message(builder(options(1)).step(|_, batch, _| Ok(batch.image()?.mean())));
    assert!(error.contains("does not depend on the network's weights"), "{error}");
    let error = message(builder(options(1)).step(|net, batch, cx| {
        cx.note("loss", &net.forward(batch.image()?)?.mean())?;
        Err("not reached".into())
    }));
    assert!(error.contains("cannot note a number as `loss`"), "{error}");
    let error = message(
        builder(options(1)).step(|net, batch, _| Ok(net.forward(Tensor::cat(vec![batch.image()?; 2], 1))?.mean())),
    );
    assert!(error.contains("built with in_channels = 1") && error.contains("ball_0"), "{error}");
}

#[test]
fn another_network_takes_the_place_of_the_present_one() {
    let mut trainer = builder(options(1)).build().unwrap();
    trainer.run().unwrap();
    let (momentum, given) = (trainer.optimizer_state(), network(77, 0.2));
    let expected = bytes(Some(&given));
    trainer.set_network(given).unwrap();
    assert_eq!(bytes(trainer.network()), expected);
    assert_eq!(trainer.optimizer_state(), momentum);
    trainer.set_max_epochs(2);
    trainer.run().unwrap();
    assert_ne!(bytes(trainer.network()), expected, "it trains");
    let wider = UNetConfig::new(3, 1, 2, &[6, 8], &[2]).init(&Device::flex(), 0).unwrap();
    let before = bytes(trainer.network());
    let error = trainer.set_network(wider).unwrap_err();
    assert!(matches!(error, TrainerError::OtherNetwork { .. }), "{error}");
    assert!(error.to_string().contains("values, the trainer's network"), "{error}");
    assert_eq!(bytes(trainer.network()), before);
}
