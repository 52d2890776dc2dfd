//! The transforms, one file each. Parameters, defaults and semantics are those of MONAI's
//! dictionary transforms unless stated otherwise.
//!
//! Every transform can be built in two equivalent ways:
//! `Spacing::new(["image"], [1.5, 1.5, 2.0]).mode(GridMode::Nearest)`, or a recipe table with the
//! same names.

/// Defines functions that set one parameter each, also for custom transforms. Their documentation
/// appears in the reference if [`entry!`](hearth_registry::entry) gets `setters: Type::SETTERS`.
///
/// ```
/// #[derive(Default)]
/// struct Floor {
///     least: f64,
///     keys: hearth_transforms::Keys,
/// }
///
/// hearth_transforms::setters!(Floor {
///     /// The least value that stays.
///     least: f64,
///     /// What it works on.
///     keys: hearth_transforms::Keys,
/// });
///
/// let floor = Floor::default().least(-1000.0).keys("image");
/// assert_eq!((floor.least, floor.keys.len()), (-1000.0, 1));
/// assert_eq!(Floor::SETTERS[0], ("least", " The least value that stays.\n"));
/// ```
#[macro_export]
macro_rules! setters {
    (@names $($(#[doc = $doc:literal])* $field:ident : $value:ty),* $(,)?) => {
        /// Parameters and their documentation.
        pub(crate) const SETTERS: &'static [(&'static str, &'static str)] =
            &[$((stringify!($field), concat!($($doc, "\n"),*))),*];
    };

    (@each) => {};

    (@each $(#[doc = $doc:literal])* $field:ident : Option<$inner:ty> $(, $($rest:tt)*)?) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, $field: impl Into<$crate::Optional<$inner>>) -> Self {
            self.$field = $field.into().0;
            self
        }
        $crate::setters!(@each $($($rest)*)?);
    };

    (@each $(#[doc = $doc:literal])* $field:ident : [f64; $count:literal] $(, $($rest:tt)*)?) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, $field: [impl Into<f64>; $count]) -> Self {
            self.$field = $field.map(Into::into);
            self
        }
        $crate::setters!(@each $($($rest)*)?);
    };

    // Literals of these types are of the type that is expected, but not of one that converts to it.
    (@each $(#[doc = $doc:literal])* $field:ident : usize $(, $($rest:tt)*)?) => {
        $crate::setters!(@plain $(#[doc = $doc])* $field : usize);
        $crate::setters!(@each $($($rest)*)?);
    };
    (@each $(#[doc = $doc:literal])* $field:ident : u64 $(, $($rest:tt)*)?) => {
        $crate::setters!(@plain $(#[doc = $doc])* $field : u64);
        $crate::setters!(@each $($($rest)*)?);
    };
    (@each $(#[doc = $doc:literal])* $field:ident : i64 $(, $($rest:tt)*)?) => {
        $crate::setters!(@plain $(#[doc = $doc])* $field : i64);
        $crate::setters!(@each $($($rest)*)?);
    };
    (@each $(#[doc = $doc:literal])* $field:ident : bool $(, $($rest:tt)*)?) => {
        $crate::setters!(@plain $(#[doc = $doc])* $field : bool);
        $crate::setters!(@each $($($rest)*)?);
    };

    (@each $(#[doc = $doc:literal])* $field:ident : $value:ty $(, $($rest:tt)*)?) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, $field: impl Into<$value>) -> Self {
            self.$field = $field.into();
            self
        }
        $crate::setters!(@each $($($rest)*)?);
    };

    (@plain $(#[doc = $doc:literal])* $field:ident : $value:ty) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, $field: $value) -> Self {
            self.$field = $field;
            self
        }
    };

    ($type:ident { $($body:tt)* }) => {
        impl $type {
            $crate::setters!(@names $($body)*);
            $crate::setters!(@each $($body)*);
        }
    };
}

/// Registers a transform whose fields are its parameters, with an example of its table in a recipe.
macro_rules! transform_entry {
    ($type:ident, $example:literal) => {
        hearth_registry::entry!(dyn crate::Transform => $type, example: $example, setters: $type::SETTERS);
    };
}

/// Implements [`Transform`](crate::Transform) for a transform that changes each image separately.
///
/// The type has `keys`, `allow_missing_keys`, `check_parameters(&self)` and the function named
/// second, `(&self, Image)` to an image. Its optional function `through_host` returns whether it
/// [goes through the host](crate::Transform::through_host).
macro_rules! image_transform {
    ($type:ident, $change:ident $(, maps_labels: $maps:literal)? $(, through_host: $host:expr)?) => {
        impl $crate::Transform for $type {
            fn name(&self) -> &'static str {
                stringify!($type)
            }

            $(
                fn maps_labels(&self) -> bool {
                    $maps
                }
            )?

            $(
                fn through_host(&self) -> bool {
                    let host: fn(&Self) -> bool = $host;
                    host(self)
                }
            )?

            fn apply(
                &self,
                mut sample: $crate::Sample,
                _: &$crate::Draw,
            ) -> Result<Vec<$crate::Sample>, hearth_image::TransformError> {
                for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
                    sample.update(key, |image| self.$change(image))?;
                }
                Ok(vec![sample])
            }

            fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), hearth_registry::Fault> {
                self.keys.check(known)?;
                self.check_parameters()
            }

            fn describe(&self) -> serde_json::Value {
                $crate::transform::describe(self.name(), self)
            }
        }
    };
}

/// Implements [`Transform`](crate::Transform) for a type that changes the image of each key
/// separately, by its function `apply` with the image and the index of its key. `lazy` states
/// whether it may be [lazy](crate::Transform::is_lazy); `check` names the function that checks the
/// parameters, `effect` the function that returns the effect on the grid; its function
/// `through_host` returns whether it [goes through the host](crate::Transform::through_host).
macro_rules! per_image {
    ($type:ident {
        apply: $change:ident, lazy: $lazy:literal
        $(, check: $check:ident)? $(, effect: $effect:ident)? $(, through_host: $host:expr)?
    }) => {
        impl crate::Transform for $type {
            fn name(&self) -> &'static str {
                stringify!($type)
            }

            fn is_lazy(&self) -> bool {
                $lazy
            }

            $(
                fn effect(&self) -> crate::Effect {
                    self.$effect()
                }
            )?

            $(
                fn through_host(&self) -> bool {
                    let host: fn(&Self) -> bool = $host;
                    host(self)
                }
            )?

            fn apply(
                &self,
                mut sample: crate::Sample,
                _: &crate::Draw,
            ) -> Result<Vec<crate::Sample>, hearth_image::TransformError> {
                for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
                    sample.update(key, |image| self.$change(image, place))?;
                }
                Ok(vec![sample])
            }

            fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), hearth_registry::Fault> {
                self.keys.check(known)?;
                $( self.$check()?; )?
                Ok(())
            }

            fn describe(&self) -> serde_json::Value {
                crate::transform::describe(stringify!($type), self)
            }
        }
    };
}

mod add_click_signals;
mod add_label_as_guidance;
mod border_pad;
mod bounding_rect;
mod cast_to_type;
mod center_scale_crop;
mod center_spatial_crop;
mod check_case;
mod choice;
mod classes_to_indices;
mod concat_images;
mod concat_items;
mod copy_items;
mod crop_centers;
mod crop_foreground;
mod deepedit;
mod delete_items;
mod divisible_pad;
mod ensure_channel_first;
mod ensure_type;
mod fg_bg_to_indices;
mod flip;
mod grid_patch;
mod grid_split;
mod identity;
mod intensity;
mod invert;
mod labels;
mod load_image;
mod load_region;
mod mix;
mod orientation;
mod pad;
pub(crate) mod plugin;
pub(crate) mod plugin_map;
mod rand_axis_flip;
mod rand_crop_by_label_classes;
mod rand_crop_by_pos_neg_label;
mod rand_flip;
mod rand_grid_patch;
mod rand_rotate90;
mod rand_scale_crop;
mod rand_spatial_crop;
mod rand_spatial_crop_samples;
mod rand_weighted_crop;
mod range;
mod repeat_channel;
mod resample;
mod resample_to_match;
mod resize_with_pad_or_crop;
mod rotate90;
mod save_image;
mod select_items;
mod spacing;
mod spatial_crop;
mod spatial_pad;
mod spatial_resample;
mod split_dim;
mod squeeze_dim;
mod to_device;
mod to_numpy;
mod to_tensor;
mod transpose;
mod value_type;
mod warp;

pub use add_click_signals::AddClickSignals;
pub use add_label_as_guidance::AddLabelAsGuidance;
pub use border_pad::BorderPad;
pub use bounding_rect::BoundingRect;
pub use cast_to_type::CastToType;
pub use center_scale_crop::CenterScaleCrop;
pub use center_spatial_crop::CenterSpatialCrop;
pub use check_case::{CheckCase, check_same_grid};
pub use choice::{OneOf, RandomOrder, SomeOf};
pub use classes_to_indices::{ClassesToIndices, class_indices};
pub use concat_images::ConcatImages;
pub use concat_items::ConcatItems;
pub use copy_items::CopyItems;
pub use crop_centers::{class_ratios, corrected_center, foreground_ratio};
pub use crop_foreground::CropForeground;
pub use deepedit::{
    AddGuidanceFromPointsDeepEdit, AddGuidanceSignalDeepEdit, OrientationGuidanceMultipleLabelDeepEdit,
    ResizeGuidanceMultipleLabelDeepEdit,
};
pub use delete_items::DeleteItems;
pub use divisible_pad::DivisiblePad;
pub use ensure_channel_first::{ChannelDim, EnsureChannelFirst};
pub use ensure_type::EnsureType;
pub use fg_bg_to_indices::{FgBgToIndices, foreground_and_background, unravel};
pub use flip::Flip;
pub use grid_patch::{GridPatch, LocatedPatches, PatchOrder};
pub use grid_split::{GridSplit, SplitSize};
pub use identity::Identity;
pub use intensity::*;
pub use invert::Invert;
pub use labels::*;
pub use load_image::LoadImage;
pub use load_region::LoadRegion;
pub use mix::{CutMix, CutOut, MixUp, Mixing};
pub use orientation::Orientation;
pub use pad::Pad;
pub use rand_axis_flip::RandAxisFlip;
pub use rand_crop_by_label_classes::RandCropByLabelClasses;
pub use rand_crop_by_pos_neg_label::RandCropByPosNegLabel;
pub use rand_flip::RandFlip;
pub use rand_grid_patch::RandGridPatch;
pub use rand_rotate90::RandRotate90;
pub use rand_scale_crop::RandScaleCrop;
pub use rand_spatial_crop::RandSpatialCrop;
pub use rand_spatial_crop_samples::RandSpatialCropSamples;
pub use rand_weighted_crop::{RandWeightedCrop, weighted_centers};
pub use range::Range;
pub use repeat_channel::RepeatChannel;
pub use resample::Resample;
pub use resample_to_match::ResampleToMatch;
pub use resize_with_pad_or_crop::ResizeWithPadOrCrop;
pub use rotate90::Rotate90;
pub use save_image::SaveImage;
pub use select_items::SelectItems;
pub use spacing::Spacing;
pub use spatial_crop::{Slice, SpatialCrop};
pub use spatial_pad::{PadMethod, SpatialPad};
pub use spatial_resample::SpatialResample;
pub use split_dim::SplitDim;
pub use squeeze_dim::SqueezeDim;
pub use to_device::ToDevice;
pub use to_numpy::ToNumpy;
pub use to_tensor::ToTensor;
pub use transpose::Transpose;
pub use value_type::ValueType;
pub use warp::*;
