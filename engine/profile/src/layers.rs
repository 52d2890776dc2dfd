//! Time, memory and operations of a network's layers: [`LayerRow`].

use std::collections::HashMap;

use serde::Serialize;

use crate::statistics::Statistics;
use crate::timeline::{Range, Timeline, Value};

/// The passes of a layer in training, or in validation where training has none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerRow {
    /// The layer's path in the network, for example `model.1.conv.unit0`.
    pub path: String,
    /// The time of each pass, including the layers within it.
    #[serde(flatten)]
    pub time: Statistics,
    /// Seconds of the layer itself, without the layers within it.
    pub own: f64,
    /// The layer's own fraction of the time of all layers.
    pub share: f64,
    /// Operations per pass, including the layers within it.
    pub flop: f64,
    /// Minimum of bytes that the kernels of a pass read and write; 0 for GPU kernels.
    pub bytes: f64,
    /// Bytes that a pass leaves allocated, mainly for the backward pass.
    pub kept: f64,
    /// Seconds of the backward pass per forward pass, including the layers within it; 0 where this
    /// project's kernels do not compute it.
    pub backward: f64,
}

#[derive(Default)]
struct Sums {
    nanos: Vec<u64>,
    own: u64,
    flop: f64,
    bytes: f64,
    kept: f64,
    backward: u64,
}

/// The layers of a timeline, in the order in which they first ran; empty where layers were not
/// recorded as ranges.
pub fn layers(timeline: &Timeline) -> Vec<LayerRow> {
    let validations: Vec<&Range> = timeline.named("validation").collect();
    let validates = |range: &Range| {
        validations.iter().any(|v| v.thread == range.thread && v.start <= range.start && range.end() <= v.end())
    };
    let passes: Vec<(usize, bool)> = (timeline.ranges.iter().enumerate())
        .filter(|(_, range)| range.name == "layer")
        .map(|(place, range)| (place, validates(range)))
        .collect();
    let in_training = passes.iter().any(|(_, validates)| !validates);
    let wanted = |place: usize| {
        passes.binary_search_by_key(&place, |(place, _)| *place).is_ok_and(|at| passes[at].1 != in_training)
    };
    let mut order: Vec<&str> = Vec::new();
    let mut all: HashMap<&str, Sums> = HashMap::new();
    // The layers around the current range, outermost first.
    let mut around: Vec<&Range> = Vec::new();
    for (place, range) in timeline.ranges.iter().enumerate() {
        around.retain(|outer| outer.thread == range.thread && range.start < outer.end());
        match range.name {
            "layer" if wanted(place) => {
                let path = range.detail.as_deref().unwrap_or_default();
                let sums = all.entry(path).or_insert_with(|| {
                    order.push(path);
                    Sums::default()
                });
                sums.nanos.push(range.nanos);
                sums.own += range.nanos;
                sums.kept += range.memory[1] as f64 - range.memory[0] as f64;
                if let Some(sums) = around.last().and_then(|outer| all.get_mut(outer.detail.as_deref()?)) {
                    sums.own = sums.own.saturating_sub(range.nanos);
                }
                around.push(range);
                add(&mut all, &around, number(range, "flop"), 0.0);
            }
            "layer backward" => {
                let path = range.detail.as_deref().unwrap_or_default();
                for layer in within(path) {
                    if let Some(sums) = all.get_mut(layer) {
                        sums.backward += range.nanos;
                    }
                }
            }
            "kernel" => add(&mut all, &around, 0.0, number(range, "bytes")),
            _ => {}
        }
    }
    let own: u64 = all.values().map(|sums| sums.own).sum();
    let row = |path: &str| {
        let Sums { nanos, own: nanos_own, flop, bytes, kept, backward } = all.remove(path)?;
        let time = Statistics::of(nanos)?;
        let each = |sum: f64| sum / time.count as f64;
        Some(LayerRow {
            path: path.to_owned(),
            own: nanos_own as f64 * 1e-9,
            share: nanos_own as f64 / (own as f64).max(1.0),
            flop: each(flop),
            bytes: each(bytes),
            kept: each(kept),
            backward: each(backward as f64 * 1e-9),
            time,
        })
    };
    order.into_iter().filter_map(row).collect()
}

/// A layer and the layers that contain it: `a.b.c`, `a.b`, `a`.
fn within(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('.').map(|(outer, _)| outer))
}

