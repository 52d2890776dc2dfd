//! Converts an image to the network's input: axes, crop to nonzero voxels, normalisation, resampling.

use std::collections::BTreeMap;

use hearth_kernels::label::fill_holes;
use rayon::prelude::*;

use crate::error::{NnunetError, Result};
use crate::normalize::{Inside, Intensities, Scheme};
use crate::plans::{Configuration, Plans, target_spacing};
use crate::resample::{Resampling, separate_axis};
use crate::volume::{Axes3, Volume};

/// The largest number of voxels of an image after resampling: a wrong spacing in a header could ask
/// for any number.
const MAX_VOXELS: usize = 1 << 34;

/// A half-open box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first voxel per axis.
    pub start: Axes3,
    /// The end per axis, exclusive.
    pub end: Axes3,
}

impl Bounds {
    /// The size of the box.
    pub fn shape(&self) -> Axes3 {
        std::array::from_fn(|axis| self.end[axis] - self.start[axis])
    }

    /// Whether the box contains the voxel of a volume with this index.
    pub(crate) fn holds(&self, index: usize, [_, ny, nx]: Axes3) -> bool {
        let at = [index / (ny * nx), index / nx % ny, index % nx];
        (0..3).all(|axis| (self.start[axis]..self.end[axis]).contains(&at[axis]))
    }

    fn transposed(&self, order: Axes3) -> Self {
        Bounds { start: order.map(|axis| self.start[axis]), end: order.map(|axis| self.end[axis]) }
    }
}

/// A preprocessed image, and the data needed to map its labels back. All axes are transposed.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The values, `[channel, z, y, x]`.
    pub data: Volume,
    /// The voxel size of the image in mm.
    pub spacing: Axes3<f64>,
    /// The size of the image in voxels.
    pub shape_before_cropping: Axes3,
    /// The part of the image that was used.
    pub bounds: Bounds,
}

/// The preprocessing of a configuration's images.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocessing {
    /// The image axis of each axis of the network.
    pub transpose: Axes3,
    /// The voxel size in mm per axis of the network: three numbers, or two for a 2-D configuration,
    /// which keeps the distance between slices.
    pub spacing: Vec<f64>,
    /// The normalisation of each channel, and whether it uses only voxels inside the image's mask.
    pub channels: Vec<(Scheme, bool)>,
    /// Foreground intensities of the training images, by channel.
    pub intensities: BTreeMap<usize, Intensities>,
    /// How images are resampled.
    pub data: Resampling,
    /// How label maps are resampled.
    pub seg: Resampling,
}

impl Preprocessing {
    /// The preprocessing that plans describe.
    pub fn of(plans: &Plans, configuration: &Configuration) -> Self {
        let schemes = configuration.normalization_schemes.iter().copied();
        Preprocessing {
            transpose: plans.transpose_forward,
            spacing: configuration.spacing.clone(),
            channels: schemes.zip(configuration.use_mask_for_norm.iter().copied()).collect(),
            intensities: plans.intensities.clone(),
            data: configuration.resampling_data,
            seg: configuration.resampling_seg,
        }
    }

