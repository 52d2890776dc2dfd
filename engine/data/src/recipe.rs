//! Pipelines from recipe tables.
//!
//! ```toml
//! [[transforms]]
//! name = "Spacing"
//! keys = ["image", "label"]
//! pixdim = [1.5, 1.5, 2.0]
//! mode = ["bilinear", "nearest"]
//! ```

use burn::tensor::Device;
use serde::de::DeserializeOwned;
use toml::{Spanned, Table, Value};

use crate::cucim;
use crate::params::closest;
use crate::transforms as t;
use crate::{Pipeline, RecipeError, Transform};

/// What a recipe's transforms need from the run.
#[derive(Clone, Debug, Default)]
pub struct RecipeOptions {
    /// The device that `device = "run"` means in `ToDevice` and `EnsureType`; the CPU where there is none.
    pub device: Option<Device>,
    /// Keep only these keys: a pipeline for training serves for prediction, where there is no `label`. Per-key lists are
    /// shortened alike, and a transform left without keys is dropped.
    pub keys: Option<Vec<String>>,
    /// Whether a run of spatial transforms is sampled once.
    pub lazy: crate::spatial::Lazy,
    /// How keys are sampled where it is, whatever the transforms say.
    pub lazy_sampling: std::collections::BTreeMap<String, crate::spatial::LazySampling>,
}

type Build = fn(Table, &RecipeOptions) -> Result<Box<dyn Transform>, String>;

fn plain<T: Transform + DeserializeOwned + 'static>(
    table: Table,
    _: &RecipeOptions,
) -> Result<Box<dyn Transform>, String> {
    let transform: T = Value::Table(table).try_into().map_err(|e: toml::de::Error| e.message().to_owned())?;
    Ok(Box::new(transform))
}

fn placed<T: Transform + DeserializeOwned + t::Placed + 'static>(
    table: Table,
    options: &RecipeOptions,
) -> Result<Box<dyn Transform>, String> {
    let mut transform: T = Value::Table(table).try_into().map_err(|e: toml::de::Error| e.message().to_owned())?;
    transform.place(options.device.as_ref());
    Ok(Box::new(transform))
}

fn range(mut table: Table, options: &RecipeOptions) -> Result<Box<dyn Transform>, String> {
    let inner = match table.remove("transform") {
        Some(Value::Table(inner)) => build(inner, options).map_err(|e| e.message)?,
        _ => return Err("`transform` must be a table: the transform to wrap".to_owned()),
    };
    let name = match table.remove("range") {
        Some(Value::String(name)) => name,
        None => inner.name().to_owned(),
        Some(_) => return Err("`range` must be a text: the name of the span".to_owned()),
    };
    if let Some(extra) = table.keys().next() {
        return Err(format!("unknown field `{extra}`, expected `range` or `transform`"));
    }
    Ok(Box::new(t::Range::new(name, inner)))
}

