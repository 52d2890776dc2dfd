//! Steps against the recipes' table (recorded from MONAI), state, groups, and invalid options.

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::optim::{Gradients, OptimError, Optimizer, OptimizerConfig};

use crate::{assert_close, draw, values};

#[derive(Module, Debug)]
struct Weights {
    w: Param<Tensor<1>>,
}

fn run(config: &str) -> Vec<f32> {
    let config: OptimizerConfig = toml::from_str(config).expect("known options");
    let mut optimizer = config.build().expect("consistent options");
    let device = Device::default().autodiff();
    let mut net = Weights { w: Param::from_tensor(Tensor::from_floats([1.0, -2.0, 3.0], &device)) };
    for gradient in [[1.0, 2.0, 2.0], [0.5, -0.5, 1.0], [2.0, 0.0, -1.0]] {
        let gradient = Tensor::<1>::from_floats(gradient, &device.clone().inner());
        let gradients = Gradients::from_map(BTreeMap::from([("w".to_owned(), gradient)]));
        net = optimizer.step(net, gradients, 0.1).expect("one gradient for one parameter");
    }
    values(net.w.val())
}

#[test]
fn novograd_gives_monais_values() {
    assert_close(&run("name = \"Novograd\""), &[0.810209, -2.148733, 2.789227], 2e-6);
    assert_close(&run("name = \"Novograd\"\nweight_decay = 0.01"), &[0.804747, -2.137286, 2.772699], 2e-6);
    assert_close(&run("name = \"Novograd\"\ngrad_averaging = true"), &[0.981021, -2.014873, 2.978923], 2e-6);
    assert_close(&run("name = \"Novograd\"\namsgrad = true"), &[0.811333, -2.149, 2.789334], 2e-6);
}

fn trained(net: UNet, optimizer: &mut Optimizer, steps: std::ops::Range<u64>) -> UNet {
    let device = Device::default().autodiff();
    steps.fold(net, |net, step| {
        let x = draw([2, 1, 8, 8, 8], step, &device);
        let loss = (net.forward(x.clone()) - x).powi_scalar(2).mean();
        let gradients = Gradients::of(&net, &loss);
        optimizer.step(net, gradients, 0.01).expect("its own gradients")
    })
}

fn unet() -> UNet {
    let config = UNetConfig { num_res_units: 1, norm: Some("batch".into()), ..UNetConfig::new(3, 1, 1, &[4, 6], &[2]) };
    config.init(&Device::default().autodiff(), 3).expect("a network")
}

