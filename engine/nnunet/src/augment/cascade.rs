//! Augmentation of the labels of an earlier stage, one channel of 0 and 1 per label, so that the
//! second stage does not trust them blindly.

use std::collections::BTreeMap;

use hearth_kernels::label::components;
use rayon::prelude::*;

use crate::error::{NnunetError, Result};
use crate::volume::Axes3;

/// A morphological operator on binary masks with a ball. Voxels outside of the volume are unset,
/// but never erode the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    /// Sets voxels where the ball reaches any set voxel.
    Dilation,
    /// Keeps voxels where the ball reaches no unset voxel.
    Erosion,
    /// Dilation, then erosion.
    Closing,
    /// Erosion, then dilation.
    Opening,
}

impl BinaryOperator {
    /// All operators, in nnU-Net's order.
    pub const ALL: [Self; 4] = [Self::Dilation, Self::Erosion, Self::Closing, Self::Opening];

    /// The operator with this lower-case name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "dilation" => Self::Dilation,
            "erosion" => Self::Erosion,
            "closing" => Self::Closing,
            "opening" => Self::Opening,
            _ => return None,
        })
    }

    fn apply(self, mask: &[u8], shape: Axes3, ball: &Ball) -> Vec<u8> {
        let dilate = |mask: &[u8]| ball.dilate(mask, shape);
        let erode = |mask: &[u8]| inverted(&ball.dilate(&inverted(mask), shape));
        match self {
            Self::Dilation => dilate(mask),
            Self::Erosion => erode(mask),
            Self::Closing => erode(&dilate(mask)),
            Self::Opening => dilate(&erode(mask)),
        }
    }
}

fn inverted(mask: &[u8]) -> Vec<u8> {
    mask.iter().map(|set| 1 - set).collect()
}

/// Applies an operator with a ball of this radius in voxels to one of the channels, and removes the
/// added voxels from all other channels. `hot` has channels of 0 and 1, `[channel, z, y, x]`; for a
/// volume of one slice the ball is a disk.
pub fn binary_operator(hot: &mut [f32], shape: Axes3, channel: usize, operator: BinaryOperator, radius: f64) {
    let voxels = shape.iter().product::<usize>();
    let Some(range) = voxels.checked_mul(channel).map(|start| start..start + voxels).filter(|r| r.end <= hot.len())
    else {
        return;
    };
    let before: Vec<u8> = hot[range].iter().map(|value| u8::from(*value != 0.0)).collect();
    let after = operator.apply(&before, shape, &Ball::new(radius, shape[0] == 1));
    for (place, values) in hot.chunks_mut(voxels.max(1)).enumerate() {
        let changes = values.iter_mut().zip(before.iter().zip(&after));
        if place == channel {
            changes.for_each(|(value, (_, after))| *value = f32::from(*after));
        } else {
            changes.filter(|(_, (before, after))| before < after).for_each(|(value, _)| *value = 0.0);
        }
    }
}

/// Removes one component of a channel that has less than this share of all voxels. `pick` gets the
/// number of such components and returns the index of one, in the order of their first voxels.
/// Voxels are connected by faces, edges and corners.
///
/// # Errors
/// A volume beyond the size limits for components.
pub fn remove_component(
    hot: &mut [f32],
    shape: Axes3,
    channel: usize,
    share: f64,
    pick: impl FnOnce(usize) -> usize,
) -> Result<()> {
    let voxels = shape.iter().product::<usize>();
    let Some(values) = hot.chunks_mut(voxels.max(1)).nth(channel) else { return Ok(()) };
    let found = components(values, &shape, 3).map_err(|error| NnunetError::case(error.to_string()))?;
    let most = voxels as f64 * share;
    let regions = found.regions().iter().enumerate();
    let small: Vec<usize> = regions.filter(|(_, region)| (region.size as f64) < most).map(|(place, _)| place).collect();
    if let Some(chosen) = (!small.is_empty()).then(|| small.get(pick(small.len()))).flatten() {
        found.paint(values, |place| (place == *chosen).then_some(0.0));
    }
    Ok(())
}

/// scikit-image's ball of a real radius. A ball has those of `floor(2 radius + 1)` points per axis
/// from `-radius` to `radius` within the radius; a disk has `ceil(2 radius + 1)` points at a
/// distance of 1, starting at `-radius`. If their number is even, the centre lies between two
/// voxels.
struct Ball {
    /// Runs along the last axis (first and last offset), each with the offsets of its rows.
    runs: BTreeMap<(isize, isize), Vec<(isize, isize)>>,
}

