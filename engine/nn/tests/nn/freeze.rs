//! Frozen parameters stay bit-identical with any optimizer.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::Device;
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_nn::{FreezeError, freeze, parameters, weights};
use safetensors::SafeTensors;

use crate::draw;

fn unet() -> UNet {
    let config = UNetConfig { num_res_units: 1, norm: Some("batch".into()), ..UNetConfig::new(3, 1, 2, &[4, 6], &[2]) };
    config.init(&Device::default().autodiff(), 3).expect("a network")
}

fn tensors(net: &UNet) -> BTreeMap<String, Vec<u8>> {
    let bytes = weights::to_bytes(net).expect("weights");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    file.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())).collect()
}

fn trained(mut net: UNet, optimizer: &OptimizerConfig) -> UNet {
    let mut optimizer = optimizer.build().expect("consistent");
    let device = Device::default().autodiff();
    for step in 0..3 {
        let loss = net.forward(draw([2, 1, 8, 8, 8], step, &device)).powi_scalar(2).mean();
        let gradients = Gradients::of(&net, &loss);
        net = optimizer.step(net, gradients, 0.1).expect("its own gradients");
    }
    net
}

fn patterns(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn what_is_frozen_stays_and_the_rest_moves() {
    let decaying: OptimizerConfig =
        toml::from_str("name = \"SGD\"\nmomentum = 0.9\nweight_decay = 0.1").expect("known options");
    for optimizer in [decaying, OptimizerConfig::adam(), OptimizerConfig::novograd()] {
        let before = tensors(&unet());
        let (net, frozen) = freeze(unet(), &patterns(&["model.0.*"])).expect("there are such parameters");
        assert!(frozen.names.iter().all(|name| name.starts_with("model.0.")), "{frozen:?}");
        assert_eq!(frozen.of, parameters(&unet()).iter().map(|one| one.values).sum::<usize>());
        // As in a trainer, which moves the network.
        let net = net.valid().to_device(&Device::default()).train();
        let after = tensors(&trained(net, &optimizer));
        for (name, bytes) in &before {
            // The counter of batches is part of the norm.
            assert_eq!(*bytes == after[name], name.starts_with("model.0."), "{name}");
        }
    }
}

/// A norm with a frozen part normalizes by its running statistics, on which the batch has no
/// influence.
#[test]
fn one_frozen_part_of_a_norm_keeps_its_statistics() {
    let name = parameters(&unet()).iter().map(|one| one.name().to_owned()).find(|name| name.ends_with("running_mean"));
    let name = name.expect("a batch norm");
    let module = name.trim_end_matches("running_mean").to_owned();
    let before = tensors(&unet());
    let (net, frozen) = freeze(unet(), std::slice::from_ref(&name)).expect("it is there");
    assert_eq!(frozen.names, [name.as_str()]);
    let after = tensors(&trained(net, &OptimizerConfig::sgd(0.0)));
    for part in ["running_mean", "running_var", "num_batches_tracked"] {
        assert_eq!(before[&format!("{module}{part}")], after[&format!("{module}{part}")], "{part}");
    }
    assert_ne!(before[&format!("{module}weight")], after[&format!("{module}weight")], "its scale is trained");
}

#[test]
fn frozen_parts_stay_frozen_when_weights_are_loaded() {
    let (net, _) = freeze(unet(), &patterns(&["*bias"])).expect("biases");
    let (net, _) = weights::from_bytes(net, &weights::to_bytes(&unet()).expect("weights")).expect("its own weights");
    assert!(parameters(&net).iter().filter(|one| one.name().ends_with("bias")).all(|one| !one.trains));
    assert!(parameters(&net).iter().any(|one| one.trains));
}

#[test]
fn patterns_that_freeze_nothing_or_all_are_errors() {
    let error = freeze(unet(), &patterns(&["model.0.*", "modle.1.*"])).expect_err("a typo");
    assert!(matches!(&error, FreezeError::NoMatch { pattern, .. } if pattern == "modle.1.*"), "{error}");
    assert!(error.to_string().contains("model.0.conv"), "{error}");
    let error = freeze(unet(), &patterns(&["*"])).expect_err("nothing is left");
    assert!(matches!(error, FreezeError::Everything { .. }), "{error}");
    assert!(freeze(unet(), &[]).is_ok_and(|(_, frozen)| frozen.names.is_empty()));
}
