//! The directions of an image's axes: orientation codes such as `RAS`, computed and changed as in
//! nibabel and MONAI.

use crate::affine::{Affine, IDENTITY};

/// The direction of one voxel axis: the world axis (0 left-right, 1 posterior-anterior, 2
/// inferior-superior) along which it runs, and whether it runs in reverse. `None` for an axis
/// without direction.
pub type AxisDirection = Option<(usize, bool)>;

/// Labels of the (start, end) of each world axis.
pub type Labels = [(char, char); 3];

/// The labels of RAS+ space.
pub const RAS_LABELS: Labels = [('L', 'R'), ('P', 'A'), ('I', 'S')];
/// The labels of LPS+ space.
pub const LPS_LABELS: Labels = [('R', 'L'), ('A', 'P'), ('I', 'S')];

/// Finds the nearest world axis of each of the first `n` voxel axes: a singular value decomposition
/// gives the closest rotation, then world axes are assigned to voxel axes, the best aligned first
/// (nibabel's `io_orientation`).
pub fn directions(affine: &Affine, n: usize) -> [AxisDirection; 3] {
    let mut columns = [[0.0_f64; 3]; 3];
    for (c, column) in columns.iter_mut().enumerate().take(n) {
        for (r, value) in column.iter_mut().enumerate().take(n) {
            *value = affine[r][c];
        }
        let norm = column.iter().map(|v| v * v).sum::<f64>().sqrt();
        if norm != 0.0 {
            column.iter_mut().for_each(|v| *v /= norm);
        }
    }
    let mut rotation = closest_rotation(columns, n);
    let mut order: Vec<usize> = (0..n).collect();
    let strength = |column: &[f64; 3]| column.iter().take(n).map(|v| -(v * v)).fold(f64::INFINITY, f64::min);
    order.sort_by(|a, b| strength(&rotation[*a]).total_cmp(&strength(&rotation[*b])));
    let mut found = [None; 3];
    for axis in order {
        let column = rotation[axis];
        if column.iter().all(|v| v.abs() <= 1e-8) {
            continue;
        }
        let mut world = 0;
        for r in 1..n {
            if column[r].abs() > column[world].abs() {
                world = r;
            }
        }
        found[axis] = Some((world, column[world] < 0.0));
        for column in &mut rotation {
            column[world] = 0.0;
        }
    }
    found
}

/// Computes `U * V^T` of the singular value decomposition, without the directions whose singular
/// value is zero. Input and output are columns.
pub(crate) fn closest_rotation(columns: [[f64; 3]; 3], n: usize) -> [[f64; 3]; 3] {
    // One-sided Jacobi: rotate pairs of columns until all are orthogonal; then A * V = U * S.
    let mut a = columns;
    let mut v = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let dot = |x: &[f64; 3], y: &[f64; 3]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for _ in 0..60 {
        let mut moved = false;
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            let (pp, qq, pq) = (dot(&a[p], &a[p]), dot(&a[q], &a[q]), dot(&a[p], &a[q]));
            if pq.abs() <= 1e-16 * (pp * qq).sqrt() || pq == 0.0 {
                continue;
            }
            moved = true;
            let zeta = (qq - pp) / (2.0 * pq);
            let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
            let t = if zeta == 0.0 { 1.0 } else { t };
            let c = 1.0 / (1.0 + t * t).sqrt();
            for m in [&mut a, &mut v] {
                let (x, y) = (m[p], m[q]);
                m[p] = std::array::from_fn(|r| c * x[r] - c * t * y[r]);
                m[q] = std::array::from_fn(|r| c * t * x[r] + c * y[r]);
            }
        }
        if !moved {
            break;
        }
    }
    let sizes: [f64; 3] = std::array::from_fn(|c| dot(&a[c], &a[c]).sqrt());
    let tolerance = sizes.iter().copied().fold(0.0, f64::max) * n as f64 * f64::EPSILON;
    std::array::from_fn(|c| {
        std::array::from_fn(|r| {
            (0..3).filter(|k| sizes[*k] > tolerance).map(|k| a[k][r] / sizes[k] * v[k][c]).sum::<f64>()
        })
    })
}

