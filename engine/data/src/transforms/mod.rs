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
mod rotate;
mod save_image;
mod rand_scale_intensity;
mod rand_shift_intensity;
mod rand_simulate_low_resolution;
mod rand_zoom;
mod range;
mod resize;
mod rotate;
mod save_image;
mod scale_intensity_range;
mod spacing;
mod spatial_pad;
mod to_device;
mod zoom;

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
pub use rotate::{Rotate, rotate};
pub use save_image::SaveImage;
pub use rand_scale_intensity::RandScaleIntensity;
pub use rand_shift_intensity::RandShiftIntensity;
pub use rand_simulate_low_resolution::RandSimulateLowResolution;
pub use rand_zoom::RandZoom;
pub use range::Range;
pub use resize::{Resize, SizeMode};
pub use rotate::{Rotate, rotate};
pub use save_image::SaveImage;
pub use scale_intensity_range::ScaleIntensityRange;
pub use spacing::Spacing;
pub use spatial_pad::{PadMethod, SpatialPad};
pub use to_device::{Placed, ToDevice};
pub use zoom::{Zoom, Zooming};
