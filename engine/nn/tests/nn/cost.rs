//! Parameters and multiply-adds of every network's example, compared with the counts of MONAI and
//! PyTorch.

use burn::tensor::Device;
use hearth_nn::cost::{Cost, cost};
use hearth_nn::layers::without_draws;
use hearth_nn::networks::{Network, NetworkConfig, NetworkSpec, UNetConfig};
use hearth_registry::Registry;
use serde_json::{Value, json};

/// Recorded with `docs/benches/models_peer.py --count`: `torch.utils.flop_counter.FlopCounterMode`
/// around MONAI's forward pass. The value of torchvision's ResNet18 is counted by hand:
/// 1,813,561,344 multiply-adds and 512 of the last convolution.
const RECORDED: &str = include_str!("monai_costs.json");

fn count(config: &NetworkConfig, input: [usize; 5]) -> Cost {
    let net = without_draws(|| config.init(&Device::default(), 0));
    let net = net.unwrap_or_else(|error| panic!("{config:?}: {error}"));
    cost(&net, input, 20).unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

#[test]
fn every_example_costs_what_pytorch_counts() {
    let recorded: Value = serde_json::from_str(RECORDED).expect("JSON");
    // One entry belongs to another test.
    for entry in Registry::<NetworkSpec>::new().entries().iter().filter(|entry| entry.name != "Halver") {
        let expected = &recorded[entry.name];
        let config = NetworkConfig::example(entry).expect("an example");
        let counted = count(&config, config.example_input());
        assert_eq!(json!(counted.total.parameters), expected["parameters"], "parameters of {}", entry.name);
        assert_eq!(json!(counted.total.flops()), expected["flops"], "FLOPs of {}", entry.name);
        let sum = |of: fn(&hearth_nn::cost::Stage) -> u64| counted.stages.iter().map(of).sum::<u64>();
        assert_eq!(sum(|stage| stage.parameters), counted.total.parameters, "{}", entry.name);
        assert_eq!(sum(|stage| stage.multiply_adds), counted.total.multiply_adds, "{}", entry.name);
        assert!(counted.stages.len() <= 25, "{} has {} parts", entry.name, counted.stages.len());
    }
}

/// Counted by hand: a convolution of 3^3 with a stride of 2 from 1 to 4 channels, and a linear
/// layer.
#[test]
fn a_small_network_by_hand() {
    let config = json!({"name": "Classifier", "in_shape": [1, 8, 8, 8], "classes": 3, "channels": [4], "strides": [2],
        "num_res_units": 0});
    let counted = count(&serde_json::from_value(config).expect("known options"), [2, 1, 8, 8, 8]);
    // Each of the convolution's 4^3 outputs of 4 channels reads 27 voxels; the linear layer reads 4
    // * 4^3 features.
    let (convolution, linear) = (4 * 64 * 27, 4 * 64 * 3);
    assert_eq!(counted.total.multiply_adds, 2 * (convolution + linear));
    assert_eq!(counted.total.flops(), 4 * (convolution + linear));
    assert_eq!(counted.total.parameters, (4 * 27 + 4) + (256 * 3 + 3));
    assert_eq!(counted.total.activations, 2 * (4 * 64 + 3));
    assert_eq!(counted.outputs, [[2, 3, 1, 1, 1]]);
}

#[test]
fn parts_come_in_the_order_of_the_forward_pass() {
    let registry = Registry::<NetworkSpec>::new();
    let unet = NetworkConfig::example(registry.find("UNet").expect("an entry")).expect("an example");
    let net = unet.init(&Device::default(), 0).expect("a network");
    let counted = cost(&net, [1, 1, 32, 32, 32], 9).expect("a fitting input");
    let names: Vec<&str> = counted.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("model.0", "model.2"), "{names:?}");
    assert_eq!(counted.stages[0].output, [1, 16, 16, 16, 16]);
    assert_eq!(counted.stages[names.len() - 1].output, [1, 2, 32, 32, 32]);
}

/// The counting pass computes no product, and must not change the results of later passes.
#[test]
fn counting_leaves_the_network_as_it_was() {
    let net = UNetConfig::new(2, 1, 2, &[4, 8], &[2]).init(&Device::default(), 1).expect("a network");
    let x = crate::draw([1, 1, 8, 8, 1], 1, &Device::default());
    let before = crate::values(net.forward(x.clone()));
    cost(&net, [1, 1, 8, 8, 1], 20).expect("a fitting input");
    assert_eq!(crate::values(net.forward(x)), before);
    let error = cost(&net, [1, 1, 9, 8, 1], 20).expect_err("9 is odd").to_string();
    assert!(error.contains("divisible by [2, 2, 1]") && error.contains("[10, 8, 1]"), "{error}");
    // A rejected input has no effect either.
    assert_eq!(crate::values(net.forward(crate::draw([1, 1, 8, 8, 1], 1, &Device::default()))), before);
}