/// The values of the parameters that a training changes.
fn trainable(net: &UNet) -> BTreeMap<String, Vec<f32>> {
    let bytes = hearth_nn::weights::to_bytes(net).expect("weights");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    let floats = |data: &[u8]| -> Vec<f32> {
        data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let trained = |name: &str| !name.contains("running_") && !name.contains("num_batches");
    let all = file.tensors().into_iter().filter(|(name, _)| trained(name));
    all.map(|(name, view)| (name, floats(view.data()))).collect()
}

/// Saving and loading state in the middle of a run gives a bit-identical result.
#[test]
fn a_resumed_run_is_the_same_run() {
    for config in [
        "name = \"SGD\"\nmomentum = 0.9\nnesterov = true\nweight_decay = 1e-4",
        "name = \"Adam\"\namsgrad = true",
        "name = \"AdamW\"",
        "name = \"Novograd\"\namsgrad = true",
    ] {
        let config: OptimizerConfig = toml::from_str(config).expect("known options");
        let build = || config.build().expect("consistent options");
        let mut whole = build();
        let expected = hearth_nn::weights::to_bytes(&trained(unet(), &mut whole, 0..4)).expect("weights");
        let mut first = build();
        let half = trained(unet(), &mut first, 0..2);
        let saved = hearth_nn::weights::to_bytes(&half).expect("weights");
        let mut second = build();
        second.load_state(first.state()).expect("its own state");
        assert_eq!(second.state(), first.state());
        let (loaded, _) = hearth_nn::weights::from_bytes(unet(), &saved).expect("its own weights");
        let resumed = trained(loaded, &mut second, 2..4);
        assert_eq!(hearth_nn::weights::to_bytes(&resumed).expect("weights"), expected, "{config:?}");
    }
}

#[test]
fn groups_have_rates_and_decays_of_their_own() {
    let text = "name = \"SGD\"\nweight_decay = 0.5\n\
                [[groups]]\nparams = \"a*\"\nlr_scale = 0.0\n\
                [[groups]]\nparams = \"*\"\nweight_decay = 0.0\nlr_scale = 2.0";
    let config: OptimizerConfig = toml::from_str(text).expect("known options");
    #[derive(Module, Debug)]
    struct Two {
        a: Param<Tensor<1>>,
        b: Param<Tensor<1>>,
    }
    let device = Device::default().autodiff();
    let one = || Param::from_tensor(Tensor::<1>::ones([2], &device));
    let net = Two { a: one(), b: one() };
    let gradient = || Tensor::<1>::ones([2], &device.clone().inner());
    let gradients = Gradients::from_map(BTreeMap::from([("a".to_owned(), gradient()), ("b".to_owned(), gradient())]));
    let net = config.build().expect("consistent").step(net, gradients, 0.1).expect("fits");
    assert_eq!(values(net.a.val()), [1.0, 1.0]);
    assert_close(&values(net.b.val()), &[0.8, 0.8], 1e-7);
    assert!(net.b.is_require_grad());
}

#[test]
fn parameters_without_a_gradient_stay() {
    let mut optimizer = OptimizerConfig::adam().build().expect("consistent");
    let net = unet();
    let before = hearth_nn::weights::to_bytes(&net).expect("weights");
    let net = optimizer.step(net, Gradients::default(), 1.0).expect("nothing to do");
    assert_eq!(hearth_nn::weights::to_bytes(&net).expect("weights"), before);
    assert!(optimizer.state().is_empty());
}

#[test]
fn gradients_add_scale_and_clip() {
    let device = Device::default();
    let of = |v: [f32; 2]| Gradients::from_map(BTreeMap::from([("w".to_owned(), Tensor::from_floats(v, &device))]));
    let sum = of([3.0, 0.0]) + of([0.0, 4.0]);
    assert_close(&values(sum.norm().expect("a gradient")), &[5.0], 1e-6);
    let clipped = sum.clone().clip_norm(1.0);
    assert_close(&values(clipped.get("w").expect("w").clone()), &[0.6, 0.8], 1e-6);
    let kept = sum.clip_norm(10.0).scale(2.0);
    assert_close(&values(kept.get("w").expect("w").clone()), &[6.0, 8.0], 1e-6);
    assert!(values(of([f32::NAN, 0.0]).norm().expect("a gradient"))[0].is_nan());
}

#[test]
fn wrong_options_gradients_and_states_are_errors() {
    let build = |text: &str| toml::from_str::<OptimizerConfig>(text);
    assert!(build("name = \"SGD\"\nnesterov = true").is_err());
    assert!(build("name = \"SGD\"\nlr = -1.0").is_err());
    assert!(build("name = \"Adam\"\nbetas = [1.0, 0.9]").is_err());
    assert!(build("name = \"Novograd\"\nweight_decay = -0.1").is_err());
    assert!(toml::from_str::<OptimizerConfig>("name = \"Lion\"").is_err());
    let device = Device::default();
    let mut optimizer = OptimizerConfig::sgd(0.9).build().expect("consistent");
    let short = Gradients::from_map(BTreeMap::from([("w".to_owned(), Tensor::ones([2], &device))]));
    let net = || Weights { w: Param::from_tensor(Tensor::ones([3], &Device::default().autodiff())) };
    let error = optimizer.step(net(), short, 0.1).expect_err("two values for three");
    assert!(matches!(error, OptimError::Gradient { got: 2, expected: 3, .. }), "{error}");
    let mut state = BTreeMap::from([("w/exp_avg".to_owned(), [0.0_f32; 3].into())]);
    let error = optimizer.load_state(state.clone()).expect_err("Adam's state for SGD");
    assert!(error.to_string().contains("w/exp_avg"), "{error}");
    state = BTreeMap::from([("w/momentum_buffer".to_owned(), [0.0_f32; 5].into())]);
    optimizer.load_state(state).expect("a buffer of unknown use");
    let gradients = Gradients::from_map(BTreeMap::from([("w".to_owned(), Tensor::ones([3], &device))]));
    let error = optimizer.step(net(), gradients, 0.1).expect_err("five values for three");
    assert!(matches!(error, OptimError::State { .. }), "{error}");
}

/// A group with all options set takes the same steps as an optimizer with these options.
#[test]
fn a_group_may_have_every_option_of_its_optimizer() {
    for (plain, own) in [
        ("name = \"SGD\"", "momentum = 0.9\ndampening = 0.1\nweight_decay = 0.01"),
        ("name = \"SGD\"", "momentum = 0.5\nnesterov = true"),
        ("name = \"Adam\"", "betas = [0.8, 0.9]\neps = 1e-3\namsgrad = true\nweight_decay = 0.1"),
        ("name = \"AdamW\"", "betas = [0.8, 0.9]\neps = 1e-3"),
        ("name = \"Novograd\"", "betas = [0.8, 0.9]\ngrad_averaging = true\namsgrad = true"),
        ("name = \"RMSprop\"", "alpha = 0.9\nmomentum = 0.5\ncentered = true\neps = 1e-3"),
    ] {
        let grouped = run(&format!("{plain}\n[[groups]]\nparams = \"w\"\n{own}"));
        assert_eq!(grouped, run(&format!("{plain}\n{own}")), "{plain} {own}");
        assert_ne!(grouped, run(plain), "{plain} {own}");
    }
}

#[test]
fn a_group_of_another_optimizers_options_is_an_error() {
    let error = |text: &str| toml::from_str::<OptimizerConfig>(text).expect_err(text).to_string();
    let group =
        |optimizer: &str, own: &str| error(&format!("name = \"{optimizer}\"\n[[groups]]\nparams = \"a.*\"\n{own}"));
    let text = group("SGD", "betas = [0.9, 0.9]");
    assert!(text.contains("the group `a.*`: SGD has no option `betas`"), "{text}");
    assert!(group("Adam", "momentum = 0.9").contains("Adam has no option `momentum`"));
    assert!(group("AdamW", "nesterov = true").contains("AdamW has no option `nesterov`"));
    assert!(group("RMSprop", "amsgrad = true").contains("RMSprop has no option `amsgrad`"));
    assert!(group("Adam", "betas = [1.0, 0.9]").contains("betas"));
    assert!(group("SGD", "lr = 0.1\nlr_scale = 2.0").contains("one of them"));
    assert!(group("SGD", "lr = -0.1").contains("the group `a.*`: lr is -0.1: expected a finite number of at least 0"));
    assert!(group("SGD", "lr_scale = inf").contains("lr_scale is inf"));
    assert!(group("SGD", "weight_decay = -0.1").contains("weight_decay is -0.1"));
}

/// Groups match layers by the names of the state dict, each with its own learning rate.
#[test]
fn groups_know_the_names_of_the_state_dict() {
    let text = "name = \"SGD\"\nlr = 0.1\n\
                [[groups]]\nparams = \"model.0.*\"\nlr = 0.0\n\
                [[groups]]\nparams = \"model.1.*\"\nlr = 0.2";
    let config: OptimizerConfig = toml::from_str(text).expect("known options");
    let stepped = |config: &OptimizerConfig| {
        let mut optimizer = config.build().expect("consistent");
        let net = unet();
        optimizer.bind(&net).expect("there are such parameters");
        let loss = net.forward(draw([2, 1, 8, 8, 8], 0, &Device::default().autodiff())).powi_scalar(2).mean();
        let gradients = Gradients::of(&net, &loss);
        let net = optimizer.step(net, gradients, 0.1).expect("its own gradients");
        trainable(&net)
    };
    let (grouped, plain, still) = (
        stepped(&config),
        stepped(&OptimizerConfig::sgd(0.0)),
        stepped(&toml::from_str("name = \"SGD\"\n[[groups]]\nparams = \"*\"\nlr_scale = 0.0").expect("known")),
    );
    for (name, values) in &grouped {
        let factor = if name.starts_with("model.0.") {
            0.0
        } else if name.starts_with("model.1.") {
            2.0
        } else {
            1.0
        };
        let expected: Vec<f32> =
            still[name].iter().zip(&plain[name]).map(|(still, moved)| still + factor * (moved - still)).collect();
        assert_close(values, &expected, 1e-6);
    }
    let none: OptimizerConfig = toml::from_str("name = \"SGD\"\n[[groups]]\nparams = \"modle.*\"").expect("known");
    let error = none.build().expect("consistent").bind(&unet()).expect_err("no such parameter").to_string();
    assert!(error.contains("the group `modle.*`") && error.contains("model.0"), "{error}");
}

/// What the optimizer says of itself is what a step does: weights move, or none does.
#[test]
fn an_optimizer_knows_whether_a_step_moves_a_weight() {
    let groups = |groups: &str| format!("name = \"SGD\"\nlr = 0.1\n{groups}");
    let still = "[[groups]]\nparams = \"*\"\nlr = 0.0";
    let first = "[[groups]]\nparams = \"model.0.*\"\nlr_scale = 0.0";
    let others = "[[groups]]\nparams = \"model.1.*\"\nlr = 0.0\n[[groups]]\nparams = \"model.2.*\"\nlr = 0.0";
    let frozen = ["model.1.*".to_owned(), "model.2.*".to_owned()];
    for (options, freezes, rate) in [
        (groups(""), &[][..], 0.1),
        (groups(""), &[], 0.0),
        (groups(""), &[], 1e-60),
        (groups(still), &[], 0.1),
        (groups(first), &[], 0.1),
        (groups(first), &frozen, 0.1),
        (groups(&format!("{first}\n{others}")), &[], 0.1),
    ] {
        let config: OptimizerConfig = toml::from_str(&options).expect("known options");
        let (net, _) = hearth_nn::freeze(unet(), freezes).expect("there are such parameters");
        let mut optimizer = config.build().expect("consistent options");
        optimizer.bind(&net).expect("there are such parameters");
        let claimed = optimizer.moves(&net, rate);
        let before = trainable(&net);
        let loss = net.forward(draw([2, 1, 8, 8, 8], 0, &Device::default().autodiff())).powi_scalar(2).mean();
        let gradients = Gradients::of(&net, &loss);
        let net = optimizer.step(net, gradients, rate).expect("its own gradients");
        assert_eq!(claimed, trainable(&net) != before, "{options} {freezes:?} {rate}");
    }
}

#[test]
fn gradients_are_cut_off_at_a_value() {
    let device = Device::default();
    let of = |v: [f32; 3]| Gradients::from_map(BTreeMap::from([("w".to_owned(), Tensor::from_floats(v, &device))]));
    let clipped = hearth_nn::optim::GradientClip::Value(0.5).apply(of([3.0, -0.25, -7.0]));
    assert_eq!(values(clipped.get("w").expect("w").clone()), [0.5, -0.25, -0.5]);
    for wrong in [0.0, 1e-60, -1.0, f64::NAN, f64::INFINITY] {
        assert!(hearth_nn::optim::GradientClip::Norm(wrong).check().is_err(), "{wrong}");
    }
}
