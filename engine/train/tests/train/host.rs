//! The values that handlers can read about the batch, the outputs and the layers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::common::{Balls, SIDE, TRAINING, evaluator, loss, network};
use hearth_data::{ImageInfo, Meta};
use hearth_engine::{Event, Host, HostTensor, LayerStatistics, LayerValues, NamesOf};
use hearth_nn::networks::UNet;
use hearth_nn::optim::OptimizerConfig;
use hearth_nn::weights;
use hearth_train::{BatchStream, EnsembleEvaluator, Loader, SupervisedEvaluator, SupervisedTrainer};
use safetensors::SafeTensors;

/// Balls with an age, a site, a place on a slide and a file.
#[derive(Clone)]
struct Told(Balls);

impl Loader for Told {
    fn batches(&self) -> Option<u64> {
        self.0.batches()
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        Box::new(self.0.pass(pass, skip).map(|batch| {
            let mut batch = batch?;
            let number = |case: &String| case.trim_start_matches("ball_").parse::<f64>().unwrap();
            let ages: Vec<f64> = batch.cases.iter().map(|case| 40.0 + number(case)).collect();
            batch.numbers.insert("age".into(), ages.clone());
            batch.lists.insert("place".into(), ages.iter().map(|age| [*age, -1.0].into()).collect());
            batch.texts.insert("site".into(), batch.cases.iter().map(|case| format!("site of {case}")).collect());
            let info = |case: &String| {
                let mut meta = Meta::default();
                meta.path = Some(PathBuf::from(format!("{case}.nii")));
                let mut affine = hearth_data::affine::IDENTITY;
                (affine[0][0], affine[2][2]) = (-2.0, 3.0);
                BTreeMap::from([("image".to_owned(), ImageInfo { affine, meta })])
            };
            batch.images = batch.cases.iter().map(info).collect();
            Ok(batch)
        }))
    }
}

/// The recorded events, as lines.
type Lines = Arc<Mutex<Vec<String>>>;

#[test]
fn a_batch_tells_its_numbers_and_texts() {
    let optimizer = OptimizerConfig::sgd(0.0).with("lr", 0.1).unwrap();
    let mut trainer =
        SupervisedTrainer::builder(network(0, 0.0), loss(), &optimizer, Told(TRAINING)).max_epochs(1).build().unwrap();
    trainer.add_evaluator("validation", evaluator());
    let lines = Lines::default();
    let own = lines.clone();
    trainer
        .engine_mut()
        .on(Event::IterationCompleted.once(2), move |cx| {
            let host = &mut cx.host;
            let mut lines = own.lock().unwrap();
            for of in [NamesOf::Outputs, NamesOf::Tensors, NamesOf::Numbers, NamesOf::Texts, NamesOf::Engines] {
                // The names of the weights are in another test.
                let names = host.names(of).into_iter().filter(|name| !name.starts_with("weights."));
                lines.push(names.collect::<Vec<_>>().join(" "));
            }
            for name in ["age", "place", "image.spacing", "image.original_shape"] {
                lines.push(format!("{name} {:?}", host.numbers(name)?));
            }
            for name in ["site", "image.path", "image.stored_type"] {
                lines.push(format!("{name} {:?}", host.texts(name)?));
            }
            for refused in [
                host.numbers("weight").err(),
                host.numbers("label.spacing").err(),
                host.texts("age").err(),
                host.output("dice").err(),
                host.layer_statistics(LayerValues::Gradients).err(),
            ] {
                lines.push(refused.expect("there is none").to_string());
            }
            Ok(())
        })
        .unwrap();
    // Outside an iteration there is no batch.
    let own = lines.clone();
    trainer
        .engine_mut()
        .on(Event::Started, move |cx| {
            own.lock().unwrap().push(cx.host.numbers("age").unwrap_err().to_string());
            Ok(())
        })
        .unwrap();
    trainer.run().unwrap();
    let expected = [
        "the batch has no numbers `age`; there are: none",
        "loss",
        "image label pred",
        "age image.affine image.original_affine image.original_shape image.spacing place",
        "image.path image.stored_type site",
        "validation",
        "age [[42.0], [43.0]]",
        "place [[42.0, -1.0], [43.0, -1.0]]",
        "image.spacing [[2.0, 1.0, 3.0], [2.0, 1.0, 3.0]]",
        "image.original_shape [[], []]",
        "site [\"site of ball_2\", \"site of ball_3\"]",
        "image.path [\"ball_2.nii\", \"ball_3.nii\"]",
        "image.stored_type [\"float32\", \"float32\"]",
        "the batch has no numbers `weight`; there are: age, image.affine, image.original_affine, image.original_shape, \
         image.spacing, place",
        "the batch has no numbers `label.spacing`; there are: age, image.affine, image.original_affine, \
         image.original_shape, image.spacing, place",
        "the batch has no texts `age`; there are: image.path, image.stored_type, site",
        "no output `dice`; there are: loss, mean_loss, scale",
        "there are no gradients now; ask for them at backward_completed",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
}

/// The statistics of a network's weights by plain sums over a checkpoint's values.
fn plain(bytes: &[u8]) -> BTreeMap<String, LayerStatistics> {
    let file = SafeTensors::deserialize(bytes).unwrap();
    let floats = |view: &safetensors::tensor::TensorView<'_>| -> Vec<f64> {
        view.data().as_chunks::<4>().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect()
    };
    let layers = file.tensors().into_iter().filter(|(_, view)| view.dtype() == safetensors::Dtype::F32);
    layers
        .map(|(name, view)| {
            let values = floats(&view);
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
            let (min, max) = values.iter().fold((f64::MAX, f64::MIN), |(min, max), v| (min.min(*v), max.max(*v)));
            let count = values.len() as u64;
            (name.clone(), LayerStatistics { name, count, mean, std, min, max, non_finite: 0 })
        })
        .collect()
}

