//! The memory that a sliding window takes on a host, compared with its estimate. A separate file, because
//! it counts every byte of its process.

use burn::tensor::{Device, Tensor};
use hearth_nn::inferers::{Inferer, SlidingWindowInferer};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Peak bytes of a prediction in addition to the image's own, and those that are expected.
fn peak(channels: usize, size: [usize; 3], options: &str) -> (f64, f64) {
    let inferer: SlidingWindowInferer = toml::from_str(options).expect("options");
    let [x, y, z] = size;
    let image = Tensor::<5>::ones([1, 1, x, y, z], &Device::default());
    let infer = || inferer.infer(image.clone(), &|window| window.repeat_dim(1, channels)).expect("an output");
    // Threads allocate their buffers in the first pass.
    assert_eq!(infer().dims()[1], channels);
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    drop(infer());
    let expected = inferer.host_bytes([1, 1, x, y, z], &[channels]).expect("it fits");
    ((ALLOCATED.peak_usage() - before) as f64, expected as f64)
}

/// The sum of the windows, that of their weights, and the quotient of both.
#[test]
fn sums_and_their_quotient_are_counted() {
    for (channels, size, options) in [
        (8, [64, 64, 64], "roi_size = [16, 16, 16]\noverlap = 0.5\nmode = \"gaussian\""),
        (1, [96, 96, 64], "roi_size = [16, 16, 16]"),
        // Smaller than a window along an axis: the padding is removed from the quotient.
        (4, [64, 64, 12], "roi_size = [16, 16, 16]"),
    ] {
        let (peak, expected) = peak(channels, size, options);
        println!("{channels} channels of {size:?}: {peak:.0} bytes, expected {expected:.0}");
        assert!(peak <= 1.1 * expected, "{channels} channels of {size:?}: {peak} bytes, expected {expected}");
        assert!(peak >= 0.8 * expected, "{channels} channels of {size:?}: {peak} bytes, expected {expected}");
    }
}
