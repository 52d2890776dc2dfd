//! A load test with four clients at once. `HEARTH_LOAD=600` runs it for ten minutes:
//! `HEARTH_LOAD=600 cargo test --release -p hearth-serve -p build-once --test load -- --nocapture`

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hearth_serve::Options;
use support::Running;

const CLIENTS: u64 = 4;
/// The maximum growth of the process after the warm-up. The clients are in the same process.
const GROWTH: u64 = 48 << 20;

#[test]
fn memory_is_flat_and_no_request_is_lost() {
    let seconds = std::env::var("HEARTH_LOAD").ok().map_or(3.0, |text| text.parse::<f64>().expect("seconds"));
    let server = Running::start(Options::default());
    let (done, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    let round = |until: Instant| {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (server, done, sent) = (&server, &done, &sent);
                scope.spawn(move || {
                    let mut round = client;
                    while Instant::now() < until {
                        round += 1;
                        // From some bytes to some megabytes.
                        let size = (round * 2_654_435_761) % (1 << (8 + round % 15));
                        let body: Vec<u8> = (0..size.max(1)).map(|i| (i * 31 + round) as u8 | 1).collect();
                        let mut expected = body.clone();
                        expected.reverse();
                        let reply = match round % 3 {
                            0 => server.form("POST", "/infer/reverse?output=image", &[], &[("file", "a.nii", &body)]),
                            _ => server.post("/predict/reverse", &body),
                        };
                        sent.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(reply.status, 200, "{}", reply.head);
                        assert!(reply.body == expected, "another client's result, or a part of it");
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    };
    round(Instant::now() + Duration::from_secs_f64(seconds / 3.0));
    let warm = hearth_machine::resident();
    round(Instant::now() + Duration::from_secs_f64(seconds * 2.0 / 3.0));
    let (sent, done) = (sent.load(Ordering::Relaxed), done.load(Ordering::Relaxed));
    let text = server.get("/metrics").text();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned());
    let counted =
        value("hearth_predictions_total{model=\"reverse\",outcome=\"done\"}").and_then(|text| text.parse().ok());
    assert_eq!((sent, counted), (done, Some(done)), "each request was computed once");
    assert_eq!(value("hearth_spool_bytes").as_deref(), Some("0"), "no temporary file stays");
    assert!(!text.contains("hearth_abandoned_total{") && !text.contains("hearth_refused_total{"), "{text}");
    let after = hearth_machine::resident();
    println!("{CLIENTS} clients, {seconds} s: {done} requests, memory {warm:?} -> {after:?} bytes");
    if let (Some(warm), Some(after)) = (warm, after) {
        assert!(after < warm + GROWTH, "memory grew from {warm} to {after} bytes");
    }
}
