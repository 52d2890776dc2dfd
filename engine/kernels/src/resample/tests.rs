//! Compares the kernels with the explicit definition in f64, and with values of scipy and PyTorch.

use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;

use super::taps::{MOST_TAPS, find};
use super::*;

fn volume(shape: [usize; 4], device: &Device) -> Tensor<4> {
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..n).map(|i| ((i * 7919 % 1009) as f32) / 100.0 - 4.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn values(tensor: Tensor<4>) -> Vec<f32> {
    tensor.try_into_vec_as().expect("values")
}

const PADDINGS: [Padding; 7] = [
    Padding::Border,
    Padding::Zeros,
    Padding::Reflection,
    Padding::Mirror,
    Padding::Cut,
    Padding::Wrap,
    Padding::GridWrap,
];

const MODES: [Interpolation; 9] = [
    Interpolation::Nearest,
    Interpolation::Linear,
    Interpolation::Cubic,
    Interpolation::Spline(0),
    Interpolation::Spline(1),
    Interpolation::Spline(2),
    Interpolation::Spline(3),
    Interpolation::Spline(4),
    Interpolation::Spline(5),
];

/// The definition, one value at a time in f64; for splines, `image` holds the coefficients.
fn written_out(image: &[f32], n: [usize; 4], points: &[[f64; 3]], sampling: Sampling) -> Vec<f32> {
    let taps = sampling.mode.taps();
    let mut out = Vec::new();
    for c in 0..n[0] {
        for point in points {
            let (mut index, mut weight) = ([[0; MOST_TAPS]; 3], [[0.0; MOST_TAPS]; 3]);
            for a in 0..3 {
                find(point[a], n[a + 1], sampling, &mut index[a][..taps], &mut weight[a][..taps]);
            }
            let mut sum = 0.0_f64;
            for i in 0..taps {
                for j in 0..taps {
                    for k in 0..taps {
                        let at = ((c * n[1] + index[0][i]) * n[2] + index[1][j]) * n[3] + index[2][k];
                        let w = f64::from(weight[0][i]) * f64::from(weight[1][j]) * f64::from(weight[2][k]);
                        sum += w * f64::from(image[at]);
                    }
                }
            }
            out.push(sum as f32);
        }
    }
    out
}

fn points(matrix: &Matrix, size: [usize; 3]) -> Vec<[f64; 3]> {
    let [sx, sy, sz] = size;
    (0..sx * sy * sz)
        .map(|i| {
            let o = [i / (sy * sz), i / sz % sy, i % sz].map(|v| v as f64);
            matrix.map(|row| (0..3).map(|k| row[k] * o[k]).sum::<f64>() + row[3])
        })
        .collect()
}

fn close(name: &str, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{name}");
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{name}, value {i}: {a} for {b}");
    }
}

