//! Evaluators: order of events, post-processing, metrics, rows, ensembles, errors that name the
//! cases.

use std::sync::{Arc, Mutex};

use crate::common::{Balls, evaluator, loss, network};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hearth_data::{Batch, DataError, ImageInfo, Meta};
use hearth_engine::{Better, Combine, Event, HostTensor};
use hearth_nn::losses::Loss;
use hearth_nn::metrics::{DiceMetric, MetricConfig};
use hearth_nn::networks::{Network, UNet};
use hearth_train::{
    BatchStream, EnsembleError, EnsembleEvaluator, EvaluatorError, Loader, Post, SupervisedEvaluator, mean_ensemble,
};

const CASES: Balls = Balls { cases: 3, batch: 1 };

fn dice(pred: &[f32], label: &[f32]) -> f32 {
    let overlap: f32 = pred.iter().zip(label).map(|(p, l)| p * l).sum();
    2.0 * overlap / (pred.iter().sum::<f32>() + label.iter().sum::<f32>())
}

/// The foreground of an argmax, computed on plain numbers.
fn foreground(logits: Tensor<5>) -> Vec<f32> {
    let values: Vec<f32> = logits.into_data().iter::<f32>().collect();
    let (background, ball) = values.split_at(values.len() / 2);
    background.iter().zip(ball).map(|(b, f)| f32::from(u8::from(f > b))).collect()
}

fn image(case: u64) -> Tensor<5> {
    CASES.make(1, case).tensors["image"].clone()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn metrics_and_rows_are_those_computed_by_hand() {
    let net = network(5, 0.0);
    let mut evaluator = evaluator();
    let metrics = evaluator.run(&net, 1).unwrap();
    let plain = net.valid();
    let (mut values, mut losses) = (Vec::new(), Vec::new());
    for case in 0..3 {
        let label = Balls::volume(case, 1).1;
        values.push(dice(&foreground(plain.forward(image(case))), &label));
        let target = CASES.make(1, case).tensors["label"].clone();
        losses.push(loss().forward(plain.forward(image(case)), target).unwrap().into_scalar::<f32>());
    }
    let rows: Vec<_> = evaluator.rows().iter().map(|row| (row.case.as_str(), row.values[0])).collect();
    for (index, (case, value)) in rows.iter().enumerate() {
        assert_eq!(*case, format!("ball_{index}"));
        assert!((value - values[index]).abs() < 1e-6, "{rows:?} {values:?}");
    }
    assert_eq!(rows.len(), 3);
    assert!(close(metrics["val_mean_dice"], f64::from(values.iter().sum::<f32>() / 3.0)));
    assert!(close(metrics["val_loss"], f64::from(losses.iter().sum::<f32>() / 3.0)));
    let state = evaluator.engine().state();
    assert_eq!((state.epoch, state.best_metric), (1, Some(metrics["val_mean_dice"])));

    // A second pass starts from zero; the noise differs in every pass.
    assert_ne!(evaluator.run(&net, 5).unwrap(), metrics);
    assert_eq!((evaluator.rows().len(), evaluator.engine().state().epoch), (3, 5));
    assert_eq!(evaluator.run(&net, 1).unwrap(), metrics);
}

#[test]
fn events_come_in_monais_order_and_handlers_see_raw_then_processed() {
    let net = network(5, 0.0);
    let mut evaluator = evaluator();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for event in Event::BUILT_IN {
        let own = seen.clone();
        let note = move |cx: &mut hearth_engine::Context<'_>| {
            let channels = cx.host.tensor("label").map_or(0, |label| label.shape[1]);
            let binary =
                cx.host.tensor("pred").is_ok_and(|p| p.to_f32().unwrap().iter().all(|v| [0.0, 1.0].contains(v)));
            own.lock().unwrap().push((event.name().into_owned(), channels, binary, cx.host.cases().join(",")));
            Ok(())
        };
        evaluator.engine_mut().on(*event, note).unwrap();
    }
    evaluator.run(&net, 1).unwrap();
    let seen = seen.lock().unwrap();
    let names: Vec<&str> = seen.iter().map(|(name, ..)| name.as_str()).collect();
    let iteration = [
        "get_batch_started",
        "get_batch_completed",
        "iteration_started",
        "forward_completed",
        "model_completed",
        "iteration_completed",
    ];
    let expected =
        [&["started", "epoch_started"][..], &iteration.repeat(3), &["epoch_completed", "completed"]].concat();
    assert_eq!(names, expected);
    assert_eq!(seen[5], ("forward_completed".into(), 1, false, "ball_0".into()));
    assert_eq!(seen[6], ("model_completed".into(), 2, true, "ball_0".into()));
}

