//! Compares convolutions and their gradients, by Burn's operations on the CPU and by this crate's
//! kernels on a GPU, with this crate's kernels on the CPU.

#[cfg(feature = "vulkan")]
#[path = "../../../tests/src/gpu.rs"]
mod gpu;

use std::sync::Mutex;

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use hearth_kernels::conv3d::{ConvShape, conv_transpose3d, conv3d};
use hearth_kernels::use_kernels;

/// Result, gradient of the input, and gradient of the weight.
fn both_ways(
    device: &Device,
    [x, weight]: [&TensorData; 2],
    conv: impl Fn(Tensor<5>, Tensor<5>) -> Tensor<5>,
) -> [(Vec<usize>, Vec<f32>); 3] {
    let device = device.clone().autodiff();
    let [x, weight] = [x, weight].map(|data| Tensor::<5>::from_data(data.clone(), &device).require_grad());
    let y = conv(x.clone(), weight.clone());
    let gradients = (y.clone() * y.clone()).sum().backward();
    let of = |t: &Tensor<5>| t.grad(&gradients).expect("a gradient").into_data();
    [y.into_data(), of(&x), of(&weight)].map(|data| (data.shape().to_vec(), data.try_to_vec().expect("f32")))
}

/// The difference on a device, or by plain operations on the CPU where there is no device.
fn compare(
    what: &str,
    device: Option<&Device>,
    given: [&TensorData; 2],
    conv: impl Fn(Tensor<5>, Tensor<5>) -> Tensor<5>,
) -> Vec<String> {
    let expected = both_ways(&Device::flex(), given, &conv);
    use_kernels(device.is_some());
    let found = both_ways(&device.cloned().unwrap_or(Device::flex()), given, &conv);
    use_kernels(true);
    let names = ["result", "gradient of the input", "gradient of the weight"];
    let mut wrong = Vec::new();
    for ((name, (shape, expected)), (found_shape, found)) in names.iter().zip(expected).zip(found) {
        let most = expected.iter().map(|v| v.abs()).fold(0.0, f32::max);
        let apart = expected.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        if shape != found_shape || !(apart <= 1e-4 * most) {
            wrong.push(format!("{what}: {name}: {apart} of {most}"));
        }
    }
    wrong
}

/// One at a time: the switch of the kernels is global to the process.
static ONE: Mutex<()> = Mutex::new(());

#[test]
fn plain_convolutions_have_the_values_and_gradients_of_kernels() {
    assert_same(None);
}

#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver"]
fn convolutions_on_vulkan_have_the_values_and_gradients_of_kernels() {
    assert_same(Some(&gpu::device()));
}

/// Enough outputs for a unit to compute several of them, more channels than a unit has, more taps
/// than it sums at once, a bias.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver"]
fn large_convolutions_on_vulkan_have_the_values_and_gradients_of_kernels() {
    let _one = ONE.lock().expect("no other failed in the middle");
    let (device, flex) = (gpu::device(), Device::flex());
    flex.seed(2);
    let random = |shape: [usize; 5]| Tensor::<5>::random(shape, Distribution::Normal(0.0, 1.0), &flex).into_data();
    let x = random([1, 3, 61, 58, 67]);
    let mut wrong = Vec::new();
    for (kernel, stride, groups) in
        [([3; 3], 1, 1), ([3; 3], 2, 1), ([2; 3], 2, 1), ([1; 3], 1, 3), ([5, 3, 1], 1, 1), ([1, 12, 9], 1, 1)]
    {
        let shape = ConvShape { stride: [stride; 3], padding: kernel.map(|k| k / 2), dilation: [1; 3], groups };
        let bias = |n: usize, device: &Device| Some(Tensor::<1>::from_floats(&vec![0.5; n][..], device));
        let what = format!("kernel {kernel:?}, {shape:?}");
        let weight = random([18, 3 / groups, kernel[0], kernel[1], kernel[2]]);
        let conv = |x: Tensor<5>, w| conv3d(x.clone(), w, bias(18, &x.device()), shape);
        wrong.extend(compare(&what, Some(&device), [&x, &weight], conv));
        let weight = random([3, 9 / groups, kernel[0], kernel[1], kernel[2]]);
        let conv = |x: Tensor<5>, w| conv_transpose3d(x.clone(), w, bias(9, &x.device()), shape, [stride - 1; 3]);
        wrong.extend(compare(&format!("{what}, transposed"), Some(&device), [&x, &weight], conv));
    }
    assert!(wrong.is_empty(), "{} differ:\n  {}", wrong.len(), wrong.join("\n  "));
}