fn assert_near(found: &LayerStatistics, expected: &LayerStatistics) {
    assert_eq!((found.count, found.non_finite), (expected.count, expected.non_finite), "{}", found.name);
    let pairs =
        [(found.mean, expected.mean), (found.std, expected.std), (found.min, expected.min), (found.max, expected.max)];
    for (found_value, expected_value) in pairs {
        assert!((found_value - expected_value).abs() < 1e-5, "{found:?} and not {expected:?}");
    }
}

#[test]
fn statistics_of_weights_are_those_of_the_file_and_gradients_are_what_a_step_takes_away() {
    let start = network(3, 0.0);
    let before = plain(&weights::to_bytes(&start).unwrap());
    // One step of plain gradient descent with a rate of 1: the gradient is the difference.
    let optimizer = OptimizerConfig::sgd(0.0).with("lr", 1.0).unwrap();
    let one = Balls { cases: 2, batch: 2 };
    let mut trainer = SupervisedTrainer::builder(start, loss(), &optimizer, one).max_epochs(1).build().unwrap();
    let seen: Arc<Mutex<BTreeMap<&str, Vec<LayerStatistics>>>> = Arc::default();
    let own = seen.clone();
    trainer
        .engine_mut()
        .on(Event::IterationStarted | Event::BackwardCompleted | Event::IterationCompleted, move |cx| {
            let mut seen = own.lock().unwrap();
            match cx.event {
                Event::IterationStarted => seen.insert("before", cx.host.layer_statistics(LayerValues::Weights)?),
                Event::BackwardCompleted => seen.insert("gradients", cx.host.layer_statistics(LayerValues::Gradients)?),
                _ => seen.insert("after", cx.host.layer_statistics(LayerValues::Weights)?),
            };
            Ok(())
        })
        .unwrap();
    trainer.run().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen["before"].len(), before.len());
    seen["before"].iter().for_each(|layer| assert_near(layer, &before[&layer.name]));
    let after = plain(&weights::to_bytes(trainer.network().unwrap()).unwrap());
    seen["after"].iter().for_each(|layer| assert_near(layer, &after[&layer.name]));
    let mut trained = 0;
    for gradient in &seen["gradients"] {
        let (before, after) = (&before[&gradient.name], &after[&gradient.name]);
        assert_eq!(gradient.count, before.count);
        let difference = before.mean - after.mean;
        assert!((gradient.mean - difference).abs() < 1e-5, "{gradient:?}: the step took {difference}");
        trained += u64::from(gradient.std > 0.0);
    }
    assert!(trained > 5 && seen["gradients"].len() < before.len(), "running statistics have no gradient");
}

/// The name, the shape and the values of a parameter.
type Weights = (String, Vec<usize>, Vec<f32>);

/// All weights of the network in training.
fn all_weights(host: &mut dyn Host) -> Vec<Weights> {
    let names = host.names(NamesOf::Tensors).into_iter().filter(|name| name.starts_with("weights."));
    let read = |name: String| {
        let tensor = host.tensor(&name).unwrap();
        let (shape, values) = (tensor.shape.clone(), tensor.to_f32().unwrap());
        (name, shape, values)
    };
    names.map(read).collect()
}

