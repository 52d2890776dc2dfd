//! Measures one case: reads both files, compares their grids, and measures class by class.

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::{Tensor, TensorData};
use hearth_data::{Image, read_image};
use hearth_nn::metrics::MetricConfig;
use hearth_recipe::text::some;

use super::pairs::Pair;
use super::regions::Region;
use super::spec::{Kind, Spec};
use crate::error::{Context, Failure, Outcome};
use crate::run::Empty;
use crate::run::penalty::{Measures, diagonal};

/// Settings that are common to all metrics.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How a distance to an empty mask is counted.
    pub empty: Empty,
    /// The label of voxels that are ignored.
    pub ignore: Option<u32>,
}

/// The maximum number of label values in a label map.
const MOST_CLASSES: usize = 256;

/// The values that are classes, and their names.
pub struct Classes {
    /// The named values; `None` makes every value a class.
    named: Option<BTreeMap<u32, String>>,
    /// Regions of several labels, which replace the classes.
    regions: Vec<Region>,
    background: bool,
}

/// A class of one case (its value and name), or the whole image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A label value.
    Value(u32, String),
    /// All classes, or the image.
    All,
}

/// The results: by class, a value per metric; `None` if the metric does not apply to classes, or to
/// this one.
pub type Rows = BTreeMap<Class, Vec<Option<Value>>>;

/// A measured case.
#[derive(Default)]
pub struct Measured {
    /// The values.
    pub rows: Rows,
    /// Where each class has voxels.
    pub sides: BTreeMap<Class, Sides>,
    /// Whether the label has voxels that are ignored.
    pub ignores: bool,
}

/// Whether a class has voxels that count in a prediction, and in its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// In the prediction.
    pub pred: bool,
    /// In the label.
    pub label: bool,
}

/// The value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// NaN if there is nothing to measure.
    pub value: f64,
    /// Whether the diagonal replaces a distance to an empty mask.
    pub penalised: bool,
}

impl Classes {
    /// Parses `background,spleen` or `1=spleen`.
    pub fn read(labels: &[String], background: bool) -> Outcome<Self> {
        if labels.is_empty() {
            return Ok(Self { named: None, regions: Vec::new(), background });
        }
        let mut named = BTreeMap::new();
        for (place, label) in labels.iter().enumerate() {
            let (value, name) = match label.split_once('=') {
                Some((value, name)) => match value.trim().parse::<u32>() {
                    Ok(value) => (value, name),
                    Err(_) => return Err(Failure::new(format!("--labels {label}: {value:?} is not a label value"))),
                },
                None => (place as u32, label.as_str()),
            };
            if named.insert(value, name.trim().to_owned()).is_some() {
                return Err(Failure::new(format!("--labels names the value {value} twice")));
            }
        }
        Ok(Self { named: Some(named), regions: Vec::new(), background })
    }

    /// Regions, which replace the classes.
    pub fn of_regions(regions: Vec<Region>) -> Self {
        Self { named: None, regions, background: true }
    }

    /// Whether a label belongs to a class: it is the class, or one of the labels of a region.
    fn holds(&self, class: u32, label: u32) -> bool {
        self.regions.get(class as usize).map_or(class == label, |(_, labels)| labels.contains(&label))
    }

    /// The class of a channel.
    fn channel(&self, channel: u32) -> Class {
        let region = self.regions.get(channel as usize).map(|(name, _)| name.clone());
        let name = region.or_else(|| self.named.as_ref().and_then(|named| named.get(&channel).cloned()));
        Class::Value(channel, name.unwrap_or_else(|| format!("channel {channel}")))
    }

    /// The classes of a case with these values.
    fn of(&self, present: &BTreeSet<u32>) -> Outcome<Vec<Class>> {
        if !self.regions.is_empty() {
            let known = |value: &u32| *value == 0 || self.regions.iter().any(|(_, labels)| labels.contains(value));
            if let Some(value) = present.iter().find(|value| !known(value)) {
                let all: BTreeSet<u32> = self.regions.iter().flat_map(|(_, labels)| labels).copied().collect();
                let all: Vec<String> = all.iter().map(u32::to_string).collect();
                return Err(Failure::new(format!(
                    "the label value {value} is in no region of --regions, whose labels are {}: was the file numbered \
                     by another convention?",
                    all.join(", ")
                )));
            }
            let class = |(place, (name, _)): (usize, &Region)| Class::Value(place as u32, name.clone());
            return Ok(self.regions.iter().enumerate().map(class).collect());
        }
        let counts = |value: &u32| self.background || *value != 0;
        match &self.named {
            None => Ok(present.iter().filter(|v| counts(v)).map(|v| Class::Value(*v, v.to_string())).collect()),
            Some(named) => {
                if let Some(unknown) = present.iter().find(|value| **value != 0 && !named.contains_key(value)) {
                    let all: Vec<String> = named.iter().map(|(value, name)| format!("{value} {name}")).collect();
                    return Err(Failure::new(format!(
                        "the label value {unknown} is not among the classes of --labels, or of the model: {}",
                        some(&all)
                    )));
                }
                Ok(named.iter().filter(|(v, _)| counts(v)).map(|(v, name)| Class::Value(*v, name.clone())).collect())
            }
        }
    }
}