/// Compares the kernel, tensor operations, and the kernel for coordinates with the definition.
fn check(device: &Device, tolerance: f32, matrix: &Matrix, shape: [usize; 4], size: [usize; 3], sampling: Sampling) {
    let image = volume(shape, device);
    let target = Target { matrix: *matrix, origin: [0; 3], size };
    let still = std::array::from_fn(|a| shape[a + 1] == 1 && target.reads_zero(a));
    let (coefficients, margins) = spline::coefficients(image.clone(), sampling, still);
    let n = coefficients.dims();
    let at = points(matrix, size);
    let moved: Vec<[f64; 3]> = at.iter().map(|p| std::array::from_fn(|a| p[a] + margins[a] as f64)).collect();
    let expected = written_out(&values(coefficients), n, &moved, sampling);
    let name = |what: &str| format!("{what}, {sampling:?}, {matrix:?}, {shape:?} to {size:?}");
    let got = values(resample(image.clone(), matrix, size, sampling));
    close(&name("kernel"), &got, &expected, tolerance);
    let origin: [usize; 3] = std::array::from_fn(|a| size[a] / 3);
    let part: [usize; 3] = std::array::from_fn(|a| size[a] - origin[a] - size[a] / 4);
    let cut = values(resample_part(image.clone(), matrix, origin, part, sampling));
    let whole = resample(image.clone(), matrix, size, sampling);
    let ranges = std::array::from_fn::<_, 3, _>(|a| origin[a]..origin[a] + part[a]);
    let [x, y, z] = ranges;
    assert_eq!(cut, values(whole.slice([0..shape[0], x, y, z])), "{}", name("part"));
    let got = values(resample_with_tensor_ops(image.clone(), matrix, size, sampling));
    close(&name("tensor operations"), &got, &expected, tolerance);

    // Coordinates in f32, chosen so that rounding has no effect, or where the result is continuous.
    let jumps = matches!(sampling.mode, Interpolation::Nearest | Interpolation::Spline(0))
        || matches!(sampling.padding, Padding::Cut | Padding::Wrap);
    if jumps {
        return;
    }
    let grid: Vec<f32> = (0..3).flat_map(|a| at.iter().map(move |p| p[a] as f32)).collect();
    let grid = Tensor::from_data(TensorData::new(grid, [3, size[0], size[1], size[2]]), device);
    let got = values(sample_grid(image, grid, sampling));
    close(&name("coordinates"), &got, &expected, tolerance * 20.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_matrix_is_sampled_as_defined(
        rows in prop::array::uniform12(-1.5f64..1.5), kind in 0usize..4, mode in 0usize..9, padding in 0usize..7,
        shape in (1usize..3, 1usize..12, 1usize..12, 1usize..12), size in (1usize..11, 1usize..12, 1usize..70),
    ) {
        let mut matrix: Matrix = std::array::from_fn(|r| std::array::from_fn(|c| rows[r * 4 + c]));
        let mut shape = [shape.0, shape.1, shape.2, shape.3];
        let mut size = [size.0, size.1, size.2];
        let mut keep = |order: [usize; 3]| {
            (0..3).for_each(|r| (0..3).filter(|c| order[*c] != r).for_each(|c| matrix[r][c] = 0.0));
        };
        match kind {
            0 => keep([0, 1, 2]),
            1 => keep([2, 0, 1]),
            2 => {
                (shape[3], size[2]) = (1, 1);
                (matrix[2], matrix[0][2], matrix[1][2]) = ([0.0; 4], 0.0, 0.0);
            }
            _ => {}
        }
        let sampling = Sampling { mode: MODES[mode], padding: PADDINGS[padding] };
        check(&Device::flex(), 1e-4, &matrix, shape, size, sampling);
    }
}

/// Values at coordinates, for every mode that another library supports.
fn others_agree(device: &Device, tolerance: f32) {
    let flat: Vec<f32> = (0..3).flat_map(|a| reference::POINTS.map(|p| p[a])).collect();
    let grid = Tensor::<4>::from_data(TensorData::new(flat, [3, reference::POINTS.len(), 1, 1]), device);
    for (order, padding, expected) in reference::SCIPY {
        let sampling = Sampling { mode: Interpolation::Spline(*order), padding: *padding };
        let got = values(sample_grid(volume([1, 14, 6, 5], device), grid.clone(), sampling));
        close(&format!("scipy {sampling:?}"), &got, expected, tolerance);
    }
    let coordinate = |p: [f32; 2], a: usize| if a < 2 { p[a] } else { 0.0 };
    let flat: Vec<f32> = (0..3).flat_map(|a| reference::POINTS_2D.map(|p| coordinate(p, a))).collect();
    let grid = Tensor::<4>::from_data(TensorData::new(flat, [3, reference::POINTS_2D.len(), 1, 1]), device);
    for (mode, padding, expected) in reference::TORCH {
        let sampling = Sampling { mode: *mode, padding: *padding };
        let got = values(sample_grid(volume([1, 9, 7, 1], device), grid.clone(), sampling));
        close(&format!("PyTorch {sampling:?}"), &got, expected, tolerance);
    }
}

#[test]
fn scipy_and_pytorch_agree() {
    others_agree(&Device::flex(), 1e-4);
}

#[test]
fn the_identity_changes_nothing_even_in_a_view() {
    let image = volume([2, 5, 4, 6], &Device::flex());
    let view = image.clone().slice([0..2, 1..4, 0..4, 2..6]).flip([2]);
    let identity = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    for mode in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
        let sampling = Sampling { mode, padding: Padding::Border };
        let out = resample(view.clone(), &identity, [3, 4, 4], sampling);
        assert_eq!(values(out), values(view.clone()));
    }
}

#[test]
fn nothing_gives_zeros() {
    let empty = Tensor::<4>::zeros([1, 0, 2, 2], &Device::flex());
    let identity = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    assert_eq!(values(resample(empty, &identity, [2, 1, 1], Sampling::default())), [0.0, 0.0]);
}

/// The same on a Vulkan device, physical or software. Coordinates of a general matrix are f32
/// there, so none lies half-way between voxels here.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver (Mesa's software driver will do)"]
fn vulkan_samples_as_defined() {
    let device = Device::vulkan(burn::tensor::DeviceKind::DefaultDevice);
    others_agree(&device, 1e-3);
    let scaling = [[0.63, 0.0, 0.0, -0.4], [0.0, 1.37, 0.0, 0.25], [0.0, 0.0, 0.81, 0.1]];
    let exchanging = [[0.0, 0.63, 0.0, -0.4], [0.0, 0.0, 1.37, 0.25], [0.81, 0.0, 0.0, 0.1]];
    let turned = [[0.8, -0.31, 0.1, 0.7013], [0.27, 0.9, -0.2, -0.6037], [0.05, 0.15, 1.1, 0.3319]];
    for padding in PADDINGS {
        for mode in MODES {
            let sampling = Sampling { mode, padding };
            check(&device, 1e-3, &scaling, [2, 5, 6, 4], [8, 4, 5], sampling);
            check(&device, 1e-3, &exchanging, [2, 5, 6, 4], [8, 4, 5], sampling);
            check(&device, 1e-3, &turned, [2, 5, 6, 4], [5, 7, 4], sampling);
        }
    }
}