#[test]
fn a_gradient_that_a_handler_puts_is_the_one_of_the_step() {
    let optimizer = OptimizerConfig::sgd(0.0).with("lr", 1.0).unwrap();
    let one = Balls { cases: 2, batch: 2 };
    let mut trainer =
        SupervisedTrainer::builder(network(3, 0.0), loss(), &optimizer, one).max_epochs(1).build().unwrap();
    let before: Arc<Mutex<Vec<Weights>>> = Arc::default();
    let own = before.clone();
    trainer
        .engine_mut()
        .on(Event::BackwardCompleted, move |cx| {
            *own.lock().unwrap() = all_weights(&mut *cx.host);
            let gradients = cx.host.names(NamesOf::Tensors).into_iter().filter(|name| name.starts_with("gradients."));
            for (index, name) in gradients.enumerate() {
                let shape = cx.host.tensor(&name)?.shape.clone();
                let count = shape.iter().product();
                let value = if index == 0 { 0.5 } else { 0.0 };
                cx.host.put_tensor(&name, HostTensor::from_f32(shape, &vec![value; count])?)?;
                assert_eq!(cx.host.tensor(&name)?.to_f32()?, vec![value; count]);
            }
            let error = cx.host.put_tensor("gradients.none", HostTensor::from_f32(vec![1], &[0.0])?).unwrap_err();
            assert!(error.to_string().contains("the network has no parameter none"), "{error}");
            Ok(())
        })
        .unwrap();
    trainer
        .engine_mut()
        .on(Event::IterationCompleted, move |cx| {
            let before = before.lock().unwrap();
            let after = all_weights(&mut *cx.host);
            let moved = |(before, after): (&f32, &f32)| before - after;
            let moved: Vec<Vec<f32>> = before
                .iter()
                .zip(&after)
                .map(|(before, after)| before.2.iter().zip(&after.2).map(moved).collect())
                .collect();
            let changed: Vec<&Vec<f32>> = moved.iter().filter(|layer| layer.iter().any(|by| *by != 0.0)).collect();
            assert_eq!(changed.len(), 1, "one layer has a gradient");
            assert!(changed[0].iter().all(|by| (by - 0.5).abs() < 1e-6), "{changed:?}");
            let error = cx.host.put_tensor("gradients.none", HostTensor::from_f32(vec![1], &[0.0])?).unwrap_err();
            assert!(error.to_string().contains("put them at backward_completed"), "{error}");
            Ok(())
        })
        .unwrap();
    trainer.run().unwrap();
}

#[test]
fn weights_are_swapped_for_a_validation_and_come_back() {
    let optimizer = OptimizerConfig::sgd(0.9).with("lr", 0.05).unwrap();
    let trained = |swaps: bool| {
        let mut trainer =
            SupervisedTrainer::builder(network(1, 0.0), loss(), &optimizer, TRAINING).max_epochs(2).build().unwrap();
        trainer.add_evaluator("validation", evaluator());
        let other = Arc::new(Mutex::new(Vec::new()));
        let measured = Arc::new(Mutex::new(Vec::new()));
        if swaps {
            // The weights of another network, by name.
            let mut giver = SupervisedTrainer::builder(network(5, 0.0), loss(), &optimizer, TRAINING)
                .max_epochs(1)
                .build()
                .unwrap();
            let own = other.clone();
            let read = move |cx: &mut hearth_engine::Context<'_>| {
                *own.lock().unwrap() = all_weights(&mut *cx.host);
                Ok(())
            };
            giver.engine_mut().on(Event::Started, read).unwrap();
            giver.run().unwrap();
            let (other, own) = (other.clone(), measured.clone());
            let swap = move |cx: &mut hearth_engine::Context<'_>| {
                let mine = all_weights(&mut *cx.host);
                let put = |host: &mut dyn Host, all: &[Weights]| {
                    for (name, shape, values) in all {
                        host.put_tensor(name, HostTensor::from_f32(shape.clone(), values).unwrap()).unwrap();
                    }
                };
                put(&mut *cx.host, &other.lock().unwrap());
                let metrics = cx.host.run("validation")?;
                own.lock().unwrap().push(metrics.values().next().copied().unwrap());
                put(&mut *cx.host, &mine);
                let (name, _, values) = &mine[0];
                let wrong = HostTensor::from_f32(vec![values.len() + 1], &vec![0.0; values.len() + 1])?;
                let error = cx.host.put_tensor(name, wrong).unwrap_err().to_string();
                assert!(
                    error.contains("has the shape") && error.contains(name.trim_start_matches("weights.")),
                    "{error}"
                );
                Ok(())
            };
            trainer.engine_mut().on(Event::EpochCompleted, swap).unwrap();
        }
        trainer.run().unwrap();
        let measured = measured.lock().unwrap().clone();
        (weights::to_bytes(trainer.network().unwrap()).unwrap(), measured)
    };
    let (plain, _) = trained(false);
    let (swapped, measured) = trained(true);
    assert!(plain == swapped, "the training is the same to the bit");
    // Each pass has other balls.
    let mut direct = evaluator();
    let direct = [1, 2].map(|epoch| *direct.run(&network(5, 0.0), epoch).unwrap().values().next().unwrap());
    assert_eq!(measured, direct, "the validation saw the other weights");
}

