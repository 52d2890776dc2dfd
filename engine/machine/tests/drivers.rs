//! Tests the vendors' drivers with stubs, `stub_nvml.c` and `stub_smi.c`, which answer as the
//! headers of NVML and ROCm SMI specify.

// A C compiler builds the libraries.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use hearth_machine::{Gpu, GpuAbout, GpuReading, Machine, Probe, Rates, Slot, Vendor, amd, nvidia};

/// Builds a stub with these arguments into a folder.
fn stub(folder: &Path, source: &str, more: &[&str]) -> PathBuf {
    let library = folder.join(format!("{source}{}.so", more.join("")));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-std=gnu11"]).args(more);
    let output = cc.arg("-o").arg(&library).arg(source).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

#[test]
fn every_sensor_of_amd_in_its_unit() {
    let folder = tempfile::tempdir().unwrap();
    for (more, power) in [(&[][..], None), (&["-DNEWER"][..], Some(412.5))] {
        let mut gpus = amd::gpus_of(&stub(folder.path(), "stub_smi.c", more)).unwrap();
        assert_eq!(gpus.len(), 2);
        let name = "Instinct MI250X".to_owned();
        assert_eq!(*gpus[0].about(), GpuAbout { vendor: Vendor::Amd, name, memory: Some(64 << 30) });
        let first = GpuReading {
            utilisation: Some(87.0),
            memory: Some(1 << 30),
            power,
            temperature: Some(71.5),
            sm_clock: Some(1200.0),
            memory_clock: Some(400.0),
        };
        assert_eq!(gpus[0].read().unwrap(), first, "{more:?}");
        let second = GpuReading {
            utilisation: Some(3.0),
            memory: Some(2 << 30),
            power: Some(95.0),
            temperature: Some(-4.0),
            sm_clock: Some(1300.0),
            memory_clock: None,
        };
        assert_eq!(gpus[1].read().unwrap(), second, "{more:?}");
    }
}

#[test]
fn what_is_no_library_of_amd_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let failing = stub(folder.path(), "stub_smi.c", &["-DFAILS"]);
    let error = amd::gpus_of(&failing).unwrap_err();
    assert!(error.ends_with("it cannot be initialized (status 8)"), "{error}");
    let other = stub(folder.path(), "stub_nvml.c", &[]);
    let error = amd::gpus_of(&other).unwrap_err();
    assert!(error.ends_with("has no function rsmi_init: it is not ROCm SMI"), "{error}");
    assert!(amd::gpus_of(&folder.path().join("absent.so")).is_err());
}

#[test]
fn every_sensor_of_nvidia_in_its_unit() {
    let folder = tempfile::tempdir().unwrap();
    let mut gpus = nvidia::gpus_of(&stub(folder.path(), "stub_nvml.c", &[])).unwrap();
    assert_eq!(gpus.len(), 2);
    let name = "H100 80GB HBM3".to_owned();
    assert_eq!(*gpus[0].about(), GpuAbout { vendor: Vendor::Nvidia, name, memory: Some(80 << 30) });
    let first = GpuReading {
        utilisation: Some(98.0),
        memory: Some(60 << 30),
        power: Some(651.25),
        temperature: Some(66.0),
        sm_clock: Some(1980.0),
        memory_clock: Some(2619.0),
    };
    assert_eq!(gpus[0].read().unwrap(), first);
    let second = gpus[1].read().unwrap();
    assert_eq!((second.power, second.utilisation, second.sm_clock), (None, Some(5.0), Some(660.0)));
    let error = nvidia::gpus_of(&folder.path().join("absent.so")).unwrap_err();
    assert!(error.starts_with("no NVIDIA driver was found ("), "{error}");
}

#[test]
fn a_card_of_nvidia_is_found_by_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let library = stub(folder.path(), "stub_nvml.c", &[]);
    let slot = |address: &str| Slot::read_from(address, folder.path(), Some(&library));
    let first = Slot { memory: Some(80 << 30), free: Some(20 << 30), utilisation: Some(98.0), ..Slot::default() };
    assert_eq!(slot("0000:01:00.0"), first);
    let second = Slot { memory: Some(2 << 30), free: Some(1 << 29), utilisation: Some(5.0), ..Slot::default() };
    assert_eq!(slot("00000001:c1:00.0"), second);
    assert_eq!(slot("0000:05:00.0"), Slot::default());
}

/// Both vendors in one machine; one GPU of each is lost, at different times.
#[test]
fn a_card_that_is_lost_leaves_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let nvidia = nvidia::gpus_of(&stub(folder.path(), "stub_nvml.c", &[])).unwrap();
    let amd = amd::gpus_of(&stub(folder.path(), "stub_smi.c", &["-DLOST"])).unwrap();
    let mut gpus: Vec<Box<dyn Gpu>> = Vec::new();
    gpus.extend(nvidia.into_iter().map(|gpu| Box::new(gpu) as Box<dyn Gpu>));
    gpus.extend(amd.into_iter().map(|gpu| Box::new(gpu) as Box<dyn Gpu>));
    let mut machine = Machine::with(gpus, Vec::new(), folder.path());
    let vendors: Vec<Vendor> = machine.about().gpus.iter().map(|gpu| gpu.vendor).collect();
    assert_eq!(vendors, [Vendor::Nvidia, Vendor::Nvidia, Vendor::Amd, Vendor::Amd]);
    let mut rates = Rates::new(std::time::Duration::from_secs(1));
    let samples: Vec<_> = (0..6).map(|_| rates.sample(machine.read())).collect();
    for (look, sample) in samples.iter().enumerate() {
        let answers: Vec<bool> = sample.gpus.iter().map(Option::is_some).collect();
        assert_eq!(answers, [true, look < 3, true, look < 3], "{look}");
        assert_eq!(sample.faults.len(), if look == 3 { 2 } else { 0 }, "{look}");
    }
    let [nvidia, amd] = &samples[3].faults[..] else { panic!("two faults") };
    assert_eq!(nvidia, "GPU 1 cannot be read: device fell off the bus or has otherwise become inacessible");
    assert_eq!(amd, "AMD's GPU 1 cannot be read: a file of the driver cannot be read (status 3)");
}
