//! Selection of a network on the command line: by name and parameters, or from a recipe.

use hearth_machine::{Allowance, readable};
use hearth_nn::layers::without_draws;
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig, NetworkSpec};
use hearth_registry::{Document, Entry, Node, Registry, read, unknown_name};

use crate::error::{Context, Failure, Outcome};
use crate::recipe::bundled;

/// The requested network.
pub struct Chosen {
    /// Its parameters.
    pub config: NetworkConfig,
    /// The shape of an example input, `[batch, channel, x, y, z]`.
    pub input: [usize; 5],
    document: Document,
}

/// A network that a recipe can name, and its example configuration.
pub struct Example {
    /// Its registry entry.
    pub entry: &'static Entry<NetworkSpec>,
    /// The configuration that the entry's example builds.
    pub config: NetworkConfig,
}

impl Example {
    /// All networks, by name.
    pub fn all() -> Outcome<Vec<Self>> {
        Registry::<NetworkSpec>::new().entries().iter().map(|entry| Self::of(entry)).collect()
    }

    fn of(entry: &'static Entry<NetworkSpec>) -> Outcome<Self> {
        Ok(Self { entry, config: NetworkConfig::example(entry)? })
    }

    /// Finds a network by its name, ignoring case.
    pub fn named(name: &str) -> Outcome<Self> {
        let registry = Registry::<NetworkSpec>::new();
        match registry.find(name) {
            Some(entry) => Self::of(entry),
            None => Err(Failure::new(unknown_name("network", name, &registry.names()))),
        }
    }

    /// The example's parameters as JSON, in the order of the entry.
    pub fn json(&self) -> Outcome<serde_json::Value> {
        Ok(serde_json::to_value(Document::parse(self.entry.name, self.entry.example)?.root())?)
    }

    /// `2-D, 3-D`.
    pub fn dims(&self) -> String {
        self.config.dims().iter().map(|dims| format!("{dims}-D")).collect::<Vec<_>>().join(", ")
    }
}

impl Chosen {
    /// The example of a network, changed by `key=value`.
    pub fn by_name(name: &str, changes: &[String]) -> Outcome<Self> {
        let Example { entry, config } = Example::named(name)?;
        let table = format!("[network]\nname = {:?}\n{}", entry.name, entry.example);
        let document = Document::parse(format!("the example of {}", entry.name), table)?;
        Self::read(document, changes, config.example_input())
    }

    /// The network of a recipe, changed by `key=value`.
    pub fn by_recipe(recipe: &str, changes: &[String]) -> Outcome<Self> {
        let document = bundled::open(recipe)?;
        let mut input = [1, 1, 96, 96, 96];
        if let Some(roi) = document.root().get("inferer").and_then(|inferer| inferer.get("roi_size")) {
            let number = |node: &Node| node.to_toml().as_integer().and_then(|n| usize::try_from(n).ok());
            let size =
                |axis: usize| if roi.items().is_empty() { number(roi) } else { roi.items().get(axis).and_then(number) };
            (2..5).for_each(|axis| input[axis] = size(axis - 2).filter(|n| *n > 0).unwrap_or(input[axis]));
        }
        Self::read(document, changes, input)
    }

    fn read(mut document: Document, changes: &[String], mut input: [usize; 5]) -> Outcome<Self> {
        for change in changes {
            document.set_in("network", "--config", change)?;
        }
        let config: NetworkConfig = read(document.find("network"))?;
        input[1] = config.in_channels();
        Ok(Self { config, input, document })
    }

    /// The network with initial weights, on the CPU.
    pub fn build(&self) -> Outcome<AnyNetwork> {
        let device = hearth_train::device::parse("cpu")?;
        let net = self.config.init(&device, 0);
        Ok(net.map_err(|error| self.document.located("network", error.in_table(self.config.node())))?)
    }

    /// The network with weights of 0, to count what it costs.
    pub fn to_count(&self) -> Outcome<AnyNetwork> {
        without_draws(|| self.build())
    }

    /// The shape of the requested input, or else that of the network's example.
    pub fn input_or(&self, net: &AnyNetwork, given: Option<&str>, batch: usize) -> Outcome<[usize; 5]> {
        let mut input = self.input;
        if net.spatial_dims() == 2 {
            input[4] = 1;
        }
        if let Some(text) = given {
            let sizes: Option<Vec<usize>> = text.split(['x', ',']).map(|n| n.trim().parse().ok()).collect();
            let sizes = sizes.filter(|sizes| sizes.len() == net.spatial_dims() + 1 && !sizes.contains(&0));
            let expected = if net.spatial_dims() == 2 {
                "channels x X x Y, as in 1x96x96"
            } else {
                "channels x X x Y x Z, as in 1x96x96x96"
            };
            let sizes = sizes.ok_or_else(|| Failure::new(format!("--input {text}: expected {expected}")))?;
            sizes.iter().enumerate().for_each(|(axis, n)| input[axis + 1] = *n);
        }
        input[0] = batch;
        let bytes = input.iter().try_fold(4_u64, |all, length| all.checked_mul(*length as u64));
        let allowed = Allowance::now();
        if bytes.is_none_or(|bytes| bytes > allowed.bytes) {
            let lengths = input.map(|length| length.to_string()).join(" x ");
            return Err(Failure::new(format!(
                "an input of {lengths} takes {}, and this process may use {allowed}; lower --input or --batch",
                bytes.map_or_else(|| "more bytes than can be counted".to_owned(), readable)
            )));
        }
        net.check_input(input).while_doing(|| match given {
            Some(text) => format!("--input {text}"),
            None => "give the size of the image with --input".to_owned(),
        })?;
        Ok(input)
    }
}
