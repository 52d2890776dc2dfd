//! `docs/models.md`, generated from the code, so that both always agree, and from the times in
//! `docs/benches/models.jsonl`.

use std::collections::BTreeMap;
use std::fmt::Write;

use hearth_nn::cost::cost;
use hearth_registry::Entry;
use serde_json::Value;

use super::describe::giga;
use crate::commands::network::{Chosen, Example};
use crate::error::Outcome;
use crate::terminal::{bytes, thousands};

/// Lines of `hearth bench models` and of `docs/benches/models_peer.py`.
const MEASURED: &str = include_str!("../../../../docs/benches/models.jsonl");

const HEAD: &str = "\
# Networks

`hearth models table` generates this page; a test checks that it is current. `hearth models list` prints the first table,
`hearth models describe NAME` the parts of one network at any size and with any parameters:

```text
$ hearth models describe UNet --config out_channels=14 --input 1x96x96x96
$ hearth models describe --recipe spleen --batch 4
```

Tests compare all networks with MONAI's values (`PlainConvUNet` and `ResidualEncoderUNet` with nnU-Net's), 2-D and 3-D where MONAI has both,
and check that each overfits a small batch. Parameters and FLOPs of the examples below equal those that PyTorch counts for these networks.

MONAI's `CheckpointUNet` is the UNet above, with activations computed twice to save memory in PyTorch. It has the same keys and values;
here the tables show the memory of a training step.
";

/// The text of the page.
pub fn text() -> Outcome<String> {
    let mut page = String::from(HEAD);
    page.push_str("\n| network | dimensions | for | paper |\n|---|---|---|---|\n");
    let examples = Example::all()?;
    for example in &examples {
        let Entry { name, about, paper, .. } = example.entry;
        let _ = writeln!(page, "| {name} | {} | {about} | {paper} |", example.dims());
    }
    page.push_str(COSTS);
    for Example { entry, config } in &examples {
        let chosen = Chosen::by_name(entry.name, &[])?;
        let net = chosen.build()?;
        let cost = cost(&net, config.example_input(), 1)?;
        let parameters = thousands(cost.total.parameters);
        let (flops, activations) = (giga(cost.total.flops()), bytes(cost.total.activation_bytes()));
        let input: Vec<String> = config.example_input()[1..].iter().map(usize::to_string).collect();
        let _ = writeln!(page, "| {} | {} | {parameters} | {flops} | {activations} |", entry.name, input.join("x"));
    }
    times(&mut page, &examples);
    page.push_str(
        "\n## The examples\n\nParameters that are not named have MONAI's defaults, or nnU-Net's.\n\n```json\n",
    );
    for example in &examples {
        let _ = writeln!(page, "{:27} {}", format!("{}:", example.entry.name), example.json()?);
    }
    page.push_str("```\n");
    Ok(page)
}

const COSTS: &str = "
## What they cost

One image of the given size, in evaluation mode; the examples are at the end of this page. FLOPs are two per multiply-add of convolutions, linear layers and the
products of attention. Activations are the results of all layers in f32: about what a training step keeps per image, in addition to the weights.

| network | input | parameters | GFLOPs | activations |
|---|---|---|---|---|
";

/// The table of times, if there are any.
fn times(page: &mut String, examples: &[Example]) {
    let mut measured: BTreeMap<(&str, bool), Value> = BTreeMap::new();
    for line in MEASURED.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        if let Some(entry) = examples.iter().map(|example| example.entry).find(|entry| line["name"] == entry.name) {
            measured.insert((entry.name, line["peer"] == "hearth"), line);
        }
    }
    if measured.is_empty() {
        return;
    }
    page.push_str(TIMES);
    for entry in examples.iter().map(|example| example.entry) {
        let (Some(ours), Some(theirs)) = (measured.get(&(entry.name, true)), measured.get(&(entry.name, false))) else {
            continue;
        };
        let time = |line: &Value, key: &str| line[key].as_f64().unwrap_or(f64::NAN);
        let pair = |key: &str| format!("{} | {}", milliseconds(time(theirs, key)), milliseconds(time(ours, key)));
        let whole = |line: &Value| time(line, "forward") + time(line, "backward");
        let ratio = whole(theirs) / whole(ours);
        let memory = |line: &Value| match (line["peak"].as_u64(), line["base"].as_u64()) {
            (Some(peak), Some(base)) => bytes(peak.saturating_sub(base)),
            _ => "-".to_owned(),
        };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {ratio:.2} | {} | {} |",
            entry.name,
            pair("forward"),
            pair("backward"),
            memory(theirs),
            memory(ours)
        );
    }
}

const TIMES: &str = "
## Time and memory

Forward in training, and backward, of one image of the size above, in milliseconds; the ratio is of their sum, above 1 where Hearth is faster. Memory is the
peak of a process above its use before the first step. Two CPU threads; the peer is MONAI on PyTorch; each network and side runs in its own process, alternating:
`hearth bench models` and `docs/benches/models_peer.py`; [Benchmarks](benchmarks.md) has the date and the machine.

| network | forward, peer | forward, Hearth | backward, peer | backward, Hearth | ratio | memory, peer | memory, Hearth |
|---|---|---|---|---|---|---|---|
";

fn milliseconds(seconds: f64) -> String {
    format!("{:.1}", seconds * 1e3)
}
