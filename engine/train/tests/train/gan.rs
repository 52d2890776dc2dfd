//! Two competing networks: MONAI's order of events and steps, the values for handlers, checkpoints,
//! and that the generator learns the distribution of the data.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::draw;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_data::{Batch, DataError};
use hearth_distributed::threads;
use hearth_engine::{CheckpointRequest, Event, HostTensor, LayerValues, RunEnd};
use hearth_nn::losses::{AdversarialCriterion, LossError, PatchAdversarialLoss};
use hearth_nn::networks::{
    AnyNetwork, Classifier, DiscriminatorConfig, Generator, GeneratorConfig, MultiScalePatchDiscriminatorConfig,
    Network, PatchDiscriminatorConfig,
};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_nn::weights;
use hearth_train::{
    AdversarialLoss, BatchStream, GanBuilder, GanOptions, GanTrainer, Judge, Latents, Loader, Ranks, TrainerError,
};

const SIDE: usize = 16;

/// Discs of different sizes at different places, 1 on 0.
#[derive(Clone)]
struct Discs {
    cases: u64,
    batch: u64,
    /// The part of each batch: rank and number of ranks.
    of: (u64, u64),
}

impl Discs {
    fn disc(case: u64) -> Vec<f32> {
        let [x, y] = [0, 1].map(|axis| 6.0 + 3.0 * draw(&[case, axis]));
        let radius = 3.0 + 1.5 * draw(&[case, 2]);
        let value = |i: usize| {
            let distance = ((i / SIDE) as f64 - x).hypot((i % SIDE) as f64 - y);
            (radius + 0.5 - distance).clamp(0.0, 1.0) as f32
        };
        (0..SIDE * SIDE).map(value).collect()
    }

    fn make(&self, index: u64) -> Batch {
        let (rank, world) = self.of;
        let whole = index * self.batch..((index + 1) * self.batch).min(self.cases);
        let cases: Vec<u64> = whole.skip(rank as usize).step_by(world as usize).collect();
        let values: Vec<f32> = cases.iter().flat_map(|case| Self::disc(*case)).collect();
        let image = Tensor::from_data(TensorData::new(values, [cases.len(), 1, SIDE, SIDE, 1]), &Device::flex());
        let cases = cases.iter().map(|case| format!("disc_{case}")).collect();
        Batch { tensors: BTreeMap::from([("image".into(), image)]), cases, ..Batch::default() }
    }
}

impl Loader for Discs {
    fn batches(&self) -> Option<u64> {
        Some(self.cases.div_ceil(self.batch))
    }

    fn pass(&self, _: u64, skip: u64) -> BatchStream {
        let (loader, count) = (self.clone(), self.cases.div_ceil(self.batch));
        Box::new((skip..count).map(move |index| Ok::<_, DataError>(loader.make(index))))
    }
}

/// Three batches, the last one smaller.
const FEW: Discs = Discs { cases: 10, batch: 4, of: (0, 1) };

fn networks(seed: u64) -> (Generator, Classifier) {
    let device = Device::flex().autodiff();
    let generator = GeneratorConfig::new(&[8], &[16, 4, 4], &[16, 8, 1], &[2, 2, 1]).num_res_units(1);
    let discriminator =
        DiscriminatorConfig { last_act: None, ..DiscriminatorConfig::new(&[1, 16, 16], &[8, 16], &[2, 2]) };
    (generator.init(&device, seed).unwrap(), discriminator.init(&device, seed + 1).unwrap())
}

fn loss() -> PatchAdversarialLoss {
    PatchAdversarialLoss::default().criterion(AdversarialCriterion::Bce)
}

fn adam(lr: f64) -> OptimizerConfig {
    toml::from_str(&format!("name = 'Adam'\nlr = {lr}\nbetas = [0.5, 0.999]")).unwrap()
}