    /// Preprocesses an image `[channel, z, y, x]` with its voxel size in mm, in the axes of the
    /// file. Label maps in the same axes are processed with it; where they were 0 outside of the
    /// image's content they become -1.
    ///
    /// # Errors
    /// An unexpected number of channels, values that cannot be normalised, or a size beyond the limits.
    pub fn run(
        &self,
        image: Volume,
        spacing: Axes3<f64>,
        labels: &[&Volume<u16>],
    ) -> Result<(Prepared, Vec<Volume<i32>>)> {
        let order = self.transpose;
        let channels = self.channels.len();
        if image.channels != channels {
            let what = format!("it has {} channels, and the model takes {channels}", image.channels);
            return Err(NnunetError::case(what));
        }
        if spacing.iter().any(|size| !size.is_finite() || *size <= 0.0) {
            return Err(NnunetError::case(format!("its voxels have sizes of {spacing:?} mm; expected sizes above 0")));
        }
        let (whole, (bounds, inside)) = (image.shape, nonzero(&image)?);
        let run = run_length(whole, &bounds);
        let mut cropped = if bounds.shape() == whole { image } else { image.cropped(bounds.start, bounds.end) };
        let shape = cropped.shape;
        let voxels = cropped.voxels();
        // The squares of a channel, then the same values in another order of axes.
        check_free(&format!("preparing {shape:?} voxels"), voxels as u64 * 4 * (channels as u64).max(1))?;
        for (channel, values) in cropped.data.chunks_mut(voxels.max(1)).enumerate() {
            let (scheme, masked) = self.channels[channel];
            let mask = Inside { inside: &inside, shape, order };
            let mask = masked.then_some(&mask);
            scheme.apply(values, run, mask, self.intensities.get(&channel))?;
        }
        let data = cropped.transposed(order);
        let spacing = order.map(|axis| spacing[axis]);
        let target = target_spacing(&self.spacing, spacing);
        let new_shape = target_shape(data.shape, spacing, target)?;
        let labels = labels.iter().map(|labels| {
            if labels.shape != whole {
                let what = format!("the labels have {:?} voxels, the image {whole:?}", labels.shape);
                return Err(NnunetError::case(what));
            }
            // Outside of the mask nothing is known, which affects the resampling of labels.
            let mut cut = Volume {
                channels: 1,
                shape,
                data: labels.cropped(bounds.start, bounds.end).data.into_iter().map(i32::from).collect(),
            };
            let outside = cut.data.iter_mut().zip(&inside).filter(|(label, inside)| **label == 0 && !**inside);
            outside.for_each(|(label, _)| *label = -1);
            let cut = cut.transposed(order);
            let axis = separate_axis(&self.seg, spacing, target);
            let data = self.seg.labels(&cut.data, cut.shape, new_shape, axis);
            Ok(Volume { channels: 1, shape: new_shape, data })
        });
        let labels = labels.collect::<Result<Vec<_>>>()?;
        let axis = separate_axis(&self.data, spacing, target);
        if data.shape != new_shape {
            check_room(channels, new_shape)?;
        }
        let data = self.data.image(data, new_shape, axis);
        let shape_before_cropping = order.map(|axis| whole[axis]);
        Ok((Prepared { data, spacing, shape_before_cropping, bounds: bounds.transposed(order) }, labels))
    }
}

/// Preprocesses an image `[channel, z, y, x]` with its voxel size in mm, in the axes of the file.
/// `previous` is the label map of the earlier stage of a cascade, in the same axes.
///
/// # Errors
/// Same as [`Preprocessing::run`].
pub fn prepare(
    plans: &Plans,
    configuration: &Configuration,
    image: Volume,
    spacing: Axes3<f64>,
    previous: Option<(&Volume<u16>, &[u16])>,
) -> Result<Prepared> {
    let how = Preprocessing::of(plans, configuration);
    if let Some((labels, _)) = previous.filter(|(labels, _)| labels.shape != image.shape) {
        let what =
            format!("the labels of the previous stage have {:?} voxels, the image {:?}", labels.shape, image.shape);
        return Err(NnunetError::case(what));
    }
    let maps: Vec<&Volume<u16>> = previous.iter().map(|(labels, _)| *labels).collect();
    let (mut prepared, labels) = how.run(image, spacing, &maps)?;
    if let (Some(labels), Some((_, foreground))) = (labels.first(), previous) {
        for label in foreground {
            let set = |found: &i32| f32::from(u8::from(*found == i32::from(*label)));
            prepared.data.data.extend(labels.data.iter().map(set));
        }
        prepared.data.channels += foreground.len();
    }
    Ok(prepared)
}

/// The smallest box of voxels that are nonzero in any channel, and which of its voxels these are,
/// including holes. An image of only zeros is used completely.
pub(crate) fn nonzero(image: &Volume) -> Result<(Bounds, Vec<bool>)> {
    let voxels = image.voxels();
    let mut mask = vec![0_u8; voxels];
    for channel in 0..image.channels {
        mask.par_iter_mut().zip(image.channel(channel)).for_each(|(set, value)| *set |= u8::from(*value != 0.0));
    }
    fill_holes(&mut mask, &image.shape, 1, 1).map_err(|error| NnunetError::case(error.to_string()))?;
    let [nz, ny, nx] = image.shape;
    let (mut start, mut end) = ([nz, ny, nx], [0; 3]);
    for z in 0..nz {
        for y in 0..ny {
            let row = &mask[(z * ny + y) * nx..][..nx];
            let Some(first) = row.iter().position(|set| *set != 0) else { continue };
            let last = nx - row.iter().rev().position(|set| *set != 0).unwrap_or(0);
            for (axis, (low, high)) in [(z, z + 1), (y, y + 1), (first, last)].into_iter().enumerate() {
                start[axis] = start[axis].min(low);
                end[axis] = end[axis].max(high);
            }
        }
    }
    let found = end[0] > 0;
    let bounds = if found { Bounds { start, end } } else { Bounds { start: [0; 3], end: image.shape } };
    let mut inside = Vec::with_capacity(bounds.shape().iter().product());
    for z in bounds.start[0]..bounds.end[0] {
        for y in bounds.start[1]..bounds.end[1] {
            let row = &mask[(z * ny + y) * nx..][bounds.start[2]..bounds.end[2]];
            inside.extend(row.iter().map(|set| *set != 0));
        }
    }
    Ok((bounds, inside))
}

