//! Every network, loss, metric, optimizer and inferer of recipes: its example builds and runs,
//! misspelt parameters are rejected, and the reference describes each parameter.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hearth_nn::inferers::{Inferer, InfererConfig};
use hearth_nn::layers::ConfigError;
use hearth_nn::losses::{Loss, LossConfig};
use hearth_nn::metrics::{Metric, MetricConfig};
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig, NetworkSpec, UNetConfig};
use hearth_nn::optim::{Gradients, OptimizerSpec};
use hearth_nn::weights::to_bytes;
use hearth_registry::{Described, Document, Named, Registry, entry};

fn half(shape: [usize; 5]) -> Tensor<5> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| f32::from(i % 3 == 0)).collect();
    Tensor::<1>::from_floats(values.as_slice(), &Device::default()).reshape(shape)
}

#[test]
fn every_loss_is_finite_on_its_example() {
    for entry in Registry::<dyn Loss>::new().entries() {
        let loss = LossConfig::example(entry).unwrap_or_else(|fault| panic!("{}: {fault}", entry.name));
        let shape = if entry.name == "ContrastiveLoss" { [2, 8, 1, 1, 1] } else { [1, 2, 12, 12, 12] };
        let logits = half(shape) * 0.7 + 0.1;
        // Class indices if the example converts to one-hot, otherwise one channel for each class.
        let indices = entry.example.contains("to_onehot_y") || entry.name == "GeneralizedWassersteinDiceLoss";
        let target = half(if indices { [1, 1, 12, 12, 12] } else { shape });
        let value = loss.forward_all(vec![logits], target).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert!(value.into_scalar::<f32>().is_finite(), "{}", entry.name);
    }
}

#[test]
fn every_metric_has_a_value_and_a_direction() {
    for entry in Registry::<dyn Metric>::new().entries() {
        let mut metric = MetricConfig::example(entry).and_then(|metric| metric.build()).expect(entry.name);
        let curve = ["AveragePrecisionMetric", "ROCAUCMetric"].contains(&entry.name);
        let shape = if curve { [6, 1, 1, 1, 1] } else { [1, 2, 12, 12, 12] };
        metric.update(&half(shape), &half(shape)).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert!(metric.aggregate().is_ok(), "{}", entry.name);
        assert!(metric.higher_is_better().is_some(), "{}", entry.name);
    }
}

#[test]
fn every_optimizer_changes_every_parameter() {
    for entry in Registry::<dyn OptimizerSpec>::new().entries() {
        let spec = Named::<dyn OptimizerSpec>::example(entry).unwrap_or_else(|fault| panic!("{fault}"));
        let device = Device::default().autodiff();
        let net = UNetConfig::new(3, 1, 2, &[2, 4], &[2]).init(&device, 0).expect("a network").train();
        let before = crate::values(net.clone().valid().forward(half([1, 1, 4, 4, 4])));
        let loss = net.forward(half([1, 1, 4, 4, 4]).autodiff()).sum();
        let gradients = Gradients::of(&net, &loss);
        let net = OptimizerSpec::build(&*spec).expect("checked").step(net, gradients, spec.lr()).expect("a step");
        assert_ne!(crate::values(net.valid().forward(half([1, 1, 4, 4, 4]))), before, "{}", entry.name);
    }
}

#[test]
fn every_inferer_leads_a_network_over_an_image() {
    for entry in Registry::<dyn Inferer>::new().entries() {
        let inferer = InfererConfig::example(entry).unwrap_or_else(|fault| panic!("{}: {fault}", entry.name));
        let x = half([1, 1, 32, 32, 32]);
        let y =
            inferer.infer(x.clone(), &|window| window * 2.0).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let worst = (y - x * 2.0).abs().max().into_scalar::<f32>();
        assert!(worst < 1e-5, "{}: {worst}", entry.name);
    }
}

#[test]
fn counts_of_0_are_refused_at_their_key() {
    let mut refused = 0;
    for entry in Registry::<NetworkSpec>::new().entries() {
        for key in ["in_channels", "out_channels", "n_input_channels", "num_classes", "classes", "growth_rate"] {
            let table = entry.example_table().expect("TOML").with("name", entry.name).with(key, 0_i64);
            if !entry.describe().parameters.iter().any(|parameter| parameter.name == key) {
                continue;
            }
            let fault = Registry::<NetworkSpec>::new().build(&table).map(drop).expect_err(entry.name);
            assert_eq!(fault.path, key, "{}: {fault}", entry.name);
            refused += 1;
        }
    }
    assert!(refused > 70, "{refused}");
}

/// The entries of this crate, as in the reference.
fn described() -> Vec<Described> {
    let kinds = ["network", "loss", "metric", "optimizer", "inferer", "noise scheduler"];
    hearth_registry::described().into_iter().filter(|entry| kinds.contains(&entry.kind)).collect()
}

