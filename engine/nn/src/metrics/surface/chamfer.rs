//! Distances in steps from voxel to voxel (`scipy.ndimage.distance_transform_cdt`).

/// The allowed steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// Steps to the 26 neighbours: the distance is the largest difference along an axis.
    Chessboard,
    /// Steps to the 6 neighbours: the distance is the sum of the differences.
    Taxicab,
}

/// Number of steps from every voxel to the nearest set voxel; at least one voxel must be set.
///
/// Two passes over the volume, each of which reads the neighbours already visited, are exact for
/// both kinds of steps.
pub(super) fn steps(set: &[bool], [nx, ny, nz]: [usize; 3], kind: Steps) -> Vec<u32> {
    let mut out: Vec<u32> = set.iter().map(|set| if *set { 0 } else { u32::MAX }).collect();
    let before: Vec<[isize; 3]> = (0..13)
        .map(|i: isize| [i / 9 - 1, i / 3 % 3 - 1, i % 3 - 1])
        .filter(|step| kind == Steps::Chessboard || step.iter().filter(|d| **d != 0).count() == 1)
        .collect();
    let size = [nx, ny, nz];
    let mut pass = |at: [usize; 3], sign: isize| {
        let index = (at[0] * ny + at[1]) * nz + at[2];
        let mut nearest = out[index];
        for step in &before {
            let moved: [Option<usize>; 3] = std::array::from_fn(|a| at[a].checked_add_signed(sign * step[a]));
            if let [Some(x), Some(y), Some(z)] = moved
                && x < size[0]
                && y < size[1]
                && z < size[2]
            {
                nearest = nearest.min(out[(x * ny + y) * nz + z].saturating_add(1));
            }
        }
        out[index] = nearest;
    };
    let count = nx * ny * nz;
    let place = |i: usize| [i / (ny * nz), i / nz % ny, i % nz];
    (0..count).for_each(|i| pass(place(i), 1));
    (0..count).rev().for_each(|i| pass(place(i), -1));
    out
}

#[cfg(test)]
mod tests {
    use super::{Steps, steps};

    #[test]
    fn both_kinds_count_what_they_say() {
        let size = [4, 5, 3];
        let mut set = vec![false; 60];
        let seeds = [[0_usize, 4, 1], [3, 0, 2]];
        seeds.iter().for_each(|[x, y, z]| set[(x * 5 + y) * 3 + z] = true);
        let (chess, taxi) = (steps(&set, size, Steps::Chessboard), steps(&set, size, Steps::Taxicab));
        for i in 0..60 {
            let at: [usize; 3] = [i / 15, i / 3 % 5, i % 3];
            let off = |seed: &[usize; 3]| -> Vec<u32> { (0..3).map(|a| at[a].abs_diff(seed[a]) as u32).collect() };
            assert_eq!(Some(chess[i]), seeds.iter().filter_map(|s| off(s).into_iter().max()).min());
            assert_eq!(Some(taxi[i]), seeds.iter().map(|s| off(s).into_iter().sum::<u32>()).min());
        }
    }
}
