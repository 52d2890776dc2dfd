//! A discriminator for a supervised network: MONAI's `AdversarialTrainer`, loss by loss and event
//! by event (`recorded/adversarial_monai.py`), the discriminator's inputs, checkpoints, errors.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::draw;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_data::{Batch, DataError};
use hearth_distributed::threads;
use hearth_engine::{CheckpointRequest, Event, RunEnd};
use hearth_nn::losses::{DiceLoss, MseLoss, PatchAdversarialLoss};
use hearth_nn::networks::{Network, PatchDiscriminatorConfig, UNet, UNetConfig};
use hearth_nn::optim::OptimizerConfig;
use hearth_nn::weights;
use hearth_train::{
    AdversaryOptions, BatchStream, Loader, Ranks, Shown, SupervisedTrainer, TrainerBuilder, TrainerOptions,
};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

/// The same batches in every pass.
#[derive(Clone)]
struct Batches(Arc<Vec<Batch>>);

impl Loader for Batches {
    fn batches(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn pass(&self, _: u64, skip: u64) -> BatchStream {
        let batches = self.0.clone();
        Box::new((skip as usize..batches.len()).map(move |index| Ok::<_, DataError>(batches[index].clone())))
    }
}

fn batch(image: Vec<f32>, label: Vec<f32>, side: usize, number: usize) -> Batch {
    let count = image.len() / (side * side);
    let tensor = |values| Tensor::from_data(TensorData::new(values, [count, 1, side, side, 1]), &Device::flex());
    let tensors = BTreeMap::from([("image".to_owned(), tensor(image)), ("label".to_owned(), tensor(label))]);
    Batch { tensors, cases: (0..count).map(|item| format!("case_{number}_{item}")).collect(), ..Batch::default() }
}

fn numbers(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).expect("numbers")
}

