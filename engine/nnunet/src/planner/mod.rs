//! nnU-Net's planner: makes plans from the fingerprint of a data set.
//!
//! Spacings, patches, networks and batches follow rules and an estimate of the memory of a training
//! step; nothing is measured.

mod configuration;
mod fingerprint;
mod topology;

use serde_json::{Map, Value, json};

use crate::dataset::DatasetJson;
use crate::error::{NnunetError, Result};
use crate::preprocess::target_shape;
use crate::volume::Axes3;
use configuration::{Given, configuration};
pub use fingerprint::{Fingerprinting, splits};

/// Statistics of a data set: `dataset_fingerprint.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fingerprint {
    /// The voxel size of each case in mm, z y x.
    pub spacings: Vec<Axes3<f64>>,
    /// The size of each case without its margin of zeros.
    pub shapes_after_crop: Vec<Axes3>,
    /// Intensities of the foreground, by channel.
    pub intensities: Map<String, Value>,
    /// The share of an image that is left without that margin.
    pub relative_size_after_cropping: f64,
}

/// One of nnU-Net's planners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planner {
    /// `ExperimentPlanner`
    Default,
    /// `nnUNetPlannerResEncM`
    ResEncM,
    /// `nnUNetPlannerResEncL`
    ResEncL,
    /// `nnUNetPlannerResEncXL`
    ResEncXL,
}

/// A planner and the settings that override its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannerOptions {
    /// The planner.
    pub planner: Planner,
    /// GPU memory in GB, instead of the planner's default.
    pub memory_gb: Option<f64>,
    /// The target voxel size instead of the planner's, in the axes of the images.
    pub target_spacing: Option<Axes3<f64>>,
    /// Whether the axes keep their order.
    pub keep_axes: bool,
    /// The name of the plans instead of the planner's.
    pub plans_name: Option<String>,
}

impl PlannerOptions {
    /// A planner with its default settings.
    pub fn new(planner: Planner) -> Self {
        PlannerOptions { planner, memory_gb: None, target_spacing: None, keep_axes: false, plans_name: None }
    }
}

impl Planner {
    /// The planner with this class name of nnU-Net.
    ///
    /// # Errors
    /// An unknown class.
    pub fn named(name: &str) -> Result<Self> {
        let all = [Planner::Default, Planner::ResEncM, Planner::ResEncL, Planner::ResEncXL];
        all.into_iter().find(|planner| planner.class() == name).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|planner| planner.class()).collect();
            NnunetError::key("planner", format!("{name} is not supported; {} are", known.join(", ")))
        })
    }

    /// The class name in nnU-Net.
    pub fn class(self) -> &'static str {
        match self {
            Planner::Default => "ExperimentPlanner",
            Planner::ResEncM => "nnUNetPlannerResEncM",
            Planner::ResEncL => "nnUNetPlannerResEncL",
            Planner::ResEncXL => "nnUNetPlannerResEncXL",
        }
    }

    /// The name of its plans.
    pub fn plans_name(self) -> &'static str {
        match self {
            Planner::Default => "nnUNetPlans",
            Planner::ResEncM => "nnUNetResEncUNetMPlans",
            Planner::ResEncL => "nnUNetResEncUNetLPlans",
            Planner::ResEncXL => "nnUNetResEncUNetXLPlans",
        }
    }

    /// The memory estimates that fit, of 3-D and 2-D networks, and the memory in GB.
    fn reference(self) -> ([f64; 2], f64) {
        match self {
            Planner::Default => ([560e6, 85e6], 8.0),
            Planner::ResEncM => ([680e6, 135e6], 8.0),
            Planner::ResEncL => ([2.1e9, 380e6], 24.0),
            Planner::ResEncXL => ([3.6e9, 560e6], 40.0),
        }
    }

    fn is_residual(self) -> bool {
        self != Planner::Default
    }

    /// The largest share of the data set's voxels in a batch.
    fn largest_share(self) -> f64 {
        if self.is_residual() { 1.0 } else { 0.05 }
    }
}

