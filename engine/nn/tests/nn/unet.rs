//! The U-Net: sizes, initial weights, options, inputs.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hearth_nn::ConfigError;
use hearth_nn::networks::{Network, NetworkConfig, UNet, UNetConfig};
use hearth_nn::weights;
use safetensors::SafeTensors;

use crate::{draw, values};

fn parameters(config: &UNetConfig) -> usize {
    let net = config.init(&Device::default(), 0).expect("a network");
    let bytes = weights::to_bytes(&net).expect("weights");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let trains = |name: &str| !name.contains("running_") && !name.contains("num_batches");
    file.tensors().iter().filter(|(name, _)| trains(name)).map(|(_, view)| view.shape().iter().product::<usize>()).sum()
}

/// The table of the recipes, counted with MONAI.
#[test]
fn the_recipes_networks_have_monais_numbers_of_parameters() {
    let five = [16, 32, 64, 128, 256];
    let with = |input, output, channels: &[usize]| UNetConfig {
        num_res_units: 2,
        ..UNetConfig::new(3, input, output, channels, &[2; 4])
    };
    let batch = |config: UNetConfig| UNetConfig { norm: Some("batch".into()), ..config };
    assert_eq!(parameters(&batch(with(1, 2, &five))), 4_808_917);
    assert_eq!(parameters(&batch(with(1, 2, &[32, 64, 128, 256, 512]))), 19_221_797);
    assert_eq!(parameters(&with(4, 3, &five)), 4_810_074);
    assert_eq!(parameters(&with(1, 1, &five)), 4_805_534);
}

fn bytes(net: &UNet) -> Vec<u8> {
    weights::to_bytes(net).expect("weights")
}

#[test]
fn initial_weights_depend_on_the_seed_and_the_path_alone() -> Result<(), ConfigError> {
    let config = UNetConfig::new(3, 1, 2, &[4, 8, 16], &[2, 2]);
    let device = Device::default();
    assert_eq!(bytes(&config.init(&device, 1)?), bytes(&config.init(&device.clone().autodiff(), 1)?));
    assert_ne!(bytes(&config.init(&device, 1)?), bytes(&config.init(&device, 2)?));
    // A changed width of one level does not change the initial weights of unrelated layers.
    let wider = UNetConfig { channels: vec![4, 8, 32], ..config.clone() };
    let (a, b) = (bytes(&config.init(&device, 1)?), bytes(&wider.init(&device, 1)?));
    let top = |bytes: &[u8]| {
        let file = SafeTensors::deserialize(bytes).expect("safetensors");
        file.tensor("model.0.conv.weight").expect("the top convolution").data().to_vec()
    };
    assert_eq!(top(&a), top(&b));
    Ok(())
}

/// `U(-1 / sqrt(fan_in), 1 / sqrt(fan_in))`, PyTorch's default for weights and biases of
/// convolutions.
#[test]
fn initial_weights_have_pytorchs_distribution() -> Result<(), ConfigError> {
    let config = UNetConfig { num_res_units: 1, ..UNetConfig::new(3, 1, 2, &[16, 32], &[2]) };
    let bytes = bytes(&config.init(&Device::default(), 0)?);
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let floats = |name: &str| -> Vec<f64> {
        let view = file.tensor(name).expect(name);
        view.data().chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
    };
    // The fan-in of a transposed convolution is the second axis of its weight times the kernel.
    for (name, fan_in) in
        [("model.1.submodule.conv.unit0.conv", 16.0 * 27.0), ("model.2.0.conv", 2.0 * 27.0), ("model.0.residual", 27.0)]
    {
        let bound = 1.0 / f64::sqrt(fan_in);
        let drawn = floats(&format!("{name}.weight"));
        let largest = drawn.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        let variance = drawn.iter().map(|v| v * v).sum::<f64>() / drawn.len() as f64;
        assert!(largest <= bound && largest > 0.97 * bound, "{name}: {largest} of {bound}");
        assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.15, "{name}: variance {variance}");
        assert!(floats(&format!("{name}.bias")).iter().all(|v| v.abs() <= bound && *v != 0.0));
    }
    assert_eq!(floats("model.0.conv.unit0.adn.A.weight"), [0.25]);
    Ok(())
}

#[test]
fn inputs_that_do_not_fit_are_told_what_would() -> Result<(), ConfigError> {
    let net = UNetConfig::new(3, 1, 2, &[4, 8, 16], &[2, 2]).init(&Device::default(), 0)?;
    assert!(net.check_input([1, 1, 8, 12, 4]).is_ok());
    let error = net.check_input([1, 1, 9, 12, 4]).expect_err("9 is not divisible by 4");
    assert!(error.to_string().contains("[12, 12, 4]"), "{error}");
    assert!(net.check_input([1, 2, 8, 8, 8]).is_err());
    let flat = UNetConfig::new(2, 1, 2, &[4, 8, 16], &[2, 2]).init(&Device::default(), 0)?;
    assert!(flat.check_input([1, 1, 8, 8, 1]).is_ok());
    assert!(flat.check_input([1, 1, 8, 8, 8]).is_err());
    Ok(())
}

