//! The trainer: order of events, the values for handlers, the handling of a bad loss.

use std::sync::{Arc, Mutex};

use crate::common::{Balls, Fingerprint, TRAINING, evaluator, fingerprint, loss, network, trainer};
use burn::tensor::{Device, Tensor};
use hearth_engine::{CheckpointRequest, Context, Event, HandlerError, HostTensor, RunEnd};
use hearth_nn::inferers::SlidingWindowInferer;
use hearth_nn::losses::{DiceLoss, Loss, LossError, MaskedDiceLoss, TverskyLoss};
use hearth_nn::metrics::DiceMetric;
use hearth_nn::networks::UNet;
use hearth_nn::optim::{AdamConfig, OptimizerConfig};
use hearth_train::{
    BatchStream, EvaluatorError, Loader, SupervisedEvaluator, SupervisedTrainer, TrainerError, TrainerOptions,
    checkpoint,
};

fn sgd() -> OptimizerConfig {
    OptimizerConfig::sgd(0.9).with("lr", 0.05).unwrap()
}

fn on(
    trainer: &mut SupervisedTrainer<UNet>,
    when: impl Into<hearth_engine::When>,
    f: impl FnMut(&mut Context<'_>) -> Result<(), HandlerError> + Send + 'static,
) {
    trainer.engine_mut().on(when, f).unwrap();
}

#[test]
fn events_come_in_monais_order_with_validation_nested_in_the_epochs_end() {
    let mut trainer = trainer(0, 0.0, &sgd(), 2);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for event in Event::BUILT_IN {
        for nested in [false, true] {
            let own = seen.clone();
            let note = move |cx: &mut Context<'_>| {
                let name = if nested { format!("  {}", event.name()) } else { event.name().into_owned() };
                own.lock().unwrap().push((name, cx.state.epoch, cx.state.iteration));
                Ok(())
            };
            let engine =
                if nested { trainer.evaluator_mut("validation").unwrap().engine_mut() } else { trainer.engine_mut() };
            engine.on(*event, note).unwrap();
        }
    }
    trainer.run().unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let (nested, own): (Vec<_>, Vec<_>) = seen.iter().cloned().partition(|(name, ..)| name.starts_with(' '));
    let mut expected = vec![("started".to_owned(), 0, 0)];
    for epoch in 1..=2_u64 {
        let before = (epoch - 1) * 4;
        expected.push(("epoch_started".into(), epoch, before));
        for i in before..before + 4 {
            // The previous epoch's pass was used up to its last batch; fetching one more starts the
            // next.
            let ask = [("get_batch_started", i), ("get_batch_completed", i), ("iteration_started", i + 1)];
            let step =
                ["forward_completed", "loss_completed", "backward_completed", "model_completed", "iteration_completed"];
            expected.extend(ask.map(|(name, i)| (name.to_owned(), epoch, i)));
            if epoch > 1 && i == before {
                expected.insert(expected.len() - 2, ("dataloader_stop_iteration".into(), epoch, i));
            }
            expected.extend(step.map(|name| (name.to_owned(), epoch, i + 1)));
        }
        expected.push(("epoch_completed".into(), epoch, before + 4));
    }
    expected.push(("completed".into(), 2, 8));
    assert_eq!(own, expected);
    assert_eq!(nested.len(), 2 * (4 + 3 * 6));
    let first = seen.iter().position(|(name, ..)| name == "  started").unwrap();
    let completed = seen.iter().position(|(name, ..)| name == "epoch_completed").unwrap();
    assert!(first < completed, "the handler that validates comes before the one that notes");
}

#[test]
fn validation_metrics_become_the_trainers_and_decide_what_is_best() {
    let mut trainer = trainer(0, 0.0, &sgd(), 8);
    trainer.run().unwrap();
    let state = trainer.engine().state();
    let theirs = trainer.evaluator("validation").unwrap().engine().state();
    assert_eq!(state.key_metric.as_deref(), Some("val_mean_dice"));
    assert_eq!(state.metrics["val_mean_dice"], theirs.metrics["val_mean_dice"]);
    assert_eq!((state.best_metric, state.best_epoch), (theirs.best_metric, theirs.best_epoch));
    assert!(state.best_metric.unwrap() > 0.6, "{:?}", state.best_metric);
    assert_eq!(theirs.epoch, 8);
    assert_eq!(trainer.evaluator("validation").unwrap().rows().len(), 3);
}