/// For example `35 x 51 x 35 voxels of 1.000 x 1.000 x 1.000 mm, RAS, from (0.0, 0.0, 0.0)`.
fn grid(image: &Image) -> String {
    let [x, y, z] = image.shape();
    let [a, b, c] = image.spacing();
    let [ox, oy, oz] = [0, 1, 2].map(|row| image.affine[row][3]);
    let code = image.orientation();
    format!("{x} x {y} x {z} voxels of {a:.3} x {b:.3} x {c:.3} mm, {code}, from ({ox:.2}, {oy:.2}, {oz:.2})")
}

/// The prediction on the axes of the label: other programs write the same voxels in other axes.
///
/// # Errors
/// Other voxels, or another number of channels.
fn on_grid_of(label: &Image, pred: &Image) -> Outcome<Image> {
    if pred.channels() != label.channels() {
        let channels = format!("{} and {}", pred.channels(), label.channels());
        return Err(Failure::new(format!("prediction and label have {channels} channels")));
    }
    pred.on_axes_of(label.shape(), &label.affine).ok_or_else(|| {
        Failure::new(format!(
            "prediction and label are on different grids; the prediction has {}, the label {}; resample one onto the other",
            grid(pred),
            grid(label)
        ))
    })
}

/// The label values of an image, or an error if it is not a label map.
fn values(image: &Image, what: &str) -> Outcome<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    let mut last = None;
    for value in image.to_vec() {
        if last == Some(value) {
            continue;
        }
        last = Some(value);
        if !(value >= 0.0 && value.fract() == 0.0 && value < 1e9) {
            let advice = "label maps hold integers from 0; metrics of images are mae, mse, rmse, mape, psnr, ssim";
            return Err(Failure::new(format!("the {what} is not a label map: it holds {value}; {advice}")));
        }
        found.insert(value as u32);
        if found.len() > MOST_CLASSES {
            return Err(Failure::new(format!(
                "the {what} is not a label map: it holds more than {MOST_CLASSES} values"
            )));
        }
    }
    Ok(found)
}

/// A batch of one.
fn batch(values: Vec<f32>, image: &Image, channels: usize) -> Tensor<5> {
    let [x, y, z] = image.shape();
    Tensor::from_data(TensorData::new(values, [1, channels, x, y, z]), &hearth_data::host_device())
}

/// Reads and measures a case.
pub fn case(pair: &Pair, specs: &[Spec], classes: &Classes, rules: Rules) -> Outcome<Measured> {
    let doing = || format!("case {}", pair.case);
    let (pred, label) = (read_image(&pair.pred).while_doing(doing)?, read_image(&pair.label).while_doing(doing)?);
    measured(&pred, &label, specs, classes, rules).while_doing(doing)
}

