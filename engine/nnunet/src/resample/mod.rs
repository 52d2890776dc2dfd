//! Resampling with the functions that plans name.
//!
//! All functions sample the centres of voxels: output `i` of `m` lies at `(i + 0.5) n / m - 0.5` of
//! `n` inputs. They do not smooth, even when an image becomes smaller.

mod axis;
mod labels;
mod logits;
mod spline;
mod torch;

use half::f16;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::error::{NnunetError, Result};
use crate::volume::{Axes3, Volume};
pub use logits::Heads;
pub(crate) use torch::linear;

/// A resampling function of nnU-Net.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResamplingFunction {
    /// `resample_data_or_seg_to_shape`
    Default,
    /// `resample_torch_fornnunet`
    Torch,
    /// `no_resampling_hack`
    Nothing,
}

/// A resampling function and its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resampling {
    /// The function.
    pub function: ResamplingFunction,
    /// The order 0, 1 or 3: nearest, linear, cubic. A separate axis always uses 0.
    pub order: u8,
    /// Whether the coarsest axis is resampled separately; `None`: if it is more than three times as
    /// coarse as the finest.
    pub force_separate_z: Option<bool>,
}

impl Resampling {
    /// nnU-Net's default for images: cubic.
    pub const IMAGES: Self = Resampling { function: ResamplingFunction::Default, order: 3, force_separate_z: None };
    /// nnU-Net's default for label maps: linear, on the indicator of each label.
    pub const LABELS: Self = Resampling { function: ResamplingFunction::Default, order: 1, force_separate_z: None };

    /// Parses the keys of a configuration.
    pub(crate) fn parse(keys: &Map<String, Value>, key: &str, order: u8, is_seg: bool) -> Result<Self> {
        let name = keys.get(key).and_then(Value::as_str).unwrap_or("resample_data_or_seg_to_shape");
        let function = match name {
            "resample_data_or_seg_to_shape" => ResamplingFunction::Default,
            "resample_torch_fornnunet" => ResamplingFunction::Torch,
            "no_resampling_hack" => ResamplingFunction::Nothing,
            _ => {
                let known = "resample_data_or_seg_to_shape, resample_torch_fornnunet and no_resampling_hack are";
                return Err(NnunetError::key(key, format!("{name} is not supported; {known}")));
            }
        };
        let arguments = format!("{key}_kwargs");
        let given = |name: &str| keys.get(&arguments).and_then(|table| table.get(name)).filter(|v| !v.is_null());
        let wrong = |name: &str, value: &Value, expected: &str| {
            Err(NnunetError::key(format!("{arguments}.{name}"), format!("is {value}; expected {expected}")))
        };
        let order = match given("order") {
            None => order,
            Some(value) => match value.as_u64() {
                Some(order @ (0 | 1 | 3)) => order as u8,
                _ => return wrong("order", value, "0, 1 or 3"),
            },
        };
        if let Some(value) = given("order_z").filter(|value| value.as_u64() != Some(0)) {
            return wrong("order_z", value, "0");
        }
        if let Some(value) = given("is_seg").filter(|value| value.as_bool() != Some(is_seg)) {
            return wrong("is_seg", value, &is_seg.to_string());
        }
        if let Some(value) = given("mode").filter(|value| value.as_str() != Some("linear")) {
            return wrong("mode", value, "\"linear\"");
        }
        if let Some(value) = given("aniso_axis_mode").filter(|value| value.as_str() != Some("nearest-exact")) {
            return wrong("aniso_axis_mode", value, "\"nearest-exact\"");
        }
        let force_separate_z = match given("force_separate_z") {
            None => None,
            Some(Value::Bool(force)) => Some(*force),
            Some(value) => return wrong("force_separate_z", value, "true, false or null"),
        };
        Ok(Resampling { function, order, force_separate_z })
    }

    /// Resamples the channels of an image; `separate` is the separately resampled axis, if any.
    pub(crate) fn image(&self, image: Volume, shape: Axes3, separate: Option<usize>) -> Volume {
        if image.shape == shape || self.function == ResamplingFunction::Nothing {
            return image;
        }
        let mut data = Vec::with_capacity(image.channels * shape.iter().product::<usize>());
        for channel in 0..image.channels {
            let values = image.channel(channel);
            match self.function {
                ResamplingFunction::Torch => data.extend(torch::linear(values, image.shape, shape, separate)),
                _ => {
                    let wide: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                    let resampled = axis::resample(wide, image.shape, shape, self.order, separate);
                    data.par_extend(resampled.into_par_iter().map(|value| value as f32));
                }
            }
        }
        Volume { channels: image.channels, shape, data }
    }

    /// Resamples a label map.
    pub(crate) fn labels(&self, labels: &[i32], from: Axes3, to: Axes3, separate: Option<usize>) -> Vec<i32> {
        if from == to || self.function == ResamplingFunction::Nothing {
            return labels.to_vec();
        }
        match self.function {
            ResamplingFunction::Torch => labels::by_thousands(labels, from, to, separate),
            _ => labels::by_indicators(labels, from, to, self.order, separate),
        }
    }

    /// Resamples the outputs of a network, head by head. The values are in half precision if the
    /// function keeps the type of its input.
    pub(crate) fn heads<'a>(&self, logits: &'a Volume<f16>, shape: Axes3, separate: Option<usize>) -> Heads<'a> {
        Heads::new(*self, logits, shape, separate)
    }
}

/// The axis that is resampled separately: the coarsest axis of the old spacing, or else of the new
/// one, if it is more than three times as coarse as the finest. No axis is returned if two axes are
/// coarsest.
pub fn separate_axis(resampling: &Resampling, current: Axes3<f64>, new: Axes3<f64>) -> Option<usize> {
    let coarsest = |spacing: Axes3<f64>| spacing.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let finest = |spacing: Axes3<f64>| spacing.into_iter().fold(f64::INFINITY, f64::min);
    let anisotropic = |spacing: Axes3<f64>| coarsest(spacing) / finest(spacing) > 3.0;
    let spacing = match resampling.force_separate_z {
        Some(false) => return None,
        Some(true) => current,
        None if anisotropic(current) => current,
        None if anisotropic(new) => new,
        None => return None,
    };
    let most = coarsest(spacing);
    let mut axes = (0..3).filter(|axis| spacing[*axis] == most);
    match (axes.next(), axes.next()) {
        (Some(axis), None) => Some(axis),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_apart() {
        let auto = Resampling { function: ResamplingFunction::Default, order: 3, force_separate_z: None };
        let axis = |current, new| separate_axis(&auto, current, new);
        assert_eq!(axis([3.0, 1.0, 1.0], [1.0; 3]), None);
        assert_eq!(axis([3.1, 1.0, 1.0], [1.0; 3]), Some(0));
        assert_eq!(axis([1.0, 1.0, 2.0], [1.0, 4.0, 1.0]), Some(1));
        assert_eq!(axis([4.0, 4.0, 1.0], [1.0; 3]), None);
        let forced = Resampling { force_separate_z: Some(true), ..auto };
        assert_eq!(separate_axis(&forced, [1.0, 1.0, 1.5], [9.0, 1.0, 1.0]), Some(2));
        let never = Resampling { force_separate_z: Some(false), ..auto };
        assert_eq!(separate_axis(&never, [9.0, 1.0, 1.0], [9.0, 1.0, 1.0]), None);
    }
}
