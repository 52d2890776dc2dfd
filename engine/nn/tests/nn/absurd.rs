//! Absurd numbers in a configuration are reported at once, or are harmless. Nothing panics, and no
//! memory is allocated for weights that exceed the memory.

use std::time::{Duration, Instant};

use burn::tensor::Device;
use hearth_nn::layers::ConfigError;
use hearth_nn::networks::{NetworkConfig, NetworkSpec, UNetConfig};
use hearth_registry::{Fault, Node, Registry};

/// More than any machine has; more than most have; more than any network has.
const ABSURD: [i64; 4] = [1_000_000_000_000_000_000, i64::MAX, 1_000_000_000, 100_000];

/// All tables that differ from this one in a single whole number.
fn changed(node: &Node, number: i64) -> Vec<(String, Node)> {
    let mut all = Vec::new();
    for field in node.fields() {
        let numbers = match field.node.to_toml() {
            toml::Value::Integer(_) => vec![toml::Value::Integer(number)],
            toml::Value::Array(items) => {
                let of = |at: usize| {
                    let mut items = items.clone();
                    items[at] = toml::Value::Integer(number);
                    toml::Value::Array(items)
                };
                (0..items.len()).filter(|at| items[*at].is_integer()).map(of).collect()
            }
            _ => Vec::new(),
        };
        all.extend(numbers.into_iter().map(|value| {
            let name = format!("{} = {value}", field.key);
            (name, node.clone().with(&field.key, Node::from(value)))
        }));
    }
    all
}

fn weighed(node: &Node) -> Result<u64, Fault> {
    let config = NetworkConfig::new(node)?;
    config.weights(&Device::flex()).map_err(|error| error.in_table(config.node()))
}

#[test]
fn absurd_numbers_are_refused_at_once_in_every_network() {
    let (mut refused, mut wrong) = (0, Vec::new());
    for entry in Registry::<NetworkSpec>::new().entries() {
        let example = NetworkConfig::example(entry).expect(entry.name);
        weighed(example.node()).unwrap_or_else(|fault| panic!("{}: {fault}", entry.name));
        for number in ABSURD {
            for (what, table) in changed(example.node(), number) {
                let start = Instant::now();
                match std::panic::catch_unwind(|| weighed(&table)) {
                    Ok(result) => refused += usize::from(result.is_err()),
                    Err(_) => wrong.push(format!("{}, {what}: a panic", entry.name)),
                }
                let took = start.elapsed();
                if took > Duration::from_secs(5) {
                    wrong.push(format!("{}, {what}: {took:?}", entry.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused > 500, "{refused}");
}

#[test]
fn weights_are_counted_as_they_are_and_not_drawn() {
    let text = "name = 'UNet'\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nchannels = [4, 8]\nstrides = [2]";
    let config: NetworkConfig = toml::from_str(text).expect("a network");
    let counted = config.weights(&Device::flex()).expect("few");
    let built = config.init(&Device::flex(), 0).expect("a network");
    assert_eq!(counted, 4 * burn::module::Module::num_params(&built) as u64);
}

#[test]
fn the_key_to_blame_is_named_with_what_it_takes_and_what_there_is() {
    let table = |key: &str, value: &str| {
        let example = Registry::<NetworkSpec>::new();
        let entry = example.find("UNet").expect("there");
        let value: toml::Value = toml::from_str::<toml::Table>(&format!("v = {value}")).expect("toml")["v"].clone();
        weighed(&NetworkConfig::example(entry).expect("an example").node().clone().with(key, Node::from(value)))
    };
    for (key, value, word) in [
        ("channels", "[1000000000, 2, 2, 2, 2]", "GiB"),
        ("channels", "[1000000000000000000, 2, 2, 2, 2]", "EiB"),
        ("num_res_units", "9223372036854775807", "more than 20000 weights"),
        ("num_res_units", "100000", "more than 20000 weights"),
        ("kernel_size", "1001", "1001 x 1001 x 1001"),
    ] {
        let fault = table(key, value).expect_err("too large");
        let text = fault.text();
        assert_eq!(fault.path, key, "{text}");
        assert!(text.contains(word) && text.contains(&format!("lower `{key}`")), "{text}");
    }
}

/// Also for a network that is built without a recipe.
#[test]
fn a_rehearsal_that_fails_leaves_the_next_network_its_weights() {
    let large = NetworkSpec::new(1, |device, seed| UNetConfig::new(3, 1, 2, &[1 << 40, 8], &[2]).init(device, seed));
    let error = large.init(&Device::flex(), 0).expect_err("too large");
    assert!(matches!(error, ConfigError::TooLarge { .. }), "{error}");
    let small = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).init(&Device::flex(), 0).expect("a network");
    assert!(burn::module::Module::num_params(&small) > 0);
}