/// A metric without a key metric counts, too (MONAI drops it silently), and metrics see the tensors
/// that a handler puts.
#[test]
fn a_prediction_put_by_a_handler_is_the_one_that_counts() {
    let evaluator = SupervisedEvaluator::<UNet>::builder(CASES).post_label(Post::onehot(2));
    let mut evaluator = evaluator.metric("dice", DiceMetric::default()).build().unwrap();
    let perfect = |cx: &mut hearth_engine::Context<'_>| {
        let label = cx.host.tensor("label")?;
        let copy = HostTensor { dtype: label.dtype, shape: label.shape, bytes: label.bytes.into_owned().into() };
        Ok(cx.host.put_tensor("pred", copy)?)
    };
    evaluator.engine_mut().on(Event::ModelCompleted, perfect).unwrap();
    assert_eq!(evaluator.run(&network(5, 0.0), 1).unwrap()["dice"], 1.0);
    assert_eq!(evaluator.engine().state().key_metric, None);
}

fn ensemble(combine: Option<Combine>) -> (EnsembleEvaluator<UNet>, Vec<UNet>) {
    let nets: Vec<UNet> = (0..3).map(|seed| network(seed, 0.0)).collect();
    let evaluator = SupervisedEvaluator::<UNet>::builder(CASES)
        .post_pred(Post::argmax(2))
        .post_label(Post::onehot(2))
        .key_metric("dice", DiceMetric::default().include_background(false));
    let mut ensemble = EnsembleEvaluator::builder(nets.clone(), evaluator);
    if let Some(how) = combine {
        ensemble = ensemble.combine(how);
    }
    (ensemble.build().unwrap(), nets)
}

#[test]
fn an_ensemble_is_the_mean_of_its_members_and_fires_once_for_all() {
    let weights = vec![1.0, 2.0, 0.5];
    let how = Combine::Mean { weights: Some(weights.clone()) };
    let (mut by_option, nets) = ensemble(Some(how.clone()));
    let fired = Arc::new(Mutex::new(0));
    let own = fired.clone();
    let count = move |cx: &mut hearth_engine::Context<'_>| {
        *own.lock().unwrap() += 1;
        (0..3).try_for_each(|i| cx.host.tensor(&format!("pred_{i}")).map(|_| ())).map_err(Into::into)
    };
    by_option.engine_mut().on(Event::ForwardCompleted, count).unwrap();
    let metrics = by_option.run(1).unwrap();
    assert_eq!(*fired.lock().unwrap(), 3, "once for each of three batches");

    let expected: Vec<f32> = (0..3)
        .map(|case| {
            let members: Vec<_> = nets.iter().map(|net| net.valid().forward(image(case))).collect();
            dice(&foreground(mean_ensemble(&members, Some(&weights)).unwrap()), &Balls::volume(case, 1).1)
        })
        .collect();
    assert!(close(metrics["dice"], f64::from(expected.iter().sum::<f32>() / 3.0)), "{metrics:?} {expected:?}");

    let (mut by_handler, _) = ensemble(None);
    let combine = move |cx: &mut hearth_engine::Context<'_>| {
        Ok(cx.host.combine(&["pred_0", "pred_1", "pred_2"], &how, "pred")?)
    };
    by_handler.engine_mut().on(Event::ForwardCompleted, combine).unwrap();
    assert_eq!(by_handler.run(1).unwrap(), metrics);
}

