//! Sliding windows: tiles in nnU-Net's order, and their sum in half precision.
//!
//! Sums and weights are rounded to half precision after every tile, as in nnU-Net. Near the
//! volume's edges, where the weights are tiny, the rounding is visible in the label maps: exact
//! sums would give other labels there.

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use crate::error::{NnunetError, Result};
use crate::volume::{Axes3, Volume};

/// The tiles of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    /// The size of a tile, z, y, x; z is 1 for a 2-D network.
    pub patch: Axes3,
    /// The size of the padded volume, z, y, x.
    pub padded: Axes3,
    /// The start of the volume within the padded one.
    pub before: Axes3,
    /// The size without padding, z, y, x.
    pub shape: Axes3,
    /// The first voxels of the tiles per axis.
    pub starts: [Vec<usize>; 3],
}

impl Windows {
    /// Plans the tiles of a volume; `step` is the distance between two tiles as a share of the
    /// patch. `dims` is 2 for a network of slices.
    pub fn new(shape: Axes3, patch: Axes3, dims: usize, step: f64) -> Self {
        let patch = if dims == 2 { [1, patch[1], patch[2]] } else { patch };
        let padded: Axes3 = std::array::from_fn(|axis| shape[axis].max(patch[axis]));
        let before = std::array::from_fn(|axis| (padded[axis] - shape[axis]) / 2);
        let starts = std::array::from_fn(|axis| {
            if dims == 2 && axis == 0 { (0..padded[0]).collect() } else { starts(padded[axis], patch[axis], step) }
        });
        Windows { patch, padded, before, shape, starts }
    }

    /// The number of tiles.
    pub fn len(&self) -> usize {
        self.starts.iter().map(Vec::len).product()
    }

    /// Whether there are no tiles.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first voxels of all tiles, in the order in which they are added.
    pub fn tiles(&self) -> impl Iterator<Item = Axes3> + '_ {
        let [zs, ys, xs] = &self.starts;
        zs.iter().flat_map(move |z| ys.iter().flat_map(move |y| xs.iter().map(move |x| [*z, *y, *x])))
    }

    /// The bytes of a [`Sum`] of outputs with these heads until it is [finished](Sum::finish): sums and
    /// weights in half precision, the weights as f32 for the division, and the result without the padding.
    pub fn sum_bytes(&self, heads: usize) -> u64 {
        let [padded, shape] = [self.padded, self.shape].map(|shape| shape.iter().product::<usize>());
        let kept = if self.padded == self.shape { 0 } else { heads * shape };
        (size_of::<f16>() * ((heads + 1) * padded + kept) + size_of::<f32>() * padded) as u64
    }

    /// Pads a volume with zeros where it is smaller than a tile.
    pub fn pad(&self, volume: Volume) -> Volume {
        if self.padded == self.shape { volume } else { volume.placed(self.padded, self.before, 0.0) }
    }
}

fn starts(size: usize, patch: usize, step: f64) -> Vec<usize> {
    let count = ((size - patch) as f64 / (patch as f64 * step)).ceil() as usize + 1;
    let real = if count > 1 { (size - patch) as f64 / (count - 1) as f64 } else { 0.0 };
    (0..count).map(|i| (real * i as f64).round_ties_even() as usize).collect()
}

/// Cuts a tile out of a padded volume, as `[channel, z, y, x]`.
pub fn tile(volume: &Volume, start: Axes3, patch: Axes3) -> Vec<f32> {
    volume.cropped(start, std::array::from_fn(|axis| start[axis] + patch[axis])).data
}

/// The weight of each voxel of a tile: a Gaussian about its middle with a deviation of an eighth of
/// the patch, at most 10, in half precision.
pub fn gaussian(patch: Axes3) -> Vec<f16> {
    let lines = patch.map(line);
    let mut product = Vec::with_capacity(patch.iter().product());
    for z in &lines[0] {
        for y in &lines[1] {
            product.extend(lines[2].iter().map(|x| z * y * x));
        }
    }
    let scale = product.iter().copied().fold(0.0, f64::max) / 10.0;
    let mut map: Vec<f16> = product.iter().map(|value| f16::from_f32((value / scale) as f32)).collect();
    let least = map.iter().copied().filter(|value| *value != f16::ZERO).fold(f16::INFINITY, f16::min);
    map.iter_mut().filter(|value| **value == f16::ZERO).for_each(|value| *value = least);
    map
}

