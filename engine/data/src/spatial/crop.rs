//! Cutting out a box, and finding the box of the foreground.

use hearth_kernels::host;

use super::lazy;
use super::pad::{PadMode, pad};
use crate::TransformError;
use crate::affine;
use crate::image::{Applied, Image};

/// A box in voxels, per axis from `start` (included) to `end` (not included); it may reach beyond the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundingBox {
    /// First voxel per axis.
    pub start: [i64; 3],
    /// One past the last voxel per axis.
    pub end: [i64; 3],
}

impl BoundingBox {
    /// Whether it holds no voxel.
    pub fn is_empty(&self) -> bool {
        (0..3).any(|a| self.end[a] <= self.start[a])
    }

    /// Enlarges each side to a multiple of `k`; the floor half of what is added goes before. An empty side stays empty.
    pub fn divisible_by(mut self, k: [usize; 3]) -> Self {
        for axis in 0..3 {
            let size = self.end[axis] - self.start[axis];
            let k = k[axis] as i64;
            if k > 0 {
                let wanted = (size + k - 1) / k * k;
                self.start[axis] -= (wanted - size).div_euclid(2);
                self.end[axis] = self.start[axis] + wanted;
            }
        }
        self
    }
}

/// Cuts out `start..end`, which must lie within the image.
pub fn crop(image: Image, start: [usize; 3], end: [usize; 3]) -> Image {
    let shape = image.shape();
    let mut image = crop_unrecorded(image, start, end);
    image.meta.applied.push(Applied::Crop { start, shape });
    image
}

pub(super) fn crop_unrecorded(mut image: Image, start: [usize; 3], end: [usize; 3]) -> Image {
    if start == [0; 3] && end == image.shape() {
        return image;
    }
    if !lazy::crop(&mut image, start, end) {
        let channels = image.channels();
        image.data = if (0..3).any(|a| start[a] >= end[a]) {
            let size: [usize; 3] = std::array::from_fn(|a| end[a].saturating_sub(start[a]));
            // Nothing is left to be done to no voxel.
            image.meta.lazy = lazy::Laziness::Off;
            burn::tensor::Tensor::zeros([channels, size[0], size[1], size[2]], &image.data.device())
        } else {
            image.data.slice([0..channels, start[0]..end[0], start[1]..end[1], start[2]..end[2]])
        };
    }
    image.affine = affine::compose(&image.affine, &affine::translation(start.map(|v| v as f64)));
    image
}

/// Cuts out a box; what lies beyond the image is padded.
///
/// # Errors
/// Where a reflecting or wrapping mode has nothing to reflect.
pub fn crop_or_pad(image: Image, region: BoundingBox, mode: PadMode, value: f32) -> Result<Image, TransformError> {
    let shape = image.shape();
    let inside = |v: i64, axis: usize| v.clamp(0, shape[axis] as i64) as usize;
    let start = std::array::from_fn(|a| inside(region.start[a], a));
    let end = std::array::from_fn(|a| inside(region.end[a], a).max(start[a]));
    let before: [usize; 3] = std::array::from_fn(|a| (-region.start[a]).max(0) as usize);
    let after: [usize; 3] = std::array::from_fn(|a| (region.end[a] - shape[a] as i64).max(0) as usize);
    let image = crop(image, start, end);
    if before == [0; 3] && after == [0; 3] { Ok(image) } else { pad(image, before, after, mode, value) }
}

/// The box around every voxel where any of the chosen channels is above the threshold, with a margin per axis.
/// `0..0` where there is none.
///
/// # Errors
/// Where a channel does not exist.
pub fn foreground_box(
    image: &Image,
    threshold: f64,
    channels: Option<&[i64]>,
    margin: [usize; 3],
    allow_smaller: bool,
) -> Result<BoundingBox, TransformError> {
    let shape = image.shape();
    let count = image.channels();
    let mut chosen = Vec::new();
    for channel in channels.unwrap_or(&(0..count as i64).collect::<Vec<_>>()) {
        let index = if *channel < 0 { *channel + count as i64 } else { *channel };
        if index < 0 || index >= count as i64 {
            return Err(TransformError::new(format!("there is no channel {channel}"))
                .expected(format!("an index within {count} channels")));
        }
        chosen.push(index as usize);
    }
    let found = match host::read(&image.data, |values| scan(values, shape, &chosen, threshold)) {
        Some(found) => found,
        None => scan_on_device(image, &chosen, threshold)?,
    };
    let Some((low, high)) = found else { return Ok(BoundingBox { start: [0; 3], end: [0; 3] }) };
    let mut region = BoundingBox { start: [0; 3], end: [0; 3] };
    for axis in 0..3 {
        region.start[axis] = low[axis] as i64 - margin[axis] as i64;
        region.end[axis] = (high[axis] + 1 + margin[axis]) as i64;
        if allow_smaller {
            region.start[axis] = region.start[axis].max(0);
            region.end[axis] = region.end[axis].min(shape[axis] as i64);
        }
    }
    Ok(region)
}

