//! Convolutions by the vendor's library on CUDA: the stand-in of `engine/cudnn`, which computes on the
//! memory of the host, where the interpreter of CUDA kernels keeps that of its GPU
//! (`tests/ptx/README.md`). The results and gradients are those of this crate's kernels on the CPU.

#![cfg(feature = "cudnn")]

use std::env;
use std::ffi::{CStr, c_char, c_long};
use std::path::{Path, PathBuf};
use std::process::Command;

use burn::tensor::{DType, Device, Distribution, Tensor, TensorData};
use hearth_kernels::Convolutions;
use hearth_kernels::conv3d::{ConvShape, conv_transpose3d, conv3d};

/// The variable under which the process that computes is started again.
const PART: &str = "HEARTH_TEST_VENDOR";

/// Builds the stand-in in a folder.
fn stand_in(folder: &Path) -> PathBuf {
    let file = folder.join("libcudnn.so.9");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cudnn/tests/cudnn/stand_in.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-pthread", "-o"]).arg(&file).arg(source).arg("-lm");
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

/// Runs a test in a process of its own, in which the library is the stand-in, changed by variables.
fn alone(part: &str, changes: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    stand_in(folder.path());
    let mut child = Command::new(env::current_exe().expect("this program"));
    child.args(["--ignored", "--exact", "--nocapture", part]);
    child.env("HEARTH_CUDNN", folder.path()).env(PART, part).envs(changes.iter().copied());
    let output = child.output().expect("this program starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

/// The stand-in of this process.
fn opened() -> libloading::Library {
    let file = PathBuf::from(env::var_os("HEARTH_CUDNN").expect("set above")).join("libcudnn.so.9");
    // SAFETY: the library has no initializers.
    unsafe { libloading::Library::new(file) }.expect("the stand-in")
}

/// The number of its executions.
fn executions() -> i64 {
    let library = opened();
    // SAFETY: this is the function's type in `stand_in.c`.
    unsafe {
        let count: libloading::Symbol<'_, unsafe extern "C" fn(*const c_char) -> c_long> =
            library.get("stand_in_count").expect("a function");
        count(c"executions".as_ptr())
    }
}

/// Changes its behaviour.
fn tell(name: &CStr, value: i64) {
    let library = opened();
    // SAFETY: as above.
    unsafe {
        let tell: libloading::Symbol<'_, unsafe extern "C" fn(*const c_char, c_long)> =
            library.get("stand_in_tell").expect("a function");
        tell(name.as_ptr(), value);
    }
}

/// A convolution, or a transposed one with an output padding.
#[derive(Clone, Copy, Debug)]
struct Layer {
    size: [usize; 3],
    channels: [usize; 2],
    kernel: [usize; 3],
    shape: ConvShape,
    output_padding: Option<[usize; 3]>,
}

/// Layers of UNet and nnU-Net, planes, groups, gaps.
fn layers() -> Vec<Layer> {
    let plain = ConvShape { padding: [1; 3], ..ConvShape::default() };
    let layer = |size, channels, kernel, shape| Layer { size, channels, kernel, shape, output_padding: None };
    vec![
        layer([6, 5, 7], [3, 4], [3; 3], plain),
        layer([7, 8, 6], [2, 6], [3; 3], ConvShape { stride: [2; 3], ..plain }),
        layer([5, 6, 1], [4, 4], [3, 3, 1], ConvShape { padding: [1, 1, 0], ..plain }),
        layer([5, 4, 6], [4, 6], [3; 3], ConvShape { padding: [2; 3], dilation: [2; 3], groups: 2, ..plain }),
        layer([4, 4, 4], [5, 3], [1; 3], ConvShape::default()),
        Layer {
            output_padding: Some([1; 3]),
            ..layer([4, 3, 5], [4, 3], [3; 3], ConvShape { stride: [2; 3], ..plain })
        },
        Layer {
            output_padding: Some([0; 3]),
            ..layer([3, 3, 4], [3, 2], [2; 3], ConvShape { stride: [2; 3], ..ConvShape::default() })
        },
    ]
}

/// The result, and the gradients of the input, the weight and the bias.
fn both_ways(device: &Device, layer: Layer, dtype: DType) -> Vec<Vec<f32>> {
    let flex = Device::flex();
    flex.seed(7);
    let random = |shape: [usize; 5]| Tensor::<5>::random(shape, Distribution::Normal(0.0, 1.0), &flex).into_data();
    let Layer { size: [a, b, c], channels: [i, o], kernel: [p, q, r], shape, output_padding } = layer;
    let x = random([2, i, a, b, c]);
    let weight = match output_padding {
        None => random([o, i / shape.groups, p, q, r]),
        Some(_) => random([i, o / shape.groups, p, q, r]),
    };
    let device = device.clone().autodiff();
    let on = |data: TensorData| Tensor::<5>::from_data(data, &device).cast(dtype).require_grad();
    let (x, weight) = (on(x), on(weight));
    let bias = Tensor::<1>::from_floats(&vec![0.5; o][..], &device).require_grad();
    let y = match output_padding {
        None => conv3d(x.clone(), weight.clone(), Some(bias.clone()), shape),
        Some(more) => conv_transpose3d(x.clone(), weight.clone(), Some(bias.clone()), shape, more),
    };
    let y = y.cast(DType::F32);
    let gradients = (y.clone() * y.clone()).sum().backward();
    let read = |tensor: Tensor<5>| tensor.cast(DType::F32).into_data().try_to_vec::<f32>().expect("f32");
    vec![
        read(y),
        read(x.grad(&gradients).expect("a gradient")),
        read(weight.grad(&gradients).expect("a gradient")),
        bias.grad(&gradients).expect("a gradient").into_data().try_to_vec::<f32>().expect("f32"),
    ]
}

/// Compares layers with the CPU.
fn assert_same_of(layers: Vec<Layer>, dtype: DType, tolerance: f32) {
    let mut wrong = Vec::new();
    for layer in layers {
        let (expected, found) = (both_ways(&Device::flex(), layer, dtype), both_ways(&Device::cuda(0), layer, dtype));
        for (part, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let most = expected.iter().map(|v| v.abs()).fold(0.0, f32::max);
            let apart = expected.iter().zip(found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            if expected.len() != found.len() || !(apart <= tolerance * most) {
                wrong.push(format!("{layer:?}: part {part}: {apart} of {most}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{dtype:?}:\n  {}", wrong.join("\n  "));
}

fn assert_same(dtype: DType, tolerance: f32) {
    assert_same_of(layers(), dtype, tolerance);
}

fn is_child() -> bool {
    env::var_os(PART).is_some()
}

#[test]
#[ignore = "needs a GPU of NVIDIA, or the interpreter of its kernels"]
fn the_vendor_computes_what_our_kernels_compute() {
    if !is_child() {
        alone("the_vendor_computes_what_our_kernels_compute", &[]);
        return;
    }
    assert_eq!(Convolutions::get(), Convolutions::Own);
    assert_same(DType::F32, 1e-4);
    assert_eq!(executions(), 0, "our kernels are the default");
    Convolutions::Vendor.set().expect("the stand-in");
    assert_same(DType::F32, 1e-4);
    let first = executions();
    // Three sums of each layer.
    assert_eq!(first, 3 * layers().len() as i64);
    assert_same(DType::F32, 1e-4);
    assert_eq!(executions(), 2 * first, "shapes that are known are computed once");
    assert_same(DType::BF16, 4e-2);
    assert_same(DType::F16, 1e-2);
    Convolutions::Own.set().expect("always there");
    let before = executions();
    assert_same(DType::F32, 1e-4);
    assert_eq!(executions(), before);
}

#[test]
#[ignore = "needs a GPU of NVIDIA, or the interpreter of its kernels"]
fn a_vendor_that_computes_wrongly_is_found_out_once() {
    if !is_child() {
        alone("a_vendor_that_computes_wrongly_is_found_out_once", &[("STAND_IN_wrong", "1")]);
        return;
    }
    Convolutions::Vendor.set().expect("the stand-in");
    assert_same(DType::F32, 1e-4);
    let tried = executions();
    assert!(tried > 0);
    assert_same(DType::F32, 1e-4);
    assert_eq!(executions(), tried, "no shape is tried again");
}

#[test]
#[ignore = "needs a GPU of NVIDIA, or the interpreter of its kernels"]
fn a_vendor_without_a_plan_leaves_it_to_our_kernels() {
    if !is_child() {
        alone("a_vendor_without_a_plan_leaves_it_to_our_kernels", &[("STAND_IN_refuse", "15")]);
        return;
    }
    Convolutions::Auto.set().expect("the stand-in");
    assert_same(DType::F32, 1e-4);
    assert_eq!(executions(), 0);
}

#[test]
#[ignore = "needs a GPU of NVIDIA, or the interpreter of its kernels"]
fn a_vendor_that_fails_leaves_it_to_our_kernels_and_later_fails_the_step() {
    const NAME: &str = "a_vendor_that_fails_leaves_it_to_our_kernels_and_later_fails_the_step";
    if !is_child() {
        alone(NAME, &[]);
        return;
    }
    Convolutions::Auto.set().expect("the stand-in");
    let [first, second] = [layers()[0], layers()[1]];
    // Nothing is known about the shape: its first sum is ours.
    tell(c"cudnnBackendExecute", 1);
    assert_same_of(vec![first], DType::F32, 1e-4);
    tell(c"cudnnBackendExecute", 0);
    assert_same_of(vec![second], DType::F32, 1e-4);
    // The plan was right before: the failure is that of the result.
    tell(c"cudnnBackendExecute", 1);
    let failed = std::panic::catch_unwind(|| both_ways(&Device::cuda(0), second, DType::F32)).expect_err("a failure");
    let why = failed.downcast_ref::<String>().cloned().unwrap_or_default();
    for part in ["2 x 2 to 6 channels x 7x8x6, kernel 3x3x3, stride 2x2x2", "cudnnBackendExecute", "--convolutions own"]
    {
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[test]
#[ignore = "needs a GPU of NVIDIA, or the interpreter of its kernels"]
fn a_vendor_that_cannot_be_used_is_an_error_at_the_start_or_not_used() {
    const NAME: &str = "a_vendor_that_cannot_be_used_is_an_error_at_the_start_or_not_used";
    if !is_child() {
        alone(NAME, &[("STAND_IN_version", "90700")]);
        return;
    }
    let refused = Convolutions::Vendor.set().expect_err("too old").to_string();
    assert!(refused.contains("9.7") && refused.contains("9.15"), "{refused}");
    assert_eq!(Convolutions::get(), Convolutions::Own);
    Convolutions::Auto.set().expect("nothing is demanded");
    assert_same(DType::F32, 1e-4);
    assert_eq!(executions(), 0);
}