/// MONAI's state dict as the bytes of a safetensors file.
fn state_dict(recorded: &Value) -> Vec<u8> {
    let entries = recorded.as_object().expect("a state dict").iter().filter(|(name, _)| !name.contains("num_batches"));
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = entries
        .map(|(name, tensor)| {
            let shape: Vec<usize> = serde_json::from_value(tensor["shape"].clone()).expect("a shape");
            (name.clone(), shape, numbers(&tensor["values"]).iter().flat_map(|value| value.to_le_bytes()).collect())
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor")));
    safetensors::serialize(views, None).expect("a file")
}

fn sgd(lr: f64) -> OptimizerConfig {
    toml::from_str(&format!("name = 'SGD'\nlr = {lr}\nmomentum = 0.9")).expect("options")
}

const LOSSES: [&str; 3] = ["reconstruction_loss", "generator_loss", "discriminator_loss"];

type Log = Arc<Mutex<Vec<Vec<f64>>>>;

/// The three losses of each iteration.
fn log_losses<N: Network>(trainer: &mut SupervisedTrainer<N>) -> Log {
    let log = Log::default();
    let own = log.clone();
    let note = move |cx: &mut hearth_engine::Context<'_>| {
        let losses = LOSSES.iter().map(|name| cx.host.output(name)).collect::<Result<Vec<f64>, _>>()?;
        own.lock().expect("a log").push(losses);
        Ok(())
    };
    trainer.engine_mut().on(Event::IterationCompleted, note).expect("a handler");
    log
}

#[test]
fn losses_and_events_are_monais() {
    let recorded: Value = serde_json::from_str(include_str!("../recorded/adversarial_monai.json")).expect("JSON");
    let device = Device::flex().autodiff();
    let generator = UNetConfig::new(2, 1, 1, &[4, 8], &[2]).init(&device, 0).expect("a network");
    let mut config = PatchDiscriminatorConfig::new(2, 4, 1);
    config.num_layers_d = 1;
    let discriminator = config.init(&device, 0).expect("a network");
    let (generator, report) =
        weights::from_bytes(generator, &state_dict(&recorded["weights"]["generator"])).expect("weights");
    assert!(report.is_complete());
    let (discriminator, report) =
        weights::from_bytes(discriminator, &state_dict(&recorded["weights"]["discriminator"])).expect("weights");
    assert!(report.is_complete());
    let batches = recorded["batches"].as_array().expect("batches").iter().enumerate();
    let batches = batches.map(|(index, values)| batch(numbers(values), numbers(values), 8, index)).collect();

    let options = AdversaryOptions::default().weight(0.5).optimizer(sgd(0.1));
    let mut trainer = SupervisedTrainer::builder(generator, MseLoss::default(), sgd(0.05), Batches(Arc::new(batches)))
        .adversary(discriminator, PatchAdversarialLoss::default(), options)
        .max_epochs(2)
        .build()
        .expect("a trainer");
    let log = log_losses(&mut trainer);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for event in Event::BUILT_IN {
        let own = seen.clone();
        let note = move |_: &mut hearth_engine::Context<'_>| {
            own.lock().expect("a log").push(event.name().into_owned());
            Ok(())
        };
        trainer.engine_mut().on(*event, note).expect("a handler");
    }
    assert_eq!(trainer.run().expect("a run"), RunEnd::Completed);

    let expected = recorded["losses"].as_array().expect("losses");
    let found = log.lock().expect("a log").clone();
    assert_eq!(found.len(), expected.len());
    for (iteration, (found, expected)) in found.iter().zip(expected).enumerate() {
        // The recorded loss of the generator includes the weight.
        for ((found, expected), factor) in found.iter().zip(numbers(expected)).zip([1.0, 0.5, 1.0]) {
            let (found, expected) = (found * factor, f64::from(expected));
            assert!(
                (found - expected).abs() < 2e-5 * (1.0 + expected),
                "iteration {iteration}: {found}, MONAI {expected}"
            );
        }
    }
    // Means over the second epoch are metrics.
    for (index, name) in LOSSES.iter().enumerate() {
        let mean = found[3..].iter().map(|losses| losses[index]).sum::<f64>() / 3.0;
        assert!((trainer.engine().state().metrics[*name] - mean).abs() < 1e-6, "{name}");
    }
    // MONAI's events in MONAI's order, once per iteration.
    let monais: Vec<String> = serde_json::from_value(recorded["events"].clone()).expect("names");
    let seen = seen.lock().expect("a log").clone();
    let ours: Vec<&String> = seen.iter().filter(|name| monais.contains(name)).collect();
    assert_eq!(ours, std::iter::repeat_n(&monais, 6).flatten().collect::<Vec<_>>());
    let own: Vec<&str> =
        seen.iter().map(String::as_str).filter(|name| name.starts_with("discriminator")).take(5).collect();
    assert_eq!(own[3..], ["discriminator_backward_completed", "discriminator_model_completed"]);
}

/// Discs on a noisy background, and their masks.
fn discs() -> Batches {
    let side = 16;
    let batches = (0..3_u64).map(|number| {
        let (mut image, mut label) = (Vec::new(), Vec::new());
        for item in 0..2 {
            let key = number * 2 + item;
            let (x, y) = (5.0 + 6.0 * draw(&[key, 0]), 5.0 + 6.0 * draw(&[key, 1]));
            for i in 0..side * side {
                let inside = ((i / side) as f64 - x).hypot((i % side) as f64 - y) < 4.0;
                label.push(f32::from(u8::from(inside)));
                image.push(f32::from(u8::from(inside)) * 0.5 + draw(&[key, 2, i as u64]) as f32);
            }
        }
        batch(image, label, side, number as usize)
    });
    Batches(Arc::new(batches.collect()))
}

/// Without a discriminator.
fn supervised(seed: u64) -> TrainerBuilder<UNet> {
    let network = UNetConfig::new(2, 1, 2, &[4, 8], &[2]).init(&Device::flex().autodiff(), seed).expect("a network");
    let loss = DiceLoss::default().to_onehot_y(true).softmax(true);
    SupervisedTrainer::builder(network, loss, sgd(0.05), discs()).seed(3)
}