/// MONAI's chain of a vote: each member is discretized, then they vote. A handler combines the
/// discretized predictions, and sees the raw ones.
#[test]
fn members_are_processed_before_they_are_combined_whoever_combines() {
    let nets: Vec<UNet> = (0..3).map(|seed| network(seed, 0.0)).collect();
    let evaluator = || {
        SupervisedEvaluator::<UNet>::builder(CASES)
            .post_member(Post::labels())
            .post_pred(Post::onehot(2))
            .post_label(Post::onehot(2))
            .key_metric("dice", DiceMetric::default().include_background(false))
    };
    let vote = Combine::Vote { num_classes: Some(2) };
    let by_option = EnsembleEvaluator::builder(nets.clone(), evaluator()).combine(vote.clone());
    let expected = by_option.build().unwrap().run(1).unwrap();
    let by = EnsembleEvaluator::builder(nets.clone(), evaluator());
    let by = by.combine_by(|members| Ok(hearth_train::vote_ensemble(members, Some(2))?));
    assert_eq!(by.build().unwrap().run(1).unwrap(), expected);

    let first_of = nets[..1].to_vec();
    let mut by_handler = EnsembleEvaluator::builder(nets, evaluator()).build().unwrap();
    let combine = move |cx: &mut hearth_engine::Context<'_>| {
        Ok(cx.host.combine(&["pred_0", "pred_1", "pred_2"], &vote, "pred")?)
    };
    by_handler.engine_mut().on(Event::ForwardCompleted, combine).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for event in [Event::ForwardCompleted, Event::ModelCompleted] {
        let own = seen.clone();
        let note = move |cx: &mut hearth_engine::Context<'_>| {
            own.lock().unwrap().push((event, cx.host.tensor("pred_1")?.shape[1]));
            Ok(())
        };
        by_handler.engine_mut().on(event, note).unwrap();
    }
    assert_eq!(by_handler.run(1).unwrap(), expected);
    // A later handler's prediction replaces it.
    let first = move |cx: &mut hearth_engine::Context<'_>| {
        Ok(cx.host.combine(&["pred_0"], &Combine::Vote { num_classes: Some(2) }, "pred")?)
    };
    by_handler.engine_mut().on(Event::ForwardCompleted, first).unwrap();
    let alone = EnsembleEvaluator::builder(first_of, evaluator()).combine(Combine::Vote { num_classes: Some(2) });
    assert_eq!(by_handler.run(1).unwrap(), alone.build().unwrap().run(1).unwrap());
    let iteration = [(Event::ForwardCompleted, 2), (Event::ModelCompleted, 1)];
    assert_eq!(*seen.lock().unwrap(), iteration.repeat(6));
}