fn builder(seed: u64, epochs: u64) -> GanBuilder<Generator, Classifier> {
    let (generator, discriminator) = networks(seed);
    GanTrainer::builder(generator, discriminator, loss(), adam(2e-3), FEW).latent_shape(&[8]).max_epochs(epochs).seed(5)
}

/// Both losses of each iteration.
type Log = Arc<Mutex<Vec<[f64; 2]>>>;

fn log_losses(trainer: &mut GanTrainer<Generator, Classifier>) -> Log {
    let log = Log::default();
    let own = log.clone();
    let note = move |cx: &mut hearth_engine::Context<'_>| {
        own.lock().unwrap().push([cx.host.output("g_loss")?, cx.host.output("d_loss")?]);
        Ok(())
    };
    trainer.engine_mut().on(Event::IterationCompleted, note).unwrap();
    log
}

/// Ranks with parts of a batch take the same steps as one rank with the whole batch: both networks,
/// both losses.
#[test]
fn ranks_take_the_steps_of_one() {
    let train = |ranks: Option<Ranks>| {
        let (rank, world) = ranks.as_ref().map_or((0, 1), |ranks| (ranks.rank() as u64, ranks.world() as u64));
        let (generator, _) = networks(0);
        // Dropout draws separately on each rank.
        let discriminator = DiscriminatorConfig {
            last_act: None,
            dropout: None,
            ..DiscriminatorConfig::new(&[1, 16, 16], &[8, 16], &[2, 2])
        };
        let discriminator = discriminator.init(&Device::flex().autodiff(), 1).unwrap();
        let loader = Discs { cases: 40, batch: 4, of: (rank, world) };
        let mut options = GanOptions::new(&Device::flex());
        (options.latent_shape, options.d_train_steps, options.seed) = (vec![8], 2, 5);
        (options.max_epochs, options.ranks) = (2, ranks);
        let sgd: OptimizerConfig = toml::from_str("name = 'SGD'\nlr = 0.001\nmomentum = 0.5").unwrap();
        let builder = GanTrainer::builder(generator, discriminator, loss(), sgd, loader).options(options);
        let mut trainer = builder.build().unwrap();
        let log = log_losses(&mut trainer);
        if rank + 1 == world {
            let stop = |cx: &mut hearth_engine::Context<'_>| {
                if cx.state.iteration == 15 {
                    cx.host.terminate("enough");
                }
                Ok(())
            };
            trainer.engine_mut().on(Event::IterationCompleted, stop).unwrap();
        }
        assert_eq!(trainer.run().unwrap(), RunEnd::Terminated("enough".into()));
        let log = log.lock().unwrap().clone();
        let networks = [
            weights::to_bytes(trainer.generator().unwrap()).unwrap(),
            weights::to_bytes(trainer.discriminator().unwrap()).unwrap(),
        ];
        (log, networks, trainer.engine().state().metrics.clone())
    };
    let (alone, ..) = train(None);
    assert_eq!(alone.len(), 15);
    for world in [2, 4] {
        let runs = threads::run(world, |communicator| {
            let mut ranks = Ranks::new(Arc::new(communicator));
            ranks.deadline = Duration::from_secs(60);
            train(Some(ranks))
        });
        for (log, networks, metrics) in &runs {
            for (step, (own, one)) in log.iter().zip(&alone).enumerate() {
                let off = (own[0] - one[0]).abs().max((own[1] - one[1]).abs());
                assert!(off < 1e-5, "{world} ranks, step {step}: {own:?} and {one:?}");
            }
            assert_eq!(log.len(), 15, "what one rank wants all do");
            assert_eq!(*networks, runs[0].1, "the same weights on all ranks, to the bit");
            assert_eq!(*metrics, runs[0].2);
        }
    }
}

