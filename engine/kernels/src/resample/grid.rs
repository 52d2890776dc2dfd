//! Sampling at coordinates of one's own.

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::{Sampling, taps};

/// Samples `image` (`[C, X, Y, Z]`) at `coordinates` (`[3, X', Y', Z']`): output voxel `o` takes the value at
/// `coordinates[.., o]`, in voxels of the image along its three axes. Gives `[C, X', Y', Z']` on the image's own device.
///
/// A 2-D image has `Z = 1`; its third coordinate is 0. An image with an empty axis gives zeros.
///
/// # Panics
/// Where the first axis of `coordinates` is not 3.
pub fn sample_grid(image: Tensor<4>, coordinates: Tensor<4>, sampling: Sampling) -> Tensor<4> {
    let dims = image.dims();
    let [three, sx, sy, sz] = coordinates.dims();
    assert_eq!(three, 3, "coordinates have one entry per axis");
    let device = image.device();
    let shape = [dims[0], sx, sy, sz];
    if dims.contains(&0) || shape.contains(&0) {
        return Tensor::zeros(shape, &device);
    }
    let (Ok(source), Ok(at)) = (image.try_into_vec_as::<f32>(), coordinates.try_into_vec_as::<f32>()) else {
        return Tensor::zeros(shape, &device);
    };
    let volume = dims[1] * dims[2] * dims[3];
    let count = sx * sy * sz;
    let mut out = vec![0.0_f32; dims[0] * count];
    out.par_chunks_mut(sy * sz).enumerate().for_each(|(plane, target)| {
        let (c, start) = (plane / sx, plane % sx * sy * sz);
        let image = &source[c * volume..][..volume];
        for (i, value) in target.iter_mut().enumerate() {
            let t: [_; 3] = std::array::from_fn(|a| taps(f64::from(at[a * count + start + i]), dims[a + 1], sampling));
            let line = |x: usize, y: usize| {
                let row = &image[(x * dims[2] + y) * dims[3]..][..dims[3]];
                row[t[2].low] * t[2].weight_low + row[t[2].high] * t[2].weight_high
            };
            let pair = |x: usize| line(x, t[1].low) * t[1].weight_low + line(x, t[1].high) * t[1].weight_high;
            *value = pair(t[0].low) * t[0].weight_low + pair(t[0].high) * t[0].weight_high;
        }
    });
    Tensor::from_data(TensorData::new(out, shape), &device)
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn a_grid_of_the_voxels_themselves_gives_the_image() {
        let device = Device::flex();
        let values: Vec<f32> = (0..24).map(|v| v as f32).collect();
        let image = Tensor::<4>::from_data(TensorData::new(values.clone(), [1, 2, 3, 4]), &device);
        let at: Vec<f32> = (0..3).flat_map(|a| (0..24).map(move |i| [i / 12, i / 4 % 3, i % 4][a] as f32)).collect();
        let grid = Tensor::<4>::from_data(TensorData::new(at, [3, 2, 3, 4]), &device);
        let out = sample_grid(image, grid, Sampling::default());
        assert_eq!(out.try_into_vec_as::<f32>().expect("values"), values);
    }
}
