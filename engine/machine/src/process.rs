//! This process and the memory of the machine, through the crate `sysinfo`.

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// The resources that this process has used since its start, and those it uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessReading {
    /// Seconds of CPU time of all its threads. The system counts in steps of 10 ms.
    pub cpu_seconds: f64,
    /// Resident memory of the process (RSS) in bytes.
    pub memory: u64,
    /// Bytes read from disks, without reads from the system's cache.
    pub read: u64,
    /// Bytes written to disks.
    pub written: u64,
}

/// Reads the counters of this process.
#[derive(Debug)]
pub(crate) struct Process {
    system: System,
    pid: Option<Pid>,
}

impl Process {
    pub(crate) fn open() -> Self {
        Self { system: System::new(), pid: sysinfo::get_current_pid().ok() }
    }

    pub(crate) fn read(&mut self) -> Option<ProcessReading> {
        let pid = self.pid?;
        // The list of threads is left out: it costs more than everything else.
        let kind = ProcessRefreshKind::nothing().with_cpu().with_memory().with_disk_usage().without_tasks();
        self.system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, kind);
        let process = self.system.process(pid)?;
        let disk = process.disk_usage();
        Some(ProcessReading {
            cpu_seconds: process.accumulated_cpu_time() as f64 / 1e3,
            memory: process.memory(),
            read: disk.total_read_bytes,
            written: disk.total_written_bytes,
        })
    }
}

/// Total and free memory of the machine, in bytes.
pub(crate) fn machine_memory() -> (u64, u64) {
    let mut system = System::new();
    system.refresh_memory();
    (system.total_memory(), system.available_memory())
}

/// Resident memory of this process in bytes; `None` where the system does not report it.
pub fn resident() -> Option<u64> {
    Process::open().read().map(|reading| reading.memory)
}

/// Peak resident memory of this process in bytes; `None` where the system does not report it.
pub fn peak_resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counters that Linux reports for this process, read here without `sysinfo`.
    #[cfg(target_os = "linux")]
    fn told() -> ProcessReading {
        let text = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap();
        let number = |text: &str, key: &str| -> u64 {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("no {key}"));
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let (stat, io) = (text("stat"), text("io"));
        // After the name, which may contain spaces, the 12th and 13th field are ticks of 10 ms.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
        ProcessReading {
            cpu_seconds: ticks / 100.0,
            memory: number(&text("status"), "VmRSS:") * 1024,
            read: number(&io, "read_bytes:"),
            written: number(&io, "write_bytes:"),
        }
    }

    /// Counters only grow: the value read lies between the system's values before and after.
    #[cfg(target_os = "linux")]
    #[test]
    fn counters_are_those_of_the_system() {
        let mut process = Process::open();
        let folder = tempfile::tempdir().unwrap();
        for round in 0..4 {
            std::fs::write(folder.path().join("file"), vec![1; 1 << 20]).unwrap();
            let sum: u64 = (0..10_000_000 * round).fold(0, |a, b| std::hint::black_box(a ^ b));
            let (before, read, after) = (told(), process.read().unwrap(), told());
            let between = |part: fn(&ProcessReading) -> f64| {
                let [low, value, high] = [&before, &read, &after].map(part);
                assert!(low <= value && value <= high, "{before:?} {read:?} {after:?} {sum}");
            };
            between(|reading| reading.cpu_seconds);
            between(|reading| reading.read as f64);
            between(|reading| reading.written as f64);
        }
    }

    #[test]
    fn memory_that_is_touched_is_counted() {
        const SIZE: usize = 256 << 20;
        let mut process = Process::open();
        let block = vec![1_u8; SIZE];
        let memory = process.read().unwrap().memory;
        let (total, free) = machine_memory();
        assert!(block.iter().step_by(4096).all(|byte| *byte == 1));
        assert!(memory >= SIZE as u64 && memory < total, "{memory} of {total}");
        assert!(free > 0 && free < total, "{free} of {total}");
    }
}