/// More channels than registers hold, so that tiles of outputs are computed: sizes that no tile
/// divides, strides whose remainders differ in length, few positions whose channels are divided,
/// groups, gaps, a bias.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver"]
fn convolutions_of_many_channels_on_vulkan_have_the_values_and_gradients_of_kernels() {
    let _one = ONE.lock().expect("no other failed in the middle");
    let (device, flex) = (gpu::device(), Device::flex());
    flex.seed(3);
    let random = |shape: [usize; 5]| Tensor::<5>::random(shape, Distribution::Normal(0.0, 1.0), &flex).into_data();
    let plain = ConvShape::default();
    let mut wrong = Vec::new();
    for (size, [ins, outs], kernel, shape) in [
        ([9, 10, 11], [16, 12], [3; 3], ConvShape { padding: [1; 3], ..plain }),
        ([9, 10, 11], [12, 33], [3; 3], ConvShape { padding: [1; 3], stride: [2; 3], ..plain }),
        ([3, 4, 5], [140, 70], [3; 3], ConvShape { padding: [1; 3], ..plain }),
        ([8, 7, 6], [20, 66], [2; 3], ConvShape { stride: [2; 3], ..plain }),
        ([8, 7, 6], [40, 48], [1; 3], plain),
        ([12, 11, 1], [18, 24], [3, 3, 1], ConvShape { padding: [1, 1, 0], stride: [2, 1, 1], ..plain }),
        ([9, 9, 9], [20, 24], [3; 3], ConvShape { padding: [2; 3], dilation: [2; 3], groups: 2, ..plain }),
        ([9, 9, 9], [10, 11], [5, 1, 3], ConvShape { padding: [2, 0, 1], stride: [3, 1, 2], ..plain }),
        ([7, 7, 7], [10, 10], [3; 3], ConvShape { stride: [2; 3], dilation: [2, 1, 3], padding: [2; 3], ..plain }),
        // Rows long enough for tiles with a halo: with zeros that two rows share, without any, with
        // more than the taps reach, gaps, groups, taps along two axes or five, channels whose last
        // block is not full.
        ([3, 24, 30], [17, 12], [3; 3], ConvShape { padding: [1; 3], ..plain }),
        ([2, 31, 28], [16, 33], [3; 3], ConvShape { padding: [1; 3], ..plain }),
        ([3, 42, 44], [9, 20], [3; 3], plain),
        ([7, 30, 31], [12, 10], [3; 3], ConvShape { padding: [3; 3], ..plain }),
        ([3, 44, 43], [20, 24], [3; 3], ConvShape { padding: [2; 3], dilation: [2; 3], groups: 2, ..plain }),
        ([2, 50, 49], [9, 9], [1, 5, 3], ConvShape { padding: [0, 2, 1], ..plain }),
        ([60, 61, 1], [16, 16], [3, 3, 1], ConvShape { padding: [1, 1, 0], ..plain }),
        ([2, 3, 300], [10, 16], [3, 1, 3], ConvShape { padding: [1, 0, 1], ..plain }),
    ] {
        let bias = |n: usize, device: &Device| Some(Tensor::<1>::from_floats(&vec![0.5; n][..], device));
        let what = format!("{ins} to {outs} channels, {size:?}, kernel {kernel:?}, {shape:?}");
        let x = random([2, ins, size[0], size[1], size[2]]);
        let [kx, ky, kz] = kernel;
        let weight = random([outs, ins / shape.groups, kx, ky, kz]);
        let conv = |x: Tensor<5>, w| conv3d(x.clone(), w, bias(outs, &x.device()), shape);
        wrong.extend(compare(&what, Some(&device), [&x, &weight], conv));
        let weight = random([ins, outs / shape.groups, kx, ky, kz]);
        let longer = shape.stride.map(|stride| stride - 1);
        let conv = |x: Tensor<5>, w| conv_transpose3d(x.clone(), w, bias(outs, &x.device()), shape, longer);
        wrong.extend(compare(&format!("{what}, transposed"), Some(&device), [&x, &weight], conv));
    }
    assert!(wrong.is_empty(), "{} differ:\n  {}", wrong.len(), wrong.join("\n  "));
}

