//! Positions of voxels.
//!
//! DICOM's axes point towards the patient's left, posterior and superior (LPS). Affines in this
//! crate point towards right, anterior and superior (RAS+), as in NIfTI: the first two rows change
//! sign.

/// An affine from voxel index `(i, j, k, 1)` to world position in mm, RAS+.
pub type Affine = [[f64; 4]; 4];

/// A vector in mm, LPS.
pub(crate) type Vector = [f64; 3];

pub(crate) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// `a + by * b`.
pub(crate) fn along(a: Vector, b: Vector, by: f64) -> Vector {
    std::array::from_fn(|i| a[i] + by * b[i])
}

pub(crate) fn norm(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

/// Unit vectors along rows (towards higher columns) and columns (towards higher rows).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Orientation {
    pub row: Vector,
    pub column: Vector,
}

impl Orientation {
    pub const AXIAL: Orientation = Orientation { row: [1.0, 0.0, 0.0], column: [0.0, 1.0, 0.0] };

    /// Creates an orientation from ImageOrientationPatient: two orthogonal unit vectors, up to
    /// rounding.
    pub fn new(cosines: [f64; 6]) -> Result<Self, String> {
        let [a, b, c, d, e, f] = cosines;
        let (row, column) = ([a, b, c], [d, e, f]);
        let slack = 1e-2;
        if (norm(row) - 1.0).abs() > slack || (norm(column) - 1.0).abs() > slack || dot(row, column).abs() > slack {
            return Err(format!("{cosines:?} are not two directions at right angles"));
        }
        let unit = |v: Vector| v.map(|x| x / norm(v));
        Ok(Orientation { row: unit(row), column: unit(column) })
    }

    /// The normal, right-handed with rows and columns.
    pub fn normal(&self) -> Vector {
        let n = cross(self.row, self.column);
        n.map(|x| x / norm(n))
    }

    /// Whether two slices can lie in one stack: within about a tenth of a degree.
    pub fn is_close(&self, other: &Orientation) -> bool {
        let near = |a: Vector, b: Vector| norm(along(a, b, -1.0)) < 2e-3;
        near(self.row, other.row) && near(self.column, other.column)
    }
}

/// The voxels of a volume: their number and positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    shape: [usize; 3],
    affine: Affine,
    /// The first voxel of each slice, LPS. With uneven gaps, these positions differ from the
    /// affine's.
    origins: Vec<Vector>,
}

impl Grid {
    /// A grid of `shape` voxels `[X, Y, Z]`.
    pub fn new(shape: [usize; 3], affine: Affine) -> Self {
        let origin = |k: usize| {
            let ras: Vector = std::array::from_fn(|r| affine[r][2] * k as f64 + affine[r][3]);
            flip(ras)
        };
        Grid { shape, affine, origins: (0..shape[2]).map(origin).collect() }
    }

    /// The grid of a stack of slices, from the pixel distances along rows and columns in mm, the
    /// first voxel of each slice, and the distance of slices for a single slice.
    pub(crate) fn stack(
        [x, y]: [usize; 2],
        orientation: &Orientation,
        [dx, dy]: [f64; 2],
        origins: Vec<Vector>,
        thickness: f64,
    ) -> Self {
        let steps = origins.len().saturating_sub(1).max(1) as f64;
        let first = origins.first().copied().unwrap_or_default();
        let between = match origins.last() {
            Some(last) if origins.len() > 1 => along(*last, first, -1.0).map(|v| v / steps),
            _ => orientation.normal().map(|v| v * thickness),
        };
        let columns = [orientation.row.map(|v| v * dx), orientation.column.map(|v| v * dy), between, first].map(flip);
        let mut affine: Affine = [[0.0, 0.0, 0.0, 0.0], [0.0; 4], [0.0; 4], [0.0, 0.0, 0.0, 1.0]];
        for (row, values) in affine.iter_mut().take(3).enumerate() {
            // Avoids negative zero.
            *values = columns.map(|c| c[row] + 0.0);
        }
        Grid { shape: [x, y, origins.len()], affine, origins }
    }

