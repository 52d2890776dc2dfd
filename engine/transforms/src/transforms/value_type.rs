//! Types of values by the names of NumPy and PyTorch.

use burn::tensor::{DType, Tensor};
use hearth_image::Image;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::intensity::map;

/// A type that values are converted to.
///
/// Values are kept as f32 whatever the type; a conversion changes them to values that the type can
/// hold. Integers lose their fraction and wrap around at the ends of their range, as in NumPy; f16
/// and bf16 round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    /// No change.
    #[serde(alias = "float")]
    Float32,
    /// No change.
    #[serde(alias = "double")]
    Float64,
    /// Rounds to 11 significant bits.
    #[serde(alias = "half")]
    Float16,
    /// Rounds to 8 significant bits.
    BFloat16,
    /// Integers from -128 to 127.
    Int8,
    /// Integers from -32768 to 32767.
    #[serde(alias = "short")]
    Int16,
    /// Integers.
    #[serde(alias = "int")]
    Int32,
    /// Integers.
    #[serde(alias = "long")]
    Int64,
    /// Integers from 0 to 255.
    #[serde(alias = "byte")]
    UInt8,
    /// Integers from 0 to 65535.
    UInt16,
    /// Integers from 0.
    UInt32,
    /// 0 for 0, and 1 for every other value.
    Bool,
}

impl ValueType {
    /// Converts an image's values to those that this type can hold.
    pub(crate) fn cast(self, mut image: Image) -> Image {
        match self {
            ValueType::Float32 | ValueType::Float64 => image,
            ValueType::Float16 | ValueType::BFloat16 => {
                let narrow = if self == ValueType::Float16 { DType::F16 } else { DType::BF16 };
                image.data = image.data.cast(narrow).cast(DType::F32);
                image
            }
            ValueType::Bool => map(image, |x| f32::from(x != 0.0), |x| x.not_equal_elem(0.0).float()),
            ValueType::Int8 => map(image, |x| f32::from(x as i64 as i8), |x| wrapped(x, -128.0, 256.0)),
            ValueType::Int16 => map(image, |x| f32::from(x as i64 as i16), |x| wrapped(x, -32768.0, 65536.0)),
            ValueType::UInt8 => map(image, |x| f32::from(x as i64 as u8), |x| wrapped(x, 0.0, 256.0)),
            ValueType::UInt16 => map(image, |x| f32::from(x as i64 as u16), |x| wrapped(x, 0.0, 65536.0)),
            ValueType::Int32 => map(image, |x| (x as i64 as i32) as f32, truncated),
            ValueType::UInt32 => map(image, |x| (x as i64 as u32) as f32, truncated),
            ValueType::Int64 => map(image, |x| (x as i64) as f32, truncated),
        }
    }
}

/// Truncates the fraction.
fn truncated(x: Tensor<4>) -> Tensor<4> {
    x.clone().sign() * x.abs().floor()
}

/// Truncates the fraction, and wraps into `least..least + count`.
fn wrapped(x: Tensor<4>, least: f64, count: f64) -> Tensor<4> {
    let from_least = truncated(x) - least;
    let turns = (from_least.clone() / count).floor();
    from_least - turns * count + least
}

#[cfg(test)]
mod tests {
    use super::ValueType;
    use crate::tiny;

    #[test]
    fn whole_numbers_lose_their_fraction_and_wrap_as_in_numpy() {
        // numpy.array([-1.7, -0.5, 0.4, 2.9, 300.0]).astype("int64").astype(type)
        let cast = |to: ValueType| to.cast(tiny::line([-1.7, -0.5, 0.4, 2.9, 300.0])).to_vec();
        assert_eq!(cast(ValueType::UInt8), [255.0, 0.0, 0.0, 2.0, 44.0]);
        assert_eq!(cast(ValueType::Int8), [-1.0, 0.0, 0.0, 2.0, 44.0]);
        assert_eq!(cast(ValueType::Int16), [-1.0, 0.0, 0.0, 2.0, 300.0]);
        assert_eq!(cast(ValueType::Int64), [-1.0, 0.0, 0.0, 2.0, 300.0]);
        assert_eq!(cast(ValueType::Bool), [1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(cast(ValueType::Float64), [-1.7, -0.5, 0.4, 2.9, 300.0]);
    }

    #[test]
    fn on_a_device_numbers_wrap_in_the_same_way() {
        let image = tiny::line([-1.7, -0.5, 0.4, 2.9, 300.0]);
        let values = super::wrapped(image.data.clone(), 0.0, 256.0).into_data();
        assert_eq!(values.try_to_vec::<f32>().ok(), Some(vec![255.0, 0.0, 0.0, 2.0, 44.0]));
        let values = super::wrapped(image.data, -128.0, 256.0).into_data();
        assert_eq!(values.try_to_vec::<f32>().ok(), Some(vec![-1.0, 0.0, 0.0, 2.0, 44.0]));
    }

    #[test]
    fn half_precision_rounds() {
        let cast = |to: ValueType| to.cast(tiny::line([1.0, 2049.0, 0.1])).to_vec();
        assert_eq!(cast(ValueType::Float16), [1.0, 2048.0, 0.099_975_586]);
        assert_eq!(cast(ValueType::BFloat16), [1.0, 2048.0, 0.100_097_656]);
    }
}
