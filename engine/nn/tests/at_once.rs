//! A device without enough memory for a group of windows, in a separate process.

#![cfg(feature = "vulkan")]

#[path = "../../../tests/src/gpu.rs"]
mod gpu;

use std::cell::RefCell;

use burn::tensor::{Device, Int, Tensor};
use hearth_kernels::device_error::{is_out_of_memory, reason};
use hearth_nn::inferers::{Inferer, SlidingWindowInferer};

/// A value that the device computes in a block of `floats` floats, or its error.
fn within(floats: usize, device: &Device) -> Result<Tensor<1>, String> {
    let value = Tensor::<1>::ones([floats], device).slice([floats - 1..floats]);
    value.clone().try_into_data().map_err(|error| error.to_string())?;
    Ok(value)
}

/// The group is halved until it fits into the device's memory. The result is that of single
/// windows, and the next image starts with the size that fitted.
#[test]
#[ignore = "needs a Vulkan driver"]
fn a_group_that_does_not_fit_is_halved_on_vulkan() {
    let device = gpu::device();
    // The largest power of two that fits, from 64 MiB; larger ones are reported as out of memory.
    let mut fits = 1 << 24;
    let refused = loop {
        match within(2 * fits, &device) {
            Ok(_) if fits < 1 << 38 => fits *= 2,
            Ok(_) => panic!("the device holds 2 TiB in one block"),
            Err(error) => break error,
        }
    };
    assert!(is_out_of_memory(&refused), "{refused}");
    assert!(reason(&refused).starts_with("the device is out of memory"), "{}", reason(&refused));

    let batches = RefCell::new(Vec::new());
    // The network needs half of the largest block for each window.
    let net = |windows: Tensor<5>| {
        let n = windows.dims()[0];
        batches.borrow_mut().push(n);
        let one = Tensor::<1>::ones([n * (fits / 2)], &device).slice([0..1]).reshape([1, 1, 1, 1, 1]);
        windows * 2.0 + one
    };
    let inferer = SlidingWindowInferer { sw_batch_size: 8, ..SlidingWindowInferer::new(&[4, 4, 4]) };
    let x = Tensor::<1, Int>::arange(0..512, &device).float().reshape([1, 1, 8, 8, 8]);
    let expected: Vec<f32> = (0..512).map(|i| i as f32 * 2.0 + 1.0).collect();
    // 27 windows: 13 pairs and a single one.
    let pairs = [vec![2; 13], vec![1]].concat();
    for tries in [vec![8, 4], vec![]] {
        batches.borrow_mut().clear();
        let y = inferer.infer(x.clone(), &net).expect("it fits at last").try_into_vec_as::<f32>().expect("values");
        assert!(y.iter().zip(&expected).all(|(y, e)| (y - e).abs() < 1e-3), "{y:?}");
        assert_eq!(*batches.borrow(), [tries, pairs.clone()].concat());
    }
    // If not even one window fits, the error appears when the result is read.
    let greedy = |windows: Tensor<5>| {
        let one = Tensor::<1>::ones([2 * fits], &device).slice([0..1]).reshape([1, 1, 1, 1, 1]);
        windows + one
    };
    let y = inferer.infer(x, &greedy).expect("nothing is read");
    let error = y.try_into_data().expect_err("no memory").to_string();
    assert!(is_out_of_memory(&error), "{error}");
}