impl Fingerprint {
    /// Parses `dataset_fingerprint.json`.
    ///
    /// # Errors
    /// Keys that are missing or have unusable values.
    pub fn parse(value: &Value) -> Result<Self> {
        let list = |key: &str| value.get(key).cloned().unwrap_or_default();
        let wrong = |key: &str| NnunetError::key(key, "is missing or no list of three numbers for each case");
        let spacings: Vec<Axes3<f64>> = serde_json::from_value(list("spacings")).map_err(|_| wrong("spacings"))?;
        let shapes_after_crop: Vec<Axes3> =
            serde_json::from_value(list("shapes_after_crop")).map_err(|_| wrong("shapes_after_crop"))?;
        if spacings.is_empty() || spacings.len() != shapes_after_crop.len() {
            return Err(NnunetError::key("spacings", "expected one for each of shapes_after_crop, and at least one"));
        }
        let intensities = value.get("foreground_intensity_properties_per_channel").and_then(Value::as_object);
        Ok(Fingerprint {
            spacings,
            shapes_after_crop,
            intensities: intensities.cloned().unwrap_or_default(),
            relative_size_after_cropping: value
                .get("median_relative_size_after_cropping")
                .and_then(Value::as_f64)
                .unwrap_or(1.0),
        })
    }
}

/// Makes the `plans.json` of a data set.
///
/// # Errors
/// Spacings that are not usable for resampling.
pub fn plan(
    name: &str,
    dataset: &DatasetJson,
    reader: &str,
    fingerprint: &Fingerprint,
    options: &PlannerOptions,
) -> Result<Value> {
    let planner = options.planner;
    let axis = |of: &dyn Fn(usize) -> Vec<f64>| -> Axes3<f64> { std::array::from_fn(|axis| median(of(axis))) };
    let spacing = axis(&|axis| fingerprint.spacings.iter().map(|spacing| spacing[axis]).collect());
    let size = axis(&|axis| fingerprint.shapes_after_crop.iter().map(|shape| shape[axis] as f64).collect());
    let target = options.target_spacing.unwrap_or_else(|| target_spacing(fingerprint, spacing, size));
    let order = if options.keep_axes { [0, 1, 2] } else { transpose(target) };
    let mut back = [0; 3];
    order.iter().enumerate().for_each(|(to, from)| back[*from] = to);
    let transposed = |axes: Axes3<f64>| order.map(|axis| axes[axis]);
    let resampled = fingerprint.spacings.iter().zip(&fingerprint.shapes_after_crop);
    let resampled = resampled.map(|(spacing, shape)| target_shape_or_none(*shape, *spacing, target));
    let resampled = resampled.collect::<Result<Vec<Axes3<f64>>>>()?;
    let shape = transposed(axis(&|axis| resampled.iter().map(|shape| shape[axis]).collect()));
    let target = transposed(target);
    let cases = dataset.raw.get("numTraining").and_then(Value::as_f64).unwrap_or(fingerprint.spacings.len() as f64);
    let plans_name = options.plans_name.clone().unwrap_or_else(|| planner.plans_name().to_owned());
    let (references, memory) = planner.reference();
    let share = options.memory_gb.unwrap_or(memory) / memory;
    let labels = dataset.raw.get("labels").and_then(Value::as_object).map_or(0, Map::len);
    // The residual planners share the data of the default planner.
    let identifier = |configuration: &str| {
        let shared = planner.is_residual() && configuration != "3d_lowres" && options.plans_name.is_none();
        format!("{}_{configuration}", if shared { Planner::Default.plans_name() } else { &plans_name })
    };
    let of = |spacing: &[f64], shape: &[f64], name: &str, voxels: f64| {
        configuration(&Given {
            planner,
            spacing,
            shape,
            reference: references[usize::from(spacing.len() == 2)] * share,
            dataset_voxels: voxels,
            heads: labels,
            identifier: identifier(name),
            channels: &dataset.channel_names,
            relative_size: fingerprint.relative_size_after_cropping,
        })
    };
    let voxels = shape.iter().product::<f64>() * cases;
    let mut configurations = Map::new();
    configurations.insert("2d".to_owned(), of(&target[1..], &shape[1..], "2d", voxels).json(true));
    if shape[0] != 1.0 {
        let full = of(&target, &shape, "3d_fullres", voxels);
        let low = low_resolution(&target, &shape, &full.patch, |spacing, shape, median| {
            of(&spacing, &shape, "3d_lowres", median * cases)
        });
        let cascade = low.is_some();
        if let Some(low) = low {
            let mut low = low.json(false);
            low["next_stage"] = json!("3d_cascade_fullres");
            configurations.insert("3d_lowres".to_owned(), low);
        }
        configurations.insert("3d_fullres".to_owned(), full.json(cascade));
        if cascade {
            let inherits = json!({"inherits_from": "3d_fullres", "previous_stage": "3d_lowres"});
            configurations.insert("3d_cascade_fullres".to_owned(), inherits);
        }
    }
    Ok(json!({
        "dataset_name": name,
        "plans_name": plans_name,
        "original_median_spacing_after_transp": transposed(spacing),
        "original_median_shape_after_transp": transposed(size).map(|length| length.round_ties_even() as u64),
        "image_reader_writer": reader,
        "transpose_forward": order,
        "transpose_backward": back,
        "configurations": configurations,
        "experiment_planner_used": planner.class(),
        "label_manager": "LabelManager",
        "foreground_intensity_properties_per_channel": fingerprint.intensities,
    }))
}