/// Every transform a recipe can name.
const REGISTRY: &[(&str, Build)] = &[
    ("AdjustContrast", plain::<t::AdjustContrast>),
    ("Affine", plain::<t::Affine>),
    ("BorderPad", plain::<t::BorderPad>),
    ("BoundingRect", plain::<t::BoundingRect>),
    ("CenterScaleCrop", plain::<t::CenterScaleCrop>),
    ("CenterSpatialCrop", plain::<t::CenterSpatialCrop>),
    ("CheckCase", plain::<t::CheckCase>),
    ("ClassesToIndices", plain::<t::ClassesToIndices>),
    ("ClipIntensityPercentiles", plain::<t::ClipIntensityPercentiles>),
    ("ConvertToMultiChannelBasedOnBratsClasses", plain::<t::ConvertToMultiChannelBasedOnBratsClasses>),
    ("CropForeground", plain::<t::CropForeground>),
    ("DistanceTransformEDT", plain::<t::DistanceTransformEDT>),
    ("EnsureChannelFirst", plain::<t::EnsureChannelFirst>),
    ("EnsureType", placed::<t::EnsureType>),
    ("FgBgToIndices", plain::<t::FgBgToIndices>),
    ("FillHoles", plain::<t::FillHoles>),
    ("GaussianSharpen", plain::<t::GaussianSharpen>),
    ("GaussianSmooth", plain::<t::GaussianSmooth>),
    ("KeepLargestConnectedComponent", plain::<t::KeepLargestConnectedComponent>),
    ("LabelFilter", plain::<t::LabelFilter>),
    ("LabelToContour", plain::<t::LabelToContour>),
    ("LabelToMask", plain::<t::LabelToMask>),
    ("ConcatItems", plain::<t::ConcatItems>),
    ("CopyItems", plain::<t::CopyItems>),
    ("ColorJitter", plain::<t::ColorJitter>),
    ("DeleteItems", plain::<t::DeleteItems>),
    ("DivisiblePad", plain::<t::DivisiblePad>),
    ("Flip", plain::<t::Flip>),
    ("GridPatch", plain::<t::GridPatch>),
    ("GridSplit", plain::<t::GridSplit>),
    ("Identity", plain::<t::Identity>),
    ("Invert", plain::<t::Invert>),
    ("ForegroundMask", plain::<t::ForegroundMask>),
    ("GibbsNoise", plain::<t::GibbsNoise>),
    ("HistogramNormalize", plain::<t::HistogramNormalize>),
    ("KSpaceSpikeNoise", plain::<t::KSpaceSpikeNoise>),
    ("GridDistortion", plain::<t::GridDistortion>),
    ("LoadImage", plain::<t::LoadImage>),
    ("MapLabelValue", plain::<t::MapLabelValue>),
    ("MaskIntensity", plain::<t::MaskIntensity>),
    ("MedianSmooth", plain::<t::MedianSmooth>),
    ("NormalizeIntensity", plain::<t::NormalizeIntensity>),
    ("Orientation", plain::<t::Orientation>),
    ("ProbNMS", plain::<t::ProbNMS>),
    ("RandAdjustContrast", plain::<t::RandAdjustContrast>),
    ("RandAffine", plain::<t::RandAffine>),
    ("RandCropByPosNegLabel", plain::<t::RandCropByPosNegLabel>),
    ("RandFlip", plain::<t::RandFlip>),
    ("RandGaussianNoise", plain::<t::RandGaussianNoise>),
    ("Pad", plain::<t::Pad>),
    ("Rand2DElastic", plain::<t::Rand2DElastic>),
    ("Rand3DElastic", plain::<t::Rand3DElastic>),
    ("RandGridDistortion", plain::<t::RandGridDistortion>),
    ("RandRotate", plain::<t::RandRotate>),
    ("RandAxisFlip", plain::<t::RandAxisFlip>),
    ("RandCropByLabelClasses", plain::<t::RandCropByLabelClasses>),
    ("RandBiasField", plain::<t::RandBiasField>),
    ("RandCoarseDropout", plain::<t::RandCoarseDropout>),
    ("RandCoarseShuffle", plain::<t::RandCoarseShuffle>),
    ("RandGaussianSharpen", plain::<t::RandGaussianSharpen>),
    ("RandGaussianSmooth", plain::<t::RandGaussianSmooth>),
    ("RandGridPatch", plain::<t::RandGridPatch>),
    ("RandGibbsNoise", plain::<t::RandGibbsNoise>),
    ("RandHistogramShift", plain::<t::RandHistogramShift>),
    ("RandIntensityRemap", plain::<t::RandIntensityRemap>),
    ("RandKSpaceSpikeNoise", plain::<t::RandKSpaceSpikeNoise>),
    ("RandRicianNoise", plain::<t::RandRicianNoise>),
    ("RandRotate90", plain::<t::RandRotate90>),
    ("RandScaleCrop", plain::<t::RandScaleCrop>),
    ("RandScaleIntensity", plain::<t::RandScaleIntensity>),
    ("RandScaleIntensityFixedMean", plain::<t::RandScaleIntensityFixedMean>),
    ("RandShiftIntensity", plain::<t::RandShiftIntensity>),
    ("RandSpatialCrop", plain::<t::RandSpatialCrop>),
    ("RandSpatialCropSamples", plain::<t::RandSpatialCropSamples>),
    ("RandStdShiftIntensity", plain::<t::RandStdShiftIntensity>),
    ("RandWeightedCrop", plain::<t::RandWeightedCrop>),
    ("Range", range),
    ("RemoveRepeatedChannel", plain::<t::RemoveRepeatedChannel>),
    ("RemoveSmallObjects", plain::<t::RemoveSmallObjects>),
    ("Rotate", plain::<t::Rotate>),
    ("SaveImage", plain::<t::SaveImage>),
    ("RepeatChannel", plain::<t::RepeatChannel>),
    ("ResizeWithPadOrCrop", plain::<t::ResizeWithPadOrCrop>),
    ("Rotate90", plain::<t::Rotate90>),
    ("RandSimulateLowResolution", plain::<t::RandSimulateLowResolution>),
    ("RandZoom", plain::<t::RandZoom>),
    ("Resize", plain::<t::Resize>),
    ("SavitzkyGolaySmooth", plain::<t::SavitzkyGolaySmooth>),
    ("ScaleIntensity", plain::<t::ScaleIntensity>),
    ("ScaleIntensityFixedMean", plain::<t::ScaleIntensityFixedMean>),
    ("Resample", plain::<t::Resample>),
    ("ResampleToMatch", plain::<t::ResampleToMatch>),
    ("ScaleIntensityRange", plain::<t::ScaleIntensityRange>),
    ("ScaleIntensityRangePercentiles", plain::<t::ScaleIntensityRangePercentiles>),
    ("SelectItems", plain::<t::SelectItems>),
    ("ShiftIntensity", plain::<t::ShiftIntensity>),
    ("SobelGradients", plain::<t::SobelGradients>),
    ("Spacing", plain::<t::Spacing>),
    ("SpatialCrop", plain::<t::SpatialCrop>),
    ("SpatialPad", plain::<t::SpatialPad>),
    ("SpatialResample", plain::<t::SpatialResample>),
    ("SplitDim", plain::<t::SplitDim>),
    ("SqueezeDim", plain::<t::SqueezeDim>),
    ("StdShiftIntensity", plain::<t::StdShiftIntensity>),
    ("ThresholdIntensity", plain::<t::ThresholdIntensity>),
    ("ToDevice", placed::<t::ToDevice>),
    ("Transpose", plain::<t::Transpose>),
    ("Zoom", plain::<t::Zoom>),
];