/// Every input that `check_input` accepts has an output of the same size.
#[test]
fn outputs_have_the_size_of_inputs() -> Result<(), ConfigError> {
    let device = Device::default();
    let odd = UNetConfig {
        strides: vec![hearth_nn::layers::Axes::Each(vec![2, 1, 3]), 1.into()],
        kernel_size: hearth_nn::layers::Axes::Each(vec![3, 5, 1]),
        up_kernel_size: 5.into(),
        num_res_units: 2,
        adn_ordering: "AND".into(),
        dropout: 0.1.into(),
        ..UNetConfig::new(3, 2, 3, &[4, 6, 8], &[1, 1])
    };
    let net = odd.init(&device, 0)?;
    let shape = [1, 2, 4, 5, 6];
    net.check_input(shape).expect("divisible by 2, 1, 3");
    assert_eq!(net.forward(Tensor::zeros(shape, &device)).dims(), [1, 3, 4, 5, 6]);
    let flat = UNetConfig::new(2, 1, 2, &[4, 8, 16], &[2, 2]).init(&device, 0)?;
    assert_eq!(flat.forward(Tensor::zeros([2, 1, 8, 12, 1], &device)).dims(), [2, 2, 8, 12, 1]);
    Ok(())
}

#[test]
fn options_that_cannot_be_are_named() {
    let base = UNetConfig::new(3, 1, 2, &[4, 8], &[2]);
    let fails = |config: UNetConfig, word: &str| {
        let error = config.init(&Device::default(), 0).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    };
    fails(UNetConfig { spatial_dims: 4, ..base.clone() }, "spatial_dims");
    fails(UNetConfig { channels: vec![4], ..base.clone() }, "channels");
    fails(UNetConfig { channels: vec![4, 0], ..base.clone() }, "channels");
    fails(UNetConfig { strides: vec![], ..base.clone() }, "strides");
    fails(UNetConfig { strides: vec![0.into()], ..base.clone() }, "strides");
    fails(UNetConfig { kernel_size: 4.into(), ..base.clone() }, "kernel_size");
    fails(UNetConfig { norm: Some("bath".into()), ..base.clone() }, "bath");
    fails(UNetConfig { act: Some("rellu".into()), ..base.clone() }, "rellu");
    fails(UNetConfig { adn_ordering: "NDX".into(), ..base.clone() }, "adn_ordering");
    fails(UNetConfig { dropout: 2.0.into(), ..base.clone() }, "dropout");
    let parse = |text: &str| toml::from_str::<NetworkConfig>(text);
    let head =
        "name = \"UNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nchannels = [4, 8]\nstrides = [2]\n";
    let group = parse(&format!("{head}norm = [\"group\", {{ num_groups = 3 }}]")).expect("known options");
    assert!(group.init(&Device::default(), 0).expect_err("4 by 3").to_string().contains("num_groups"));
    let group = parse(&format!("{head}norm = [\"group\", {{ groups = 2 }}]")).expect("known options");
    assert!(group.init(&Device::default(), 0).expect_err("no such argument").to_string().contains("num_groups"));
    assert!(parse(&format!("{head}kernel = 3")).is_err());
    assert!(parse(&format!("{head}norm = \"\"\nact = [\"leakyrelu\", {{ negative_slope = 0.2 }}]")).is_ok());
}

/// A few steps on one batch reduce the loss considerably.
#[test]
fn it_overfits_one_small_batch() -> Result<(), Box<dyn std::error::Error>> {
    use hearth_nn::losses::{DiceCELoss, Loss};
    use hearth_nn::optim::{Gradients, OptimizerConfig};
    let device = Device::default().autodiff();
    let config =
        UNetConfig { num_res_units: 1, norm: Some("batch".into()), ..UNetConfig::new(3, 1, 2, &[8, 16], &[2]) };
    let mut net = config.init(&device, 0)?;
    let x = draw([2, 1, 8, 8, 8], 1, &device);
    // The label is a threshold of the smoothed image: it can be learned, but not read from a single
    // voxel.
    let near = x.clone() + Tensor::cat(vec![x.clone().narrow(2, 1, 7), x.clone().narrow(2, 0, 1)], 2);
    let y = near.greater_elem(0.0).float();
    let loss = DiceCELoss { softmax: true, to_onehot_y: true, ..DiceCELoss::default() };
    let mut optimizer = OptimizerConfig::adam().build()?;
    let mut track = Vec::new();
    for _ in 0..60 {
        let value = loss.forward(net.forward(x.clone()), y.clone())?;
        track.push(values(value.clone())[0]);
        let gradients = Gradients::of(&net, &value);
        net = optimizer.step(net, gradients, 0.02)?;
    }
    assert!(track[59] < 0.25 * track[0], "{} to {}", track[0], track[59]);
    assert!(net.num_params() > 0);
    Ok(())
}
