//! The plugins as the program loads them, through the interface of libraries.

use hearth_engine::{Context, Event, HostTensor, State};
use hearth_gallery::{
    boundary_loss, hard_cases, lr_finder, mixup, mlflow, noise_scale, nrrd_writer, wandb, worst_cases,
};
use hearth_plugin::abi::Linked;
use hearth_plugin::component::{Array, ComponentKind};
use hearth_plugin::serde_json::{Value, from_str, json};
use hearth_plugin::testkit::FakeHost;
use hearth_plugin_host::{Plugin, load_linked};

/// Each plugin: its name, the options that it needs, an option with a value that it refuses.
pub const PLUGINS: [(&str, &Linked, &str, &str); 6] = [
    ("lr-finder", &lr_finder::PLUGIN, "", "steps = 1"),
    ("noise-scale", &noise_scale::PLUGIN, "", "batches = 1"),
    ("worst-cases", &worst_cases::PLUGIN, "metric = 'dice'", "count = -1"),
    ("mixup", &mixup::PLUGIN, "", "alpha = 0.0"),
    ("mlflow", &mlflow::PLUGIN, "", "experiment = '/'"),
    ("wandb", &wandb::PLUGIN, "", "project = 1"),
];

/// Each plugin of components: its name, its component, an option with a value that it refuses.
pub const COMPONENTS: [(&str, &Linked, ComponentKind, &str, &str); 3] = [
    ("boundary-loss", &boundary_loss::PLUGIN, ComponentKind::Loss, "Boundary", "weight = -1.0"),
    ("hard-cases", &hard_cases::PLUGIN, ComponentKind::Sampler, "ByLoss", "share = 2.0"),
    ("nrrd-writer", &nrrd_writer::PLUGIN, ComponentKind::Writer, "Nhdr", "level = 1"),
];

pub fn plugin(linked: &'static Linked) -> Plugin {
    load_linked(linked).expect("it is linked")
}

#[test]
fn handlers_load_with_their_options() {
    for (name, linked, needed, wrong) in PLUGINS {
        let plugin = plugin(linked);
        assert_eq!(plugin.identity().name, name);
        assert!(plugin.options().iter().all(|option| !option.help.is_empty()), "{name}");
        let handler = plugin.handler(needed.parse().expect("TOML")).expect(name);
        assert_eq!((handler.name(), handler.subscriptions().is_empty()), (name, false));
        let both = format!("{needed}\n{wrong}").parse().expect("TOML");
        let error = plugin.handler(both).err().expect(name).to_string();
        let key = wrong.split(' ').next().unwrap_or_default();
        assert!(error.contains(key), "{name}: {error}");
    }
}

#[test]
fn components_load_with_their_options() {
    for (name, linked, kind, component, wrong) in COMPONENTS {
        let plugin = plugin(linked);
        assert_eq!((plugin.identity().name.as_str(), plugin.components().len()), (name, 1));
        assert_eq!(
            (plugin.components()[0].kind.as_str(), plugin.components()[0].name.as_str()),
            (kind.word(), component)
        );
        assert!(plugin.component(kind, component, "".parse().expect("TOML")).is_ok(), "{name}");
        let fault = plugin.component(kind, component, wrong.parse().expect("TOML")).err().expect(name);
        assert_eq!(fault.path, wrong.split(' ').next().unwrap_or_default(), "{name}: {fault}");
    }
}

#[test]
fn a_handler_works_through_the_interface() {
    let mut handler = plugin(&mixup::PLUGIN).handler("alpha = 1.0".parse().expect("TOML")).expect("valid options");
    let mut host = FakeHost::default();
    for (name, values) in [("image", [0.0, 8.0]), ("label", [0.0, 1.0])] {
        host.give(name, HostTensor::from_f32(vec![2, 1, 1, 1, 1], &values).expect("a tensor"));
    }
    let (mut state, event) = (State::new("trainer"), Event::IterationStarted);
    let mut mixed = 0;
    for iteration in 1..=20 {
        state.iteration = iteration;
        handler.handle(event, &mut Context { event, state: &state, host: &mut host }).expect("no error");
        let read = |name: &str| host.tensors[name].to_f32().expect("floats");
        let (image, label) = (read("image"), read("label"));
        assert!(
            image.iter().zip(&label).all(|(image, label)| (image - 8.0 * label).abs() < 1e-4),
            "{image:?} {label:?}"
        );
        mixed += usize::from(label.iter().all(|label| *label > 0.0 && *label < 1.0));
    }
    assert!(mixed > 0);
}

#[test]
fn components_work_through_the_interface() {
    let make = |(_, linked, kind, name, _): (&str, &'static Linked, ComponentKind, &str, &str)| {
        plugin(linked).component(kind, name, "".parse().expect("TOML")).expect("defaults")
    };
    let [loss, sampler, writer] = COMPONENTS.map(make);

    // Two classes with equal logits: log 2, and probabilities of 1/2 whose distances from the border are -0, 1, 2.
    let pred = Array::new(vec![1, 2, 3, 1, 1], vec![0.0; 6]).expect("six values");
    let label = Array::new(vec![1, 1, 3, 1, 1], vec![1.0, 0.0, 0.0]).expect("three values");
    let answer = loss.call("loss", &[pred, label], "{}", None).expect("a loss");
    let text: Value = from_str(&answer.text).expect("JSON");
    let expected = 2.0_f64.ln() + 0.01 * 0.5 * (0.0 + 1.0 + 2.0) / 3.0;
    assert!((text["loss"].as_f64().expect("a number") - expected).abs() < 1e-6, "{text}, expected {expected}");
    assert_eq!(answer.arrays[0].shape, [1, 2, 3, 1, 1]);
    // The gradient of a softmax has the sum 0.
    assert!(answer.arrays[0].values.iter().sum::<f32>().abs() < 1e-6);

    let call = json!({"cases": ["a", "b"], "epoch": 0, "draw": 5, "losses": {"a": 1.0}});
    let answer = sampler.call("order", &[], &call.to_string(), None).expect("an order");
    let text: Value = from_str(&answer.text).expect("JSON");
    assert_eq!(text["order"].as_array().map(Vec::len), Some(2), "{text}");

    let text: Value = from_str(&writer.call("abilities", &[], "", None).expect("abilities").text).expect("JSON");
    assert_eq!((&text["endings"], &text["sides"]), (&json!([".nhdr"]), &json!([".raw"])));
    let image = Array::new(vec![1, 1, 1, 1], vec![1.0]).expect("a value");
    let call = json!({"path": "/no/such/folder/a.nhdr", "case": "a"}).to_string();
    let error = writer.call("write", &[image], &call, None).expect_err("no folder");
    assert!(error.contains("No such file"), "{error}");
}
