//! Conversion between a header and an affine.

use super::Header;
use crate::affine::{Affine, IDENTITY};
use crate::orientation::closest_rotation;

/// Affines whose distance is at most this many voxels are the same.
const SAME: f64 = 0.01;

impl Header {
    /// The affine as in nibabel: the matrix if its code is set, else the quaternion if its code is
    /// set, else voxel sizes about the centre with the first axis reversed.
    pub fn affine(&self) -> Affine {
        if self.sform_code > 0 {
            self.sform()
        } else if self.qform_code > 0 {
            self.qform()
        } else {
            self.base_affine()
        }
    }

    /// The affine MONAI uses: [`Header::affine`], unless its spacing contradicts `pixdim` and that
    /// of the other affine (matrix or quaternion) agrees with it. Unlike in MONAI, the other one must
    /// have a code: an affine without one is not defined.
    pub fn rectified_affine(&self) -> Affine {
        let n = self.dim.len();
        let agrees = |a: &Affine| {
            (0..n).all(|c| {
                let norm = (0..n).map(|r| a[r][c] * a[r][c]).sum::<f64>().sqrt();
                let norm = if norm == 0.0 { 1.0 } else { norm };
                (self.pixdim[c + 1] - norm).abs() <= 1e-8 + 1e-5 * norm.abs()
            })
        };
        let affine = self.affine();
        // In four dimensions MONAI compares the time step with the translation: they never agree,
        // and nothing is replaced.
        if n > 3 || agrees(&affine) {
            return affine;
        }
        let qform = self.qform();
        if self.sform_code > 0 && self.qform_code > 0 && agrees(&qform) { qform } else { affine }
    }

    /// The distance between matrix and quaternion in voxels, if both have a code and differ.
    pub fn conflict(&self) -> Option<f64> {
        let (sform, qform) = (self.sform(), self.qform());
        let n = self.dim.len().min(3);
        let (a, b) = (crate::affine::restrict(&sform, n), crate::affine::restrict(&qform, n));
        let smallest = crate::affine::spacing(&a)[..n].iter().copied().fold(f64::INFINITY, f64::min);
        let apart = crate::affine::distance(&a, &b) / smallest;
        // NaN counts as different.
        (self.sform_code > 0 && self.qform_code > 0 && (apart.is_nan() || apart > SAME)).then_some(apart)
    }

    /// Describes the parts of the header that are ignored because they are invalid. nibabel ignores
    /// them silently. A `scl_slope` of NaN is not reported: nibabel writes it for files without a
    /// slope.
    pub fn unusable(&self) -> Vec<String> {
        let mut all = Vec::new();
        let used = self.rectified_affine().iter().flatten().all(|value| value.is_finite());
        if self.sform_code > 0 && used && !self.srow.iter().flatten().all(|value| value.is_finite()) {
            all.push("its sform has values that are not finite: the qform is used".to_owned());
        }
        if self.scl_slope.is_infinite() {
            all.push(format!("its scl_slope is {}: the values are not scaled", self.scl_slope));
        }
        all
    }

    /// The matrix affine.
    pub fn sform(&self) -> Affine {
        [self.srow[0], self.srow[1], self.srow[2], IDENTITY[3]]
    }

    /// The quaternion affine; a quaternion that is slightly too long is normalized.
    pub fn qform(&self) -> Affine {
        let [b, c, d] = self.quatern;
        let rest = 1.0 - (b * b + c * c + d * d);
        // As in nibabel: a rest within the rounding of the file's numbers counts as 0: its root would
        // turn by 0.001.
        let rounding = 3.0 * if self.version == 2 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let a = if rest < rounding { 0.0 } else { rest.sqrt() };
        let norm = a * a + b * b + c * c + d * d;
        let s = if norm < f64::EPSILON { 0.0 } else { 2.0 / norm };
        let rotation = [
            [1.0 - s * (c * c + d * d), s * (b * c - a * d), s * (b * d + a * c)],
            [s * (b * c + a * d), 1.0 - s * (b * b + d * d), s * (c * d - a * b)],
            [s * (b * d - a * c), s * (c * d + a * b), 1.0 - s * (b * b + c * c)],
        ];
        let zoom = [self.pixdim[1], self.pixdim[2], self.pixdim[3] * self.pixdim[0]];
        let mut out = IDENTITY;
        for r in 0..3 {
            for c in 0..3 {
                out[r][c] = rotation[r][c] * zoom[c];
            }
            out[r][3] = self.qoffset[r];
        }
        out
    }

