//! A network on the command line: by its name and parameters, or as a recipe has it.

use hearth_nn::layers::Axes;
use hearth_nn::networks::{AnyNetwork, CATALOGUE, CatalogueEntry, Network, NetworkConfig};

use crate::error::{Context, Failure, Outcome};
use crate::recipe::{Document, InfererConfig, bundled, suggest};

/// A network that was asked for.
pub struct Chosen {
    /// Its parameters.
    pub config: NetworkConfig,
    /// An input it might be given, `[batch, channel, x, y, z]`.
    pub input: [usize; 5],
    document: Document,
}

/// The entry of this name, in any case.
pub fn entry(name: &str) -> Outcome<&'static CatalogueEntry> {
    let same = |entry: &&CatalogueEntry| entry.name == name;
    let alike = |entry: &&CatalogueEntry| entry.name.eq_ignore_ascii_case(name);
    CATALOGUE.iter().find(same).or_else(|| CATALOGUE.iter().find(alike)).ok_or_else(|| {
        let names: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
        Failure::new(suggest::unknown("network", name, &names))
    })
}

impl Chosen {
    /// The example of a name, changed by `key=value`.
    pub fn by_name(name: &str, changes: &[String]) -> Outcome<Self> {
        let entry = entry(name)?;
        let mut table: toml::Table = serde_json::from_str(entry.example)?;
        table.insert("name".into(), entry.name.into());
        let mut whole = toml::Table::new();
        whole.insert("network".into(), table.into());
        Self::read(
            Document::parse(format!("the example of {}", entry.name), toml::to_string(&whole)?)?,
            changes,
            entry.input,
        )
    }

    /// The network of a recipe, changed by `key=value`.
    pub fn by_recipe(recipe: &str, changes: &[String]) -> Outcome<Self> {
        let document = bundled::open(recipe)?;
        let mut input = [1, 1, 96, 96, 96];
        if document.root().entries().iter().any(|entry| entry.key == "inferer")
            && let InfererConfig::SlidingWindowInferer(inferer) = document.read_at("inferer")?
        {
            let roi = |axis: usize| match &inferer.roi_size {
                Axes::All(n) => usize::try_from(*n).ok(),
                Axes::Each(sizes) => sizes.get(axis).and_then(|n| usize::try_from(*n).ok()),
            };
            (2..5).for_each(|axis| input[axis] = roi(axis - 2).filter(|n| *n > 0).unwrap_or(input[axis]));
        }
        Self::read(document, changes, input)
    }

    fn read(mut document: Document, changes: &[String], mut input: [usize; 5]) -> Outcome<Self> {
        for change in changes {
            document.set_config("network", change)?;
        }
        let config: NetworkConfig = document.read_at("network")?;
        input[1] = config.in_channels();
        Ok(Self { config, input, document })
    }

    /// The network with first weights, on the CPU.
    pub fn build(&self) -> Outcome<AnyNetwork> {
        let device = hearth_train::device::parse("cpu")?;
        let net = self.config.init(&device, 0);
        net.map_err(|error| self.document.error_at("network", error.to_string()))
    }

    /// The input that was asked for, or else the network's own.
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
        net.check_input(input).while_doing(|| match given {
            Some(text) => format!("--input {text}"),
            None => "give the size of the image with --input".to_owned(),
        })?;
        Ok(input)
    }
}
