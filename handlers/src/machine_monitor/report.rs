//! The content of `machine.json`.

use hearth_machine::About;
use serde_json::{Map, Value, json};

use super::phases::Phase;
use super::record::Record;
use super::sums::{Stat, Used};

/// The use of the machine by a run.
pub(super) fn report(record: &Record, about: &About, every_seconds: f64) -> Value {
    let sums = &record.sums;
    let columns: Map<String, Value> =
        record.names.iter().zip(&sums.stats).map(|(name, stat)| (name.clone(), column(*stat))).collect();
    let gpus = about.gpus.iter().enumerate().map(|(number, gpu)| {
        json!({
            "columns": format!("gpu{number}"),
            "vendor": gpu.vendor.to_string(),
            "name": gpu.name,
            "memory_bytes": gpu.memory,
        })
    });
    let mut energy = energy(&sums.total);
    for (column, joules) in &sums.gpus {
        let gpu = record.names[*column].split('_').next().unwrap_or_default();
        energy[gpu] = rounded(*joules);
    }
    let phases = Phase::ALL.iter().filter_map(|phase| Some((phase.name().to_owned(), used(sums.by_phase.get(phase)?))));
    let epochs = sums.by_epoch.iter().map(|(epoch, part)| {
        let mut entry = json!({ "epoch": epoch });
        merge(&mut entry, used(part));
        entry
    });
    json!({
        "rows": sums.rows,
        "parts": record.last.as_ref().map_or(0, |row| row.part),
        "every_seconds": every_seconds,
        "seconds": rounded(Some(sums.total.seconds)),
        "machine": { "cores": about.cores, "memory_bytes": about.memory },
        "gpus": gpus.collect::<Vec<_>>(),
        "columns": columns,
        "energy_joules": energy,
        "phases": phases.collect::<Map<_, _>>(),
        "epochs": epochs.collect::<Vec<_>>(),
    })
}

/// A column's statistics; `null` if nothing was measured.
fn column(stat: Option<Stat>) -> Value {
    stat.map_or(Value::Null, |Stat { count, sum, min, max, max_at }| {
        json!({
            "mean": rounded(Some(sum / count as f64)),
            "min": rounded(Some(min)),
            "max": rounded(Some(max)),
            "max_at_s": rounded(Some(max_at)),
        })
    })
}

/// The energy of all GPUs and of the CPUs.
fn energy(part: &Used) -> Value {
    json!({ "gpus": rounded(part.gpu_joules), "cpu_packages": rounded(part.package_joules) })
}

fn used(part: &Used) -> Value {
    let mut entry = json!({ "seconds": rounded(Some(part.seconds)) });
    merge(&mut entry, json!({ "energy_joules": energy(part) }));
    entry
}

fn merge(entry: &mut Value, more: Value) {
    if let (Value::Object(entry), Value::Object(more)) = (entry, more) {
        entry.extend(more);
    }
}

/// Rounds to three decimal places, the precision of sensors and clocks.
fn rounded(value: Option<f64>) -> Value {
    value.filter(|value| value.is_finite()).map_or(Value::Null, |value| json!((value * 1e3).round() / 1e3))
}
