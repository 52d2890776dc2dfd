//! The memory limit of a cache: [`Budget`].

use hearth_registry::Fault;

use super::{CachePlace, CacheRun};
use crate::dataset::free_memory;

/// The free memory that is assumed for a device that does not report it.
const UNKNOWN: u64 = 4 << 30;

/// The memory limit of a cache, as in its table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Budget {
    pub place: CachePlace,
    /// Limit in GiB.
    pub limit: Option<f64>,
    /// Fraction of a device's free memory.
    pub part: f64,
}

impl Budget {
    /// The default of `part`: half, so that the rest is for the training.
    pub const PART: f64 = 0.5;

    /// The limit in bytes; `None` if the cache determines this machine's free memory itself. A
    /// limit in host memory is for all ranks of the machine.
    pub fn bytes(&self, run: &CacheRun) -> Option<u64> {
        let on_host = self.place == CachePlace::Host || hearth_kernels::host::is_host(&run.device);
        let sharing = if on_host { run.ranks_here.max(1) as u64 } else { 1 };
        match self.limit {
            Some(gib) => Some((gib * (1_u64 << 30) as f64) as u64 / sharing),
            None if on_host => (sharing > 1).then(|| free_memory() / sharing),
            None => Some(self.of_device(run.free)),
        }
    }

    /// The limit in bytes, also if the cache would determine it itself.
    pub fn most(&self, run: &CacheRun) -> u64 {
        let on_host = self.place == CachePlace::Host || hearth_kernels::host::is_host(&run.device);
        let free = if on_host { free_memory() } else { u64::MAX };
        self.bytes(run).map_or(free, |bytes| bytes.min(free))
    }

    /// The fraction of a device's free memory.
    fn of_device(&self, free: Option<u64>) -> u64 {
        let free = free.unwrap_or_else(|| {
            tracing::warn!("the device does not report its free memory: 4 GiB are assumed; set `limit_gib`");
            UNKNOWN
        });
        (free as f64 * self.part) as u64
    }

    pub fn check(&self) -> Result<(), Fault> {
        if let Some(limit) = self.limit.filter(|limit| *limit <= 0.0 || !limit.is_finite()) {
            return Err(Fault::at("limit_gib", format!("{limit} GiB is too little; give more than 0")));
        }
        if !(self.part > 0.0 && self.part <= 1.0) {
            let message = format!("{} is not a part of the device's memory; give more than 0 and at most 1", self.part);
            return Err(Fault::at("device_part", message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::Progress;

    fn run(device: Device, free: Option<u64>) -> CacheRun {
        CacheRun { device, progress: Progress::None, whole: false, free, beside: 0, ranks_here: 1 }
    }

    #[test]
    fn a_limit_that_is_said_wins_and_the_host_finds_out_for_itself() {
        let device = hearth_image::host_device();
        let budget = |place, limit| Budget { place, limit, part: 0.5 };
        assert_eq!(budget(CachePlace::Same, Some(1.5)).bytes(&run(device.clone(), Some(8))), Some(3 << 29));
        assert_eq!(budget(CachePlace::Host, None).bytes(&run(device.clone(), Some(8))), None);
        assert_eq!(budget(CachePlace::Host, Some(1.5)).most(&run(device.clone(), None)), 3 << 29);
        let most = budget(CachePlace::Host, Some(1e9)).most(&run(device.clone(), None));
        assert!(most < 1 << 50, "no more than there is: {most}");
        assert_eq!(budget(CachePlace::Same, None).bytes(&run(device, Some(8))), None, "a processor's is the host's");
    }

    /// Two ranks on one machine may together not use more than it has.
    #[test]
    fn the_ranks_of_a_machine_share_its_memory() {
        let of = |place, limit, ranks_here| {
            let run = CacheRun { ranks_here, ..run(hearth_image::host_device(), None) };
            Budget { place, limit, part: 0.5 }.bytes(&run)
        };
        assert_eq!(of(CachePlace::Host, Some(3.0), 2), Some(3 << 29));
        assert_eq!(of(CachePlace::Same, Some(3.0), 3), Some(1 << 30));
        let (alone, eighth) = (free_memory(), of(CachePlace::Host, None, 8).expect("a share"));
        assert!(eighth > 0 && eighth < alone / 4, "{eighth} of {alone}");
    }

    #[test]
    fn a_device_gives_a_part_of_what_it_has_free() {
        let budget = Budget { place: CachePlace::Same, limit: None, part: 0.25 };
        assert_eq!(budget.of_device(Some(80 << 30)), 20 << 30);
        assert_eq!(budget.of_device(None), 1 << 30, "what it does not say is little");
    }

    #[test]
    fn parts_and_limits_that_hold_nothing_are_faults() {
        let check = |limit, part| Budget { place: CachePlace::Same, limit, part }.check().map_err(|f| f.path);
        assert_eq!(check(Some(0.0), 0.5), Err("limit_gib".to_owned()));
        assert_eq!(check(Some(f64::NAN), 0.5), Err("limit_gib".to_owned()));
        for part in [0.0, -1.0, 1.5, f64::NAN] {
            assert_eq!(check(None, part), Err("device_part".to_owned()));
        }
        assert_eq!(check(Some(2.0), 1.0), Ok(()));
    }
}
