//! Rotation and scaling of a part about its centre, cropped to the patch.

use half::f16;
use rayon::prelude::*;

use crate::volume::{Axes3, Volume};

/// The matrix from output to input about the centres of both: rotations by angles in radians about
/// the axes 0, 1 and 2, after scaling. A factor above 1 makes objects smaller. With `in_plane` only
/// the last angle is used, and the first axis stays.
pub fn matrix([a, b, c]: [f64; 3], scale: f64, in_plane: bool) -> [[f64; 3]; 3] {
    let product = |p: [[f64; 3]; 3], q: [[f64; 3]; 3]| -> [[f64; 3]; 3] {
        std::array::from_fn(|i| std::array::from_fn(|j| (0..3).map(|k| p[i][k] * q[k][j]).sum()))
    };
    let (sin, cos) = c.sin_cos();
    if in_plane {
        return [[1.0, 0.0, 0.0], [0.0, cos * scale, -sin * scale], [0.0, sin * scale, cos * scale]];
    }
    let z = [[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]];
    let (sin, cos) = b.sin_cos();
    let y = [[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]];
    let (sin, cos) = a.sin_cos();
    let x = [[1.0, 0.0, 0.0], [0.0, cos, -sin], [0.0, sin, cos]];
    product(product(z, y), x).map(|row| row.map(|value| value * scale))
}

/// Crops the middle of a part, without interpolation.
pub fn middle(part: &Volume, patch: Axes3) -> Volume {
    let start: Axes3 = std::array::from_fn(|axis| (part.shape[axis] / 2).saturating_sub(patch[axis] / 2));
    part.cropped(start, std::array::from_fn(|axis| (start[axis] + patch[axis]).min(part.shape[axis])))
}

/// The two neighbours of a position along an axis, their weights, and which one is nearer.
struct Along {
    low: i64,
    weights: [f64; 2],
}

impl Along {
    fn at(position: f64) -> Self {
        let low = position.floor();
        let t = position - low;
        Along { low: low as i64, weights: [1.0 - t, t] }
    }

    /// The index in an axis of `length` voxels, if it is inside.
    fn index(&self, side: usize, length: usize) -> Option<usize> {
        usize::try_from(self.low + side as i64).ok().filter(|index| *index < length)
    }
}

/// The positions of a patch's voxels in a part.
fn positions(part: Axes3, patch: Axes3, matrix: [[f64; 3]; 3], plane: usize) -> impl Iterator<Item = [Along; 3]> {
    let centre = |shape: Axes3| shape.map(|length| (length as f64 - 1.0) / 2.0);
    let (from, to) = (centre(part), centre(patch));
    let rows = (0..patch[1]).flat_map(move |y| (0..patch[2]).map(move |x| (y, x)));
    rows.map(move |(y, x)| {
        let at = [plane as f64 - to[0], y as f64 - to[1], x as f64 - to[2]];
        std::array::from_fn(|axis| {
            let moved: f64 = (0..3).map(|k| matrix[axis][k] * at[k]).sum();
            Along::at(moved + from[axis])
        })
    })
}

/// The eight neighbours of a position: index in a channel, if inside, and weight.
fn neighbours(at: &[Along; 3], shape: Axes3) -> impl Iterator<Item = (Option<usize>, f64)> {
    (0..8).map(move |corner: usize| {
        let sides = [corner >> 2 & 1, corner >> 1 & 1, corner & 1];
        let weight = at[0].weights[sides[0]] * at[1].weights[sides[1]] * at[2].weights[sides[2]];
        let index = match std::array::from_fn(|axis| at[axis].index(sides[axis], shape[axis])) {
            [Some(z), Some(y), Some(x)] => Some((z * shape[1] + y) * shape[2] + x),
            _ => None,
        };
        (index, weight)
    })
}

/// Transforms images: linear interpolation, zeros outside.
pub fn image(part: &Volume, patch: Axes3, matrix: [[f64; 3]; 3]) -> Volume {
    let plane = (patch[1] * patch[2]).max(1);
    let mut data = vec![0.0_f32; part.channels * patch.iter().product::<usize>()];
    let sample = |(index, out): (usize, &mut [f32])| {
        let values = part.channel(index / patch[0]);
        for (out, at) in out.iter_mut().zip(positions(part.shape, patch, matrix, index % patch[0])) {
            let inside = neighbours(&at, part.shape).filter_map(|(index, weight)| Some((index?, weight)));
            *out = inside.map(|(index, weight)| weight * f64::from(values[index])).sum::<f64>() as f32;
        }
    };
    data.par_chunks_mut(plane).enumerate().for_each(sample);
    Volume { channels: part.channels, shape: patch, data }
}

/// Transforms label maps: the label with the largest weight wins, in half precision and units of a
/// thousandth; between equal ones the label of the nearest voxel. Voxels outside are -1.
pub fn labels(part: &Volume, patch: Axes3, matrix: [[f64; 3]; 3]) -> Volume {
    let plane = (patch[1] * patch[2]).max(1);
    let mut data = vec![0.0_f32; part.channels * patch.iter().product::<usize>()];
    let sample = |(index, out): (usize, &mut [f32])| {
        let values = part.channel(index / patch[0]);
        for (out, at) in out.iter_mut().zip(positions(part.shape, patch, matrix, index % patch[0])) {
            let mut shares: [(f32, f64); 8] = [(-1.0, 0.0); 8];
            let (mut count, mut nearest) = (0, (-1.0, f64::NEG_INFINITY));
            for (index, weight) in neighbours(&at, part.shape) {
                let label = index.map_or(-1.0, |index| values[index]);
                if weight > nearest.1 {
                    nearest = (label, weight);
                }
                match shares[..count].iter_mut().find(|(known, _)| *known == label) {
                    Some((_, share)) => *share += weight,
                    None => {
                        shares[count] = (label, weight);
                        count += 1;
                    }
                }
            }
            let rounded = |share: f64| f16::from_f64(share * 1000.0);
            let most = shares[..count].iter().map(|(_, share)| rounded(*share)).fold(f16::NEG_INFINITY, f16::max);
            let mut best = shares[..count].iter().filter(|(_, share)| rounded(*share) == most).map(|(label, _)| *label);
            let first = best.clone().fold(f32::INFINITY, f32::min);
            *out = if best.any(|label| label == nearest.0) { nearest.0 } else { first };
        }
    };
    data.par_chunks_mut(plane).enumerate().for_each(sample);
    Volume { channels: part.channels, shape: patch, data }
}
