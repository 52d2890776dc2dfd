//! The transforms that MONAI has as well, and the parameters that are written differently.

use super::rule::Rule::{Axes, Comparison, EachKey, Fill, Grid, Image, NoEffect, Only, OrNull, WhenTrue, Whole};
use super::rule::{Row, Rule};

/// Parameters of every transform that are handled separately.
pub(super) const COMMON: [&str; 5] = ["name", "keys", "only", "batch", "allow_missing_keys"];

/// The parameters of padding.
const PADS: &[(&str, Rule)] = &[("mode", EachKey), ("value", Fill)];

/// The parameters of sampling on a grid.
const SAMPLES: &[(&str, Rule)] = &[("mode", Grid), ("padding_mode", EachKey), ("align_corners", EachKey)];

/// Transforms of MONAI's dictionary form, whose class name has a `d` appended.
const KNOWN: &[Row] = &[
    Row::same("AdjustContrast"),
    Row::of(
        "Affine",
        &[("mode", Grid), ("padding_mode", EachKey), ("align_corners", EachKey), ("normalized", Only("false"))],
    ),
    Row::of("BorderPad", PADS),
    Row::same("CenterScaleCrop"),
    Row::same("CenterSpatialCrop"),
    Row::of("ClipIntensityPercentiles", &[("lower", OrNull), ("upper", OrNull)]),
    Row::of(
        "CropForeground",
        &[
            ("source_key", Image),
            ("select_fn", Comparison),
            ("mode", EachKey),
            ("value", Fill),
            // It matters only for an image without foreground, where one of the two programs fails.
            ("allow_empty", NoEffect),
        ],
    ),
    Row::same("DistanceTransformEDT"),
    Row::of("DivisiblePad", PADS),
    Row::same("EnsureChannelFirst"),
    Row::same("FillHoles"),
    Row::same("Flip"),
    Row::of("ForegroundMask", &[("new_key_prefix", Only("null"))]),
    Row::same("GaussianSharpen"),
    Row::same("GaussianSmooth"),
    Row::same("GibbsNoise"),
    Row::of("HistogramNormalize", &[("mask_key", Only("null"))]),
    Row::same("KeepLargestConnectedComponent"),
    Row::same("KSpaceSpikeNoise"),
    Row::same("LabelFilter"),
    Row::same("LabelToContour"),
    Row::same("LabelToMask"),
    Row::of(
        "LoadImage",
        &[
            // Both choose a reader by the file; named readers read files that MONAI cannot read.
            ("reader", Only("null")),
            ("npz_key", Only("null")),
            ("level", Only("0")),
            ("reverse_indexing", Only("true")),
            // The selection of a DICOM series and accepted faults: MONAI is given files that it can
            // read.
            ("series", NoEffect),
            ("accept", NoEffect),
            // These make labels from segmentations and structure sets.
            ("segments", Only("null")),
            ("aliases", Only("null")),
            ("segments_as_channels", Only("null")),
            ("reference_key", Only("null")),
            // Accepted here without effect: other steps of the chain move channels first.
            ("ensure_channel_first", NoEffect),
            ("image_only", NoEffect),
        ],
    ),
    Row::of("MapLabelValue", &[("dtype", Only("\"float32\""))]),
    Row::same("MedianSmooth"),
    Row::same("NormalizeIntensity"),
    Row::same("Orientation"),
    Row::same("RemoveRepeatedChannel"),
    Row::of("RemoveSmallObjects", &[("min_size", Whole)]),
    Row::same("RepeatChannel"),
    Row::of(
        "Resize",
        &[("mode", Axes), ("align_corners", WhenTrue), ("anti_aliasing", EachKey), ("anti_aliasing_sigma", EachKey)],
    ),
    Row::of("ResizeWithPadOrCrop", PADS),
    Row::of("Rotate", SAMPLES),
    Row::same("Rotate90"),
    Row::same("SavitzkyGolaySmooth"),
    Row::same("ScaleIntensity"),
    Row::same("ScaleIntensityRange"),
    Row::of("ScaleIntensityRangePercentiles", &[("b_min", OrNull), ("b_max", OrNull)]),
    Row::of("ShiftIntensity", &[("factor_key", Only("null"))]),
    Row::of("SobelGradients", &[("new_key_prefix", Only("null"))]),
    Row::of(
        "Spacing",
        &[
            ("mode", Grid),
            ("padding_mode", EachKey),
            ("align_corners", EachKey),
            // MONAI computes positions in this type, f64 by default, as Hearth does.
            ("dtype", NoEffect),
            ("scale_extent", EachKey),
        ],
    ),
    Row::of("SpatialCrop", &[("roi_slices", Only("null")), ("allow_empty", Only("false"))]),
    Row::of("SpatialPad", PADS),
    Row::same("SqueezeDim"),
    Row::same("StdShiftIntensity"),
    Row::same("ThresholdIntensity"),
    Row::same("Transpose"),
    Row::of("Zoom", &[("mode", Axes), ("padding_mode", EachKey), ("align_corners", WhenTrue), ("value", Fill)]),
];

