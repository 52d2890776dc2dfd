//! Metrics of a server, in the text format of Prometheus: [`Metrics`].

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::journal::unix;

/// Upper bounds of the histograms, in seconds.
const BOUNDS: [f64; 14] = [0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// The name of a series, and the values of its labels.
type Series = (&'static str, Vec<String>);

/// All metrics. No label contains a client's text, so the number of series is bounded.
#[derive(Debug)]
pub struct Metrics {
    counters: Mutex<BTreeMap<Series, u64>>,
    times: Mutex<BTreeMap<Series, Histogram>>,
    /// The total bytes of requests.
    pub received: AtomicU64,
    started: SystemTime,
}

/// A metric: its name, its help, the names of its labels.
struct About(&'static str, &'static str, &'static [&'static str]);

const COUNTERS: [About; 5] = [
    About("hearth_http_requests_total", "Requests that were answered.", &["route", "method", "status"]),
    About("hearth_predictions_total", "Predictions by outcome: done, input, failed, panic.", &["model", "outcome"]),
    About("hearth_refused_total", "Requests that were refused: queue, spool, stopping, token.", &["why"]),
    About("hearth_abandoned_total", "Requests whose client left, or waited too long.", &["when"]),
    About("hearth_dicom_total", "Events of the DICOM listener.", &["event"]),
];

const TIMES: [About; 3] = [
    About("hearth_http_request_seconds", "From the head of a request to that of its answer.", &["route"]),
    About("hearth_prediction_seconds", "Computation of a prediction.", &["model"]),
    About("hearth_queue_seconds", "Time in the queue.", &["model"]),
];

#[derive(Clone, Copy, Debug, Default)]
struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

/// Current values, measured at the time of the query.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// The number of requests that wait for the computation.
    pub waiting: usize,
    /// The number of predictions that are being computed.
    pub running: usize,
    /// The maximum number of waiting requests.
    pub queue: usize,
    /// The bytes of temporary files.
    pub spool: u64,
    /// The number of sessions.
    pub sessions: usize,
    /// The number of open connections.
    pub connections: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            counters: Mutex::default(),
            times: Mutex::default(),
            received: AtomicU64::new(0),
            started: SystemTime::now(),
        }
    }
}

impl Metrics {
    fn count(&self, name: &'static str, labels: Vec<String>) {
        let mut counters = self.counters.lock().unwrap_or_else(|held| held.into_inner());
        *counters.entry((name, labels)).or_default() += 1;
    }

    fn time(&self, name: &'static str, labels: Vec<String>, took: Duration) {
        let mut times = self.times.lock().unwrap_or_else(|held| held.into_inner());
        let histogram = times.entry((name, labels)).or_default();
        let seconds = took.as_secs_f64();
        histogram.count += 1;
        histogram.sum += seconds;
        for (bound, count) in BOUNDS.iter().zip(&mut histogram.counts) {
            *count += u64::from(seconds <= *bound);
        }
    }

    /// Records an answered request.
    pub fn answered(&self, route: &str, method: &str, status: u16, took: Duration) {
        self.count(COUNTERS[0].0, vec![route.to_owned(), method.to_owned(), status.to_string()]);
        self.time(TIMES[0].0, vec![route.to_owned()], took);
    }

    /// Records the end of a prediction.
    pub fn predicted(&self, model: &str, outcome: &str, took: Duration) {
        self.count(COUNTERS[1].0, vec![model.to_owned(), outcome.to_owned()]);
        self.time(TIMES[1].0, vec![model.to_owned()], took);
    }

    /// Records that a request left the queue.
    pub fn waited(&self, model: &str, took: Duration) {
        self.time(TIMES[2].0, vec![model.to_owned()], took);
    }

    /// Records a refused request.
    pub fn refused(&self, why: &str) {
        self.count(COUNTERS[2].0, vec![why.to_owned()]);
    }

    /// Records an abandoned request.
    pub fn abandoned(&self, when: &str) {
        self.count(COUNTERS[3].0, vec![when.to_owned()]);
    }

