//! The transforms, one file each. Parameters, defaults and meaning are MONAI's (dictionary form) unless a page says otherwise.
//!
//! Every transform is built in two ways that mean the same: `Spacing::new(["image"], [1.5, 1.5, 2.0]).mode(GridMode::Nearest)`,
//! or a recipe table with the same names.

/// Functions that set one parameter each.
macro_rules! setters {
    ($type:ident { $($(#[$doc:meta])* $field:ident : $value:ty),* $(,)? }) => {
        impl $type {
            $(
                $(#[$doc])*
                pub fn $field(mut self, $field: impl Into<$value>) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}

mod affine;
mod affine_grid;
mod affine_ranges;
mod check_case;
mod crop_foreground;
mod ensure_channel_first;
mod ensure_type;
mod fg_bg_to_indices;
mod intensity;
mod load_image;
mod orientation;
mod rand_affine;
mod rand_crop_by_pos_neg_label;
mod rand_flip;
mod rand_rotate;
mod rand_rotate90;
mod range;
mod resample;
mod resample_to_match;
mod rotate;
mod save_image;
mod spacing;
mod spatial_pad;
mod spatial_resample;
mod to_device;

pub use affine::Affine;
pub use affine_grid::AffineGrid;
pub use affine_ranges::{Span, Spans};
pub use check_case::CheckCase;
pub use crop_foreground::CropForeground;
pub use ensure_channel_first::{ChannelDim, EnsureChannelFirst};
pub use ensure_type::EnsureType;
pub use fg_bg_to_indices::{FgBgToIndices, foreground_and_background};
pub use intensity::*;
pub use load_image::LoadImage;
pub use orientation::Orientation;
pub use rand_affine::RandAffine;
pub use rand_crop_by_pos_neg_label::{RandCropByPosNegLabel, corrected_center, foreground_ratio};
pub use rand_flip::RandFlip;
pub use rand_rotate::RandRotate;
pub use rand_rotate90::RandRotate90;
pub use range::Range;
pub use resample::Resample;
pub use resample_to_match::ResampleToMatch;
pub use rotate::{Rotate, rotate};
pub use save_image::SaveImage;
pub use spacing::Spacing;
pub use spatial_pad::{PadMethod, SpatialPad};
pub use spatial_resample::SpatialResample;
pub use to_device::{Placed, ToDevice};
