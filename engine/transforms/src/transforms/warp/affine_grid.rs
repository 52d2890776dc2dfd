use burn::tensor::{Device, Tensor, TensorData};
use hearth_image::spatial::{AffineParameters, RotateOrder, check_grid};
use hearth_image::{Affine, OneOrMany, TransformError, affine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affine::given_matrix;

/// The positions that an [`Affine`](super::Affine) transform reads, about the centre of the image:
/// the input of MONAI's `Resample`.
///
/// Not a step of a pipeline: [`AffineGrid::grid`] returns the positions themselves.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AffineGrid {
    /// Rotation angles in radians.
    pub rotate_params: Option<OneOrMany<f64>>,
    /// Factors of the single shears.
    pub shear_params: Option<OneOrMany<f64>>,
    /// Shift in voxels.
    pub translate_params: Option<OneOrMany<f64>>,
    /// Scale factors.
    pub scale_params: Option<OneOrMany<f64>>,
    /// Matrix of 3x3 or 4x4 numbers that replaces all of the above.
    pub affine: Option<Vec<Vec<f64>>>,
    /// Whether to scale positions by n / (n - 1) along an axis of n voxels.
    pub align_corners: bool,
    /// Rotation axes of the angles.
    pub rotate_order: RotateOrder,
}

impl AffineGrid {
    /// Returns the matrix in `n` (2 or 3) dimensions.
    ///
    /// # Errors
    /// If there are too many angles, or numbers that are not finite.
    pub fn matrix(&self, n: usize) -> Result<Affine, TransformError> {
        if let Some(rows) = &self.affine {
            return given_matrix(rows, n);
        }
        let list = |values: &Option<OneOrMany<f64>>| values.as_ref().map_or(Vec::new(), |v| v.as_slice().to_vec());
        AffineParameters {
            rotate: list(&self.rotate_params),
            shear: list(&self.shear_params),
            translate: list(&self.translate_params),
            scale: list(&self.scale_params),
            rotate_order: self.rotate_order.clone(),
        }
        .matrix(n)
    }

    /// Returns the positions of a grid of this size (2 or 3 axes): `[n + 1, size...]` with 1 in the
    /// last entry, in a tensor of four axes (2-D: the last one is 1), and the matrix.
    ///
    /// # Errors
    /// Those of [`AffineGrid::matrix`], and if the size is too large.
    pub fn grid(&self, size: &[usize], device: &Device) -> Result<(Tensor<4>, Affine), TransformError> {
        let n = size.len();
        if !(2..=3).contains(&n) {
            return Err(TransformError::new(format!("a grid of {n} axes")).expected("2 or 3"));
        }
        let size: [usize; 3] = std::array::from_fn(|a| size.get(a).copied().unwrap_or(1));
        check_grid(n + 1, size)?;
        let matrix = self.matrix(n)?;
        let mut about_centre = matrix;
        for axis in 0..n {
            let length = size[axis].max(2) as f64;
            let scale = if self.align_corners { length / (length - 1.0) } else { 1.0 };
            about_centre.iter_mut().for_each(|row| row[axis] *= scale);
        }
        let centre = std::array::from_fn(|a| if a < n { (1.0 - size[a] as f64) / 2.0 } else { 0.0 });
        let to_place = affine::compose(&about_centre, &affine::translation(centre));
        let voxels = size.iter().product::<usize>();
        let mut values = vec![1.0_f32; (n + 1) * voxels];
        for (r, row) in values.chunks_exact_mut(voxels).enumerate().take(n) {
            for (i, value) in row.iter_mut().enumerate() {
                let at = [i / (size[1] * size[2]), i / size[2] % size[1], i % size[2]];
                let place = affine::apply(&to_place, at.map(|v| v as f64));
                *value = place[r] as f32;
            }
        }
        Ok((Tensor::from_data(TensorData::new(values, [n + 1, size[0], size[1], size[2]]), device), matrix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_grids_are_refused() {
        let grid = AffineGrid::default();
        for size in [&[4][..], &[4, 0], &[70_000, 4], &[60_000; 3], &[1, 1, 1, 1]] {
            assert!(grid.grid(size, &hearth_image::host_device()).is_err(), "{size:?}");
        }
        let wild = AffineGrid { affine: Some(vec![vec![1.0, 0.0]; 2]), ..AffineGrid::default() };
        assert!(wild.grid(&[2, 2], &hearth_image::host_device()).is_err());
    }
}