    fn base_affine(&self) -> Affine {
        let mut out = IDENTITY;
        for (axis, row) in out.iter_mut().enumerate().take(3) {
            let known = axis < self.dim.len();
            let zoom = if known { self.pixdim[axis + 1] } else { 1.0 } * if axis == 0 { -1.0 } else { 1.0 };
            let length = if known { self.dim[axis] } else { 1 };
            row[axis] = zoom;
            row[3] = -(length as f64 - 1.0) / 2.0 * zoom;
        }
        out
    }

    /// Stores an affine as both matrix and quaternion. The quaternion cannot represent shear: its
    /// code is then 0.
    pub fn set_affine(&mut self, affine: &Affine, code: i32) {
        self.srow = [affine[0], affine[1], affine[2]];
        self.sform_code = code;
        let zoom = crate::affine::spacing(affine);
        let columns: [[f64; 3]; 3] = std::array::from_fn(|c| std::array::from_fn(|r| affine[r][c] / zoom[c]));
        let mut rotation = closest_rotation(columns, 3);
        let [x, y, z] = rotation;
        let det = x[0] * (y[1] * z[2] - y[2] * z[1]) - y[0] * (x[1] * z[2] - x[2] * z[1])
            + z[0] * (x[1] * y[2] - x[2] * y[1]);
        let qfac = if det < 0.0 { -1.0 } else { 1.0 };
        rotation[2] = rotation[2].map(|v| v * qfac);
        self.pixdim[0] = qfac;
        self.pixdim[1..4].copy_from_slice(&zoom);
        self.quatern = quaternion(&rotation);
        self.qoffset = std::array::from_fn(|r| affine[r][3]);
        self.qform_code = code;
        if crate::affine::distance(&self.qform(), affine) > 1e-4 * zoom.iter().copied().fold(1.0, f64::max) {
            self.qform_code = 0;
        }
    }
}