#[test]
fn events_come_in_monais_order_and_none_within_an_iteration() {
    let mut trainer = builder(0, 2).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for event in Event::BUILT_IN {
        let own = seen.clone();
        let note = move |cx: &mut hearth_engine::Context<'_>| {
            own.lock().unwrap().push((event.name().into_owned(), cx.state.epoch, cx.state.iteration));
            Ok(())
        };
        trainer.engine_mut().on(*event, note).unwrap();
    }
    assert_eq!(trainer.run().unwrap(), RunEnd::Completed);
    let mut expected = vec![("started".to_owned(), 0, 0)];
    for epoch in 1..=2_u64 {
        let before = (epoch - 1) * 3;
        expected.push(("epoch_started".into(), epoch, before));
        for i in before..before + 3 {
            expected.push(("get_batch_started".into(), epoch, i));
            if epoch > 1 && i == before {
                expected.push(("dataloader_stop_iteration".into(), epoch, i));
            }
            expected.push(("get_batch_completed".into(), epoch, i));
            expected.push(("iteration_started".into(), epoch, i + 1));
            expected.push(("iteration_completed".into(), epoch, i + 1));
        }
        expected.push(("epoch_completed".into(), epoch, before + 3));
    }
    expected.push(("completed".into(), 2, 6));
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// MONAI's `GanTrainer._iteration`, written out.
fn by_hand(d_steps: u64, update: bool, epochs: u64) -> Vec<[f64; 2]> {
    let (generator, judge) = networks(3);
    let (mut generator, mut judge) = (generator.valid().train(), judge.valid().train());
    let (mut g_optimizer, mut d_optimizer) = (adam(2e-3).build().unwrap(), adam(1e-3).build().unwrap());
    let (latents, device, loss) = (Latents::new(&[8]).unwrap(), Device::flex(), loss());
    let value = |loss: &Tensor<1>| f64::from(loss.clone().without_autodiff().into_scalar::<f32>());
    let (mut iteration, mut losses) = (0, Vec::new());
    for epoch in 1..=epochs {
        for index in 0..3 {
            iteration += 1;
            let reals = FEW.make(index).tensors["image"].clone().autodiff();
            let draw = |n| latents.draw(5, &[epoch, iteration, n], reals.dims()[0], &device).autodiff();
            generator.set_draw(5, iteration);
            judge.set_draw(5, iteration);
            let fakes = generator.forward(draw(0));
            let mut total = 0.0_f32;
            for _ in 0..d_steps {
                let real = loss.forward(&[judge.forward(reals.clone())], true, true).unwrap();
                let fake = loss.forward(&[judge.forward(fakes.clone().detach())], false, true).unwrap();
                let d_loss = (real + fake) / 2.0;
                total += value(&d_loss) as f32;
                let gradients = Gradients::of(&judge, &d_loss);
                judge = d_optimizer.step(judge, gradients, 1e-3).unwrap();
            }
            let fakes = generator.forward(draw(u64::from(update)));
            let g_loss = loss.forward(&[judge.forward(fakes)], true, false).unwrap();
            losses.push([value(&g_loss), f64::from(total)]);
            let gradients = Gradients::of(&generator, &g_loss);
            generator = g_optimizer.step(generator, gradients, 2e-3).unwrap();
        }
    }
    losses
}

#[test]
fn losses_are_those_of_a_loop_by_hand_to_the_bit() {
    for (d_steps, update) in [(1, true), (2, true), (3, false)] {
        let (generator, discriminator) = networks(3);
        let mut trainer = GanTrainer::builder(generator, discriminator, loss(), adam(2e-3), FEW)
            .d_optimizer(adam(1e-3))
            .latent_shape(&[8])
            .d_train_steps(d_steps)
            .g_update_latents(update)
            .max_epochs(2)
            .seed(5)
            .build()
            .unwrap();
        let log = log_losses(&mut trainer);
        trainer.run().unwrap();
        let (found, expected) = (log.lock().unwrap().clone(), by_hand(d_steps, update, 2));
        assert_eq!(found, expected, "{d_steps} steps, new latent numbers: {update}");
        // The metrics of an epoch are means over it.
        let mean = expected[3..].iter().map(|[g, _]| g).sum::<f64>() / 3.0;
        assert!((trainer.engine().state().metrics["g_loss"] - mean).abs() < 1e-6);
    }
}