    /// The numbers of voxels along `[X, Y, Z]`.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// The affine from voxel index to RAS+ mm.
    pub fn affine(&self) -> &Affine {
        &self.affine
    }

    /// The distances between neighbouring voxels along each axis, in mm.
    pub fn spacing(&self) -> [f64; 3] {
        std::array::from_fn(|c| norm([self.affine[0][c], self.affine[1][c], self.affine[2][c]]))
    }

    pub(crate) fn origins(&self) -> &[Vector] {
        &self.origins
    }

    /// A column of the affine in LPS: the step along one axis.
    pub(crate) fn step(&self, axis: usize) -> Vector {
        flip(std::array::from_fn(|r| self.affine[r][axis]))
    }

    /// Maps positions to columns, rows, and distance from a slice; `None` if rows and columns are
    /// parallel.
    pub(crate) fn plane(&self) -> Option<Plane> {
        let (x, y) = (self.step(0), self.step(1));
        let n = cross(x, y);
        let length = norm(n);
        if length <= 1e-12 * norm(x) * norm(y) || !length.is_finite() {
            return None;
        }
        let normal = n.map(|v| v / length);
        // The dual basis: its dot products with a vector are the vector's coordinates along x and
        // y.
        let square = length * length;
        Some(Plane { i: cross(y, n).map(|v| v / square), j: cross(n, x).map(|v| v / square), normal })
    }
}

/// Coordinates within the slices of a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plane {
    i: Vector,
    j: Vector,
    pub normal: Vector,
}

impl Plane {
    /// The column and row of a position relative to a slice's first voxel (fractional; whole
    /// numbers are centres of pixels).
    pub fn column_row(&self, origin: Vector, position: Vector) -> [f64; 2] {
        let from = along(position, origin, -1.0);
        [dot(from, self.i), dot(from, self.j)]
    }
}

/// LPS to RAS, or back.
fn flip([x, y, z]: Vector) -> Vector {
    [-x, -y, z]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_indices_are_inverse() {
        let orientation = Orientation::new([0.0, 0.8, 0.6, 0.0, -0.6, 0.8]).expect("right angles");
        assert_eq!(orientation.normal().map(f64::round), [1.0, 0.0, 0.0]);
        let origins = vec![[1.0, 2.0, 3.0], [2.0, 2.5, 3.0], [3.0, 3.0, 3.0]];
        let grid = Grid::stack([5, 7], &orientation, [0.5, 2.0], origins, 1.0);
        assert_eq!((grid.shape(), grid.spacing().map(|s| (s * 1e4).round() / 1e4)), ([5, 7, 3], [0.5, 2.0, 1.118]));
        let plane = grid.plane().expect("regular");
        for (k, origin) in grid.origins().iter().enumerate() {
            let index = [3.0, 4.0, k as f64];
            let ras: Vector = std::array::from_fn(|r| {
                (0..3).map(|c| grid.affine()[r][c] * index[c]).sum::<f64>() + grid.affine()[r][3]
            });
            let [i, j] = plane.column_row(*origin, flip(ras));
            assert!((i - 3.0).abs() < 1e-12 && (j - 4.0).abs() < 1e-12, "{i} {j}");
        }
        assert_eq!(Grid::new(grid.shape(), *grid.affine()).origins()[2], [3.0, 3.0, 3.0]);
    }

    #[test]
    fn one_slice_has_its_thickness_as_distance() {
        let grid = Grid::stack([2, 2], &Orientation::AXIAL, [1.0, 1.0], vec![[10.0, 20.0, 30.0]], 2.5);
        let expected = [[-1.0, 0.0, 0.0, -10.0], [0.0, -1.0, 0.0, -20.0], [0.0, 0.0, 2.5, 30.0], [0.0, 0.0, 0.0, 1.0]];
        assert_eq!(*grid.affine(), expected);
    }

    #[test]
    fn nonsense_is_no_orientation() {
        assert!(Orientation::new([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]).is_err());
        assert!(Orientation::new([0.0; 6]).is_err());
        assert!(Orientation::new([1.0, 0.0, 0.0, 0.0, 1.0, f64::NAN]).is_err() || f64::NAN.is_nan());
    }
}
