//! Networks with several outputs or their own loss: all outputs are trained, and the right one is
//! the prediction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::common::draw;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_data::{Batch, DataError};
use hearth_engine::{Event, NamesOf};
use hearth_nn::losses::{Loss, LossConfig};
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig};
use hearth_nn::optim::OptimizerConfig;
use hearth_nn::weights;
use hearth_train::{BatchStream, Loader, SupervisedTrainer, TrainerOptions};
use safetensors::SafeTensors;
use serde_json::{Value, json};

/// The lowest level of the networks has two voxels along each axis.
const SIDE: usize = 32;

/// One batch, the same in every pass.
struct OneBatch;

fn volume(seed: u64, classes: bool) -> Tensor<5> {
    let values = (0..SIDE.pow(3) as u64).map(|i| draw(&[seed, i]) as f32);
    let values: Vec<f32> = values.map(|v| if classes { v.round() } else { v }).collect();
    Tensor::from_data(TensorData::new(values, [1, 1, SIDE, SIDE, SIDE]), &Device::flex())
}

impl Loader for OneBatch {
    fn batches(&self) -> Option<u64> {
        Some(1)
    }

    fn pass(&self, _: u64, skip: u64) -> BatchStream {
        let tensors = BTreeMap::from([("image".into(), volume(1, false)), ("label".into(), volume(2, true))]);
        let batch = Batch { tensors, cases: vec!["one".into()], ..Batch::default() };
        Box::new((skip..1).map(move |_| Ok::<_, DataError>(batch.clone())))
    }
}

fn network(config: &Value) -> AnyNetwork {
    let config: NetworkConfig = serde_json::from_value(config.clone()).unwrap();
    config.init(&Device::flex().autodiff(), 5).unwrap()
}

fn dice() -> Value {
    json!({ "name": "DiceLoss", "to_onehot_y": true, "softmax": true })
}

fn supervised(mode: &str) -> Value {
    json!({ "name": "DeepSupervisionLoss", "loss": dice(), "weight_mode": mode })
}

fn loss(config: &Value) -> Box<dyn Loss> {
    serde_json::from_value::<LossConfig>(config.clone()).unwrap().build().unwrap()
}

fn tensors(net: &AnyNetwork) -> BTreeMap<String, Vec<u8>> {
    let bytes = weights::to_bytes(net).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())).collect()
}

/// The parameters that one step changed, its loss, and the prediction that handlers saw.
struct Step {
    changed: Vec<String>,
    loss: f64,
    pred: Vec<f32>,
    /// The other outputs that handlers saw, and their shapes.
    outputs: Vec<(String, Vec<usize>)>,
}

fn step(net: &Value, loss_config: &Value) -> Step {
    let mut options = TrainerOptions::new(&Device::flex());
    options.max_epochs = 1;
    let optimizer = OptimizerConfig::sgd(0.0).with("lr", 1.0).unwrap();
    let net = network(net);
    let before = tensors(&net);
    let mut trainer =
        SupervisedTrainer::builder(net, loss(loss_config), &optimizer, OneBatch).options(options).build().unwrap();
    let seen = Arc::new(Mutex::new((0.0, Vec::new(), Vec::new())));
    let own = seen.clone();
    trainer
        .engine_mut()
        .on(Event::LossCompleted, move |cx| {
            let names = cx.host.names(NamesOf::Tensors).into_iter().filter(|name| name.starts_with("output_"));
            let mut outputs = Vec::new();
            for name in names {
                let output = cx.host.tensor(&name)?;
                assert_eq!(output.to_f32()?.len(), output.len());
                outputs.push((name.clone(), output.shape));
            }
            let pred = cx.host.tensor("pred")?.to_f32()?;
            if !outputs.is_empty() {
                assert_eq!(cx.host.tensor("output_0")?.to_f32()?, pred);
            }
            *own.lock().unwrap() = (cx.host.output("loss")?, pred, outputs);
            Ok(())
        })
        .unwrap();
    trainer.run().unwrap();
    let after = tensors(trainer.network().unwrap());
    let changed = before.into_iter().filter(|(name, bytes)| after[name] != *bytes).map(|(name, _)| name).collect();
    let (loss, pred, outputs) = std::mem::take(&mut *seen.lock().unwrap());
    Step { changed, loss, pred, outputs }
}

fn values(x: Tensor<5>) -> Vec<f32> {
    x.into_data().iter::<f32>().collect()
}

fn dynunet() -> Value {
    json!({
        "name": "DynUNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "kernel_size": [3, 3, 3, 3],
        "strides": [1, 2, 2, 2], "upsample_kernel_size": [2, 2, 2], "filters": [4, 4, 4, 4],
        "deep_supervision": true, "deep_supr_num": 2,
    })
}