    /// Records an event of the DICOM listener.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn dicom(&self, event: &str) {
        self.count(COUNTERS[4].0, vec![event.to_owned()]);
    }

    /// The mean time of the predictions so far; `None` before the first.
    pub fn mean_prediction(&self) -> Option<Duration> {
        let times = self.times.lock().unwrap_or_else(|held| held.into_inner());
        let own = times.iter().filter(|((name, _), _)| *name == TIMES[1].0);
        let (count, sum) = own.fold((0, 0.0), |(count, sum), (_, one)| (count + one.count, sum + one.sum));
        (count > 0).then(|| Duration::from_secs_f64(sum / count as f64))
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self, gauges: Gauges) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, gauges);
        text
    }

    fn write(&self, out: &mut String, gauges: Gauges) -> fmt::Result {
        let counters = self.counters.lock().unwrap_or_else(|held| held.into_inner());
        for About(name, help, labels) in &COUNTERS {
            head(out, name, help, "counter")?;
            for ((_, values), count) in counters.iter().filter(|((of, _), _)| of == name) {
                writeln!(out, "{name}{} {count}", labelled(labels, values, None))?;
            }
        }
        let times = self.times.lock().unwrap_or_else(|held| held.into_inner());
        for About(name, help, labels) in &TIMES {
            head(out, name, help, "histogram")?;
            for ((_, values), histogram) in times.iter().filter(|((of, _), _)| of == name) {
                for (bound, count) in BOUNDS.iter().zip(histogram.counts) {
                    writeln!(out, "{name}_bucket{} {count}", labelled(labels, values, Some(&bound.to_string())))?;
                }
                writeln!(out, "{name}_bucket{} {}", labelled(labels, values, Some("+Inf")), histogram.count)?;
                writeln!(out, "{name}_sum{} {}", labelled(labels, values, None), histogram.sum)?;
                writeln!(out, "{name}_count{} {}", labelled(labels, values, None), histogram.count)?;
            }
        }
        let mut gauge = |name: &str, help: &str, value: u64| {
            head(out, name, help, "gauge")?;
            writeln!(out, "{name} {value}")
        };
        gauge("hearth_queue_waiting", "Requests that wait for the computation.", gauges.waiting as u64)?;
        gauge("hearth_queue_running", "Predictions that are computed.", gauges.running as u64)?;
        gauge("hearth_queue_limit", "Requests that may wait.", gauges.queue as u64)?;
        gauge("hearth_spool_bytes", "Bytes of temporary files.", gauges.spool)?;
        gauge("hearth_sessions", "Sessions of clients.", gauges.sessions as u64)?;
        gauge("hearth_connections", "Open connections.", gauges.connections as u64)?;
        gauge("process_start_time_seconds", "Start of the server since 1970.", unix(self.started))?;
        if let Some(bytes) = hearth_machine::resident() {
            gauge("process_resident_memory_bytes", "Memory of the process.", bytes)?;
        }
        if let Some(bytes) = hearth_machine::peak_resident() {
            gauge("hearth_peak_resident_memory_bytes", "The most memory of the process so far.", bytes)?;
        }
        let received = self.received.load(Ordering::Relaxed);
        head(out, "hearth_received_bytes_total", "Bytes of uploads.", "counter")?;
        writeln!(out, "hearth_received_bytes_total {received}")
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")
}

/// Labels as `{a="x",le="1"}`.
fn labelled(names: &[&str], values: &[String], bound: Option<&str>) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let own = names.iter().zip(values).map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let all: Vec<String> = own.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_prometheus() {
        let metrics = Metrics::default();
        metrics.answered("/infer/{model}", "POST", 200, Duration::from_millis(300));
        metrics.predicted("a\"b", "done", Duration::from_millis(200));
        metrics.predicted("a\"b", "done", Duration::from_secs(1000));
        let text = metrics.text(Gauges { waiting: 3, ..Gauges::default() });
        for line in [
            "# TYPE hearth_http_request_seconds histogram",
            "hearth_http_requests_total{route=\"/infer/{model}\",method=\"POST\",status=\"200\"} 1",
            "hearth_prediction_seconds_bucket{model=\"a\\\"b\",le=\"0.25\"} 1",
            "hearth_prediction_seconds_bucket{model=\"a\\\"b\",le=\"600\"} 1",
            "hearth_prediction_seconds_bucket{model=\"a\\\"b\",le=\"+Inf\"} 2",
            "hearth_prediction_seconds_count{model=\"a\\\"b\"} 2",
            "hearth_queue_waiting 3",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert_eq!(metrics.mean_prediction(), Some(Duration::from_millis(500_100)));
    }
}
