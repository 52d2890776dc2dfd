//! Voxel-to-world matrices: 4x4, f64, world in millimetres towards Right, Anterior, Superior
//! (RAS+).
//!
//! ```
//! use hearth_image::affine;
//! let grid = [[2.0, 0.0, 0.0, 10.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
//! assert_eq!(affine::spacing(&grid), [2.0, 2.0, 5.0]);
//! assert_eq!(affine::apply(&grid, [1.0, 1.0, 1.0]), [12.0, 2.0, 5.0]);
//! assert_eq!(affine::inverse(&grid).map(|back| affine::compose(&grid, &back)), Some(affine::IDENTITY));
//! ```

/// A matrix from voxel index `(i, j, k, 1)` to world position in mm, RAS+.
pub type Affine = [[f64; 4]; 4];

/// The affine of voxels of 1 mm, the first at the origin.
pub const IDENTITY: Affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];

/// Multiplies `a * b`: `b` acts first, then `a`.
pub fn compose(a: &Affine, b: &Affine) -> Affine {
    std::array::from_fn(|r| std::array::from_fn(|c| (0..4).map(|k| a[r][k] * b[k][c]).sum()))
}

/// Inverts a matrix by Gauss-Jordan elimination with row pivoting; `None` if it is singular or not
/// finite.
pub fn inverse(a: &Affine) -> Option<Affine> {
    let mut left = *a;
    let mut right = IDENTITY;
    for column in 0..4 {
        let pivot = (column..4).max_by(|p, q| left[*p][column].abs().total_cmp(&left[*q][column].abs()))?;
        if left[pivot][column] == 0.0 || !left[pivot][column].is_finite() {
            return None;
        }
        left.swap(column, pivot);
        right.swap(column, pivot);
        let scale = left[column][column];
        for k in 0..4 {
            left[column][k] /= scale;
            right[column][k] /= scale;
        }
        for row in 0..4 {
            let factor = left[row][column];
            if row != column && factor != 0.0 {
                for k in 0..4 {
                    left[row][k] -= factor * left[column][k];
                    right[row][k] -= factor * right[column][k];
                }
            }
        }
    }
    right.iter().flatten().all(|v| v.is_finite()).then_some(right)
}

/// Returns the world position of a (fractional) voxel index.
#[inline]
pub fn apply(a: &Affine, [x, y, z]: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|r| a[r][0] * x + a[r][1] * y + a[r][2] * z + a[r][3])
}

/// Returns the matrix that moves by `offset` voxels.
pub fn translation(offset: [f64; 3]) -> Affine {
    let mut matrix = IDENTITY;
    for (row, by) in matrix.iter_mut().zip(offset) {
        row[3] = by;
    }
    matrix
}

/// Returns the distance between neighbouring voxels per axis, in mm; 1 where a column is all zero
/// (as in MONAI).
pub fn spacing(a: &Affine) -> [f64; 3] {
    std::array::from_fn(|c| {
        let norm = (0..3).map(|r| a[r][c] * a[r][c]).sum::<f64>().sqrt();
        if norm == 0.0 { 1.0 } else { norm }
    })
}

/// Returns the spacing within the first `n` spatial axes only: a 2-D image uses the upper left 2x2
/// block.
pub fn spacing_in(a: &Affine, n: usize) -> [f64; 3] {
    spacing(&restrict(a, n))
}

/// Returns the affine of an image with `n` spatial axes: the rest is the identity (MONAI's
/// `to_affine_nd`).
pub fn restrict(a: &Affine, n: usize) -> Affine {
    let mut out = IDENTITY;
    for r in 0..n {
        out[r][..n].copy_from_slice(&a[r][..n]);
        out[r][3] = a[r][3];
    }
    out
}

/// Returns the largest absolute difference of two matrices.
pub fn distance(a: &Affine, b: &Affine) -> f64 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn inverse_undoes(values in proptest::array::uniform12(-5.0f64..5.0)) {
            let mut a = IDENTITY;
            for r in 0..3 {
                for c in 0..4 {
                    a[r][c] = values[r * 4 + c];
                }
                a[r][r] += 12.0_f64.copysign(a[r][r]);
            }
            let back = compose(&inverse(&a).expect("well conditioned"), &a);
            prop_assert!(distance(&back, &IDENTITY) < 1e-9);
        }
    }

    #[test]
    fn a_singular_matrix_has_no_inverse() {
        let mut a = IDENTITY;
        a[2][2] = 0.0;
        assert!(inverse(&a).is_none());
        a[2][2] = f64::NAN;
        assert!(inverse(&a).is_none());
    }

    #[test]
    fn spacing_is_the_column_norm() {
        let a = [[3.0, 0.0, 0.0, 9.0], [4.0, 0.0, 0.0, 9.0], [0.0, -2.0, 0.0, 9.0], [0.0, 0.0, 0.0, 1.0]];
        assert_eq!(spacing(&a), [5.0, 2.0, 1.0]);
        assert_eq!(spacing_in(&a, 2), [5.0, 1.0, 1.0]);
    }
}
