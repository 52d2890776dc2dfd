//! Throughput of the kernels of a timeline: [`KernelRow`].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::statistics::Statistics;
use crate::timeline::{Timeline, Value};

/// The measured peak performance of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Roof {
    /// Operations per second of a large matrix product.
    pub flop: f64,
    /// Bytes per second, read and written by all threads.
    pub bytes: f64,
}

/// The calls of a kernel with one shape.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelRow {
    /// The kernel's name.
    pub name: String,
    /// The shape that it works on.
    pub shape: String,
    /// The time of each call.
    #[serde(flatten)]
    pub time: Statistics,
    /// Operations per call.
    pub flop: f64,
    /// Minimum of bytes that a call reads and writes.
    pub bytes: f64,
    /// The fraction of the roof that is reached: the time that the roof allows for the operations
    /// or the bytes, whichever is longer, divided by the measured time.
    pub of_roof: Option<f64>,
}

/// The kernels of a timeline, sorted by total time in descending order.
pub fn kernels(timeline: &Timeline, roof: Option<Roof>) -> Vec<KernelRow> {
    let number = |value: Option<&Value>| match value {
        Some(Value::Number(value)) => *value as f64,
        Some(Value::Float(value)) => *value,
        _ => 0.0,
    };
    let mut all: BTreeMap<(String, String), (Vec<u64>, f64, f64)> = BTreeMap::new();
    for kernel in timeline.named("kernel") {
        let field = |wanted: &str| kernel.fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let name = kernel.detail.as_deref().unwrap_or_default().to_owned();
        let (nanos, flop, bytes) = all.entry((name, field("shape").map(Value::text).unwrap_or_default())).or_default();
        nanos.push(kernel.nanos);
        *flop += number(field("flop"));
        *bytes += number(field("bytes"));
    }
    let row = |((name, shape), (nanos, flop, bytes)): ((String, String), (Vec<u64>, f64, f64))| {
        let time = Statistics::of(nanos)?;
        let least = roof.map(|roof| (flop / roof.flop).max(bytes / roof.bytes));
        let of_roof = least.filter(|least| least.is_finite() && time.total > 0.0).map(|least| least / time.total);
        let count = time.count as f64;
        Some(KernelRow { name, shape, time, flop: flop / count, bytes: bytes / count, of_roof })
    };
    let mut rows: Vec<KernelRow> = all.into_iter().filter_map(row).collect();
    rows.sort_by(|a, b| b.time.total.total_cmp(&a.time.total));
    rows
}

/// Formats a table for the user.
pub fn table(rows: &[KernelRow]) -> String {
    let width = |of: fn(&KernelRow) -> &str, title: &str| {
        rows.iter().map(|row| of(row).chars().count()).chain([title.len()]).max().unwrap_or_default()
    };
    let (names, shapes) = (width(|row| &row.name, "kernel"), width(|row| &row.shape, "shape"));
    let heads = ["calls", "total s", "ms each", "GFLOP/s", "GB/s", "of roof"];
    let mut text = format!("{:<names$}  {:<shapes$}", "kernel", "shape");
    heads.iter().for_each(|head| text.push_str(&format!(" {head:>9}")));
    text.push('\n');
    for row in rows {
        let Statistics { count, total, mean, .. } = row.time;
        let rate = |of: f64| if of > 0.0 && mean > 0.0 { format!("{:.1}", of / mean * 1e-9) } else { "-".to_owned() };
        let share = row.of_roof.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        text.push_str(&format!("{:<names$}  {:<shapes$} {count:>9} {total:>9.3}", row.name, row.shape));
        text.push_str(&format!(" {:>9.3} {:>9} {:>9} {share:>9}\n", mean * 1e3, rate(row.flop), rate(row.bytes)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Range;

    #[test]
    fn a_kernel_is_held_against_the_lower_roof() {
        let kernel = |start, flop: i64, bytes: i64| Range {
            name: "kernel",
            detail: Some("conv".into()),
            fields: vec![
                ("shape", Value::Text("8".into())),
                ("flop", Value::Number(flop)),
                ("bytes", Value::Number(bytes)),
            ],
            thread: 0,
            start,
            nanos: 500_000_000,
            memory: [0; 2],
        };
        let of = |flop, bytes| {
            let ranges = vec![kernel(0, flop, bytes), kernel(1, flop, bytes)];
            let timeline = Timeline { ranges, ..Timeline::default() };
            kernels(&timeline, Some(Roof { flop: 1000.0, bytes: 100.0 })).remove(0)
        };
        let bound = of(400, 10);
        assert_eq!((bound.time.count, bound.flop, bound.bytes, bound.of_roof), (2, 400.0, 10.0, Some(0.8)));
        assert_eq!(of(100, 30).of_roof, Some(0.6), "bytes take longer than operations");
        assert!(table(&[bound]).lines().nth(1).expect("a row").ends_with("80 %"));
    }
}