#[test]
fn handlers_find_images_latent_numbers_losses_and_layers() {
    let mut trainer = builder(0, 1).build().unwrap();
    let engine = trainer.engine_mut();
    let started = |cx: &mut hearth_engine::Context<'_>| {
        assert!(cx.host.output("g_loss").unwrap_err().to_string().contains("before `iteration_completed`"));
        let text =
            cx.host.put_tensor("fakes", HostTensor::from_f32(vec![1, 1, 1, 1], &[0.0])?).unwrap_err().to_string();
        assert!(text.contains("replace `image`"), "{text}");
        Ok(())
    };
    engine.on(Event::IterationStarted, started).unwrap();
    let completed = |cx: &mut hearth_engine::Context<'_>| {
        let count = cx.host.cases().len();
        assert_eq!(count, if cx.state.iteration == 3 { 2 } else { 4 });
        assert_eq!(cx.host.tensor("reals")?.shape, [count, 1, SIDE, SIDE]);
        assert_eq!(cx.host.tensor("fakes")?.shape, [count, 1, SIDE, SIDE]);
        assert_eq!(cx.host.tensor("latents")?.shape, [count, 8, 1, 1]);
        assert_eq!(cx.host.output("loss")?, cx.host.output("g_loss")?);
        assert!(cx.host.output("scale").unwrap_err().to_string().contains("fp16"));
        let layers = cx.host.layer_statistics(LayerValues::Weights)?;
        for network in ["generator.linear.weight", "discriminator.final.1.weight"] {
            assert!(layers.iter().any(|layer| layer.name == network), "{network}");
        }
        assert!(cx.host.run("validation").unwrap_err().to_string().contains("there is: none"));
        // The discriminator's rate follows in proportion.
        cx.host.set_learning_rate(1e-3)?;
        assert!(cx.host.set_learning_rate(f64::NAN).is_err());
        Ok(())
    };
    engine.on(Event::IterationCompleted, completed).unwrap();
    trainer.run().unwrap();
    assert_eq!(trainer.learning_rates(), [1e-3, 1e-3]);
}

/// Weights, metrics and counters.
fn fingerprint(trainer: &GanTrainer<Generator, Classifier>) -> (Vec<u8>, Vec<u8>, BTreeMap<String, u64>, u64) {
    let state = trainer.engine().state();
    let weights = |bytes: Result<Vec<u8>, _>| bytes.map_err(|e: hearth_nn::weights::WeightsError| e).unwrap();
    (
        weights(weights::to_bytes(trainer.generator().unwrap())),
        weights(weights::to_bytes(trainer.discriminator().unwrap())),
        crate::common::bits(&state.metrics),
        state.iteration,
    )
}

fn save(trainer: &mut GanTrainer<Generator, Classifier>, at: u64, dir: &Path) {
    let dir = dir.to_owned();
    let save = move |cx: &mut hearth_engine::Context<'_>| {
        let request = CheckpointRequest { dir: dir.clone(), tag: "here".into(), keep_last: None };
        cx.host.save_checkpoint(request)?;
        cx.host.interrupt("enough");
        Ok(())
    };
    trainer.engine_mut().on(Event::IterationCompleted.once(at), save).unwrap();
}

