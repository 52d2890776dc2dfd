//! A training step on a GPU never waits: every read from the device is counted by the spans that
//! Burn records.
#![cfg(all(feature = "vulkan", feature = "trace"))]

#[path = "../../../tests/src/gpu.rs"]
mod gpu;

use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::{Distribution, Int, Tensor};
use hearth_nn::losses::LossConfig;
use hearth_nn::networks::{Network, NetworkConfig};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static READS: AtomicU64 = AtomicU64::new(0);

/// Counts the tensors that are read back: all of them go through one of Burn's `..._into_data`.
struct Count;

impl Subscriber for Count {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name().ends_with("into_data")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1 + READS.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a configuration")
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn a_training_step_reads_nothing_back_on_vulkan() {
    tracing::subscriber::set_global_default(Count).expect("no other subscriber");
    let plain = gpu::device();
    let device = plain.clone().autodiff();
    // Batch norm counts its calls, PReLU has learned slopes, and Novograd stores a norm: each of
    // them caused reads in the past.
    let config: NetworkConfig = read(json!({"name": "UNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
        "channels": [4, 8], "strides": [2], "num_res_units": 2, "norm": "batch", "dropout": 0.1}));
    let loss = read::<LossConfig>(json!({"name": "DiceCELoss", "to_onehot_y": true, "softmax": true}));
    let loss = loss.build().expect("a loss");
    for optimizer in [
        json!({"name": "SGD", "lr": 0.1, "momentum": 0.9}),
        json!({"name": "AdamW", "lr": 0.01, "amsgrad": true}),
        json!({"name": "Novograd", "lr": 0.01}),
        json!({"name": "RMSprop", "lr": 0.01, "momentum": 0.9, "centered": true}),
    ] {
        let mut net = config.init(&device, 1).expect("a network");
        let what = optimizer.to_string();
        let mut optimizer = read::<OptimizerConfig>(optimizer).build().expect("an optimizer");
        let x = Tensor::<5>::random([2, 1, 16, 16, 16], Distribution::Default, &plain);
        let y = Tensor::<5, Int>::random([2, 1, 16, 16, 16], Distribution::Uniform(0.0, 2.0), &plain).float();
        let mut last = None;
        READS.store(0, Ordering::Relaxed);
        for step in 0..3 {
            net.set_draw(7, step);
            let value = loss.forward(net.forward(x.clone().autodiff()), y.clone()).expect("a loss").mean();
            let gradients = Gradients::of(&net, &value);
            // As in the gradient scaler of fp16: the device decides whether a step is taken.
            net = match gradients.norm().filter(|_| step == 1) {
                Some(norm) => optimizer.step_where(net, gradients, 0.01, &norm.is_finite()),
                None => optimizer.step(net, gradients, 0.01),
            }
            .expect("a step");
            last = Some(value.without_autodiff());
        }
        assert_eq!(READS.load(Ordering::Relaxed), 0, "three steps of {what}");
        // A read is counted once for each of Burn's layers that it passes.
        let value = last.expect("three steps").into_scalar::<f32>();
        assert!(value.is_finite(), "{what}");
        assert_ne!(READS.load(Ordering::Relaxed), 0, "{what}");
    }
}
