//! Samples an image at explicit positions: elastic deformations, distorted grids.

use burn::tensor::{Tensor, TensorData};
use hearth_kernels::{host, sample_grid};
use rayon::prelude::*;

use super::{GridSampling, Warp, check_grid, lazy};
use crate::TransformError;
use crate::affine::{self, Affine};
use crate::image::{Applied, Image};

/// Samples an image at `places` (`[3, X, Y, Z]`, voxels of the image; 0 along the third axis in
/// 2-D).
///
/// As in MONAI, the inverse does not undo the deformation, only a change of size about the centre.
/// The affine is updated for the size.
///
/// # Errors
/// Those of [`check_grid`], and if `places` does not have three entries per voxel.
pub fn deform(image: Image, places: Tensor<4>, sampling: GridSampling) -> Result<Image, TransformError> {
    let mut image = lazy::flush(image)?;
    let [entries, x, y, z] = places.dims();
    let (shape, size, n) = (image.shape(), [x, y, z], image.meta.spatial_dims);
    if entries != 3 {
        return Err(TransformError::new(format!("places with {entries} entries each")).expected("one per axis, three"));
    }
    check_grid(image.channels(), size)?;
    image.data = sample_grid(image.data, places, sampling.kernel());
    if size != shape {
        let how = Warp::about_centre(&affine::IDENTITY, shape, size, n, false, false)?;
        let affine = image.affine;
        image.affine = affine::compose(&affine, how.matrix());
        image.meta.applied.push(Applied::Warp { affine, shape, back: *how.back(), sampling });
    }
    Ok(image)
}

/// Returns the positions that a warp reads if each voxel of the new grid is first displaced by
/// `magnitude * field` (`[3, X, Y, Z]`, voxels).
pub fn displaced(field: Tensor<4>, magnitude: f64, how: &Warp) -> Tensor<4> {
    let matrix = how.sample();
    let [_, _, y, z] = field.dims();
    host::change(field, |values| displace(values, [y, z], magnitude as f32, matrix))
        .unwrap_or_else(|field| displaced_on_device(field, magnitude, matrix))
}

/// Computes the positions in place, plane by plane, in threads.
fn displace(values: &mut [f32], [ny, nz]: [usize; 2], magnitude: f32, matrix: &Affine) {
    let plane = ny * nz;
    let (first, rest) = values.split_at_mut(values.len() / 3);
    let (second, third) = rest.split_at_mut(rest.len() / 2);
    let linear = [0, 1, 2].map(|r| [0, 1, 2].map(|c| matrix[r][c] as f32 * magnitude));
    let step = [0, 1, 2].map(|r| matrix[r][2] as f32);
    let planes = first.par_chunks_mut(plane).zip(second.par_chunks_mut(plane)).zip(third.par_chunks_mut(plane));
    planes.enumerate().for_each(|(x, ((first, second), third))| {
        for y in 0..ny {
            let start = affine::apply(matrix, [x as f64, y as f64, 0.0]).map(|v| v as f32);
            let row = y * nz..(y + 1) * nz;
            let values = first[row.clone()].iter_mut().zip(&mut second[row.clone()]).zip(&mut third[row]);
            for (k, ((a, b), c)) in values.enumerate() {
                let k = k as f32;
                let moved =
                    |r: usize| start[r] + step[r] * k + linear[r][0] * *a + linear[r][1] * *b + linear[r][2] * *c;
                (*a, *b, *c) = (moved(0), moved(1), moved(2));
            }
        }
    });
}

/// The same as weighted sums of the field's channels and three broadcast sums. (A product with a 3
/// x 3 matrix would be autotuned again for each size of the field.)
fn displaced_on_device(field: Tensor<4>, magnitude: f64, matrix: &Affine) -> Tensor<4> {
    let device = field.device();
    let [_, nx, ny, nz] = field.dims();
    let size = [nx, ny, nz];
    let channel = |c: usize| field.clone().narrow(0, c, 1);
    let row = |r: usize| {
        let weighted = |c: usize| channel(c).mul_scalar((matrix[r][c] * magnitude) as f32);
        weighted(0) + weighted(1) + weighted(2)
    };
    let mut out = Tensor::cat(vec![row(0), row(1), row(2)], 0);
    for axis in 0..3 {
        let shift = |r: usize| if axis == 0 { matrix[r][3] } else { 0.0 };
        let line: Vec<f32> =
            (0..3).flat_map(|r| (0..size[axis]).map(move |i| (matrix[r][axis] * i as f64 + shift(r)) as f32)).collect();
        let mut along = [3, 1, 1, 1];
        along[axis + 1] = size[axis];
        out = out + Tensor::<4>::from_data(TensorData::new(line, along), &device);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(tensor: Tensor<4>) -> Vec<f32> {
        tensor.try_into_vec_as().expect("values")
    }

    proptest! {
        /// The GPU's operations yield the same positions as the loop on the CPU, and both match the
        /// definition.
        #[test]
        fn places_are_displaced_then_turned(
            rows in prop::array::uniform12(-1.5f64..1.5), magnitude in -3.0f64..3.0,
            size in (1usize..5, 1usize..5, 1usize..5),
        ) {
            let mut matrix = affine::IDENTITY;
            (0..12).for_each(|i| matrix[i / 4][i % 4] = rows[i]);
            let [x, y, z] = [size.0, size.1, size.2];
            let n = x * y * z;
            let field: Vec<f32> = (0..3 * n).map(|i| (i * 37 % 19) as f32 / 19.0 - 0.5).collect();
            let tensor = || Tensor::<4>::from_data(TensorData::new(field.clone(), [3, x, y, z]), &crate::host_device());
            let mut in_place = field.clone();
            displace(&mut in_place, [y, z], magnitude as f32, &matrix);
            let on_device = values(displaced_on_device(tensor(), magnitude, &matrix));
            for i in 0..n {
                let at = [i / (y * z), i / z % y, i % z];
                let moved = std::array::from_fn(|a| at[a] as f64 + magnitude * f64::from(field[a * n + i]));
                let place = affine::apply(&matrix, moved);
                for r in 0..3 {
                    for got in [in_place[r * n + i], on_device[r * n + i]] {
                        prop_assert!((f64::from(got) - place[r]).abs() < 2e-5, "{} for {}", got, place[r]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_change_of_size_is_undone_and_the_rest_is_not() {
        let numbers: Vec<f32> = (0..60).map(|v| v as f32).collect();
        let image = Image::from_values(numbers, [1, 3, 4, 5], affine::IDENTITY, &crate::host_device());
        // A shift of one voxel along the last axis, on a grid that is two voxels shorter there.
        let how = Warp::about_centre(&affine::IDENTITY, [3, 4, 5], [3, 4, 3], 3, false, false).expect("a warp");
        let field = Tensor::<4>::ones([3, 3, 4, 3], &crate::host_device()).slice_fill([0..2], 0.0);
        let moved = deform(image.clone(), displaced(field, 1.0, &how), GridSampling::default()).expect("moved");
        assert_eq!(moved.to_vec()[..6], [2.0, 3.0, 4.0, 7.0, 8.0, 9.0]);
        assert_eq!(moved.affine[2][3], 1.0);
        let back = moved.undo_last(false).expect("undone");
        assert_eq!((back.shape(), back.affine), (image.shape(), image.affine));
        assert_eq!(back.to_vec()[..5], [2.0, 2.0, 3.0, 4.0, 4.0]);
        let none = Tensor::<4>::zeros([2, 3, 4, 5], &crate::host_device());
        assert!(deform(image, none, GridSampling::default()).is_err());
    }
}