#[test]
fn every_parameter_is_described_and_a_misspelt_one_refused() {
    let all = described();
    assert!(all.len() >= 48 + 20 + 18 + 5 + 4, "{} entries", all.len());
    let mut faults = Vec::new();
    for entry in &all {
        let name = format!("{} {}", entry.kind, entry.name);
        if entry.doc.is_empty() {
            faults.push(format!("{name} has no documentation"));
        }
        // Flattened tables are closed by the type that flattens them.
        if !entry.closed && entry.name != "SliceInferer" {
            faults.push(format!("{name} takes any key"));
        }
        for parameter in &entry.parameters {
            if parameter.doc.is_empty() || parameter.kind.contains("any value") {
                faults.push(format!("{name}.{}: {}", parameter.name, parameter.kind));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn faults_of_every_kind_are_at_their_key() {
    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code, reason = "only the parsing is tested")]
    struct Page {
        network: NetworkConfig,
        loss: LossConfig,
        optimizer: Named<dyn OptimizerSpec>,
        metric: MetricConfig,
        inferer: InfererConfig,
    }
    let text = "[network]\nname = 'UNet'\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nchannels = [4, 8]\nstrides = [2]\n\
                [loss]\nname = 'DiceFocalLoss'\ngamma = 2\n[optimizer]\nname = 'SGD'\nlr = 0.1\n\
                [metric]\nname = 'HausdorffDistanceMetric'\npercentile = 95\n[inferer]\nname = 'SlidingWindowInferer'\nroi_size = 8\noverlap = 0.5";
    let read = |text: &str| Document::parse("r.toml", text).and_then(|page| page.read::<Page>().map(drop));
    assert_eq!(read(text), Ok(()));
    for (from, to, place) in [
        ("channels = [4", "chanels = [4", "r.toml:6:1: unknown key \"chanels\", did you mean \"channels\"?"),
        ("gamma = 2", "gamma = -2", "r.toml:10:9: FocalLoss: gamma is -2"),
        ("lr = 0.1", "lr = -0.1", "r.toml:13:6: a learning rate of -0.1 cannot train"),
        ("overlap = 0.5", "overlap = 1.5", "r.toml:20:11: "),
        ("'SGD'", "'SGDD'", "r.toml:12:8: unknown optimizer \"SGDD\", did you mean \"SGD\"?"),
    ] {
        let fault = read(&text.replace(from, to)).expect_err(to).to_string();
        assert!(fault.starts_with(place), "{to}: {fault}");
    }
}

/// A custom network.
#[derive(Module, Debug)]
struct Halver {
    scale: burn::module::Param<Tensor<1>>,
}

impl Network for Halver {
    fn spatial_dims(&self) -> usize {
        3
    }

    fn channels(&self) -> [usize; 2] {
        [1, 1]
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        x * self.scale.val().reshape([1, 1, 1, 1, 1])
    }
}

/// Multiplies by a learned number.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct HalverConfig {
    /// The initial value.
    start: f32,
}

entry!(
    NetworkSpec => HalverConfig,
    name: "Halver",
    example: "start = 0.5",
    build: |node| {
        let HalverConfig { start } = hearth_registry::read(node)?;
        Ok(Box::new(NetworkSpec::new(1, move |device, _| {
            let scale = burn::module::Param::from_tensor(Tensor::from_floats([start], device));
            Ok::<_, ConfigError>(Halver { scale })
        }).with_example_input([1, 1, 4, 4, 4])))
    }
);

#[test]
fn a_network_of_ones_own_is_named_trained_and_saved_like_any_other() {
    let config: NetworkConfig = toml::from_str("name = \"Halver\"\nstart = 0.5").expect("registered");
    let net: AnyNetwork = config.init(&Device::default().autodiff(), 0).expect("a network");
    assert_eq!((net.num_params(), net.name()), (1, "Halver"));
    let x = half([1, 1, 4, 4, 4]);
    let net = net.train();
    let gradients = Gradients::of(&net, &net.forward(x.clone().autodiff()).sum());
    let mut sgd = hearth_nn::optim::OptimizerConfig::sgd(0.0).build().expect("checked");
    let net = sgd.step(net, gradients, 0.01).expect("a step").valid();
    // The gradient of the sum is the sum of the image: 22 ones of 64.
    let expected = 0.5 - 0.01 * 22.0;
    let got = net.forward(x).sum().into_scalar::<f32>() / 22.0;
    assert!((got - expected).abs() < 1e-5, "{got} for {expected}");
    let bytes = hearth_nn::weights::to_bytes(&net).expect("weights");
    let (back, _) = hearth_nn::weights::from_bytes(config.init(&Device::default(), 1).expect("a network"), &bytes)
        .expect("its own");
    assert_eq!(crate::values(back.forward(half([1, 1, 4, 4, 4]))), crate::values(net.forward(half([1, 1, 4, 4, 4]))));
}

/// An explicitly omitted norm or activation is kept in a recipe, although both have a default.
#[test]
fn what_is_explicitly_none_is_written_and_read_again() {
    let mut unet = UNetConfig::new(3, 1, 2, &[2, 4], &[2]);
    (unet.norm, unet.act) = (None, None);
    let plain = unet.init(&Device::default(), 0).expect("a network");
    let json = serde_json::to_value(&unet).expect("JSON").as_object().cloned().expect("a table");
    let json = serde_json::Value::Object(json.into_iter().chain([("name".into(), "UNet".into())]).collect());
    let of_json: NetworkConfig = serde_json::from_value(json).expect("a network");
    for config in [NetworkConfig::of("UNet", &unet).expect("a network"), of_json] {
        let text = toml::to_string(&config).expect("TOML");
        assert!(text.contains("norm = \"null\"") && text.contains("act = \"null\""), "{text}");
        let again: NetworkConfig = toml::from_str(&text).expect("a network");
        for config in [&config, &again] {
            let net = config.init(&Device::default(), 0).expect("a network");
            assert_eq!(to_bytes(&net).expect("weights"), to_bytes(&plain).expect("weights"));
        }
    }
}