fn segresnet_ds() -> Value {
    json!({ "name": "SegResNetDS", "init_filters": 4, "blocks_down": [1, 1, 1, 1], "dsdepth": 3 })
}

fn plusplus() -> Value {
    json!({ "name": "BasicUNetPlusPlus", "features": [4, 4, 4, 4, 4, 4], "deep_supervision": true })
}

#[test]
fn every_head_is_trained_and_only_with_the_loss_that_looks_at_it() {
    let heads = |net: &Value, marks: &[&str]| -> Vec<String> {
        let names = tensors(&network(net)).into_keys();
        names.filter(|name| marks.iter().any(|mark| name.contains(mark)) && name.ends_with("weight")).collect()
    };
    for (net, marks, main) in [
        (dynunet(), &["deep_supervision_heads"][..], "output_block"),
        (segresnet_ds(), &[".head."], "up_layers.2.head"),
        (plusplus(), &["final_conv_0_"], "final_conv_0_4"),
    ] {
        let heads = heads(&net, marks);
        assert!(heads.len() >= 2, "{heads:?}");
        for mode in ["exp", "same", "two"] {
            let changed = step(&net, &supervised(mode)).changed;
            assert!(heads.iter().all(|head| changed.contains(head)), "{mode}: {heads:?} {changed:?}");
        }
        let plain = step(&net, &dice()).changed;
        assert!(plain.iter().any(|name| name.contains(main)), "{main} {plain:?}");
        assert!(
            heads.iter().filter(|head| !head.contains(main)).all(|head| !plain.contains(head)),
            "a loss of the main output alone leaves the others: {plain:?}"
        );
    }
}

/// The weights of the levels count from the main output, also where a network returns it last.
#[test]
fn the_loss_is_the_weighted_sum_with_the_main_output_first() {
    for (net, backwards) in [(dynunet(), false), (segresnet_ds(), false), (plusplus(), true)] {
        let own = network(&net);
        let mut outputs = own.forward_all(volume(1, false).autodiff());
        if backwards {
            outputs.reverse();
        }
        let expected = loss(&supervised("exp")).forward_all(outputs.clone(), volume(2, true)).unwrap();
        let expected = f64::from(expected.into_scalar::<f32>());
        let step = step(&net, &supervised("exp"));
        assert!((step.loss - expected).abs() < 1e-5, "{net}: {} {expected}", step.loss);
        assert_eq!(step.pred, values(outputs.swap_remove(0)), "{net}");
        let main = values(own.forward(volume(1, false).autodiff()));
        assert!(
            step.pred.iter().zip(main).all(|(a, b)| (a - b).abs() < 1e-5),
            "{net}: the prediction is the main output"
        );
    }
}

#[test]
fn the_loss_of_an_autoencoder_is_added_and_trained() {
    let net = json!({
        "name": "SegResNetVAE", "input_image_size": [SIDE, SIDE, SIDE], "init_filters": 8, "blocks_down": [1, 1],
        "blocks_up": [1], "vae_estimate_std": true, "in_channels": 1, "out_channels": 2,
    });
    let step = step(&net, &dice());
    for part in ["vae_down", "vae_fc1", "vae_fc2", "vae_fc3", "vae_fc_up_sample", "vae_conv_final", "conv_final"] {
        assert!(step.changed.iter().any(|name| name.starts_with(part)), "{part}: {:?}", step.changed);
    }
    let own = network(&net);
    own.set_draw(0, 1);
    let (outputs, added) = own.forward_with_loss(volume(1, false).autodiff());
    let alone = loss(&dice()).forward_all(outputs, volume(2, true)).unwrap().into_scalar::<f32>();
    let added = added.expect("it trains").into_scalar::<f32>();
    assert!(added > 0.0);
    assert!((step.loss - f64::from(alone + added)).abs() < 1e-4, "{} {alone} {added}", step.loss);
    // Outside of training there is nothing to add.
    assert!(own.valid().forward_with_loss(volume(1, false)).1.is_none());
}

#[test]
fn handlers_see_every_output() {
    let shapes = |step: Step| step.outputs.into_iter().map(|(name, shape)| format!("{name} {shape:?}")).collect();
    let found: Vec<Vec<String>> =
        [dynunet(), segresnet_ds(), plusplus()].into_iter().map(|net| shapes(step(&net, &supervised("exp")))).collect();
    let whole = |index: usize| format!("output_{index} [1, 2, 32, 32, 32]");
    let part = |index: usize, side: usize| format!("output_{index} [1, 2, {side}, {side}, {side}]");
    assert_eq!(found[0], [whole(0), whole(1), whole(2)], "MONAI brings DynUNet's heads to the size of its output");
    assert_eq!(found[1], [whole(0), part(1, SIDE / 2), part(2, SIDE / 4)]);
    assert_eq!(found[2], (0..4).map(whole).collect::<Vec<_>>());
}