#[test]
fn an_ensemble_that_is_never_combined_says_what_is_missing() {
    let text = ensemble(None).0.run(1).unwrap_err().to_string();
    assert!(text.contains("no `pred`") && text.contains("pred_0, pred_1, pred_2") && text.contains("ball_0"), "{text}");
    let nets = vec![network(0, 0.0), network(1, 0.0)];
    let evaluator = || SupervisedEvaluator::<UNet>::builder(CASES);
    let none = EnsembleEvaluator::<UNet>::builder(vec![], evaluator()).build();
    assert!(matches!(none, Err(EvaluatorError::Ensemble(EnsembleError::Empty))));
    for (keys, text) in [(vec!["a"], "1 pred_keys for 2"), (vec!["a", "a"], "`a`"), (vec!["a", "pred"], "`pred`")] {
        let keys = keys.into_iter().map(str::to_owned).collect();
        let ensemble = EnsembleEvaluator::builder(nets.clone(), evaluator());
        let error = ensemble.pred_keys(keys).build().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

/// Batches that a network or metric does not accept.
struct Odd(&'static str);

impl Loader for Odd {
    fn batches(&self) -> Option<u64> {
        Some(1)
    }

    fn pass(&self, _pass: u64, _skip: u64) -> BatchStream {
        let mut batch: Batch = CASES.make(1, 2);
        match self.0 {
            "no image" => drop(batch.tensors.remove("image")),
            "no label" => drop(batch.tensors.remove("label")),
            "channels" => drop(batch.tensors.insert("image".into(), Tensor::ones([1, 2, 8, 8, 8], &Device::flex()))),
            _ => drop(batch.tensors.insert("label".into(), Tensor::ones([1, 1, 4, 8, 8], &Device::flex()))),
        }
        Box::new(std::iter::once(Ok::<_, DataError>(batch)))
    }
}

#[test]
fn a_batch_that_does_not_fit_is_an_error_that_names_the_case() {
    for (odd, expected) in [
        ("no image", "no `image`; it has: label"),
        ("no label", "no `label`; it has: image, pred"),
        ("channels", "the forward pass failed on ball_2"),
        ("label shape", "the metric `dice` failed on ball_2"),
    ] {
        let evaluator = SupervisedEvaluator::<UNet>::builder(Odd(odd)).metric("dice", DiceMetric::default());
        let text = evaluator.build().unwrap().run(&network(0, 0.0), 1).unwrap_err().to_string();
        assert!(text.contains(expected) && text.contains("ball_2"), "{odd}: {text}");
    }
}

#[test]
fn a_bf16_evaluation_is_close_to_f32() {
    let net = network(5, 0.0);
    let full = evaluator().run(&net, 1).unwrap();
    let half = SupervisedEvaluator::<UNet>::builder(CASES).precision(hearth_train::Precision::Bf16);
    let mut half = half.loss("val_loss", loss()).build().unwrap();
    let half = half.run(&net, 1).unwrap();
    assert_ne!(half["val_loss"], full["val_loss"]);
    assert!((half["val_loss"] - full["val_loss"]).abs() < 0.02, "{half:?} {full:?}");
}

/// The same cases in voxels of 2 x 1 x 1 mm.
struct Spaced;

impl Loader for Spaced {
    fn batches(&self) -> Option<u64> {
        CASES.batches()
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        let mut affine = hearth_data::affine::IDENTITY;
        affine[0][0] = 2.0;
        Box::new(CASES.pass(pass, skip).map(move |batch| {
            let mut batch = batch?;
            let info = ImageInfo { affine, meta: Meta::default() };
            batch.images = batch.cases.iter().map(|_| [("image".to_owned(), info.clone())].into()).collect();
            Ok(batch)
        }))
    }
}

/// Several metrics at once, some of them distances in mm, and a key metric where lower is better.
#[test]
fn metrics_that_a_recipe_names_are_measured_together_in_mm() {
    let configs = [
        ("hd", "name = \"HausdorffDistanceMetric\""),
        ("dice", "name = \"DiceMetric\"\ninclude_background = false"),
        ("recall", "name = \"ConfusionMatrixMetric\"\nmetric_name = \"recall\"\ninclude_background = false"),
        ("iou", "name = \"MeanIoU\"\nreduction = \"mean_batch\""),
    ];
    let measured = |loader: bool| {
        let evaluator = if loader {
            SupervisedEvaluator::<UNet>::builder(Spaced)
        } else {
            SupervisedEvaluator::<UNet>::builder(CASES)
        };
        let evaluator = evaluator.post_pred(Post::onehot(2)).post_label(Post::onehot(2));
        let evaluator = configs.iter().fold(evaluator, |evaluator, (name, text)| {
            let metric = toml::from_str::<MetricConfig>(text).unwrap().build().unwrap();
            if *name == "hd" { evaluator.key_metric(*name, metric) } else { evaluator.metric(*name, metric) }
        });
        let mut evaluator = evaluator.build().unwrap();
        // The prediction is the label, one voxel further along the first axis.
        evaluator
            .engine_mut()
            .on(Event::ForwardCompleted, |cx| {
                let label = cx.host.tensor("label")?.to_f32()?;
                let moved: Vec<f32> = std::iter::repeat_n(0.0, 64).chain(label[..512 - 64].iter().copied()).collect();
                Ok(cx.host.put_tensor("pred", HostTensor::from_f32(vec![1, 1, 8, 8, 8], &moved)?)?)
            })
            .unwrap();
        let metrics = evaluator.run(&network(5, 0.0), 1).unwrap();
        (evaluator, metrics)
    };
    let (evaluator, metrics) = measured(true);
    assert!(close(metrics["hd"], 2.0), "{metrics:?}");
    let state = evaluator.engine().state();
    assert_eq!((state.key_metric.as_deref(), state.better), (Some("hd"), Better::Lower));
    assert_eq!(state.best_metric, Some(metrics["hd"]));
    assert_eq!(evaluator.rows(), evaluator.rows_of("hd").unwrap());
    for name in ["dice", "recall", "iou"] {
        let rows = evaluator.rows_of(name).unwrap();
        assert_eq!(rows.len(), 3);
        let classes = if name == "iou" { 2 } else { 1 };
        assert!(
            rows.iter().all(|row| row.values.len() == classes && row.values.iter().all(|v| (0.0..1.0).contains(v))),
            "{rows:?}"
        );
    }
    assert!(metrics.contains_key("iou_label_0") && metrics.contains_key("iou_label_1"), "{metrics:?}");
    assert!(evaluator.rows_of("none").is_none());
    // Without a geometry voxels have side 1.
    assert!(close(measured(false).1["hd"], 1.0));
}
