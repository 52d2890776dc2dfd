//! The peak performance of this machine, by measurement: [`measure_roof`].

use std::time::{Duration, Instant};

use burn::tensor::{Device, Distribution, Tensor};
use hearth_kernels::conv3d::{ConvShape, conv3d};
use hearth_kernels::linear::linear;
use hearth_profile::Roof;
use rayon::prelude::*;

/// The duration of each measurement.
const TIME: Duration = Duration::from_millis(300);

/// The peak operations per second of a large matrix product or of a convolution, whichever is
/// higher, and the peak bytes per second that all threads copy. Convolutions that compute fewer
/// sums than the definition (Winograd) count all of them.
pub fn measure_roof() -> Roof {
    let device = Device::flex();
    let random = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Default, &device);
    let (x, weight) = (random([2048, 1024]), random([1024, 1024]));
    let product = 2.0 * 2048.0 * 1024.0 * 1024.0 / fastest(|| drop(linear(x.clone(), weight.clone(), None)));
    let (side, channels) = (48_usize, 32_usize);
    let image = Tensor::<5>::random([1, channels, side, side, side], Distribution::Default, &device);
    let kernel = Tensor::<5>::random([channels, channels, 3, 3, 3], Distribution::Default, &device);
    let shape = ConvShape { padding: [1; 3], ..ConvShape::default() };
    let flop = 2.0 * (channels * channels * 27 * side.pow(3)) as f64;
    let convolution = flop / fastest(|| drop(conv3d(image.clone(), kernel.clone(), None, shape)));
    // Larger than any cache.
    let from = vec![1.0_f32; 32 << 20];
    let mut to = vec![0.0_f32; from.len()];
    let copy =
        || to.par_chunks_mut(1 << 16).zip(from.par_chunks(1 << 16)).for_each(|(to, from)| to.copy_from_slice(from));
    let bytes = 2.0 * size_of_val(&from[..]) as f64 / fastest(copy);
    Roof { flop: product.max(convolution), bytes }
}

/// The seconds of the fastest of several calls.
fn fastest(mut work: impl FnMut()) -> f64 {
    work();
    let (begun, mut best) = (Instant::now(), f64::INFINITY);
    while begun.elapsed() < TIME {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}