impl Ball {
    fn new(radius: f64, flat: bool) -> Self {
        // The rounding is scikit-image's: it decides whether points on the surface are included.
        let (count, step) = match flat {
            true => ((2.0 * radius + 1.0).ceil() as usize, 1.0),
            false => {
                let count = (2.0 * radius + 1.0) as usize;
                (count, if count > 1 { 2.0 * radius / (count as f64 - 1.0) } else { 1.0 })
            }
        };
        let squares: Vec<f64> = (0..count).map(|at| (at as f64 * step - radius).powi(2)).collect();
        let middle = (count.max(1) - 1) as isize / 2;
        let mut runs: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let slices: Vec<(isize, f64)> = match flat {
            true => vec![(0, 0.0)],
            false => squares.iter().enumerate().map(|(at, square)| (at as isize - middle, *square)).collect(),
        };
        for (z, depth) in slices {
            for (y, height) in squares.iter().enumerate() {
                let inside = |x: &usize| (squares[*x] + height) + depth <= radius * radius;
                let Some(first) = (0..count).find(inside) else { continue };
                let last = (0..count).rev().find(inside).unwrap_or(first);
                let run = (first as isize - middle, last as isize - middle);
                runs.entry(run).or_default().push((z, y as isize - middle));
            }
        }
        Ball { runs }
    }

    /// The mask of voxels where the ball reaches a set voxel: 0 and 1.
    fn dilate(&self, mask: &[u8], shape: Axes3) -> Vec<u8> {
        let [nz, ny, nx] = shape;
        let mut out = vec![0_u8; mask.len()];
        if mask.is_empty() {
            return out;
        }
        for ((first, last), rows) in &self.runs {
            let mut along = vec![0_u8; mask.len()];
            along.par_chunks_mut(nx).zip(mask.par_chunks(nx)).for_each(|(out, line)| reach(out, line, *first, *last));
            out.par_chunks_mut(ny * nx).enumerate().for_each(|(z, plane)| {
                for (dz, dy) in rows {
                    let Some(from) = z.checked_add_signed(*dz).filter(|from| *from < nz) else { continue };
                    for (y, row) in plane.chunks_mut(nx).enumerate() {
                        let Some(source) = y.checked_add_signed(*dy).filter(|source| *source < ny) else { continue };
                        let source = &along[(from * ny + source) * nx..][..nx];
                        row.iter_mut().zip(source).for_each(|(set, other)| *set |= other);
                    }
                }
            });
        }
        out
    }
}

/// Sets each place of a line that has a set voxel between the offsets `first` and `last`.
fn reach(out: &mut [u8], line: &[u8], first: isize, last: isize) {
    let length = line.len() as isize;
    // The number of set voxels before each place.
    let mut before = Vec::with_capacity(line.len() + 1);
    let mut count = 0_u32;
    before.push(0);
    for set in line {
        count += u32::from(*set);
        before.push(count);
    }
    for (at, set) in out.iter_mut().enumerate() {
        let low = (at as isize + first).clamp(0, length) as usize;
        let high = (at as isize + last + 1).clamp(0, length) as usize;
        *set = u8::from(high > low && before[high] > before[low]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balls_have_the_voxels_within_their_radius() {
        let voxels = |radius: f64, flat: bool| -> isize {
            let ball = Ball::new(radius, flat);
            ball.runs.iter().map(|((first, last), rows)| (last - first + 1) * rows.len() as isize).sum()
        };
        // The centre and its six neighbours; a disk of radius 2.
        assert_eq!((voxels(1.0, false), voxels(2.0, true)), (7, 13));
        // Four points per axis; all but the middle two are too far.
        assert_eq!((voxels(1.5, false), voxels(1.5, true)), (8, 4));
    }

    #[test]
    fn what_one_label_gains_the_others_lose() {
        let mut hot = vec![0.0, 1.0, 0.0, 0.0, 0.0, /* */ 1.0, 0.0, 1.0, 1.0, 0.0];
        binary_operator(&mut hot, [1, 1, 5], 0, BinaryOperator::Dilation, 1.0);
        assert_eq!(hot, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        // The border does not erode.
        binary_operator(&mut hot, [1, 1, 5], 0, BinaryOperator::Erosion, 1.0);
        assert_eq!(hot[..5], [1.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn only_small_components_go() {
        let mut hot = vec![1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0];
        remove_component(&mut hot, [1, 1, 10], 0, 0.3, |count| {
            assert_eq!(count, 2);
            1
        })
        .expect("small");
        assert_eq!(hot, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
        remove_component(&mut hot, [1, 1, 10], 0, 0.1, |_| panic!("there is none")).expect("small");
    }
}
