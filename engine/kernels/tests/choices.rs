//! Choices of kernels as files: one machine can use the choices of another.

#[cfg(any(not(feature = "cube"), all(feature = "vulkan", feature = "tuned")))]
use hearth_kernels::choices::{export, import};

/// Without a GPU's backend there is nothing to export, which is reported.
#[cfg(not(feature = "cube"))]
#[test]
fn without_a_gpu_there_is_nothing_to_carry() {
    let dir = tempfile::tempdir().expect("a folder");
    for error in [export(&dir.path().join("a")).err(), import(&dir.path().join("a")).map(|_| 0).err()] {
        assert!(error.expect("an error").to_string().contains("without a GPU's backend"));
    }
}

/// A product is tuned, its choice exported, and imported into an empty store: it is not tuned again.
#[cfg(all(feature = "vulkan", feature = "tuned"))]
#[test]
#[ignore = "needs a Vulkan driver, and minutes on a software one"]
fn what_is_imported_is_not_chosen_again_on_tuned_vulkan() {
    use burn::tensor::{Device, DeviceKind, Distribution, Tensor};
    use cubecl_environment::environment::set_root;
    use hearth_kernels::TuningClock;
    let device = Device::vulkan(DeviceKind::DefaultDevice);
    let _ = Tensor::<1>::ones([4], &device).into_data();
    let dir = tempfile::tempdir().expect("a folder");
    let store = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(&path).expect("a store");
        set_root(&path);
    };
    let product = || {
        let clock = TuningClock::start();
        let x = Tensor::<2>::random([41, 67], Distribution::Default, &device);
        x.clone().matmul(x.transpose()).into_data();
        clock.spent().kernels
    };
    store("first");
    assert!(product() >= 1);
    let file = dir.path().join("card.tuned");
    assert!(export(&file).expect("exported") >= 1);
    store("second");
    let found = import(&file).expect("imported");
    assert!(found.new >= 1 && found.known == 0, "{found:?}");
    assert_eq!(import(&file).expect("imported again").new, 0);
    assert_eq!(product(), 0, "what is known is not chosen again");
    std::fs::write(dir.path().join("wrong"), "no choices").expect("written");
    assert!(import(&dir.path().join("wrong")).is_err() && import(&dir.path().join("none")).is_err());
}
