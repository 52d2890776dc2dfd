//! Matrices of rotations, shears, shifts and scalings about the origin, as MONAI composes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TransformError;
use crate::affine::{self, Affine};

/// The rotation axes of the angles of a 3-D rotation, in order: one to three of `XYZ` (each about
/// the axes as rotated so far) or of `xyz` (about fixed axes), as in
/// `scipy.spatial.transform.Rotation.from_euler`. A 2-D rotation ignores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct RotateOrder {
    axes: Vec<usize>,
    intrinsic: bool,
}

impl Default for RotateOrder {
    fn default() -> Self {
        RotateOrder { axes: vec![0, 1, 2], intrinsic: true }
    }
}

impl TryFrom<String> for RotateOrder {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let intrinsic = text.chars().all(|c| c.is_ascii_uppercase());
        let axes: Option<Vec<usize>> = text.to_ascii_lowercase().chars().map(|c| "xyz".find(c)).collect();
        match axes {
            Some(axes)
                if (1..=3).contains(&axes.len())
                    && (intrinsic || text.chars().all(|c| c.is_ascii_lowercase()))
                    && axes.windows(2).all(|pair| pair[0] != pair[1]) =>
            {
                Ok(RotateOrder { axes, intrinsic })
            }
            _ => Err(format!(
                "`{text}` is not an order of rotations: one to three of XYZ, or of xyz, none twice in a row, for instance `XYZ`"
            )),
        }
    }
}

impl From<RotateOrder> for String {
    fn from(order: RotateOrder) -> Self {
        let letters = if order.intrinsic { ["X", "Y", "Z"] } else { ["x", "y", "z"] };
        order.axes.iter().map(|a| letters[*a]).collect()
    }
}

/// Returns the rotation by these angles (radians) in `n` dimensions. In 2-D only the first angle is
/// used; in 3-D missing angles are 0.
///
/// # Errors
/// If there is no angle, or (in 3-D) there are more angles than `order` has axes.
pub fn rotation(n: usize, angles: &[f64], order: &RotateOrder) -> Result<Affine, TransformError> {
    EXACT.rotation(n, angles, order)
}

/// The precision of matrices.
#[derive(Clone, Copy)]
struct Arithmetic {
    turn: fn(usize, usize, f64) -> Affine,
    product: fn(&Affine, &Affine) -> Affine,
}

/// Matrices in f64.
const EXACT: Arithmetic = Arithmetic { turn, product: affine::compose };

/// Matrices in f32, by successive fused multiply-adds, as PyTorch multiplies those of MONAI's
/// `AffineGrid`. Far from the origin the difference is a few millionths of a mm.
const AS_PYTORCH: Arithmetic = Arithmetic { turn: turn_f32, product: product_f32 };

fn turn_f32(from: usize, to: usize, angle: f64) -> Affine {
    let (sin, cos) = (angle as f32).sin_cos();
    turned(from, to, [f64::from(sin), f64::from(cos)])
}

fn product_f32(a: &Affine, b: &Affine) -> Affine {
    let entry = |r: usize, c: usize| (0..4).fold(0.0_f32, |sum, k| (a[r][k] as f32).mul_add(b[k][c] as f32, sum));
    std::array::from_fn(|r| std::array::from_fn(|c| f64::from(entry(r, c))))
}

impl Arithmetic {
    fn rotation(self, n: usize, angles: &[f64], order: &RotateOrder) -> Result<Affine, TransformError> {
        if angles.is_empty() {
            return Err(
                TransformError::new("a rotation without an angle").expected("one angle in 2-D, up to three in 3-D")
            );
        }
        if n < 3 {
            return Ok((self.turn)(0, 1, angles[0]));
        }
        if angles.len() > order.axes.len() {
            return Err(TransformError::new(format!("{} angles of rotation", angles.len())).expected(format!(
                "at most {}: the order of rotations is {}",
                order.axes.len(),
                String::from(order.clone())
            )));
        }
        Ok(order.axes.iter().zip(angles).fold(affine::IDENTITY, |so_far, (axis, angle)| {
            let (from, to) = [(1, 2), (2, 0), (0, 1)][*axis];
            let next = (self.turn)(from, to, *angle);
            if order.intrinsic { (self.product)(&so_far, &next) } else { (self.product)(&next, &so_far) }
        }))
    }