fn target_shape_or_none(shape: Axes3, spacing: Axes3<f64>, target: Axes3<f64>) -> Result<Axes3<f64>> {
    if spacing.iter().chain(&target).any(|size| !size.is_finite() || *size <= 0.0) {
        return Err(NnunetError::key("spacings", format!("{spacing:?} to {target:?}: expected sizes above 0")));
    }
    Ok(target_shape(shape, spacing, target)?.map(|length| length as f64))
}

/// numpy's median.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// numpy's percentile of sorted values, linear between neighbours.
fn percentile(sorted: impl Fn(usize) -> f64, count: usize, share: f64) -> f64 {
    let at = share / 100.0 * (count - 1) as f64;
    let low = at.floor() as usize;
    let (a, b, t) = (sorted(low), sorted((low + 1).min(count - 1)), at - low as f64);
    // numpy's formula, which is exact at both ends.
    if t >= 0.5 { b - (b - a) * (1.0 - t) } else { a + (b - a) * t }
}

/// The median spacing, with a finer one for an axis that is much coarser than the others.
fn target_spacing(fingerprint: &Fingerprint, spacing: Axes3<f64>, size: Axes3<f64>) -> Axes3<f64> {
    let worst = largest(spacing);
    let others = |of: Axes3<f64>| (0..3).filter(|axis| *axis != worst).map(move |axis| of[axis]);
    let coarsest = others(spacing).fold(f64::NEG_INFINITY, f64::max);
    let smallest = others(size).fold(f64::INFINITY, f64::min);
    let mut target = spacing;
    if spacing[worst] > 3.0 * coarsest && size[worst] * 3.0 < smallest {
        let mut all: Vec<f64> = fingerprint.spacings.iter().map(|spacing| spacing[worst]).collect();
        all.sort_unstable_by(f64::total_cmp);
        let tenth = percentile(|at| all[at], all.len(), 10.0);
        target[worst] = if tenth < coarsest { tenth.max(coarsest) + 1e-5 } else { tenth };
    }
    target
}

/// The first axis with the largest value.
fn largest(values: Axes3<f64>) -> usize {
    (1..3).fold(0, |best, axis| if values[axis] > values[best] { axis } else { best })
}

fn transpose(target: Axes3<f64>) -> Axes3 {
    let worst = largest(target);
    let mut order = [worst; 3];
    let others = (0..3).filter(|axis| *axis != worst);
    others.enumerate().for_each(|(place, axis)| order[place + 1] = axis);
    order
}

/// Plans the low-resolution configuration for images more than four times larger than the patch, if
/// it is coarse enough.
fn low_resolution(
    full: &Axes3<f64>,
    shape: &Axes3<f64>,
    patch: &[usize],
    plan: impl Fn(Axes3<f64>, Axes3<f64>, f64) -> configuration::Planned,
) -> Option<configuration::Planned> {
    let whole = shape.iter().product::<f64>();
    let (mut spacing, mut median, mut found) = (*full, whole, None);
    let mut patch = patch.iter().product::<usize>() as f64;
    while patch / median < 0.25 {
        let coarsest = spacing.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let finer = spacing.map(|size| coarsest / size > 2.0);
        let any = finer.contains(&true);
        for axis in 0..3 {
            if finer[axis] || !any {
                spacing[axis] *= 1.03;
            }
        }
        let sizes: Axes3<f64> = std::array::from_fn(|axis| full[axis] / spacing[axis] * shape[axis]);
        median = sizes.iter().product();
        let planned = plan(spacing, sizes.map(f64::round_ties_even), median);
        patch = planned.patch.iter().product::<usize>() as f64;
        found = Some(planned);
    }
    found.filter(|_| whole / median >= 2.0)
}