#[test]
fn handlers_may_read_and_replace_tensors_and_set_the_learning_rate() {
    let mut trainer = trainer(0, 0.0, &sgd(), 1);
    on(&mut trainer, Event::IterationStarted, |cx| {
        let image = cx.host.tensor("image")?;
        assert_eq!(image.shape, [2, 1, 8, 8, 8]);
        assert_eq!(image.to_f32()?[..512], Balls::volume(2 * (cx.state.iteration - 1), 1).0);
        assert!(cx.host.tensor("pred").unwrap_err().to_string().contains("there is: image, label"));
        assert!(cx.host.output("loss").unwrap_err().to_string().contains("before `loss_completed`"));
        assert_eq!(cx.host.cases().len(), 2);
        cx.host.put_tensor("image", HostTensor::from_f32(vec![2, 1, 8, 8, 8], &[0.25; 1024])?)?;
        assert_eq!(cx.host.tensor("image")?.to_f32()?, [0.25; 1024]);
        for (shape, bytes) in
            [(vec![2, 1, 8, 8, 7], 4096), (vec![0, 1, 8, 8, 8], 0), (vec![4], 16), (vec![usize::MAX; 5], 4)]
        {
            let odd = HostTensor { dtype: hearth_engine::DType::F32, shape, bytes: vec![0; bytes].into() };
            assert!(cx.host.put_tensor("image", odd).is_err());
        }
        Ok(())
    });
    on(&mut trainer, Event::ForwardCompleted, |cx| {
        assert_eq!(cx.host.tensor("pred")?.shape, [2, 2, 8, 8, 8]);
        let text = cx.host.put_tensor("pred", HostTensor::from_f32(vec![1, 1, 1, 1], &[0.0])?).unwrap_err().to_string();
        assert!(text.contains("no gradient"), "{text}");
        Ok(())
    });
    on(&mut trainer, Event::IterationCompleted.once(2), |cx| {
        assert_eq!(cx.host.learning_rate(), Some(0.05));
        for wrong in [f64::NAN, -1.0, f64::INFINITY] {
            assert!(cx.host.set_learning_rate(wrong).is_err());
        }
        cx.host.set_learning_rate(0.0)?;
        cx.host.scalar("lr", 0.0);
        assert!(cx.host.run("test").unwrap_err().to_string().contains("there is: validation"));
        Ok(())
    });
    trainer.run().unwrap();
    assert_eq!(trainer.learning_rate(), 0.0);
    let scalars = &trainer.engine().state().scalars;
    assert_eq!((scalars.len(), scalars["lr"].value, scalars["lr"].iteration), (1, 0.0, 2));
}

/// With a learning rate of 0 from the start, a run changes nothing but running statistics: the
/// host's setting is used.
#[test]
fn the_learning_rate_a_handler_sets_is_the_one_that_steps() {
    let run = |lr: Option<f64>| {
        let mut options = TrainerOptions::new(&Device::flex());
        options.max_epochs = 1;
        let mut trainer =
            SupervisedTrainer::builder(network(0, 0.0), loss(), sgd(), TRAINING).options(options).build().unwrap();
        if let Some(lr) = lr {
            on(&mut trainer, Event::Started, move |cx| Ok(cx.host.set_learning_rate(lr)?));
        }
        trainer.run().unwrap();
        trainer.optimizer_state().into_iter().filter(|(name, _)| !name.ends_with("step")).collect::<Vec<_>>()
    };
    assert_ne!(run(None), run(Some(0.0)));
    assert_eq!(run(None), run(Some(0.05)));
}

/// A loss that is NaN from some iteration on.
struct NanFrom(std::sync::atomic::AtomicU32, u32);

impl Loss for NanFrom {
    fn name(&self) -> &'static str {
        "NanFrom"
    }

    fn check(&self) -> Result<(), LossError> {
        Ok(())
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let calls = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let value = loss().forward(input, target)?;
        Ok(if calls >= self.1 { value * f32::NAN } else { value })
    }
}