/// The number of contiguous voxels in a part of an array.
fn run_length(whole: Axes3, part: &Bounds) -> usize {
    let shape = part.shape();
    let mut run = shape[2];
    if shape[2] == whole[2] {
        run *= shape[1];
        if shape[1] == whole[1] {
            run *= shape[0];
        }
    }
    run
}

/// Checks the memory for an image of this size: the resampled channels, and one in double precision.
///
/// # Errors
/// An image that does not fit.
pub(crate) fn check_room(channels: usize, shape: Axes3) -> Result<()> {
    let voxels = shape.iter().product::<usize>() as u64;
    check_free(&format!("resampling it to {shape:?} voxels"), voxels * (4 * channels as u64 + 8))
}

fn check_free(work: &str, bytes: u64) -> Result<()> {
    hearth_machine::check_free(bytes).map_err(|what| {
        NnunetError::case(format!("{work} (z, y, x) for the network {what}: crop the image to the part that matters"))
    })
}

/// The size of a volume after resampling: `round(old / new * size)`, in that order, ties to even.
///
/// # Errors
/// A size beyond the limits.
pub fn target_shape(shape: Axes3, spacing: Axes3<f64>, target: Axes3<f64>) -> Result<Axes3> {
    let exact: Axes3<f64> =
        std::array::from_fn(|axis| (spacing[axis] / target[axis] * shape[axis] as f64).round_ties_even());
    let voxels = exact.iter().product::<f64>();
    if exact.iter().any(|length| *length < 1.0) || voxels > MAX_VOXELS as f64 {
        let what = "voxels after resampling: check the spacing in its header";
        return Err(NnunetError::case(format!(
            "{shape:?} voxels of {spacing:?} mm, resampled to {target:?} mm, are {exact:?} {what}"
        )));
    }
    Ok(exact.map(|length| length as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_holds_holes_and_all_channels() {
        let mut image = Volume::zeros(2, [5, 6, 7]);
        let at = |z: usize, y: usize, x: usize| (z * 6 + y) * 7 + x;
        // A shell around one voxel.
        for (z, y, x) in [(1, 2, 3), (3, 2, 3), (2, 1, 3), (2, 3, 3), (2, 2, 2), (2, 2, 4)] {
            image.data[at(z, y, x)] = 1.0;
        }
        image.data[210 + at(3, 3, 5)] = -2.0;
        let (bounds, inside) = nonzero(&image).expect("a mask");
        assert_eq!(bounds, Bounds { start: [1, 1, 2], end: [4, 4, 6] });
        assert_eq!(inside.iter().filter(|set| **set).count(), 8);
        let (bounds, inside) = nonzero(&Volume::zeros(1, [2, 3, 4])).expect("a mask");
        assert_eq!((bounds.shape(), inside), ([2, 3, 4], vec![false; 24]));
    }

    #[test]
    fn sizes_round_half_to_even_and_have_limits() {
        assert_eq!(target_shape([5, 5, 7], [1.0, 0.5, 1.0], [2.0, 1.0, 2.0]).expect("sizes"), [2, 2, 4]);
        assert!(target_shape([500; 3], [1.0; 3], [1e-4; 3]).is_err());
        assert!(target_shape([5; 3], [1.0; 3], [100.0; 3]).is_err());
    }

    #[test]
    fn runs_of_a_cut_array() {
        let part = |end: Axes3| Bounds { start: [0; 3], end };
        assert_eq!(run_length([4, 5, 6], &part([2, 5, 6])), 60);
        assert_eq!(run_length([4, 5, 6], &part([4, 3, 6])), 18);
        assert_eq!(run_length([4, 5, 6], &part([4, 5, 3])), 3);
    }
}
