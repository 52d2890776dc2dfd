//! A resumed run is bit-identical to the uninterrupted one: weights, optimizer state, metrics,
//! losses.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Balls, Fingerprint, LossLog, fingerprint, log_losses, trainer};
use burn::tensor::{Device, Tensor};
use hearth_data::{DataError, DataLoader, Dataset, Image, LoaderOptions, Sample};
use hearth_engine::{CheckpointRequest, Event, RunEnd};
use hearth_nn::networks::UNet;
use hearth_nn::optim::OptimizerConfig;
use hearth_train::{SupervisedTrainer, TrainerOptions, checkpoint};

const EPOCHS: u64 = 6;

/// Adds a schedule in a handler, so that the learning rate must be restored, too.
fn with_schedule(trainer: &mut SupervisedTrainer<UNet>) {
    trainer
        .engine_mut()
        .on(Event::EpochCompleted, |cx| {
            let lr = cx.host.learning_rate().unwrap();
            Ok(cx.host.set_learning_rate(lr * 0.9)?)
        })
        .unwrap();
}

fn save_each_epoch(trainer: &mut SupervisedTrainer<UNet>, dir: &Path) {
    let dir = dir.to_owned();
    trainer
        .engine_mut()
        .on(Event::EpochCompleted, move |cx| {
            let request = CheckpointRequest { dir: dir.clone(), tag: "epoch".into(), keep_last: None };
            Ok(cx.host.save_checkpoint(request)?)
        })
        .unwrap();
}

fn taken(log: &LossLog) -> Vec<(u64, u64)> {
    std::mem::take(&mut *log.lock().unwrap())
}

fn uninterrupted(optimizer: &OptimizerConfig, dropout: f64) -> (Fingerprint, Vec<(u64, u64)>) {
    let mut whole = trainer(1, dropout, optimizer, EPOCHS);
    with_schedule(&mut whole);
    let losses = log_losses(&mut whole);
    assert_eq!(whole.run().unwrap(), RunEnd::Completed);
    let losses = taken(&losses);
    let [(_, first), .., (_, last)] = losses[..] else { panic!("no losses") };
    assert!(f64::from_bits(last) < 0.9 * f64::from_bits(first), "something is learnt, so there is something to lose");
    (fingerprint(&whole), losses)
}

fn optimizers() -> Vec<OptimizerConfig> {
    let sgd = "name = 'SGD'\nlr = 0.05\nmomentum = 0.9\nweight_decay = 1e-4\nnesterov = true";
    let with_lr = |optimizer: OptimizerConfig| optimizer.with("lr", 0.01).unwrap();
    vec![toml::from_str(sgd).unwrap(), with_lr(OptimizerConfig::adam()), with_lr(OptimizerConfig::novograd())]
}

#[test]
fn six_epochs_equal_three_and_three() {
    for optimizer in optimizers() {
        let dropout = 0.2;
        let (expected, expected_losses) = uninterrupted(&optimizer, dropout);

        let dir = tempfile::tempdir().unwrap();
        let mut first = trainer(1, dropout, &optimizer, 3);
        with_schedule(&mut first);
        save_each_epoch(&mut first, dir.path());
        let losses = log_losses(&mut first);
        first.run().unwrap();
        let mut all = taken(&losses);
        drop(first);

        // Other first weights: everything has to come from the checkpoint.
        let mut second = trainer(99, dropout, &optimizer, EPOCHS);
        with_schedule(&mut second);
        let losses = log_losses(&mut second);
        assert_eq!(second.resume(dir.path()).unwrap(), (3, 12));
        second.run().unwrap();
        all.extend(taken(&losses));
        assert_eq!(fingerprint(&second), expected, "{optimizer:?}");
        assert_eq!(all, expected_losses, "{optimizer:?}");
    }
}