/// Returns the code of an affine, for instance `RAS`; `?` for an axis without direction.
pub fn codes(affine: &Affine, n: usize, labels: &Labels) -> String {
    directions(affine, n)
        .iter()
        .take(n)
        .map(|d| d.map_or('?', |(world, flipped)| if flipped { labels[world].0 } else { labels[world].1 }))
        .collect()
}

/// Parses a code such as `RAS`. `None` if a letter is unknown or an axis occurs twice.
pub fn parse_codes(code: &str, labels: &Labels) -> Option<Vec<(usize, bool)>> {
    let mut found: Vec<(usize, bool)> = Vec::new();
    for letter in code.chars() {
        let world = labels.iter().position(|(low, high)| *low == letter || *high == letter)?;
        if found.iter().any(|(other, _)| *other == world) {
            return None;
        }
        found.push((world, labels[world].0 == letter));
    }
    Some(found)
}

/// A permutation and flips of voxel axes: output axis `a` is input axis `source[a]`, reversed where
/// `flip[a]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Reorder {
    /// Input axis of each output axis.
    pub source: [usize; 3],
    /// Whether the output axis is reversed.
    pub flip: [bool; 3],
}

impl Reorder {
    /// Returns the identity.
    pub const NONE: Reorder = Reorder { source: [0, 1, 2], flip: [false; 3] };

    /// Returns the reordering from axes with the directions `from` to axes with the directions
    /// `to`. `None` if they do not cover the same axes.
    pub fn between(from: &[AxisDirection; 3], to: &[(usize, bool)]) -> Option<Reorder> {
        let mut out = Reorder::NONE;
        for (axis, (world, reversed)) in to.iter().enumerate() {
            let source = from.iter().take(to.len()).position(|d| d.is_some_and(|(w, _)| w == *world))?;
            out.source[axis] = source;
            out.flip[axis] = from[source].is_some_and(|(_, r)| r != *reversed);
        }
        Some(out)
    }

    /// Returns the inverse reordering.
    pub fn inverse(&self) -> Reorder {
        let mut out = Reorder::NONE;
        for axis in 0..3 {
            out.source[self.source[axis]] = axis;
            out.flip[self.source[axis]] = self.flip[axis];
        }
        out
    }

    /// Returns the matrix from output to input voxel index, for an input of this shape.
    pub fn matrix(&self, shape: [usize; 3]) -> Affine {
        let mut out = IDENTITY;
        for row in out.iter_mut().take(3) {
            *row = [0.0; 4];
        }
        for axis in 0..3 {
            let from = self.source[axis];
            if self.flip[axis] {
                out[from][axis] = -1.0;
                out[from][3] = shape[from] as f64 - 1.0;
            } else {
                out[from][axis] = 1.0;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_plain_affines() {
        let a = [[0.0, 0.0, -2.0, 1.0], [3.0, 0.0, 0.0, 2.0], [0.0, -1.0, 0.0, 3.0], [0.0, 0.0, 0.0, 1.0]];
        assert_eq!(codes(&a, 3, &RAS_LABELS), "AIL");
        assert_eq!(codes(&IDENTITY, 2, &RAS_LABELS), "RA");
    }

    #[test]
    fn an_axis_without_direction_has_no_code() {
        let mut a = IDENTITY;
        a[1] = [0.0; 4];
        assert_eq!(codes(&a, 3, &RAS_LABELS), "R?S");
    }

    #[test]
    fn a_reorder_and_its_inverse_cancel() {
        let there = Reorder { source: [2, 0, 1], flip: [true, false, true] };
        let shape = [4, 5, 6];
        let after = there.source.map(|s| shape[s]);
        let both = crate::affine::compose(&there.matrix(shape), &there.inverse().matrix(after));
        assert_eq!(both, IDENTITY);
    }

    #[test]
    fn codes_with_a_letter_twice_are_refused() {
        assert!(parse_codes("RAR", &RAS_LABELS).is_none());
        assert!(parse_codes("RLS", &RAS_LABELS).is_none());
        assert!(parse_codes("RAX", &RAS_LABELS).is_none());
        assert_eq!(parse_codes("LPS", &RAS_LABELS), Some(vec![(0, true), (1, true), (2, false)]));
    }
}
