//! How much time may go into choosing kernels for a GPU: [`Tune`].

/// How much time may go into choosing kernels for a GPU (feature `tuned`; without it, and on the
/// CPU, nothing is chosen and this changes nothing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tune {
    /// None: of each kind of work the first kernel that can do it, unless an earlier run has chosen
    /// one. Right for drivers in software, where compiling and timing a kernel takes seconds.
    Off,
    /// Little: sizes that are near each other share a choice, and the first kernel that comes near
    /// the card's peak is taken.
    Quick,
    /// All: every size is a choice of its own, between all kernels.
    Full,
}

impl Tune {
    /// Holds for this process from now on. How sizes are grouped is settled by the first choice, so
    /// say it before the first work on a GPU.
    pub fn set(self) {
        #[cfg(tuned_gpu)]
        cube::set(self);
    }
}

#[cfg(tuned_gpu)]
mod cube {
    use std::sync::Arc;

    use cubecl::config::autotune::{AutotuneConfig, AutotuneLevel, BenchConfig};
    use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
    use serde_json::Value;

    use super::Tune;

    /// The switch of CubeCL that takes kernels untimed, see `third_party/README.md`.
    const UNTIMED: &str = "untimed";

    pub fn set(tune: Tune) {
        let mut config = CubeClRuntimeConfig::get().as_ref().clone();
        config.autotune = settings(config.autotune, tune);
        *CubeClRuntimeConfig::storage().lock() = Some(Arc::new(config));
    }

    pub fn settings(mut autotune: AutotuneConfig, tune: Tune) -> AutotuneConfig {
        autotune.level = if tune == Tune::Full { AutotuneLevel::Full } else { AutotuneLevel::Minimal };
        if tune == Tune::Off {
            // What a CubeCL without the switch can do: every kernel is compiled, and timed once.
            autotune.bench = BenchConfig { min_samples: 1, max_samples: 1, short_circuit_samples: 1, ..autotune.bench };
        }
        untimed(&autotune, tune == Tune::Off).unwrap_or(autotune)
    }

    /// By its name, so that this also builds with the CubeCL of the registry, which lacks it.
    fn untimed(autotune: &AutotuneConfig, on: bool) -> Option<AutotuneConfig> {
        let mut fields = serde_json::to_value(autotune).ok()?;
        *fields.get_mut(UNTIMED)? = Value::Bool(on);
        serde_json::from_value(fields).ok()
    }

    #[cfg(test)]
    pub fn is_untimed(autotune: &AutotuneConfig) -> bool {
        serde_json::to_value(autotune).is_ok_and(|fields| fields[UNTIMED] == Value::Bool(true))
    }
}

#[cfg(all(test, tuned_gpu))]
mod tests {
    use super::Tune;
    use super::cube::{is_untimed, settings};

    #[test]
    fn off_takes_kernels_untimed_and_the_others_do_not() {
        let off = settings(Default::default(), Tune::Off);
        assert!(is_untimed(&off), "this workspace's CubeCL has the switch");
        assert!(!is_untimed(&settings(off.clone(), Tune::Quick)), "it can be turned on again");
        let full = settings(off, Tune::Full);
        assert!(matches!(full.level, cubecl::config::autotune::AutotuneLevel::Full) && !is_untimed(&full));
    }

    /// Some of a network's kinds of work; none of it is timed, and it is right.
    #[cfg(feature = "vulkan")]
    #[test]
    #[ignore = "needs a Vulkan driver"]
    fn nothing_is_timed_with_off_on_vulkan() {
        use burn::tensor::{Device, DeviceKind, Tensor, TensorData};
        Tune::Off.set();
        let clock = crate::TuningClock::start();
        let work = |device: &Device| {
            let values: Vec<f32> = (0..37 * 65).map(|i| (i as f32 * 0.37).sin()).collect();
            let x = Tensor::<2>::from_data(TensorData::new(values, [37, 65]), device);
            let product = x.clone().matmul(x.clone().transpose());
            product.sum_dim(1).into_data().try_to_vec::<f32>().expect("numbers")
        };
        let (here, there) = (work(&Device::flex()), work(&Device::vulkan(DeviceKind::DefaultDevice)));
        for (a, b) in here.iter().zip(&there) {
            assert!((a - b).abs() < 1e-3, "{a} {b}");
        }
        assert_eq!(clock.spent().kernels, 0);
    }
}
