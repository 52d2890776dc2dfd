//! Windows of the Swin transformer: sizes, shifts, masks, and the conversion of images to windows
//! and back.

use burn::tensor::{Device, Tensor, TensorData};

/// The window and shift for an image of this size. A window is at most as large as its axis, and a
/// window that covers its axis is not shifted.
pub(super) fn fit(image: [usize; 3], window: [usize; 3], shift: [usize; 3]) -> ([usize; 3], [usize; 3]) {
    let whole = |axis: usize| image[axis] <= window[axis];
    let fitted = std::array::from_fn(|axis| if whole(axis) { image[axis] } else { window[axis] });
    let shifted = std::array::from_fn(|axis| if whole(axis) { 0 } else { shift[axis] });
    (fitted, shifted)
}

/// Cuts `[b, x, y, z, c]` into `[b windows, positions, c]`; every axis is a multiple of the
/// window's.
pub(super) fn partition(x: Tensor<5>, [wx, wy, wz]: [usize; 3]) -> Tensor<3> {
    let [b, nx, ny, nz, c] = x.dims();
    let (gx, gy, gz) = (nx / wx, ny / wy, nz / wz);
    let split = x.reshape([b, gx, wx, gy, wy, gz, wz, c]).permute([0, 1, 3, 5, 2, 4, 6, 7]);
    split.reshape([b * gx * gy * gz, wx * wy * wz, c])
}

/// Converts `[b windows, positions, c]` back to `[b, x, y, z, c]`.
pub(super) fn reverse(windows: Tensor<3>, [wx, wy, wz]: [usize; 3], [nx, ny, nz]: [usize; 3]) -> Tensor<5> {
    let [count, _, c] = windows.dims();
    let (gx, gy, gz) = (nx / wx, ny / wy, nz / wz);
    let b = count / (gx * gy * gz).max(1);
    let split = windows.reshape([b, gx, gy, gz, wx, wy, wz, c]).permute([0, 1, 4, 2, 5, 3, 6, 7]);
    split.reshape([b, nx, ny, nz, c])
}

/// The regions of an image of this size, cut into windows of at most `window`, shifted by at most
/// `shift`.
pub(crate) fn shifted_regions(image: [usize; 3], window: [usize; 3], shift: [usize; 3], device: &Device) -> Tensor<2> {
    let (window, shift) = fit(image, window, shift);
    let padded = std::array::from_fn(|axis| image[axis].next_multiple_of(window[axis]));
    regions(padded, window, shift, device)
}

/// The region number of every position of every window of a shifted image, `[windows, positions]`.
/// Positions that are neighbours only because of the shift have different numbers.
fn regions(size: [usize; 3], window: [usize; 3], shift: [usize; 3], device: &Device) -> Tensor<2> {
    let grid: [usize; 3] = std::array::from_fn(|axis| size[axis] / window[axis]);
    let places: usize = window.iter().product();
    let region = |axis: usize, at: usize| match shift[axis] {
        0 => 0,
        shift if at + shift >= size[axis] => 2,
        _ if at + window[axis] >= size[axis] => 1,
        _ => 0,
    };
    let at = |index: usize, of: [usize; 3]| [index / (of[1] * of[2]), index / of[2] % of[1], index % of[2]];
    let count = grid.iter().product::<usize>();
    let mut values = Vec::with_capacity(count * places);
    for index in 0..count {
        let corner = at(index, grid);
        values.extend((0..places).map(|place| {
            let place = at(place, window);
            let [x, y, z] = std::array::from_fn(|axis| region(axis, corner[axis] * window[axis] + place[axis]));
            ((x * 3 + y) * 3 + z) as f32
        }));
    }
    Tensor::from_data(TensorData::new(values, [count, places]), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_put_back() {
        let values: Vec<f32> = (0..2 * 4 * 6 * 2 * 3).map(|i| i as f32).collect();
        let x = Tensor::<5>::from_data(TensorData::new(values, [2, 4, 6, 2, 3]), &Device::default());
        let windows = partition(x.clone(), [2, 3, 1]);
        assert_eq!(windows.dims(), [2 * 2 * 2 * 2, 6, 3]);
        // The second position of the first window is the next along y.
        assert_eq!(windows.clone().slice([0..1, 1..2, 0..1]).into_scalar::<f32>(), 6.0);
        assert_eq!(reverse(windows, [2, 3, 1], [4, 6, 2]).into_data(), x.into_data());
    }

    #[test]
    fn windows_as_large_as_the_image_are_not_shifted() {
        assert_eq!(fit([7, 8, 3], [7; 3], [3; 3]), ([7, 7, 3], [0, 3, 0]));
    }

    /// One axis of 8, windows of 4, shift 2: the last window holds positions 4, 5 and, from the
    /// other end, 0, 1.
    #[test]
    fn places_from_two_ends_do_not_see_each_other() {
        let regions: Vec<f32> =
            regions([8, 1, 1], [4, 1, 1], [2, 0, 0], &Device::default()).into_data().iter::<f32>().collect();
        assert!(regions[..4].iter().all(|v| *v == regions[0]));
        let far = |i: usize, j: usize| regions[4 + i] != regions[4 + j];
        for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
            assert_eq!(far(i, j), (i < 2) != (j < 2), "{i}, {j}");
        }
    }
}