/// Names of all transforms that a recipe can use.
pub fn transform_names() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().map(|(name, _)| *name)
}

struct Problem {
    transform: Option<String>,
    parameter: Option<String>,
    message: String,
    suggestion: Option<String>,
}

fn build(mut table: Table, options: &RecipeOptions) -> Result<Box<dyn Transform>, Problem> {
    let problem = |parameter: Option<&str>, message: String| Problem {
        transform: None,
        parameter: parameter.map(str::to_owned),
        message,
        suggestion: None,
    };
    let name = match table.remove("name") {
        Some(Value::String(name)) => name,
        Some(other) => {
            return Err(problem(Some("name"), format!("`name` is {}, expected a text", other.type_str())));
        }
        None => return Err(problem(None, "the table has no `name`".to_owned())),
    };
    let name = match cucim::translate(&name, &mut table) {
        None => name,
        Some(Ok(transform)) => transform.to_owned(),
        Some(Err(message)) => {
            return Err(Problem { transform: Some(name), ..problem(None, message) });
        }
    };
    // MONAI's dictionary transforms are named with a `d` at the end, functions in small letters; both are understood.
    let find = |name: &str| REGISTRY.iter().find(|(known, _)| *known == name);
    let small = |name: &str| REGISTRY.iter().find(|(known, _)| known.to_lowercase() == name.replace('_', ""));
    let Some((known, make)) = find(&name).or_else(|| find(name.strip_suffix('d')?)).or_else(|| small(&name)) else {
        let names: Vec<&str> = transform_names().collect();
        let suggestion = closest(&name, &names);
        return Err(Problem { suggestion, ..problem(Some("name"), format!("there is no transform `{name}`")) });
    };
    make(table, options).map_err(|message| {
        let (parameter, suggestion) = unknown_field(&message);
        Problem { transform: Some((*known).to_owned()), parameter, message, suggestion }
    })
}