fn segmenting(seed: u64, in_channels: usize, options: AdversaryOptions) -> TrainerBuilder<UNet> {
    let discriminator =
        PatchDiscriminatorConfig { num_layers_d: 1, ..PatchDiscriminatorConfig::new(2, 4, in_channels) };
    let discriminator = discriminator.init(&Device::flex().autodiff(), seed + 1).expect("a network");
    supervised(seed).adversary(discriminator, PatchAdversarialLoss::default(), options)
}

#[test]
fn a_segmentation_and_its_image_are_shown_as_one_hot_and_softmax() {
    let options = AdversaryOptions::default().shown(Shown::Softmax).condition(true).weight(0.1);
    let mut trainer = segmenting(0, 3, options).max_epochs(20).build().expect("a trainer");
    let log = log_losses(&mut trainer);
    trainer.run().expect("a run");
    let log = log.lock().expect("a log");
    let mean = |losses: &[Vec<f64>]| losses.iter().map(|losses| losses[0]).sum::<f64>() / losses.len() as f64;
    let (first, last) = (mean(&log[..3]), mean(&log[log.len() - 3..]));
    assert!(last < 0.7 * first, "the supervised loss went from {first} to {last}");
    assert!(log.iter().flatten().all(|loss| loss.is_finite()));
    // Without a weight, the network learns as if there were no discriminator.
    let learned = |builder: TrainerBuilder<UNet>| {
        let mut trainer = builder.max_epochs(2).build().expect("a trainer");
        trainer.run().expect("a run");
        weights::to_bytes(trainer.network().expect("a network")).expect("weights")
    };
    let options = AdversaryOptions::default().shown(Shown::Softmax).weight(0.0);
    assert_eq!(learned(segmenting(0, 2, options)), learned(supervised(0)));
}

#[test]
fn a_warm_up_is_plain_supervised_training() {
    let options = AdversaryOptions::default().shown(Shown::Softmax).warmup_epochs(1);
    let mut trainer = segmenting(0, 2, options).max_epochs(2).build().expect("a trainer");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = seen.clone();
    let note = move |cx: &mut hearth_engine::Context<'_>| {
        own.lock().expect("a log").push((cx.state.epoch, cx.host.output("discriminator_loss").is_ok()));
        assert!(cx.host.output("reconstruction_loss").is_ok());
        Ok(())
    };
    trainer.engine_mut().on(Event::IterationCompleted, note).expect("a handler");
    trainer.run().expect("a run");
    let expected: Vec<(u64, bool)> = [1, 2].into_iter().flat_map(|epoch| [(epoch, epoch == 2); 3]).collect();
    assert_eq!(*seen.lock().expect("a log"), expected);
}

#[test]
fn a_resumed_run_is_the_uninterrupted_one_to_the_bit() {
    let options = || AdversaryOptions::default().shown(Shown::Softmax).weight(0.2);
    let mut whole = segmenting(0, 2, options()).max_epochs(3).build().expect("a trainer");
    let log = log_losses(&mut whole);
    whole.run().expect("a run");
    let expected = log.lock().expect("a log").clone();
    for at in [5_u64, 6] {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().to_owned();
        let mut first = segmenting(0, 2, options()).max_epochs(3).build().expect("a trainer");
        let save = move |cx: &mut hearth_engine::Context<'_>| {
            cx.host.save_checkpoint(CheckpointRequest { dir: dir.clone(), tag: "here".into(), keep_last: None })?;
            cx.host.interrupt("enough");
            Ok(())
        };
        first.engine_mut().on(Event::IterationCompleted.once(at), save).expect("a handler");
        assert!(matches!(first.run().expect("a run"), RunEnd::Interrupted(_)));

        let mut second = segmenting(70, 2, options()).max_epochs(3).build().expect("a trainer");
        assert_eq!(second.resume(folder.path()).expect("a checkpoint").1, at);
        let log = log_losses(&mut second);
        second.run().expect("a run");
        assert_eq!(*log.lock().expect("a log"), expected[at as usize..], "resumed at {at}");
        assert_eq!(second.engine().state().metrics, whole.engine().state().metrics);
    }
}

