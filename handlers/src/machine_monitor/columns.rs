//! The columns of `machine.csv`: [`Columns`], and a [`Row`] of it.

use hearth_machine::{About, GpuReading, Sample};

use super::phases::Phase;

/// The first columns of every row.
pub(super) const LEAD: [&str; 5] = ["part", "time_s", "unix_time_s", "epoch", "phase"];

/// The measured columns that every machine has.
const OWN: [&str; 7] = [
    "process_cpu_percent_of_core",
    "process_cpu_percent_of_machine",
    "process_memory_bytes",
    "process_read_bytes_per_s",
    "process_written_bytes_per_s",
    "machine_free_memory_bytes",
    PACKAGES,
];

/// The power of the CPUs.
pub(super) const PACKAGES: &str = "cpu_package_power_w";

/// The measured columns of a GPU, without the prefix: `gpu0_power_w`.
const OF_GPU: [&str; 6] =
    ["utilisation_percent", "memory_bytes", GPU_POWER, "temperature_c", "sm_clock_mhz", "memory_clock_mhz"];

/// The power of a GPU.
const GPU_POWER: &str = "power_w";

/// The measured columns of a machine.
pub(super) fn of(about: &About) -> Vec<String> {
    let gpus = (0..about.gpus.len()).flat_map(|gpu| OF_GPU.map(|name| format!("gpu{gpu}_{name}")));
    OWN.map(String::from).into_iter().chain(gpus).collect()
}

/// The index of a GPU and the rest of the name, for one of its columns.
pub(super) fn of_gpu(name: &str) -> Option<(usize, &str)> {
    let (number, rest) = name.strip_prefix("gpu")?.split_once('_')?;
    Some((number.parse().ok()?, rest))
}

/// Whether a column is the power of a GPU.
pub(super) fn is_gpu_power(name: &str) -> bool {
    of_gpu(name).is_some_and(|(_, rest)| rest == GPU_POWER)
}

/// The values of a sample, in the order of [`of`].
pub(super) fn values(sample: &Sample, cores: usize) -> Vec<Option<f64>> {
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    let own = [
        sample.cpu_percent,
        sample.cpu_percent.map(|percent| percent / cores.max(1) as f64),
        bytes(sample.memory),
        sample.read_per_second,
        sample.written_per_second,
        bytes(sample.free_memory),
        sample.package_power,
    ];
    let gpus = sample.gpus.iter().flat_map(|gpu| {
        let GpuReading { utilisation, memory, power, temperature, sm_clock, memory_clock } = gpu.unwrap_or_default();
        [utilisation, bytes(memory), power, temperature, sm_clock, memory_clock]
    });
    own.into_iter().chain(gpus).collect()
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The number of the process: 1 for the run's first, one more for each that resumes it.
    pub part: u64,
    /// Seconds since the run's first row, without the time between processes.
    pub at: f64,
    /// Seconds since 1970.
    pub unix: f64,
    /// The epoch; 0 before the first.
    pub epoch: u64,
    pub phase: Phase,
    /// The values, in the order of the table's measured columns.
    pub values: Vec<Option<f64>>,
}

impl Row {
    /// The row as a line of the table.
    pub(super) fn line(&self) -> String {
        let Self { part, at, unix, epoch, phase, values } = self;
        let mut line = format!("{part},{at:.3},{unix:.3},{epoch},{phase}");
        for value in values {
            line.push(',');
            if let Some(value) = value.filter(|value| value.is_finite()) {
                // The number of decimal places of sensors.
                line.push_str(&((value * 1e3).round() / 1e3).to_string());
            }
        }
        line + "\n"
    }

    /// The row of a line with this number of measured columns; `None` for an invalid line.
    pub(super) fn parse(line: &str, columns: usize) -> Option<Self> {
        let mut cells = line.split(',');
        let mut next = || cells.next();
        let (part, at, unix) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
        let (epoch, phase) = (next()?.parse().ok()?, Phase::of_name(next()?)?);
        let values: Vec<Option<f64>> = cells.map(|cell| cell.parse().ok()).collect();
        (values.len() == columns && f64::is_finite(at)).then_some(Self { part, at, unix, epoch, phase, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let values = vec![Some(12.5), None, Some(4e10), Some(0.001)];
        let row = Row { part: 2, at: 1.5, unix: 1.75e9, epoch: 3, phase: Phase::Validation, values };
        assert_eq!(row.line(), "2,1.500,1750000000.000,3,validation,12.5,,40000000000,0.001\n");
        assert_eq!(Row::parse(row.line().trim_end(), 4), Some(row.clone()));
        assert_eq!(Row::parse(row.line().trim_end(), 5), None);
        for damaged in ["", "2", "2,1.5,0,3,lunch,1,1,1,1", "2,nan,0,3,start,1,1,1,1", "a,b,c,d,e,f,g,h,i"] {
            assert_eq!(Row::parse(damaged, 4), None, "{damaged}");
        }
    }

    #[test]
    fn columns_and_values_are_as_many() {
        use hearth_machine::{GpuAbout, Rates, Vendor};
        let gpu = GpuAbout { vendor: Vendor::Amd, name: String::new(), memory: None };
        let about = About { gpus: vec![gpu; 2], ..About::default() };
        let now = std::time::Instant::now();
        let reading =
            |gpus| hearth_machine::Reading { at: now, process: None, free_memory: None, package_joules: None, gpus };
        let lit = GpuReading { power: Some(7.0), ..GpuReading::default() };
        let sample = Rates::new(std::time::Duration::ZERO).sample(reading(vec![Err("lost".into()), Ok(lit)]));
        let (names, values) = (of(&about), values(&sample, 4));
        assert_eq!(names.len(), values.len());
        let told: Vec<&String> =
            names.iter().zip(&values).filter(|(_, value)| value.is_some()).map(|(n, _)| n).collect();
        assert_eq!(told, ["gpu1_power_w"]);
        assert!(is_gpu_power("gpu1_power_w") && !is_gpu_power(PACKAGES) && !is_gpu_power("gpu1_memory_bytes"));
    }
}
