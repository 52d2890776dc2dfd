//! The description of a GPU, for planning without one: [`GpuDescription`].

use serde_json::json;

/// The properties of an NVIDIA GPU that the library's heuristics read, as CUDA reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuDescription {
    /// The name.
    pub name: String,
    /// Major and minor number of the compute capability.
    pub capability: (u32, u32),
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The most bytes of shared memory that a block can ask for.
    pub shared_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of the L2 cache.
    pub cache_bytes: u64,
    /// The most blocks of a multiprocessor.
    pub blocks: u32,
    /// The most threads of a multiprocessor.
    pub threads: u32,
    /// The multiprocessors' clock, in kHz.
    pub clock_khz: u64,
    /// The memory's clock, in kHz.
    pub memory_clock_khz: u64,
    /// The width of the memory's bus, in bits.
    pub memory_bits: u32,
    /// The version of CUDA that the driver has: 13000 is 13.0.
    pub driver: u32,
}

impl Default for GpuDescription {
    /// An H100 with 80 GB.
    fn default() -> Self {
        GpuDescription {
            name: "H100".to_owned(),
            capability: (9, 0),
            multiprocessors: 132,
            shared_bytes: 232_448,
            memory_bytes: 85_017_624_576,
            cache_bytes: 52_428_800,
            blocks: 32,
            threads: 2048,
            clock_khz: 1_980_000,
            memory_clock_khz: 2_619_000,
            memory_bits: 5120,
            driver: 13_000,
        }
    }
}

impl GpuDescription {
    /// The text of `CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`. What all GPUs since 2018 have in
    /// common is constant.
    pub fn to_json(&self) -> String {
        let (major, minor) = self.capability;
        json!({
            "deviceName": self.name,
            "cudaDeviceId": 0,
            "pciDeviceId": 0,
            "deviceVer": major * 100 + minor * 10,
            "driverVer": self.driver,
            "isTccDriver": 0,
            "supportCoopLaunch": 1,
            "multiProcessorCount": self.multiprocessors,
            "smClockRateKHz": self.clock_khz,
            "totalGlobalMem": self.memory_bytes,
            "memClockRateKHz": self.memory_clock_khz,
            "memoryBusWidth": self.memory_bits,
            "l2CacheSize": self.cache_bytes,
            "warpSize": 32,
            "regsPerBlock": 65536,
            "maxRegistersPerSM": 65536,
            "maxSharedMemoryPerBlock": 49152,
            "maxSharedMemoryPerBlockOptin": self.shared_bytes,
            "reservedSharedMemoryPerBlock": 1024,
            "maxCtasPerSM": self.blocks,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerSM": self.threads,
            "maxGridSize": [2_147_483_647, 65535, 65535],
            "maxBlockSize": [1024, 1024, 64],
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_is_written_as_the_library_reads_it() {
        let rtx3090 = GpuDescription { capability: (8, 6), name: "RTX \"3090\"".into(), ..GpuDescription::default() };
        let read: serde_json::Value = serde_json::from_str(&rtx3090.to_json()).expect("JSON");
        assert_eq!(read["deviceVer"], 860);
        assert_eq!(read["deviceName"], "RTX \"3090\"");
        assert_eq!(read["multiProcessorCount"], 132);
    }
}