/// scipy's Gaussian filter of a single one, along one axis.
fn line(length: usize) -> Vec<f64> {
    let (sigma, middle) = (length as f64 / 8.0, length / 2);
    let radius = (4.0 * sigma + 0.5) as usize;
    let weight = |distance: usize| (-0.5 / (sigma * sigma) * (distance * distance) as f64).exp();
    let total: f64 = (0..=radius).map(|d| if d == 0 { weight(0) } else { 2.0 * weight(d) }).sum();
    let at = |i: usize| if i.abs_diff(middle) <= radius { weight(i.abs_diff(middle)) / total } else { 0.0 };
    (0..length).map(at).collect()
}

/// All combinations of mirrored axes, by number and then in order: nnU-Net's order of test-time
/// augmentation, after the unmirrored image.
pub fn mirrorings(axes: &[usize]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = (1..1_u32 << axes.len())
        .map(|set| (0..axes.len()).filter(|i| set >> i & 1 == 1).map(|i| axes[i]).collect())
        .collect();
    all.sort_by_key(|set| (set.len(), set.clone()));
    all
}

/// The weighted sum of tiles.
pub struct Sum<'a> {
    windows: &'a Windows,
    map: Vec<f16>,
    /// The sums, `[head, z, y, x]` with padding.
    outputs: Volume<f16>,
    weights: Vec<f16>,
}

impl<'a> Sum<'a> {
    /// Starts an empty sum with this number of heads.
    pub fn new(windows: &'a Windows, heads: usize) -> Self {
        Sum {
            map: gaussian(windows.patch),
            outputs: Volume::zeros(heads, windows.padded),
            weights: vec![f16::ZERO; windows.padded.iter().product()],
            windows,
        }
    }

    /// Adds the network's output of a tile, `[head, z, y, x]`.
    pub fn add(&mut self, start: Axes3, output: &[f32]) {
        let (patch, padded) = (self.windows.patch, self.windows.padded);
        let (plane, map) = (padded[1] * padded[2], &self.map);
        let tile = patch.iter().product::<usize>();
        // One plane of a head, or of the weights, for which the value of a voxel is its weight.
        let add = |index: usize, sums: &mut [f16], values: Option<&[f32]>| {
            let Some(z) = index.checked_sub(start[0]).filter(|z| *z < patch[0]) else { return };
            let [mut sum, mut weight] = [vec![0.0_f32; patch[2]], vec![0.0_f32; patch[2]]];
            for y in 0..patch[1] {
                let from = (z * patch[1] + y) * patch[2];
                let row = &mut sums[(y + start[1]) * padded[2] + start[2]..][..patch[2]];
                row.convert_to_f32_slice(&mut sum);
                map[from..from + patch[2]].convert_to_f32_slice(&mut weight);
                match values {
                    Some(values) => {
                        let pairs = values[from..from + patch[2]].iter().zip(&weight);
                        sum.iter_mut().zip(pairs).for_each(|(sum, (value, weight))| *sum += value * weight);
                    }
                    None => sum.iter_mut().zip(&weight).for_each(|(sum, weight)| *sum += weight),
                }
                row.convert_from_f32_slice(&sum);
            }
        };
        let outputs = self.outputs.data.par_chunks_mut(plane).enumerate();
        outputs.for_each(|(index, sums)| {
            let (head, z) = (index / padded[0], index % padded[0]);
            add(z, sums, Some(&output[head * tile..][..tile]));
        });
        self.weights.par_chunks_mut(plane).enumerate().for_each(|(z, sums)| add(z, sums, None));
    }

    /// The mean of the tiles, without padding.
    ///
    /// # Errors
    /// Sums beyond the largest number of half precision.
    pub fn finish(mut self) -> Result<Volume<f16>> {
        let row = self.windows.padded[2];
        let weights: Vec<f32> = self.weights.par_iter().map(|weight| weight.to_f32()).collect();
        let rows = weights.len() / row.max(1);
        let finite = self.outputs.data.par_chunks_mut(row).enumerate().map(|(index, values)| {
            let mut wide = vec![0.0_f32; row];
            values.convert_to_f32_slice(&mut wide);
            let weights = &weights[index % rows * row..][..row];
            wide.iter_mut().zip(weights).for_each(|(value, weight)| *value /= weight);
            values.convert_from_f32_slice(&wide);
            values.iter().all(|value| value.is_finite())
        });
        if !finite.reduce(|| true, |a, b| a && b) {
            let what = "the network's outputs are not finite, or exceed half precision (65504), in which nnU-Net sums";
            return Err(NnunetError::case(what));
        }
        let Windows { before, shape, padded, .. } = self.windows;
        if shape == padded {
            return Ok(self.outputs);
        }
        Ok(self.outputs.cropped(*before, std::array::from_fn(|axis| before[axis] + shape[axis])))
    }
}