/// serde says: unknown field `pixdm`, expected one of `keys`, `pixdim`, ...
fn unknown_field(message: &str) -> (Option<String>, Option<String>) {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((field, valid)) if message.starts_with("unknown field") => {
            (Some((*field).to_owned()), closest(field, valid))
        }
        _ => (None, None),
    }
}

impl Pipeline {
    /// Builds and checks a pipeline from the tables of a recipe.
    ///
    /// # Errors
    /// The first table that can't be used, with its place in the recipe ([`RecipeError::locate`]).
    pub fn from_toml(tables: &[Spanned<Table>]) -> Result<Pipeline, RecipeError> {
        Self::from_toml_with(tables, &RecipeOptions::default())
    }

    /// The same, for a device and a choice of keys.
    ///
    /// # Errors
    /// The first table that can't be used.
    pub fn from_toml_with(tables: &[Spanned<Table>], options: &RecipeOptions) -> Result<Pipeline, RecipeError> {
        let mut steps = Vec::new();
        let mut places = Vec::new();
        for (i, table) in tables.iter().enumerate() {
            let Some(kept) = keep_keys(table.get_ref().clone(), options.keys.as_deref()) else { continue };
            let step = build(kept, options).map_err(|p| RecipeError {
                span: Some(table.span()),
                step: i + 1,
                transform: p.transform.map(Into::into),
                parameter: p.parameter,
                message: p.message,
                suggestion: p.suggestion,
            })?;
            steps.push(step);
            places.push((i, table.span()));
        }
        let pipeline = Pipeline::checked(steps, |i| places.get(i).map(|(_, span)| span.clone())).map_err(|mut e| {
            if let Some((original, _)) = places.get(e.step - 1) {
                e.step = original + 1;
            }
            e
        })?;
        let sampled = |pipeline: Pipeline, (key, sampling): (&String, &_)| pipeline.lazy_sampling(key, *sampling);
        Ok(options.lazy_sampling.iter().fold(pipeline.lazy(options.lazy), sampled))
    }
}

/// Drops the keys that are not wanted, and their entries in lists of the same length.
fn keep_keys(mut table: Table, wanted: Option<&[String]>) -> Option<Table> {
    let Some(wanted) = wanted else { return Some(table) };
    if let Some(Value::Table(inner)) = table.get("transform") {
        let inner = keep_keys(inner.clone(), Some(wanted))?;
        table.insert("transform".to_owned(), Value::Table(inner));
    }
    let keep: Vec<bool> = match table.get("keys") {
        Some(Value::Array(keys)) => {
            keys.iter().map(|k| k.as_str().is_none_or(|k| wanted.iter().any(|w| w == k))).collect()
        }
        Some(Value::String(key)) => return wanted.contains(key).then_some(table),
        _ => return Some(table),
    };
    if !keep.contains(&true) {
        return None;
    }
    for parameter in [
        "keys",
        "mode",
        "padding_mode",
        "align_corners",
        "dtype",
        "scale_extent",
        "anti_aliasing",
        "anti_aliasing_sigma",
        "dst_keys",
        "factor_key",
        "orig_keys",
        "nearest_interp",
        "post_func",
    ] {
        if let Some(Value::Array(values)) = table.get_mut(parameter)
            && values.len() == keep.len()
        {
            let mut kept = keep.iter();
            values.retain(|_| *kept.next().unwrap_or(&true));
        }
    }
    Some(table)
}