/// In half precision, where CUDA GPUs multiply matrices, sums are f32: the results are those of f32
/// from the same values, rounded.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver"]
fn convolutions_of_many_channels_in_half_precision_on_vulkan_are_those_of_rounded_values() {
    use burn::tensor::{DType, FloatDType};
    let _one = ONE.lock().expect("no other failed in the middle");
    let (device, flex) = (gpu::device(), Device::flex());
    flex.seed(4);
    let mut wrong = Vec::new();
    let mut halves = vec![FloatDType::BF16, FloatDType::F16];
    halves.retain(|half| device.supports_dtype(*half));
    assert!(!halves.is_empty(), "the driver has neither bf16 nor f16");
    for dtype in halves.into_iter().map(DType::from) {
        // The last one has enough work for a GPU's largest tile.
        for (size, [ins, outs], kernel, stride) in [
            ([9, 8, 7], [16, 16], 3, 1),
            ([9, 8, 7], [20, 40], 3, 2),
            ([9, 8, 7], [70, 66], 3, 1),
            ([9, 8, 7], [20, 30], 3, 1),
            ([9, 8, 7], [24, 72], 2, 2),
            ([9, 8, 7], [33, 40], 1, 1),
            ([4, 21, 20], [150, 66], 3, 1),
        ] {
            let shape = ConvShape { stride: [stride; 3], padding: [kernel / 2; 3], ..ConvShape::default() };
            let random = |shape: [usize; 5], scale: f64| {
                let drawn = Tensor::<5>::random(shape, Distribution::Normal(0.0, scale), &flex);
                drawn.cast(dtype).cast(DType::F32).into_data()
            };
            let (x, weight) =
                (random([2, ins, size[0], size[1], size[2]], 1.0), random([outs, ins, kernel, kernel, kernel], 0.1));
            let expected = both_ways(&Device::flex(), [&x, &weight], |x, w| conv3d(x, w, None, shape));
            let found = both_ways(&device, [&x, &weight], |x, w| {
                conv3d(x.cast(dtype), w.cast(dtype), None, shape).cast(DType::F32)
            });
            for (name, ((_, expected), (_, found))) in
                ["result", "input", "weight"].iter().zip(expected.iter().zip(&found))
            {
                let most = expected.iter().map(|v| v.abs()).fold(0.0, f32::max);
                let apart = expected.iter().zip(found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                if !(apart <= 1e-2 * most) {
                    wrong.push(format!("{dtype:?}, {ins} to {outs}, kernel {kernel}: {name}: {apart} of {most}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n  {}", wrong.len(), wrong.join("\n  "));
}

fn assert_same(device: Option<&Device>) {
    let _one = ONE.lock().expect("no other failed in the middle");
    let flex = Device::flex();
    flex.seed(1);
    let random = |shape: [usize; 5]| Tensor::<5>::random(shape, Distribution::Normal(0.0, 1.0), &flex).into_data();
    let mut wrong = Vec::new();
    let shapes = [[9, 8, 7], [8, 8, 1], [7, 5, 1]];
    // Includes kernels shorter than the stride, along all axes or one.
    let kernels = [[1; 3], [2; 3], [3; 3], [1, 3, 3], [3, 1, 2]];
    for (size, kernel) in shapes.iter().flat_map(|size| kernels.map(|kernel| (size, kernel))) {
        let x = random([2, 4, size[0], size[1], size[2]]);
        let [kx, ky, kz] = if size[2] == 1 { [kernel[0], kernel[1], 1] } else { kernel };
        for (stride, dilation, groups) in [(1, 1, 1), (2, 1, 1), (2, 1, 2), (3, 1, 1), (3, 2, 1)] {
            let flat = |value: usize| [value, value, if size[2] == 1 { 1 } else { value }];
            let (stride, dilation) = (flat(stride), flat(dilation));
            for padding in [[0; 3], [kx / 2, ky / 2, kz / 2]] {
                let shape = ConvShape { stride, padding, dilation, groups };
                let what = format!("{size:?}, kernel {:?}, {shape:?}", [kx, ky, kz]);
                let weight = random([6, 4 / groups, kx, ky, kz]);
                wrong.extend(compare(&what, device, [&x, &weight], |x, w| conv3d(x, w, None, shape)));
                let weight = random([4, 6 / groups, kx, ky, kz]);
                let longer = std::array::from_fn(|axis| usize::from(stride[axis] > 1));
                let conv = |x, w| conv_transpose3d(x, w, None, shape, longer);
                wrong.extend(compare(&format!("{what}, transposed"), device, [&x, &weight], conv));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n  {}", wrong.len(), wrong.join("\n  "));
}
