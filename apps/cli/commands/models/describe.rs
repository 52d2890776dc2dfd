//! `hearth models describe`: prints the cost of a network, part by part.

use hearth_nn::cost::{Cost, Stage, cost};
use hearth_nn::networks::Network;
use serde_json::{Value, json};

use crate::commands::network::Chosen;
use crate::error::Outcome;
use crate::out;
use crate::table::{self, Lean};
use crate::terminal::{bold, bytes, thousands};

/// Arguments of `hearth models describe`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The network's name (`hearth models list`)
    #[arg(required_unless_present = "recipe", conflicts_with = "recipe")]
    name: Option<String>,
    /// The network of a recipe: a bundled one or a TOML file
    #[arg(long, value_name = "RECIPE")]
    recipe: Option<String>,
    /// Change a parameter of the example, such as out_channels=3 or channels=[8,16,32]
    #[arg(long = "config", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Channels and size of the image, such as 1x96x96x96
    #[arg(long, value_name = "SIZE")]
    input: Option<String>,
    /// The number of images in a batch
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// The maximum number of parts to list, unless the top level has more
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    parts: u32,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Counts and prints the cost.
pub fn run(args: &Args) -> Outcome {
    let chosen = match (&args.name, &args.recipe) {
        (_, Some(recipe)) => Chosen::by_recipe(recipe, &args.changes)?,
        (name, None) => Chosen::by_name(name.as_deref().unwrap_or_default(), &args.changes)?,
    };
    let net = chosen.to_count()?;
    let input = chosen.input_or(&net, args.input.as_deref(), args.batch as usize)?;
    let cost = cost(&net, input, args.parts as usize)?;
    if args.json {
        let whole = json!({
            "config": chosen.config, "spatial_dims": net.spatial_dims(), "input": cost.input, "outputs": cost.outputs,
            "total": stage(&cost.total), "stages": cost.stages.iter().map(stage).collect::<Vec<_>>(),
        });
        out!("{}", serde_json::to_string_pretty(&whole)?);
    } else {
        print(&net, &cost);
    }
    Ok(())
}

fn stage(stage: &Stage) -> Value {
    json!({
        "name": stage.name, "output": stage.output, "parameters": stage.parameters,
        "multiply_adds": stage.multiply_adds, "flops": stage.flops(), "activation_bytes": stage.activation_bytes(),
    })
}

/// `1 x 2 x 96 x 96 x 96`.
fn shape(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

/// A number in billions (1e9): `3.034`.
pub(super) fn giga(flops: u64) -> String {
    format!("{:.3}", flops as f64 / 1e9)
}

fn print(net: &impl Network, cost: &Cost) {
    let [input, output] = net.channels();
    out!("{}  {}-D, {input} -> {output} channels", bold(net.name()), net.spatial_dims());
    out!("input   {}", shape(&cost.input));
    for output in &cost.outputs {
        out!("output  {}", shape(output));
    }
    out!("");
    let columns = [
        ("part", Lean::Left),
        ("output", Lean::Left),
        ("parameters", Lean::Right),
        ("GFLOPs", Lean::Right),
        ("activations", Lean::Right),
    ];
    let row = |stage: &Stage, name: &str| {
        let output = if stage.output.is_empty() { "not run in evaluation".to_owned() } else { shape(&stage.output) };
        let costs = [thousands(stage.parameters), giga(stage.flops()), bytes(stage.activation_bytes())];
        [name.to_owned(), output].into_iter().chain(costs).collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<String>> = cost.stages.iter().map(|stage| row(stage, &stage.name)).collect();
    rows.push(row(&cost.total, "total"));
    table::lines(&columns, &rows).iter().for_each(|line| out!("{line}"));
    out!("");
    out!(
        "FLOPs: two per multiply-add of convolutions, linear layers and attention; activations: results of all layers in f32"
    );
}