fn measured(pred: &Image, label: &Image, specs: &[Spec], classes: &Classes, rules: Rules) -> Outcome<Measured> {
    let pred = &on_grid_of(label, pred)?;
    let dims = if label.shape()[2] == 1 { 2 } else { 3 };
    let spacing = [label.spacing()];
    let Measured { mut rows, mut sides, mut ignores } = Measured::default();
    let mut put = |class: &Class, metric: usize, value: f64, penalised: bool| {
        let value = Value { value, penalised };
        rows.entry(class.clone()).or_insert_with(|| vec![None; specs.len()])[metric] = Some(value);
    };
    if specs.iter().any(|spec| spec.kind != Kind::Image) {
        let (channels, per_channel) = (label.channels(), label.channels() > 1);
        if let Some(ignore) = rules.ignore.filter(|_| per_channel) {
            return Err(Failure::new(format!("--ignore {ignore}: the label has {channels} channels; expected one")));
        }
        let present = if per_channel {
            (0..channels as u32).collect()
        } else {
            let mut present = values(pred, "prediction")?;
            present.extend(values(label, "label")?);
            present.retain(|value| Some(*value) != rules.ignore);
            present
        };
        let counted: Vec<Class> = if per_channel {
            // Channels are separate masks; none of them is the background.
            present.iter().map(|channel| classes.channel(*channel)).collect()
        } else {
            classes.of(&present)?
        };
        let (pred_values, label_values) = (pred.to_vec(), label.to_vec());
        let counts: Option<Vec<bool>> =
            rules.ignore.map(|ignore| label_values.iter().map(|value| *value as u32 != ignore).collect());
        ignores = counts.as_ref().is_some_and(|counts| counts.contains(&false));
        if counts.as_ref().is_some_and(|counts| !counts.contains(&true)) {
            let what = "no voxel of the label counts: all are what --ignore names; exclude the case";
            return Err(Failure::new(what));
        }
        let mask = |all: &[f32], value: u32| -> Vec<f32> {
            if per_channel {
                let size = all.len() / channels;
                let own = all.get(value as usize * size..(value as usize + 1) * size).unwrap_or_default();
                return own.iter().map(|v| f32::from(*v != 0.0)).collect();
            }
            let held = all.iter().map(|v| f32::from(classes.holds(value, *v as u32)));
            match &counts {
                Some(counts) => held.zip(counts).map(|(held, counts)| if *counts { held } else { 0.0 }).collect(),
                None => held.collect(),
            }
        };
        // Metrics that count voxels get only the counted ones, as a line; metrics of distances get the
        // others as empty.
        let in_a_row = |values: &[f32], channels: usize| {
            let counts = counts.as_ref()?;
            let kept = |(value, counts): (&f32, &bool)| counts.then_some(*value);
            let kept: Vec<f32> = values.iter().zip(counts.iter().cycle()).filter_map(kept).collect();
            let length = kept.len() / channels;
            Some(Tensor::from_data(TensorData::new(kept, [1, channels, length, 1, 1]), &hearth_data::host_device()))
        };
        for (place, class) in counted.iter().enumerate() {
            let Class::Value(value, _) = class else { continue };
            let (p, l) = (mask(&pred_values, *value), mask(&label_values, *value));
            let (in_pred, in_label) = (p.contains(&1.0), l.contains(&1.0));
            sides.insert(class.clone(), Sides { pred: in_pred, label: in_label });
            let of_counted = in_a_row(&p, 1).zip(in_a_row(&l, 1));
            let whole = (batch(p, pred, 1), batch(l, label, 1));
            for (at, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.kind == Kind::Class) {
                let config = spec.config(dims, place + 1)?;
                let apart = diagonal(label.shape(), label.spacing());
                let by_rule =
                    rules.empty.value(Measures::of(&config), in_pred != in_label, !in_pred && !in_label, apart);
                let value = match by_rule {
                    Some(value) => value,
                    None => {
                        let (p, l) = of_counted.as_ref().filter(|_| spec.counts_voxels()).unwrap_or(&whole);
                        one(&config, p, l, &spacing)?
                    }
                };
                put(class, at, value, by_rule.is_some() && in_pred != in_label);
            }
        }
        for (at, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.kind == Kind::Classes) {
            let all = |values: &[f32], image: &Image| {
                let each = counted.iter().filter_map(|class| match class {
                    Class::Value(value, _) => Some(mask(values, *value)),
                    Class::All => None,
                });
                let each: Vec<f32> = each.flatten().collect();
                in_a_row(&each, counted.len()).unwrap_or_else(|| batch(each, image, counted.len()))
            };
            let value = match counted.is_empty() {
                true => 1.0,
                false => {
                    let (p, l) = (all(&pred_values, pred), all(&label_values, label));
                    one(&spec.config(dims, 1)?, &p, &l, &spacing)?
                }
            };
            put(&Class::All, at, value, false);
        }
    }
    for (at, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.kind == Kind::Image) {
        let (p, l) = (batch(pred.to_vec(), pred, pred.channels()), batch(label.to_vec(), label, label.channels()));
        put(&Class::All, at, one(&spec.config(dims, 1)?, &p, &l, &spacing)?, false);
    }
    Ok(Measured { rows, sides, ignores })
}

/// The value of a metric for one class of one case.
fn one(config: &MetricConfig, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Outcome<f64> {
    // The rows of these two metrics hold counts, from which rates are computed.
    let from_counts = match config.name() {
        "ConfusionMatrixMetric" => Some(config.with("reduction", "mean_batch")?.with("compute_sample", false)?),
        "FBetaScore" => Some(config.clone()),
        _ => None,
    };
    let mut metric = from_counts.as_ref().unwrap_or(config).build()?;
    let rows = metric.update_spaced(pred, label, spacing)?;
    if from_counts.is_none() {
        return Ok(rows.first().and_then(|row| row.first()).copied().map_or(f64::NAN, f64::from));
    }
    Ok(metric.aggregate()?.value.values.first().copied().map_or(f64::NAN, f64::from))
}