/// A rank's item of each batch of two.
fn part(of: &Batches, rank: usize) -> Batches {
    let item = |batch: &Batch| {
        let tensors = batch.tensors.iter().map(|(key, tensor)| (key.clone(), tensor.clone().narrow(0, rank, 1)));
        Batch { tensors: tensors.collect(), cases: vec![batch.cases[rank].clone()], ..Batch::default() }
    };
    Batches(Arc::new(of.0.iter().map(item).collect()))
}

/// Two ranks with one item each take the same steps as one rank with both: the network, the
/// discriminator with the batch norms of all ranks, the three losses and their means.
#[test]
fn ranks_take_the_steps_of_one() {
    let train = |ranks: Option<Ranks>| {
        let loader = ranks.as_ref().map_or_else(discs, |ranks| part(&discs(), ranks.rank()));
        let device = Device::flex().autodiff();
        let config = UNetConfig { norm: Some("instance".into()), ..UNetConfig::new(2, 1, 2, &[4, 8], &[2]) };
        let loss = DiceLoss::default().to_onehot_y(true).softmax(true);
        let discriminator = PatchDiscriminatorConfig { num_layers_d: 1, ..PatchDiscriminatorConfig::new(2, 4, 3) };
        let options = AdversaryOptions::default().shown(Shown::Softmax).condition(true).weight(0.3);
        let mut trainer = TrainerOptions::new(&Device::flex());
        (trainer.max_epochs, trainer.ranks) = (4, ranks);
        let network = config.init(&device, 0).expect("a network");
        let mut trainer = SupervisedTrainer::builder(network, loss, sgd(0.05), loader)
            .options(trainer)
            .adversary(discriminator.init(&device, 1).expect("a network"), PatchAdversarialLoss::default(), options)
            .build()
            .expect("a trainer");
        let log = log_losses(&mut trainer);
        trainer.run().expect("a run");
        let log = log.lock().expect("a log").clone();
        (
            log,
            trainer.engine().state().metrics.clone(),
            weights::to_bytes(trainer.network().expect("one")).expect("weights"),
        )
    };
    let (alone, metrics, _) = train(None);
    assert_eq!((alone.len(), metrics.len()), (12, 3));
    let runs = threads::run(2, |communicator| {
        let mut ranks = Ranks::new(Arc::new(communicator));
        (ranks.deadline, ranks.sync_batch_norm) = (Duration::from_secs(60), true);
        train(Some(ranks))
    });
    for (log, own, weights) in &runs {
        for (step, (own, one)) in log.iter().zip(&alone).enumerate() {
            let off = own.iter().zip(one).map(|(own, one)| (own - one).abs()).fold(0.0, f64::max);
            assert!(off < 1e-5, "step {step}: {own:?}, of one rank {one:?}");
        }
        assert!(own.iter().all(|(name, value)| (value - metrics[name]).abs() < 1e-5), "{own:?} and {metrics:?}");
        assert_eq!(*weights, runs[0].2, "the same weights on both ranks, to the bit");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let error = segmenting(0, 2, AdversaryOptions::default().weight(f64::NAN)).build().expect_err("no weight");
    assert!(error.to_string().contains("adversarial loss has the weight NaN"), "{error}");
    // A discriminator that gets other channels than it accepts.
    let options = AdversaryOptions::default().shown(Shown::Softmax).condition(true);
    let mut trainer = segmenting(0, 2, options).build().expect("a trainer");
    let error = trainer.run().expect_err("three channels").to_string();
    assert!(error.contains("the discriminator") && error.contains("image and prediction"), "{error}");
    assert!(error.contains("case_0_0"), "{error}");
    // Raw labels of one channel with predictions of two.
    let mut trainer = segmenting(0, 2, AdversaryOptions::default()).build().expect("a trainer");
    let error = trainer.run().expect_err("one channel").to_string();
    assert!(error.contains("labels of shape [2, 1, 16, 16, 1], predictions of shape [2, 2, 16, 16, 1]"), "{error}");
}