/// The handler of every recipe: a non-finite loss ends the run before the step that would damage
/// the weights.
#[test]
fn a_loss_of_nan_ends_the_run_and_leaves_the_best_checkpoint_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = TrainerOptions::new(&Device::flex());
    options.max_epochs = 5;
    let broken = Box::new(NanFrom(0.into(), 11));
    let mut trainer =
        SupervisedTrainer::builder(network(0, 0.0), broken, sgd(), TRAINING).options(options).build().unwrap();
    trainer.add_evaluator("validation", evaluator());
    on(&mut trainer, Event::EpochCompleted, |cx| Ok(cx.host.run("validation").map(|_| ())?));
    let own = dir.path().to_owned();
    on(&mut trainer, Event::EpochCompleted | Event::ExceptionRaised, move |cx| {
        let tag = if cx.event == Event::ExceptionRaised { "failed" } else { "best" };
        if tag == "failed" || cx.state.is_best() {
            cx.host.save_checkpoint(CheckpointRequest { dir: own.clone(), tag: tag.into(), keep_last: Some(1) })?;
        }
        Ok(())
    });
    on(&mut trainer, Event::LossCompleted, |cx| {
        let loss = cx.host.output("loss")?;
        if loss.is_finite() {
            return Ok(());
        }
        let (cases, lr) = (cx.host.cases().join(", "), cx.host.learning_rate().unwrap_or_default());
        Err(HandlerError::new(format!("the loss of {cases} is {loss} at learning rate {lr}")))
    });
    let text = trainer.run().unwrap_err().to_string();
    assert!(
        text.contains("epoch 3, iteration 11") && text.contains("ball_4, ball_5 is NaN at learning rate 0.05"),
        "{text}"
    );

    let best = checkpoint::chosen(dir.path(), Some("best"), None).unwrap();
    assert!(best.manifest.header.best && best.manifest.header.epoch <= 2);
    let failed = checkpoint::chosen(dir.path(), Some("failed"), None).unwrap();
    assert_eq!((failed.manifest.header.epoch, failed.manifest.header.iteration), (3, 10));
    let bytes = failed.file("network.safetensors").unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for (name, view) in file.tensors().into_iter().filter(|(_, view)| view.dtype() == safetensors::Dtype::F32) {
        let finite = view.data().chunks_exact(4).all(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).is_finite());
        assert!(finite, "{name} is spoilt");
    }
}

/// A loss that does not depend on the prediction, and one that refuses its input.
struct Constant;

impl Loss for Constant {
    fn name(&self) -> &'static str {
        "Constant"
    }

    fn check(&self) -> Result<(), LossError> {
        Ok(())
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        if target.dims()[0] == 1 {
            return Err(LossError::Option { key: "", loss: "Constant", reason: "a batch of one".into() });
        }
        Ok(Tensor::ones([1], &input.device()))
    }
}