/// The mean of the outputs of several folds: a sum and a division in half precision. `None` without a
/// fold.
///
/// # Errors
/// The first error among the outputs.
pub fn mean_of_folds(outputs: impl IntoIterator<Item = Result<Volume<f16>>>) -> Result<Option<Volume<f16>>> {
    let (mut sum, mut count): (Option<Volume<f16>>, u16) = (None, 0);
    for output in outputs {
        let output = output?;
        count += 1;
        match &mut sum {
            None => sum = Some(output),
            Some(sum) => {
                let pairs = sum.data.par_iter_mut().zip(&output.data);
                pairs.for_each(|(sum, value)| *sum = f16::from_f32(sum.to_f32() + value.to_f32()));
            }
        }
    }
    if let Some(sum) = sum.as_mut().filter(|_| count > 1) {
        sum.data.par_iter_mut().for_each(|value| *value = f16::from_f32(value.to_f32() / f32::from(count)));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_volume() {
        let windows = Windows::new([26, 32, 36], [16, 24, 24], 3, 0.5);
        assert_eq!(windows.starts, [vec![0, 5, 10], vec![0, 8], vec![0, 12]]);
        assert_eq!((windows.len(), windows.tiles().nth(1)), (12, Some([0, 0, 12])));
        let small = Windows::new([23, 20, 22], [32, 24, 24], 3, 0.5);
        assert_eq!((small.padded, small.before, small.len()), ([32, 24, 24], [4, 2, 1], 1));
        let flat = Windows::new([3, 40, 20], [1, 32, 32], 2, 0.5);
        assert_eq!((flat.padded, flat.len()), ([3, 40, 32], 6));
    }

    #[test]
    fn mirrored_axes_by_number() {
        assert_eq!(mirrorings(&[0, 1, 2]).len(), 7);
        assert_eq!(mirrorings(&[0, 1, 2])[..4], [vec![0], vec![1], vec![2], vec![0, 1]]);
        assert_eq!(mirrorings(&[0, 1, 2])[4..], [vec![0, 2], vec![1, 2], vec![0, 1, 2]]);
        assert!(mirrorings(&[]).is_empty());
    }

    #[test]
    fn weights_are_ten_in_the_middle_and_nowhere_zero() {
        let map = gaussian([16, 24, 24]);
        assert_eq!(map[(8 * 24 + 12) * 24 + 12], f16::from_f32(10.0));
        assert!(map.iter().all(|weight| *weight > f16::ZERO));
        // Subnormal numbers.
        assert!(map[0] < f16::MIN_POSITIVE);
    }

    #[test]
    fn outputs_that_are_the_same_everywhere_stay_so_and_infinite_ones_fail() {
        let windows = Windows::new([10, 12, 14], [8, 8, 8], 3, 0.5);
        let mut sum = Sum::new(&windows, 2);
        let output: Vec<f32> = (0..1024).map(|i| if i < 512 { 1.0 } else { -2.0 }).collect();
        windows.tiles().for_each(|start| sum.add(start, &output));
        let mean = sum.finish().expect("finite");
        // Sums of subnormal weights are coarse.
        assert!(mean.channel(0).iter().all(|v| (v.to_f32() - 1.0).abs() < 0.51));
        assert!((mean.channel(1)[(5 * 12 + 6) * 14 + 7].to_f32() + 2.0).abs() < 0.01);
        let mut sum = Sum::new(&windows, 1);
        windows.tiles().for_each(|start| sum.add(start, &[1e6; 512]));
        assert!(sum.finish().is_err());
    }

    #[test]
    fn folds_are_averaged_in_half_precision() {
        let of = |value: f32| Ok(Volume { channels: 1, shape: [1, 1, 1], data: vec![f16::from_f32(value)] });
        let mean = mean_of_folds([of(1.0), of(2.0), of(4.0)]).expect("finite").expect("three");
        assert_eq!(mean.data[0], f16::from_f32(7.0 / 3.0));
        assert!(mean_of_folds([]).expect("nothing").is_none());
    }
}