    fn shear(self, n: usize, factors: &[f64]) -> Affine {
        let places: &[(usize, usize)] =
            if n < 3 { &[(0, 1), (1, 0)] } else { &[(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] };
        places.iter().zip(factors).fold(affine::IDENTITY, |so_far, ((row, column), factor)| {
            let mut next = affine::IDENTITY;
            next[*row][*column] = *factor;
            (self.product)(&next, &so_far)
        })
    }
}

/// Rotates the first axis towards the second.
fn turn(from: usize, to: usize, angle: f64) -> Affine {
    let (sin, cos) = angle.sin_cos();
    turned(from, to, [sin, cos])
}

fn turned(from: usize, to: usize, [sin, cos]: [f64; 2]) -> Affine {
    let mut out = affine::IDENTITY;
    (out[from][from], out[from][to]) = (cos, -sin);
    (out[to][from], out[to][to]) = (sin, cos);
    out
}

/// Returns the shear of these factors in `n` dimensions: single shears (x by y, x by z, y by x, y
/// by z, z by x, z by y; in 2-D x by y, y by x), one after the other, so that volumes are
/// preserved. Missing factors are 0, and factors beyond 6 (2-D: 2) are ignored.
pub fn shear(n: usize, factors: &[f64]) -> Affine {
    EXACT.shear(n, factors)
}

/// Returns the scaling by one factor per axis; missing factors are 1.
pub fn scaling(n: usize, factors: &[f64]) -> Affine {
    let mut out = affine::IDENTITY;
    for (axis, factor) in factors.iter().enumerate().take(n.min(3)) {
        out[axis][axis] = *factor;
    }
    out
}

/// Returns the shift by a number of voxels per axis; missing numbers are 0.
pub fn shift(n: usize, voxels: &[f64]) -> Affine {
    affine::translation(std::array::from_fn(|a| voxels.get(a).filter(|_| a < n).copied().unwrap_or(0.0)))
}

/// An affine transform about the centre of the image, MONAI's `AffineGrid`: output positions are
/// scaled, shifted, sheared and rotated, in this order, to the positions that are read. Empty lists
/// have no effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AffineParameters {
    /// Rotation angles in radians: one in 2-D, up to three in 3-D.
    pub rotate: Vec<f64>,
    /// Shear factors: see [`shear`].
    pub shear: Vec<f64>,
    /// Shift in voxels per axis.
    pub translate: Vec<f64>,
    /// Scale factors per axis.
    pub scale: Vec<f64>,
    /// The rotation axes of the angles.
    pub rotate_order: RotateOrder,
}

impl AffineParameters {
    /// Returns the matrix in `n` dimensions, about the origin, with MONAI's precision (f32).
    ///
    /// # Errors
    /// Those of [`rotation`], and if a number is not finite.
    pub fn matrix(&self, n: usize) -> Result<Affine, TransformError> {
        let mut out = affine::IDENTITY;
        if !self.rotate.is_empty() {
            out = AS_PYTORCH.rotation(n, &self.rotate, &self.rotate_order)?;
        }
        for next in [AS_PYTORCH.shear(n, &self.shear), shift(n, &self.translate), scaling(n, &self.scale)] {
            out = product_f32(&out, &next);
        }
        if out.iter().flatten().any(|v| !v.is_finite()) {
            return Err(TransformError::new(format!("the matrix {:?} of {self:?} is not finite", &out[..3])));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> RotateOrder {
        RotateOrder::try_from(text.to_owned()).expect("an order")
    }

    const UPPER: [[f64; 3]; 3] = [
        [0.936293363584, -0.189796060979, 0.295520206661],
        [0.295773602361, 0.879838033304, -0.372025551942],
        [-0.189400933089, 0.435732131462, 0.879923176281],
    ];
    const LOWER: [[f64; 3]; 3] = [
        [0.879923176281, -0.372025551942, 0.295520206661],
        [0.435732131462, 0.879838033304, -0.189796060979],
        [-0.189400933089, 0.295773602361, 0.936293363584],
    ];
    const TWICE_Y: [[f64; 3]; 3] = [
        [0.828791028932, 0.115080988997, 0.547596380862],
        [0.058710801694, 0.955336489126, -0.289629477626],
        [-0.556469650678, 0.272192135295, 0.785017814675],
    ];

    /// Computed with MONAI 1.6.1: `create_rotate(3, (0.4, 0.3, 0.2), rotate_order=...)`.
    #[test]
    fn rotations_are_monais() {
        for (text, expected) in [("XYZ", UPPER), ("zyx", LOWER), ("YXY", TWICE_Y)] {
            let got = rotation(3, &[0.4, 0.3, 0.2], &order(text)).expect("a rotation");
            for r in 0..3 {
                for c in 0..3 {
                    assert!((got[r][c] - expected[r][c]).abs() < 1e-11, "{text}: {got:?}");
                }
            }
        }
        let flat = rotation(2, &[0.3], &RotateOrder::default()).expect("a rotation");
        assert_eq!((flat[0][1], flat[1][0]), (-0.3_f64.sin(), 0.3_f64.sin()));
    }

    /// Computed with MONAI 1.6.1: `create_shear(3, (0.05, 0.1, 0.0, -0.05, 0.02, 0.3))` and
    /// `create_shear(2, (0.2, -0.1))`.
    #[test]
    fn shears_are_monais() {
        let got = shear(3, &[0.05, 0.1, 0.0, -0.05, 0.02, 0.3]);
        let expected = [[1.0, 0.05, 0.1], [0.0, 1.0, -0.05], [0.02, 0.301, 0.987]];
        for (got, expected) in got.iter().zip(expected) {
            assert!(got[..3].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?} for {expected:?}");
        }
        let got = shear(2, &[0.2, -0.1]);
        assert_eq!([got[0][1], got[1][0], got[1][1]], [0.2, -0.1, 1.0 - 0.2 * 0.1]);
    }

    #[test]
    fn wrong_orders_and_numbers_of_angles_are_refused() {
        for text in ["", "XYZX", "XXY", "Xy", "abc", "X1"] {
            assert!(RotateOrder::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert_eq!(String::from(order("zy")), "zy");
        assert!(rotation(3, &[0.1, 0.2], &order("Z")).is_err());
        assert!(rotation(3, &[0.1; 4], &RotateOrder::default()).is_err());
        assert!(rotation(2, &[], &RotateOrder::default()).is_err());
        let wild = AffineParameters { rotate: vec![f64::NAN], ..AffineParameters::default() };
        assert!(wild.matrix(3).is_err());
    }
}