/// Adds a range's time to all layers around it.
fn add(all: &mut HashMap<&str, Sums>, around: &[&Range], flop: f64, bytes: f64) {
    for layer in around {
        if let Some(sums) = layer.detail.as_deref().and_then(|path| all.get_mut(path)) {
            sums.flop += flop;
            sums.bytes += bytes;
        }
    }
}

fn number(range: &Range, wanted: &str) -> f64 {
    match range.fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value) {
        Some(Value::Number(value)) => *value as f64,
        Some(Value::Float(value)) => *value,
        _ => 0.0,
    }
}

/// Formats a table for the user.
pub fn table(rows: &[LayerRow]) -> String {
    let width = rows.iter().map(|row| row.path.chars().count()).chain([5]).max().unwrap_or_default();
    let heads = ["passes", "ms each", "own s", "share", "GFLOP", "GFLOP/s", "MB moved", "MiB kept", "ms back"];
    let mut text = format!("{:<width$}", "layer");
    heads.iter().for_each(|head| text.push_str(&format!(" {head:>9}")));
    text.push('\n');
    for row in rows {
        let Statistics { count, mean, .. } = row.time;
        let of = |value: f64, digits: usize| if value > 0.0 { format!("{value:.digits$}") } else { "-".to_owned() };
        let rate = if mean > 0.0 { row.flop / mean * 1e-9 } else { 0.0 };
        text.push_str(&format!("{:<width$} {count:>9} {:>9.3} {:>9.3}", row.path, mean * 1e3, row.own));
        text.push_str(&format!(" {:>7.1} % {:>9} {:>9}", row.share * 100.0, of(row.flop * 1e-9, 3), of(rate, 1)));
        text.push_str(&format!(" {:>9} {:>9.1}", of(row.bytes * 1e-6, 1), row.kept / 1_048_576.0));
        text.push_str(&format!(" {:>9}\n", of(row.backward * 1e3, 3)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &'static str, detail: &str, start: u64, nanos: u64, number: (&'static str, i64)) -> Range {
        let (detail, fields) = (Some(detail.into()), vec![(number.0, Value::Number(number.1))]);
        let memory = [start, start + nanos];
        Range { name, detail, fields, thread: 0, start, nanos, memory }
    }

    #[test]
    fn a_layer_has_what_is_within_it_and_its_own_time_without() {
        let layer = |path, start, nanos, flop| range("layer", path, start, nanos, ("flop", flop));
        let mut ranges = Vec::new();
        for begin in [0, 1000] {
            ranges.extend([
                layer("model.0", begin, 100, 0),
                layer("model.0.conv", begin + 10, 60, 500),
                range("kernel", "conv", begin + 20, 40, ("bytes", 80)),
                layer("model.0.adn.N", begin + 75, 20, 0),
                range("kernel", "normalize", begin + 76, 18, ("bytes", 30)),
                range("layer backward", "model.0.adn.N", begin + 200, 30, ("", 0)),
                range("layer backward", "model.0.conv", begin + 230, 100, ("", 0)),
            ]);
        }
        // Validations are not counted.
        ranges.push(range("validation", "", 2000, 1000, ("flop", 0)));
        ranges.push(layer("model.0", 2100, 900, 0));
        let timeline = Timeline { ranges, threads: vec!["main".into()], nanos: 3000, lost: 0 };
        let rows = layers(&timeline);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.path.as_str(), row.time.count, (row.own * 1e9).round(), row.flop, row.bytes, row.kept))
            .collect();
        let expected = [
            ("model.0", 2, 40.0, 500.0, 110.0, 100.0),
            ("model.0.conv", 2, 120.0, 500.0, 80.0, 60.0),
            ("model.0.adn.N", 2, 40.0, 0.0, 30.0, 20.0),
        ];
        let backward: Vec<f64> = rows.iter().map(|row| (row.backward * 1e9).round()).collect();
        assert_eq!(backward, [130.0, 100.0, 30.0]);
        assert_eq!(found, expected);
        assert!((rows.iter().map(|row| row.share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(table(&rows).contains("model.0.adn.N"), "{}", table(&rows));
        // A recording of a validation alone.
        let alone = Timeline { ranges: timeline.ranges[14..].to_vec(), ..timeline };
        assert!((layers(&alone)[0].time.max - 900e-9).abs() < 1e-15);
        assert!(layers(&Timeline::default()).is_empty());
    }
}