#[test]
fn a_resumed_run_is_the_uninterrupted_one_to_the_bit() {
    let mut whole = builder(0, 4).build().unwrap();
    let log = log_losses(&mut whole);
    whole.run().unwrap();
    let expected = log.lock().unwrap().clone();
    // In mid-epoch, and at the last iteration of one.
    for at in [5, 6] {
        let dir = tempfile::tempdir().unwrap();
        let mut first = builder(0, 4).build().unwrap();
        save(&mut first, at, dir.path());
        assert!(matches!(first.run().unwrap(), RunEnd::Interrupted(_)));
        drop(first);

        // Other first weights: everything has to come from the checkpoint.
        let mut second = builder(90, 4).build().unwrap();
        assert_eq!(second.resume(dir.path()).unwrap().1, at);
        let log = log_losses(&mut second);
        second.run().unwrap();
        assert_eq!(*log.lock().unwrap(), expected[at as usize..]);
        assert_eq!(fingerprint(&second), fingerprint(&whole));
    }
}

#[test]
fn a_checkpoint_of_another_discriminator_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = builder(0, 1).build().unwrap();
    first.run().unwrap();
    first.save(dir.path(), "final", None).unwrap();
    let (generator, _) = networks(7);
    let other = DiscriminatorConfig::new(&[1, 16, 16], &[4, 16], &[2, 2]).init(&Device::flex(), 0).unwrap();
    let mut second = GanTrainer::builder(generator, other, loss(), adam(1e-3), FEW).latent_shape(&[8]).build().unwrap();
    let before = weights::to_bytes(second.generator().unwrap()).unwrap();
    let error = second.resume(dir.path()).unwrap_err().to_string();
    assert!(error.contains("discriminator/network.safetensors"), "{error}");
    assert_eq!(weights::to_bytes(second.generator().unwrap()).unwrap(), before);
}

#[test]
fn what_does_not_go_together_is_an_error_that_says_so() {
    let (generator, discriminator) = networks(0);
    let of = |generator: &Generator, discriminator: &Classifier| {
        GanTrainer::builder(generator.clone(), discriminator.clone(), loss(), adam(1e-3), FEW).latent_shape(&[8])
    };
    let error = of(&generator, &discriminator).d_train_steps(0).build().unwrap_err();
    assert!(matches!(error, TrainerError::DiscriminatorSteps), "{error}");
    let error = of(&generator, &discriminator).latent_shape(&[64]).build().unwrap_err().to_string();
    assert!(error.contains("latent_shape") && error.contains("[8, 1, 1, 1]"), "{error}");
    assert!(of(&generator, &discriminator).latent_shape(&[]).build().is_err());

    let run = |generator: &Generator, discriminator: &Classifier| {
        let error = of(generator, discriminator).build().unwrap().run().unwrap_err();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text += &format!(": {cause}");
            source = cause.source();
        }
        text
    };
    let device = Device::flex();
    let larger = GeneratorConfig::new(&[8], &[16, 4, 4], &[8, 1], &[2, 4]).init(&device, 0).unwrap();
    let text = run(&larger, &discriminator);
    assert!(text.contains("Discriminator") && text.contains("32, 32") && text.contains("disc_0"), "{text}");
    let channels = DiscriminatorConfig::new(&[2, 16, 16], &[4], &[2]).init(&device, 0).unwrap();
    let text = run(&generator, &channels);
    assert!(text.contains("given a real image") && text.contains('2'), "{text}");
}

/// Counts what a discriminator says.
struct Counting(Arc<Mutex<Vec<usize>>>);

impl AdversarialLoss for Counting {
    fn generator(&self, fakes: Tensor<5>, judge: &Judge<'_>) -> Result<Tensor<1>, LossError> {
        let said = judge(fakes);
        assert!(
            said.iter().all(|scale| scale.dims()[1] == 1),
            "{:?}",
            said.iter().map(Tensor::dims).collect::<Vec<_>>()
        );
        self.0.lock().unwrap().push(said.len());
        loss().forward(&said, true, false)
    }

    fn discriminator(&self, fakes: Tensor<5>, reals: Tensor<5>, judge: &Judge<'_>) -> Result<Tensor<1>, LossError> {
        AdversarialLoss::discriminator(&loss(), fakes, reals, judge)
    }
}