#[test]
fn interrupted_in_mid_epoch_and_resumed_is_the_same_run() {
    let optimizer = &optimizers()[1];
    let (expected, expected_losses) = uninterrupted(optimizer, 0.3);
    for stop in [1, 6, 8, 23] {
        let dir = tempfile::tempdir().unwrap();
        let mut first = trainer(1, 0.3, optimizer, EPOCHS);
        with_schedule(&mut first);
        let losses = log_losses(&mut first);
        let ask = move |cx: &mut hearth_engine::Context<'_>| {
            cx.host.interrupt("enough for today");
            Ok(())
        };
        first.engine_mut().on(Event::IterationCompleted.once(stop), ask).unwrap();
        assert!(matches!(first.run().unwrap(), RunEnd::Interrupted(_)));
        let folder = first.save(dir.path(), "interrupted", None).unwrap();
        assert!(folder.to_string_lossy().ends_with(&format!("iteration={stop:06}-interrupted")), "{folder:?}");
        let mut all = taken(&losses);
        drop(first);

        let mut second = trainer(99, 0.3, optimizer, EPOCHS);
        with_schedule(&mut second);
        let losses = log_losses(&mut second);
        second.resume(dir.path()).unwrap();
        second.run().unwrap();
        all.extend(taken(&losses));
        assert_eq!(fingerprint(&second), expected, "stopped after {stop}");
        assert_eq!(all, expected_losses, "stopped after {stop}");
    }
}

#[test]
fn a_handler_may_resume_at_started() {
    let optimizer = &optimizers()[0];
    let (expected, _) = uninterrupted(optimizer, 0.0);
    let dir = tempfile::tempdir().unwrap();
    let mut first = trainer(1, 0.0, optimizer, 2);
    with_schedule(&mut first);
    save_each_epoch(&mut first, dir.path());
    first.run().unwrap();
    let mut second = trainer(99, 0.0, optimizer, EPOCHS);
    with_schedule(&mut second);
    let path = dir.path().to_owned();
    second.engine_mut().on(Event::Started, move |cx| Ok(cx.host.load_checkpoint(&path)?)).unwrap();
    second.run().unwrap();
    assert_eq!(fingerprint(&second), expected);
}

/// The newest checkpoint is truncated, as by a crash: the run resumes from the one before, with the
/// same result.
#[test]
fn a_damaged_newest_checkpoint_costs_an_epoch_and_nothing_else() {
    let optimizer = &optimizers()[1];
    let (expected, _) = uninterrupted(optimizer, 0.2);
    let damages: [fn(&Path); 4] = [
        |folder| std::fs::remove_file(folder.join("manifest.json")).unwrap(),
        |folder| std::fs::write(folder.join("network.safetensors"), b"cut").unwrap(),
        |folder| std::fs::write(folder.join("engine.json"), b"{}").unwrap(),
        |folder| {
            // A killed writer's temporary folder, and no newest checkpoint.
            let left = folder.with_file_name(".partial-epoch=0003-iteration=000012-epoch");
            std::fs::rename(folder, left).unwrap();
        },
    ];
    for damage in damages {
        let dir = tempfile::tempdir().unwrap();
        let mut first = trainer(1, 0.2, optimizer, 3);
        with_schedule(&mut first);
        save_each_epoch(&mut first, dir.path());
        first.run().unwrap();
        damage(&checkpoint::newest(dir.path()).unwrap().path);
        let mut second = trainer(99, 0.2, optimizer, EPOCHS);
        with_schedule(&mut second);
        assert_eq!(second.resume(dir.path()).unwrap(), (2, 8));
        second.run().unwrap();
        assert_eq!(fingerprint(&second), expected);
    }
}

#[test]
fn a_checkpoint_of_another_network_or_optimizer_is_refused_with_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let [sgd, adam, _] = &optimizers()[..] else { unreachable!() };
    let mut small = trainer(1, 0.0, sgd, 1);
    save_each_epoch(&mut small, dir.path());
    small.run().unwrap();

    let mut other = trainer(1, 0.0, adam, 1);
    let before = fingerprint(&other);
    let text = other.resume(dir.path()).unwrap_err().to_string();
    assert!(text.contains("optimizer.json does not fit") && text.contains("SGD") && text.contains("Adam"), "{text}");
    assert_eq!(fingerprint(&other), before, "nothing was taken over");

    let wide = hearth_nn::networks::UNetConfig {
        num_res_units: 1,
        norm: Some("batch".into()),
        ..hearth_nn::networks::UNetConfig::new(3, 1, 2, &[6, 8], &[2])
    };
    let device = Device::flex();
    let wide = wide.init(&device, 0).unwrap();
    let options = TrainerOptions::new(&device);
    let mut wide = SupervisedTrainer::builder(wide, crate::common::loss(), sgd, crate::common::TRAINING)
        .options(options)
        .build()
        .unwrap();
    let text = wide.resume(dir.path()).unwrap_err().to_string();
    assert!(text.contains("network.safetensors does not fit") && text.contains("model.0"), "{text}");
}

