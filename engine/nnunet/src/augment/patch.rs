//! Where patches are cut, and their size before rotation.

use std::f64::consts::PI;

use crate::volume::{Axes3, Volume};

/// The range of rotations of patches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turning {
    /// The largest angle in radians, in either direction.
    pub limit: f64,
    /// Whether patches rotate only in the last two axes: slices, and patches much flatter than wide.
    pub in_plane: bool,
}

/// The range of rotations for patches of this size (two or three axes).
pub fn turning(patch: &[usize]) -> Turning {
    let most = patch.iter().copied().max().unwrap_or(1) as f64;
    let least = patch.iter().copied().min().unwrap_or(1).max(1) as f64;
    match patch {
        [_, _] if most / least > 1.5 => Turning { limit: PI / 12.0, in_plane: true },
        [first, ..] if patch.len() == 2 || most / *first as f64 > 3.0 => Turning { limit: PI, in_plane: true },
        _ => Turning { limit: PI / 6.0, in_plane: false },
    }
}

/// The size to cut so that rotation and scaling can fill the patch: z y x, with 1 first for a slice.
pub fn initial(patch: &[usize], turning: Turning) -> Axes3 {
    let [z, y, x] = three(patch).map(|length| length as f64);
    let (s, c) = turning.limit.min(PI / 2.0).sin_cos();
    let mut size = [z, y, x];
    let mut take = |turned: [f64; 3]| {
        size.iter_mut().zip(turned).for_each(|(size, length)| *size = size.max(length.abs()));
    };
    take([z, y * c + x * s, x * c - y * s]);
    if !turning.in_plane {
        take([z * c - x * s, y, z * s + x * c]);
        take([z * c + y * s, y * c - z * s, x]);
    }
    // The smallest scale factor that nnU-Net's planners expect.
    let grown = size.map(|length| (length / 0.85) as usize);
    if turning.in_plane { [z as usize, grown[1], grown[2]] } else { grown }
}

/// The patch as three axes; the first axis of a slice is 1.
pub fn three(patch: &[usize]) -> Axes3 {
    match *patch {
        [z, y, x] => [z, y, x],
        [y, x] => [1, y, x],
        _ => [1; 3],
    }
}

/// The first and the last start along an axis of a volume of `size` voxels, for parts of `initial`
/// voxels that are cropped to `patch`. Parts may extend beyond both sides.
pub fn starts(size: usize, initial: usize, patch: usize) -> [i64; 2] {
    let [size, initial, patch] = [size, initial, patch].map(|length| length as i64);
    let need = (initial - patch).max(initial - size);
    [(-need).div_euclid(2), size + need / 2 + need % 2 - initial]
}

/// The start of a part around a voxel: at least `first`, without an upper limit.
pub fn start_around(voxel: usize, initial: usize, first: i64) -> i64 {
    (voxel as i64 - (initial / 2) as i64).max(first)
}

/// Cuts the part of this size at `start`; voxels outside of the volume are `fill`.
pub fn cut(volume: &Volume, start: [i64; 3], size: Axes3, fill: f32) -> Volume {
    let mut out = Volume { channels: volume.channels, shape: size, data: Vec::new() };
    out.data = vec![fill; volume.channels * size.iter().product::<usize>()];
    // The overlap of the two, per axis: first in the part, first in the volume, length.
    let overlap: [(usize, usize, usize); 3] = std::array::from_fn(|axis| {
        let low = start[axis].max(0);
        let high = (start[axis] + size[axis] as i64).min(volume.shape[axis] as i64);
        ((low - start[axis]) as usize, low as usize, (high - low).max(0) as usize)
    });
    let [(tz, fz, nz), (ty, fy, ny), (tx, fx, nx)] = overlap;
    for channel in 0..volume.channels {
        for z in 0..nz {
            for y in 0..ny {
                let from = ((channel * volume.shape[0] + fz + z) * volume.shape[1] + fy + y) * volume.shape[2] + fx;
                let to = ((channel * size[0] + tz + z) * size[1] + ty + y) * size[2] + tx;
                out.data[to..to + nx].copy_from_slice(&volume.data[from..from + nx]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hang_out_and_are_filled() {
        let volume = Volume::new(1, [1, 2, 3], (1..=6).map(|v| v as f32).collect()).expect("six");
        let part = cut(&volume, [0, -1, 1], [1, 2, 3], -1.0);
        assert_eq!(part.data, [-1.0, -1.0, -1.0, 2.0, 3.0, -1.0]);
        assert!(cut(&volume, [5, 0, 0], [1, 1, 1], 7.0).data == [7.0]);
    }
}