#[test]
fn errors_of_the_loss_name_the_cases() {
    for (balls, expected) in [
        (Balls { cases: 2, batch: 1 }, "the loss failed on ball_0"),
        (Balls { cases: 2, batch: 2 }, "the loss of ball_0, ball_1 does not depend on"),
    ] {
        let options = TrainerOptions::new(&Device::flex());
        let mut trainer =
            SupervisedTrainer::builder(network(0, 0.0), Constant, sgd(), balls).options(options).build().unwrap();
        let text = trainer.run().unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_run_that_cannot_save_goes_on_or_stops_as_its_handler_says_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    std::fs::write(&blocked, b"").unwrap();
    let mut trainer = trainer(0, 0.0, &sgd(), 1);
    on(&mut trainer, Event::EpochCompleted, move |cx| {
        Ok(cx.host.save_checkpoint(CheckpointRequest { dir: blocked.clone(), tag: "epoch".into(), keep_last: None })?)
    });
    let text = trainer.run().unwrap_err().to_string();
    assert!(text.contains("could not be written") && text.contains("file"), "{text}");
    // The weights are still there to be saved elsewhere.
    trainer.save(&dir.path().join("rescue"), "rescued", None).unwrap();
}

#[test]
fn a_longer_run_goes_on_where_the_shorter_one_ended() {
    let mut two_steps = trainer(0, 0.1, &sgd(), 2);
    two_steps.run().unwrap();
    two_steps.set_max_epochs(4);
    assert_eq!(two_steps.run().unwrap(), RunEnd::Completed);
    let mut one_step = trainer(0, 0.1, &sgd(), 4);
    one_step.run().unwrap();
    assert_eq!(fingerprint(&two_steps), fingerprint(&one_step));
}

/// Batches with a `mask` that is the same everywhere, or with none.
struct Masked(Option<f32>);

impl Loader for Masked {
    fn batches(&self) -> Option<u64> {
        TRAINING.batches()
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        let value = self.0;
        Box::new(TRAINING.pass(pass, skip).map(move |batch| {
            let mut batch = batch?;
            if let Some(value) = value {
                let mask = batch.tensors["image"].zeros_like() + value;
                batch.tensors.insert("mask".into(), mask);
            }
            Ok(batch)
        }))
    }
}

/// The loss of the first step and the weights after it.
fn first_step(loss: impl Loss + 'static, loader: impl Loader + 'static) -> Result<(f64, Fingerprint), String> {
    let mut options = TrainerOptions::new(&Device::flex());
    options.max_epochs = 1;
    let mut trainer =
        SupervisedTrainer::builder(network(3, 0.0), loss, sgd(), loader).options(options).build().unwrap();
    let seen = Arc::new(Mutex::new(None));
    let own = seen.clone();
    on(&mut trainer, Event::LossCompleted, move |cx| {
        own.lock().unwrap().get_or_insert(cx.host.output("loss")?);
        Ok(())
    });
    on(&mut trainer, Event::IterationCompleted.once(1), |cx| {
        cx.host.terminate("one step is enough");
        Ok(())
    });
    trainer.run().map_err(|error| error.to_string())?;
    let loss = seen.lock().unwrap().expect("a loss");
    Ok((loss, fingerprint(&trainer)))
}

#[test]
fn a_masked_loss_sees_the_mask_of_the_batch() {
    // As in MONAI, the mask makes labels 0 before they are one-hot, so the background would count
    // outside the mask.
    let dice = || DiceLoss { softmax: true, to_onehot_y: true, include_background: false, ..DiceLoss::default() };
    let (plain, after_plain) = first_step(dice(), Masked(None)).unwrap();
    // Everywhere within the mask it is the Dice loss.
    let (ones, after_ones) = first_step(MaskedDiceLoss(dice()), Masked(Some(1.0))).unwrap();
    assert!((ones - plain).abs() < 1e-6 && plain > 0.1, "{ones} for {plain}");
    // Where no voxel counts, (0 + s) / (0 + s) is 1, the loss is 0, and no weight changes.
    let (none, after_none) = first_step(MaskedDiceLoss(dice()), Masked(Some(0.0))).unwrap();
    assert!(none.abs() < 1e-6, "{none}");
    let steepest = |after: &Fingerprint| {
        let buffers = after.optimizer.iter().filter(|(name, _)| name.ends_with("momentum_buffer"));
        buffers.flat_map(|(_, data)| data.iter::<f32>().collect::<Vec<_>>()).fold(0.0_f32, |most, g| most.max(g.abs()))
    };
    assert!(steepest(&after_plain) > 1e-4 && steepest(&after_ones) > 1e-4);
    assert_eq!(steepest(&after_none), 0.0, "only what counts has a gradient");
    let error = first_step(MaskedDiceLoss(dice()), Masked(None)).unwrap_err();
    assert!(error.contains("`mask`") && error.contains("ball_"), "{error}");
}

/// What a recipe refuses when it is read.
#[test]
fn wrong_options_are_refused_before_the_first_batch() {
    let tversky = || TverskyLoss { alpha: -1.0, softmax: true, to_onehot_y: true, ..TverskyLoss::default() };
    let wide = || SlidingWindowInferer::new(&[8, 8, 8]).overlap(1.5);
    let build = |loss: Box<dyn Loss>| SupervisedTrainer::builder(network(3, 0.0), loss, sgd(), TRAINING);
    let refused = build(Box::new(tversky())).build().unwrap_err();
    assert!(matches!(&refused, TrainerError::Loss(_)), "{refused}");
    assert!(refused.to_string().contains("alpha is -1"), "{refused}");
    let refused = build(loss()).inferer(wide()).build().unwrap_err();
    assert!(matches!(&refused, TrainerError::Inferer(_)), "{refused}");
    assert!(refused.to_string().contains("overlap is "), "{refused}");
    for lr in [f64::NAN, f64::INFINITY, -0.1] {
        let adam = AdamConfig::default().lr(lr);
        let refused = SupervisedTrainer::builder(network(3, 0.0), loss(), adam, TRAINING).build().unwrap_err();
        assert!(matches!(&refused, TrainerError::Optimizer(_)), "{refused}");
    }

    let evaluator = || SupervisedEvaluator::<UNet>::builder(Balls { cases: 1, batch: 1 });
    let refused = evaluator().inferer(wide()).build().unwrap_err();
    assert!(matches!(refused, EvaluatorError::Inferer(_)), "{refused}");
    let refused = evaluator().loss("tversky", tversky()).build().unwrap_err();
    assert!(matches!(refused, EvaluatorError::Loss(_)), "{refused}");
    let dice = DiceMetric::default;
    for names in [["dice", "dice"], ["dice", " "]] {
        let refused = evaluator().key_metric(names[0], dice()).metric(names[1], dice()).build().unwrap_err();
        assert!(matches!(&refused, EvaluatorError::MetricName { name } if name == names[1]), "{refused}");
    }
    assert!(evaluator().key_metric("dice", dice()).loss("loss", loss()).build().is_ok());
}