#[test]
fn discriminators_of_patches_judge_at_each_scale_and_keep_their_features() {
    let device = Device::flex();
    let patches = PatchDiscriminatorConfig::new(2, 4, 1).num_layers_d(1).last_conv_kernel_size(1);
    let patches = AnyNetwork::new(patches.init(&device, 0).unwrap());
    let config = MultiScalePatchDiscriminatorConfig::new(2, 1, 2, 4, 1);
    let scales =
        AnyNetwork::new(MultiScalePatchDiscriminatorConfig { minimum_size_im: 16, ..config }.init(&device, 0).unwrap());
    for (discriminator, expected) in [(patches, 1), (scales, 2)] {
        let counts = Arc::new(Mutex::new(Vec::new()));
        let (generator, _) = networks(0);
        let mut trainer = GanTrainer::builder(generator, discriminator, Counting(counts.clone()), adam(1e-3), FEW)
            .latent_shape(&[8])
            .build()
            .unwrap();
        trainer.run().unwrap();
        assert_eq!(*counts.lock().unwrap(), [expected; 3]);
    }
}

/// The statistics of discs: mean and standard deviation of the intensities, and the disc's fraction
/// of the image, with the deviation of that fraction from image to image.
fn looks(images: &[f32]) -> [f64; 4] {
    let moments = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        [mean, variance.sqrt()]
    };
    let all: Vec<f64> = images.iter().map(|v| f64::from(*v)).collect();
    let area = |image: &[f32]| image.iter().filter(|v| **v > 0.5).count() as f64 / image.len() as f64;
    let areas: Vec<f64> = images.chunks(SIDE * SIDE).map(area).collect();
    let ([mean, std], [area, spread]) = (moments(&all), moments(&areas));
    [mean, std, area, spread]
}

/// The statistics of a generator's images after training against a discriminator with this learning
/// rate.
fn learnt(d_rate: f64) -> [f64; 4] {
    let device = Device::flex().autodiff();
    let config = GeneratorConfig::new(&[8], &[16, 4, 4], &[16, 8, 1], &[2, 2, 1]).num_res_units(1);
    let generator = GeneratorConfig { norm: None, ..config }.init(&device, 1).unwrap();
    let config = DiscriminatorConfig::new(&[1, 16, 16], &[8, 16], &[2, 2]).num_res_units(1);
    let discriminator = DiscriminatorConfig { last_act: None, dropout: None, norm: None, ..config };
    let discriminator = discriminator.init(&device, 2).unwrap();
    let discs = Discs { cases: 128, batch: 16, of: (0, 1) };
    let mut trainer = GanTrainer::builder(generator, discriminator, loss(), adam(1e-3), discs)
        .d_optimizer(adam(d_rate))
        .latent_shape(&[8])
        .max_epochs(150)
        .build()
        .unwrap();
    trainer.run().unwrap();
    let latents = Latents::new(&[8]).unwrap().draw(99, &[0], 64, &Device::flex());
    let images = trainer.generator().unwrap().valid().forward(latents);
    looks(&images.try_into_vec_as::<f32>().unwrap())
}

#[test]
fn generated_discs_look_like_those_of_the_data() {
    let data: Vec<f32> = (0..128).flat_map(Discs::disc).collect();
    let expected = looks(&data);
    // At most a quarter off; and discs must differ in size, unlike those of a generator that always
    // makes the same image.
    let near = |found: [f64; 4]| {
        let ratio = |i: usize| found[i] / expected[i];
        (0..3).all(|i| (ratio(i) - 1.0).abs() < 0.25) && (0.25..2.0).contains(&ratio(3))
    };
    let found = learnt(1e-3);
    println!("data {expected:.3?}, generated {found:.3?}");
    assert!(near(found), "generated {found:?}, the data {expected:?} [mean, deviation, area, its deviation]");
    // A discriminator that hardly learns teaches nothing.
    let found = learnt(1e-9);
    println!("against a discriminator that hardly learns {found:.3?}");
    assert!(!near(found), "{found:?}");
}
