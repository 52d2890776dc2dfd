//! Matrices that a plane of units multiplies together: factors in shared memory, sums in registers.

use cubecl::cmma;
use cubecl::cmma::MatrixLayout;
use cubecl::prelude::*;

/// The number of units of a plane, where matrices are supported.
pub(super) const PLANE: usize = 32;
/// Rows, columns and depth of a matrix.
pub(super) const EDGE: usize = 16;

/// Makes the given number of matrices of zeros.
#[cube]
pub(super) fn zeros(#[comptime] count: usize) -> Sequence<cmma::Matrix<f32>> {
    let mut products = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _i in 0..count {
        products.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            EDGE,
            EDGE,
            EDGE,
            MatrixLayout::Undefined,
            0.0f32,
        ));
    }
    products
}

/// Adds the products of `rows` matrices, whose rows or columns are contiguous as given by `layout`,
/// and `columns` matrices, whose rows are contiguous. They begin at `at` and `by_at`, and their
/// rows or columns are `stride` and `by_stride` apart.
#[cube]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
pub(super) fn multiply<S: Float>(
    values: &[Vector<S, Const<1>>],
    at: usize,
    #[comptime] stride: usize,
    #[comptime] layout: MatrixLayout,
    by: &[Vector<S, Const<1>>],
    by_at: usize,
    #[comptime] by_stride: usize,
    products: &Sequence<cmma::Matrix<f32>>,
    #[comptime] rows: usize,
    #[comptime] columns: usize,
) {
    let mut factors = Sequence::<cmma::Matrix<Vector<S, Const<1>>>>::new();
    #[unroll]
    for j in 0..columns {
        let begin = by_at + comptime!(j * EDGE);
        factors.push(cmma::Matrix::<Vector<S, Const<1>>>::from_slice(
            cmma::MatrixIdent::B,
            EDGE,
            EDGE,
            EDGE,
            MatrixLayout::RowMajor,
            &by[begin..begin + comptime!((EDGE - 1) * by_stride + EDGE)],
            by_stride as u32,
        ));
    }
    #[unroll]
    for i in 0..rows {
        let begin = at + comptime!(i * EDGE * if layout == MatrixLayout::RowMajor { stride } else { 1 });
        let values = cmma::Matrix::<Vector<S, Const<1>>>::from_slice(
            cmma::MatrixIdent::A,
            EDGE,
            EDGE,
            EDGE,
            layout,
            &values[begin..begin + comptime!((EDGE - 1) * stride + EDGE)],
            stride as u32,
        );
        #[unroll]
        for j in 0..columns {
            let product = products.index(comptime!(i * columns + j));
            cmma::execute(&values, factors.index(j), product, product);
        }
    }
}

/// Writes the products of the `j`-th matrix of each row of matrices from `at` on, column after
/// column of length `stride`.
#[cube]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
pub(super) fn write(
    products: &Sequence<cmma::Matrix<f32>>,
    to: &mut [f32],
    at: usize,
    #[comptime] stride: usize,
    #[comptime] rows: usize,
    #[comptime] columns: usize,
    #[comptime] j: usize,
) {
    #[unroll]
    for i in 0..rows {
        let begin = at + comptime!(i * EDGE);
        cmma::store(
            &mut to[begin..begin + comptime!((EDGE - 1) * stride + EDGE)],
            products.index(comptime!(i * columns + j)),
            stride as u32,
            MatrixLayout::ColMajor,
        );
    }
}
