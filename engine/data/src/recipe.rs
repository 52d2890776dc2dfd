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
    ("Affine", plain::<t::Affine>),
    ("AdjustContrast", plain::<t::AdjustContrast>),
    ("CheckCase", plain::<t::CheckCase>),
    ("ClipIntensityPercentiles", plain::<t::ClipIntensityPercentiles>),
    ("CropForeground", plain::<t::CropForeground>),
    ("EnsureChannelFirst", plain::<t::EnsureChannelFirst>),
    ("EnsureType", placed::<t::EnsureType>),
    ("FgBgToIndices", plain::<t::FgBgToIndices>),
    ("GaussianSharpen", plain::<t::GaussianSharpen>),
    ("GaussianSmooth", plain::<t::GaussianSmooth>),
    ("LoadImage", plain::<t::LoadImage>),
    ("MaskIntensity", plain::<t::MaskIntensity>),
    ("NormalizeIntensity", plain::<t::NormalizeIntensity>),
    ("Orientation", plain::<t::Orientation>),
    ("RandAffine", plain::<t::RandAffine>),
    ("RandCropByPosNegLabel", plain::<t::RandCropByPosNegLabel>),
    ("RandFlip", plain::<t::RandFlip>),
    ("RandGaussianNoise", plain::<t::RandGaussianNoise>),
    ("RandRotate", plain::<t::RandRotate>),
    ("RandAdjustContrast", plain::<t::RandAdjustContrast>),
    ("RandCropByPosNegLabel", plain::<t::RandCropByPosNegLabel>),
    ("RandFlip", plain::<t::RandFlip>),
    ("RandGaussianNoise", plain::<t::RandGaussianNoise>),
    ("RandGaussianSharpen", plain::<t::RandGaussianSharpen>),
    ("RandGaussianSmooth", plain::<t::RandGaussianSmooth>),
    ("RandRicianNoise", plain::<t::RandRicianNoise>),
    ("RandRotate90", plain::<t::RandRotate90>),
    ("RandScaleIntensity", plain::<t::RandScaleIntensity>),
    ("RandScaleIntensityFixedMean", plain::<t::RandScaleIntensityFixedMean>),
    ("RandShiftIntensity", plain::<t::RandShiftIntensity>),
    ("RandStdShiftIntensity", plain::<t::RandStdShiftIntensity>),
    ("Range", range),
    ("SaveImage", plain::<t::SaveImage>),
    ("Rotate", plain::<t::Rotate>),
    ("ScaleIntensity", plain::<t::ScaleIntensity>),
    ("ScaleIntensityFixedMean", plain::<t::ScaleIntensityFixedMean>),
    ("Resample", plain::<t::Resample>),
    ("ResampleToMatch", plain::<t::ResampleToMatch>),
    ("ScaleIntensityRange", plain::<t::ScaleIntensityRange>),
    ("ScaleIntensityRangePercentiles", plain::<t::ScaleIntensityRangePercentiles>),
    ("ShiftIntensity", plain::<t::ShiftIntensity>),
    ("Spacing", plain::<t::Spacing>),
    ("SpatialPad", plain::<t::SpatialPad>),
    ("SpatialResample", plain::<t::SpatialResample>),
    ("StdShiftIntensity", plain::<t::StdShiftIntensity>),
    ("ThresholdIntensity", plain::<t::ThresholdIntensity>),
    ("ToDevice", placed::<t::ToDevice>),
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
    // MONAI's dictionary transforms are named with a `d` at the end; both are understood.
    let find = |name: &str| REGISTRY.iter().find(|(known, _)| *known == name);
    let Some((known, make)) = find(&name).or_else(|| find(name.strip_suffix('d')?)) else {
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
        Ok(pipeline.lazy(options.lazy))
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
    for parameter in ["keys", "mode", "padding_mode", "align_corners", "dtype", "scale_extent"] {
        if let Some(Value::Array(values)) = table.get_mut(parameter)
            && values.len() == keep.len()
        {
            let mut kept = keep.iter();
            values.retain(|_| *kept.next().unwrap_or(&true));
        }
    }
    Some(table)
}