type Corners = Option<([usize; 3], [usize; 3])>;

fn merge(a: Corners, b: Corners) -> Corners {
    match (a, b) {
        (Some((al, ah)), Some((bl, bh))) => {
            Some((std::array::from_fn(|i| al[i].min(bl[i])), std::array::from_fn(|i| ah[i].max(bh[i]))))
        }
        (found, None) | (None, found) => found,
    }
}

/// First and last foreground voxel per axis, threads over planes. Values are compared as f64, as MONAI's f32 against a
/// Python number is.
fn scan(values: &[f32], [nx, ny, nz]: [usize; 3], channels: &[usize], threshold: f64) -> Corners {
    use rayon::prelude::*;
    let threshold = above(threshold);
    channels
        .par_iter()
        .flat_map(|c| (0..nx).into_par_iter().map(move |x| (*c, x)))
        .map(|(c, x)| {
            let plane = &values[(c * nx + x) * ny * nz..][..ny * nz];
            let mut found: Option<([usize; 3], [usize; 3])> = None;
            for (y, row) in plane.chunks_exact(nz.max(1)).enumerate() {
                // Most rows either have no foreground, or begin and end with it: look from both ends.
                let Some(first) = row.iter().position(|v| *v > threshold) else { continue };
                let last = row.iter().rposition(|v| *v > threshold).unwrap_or(first);
                found = merge(found, Some(([x, y, first], [x, y, last])));
            }
            found
        })
        .reduce(|| None, merge)
}

/// The largest f32 that is not above the threshold: `v > threshold` in f64 is `v > above(threshold)` in f32.
pub(crate) fn above(threshold: f64) -> f32 {
    let rounded = threshold as f32;
    if f64::from(rounded) > threshold { rounded.next_down() } else { rounded }
}

/// The same by reductions on the device; only three short vectors come back.
fn scan_on_device(image: &Image, channels: &[usize], threshold: f64) -> Result<Corners, TransformError> {
    let [_, nx, ny, nz] = image.data.dims();
    let mut any: Option<burn::tensor::Tensor<3>> = None;
    for c in channels {
        let one = image.data.clone().slice([*c..*c + 1, 0..nx, 0..ny, 0..nz]);
        let mask = one.greater_elem(above(threshold)).float().reshape([nx, ny, nz]);
        any = Some(match any {
            Some(any) => any + mask,
            None => mask,
        });
    }
    let Some(any) = any else { return Ok(None) };
    let mut low = [0; 3];
    let mut high = [0; 3];
    for axis in 0..3 {
        let others = [0, 1, 2].into_iter().filter(|a| *a != axis);
        let line = others.fold(any.clone(), |t, a| t.max_dim(a));
        let line: Vec<f32> =
            line.try_into_vec_as().map_err(|e| TransformError::new(format!("the device gave no answer: {e:?}")))?;
        let Some(first) = line.iter().position(|v| *v > 0.0) else { return Ok(None) };
        low[axis] = first;
        high[axis] = line.iter().rposition(|v| *v > 0.0).unwrap_or(first);
    }
    Ok(Some((low, high)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What runs on a GPU finds the box that the loop on the CPU finds, and both find the true one.
        #[test]
        fn the_box_holds_the_foreground(marks in prop::collection::vec((0usize..2, 0usize..6, 0usize..5, 0usize..7), 0..4)) {
            let mut values = vec![0.0_f32; 2 * 6 * 5 * 7];
            for (c, x, y, z) in &marks {
                values[((c * 6 + x) * 5 + y) * 7 + z] = 1.5;
            }
            let image = Image::from_values(values.clone(), [2, 6, 5, 7], affine::IDENTITY, &crate::host_device());
            let expected = marks.iter().fold(None, |all, (_, x, y, z)| merge(all, Some(([*x, *y, *z], [*x, *y, *z]))));
            prop_assert_eq!(scan(&values, [6, 5, 7], &[0, 1], 1.0), expected);
            prop_assert_eq!(scan_on_device(&image, &[0, 1], 1.0).expect("an answer"), expected);
        }
    }

    #[test]
    fn thresholds_are_compared_as_written() {
        // 0.1 as f32 is a little more than 0.1.
        assert!(0.1_f32 > above(0.1));
        assert!(0.5_f32 <= above(0.5));
    }
}