#[test]
fn a_pass_of_an_evaluator_does_not_change_the_network() {
    let mut evaluator = evaluator();
    let check = |cx: &mut hearth_engine::Context<'_>| {
        let (name, shape, values) = all_weights(&mut *cx.host).swap_remove(0);
        let error = cx.host.put_tensor(&name, HostTensor::from_f32(shape, &values)?).unwrap_err().to_string();
        assert!(error.contains("a pass of an evaluator does not change the network"), "{error}");
        Ok(())
    };
    evaluator.engine_mut().on(Event::IterationStarted, check).unwrap();
    evaluator.run(&network(5, 0.0), 1).unwrap();
}

#[test]
fn an_evaluator_tells_what_it_measured_of_the_batch() {
    let net = network(5, 0.0);
    let raw = SupervisedEvaluator::<UNet>::builder(Told(Balls { cases: 2, batch: 1 })).loss("val_loss", loss());
    for mut evaluator in [evaluator(), raw.build().unwrap()] {
        let lines = Lines::default();
        let own = lines.clone();
        let engine = evaluator.engine_mut();
        engine
            .on(Event::IterationStarted | Event::IterationCompleted, move |cx| {
                let mut lines = own.lock().unwrap();
                lines.push(cx.host.names(NamesOf::Outputs).join(" "));
                lines.push(cx.host.names(NamesOf::Numbers).join(" "));
                if cx.event == Event::IterationCompleted {
                    let loss = cx.host.output("val_loss")?;
                    assert!(loss.is_finite() && loss > 0.0, "{loss}");
                }
                assert!(cx.host.output("loss").is_err() && cx.host.learning_rate().is_none());
                assert!(cx.host.set_learning_rate(0.1).is_err() && cx.host.run("validation").is_err());
                assert!(cx.host.layer_statistics(LayerValues::Gradients).is_err());
                assert!(!cx.host.layer_statistics(LayerValues::Weights)?.is_empty());
                Ok(())
            })
            .unwrap();
        let values: Arc<Mutex<Vec<f64>>> = Arc::default();
        let own = values.clone();
        engine
            .on(Event::IterationCompleted, move |cx| {
                let measured = cx.host.numbers("val_mean_dice").into_iter().flatten().flatten();
                own.lock().unwrap().extend(measured);
                Ok(())
            })
            .unwrap();
        evaluator.run(&net, 1).unwrap();
        // A second pass starts from zero.
        evaluator.run(&net, 2).unwrap();
        let lines = lines.lock().unwrap();
        let measured: Vec<f64> = evaluator.rows().iter().map(|row| f64::from(row.values[0])).collect();
        let values = values.lock().unwrap();
        if measured.is_empty() {
            assert!(values.is_empty());
            assert!(lines[0].is_empty() && lines[1].contains("age image.affine"), "{lines:?}");
        } else {
            assert_eq!(lines[..4], ["", "", "val_loss", "val_mean_dice"]);
            assert_eq!(values.len(), 6);
            assert_eq!(values[3..], measured);
        }
    }
}

#[test]
fn members_of_an_ensemble_are_told_apart() {
    let networks = vec![network(1, 0.0), network(2, 0.0)];
    let single = plain(&weights::to_bytes(&networks[1]).unwrap());
    let combine = hearth_engine::Combine::Mean { weights: None };
    let mut ensemble = EnsembleEvaluator::builder(networks, SupervisedEvaluator::builder(Balls { cases: 1, batch: 1 }))
        .combine(combine)
        .build()
        .unwrap();
    let layers: Arc<Mutex<Vec<LayerStatistics>>> = Arc::default();
    let own = layers.clone();
    ensemble
        .engine_mut()
        .on(Event::ForwardCompleted, move |cx| {
            assert_eq!(cx.host.names(NamesOf::Tensors), ["image", "label", "pred_0", "pred_1"]);
            assert_eq!(cx.host.tensor("pred_1")?.shape, [1, 2, SIDE, SIDE, SIDE]);
            *own.lock().unwrap() = cx.host.layer_statistics(LayerValues::Weights)?;
            Ok(())
        })
        .unwrap();
    ensemble.run(1).unwrap();
    let layers = layers.lock().unwrap();
    assert_eq!(layers.len(), 2 * single.len());
    let second = layers.iter().filter_map(|layer| Some((layer.name.strip_prefix("pred_1.")?, layer)));
    let near = second.map(|(name, layer)| assert_near(layer, &single[name])).count();
    assert_eq!(near, single.len());
}
