//! The time spent on finding a GPU's fastest kernels: [`TuningClock`].

use std::time::SystemTime;

/// The number of kernels chosen by benchmarking, and the time spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tuning {
    /// The number of choices; each is kept for later runs on the same GPU.
    pub kernels: usize,
    /// The time in seconds during which at least one choice was being made.
    pub seconds: f64,
}

/// Measures the tuning of this process from a point in time on.
///
/// Burn compiles and times several kernels for each product and convolution of a shape that is new
/// on this GPU model (feature `tuned`), within the first step that needs one. The clock separates
/// this time from that of the work. On the CPU, and without the feature, nothing is tuned.
///
/// ```
/// let clock = hearth_kernels::TuningClock::start();
/// assert_eq!(clock.spent(), hearth_kernels::Tuning::default());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TuningClock {
    #[cfg_attr(not(tuned_gpu), expect(dead_code, reason = "nothing is tuned"))]
    since: SystemTime,
}

impl TuningClock {
    /// Starts the clock.
    pub fn start() -> Self {
        TuningClock { since: SystemTime::now() }
    }

    /// The tuning since the start.
    pub fn spent(&self) -> Tuning {
        #[cfg(tuned_gpu)]
        {
            records::since(self.since)
        }
        #[cfg(not(tuned_gpu))]
        {
            Tuning::default()
        }
    }
}

/// CubeCL records how each choice was made, next to the choice.
#[cfg(tuned_gpu)]
mod records {
    use std::time::{Duration, SystemTime};

    use cubecl_environment::persistence::Database;
    use cubecl_environment::records::{Record, Records};
    use serde::Deserialize;

    use super::{Tuning, together};

    /// The required part of `cubecl_runtime::tune::TuneRecord`.
    #[derive(Deserialize)]
    struct Tuned {
        wall: Duration,
    }

    impl Record for Tuned {
        const KIND: &'static str = "autotune";
    }

    pub fn since(start: SystemTime) -> Tuning {
        let Some(database) = Database::open_active() else { return Tuning::default() };
        let records = Records::new(&database);
        let own: Vec<_> =
            records.sessions().into_iter().filter(|session| session.process == std::process::id()).collect();
        // Times are whole milliseconds.
        let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as f64 / 1e3;
        let times = records.read::<Tuned>().into_iter().filter_map(|tuned| {
            let session = own.iter().find(|session| session.id == tuned.stamp.session)?;
            let began = session.started_unix_ms as f64 / 1e3 + tuned.stamp.offset.as_secs_f64();
            (began >= start).then_some([began, began + tuned.record.wall.as_secs_f64()])
        });
        let times: Vec<[f64; 2]> = times.collect();
        Tuning { kernels: times.len(), seconds: together(times) }
    }
}

/// The time during which at least one of these spans is active.
#[cfg(any(test, tuned_gpu))]
fn together(mut spans: Vec<[f64; 2]>) -> f64 {
    spans.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let (mut sum, mut end) = (0.0, f64::NEG_INFINITY);
    for [start, stop] in spans {
        sum += (stop - start.max(end)).max(0.0);
        end = end.max(stop);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn spans_that_overlap_count_once() {
        assert_eq!(together(vec![]), 0.0);
        assert_eq!(together(vec![[5.0, 6.0], [0.0, 2.0], [1.0, 3.0], [1.5, 2.5]]), 4.0);
    }

    #[cfg(all(feature = "vulkan", feature = "tuned"))]
    #[test]
    #[ignore = "needs a Vulkan driver, and minutes on a software one"]
    fn tuning_is_told_apart_from_the_work_on_tuned_vulkan() {
        use burn::tensor::{Device, DeviceKind, Distribution, Tensor};
        let device = Device::vulkan(DeviceKind::DefaultDevice);
        // The device reads the settings at its start, including the path of the default store.
        let _ = Tensor::<1>::ones([4], &device).into_data();
        // An empty store.
        let store = std::env::temp_dir().join(format!("hearth-tuning-{}", std::process::id()));
        std::fs::create_dir_all(&store).expect("a folder for the store");
        cubecl_environment::environment::set_root(&store);
        let clock = super::TuningClock::start();
        let began = std::time::Instant::now();
        let product = || {
            let x = Tensor::<2>::random([37, 65], Distribution::Default, &device);
            x.clone().matmul(x.transpose()).into_data()
        };
        product();
        let (spent, took) = (clock.spent(), began.elapsed().as_secs_f64());
        eprintln!("{spent:?} of {took:.1} s");
        assert!(spent.kernels >= 1 && spent.seconds > 0.0 && spent.seconds <= took, "{spent:?} of {took} s");
        let later = super::TuningClock::start();
        product();
        std::fs::remove_dir_all(&store).expect("the store can be removed");
        assert_eq!(later.spent().kernels, 0, "what is known is not tuned again");
    }
}