/// b, c, d of the rotation with these columns; the largest component decides the formula, to avoid
/// dividing by a small number.
fn quaternion(columns: &[[f64; 3]; 3]) -> [f64; 3] {
    let m = |r: usize, c: usize| columns[c][r];
    let squares = [
        1.0 + m(0, 0) + m(1, 1) + m(2, 2),
        1.0 + m(0, 0) - m(1, 1) - m(2, 2),
        1.0 - m(0, 0) + m(1, 1) - m(2, 2),
        1.0 - m(0, 0) - m(1, 1) + m(2, 2),
    ];
    let largest = (0..4).fold(0, |best, i| if squares[i] > squares[best] { i } else { best });
    let twice = squares[largest].max(0.0).sqrt();
    if twice == 0.0 {
        return [0.0; 3];
    }
    let h = 0.5 / twice;
    let q = match largest {
        0 => [0.5 * twice, (m(2, 1) - m(1, 2)) * h, (m(0, 2) - m(2, 0)) * h, (m(1, 0) - m(0, 1)) * h],
        1 => [(m(2, 1) - m(1, 2)) * h, 0.5 * twice, (m(0, 1) + m(1, 0)) * h, (m(0, 2) + m(2, 0)) * h],
        2 => [(m(0, 2) - m(2, 0)) * h, (m(0, 1) + m(1, 0)) * h, 0.5 * twice, (m(1, 2) + m(2, 1)) * h],
        _ => [(m(1, 0) - m(0, 1)) * h, (m(0, 2) + m(2, 0)) * h, (m(1, 2) + m(2, 1)) * h, 0.5 * twice],
    };
    let sign = if q[0] < 0.0 { -1.0 } else { 1.0 };
    [q[1] * sign, q[2] * sign, q[3] * sign]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_rotation_survives_the_quaternion(
            q in proptest::array::uniform4(-1.0f64..1.0), zoom in proptest::array::uniform3(0.2f64..6.0), mirror: bool,
        ) {
            let norm = q.iter().map(|v| v * v).sum::<f64>().sqrt();
            prop_assume!(norm > 0.1);
            let sign = if q[0] < 0.0 { -1.0 } else { 1.0 };
            // Of version 2, whose numbers have 64 bits.
            let mut header = Header { version: 2, dim: vec![4, 4, 4], qform_code: 1, ..Header::default() };
            header.quatern = [q[1] / norm * sign, q[2] / norm * sign, q[3] / norm * sign];
            header.pixdim[0] = if mirror { -1.0 } else { 1.0 };
            header.pixdim[1..4].copy_from_slice(&zoom);
            header.qoffset = [1.0, -2.0, 3.0];
            let affine = header.affine();
            let mut back = Header { version: 2, dim: vec![4, 4, 4], ..Header::default() };
            back.set_affine(&affine, 1);
            prop_assert_eq!(back.qform_code, 1);
            back.sform_code = 0;
            prop_assert!(crate::affine::distance(&back.affine(), &affine) < 1e-6);
        }
    }

    /// A half turn in 32 bits, whose first part is not zero by rounding; the affine is nibabel's.
    #[test]
    fn a_half_turn_has_no_rest() {
        let half = f64::from(0.707_106_77_f32);
        let header = Header {
            dim: vec![4, 4, 4],
            qform_code: 1,
            quatern: [0.0, half, half],
            qoffset: [10.0, -20.0, 5.0],
            pixdim: [1.0, 2.0, 4.0, 3.0, 1.0, 1.0, 1.0, 1.0],
            ..Header::default()
        };
        let expected = [[-2.0, 0.0, 0.0, 10.0], [0.0, 0.0, 3.0, -20.0], [0.0, 4.0, 0.0, 5.0], IDENTITY[3]];
        assert!(crate::affine::distance(&header.affine(), &expected) < 1e-9, "{:?}", header.affine());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let mut header = Header { dim: vec![4, 4, 4], ..Header::default() };
        header.set_affine(&IDENTITY, 1);
        assert!(header.unusable().is_empty());
        // nibabel writes NaN for files without a slope.
        header.scl_slope = f64::NAN;
        assert!(header.unusable().is_empty());
        header.scl_slope = f64::INFINITY;
        header.srow[0][1] = f64::NAN;
        let [sform, slope] = &header.unusable()[..] else { panic!("{:?}", header.unusable()) };
        assert!(sform.contains("the qform is used") && slope.contains("scl_slope is inf"), "{sform} {slope}");
        // If the header has no other affine, the image has none: the code that uses the affine
        // reports it.
        header.qform_code = 0;
        header.quatern = [f64::NAN; 3];
        assert_eq!(header.unusable().len(), 1);
    }

    #[test]
    fn only_an_affine_with_a_code_replaces_the_other() {
        let mut header = Header { dim: vec![4, 4, 4], ..Header::default() };
        let large = [[3.0, 0.0, 0.0, 5.0], [0.0, 3.0, 0.0, 6.0], [0.0, 0.0, 3.0, 7.0], IDENTITY[3]];
        header.srow = [large[0], large[1], large[2]];
        (header.sform_code, header.qform_code) = (1, 0);
        // Voxel sizes of 1 mm were left behind; the quaternion agrees with them, and has no code.
        header.pixdim = [1.0; 8];
        assert_eq!((header.rectified_affine(), header.conflict()), (large, None));
        (header.sform_code, header.qform_code) = (1, 1);
        assert_eq!(header.rectified_affine(), header.qform());
        assert!(header.conflict().is_some_and(|apart| apart > 1.0));
        // A matrix without a code is not used, either.
        (header.sform_code, header.qform_code, header.pixdim) = (0, 1, [1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!((header.rectified_affine(), header.conflict()), (header.qform(), None));
    }

    #[test]
    fn shear_is_left_to_the_matrix() {
        let sheared = [[1.0, 0.4, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], IDENTITY[3]];
        let mut header = Header { dim: vec![4, 4, 4], ..Header::default() };
        header.set_affine(&sheared, 2);
        assert_eq!((header.sform_code, header.qform_code), (2, 0));
        assert_eq!(header.affine(), sheared);
    }
}