/// Transforms that are omitted from a bundle because they change no value of the image.
const LEFT_OUT: &[Row] = &[
    Row::of("CastToType", &[("dtype", Only("\"float32\""))]),
    // It rejects cases, and changes none.
    Row::of(
        "CheckCase",
        &[
            ("image_key", NoEffect),
            ("label_key", NoEffect),
            ("num_classes", NoEffect),
            ("ignore_label", NoEffect),
            ("channels", NoEffect),
        ],
    ),
    // Copies are values other than the image.
    Row::of("CopyItems", &[("times", NoEffect), ("names", NoEffect)]),
    Row::same("DeleteItems"),
    // In MONAI, images are also f32 on the evaluator's device.
    Row::of(
        "EnsureType",
        &[("data_type", NoEffect), ("dtype", NoEffect), ("device", NoEffect), ("track_meta", Only("true"))],
    ),
    Row::same("Identity"),
    Row::same("SelectItems"),
    Row::of("ToDevice", &[("device", NoEffect)]),
    Row::of("ToNumpy", &[("dtype", Only("null")), ("wrap_sequence", NoEffect)]),
    Row::of("ToTensor", &[("dtype", Only("null")), ("track_meta", Only("true")), ("wrap_sequence", NoEffect)]),
];

/// Transforms of MONAI that use values other than the image, and others that cannot be written.
const REFUSED: &[(&str, &str)] = &[
    ("ConcatImages", OTHERS),
    ("ConcatItems", OTHERS),
    ("MaskIntensity", OTHERS),
    ("Resample", OTHERS),
    ("ResampleToMatch", OTHERS),
    ("SpatialResample", OTHERS),
    ("GridSplit", SEVERAL),
    ("GridPatch", SEVERAL),
    ("SplitDim", SEVERAL),
];

const OTHERS: &str = "it takes other values, and a bundle's cases have the image alone";
const SEVERAL: &str = "it makes several images of one, and a prediction has one";

/// The reason why a transform is not exported.
pub(super) fn refusal(name: &str) -> &'static str {
    let known = REFUSED.iter().find(|(refused, _)| *refused == name);
    known.map_or("MONAI has none that computes the same", |(_, why)| why)
}

/// A transform that can be exported: its row, and whether it is written or omitted.
pub(super) fn find(name: &str) -> Option<(&'static Row, bool)> {
    let known = KNOWN.iter().find(|row| row.name == name).map(|row| (row, true));
    known.or_else(|| LEFT_OUT.iter().find(|row| row.name == name).map(|row| (row, false)))
}

#[cfg(test)]
mod tests {
    use hearth_data::Transform;
    use hearth_registry::Registry;

    use super::*;
    use crate::export::monai;

    /// Every written parameter exists in MONAI, and every rule is about a parameter of Hearth.
    #[test]
    fn parameters_are_those_of_monai() {
        let registry = Registry::<dyn Transform>::new();
        for (row, written) in KNOWN.iter().map(|row| (row, true)).chain(LEFT_OUT.iter().map(|row| (row, false))) {
            let entry = registry.entries().iter().find(|entry| entry.name == row.name);
            let entry = entry.unwrap_or_else(|| panic!("no transform {}", row.name));
            let ours = monai::ours(&(entry.schema)());
            for (key, _) in row.rules {
                assert!(ours.iter().any(|known| known == key), "{}.{key} is no parameter here", row.name);
            }
            // An omitted transform may exist only in Hearth.
            let theirs = if written { monai::parameters("transforms", &format!("{}d", row.name)) } else { Vec::new() };
            let kept = |key: &&String| {
                let left = matches!(row.rule(key), Some(NoEffect | Only(_) | Fill));
                !left && !COMMON.contains(&key.as_str())
            };
            for key in ours.iter().filter(kept) {
                assert!(!written || theirs.iter().any(|known| known == key), "MONAI's {}d has no {key}", row.name);
                assert!(written, "{}.{key} is lost", row.name);
            }
        }
    }
}
