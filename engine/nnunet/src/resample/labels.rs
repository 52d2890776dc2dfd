//! Resamples label maps: the indicator of each label is resampled, and the largest value wins.

use half::f16;

use super::axis::{self, nearest};
use super::torch;
use crate::volume::Axes3;

/// The labels of a map in ascending order.
fn distinct(labels: &[i32]) -> Vec<i32> {
    let mut found: Vec<i32> = labels.to_vec();
    found.sort_unstable();
    found.dedup();
    found
}

/// scikit-image's linear resizing of each indicator. Between equal labels the nearest neighbour's
/// label wins, if it is one of them, or else the smallest label.
pub(super) fn by_indicators(labels: &[i32], from: Axes3, to: Axes3, order: u8, separate: Option<usize>) -> Vec<i32> {
    let voxels = to.iter().product();
    let (mut best, mut out) = (vec![f64::NEG_INFINITY; voxels], vec![0; voxels]);
    let mut near = Vec::with_capacity(voxels);
    for z in 0..to[0] {
        for y in 0..to[1] {
            for x in 0..to[2] {
                let [z, y, x] = [(0, z), (1, y), (2, x)].map(|(axis, i)| nearest(i, from[axis], to[axis]));
                near.push(labels[(z * from[1] + y) * from[2] + x]);
            }
        }
    }
    for label in distinct(labels) {
        let indicator: Vec<f64> = labels.iter().map(|found| f64::from(u8::from(*found == label))).collect();
        let resampled = axis::resample(indicator, from, to, order, separate);
        for (at, share) in resampled.into_iter().enumerate() {
            if share > best[at] || (share == best[at] && near[at] == label) {
                (best[at], out[at]) = (share, label);
            }
        }
    }
    out
}

/// nnU-Net's torch variant: indicators of 1000 in half precision.
pub(super) fn by_thousands(labels: &[i32], from: Axes3, to: Axes3, separate: Option<usize>) -> Vec<i32> {
    let voxels = to.iter().product();
    let (mut best, mut out) = (vec![f16::NEG_INFINITY; voxels], vec![0; voxels]);
    for label in distinct(labels) {
        let indicator: Vec<f32> = labels.iter().map(|found| if *found == label { 1000.0 } else { 0.0 }).collect();
        for (at, share) in torch::linear(&indicator, from, to, separate).into_iter().enumerate() {
            let share = f16::from_f32(share);
            if share > best[at] {
                (best[at], out[at]) = (share, label);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_share_wins_and_ties_go_to_the_nearest() {
        let out = by_indicators(&[0, 0, 5, 5], [1, 1, 4], [1, 1, 8], 1, None);
        assert_eq!(out, [0, 0, 0, 0, 5, 5, 5, 5]);
        // The only sample lies halfway between the two: the right one is nearest.
        assert_eq!(by_indicators(&[7, 3], [1, 1, 2], [1, 1, 1], 1, None), [3]);
        assert_eq!(by_indicators(&[3, 7], [1, 1, 2], [1, 1, 1], 1, None), [7]);
        assert_eq!(by_thousands(&[3, 7, 7], [1, 1, 3], [1, 1, 3], None), [3, 7, 7]);
    }
}
