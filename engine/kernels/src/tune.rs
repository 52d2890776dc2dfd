//! The time spent on choosing kernels for a GPU: [`Tune`].

/// The time that may be spent on choosing kernels for a GPU (feature `tuned`; without it, and on
/// the CPU, nothing is chosen and this has no effect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tune {
    /// None: the first supported kernel for each kind of work, unless an earlier run has chosen
    /// one. Suitable for software drivers, where compiling and timing a kernel takes seconds.
    Off,
    /// Little: similar sizes share a choice, and the first kernel close to the GPU's peak is used.
    Quick,
    /// All: every size has a separate choice among all kernels.
    Full,
}

impl Tune {
    /// Applies the setting to this process from now on. The first choice fixes the grouping of
    /// sizes, so call it before the first work on a GPU.
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

    /// The switch of CubeCL that uses kernels without timing them, see `third_party/README.md`.
    const UNTIMED: &str = "untimed";

    pub fn set(tune: Tune) {
        let mut config = CubeClRuntimeConfig::get().as_ref().clone();
        config.autotune = settings(config.autotune, tune);
        *CubeClRuntimeConfig::storage().lock() = Some(Arc::new(config));
    }

    pub fn settings(mut autotune: AutotuneConfig, tune: Tune) -> AutotuneConfig {
        autotune.level = if tune == Tune::Full { AutotuneLevel::Full } else { AutotuneLevel::Minimal };
        if tune == Tune::Off {
            // The fallback for a CubeCL without the switch: every kernel is compiled, and timed
            // once.
            autotune.bench = BenchConfig { min_samples: 1, max_samples: 1, short_circuit_samples: 1, ..autotune.bench };
        }
        untimed(&autotune, tune == Tune::Off).unwrap_or(autotune)
    }

    /// Set by its name, so that this also builds with the registry's CubeCL, which lacks it.
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

    /// Some kinds of work of a network: none of them is timed, and the results are correct.
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