/// A network that never trains has no checkpoint to resume from, which is reported.
#[test]
fn an_empty_folder_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let text = trainer(1, 0.0, &optimizers()[0], 1).resume(dir.path()).unwrap_err().to_string();
    assert!(text.contains("no intact checkpoint"), "{text}");
}

/// The balls as a data set, for the loaders of hearth-data: the noise is keyed by epoch and case.
struct BallSet;

impl Dataset for BallSet {
    fn len(&self) -> usize {
        7
    }

    fn case(&self, index: usize) -> &str {
        ["a", "b", "c", "d", "e", "f", "g"][index]
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let (image, label) = Balls::volume(index as u64, epoch);
        let side = crate::common::SIDE;
        let make = |values: Vec<f32>| {
            let data = Tensor::<1>::from_data(values.as_slice(), &Device::flex()).reshape([1, side, side, side]);
            Image::new(data, hearth_data::affine::IDENTITY)
        };
        let sample = Sample::new(self.case(index));
        Ok(vec![sample.with_image("image", make(image)).with_image("label", make(label))])
    }
}

fn shuffled(workers: usize, epochs: u64, seed: u64) -> SupervisedTrainer<UNet> {
    let options =
        LoaderOptions { batch_size: 2, shuffle: true, workers, buffer: 2, seed: 4, ..LoaderOptions::default() };
    let loader = DataLoader::new(Arc::new(BallSet), options).unwrap();
    let device = Device::flex();
    let mut options = TrainerOptions::new(&device);
    options.max_epochs = epochs;
    let (net, adam) = (crate::common::network(seed, 0.2), &optimizers()[1]);
    let mut trainer =
        SupervisedTrainer::builder(net, crate::common::loss(), adam, loader).options(options).build().unwrap();
    trainer.add_evaluator("validation", crate::common::evaluator());
    trainer.engine_mut().on(Event::EpochCompleted, |cx| Ok(cx.host.run("validation").map(|_| ())?)).unwrap();
    trainer
}

#[test]
fn a_shuffled_loader_resumes_in_mid_epoch_whatever_its_threads() {
    let mut whole = shuffled(0, 4, 1);
    let losses = log_losses(&mut whole);
    whole.run().unwrap();
    let (expected, expected_losses) = (fingerprint(&whole), taken(&losses));
    assert_eq!(expected.counters, (4, 16));
    for (stop, workers) in [(5, 2), (7, 1), (12, 3)] {
        let dir = tempfile::tempdir().unwrap();
        let mut first = shuffled(workers, 4, 1);
        let losses = log_losses(&mut first);
        let flag = first.engine().interrupt_flag();
        let ctrl_c = move |_: &mut hearth_engine::Context<'_>| {
            flag.store(true, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        };
        first.engine_mut().on(Event::BackwardCompleted.filter(move |s, _| s.iteration == stop), ctrl_c).unwrap();
        assert!(matches!(first.run().unwrap(), RunEnd::Interrupted(_)));
        first.save(dir.path(), "interrupted", Some(1)).unwrap();
        let mut all = taken(&losses);
        drop(first);
        let mut second = shuffled(3 - workers.min(3), 4, 77);
        let losses = log_losses(&mut second);
        second.resume(dir.path()).unwrap();
        second.run().unwrap();
        all.extend(taken(&losses));
        assert_eq!(all, expected_losses, "stopped after {stop}");
        assert_eq!(fingerprint(&second), expected, "stopped after {stop}");
    }
}
