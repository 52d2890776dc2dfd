//! The energy of the machine's CPUs, measured by RAPL: [`Packages`].

use std::fs;
use std::path::{Path, PathBuf};

/// The energy counters of the CPUs in `/sys/class/powercap` of Linux. On most systems only root may
/// read them.
#[derive(Debug)]
pub struct Packages {
    zones: Vec<Zone>,
}

#[derive(Debug)]
struct Zone {
    counter: PathBuf,
    /// The counter wraps to 0 after this value.
    range: Option<u64>,
    last: u64,
    microjoules: u64,
}

impl Packages {
    /// Opens the readable counters of a folder, normally `/sys/class/powercap`.
    pub fn open(folder: &Path) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let zones = entries.filter_map(|entry| Zone::open(&entry.path())).collect();
        Self { zones }
    }

    /// Joules of all packages since `open`, `None` where no counter is readable.
    pub fn joules(&mut self) -> Option<f64> {
        let total: u64 = self.zones.iter_mut().map(Zone::advance).sum();
        (!self.zones.is_empty()).then_some(total as f64 / 1e6)
    }
}

impl Zone {
    /// Opens the counter of a whole package. Cores and memory have their own zones, and a second
    /// interface (`intel-rapl-mmio`) counts the same package again; both are ignored.
    fn open(folder: &Path) -> Option<Self> {
        let number = folder.file_name()?.to_str()?.strip_prefix("intel-rapl:")?;
        let package = fs::read_to_string(folder.join("name")).ok()?.starts_with("package-");
        if number.contains(':') || !package {
            return None;
        }
        let counter = folder.join("energy_uj");
        let last = number_in(&counter)?;
        Some(Self { counter, range: number_in(&folder.join("max_energy_range_uj")), last, microjoules: 0 })
    }

    fn advance(&mut self) -> u64 {
        // A counter that cannot be read this time is read the next time: it only grows.
        if let Some(now) = number_in(&self.counter) {
            let lap = if now < self.last { self.range.unwrap_or(self.last) } else { 0 };
            self.microjoules += (now + lap).saturating_sub(self.last);
            self.last = now;
        }
        self.microjoules
    }
}

fn number_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(root: &Path, folder: &str, name: &str, counter: u64) -> PathBuf {
        let folder = root.join(folder);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        fs::write(folder.join("energy_uj"), format!("{counter}\n")).unwrap();
        fs::write(folder.join("max_energy_range_uj"), "1000000000\n").unwrap();
        folder.join("energy_uj")
    }

    #[test]
    fn packages_are_added_and_laps_counted() {
        let root = tempfile::tempdir().unwrap();
        let first = zone(root.path(), "intel-rapl:0", "package-0", 500);
        let second = zone(root.path(), "intel-rapl:1", "package-1", 999_000_000);
        // The parts of packages, what contains them, and the duplicate interface.
        for (folder, name) in [("intel-rapl:0:0", "core"), ("intel-rapl:2", "psys"), ("intel-rapl-mmio:0", "package-0")]
        {
            zone(root.path(), folder, name, 7);
        }
        let mut packages = Packages::open(root.path());
        assert_eq!(packages.joules(), Some(0.0));
        fs::write(&first, "2000500").unwrap();
        fs::write(&second, "500000").unwrap();
        // 2 J, and 1 J up to the end of the range and 0.5 J after it.
        assert_eq!(packages.joules(), Some(3.5));
        fs::remove_file(&second).unwrap();
        assert_eq!(packages.joules(), Some(3.5));
    }

    #[test]
    fn no_counter_is_no_value() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Packages::open(root.path()).joules(), None);
        assert_eq!(Packages::open(&root.path().join("absent")).joules(), None);
        // A counter that no one may read.
        let counter = zone(root.path(), "intel-rapl:0", "package-0", 1);
        fs::write(counter, "").unwrap();
        assert_eq!(Packages::open(root.path()).joules(), None);
    }
}
