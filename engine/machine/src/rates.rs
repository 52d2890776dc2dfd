//! Turns counters into rates: [`Rates`] makes a [`Sample`] from two readings.

use std::time::{Duration, Instant};

use crate::gpu::GpuReading;
use crate::probe::Reading;

/// The activity of a machine at one time. Rates are means since the previous sample, and `None` in
/// the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The time of the sample, on a monotonic clock.
    pub at: Instant,
    /// CPU time of the process in percent of one core: 200 where two threads compute.
    pub cpu_percent: Option<f64>,
    /// Resident memory of the process (RSS) in bytes.
    pub memory: Option<u64>,
    /// Bytes read from disks per second.
    pub read_per_second: Option<f64>,
    /// Bytes written to disks per second.
    pub written_per_second: Option<f64>,
    /// Free memory of the machine in bytes.
    pub free_memory: Option<u64>,
    /// Power of all CPUs in watts.
    pub package_power: Option<f64>,
    /// The readings of the GPUs; `None` for a GPU that did not answer.
    pub gpus: Vec<Option<GpuReading>>,
    /// Faults that occurred for the first time: GPUs that no longer answer.
    pub faults: Vec<String>,
}

/// Makes samples from readings.
#[derive(Debug)]
pub struct Rates {
    /// Shorter intervals are too short: CPU time is counted in steps of 10 ms.
    shortest: Duration,
    before: Option<Reading>,
    last: Option<Reading>,
    /// Whether the GPU has failed already.
    failed: Vec<bool>,
}

impl Rates {
    /// Makes rates for readings at this interval. A reading that follows sooner (the last one of
    /// all) is compared with the one before the previous.
    pub fn new(every: Duration) -> Self {
        Self { shortest: every / 2, before: None, last: None, failed: Vec::new() }
    }

    /// The sample of a reading, given the readings before it.
    pub fn sample(&mut self, reading: Reading) -> Sample {
        let soon = self.last.as_ref().is_some_and(|last| reading.at - last.at < self.shortest);
        let base = if soon && self.before.is_some() { &self.before } else { &self.last };
        let seconds = base.as_ref().map(|base| reading.at.saturating_duration_since(base.at).as_secs_f64());
        let rate = |counter: fn(&Reading) -> Option<f64>| {
            let (now, then) = (counter(&reading)?, counter(base.as_ref()?)?);
            seconds.filter(|seconds| *seconds > 0.0).map(|seconds| (now - then).max(0.0) / seconds)
        };
        let cpu_percent = rate(|reading| Some(reading.process?.cpu_seconds * 100.0));
        let read_per_second = rate(|reading| Some(reading.process?.read as f64));
        let written_per_second = rate(|reading| Some(reading.process?.written as f64));
        let package_power = rate(|reading| reading.package_joules);
        self.failed.resize(reading.gpus.len(), false);
        let failures = reading.gpus.iter().zip(&mut self.failed).filter_map(|(gpu, failed)| {
            let error = gpu.as_ref().err()?;
            (!std::mem::replace(failed, true)).then(|| error.clone())
        });
        let faults = failures.collect();
        let sample = Sample {
            at: reading.at,
            cpu_percent,
            memory: reading.process.map(|process| process.memory),
            read_per_second,
            written_per_second,
            free_memory: reading.free_memory,
            package_power,
            gpus: reading.gpus.iter().map(|gpu| gpu.as_ref().ok().copied()).collect(),
            faults,
        };
        self.before = self.last.replace(reading);
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessReading;

    fn reading(at: Instant, cpu_seconds: f64, bytes: u64, joules: f64) -> Reading {
        let process = ProcessReading { cpu_seconds, memory: 5, read: bytes, written: 3 * bytes };
        Reading { at, process: Some(process), free_memory: Some(9), package_joules: Some(joules), gpus: vec![] }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let start = Instant::now();
        let second = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut rates = Rates::new(Duration::from_secs(2));
        let first = rates.sample(reading(second(0.0), 7.0, 1000, 10.0));
        assert_eq!((first.cpu_percent, first.read_per_second, first.package_power), (None, None, None));
        assert_eq!((first.memory, first.free_memory), (Some(5), Some(9)));
        // 3 of 2 s on two cores, 500 bytes, 30 J.
        let next = rates.sample(reading(second(2.0), 10.0, 1500, 40.0));
        assert_eq!((next.cpu_percent, next.package_power), (Some(150.0), Some(15.0)));
        assert_eq!((next.read_per_second, next.written_per_second), (Some(250.0), Some(750.0)));
        // The last one, 1 ms later, is compared with the one before the previous.
        let last = rates.sample(reading(second(2.001), 10.01, 1500, 40.0));
        assert!((last.cpu_percent.unwrap() - 3.01 / 2.001 * 100.0).abs() < 1e-6, "{last:?}");
        // A clock that does not advance, and a counter that goes back.
        let mut odd = Rates::new(Duration::ZERO);
        odd.sample(reading(start, 1.0, 10, 1.0));
        assert_eq!(odd.sample(reading(start, 2.0, 10, 1.0)).cpu_percent, None);
        assert_eq!(odd.sample(reading(second(1.0), 1.0, 10, 1.0)).cpu_percent, Some(0.0));
    }

    #[test]
    fn a_gpu_that_fails_is_reported_once() {
        let at = Instant::now();
        let mut rates = Rates::new(Duration::from_secs(1));
        let mut look = |gpus: Vec<Result<GpuReading, String>>| {
            let sample = rates.sample(Reading { gpus, ..reading(at, 0.0, 0, 0.0) });
            (sample.gpus.iter().map(Option::is_some).collect::<Vec<_>>(), sample.faults)
        };
        let (works, fails) = (Ok(GpuReading::default()), |n: u32| Err(format!("lost {n}")));
        assert_eq!(look(vec![works.clone(), works.clone()]), (vec![true, true], vec![]));
        assert_eq!(look(vec![works.clone(), fails(1)]), (vec![true, false], vec!["lost 1".to_owned()]));
        assert_eq!(look(vec![fails(0), fails(1)]), (vec![false, false], vec!["lost 0".to_owned()]));
        assert_eq!(look(vec![works.clone(), fails(1)]), (vec![true, false], vec![]));
    }
}
