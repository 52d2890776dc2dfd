//! Transforms of label maps and predictions: filtering, filling and recoding.
//!
//! A label map has one channel of label values, a one-hot map one channel of 0 and 1 per label;
//! most transforms accept either. Connected components, holes and distances are computed by
//! [`hearth_kernels::label`], on the CPU: values on another device are copied there and back. The
//! rest runs on the image's device. The geometry is unchanged.

mod convert_to_multi_channel_based_on_brats_classes;
mod distance_transform_edt;
mod fill_holes;
mod keep_largest_connected_component;
mod label_filter;
mod label_to_contour;
mod label_to_mask;
mod map_label_value;
mod merge_classes;
mod prob_nms;
mod remove_repeated_channel;
mod remove_small_objects;
mod resolve_regions;

pub use convert_to_multi_channel_based_on_brats_classes::ConvertToMultiChannelBasedOnBratsClasses;
pub use distance_transform_edt::DistanceTransformEDT;
pub use fill_holes::FillHoles;
pub use keep_largest_connected_component::KeepLargestConnectedComponent;
pub use label_filter::LabelFilter;
pub use label_to_contour::LabelToContour;
pub use label_to_mask::LabelToMask;
pub use map_label_value::MapLabelValue;
pub use merge_classes::MergeClasses;
pub use prob_nms::{Detection, ProbNMS};
pub use remove_repeated_channel::RemoveRepeatedChannel;
pub use remove_small_objects::RemoveSmallObjects;
pub use resolve_regions::ResolveRegions;

use burn::tensor::{Int, Tensor};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;

fn yes() -> bool {
    true
}

/// The axes of the image, for labelling.
fn axes(image: &Image) -> Vec<usize> {
    image.spatial_shape()
}

/// The number of voxels of a channel.
fn voxels(image: &Image) -> usize {
    image.shape().iter().product()
}

/// The indices of the channels that a list of labels names in a one-hot map.
fn channels_of(labels: &[i64], channels: usize) -> Result<Vec<usize>, TransformError> {
    let index = |label: &i64| usize::try_from(*label).ok().filter(|i| *i < channels);
    labels
        .iter()
        .map(|label| {
            index(label).ok_or_else(|| {
                TransformError::new(format!("label {label} of an image of {channels} channels"))
                    .expected(format!("0 to {}: in a one-hot map labels are channels", channels.saturating_sub(1)))
            })
        })
        .collect()
}

/// The channels of these indices, in their order.
fn select(image: &Image, channels: &[usize]) -> Tensor<4> {
    let indices: Vec<i64> = channels.iter().map(|i| *i as i64).collect();
    let indices = Tensor::<1, Int>::from_data(indices.as_slice(), &image.data.device());
    image.data.clone().select(0, indices)
}

/// Rejects an invalid connectivity before the first case.
fn check_connectivity(connectivity: Option<usize>) -> Result<(), Fault> {
    match connectivity {
        Some(n) if !(1..=3).contains(&n) => {
            Err(Fault::at("connectivity", format!("{n}; expected 1 to the number of axes")))
        }
        _ => Ok(()),
    }
}

fn check_labels(parameter: &str, labels: &OneOrMany<i64>) -> Result<(), Fault> {
    match labels.as_slice() {
        [] => Err(Fault::at(parameter, "names no label")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hearth_image::{Image, affine, host_device};

    /// A 2-D image of rows, one channel.
    pub(super) fn rows<const N: usize>(rows: &[[u8; N]]) -> Image {
        let values = rows.as_flattened().iter().map(|v| f32::from(*v)).collect();
        Image::from_values(values, [1, rows.len(), N, 1], affine::IDENTITY, &host_device()).with_spatial_dims(2)
    }

    /// The values of an image.
    pub(super) fn values(image: &Image) -> Vec<u8> {
        image.to_vec().iter().map(|v| *v as u8).collect()
    }

    /// The channels of one-channel images as those of one image.
    pub(super) fn stack(images: &[Image]) -> Image {
        let data = burn::tensor::Tensor::cat(images.iter().map(|i| i.data.clone()).collect(), 0);
        Image { data, ..images[0].clone() }
    }
}
