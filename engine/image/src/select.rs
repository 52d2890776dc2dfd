//! [`Select`]: selects voxels by a comparison with a number.

use std::fmt;
use std::str::FromStr;

use burn::tensor::{Bool, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The criterion for foreground voxels: MONAI's `select_fn`, as a comparison with a number.
///
/// A recipe writes `"> 0"`, `">= 0.5"`, `"< -100"`, `"<= 3"`, `"== 2"` or `"!= 0"`; a number alone
/// means above it. The number is rounded to f32 before the comparison, as in PyTorch.
///
/// ```
/// use hearth_image::Select;
/// let bone: Select = ">= 300".parse()?;
/// assert!(bone.matches(300.0) && !bone.matches(299.0));
/// assert_eq!(Select::default(), Select::above(0.0));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "String")]
pub struct Select {
    comparison: Comparison,
    number: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
    Other,
}

const SIGNS: [(&str, Comparison); 6] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("==", Comparison::Equal),
    ("!=", Comparison::Other),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

/// The form in a recipe.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number, or a comparison as in \"> 0\"")]
enum Written {
    Number(f64),
    Text(String),
}

impl Select {
    /// Voxels above a number.
    pub fn above(number: f64) -> Self {
        Select { comparison: Comparison::Above, number }
    }

    /// Whether a value is selected. NaN satisfies only `!=`.
    pub fn matches(self, value: f32) -> bool {
        let number = self.number as f32;
        match self.comparison {
            Comparison::Above => value > number,
            Comparison::AtLeast => value >= number,
            Comparison::Below => value < number,
            Comparison::AtMost => value <= number,
            Comparison::Equal => value == number,
            Comparison::Other => value != number,
        }
    }

    /// Returns the mask of selected values, in the tensor's shape and on its device.
    pub fn mask<const D: usize>(self, values: Tensor<D>) -> Tensor<D, Bool> {
        let number = self.number as f32;
        match self.comparison {
            Comparison::Above => values.greater_elem(number),
            Comparison::AtLeast => values.greater_equal_elem(number),
            Comparison::Below => values.lower_elem(number),
            Comparison::AtMost => values.lower_equal_elem(number),
            Comparison::Equal => values.equal_elem(number),
            Comparison::Other => values.not_equal_elem(number),
        }
    }

    /// Returns the first and last index in a row with a selected value.
    pub(crate) fn ends(self, row: &[f32]) -> Option<(usize, usize)> {
        // One loop per comparison: the operator is chosen once per row, not per voxel.
        fn ends(row: &[f32], counts: impl Fn(&f32) -> bool) -> Option<(usize, usize)> {
            let first = row.iter().position(&counts)?;
            Some((first, row.iter().rposition(&counts).unwrap_or(first)))
        }
        let number = self.number as f32;
        match self.comparison {
            Comparison::Above => ends(row, |v| *v > number),
            Comparison::AtLeast => ends(row, |v| *v >= number),
            Comparison::Below => ends(row, |v| *v < number),
            Comparison::AtMost => ends(row, |v| *v <= number),
            Comparison::Equal => ends(row, |v| *v == number),
            Comparison::Other => ends(row, |v| *v != number),
        }
    }
}

impl Default for Select {
    fn default() -> Self {
        Select::above(0.0)
    }
}

impl From<f64> for Select {
    fn from(number: f64) -> Self {
        Select::above(number)
    }
}

impl FromStr for Select {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let sign = SIGNS.iter().find_map(|(sign, comparison)| Some((*comparison, text.strip_prefix(sign)?)));
        let (comparison, number) = sign.unwrap_or((Comparison::Above, text));
        match number.trim().parse::<f64>() {
            Ok(number) if !number.is_nan() => Ok(Select { comparison, number }),
            _ => {
                Err(format!("`{text}` is not a comparison with a number; write for instance `> 0`, `>= 0.5` or `== 2`"))
            }
        }
    }
}

impl TryFrom<Written> for Select {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(number) if number.is_nan() => Err("the number to compare with is NaN".to_owned()),
            Written::Number(number) => Ok(Select::above(number)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<Select> for String {
    fn from(select: Select) -> Self {
        select.to_string()
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = SIGNS.iter().find(|(_, comparison)| *comparison == self.comparison).map_or(">", |(sign, _)| sign);
        write!(f, "{sign} {}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 6] = ["> 0.5", ">= 0.5", "< 0.5", "<= 0.5", "== 0.5", "!= 0.5"];

    #[test]
    fn comparisons_are_read_and_written_alike() {
        for text in ALL {
            let select: Select = text.parse().expect("a comparison");
            assert_eq!(select.to_string(), text);
            assert_eq!(serde_json::from_str::<Select>(&format!("\"{text}\"")).expect("a comparison"), select);
        }
        assert_eq!(serde_json::from_str::<Select>("3").expect("a number"), Select::above(3.0));
        for wrong in ["> x", "=> 1", "", "> NaN"] {
            assert!(wrong.parse::<Select>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_value_a_row_and_a_tensor_agree() {
        let row = [0.0, 0.5, 1.0, f32::NAN, 0.5, -1.0];
        for text in ALL {
            let select: Select = text.parse().expect("a comparison");
            let each: Vec<bool> = row.iter().map(|v| select.matches(*v)).collect();
            let tensor = Tensor::<1>::from_data(burn::tensor::TensorData::from(row), &crate::host_device());
            let mask: Vec<bool> = select.mask(tensor).into_data().iter::<bool>().collect();
            assert_eq!(mask, each, "{text}");
            let first = each.iter().position(|m| *m);
            assert_eq!(select.ends(&row), first.map(|f| (f, each.iter().rposition(|m| *m).unwrap_or(f))), "{text}");
        }
    }

    /// PyTorch rounds the number to f32: `torch.tensor(0.1) > 0.1` is false.
    #[test]
    fn numbers_are_compared_as_f32() {
        assert!(!Select::above(0.1).matches(0.1));
        assert!(">= 0.1".parse::<Select>().expect("a comparison").matches(0.1));
    }
}
