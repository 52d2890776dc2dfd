//! The meaning of a network's outputs.

use serde_json::Value;

use crate::error::{NnunetError, Result};

/// How the network's outputs become a label map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writes {
    /// The index of the largest output.
    Winner,
    /// Where output `i` is foreground, it writes the `i`-th of these labels; later outputs overwrite.
    Regions(Vec<u16>),
}

/// The labels of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelManager {
    /// The name and the labels of each output, in order; a region has several labels.
    pub heads: Vec<(String, Vec<u16>)>,
    /// How outputs become labels.
    pub writes: Writes,
    /// All labels except background and ignore, in ascending order.
    pub foreground: Vec<u16>,
    /// The label of voxels without annotation.
    pub ignore: Option<u16>,
}

impl LabelManager {
    /// The number of outputs.
    pub fn heads(&self) -> usize {
        self.heads.len()
    }

    /// Whether outputs are regions, which may overlap.
    pub fn has_regions(&self) -> bool {
        matches!(self.writes, Writes::Regions(_))
    }

    /// Whether label maps need 16 bits: nnU-Net writes 8 if the largest label is below 255.
    pub fn needs_u16(&self) -> bool {
        self.foreground.last().is_some_and(|largest| *largest >= 255)
    }

    pub(crate) fn parse(dataset: &Value) -> Result<Self> {
        let Some(labels) = dataset.get("labels").and_then(Value::as_object) else {
            return Err(NnunetError::key("labels", "is missing; expected names and numbers"));
        };
        let mut entries: Vec<(String, Vec<u16>)> = Vec::new();
        for (name, value) in labels {
            let numbers: Option<Vec<u16>> = match value {
                Value::Array(_) => serde_json::from_value(value.clone()).ok(),
                one => serde_json::from_value(one.clone()).ok().map(|one| vec![one]),
            };
            match numbers.filter(|numbers| !numbers.is_empty()) {
                Some(numbers) => entries.push((name.clone(), numbers)),
                None => {
                    // Data sets of earlier versions have the number first.
                    let hint = if name.parse::<u16>().is_ok() && value.is_string() {
                        ": names come before numbers in nnU-Net v2"
                    } else {
                        ""
                    };
                    let what = format!("is {value}; expected a number from 0 to 65535, or a list of them{hint}");
                    return Err(NnunetError::key(format!("labels.{name}"), what));
                }
            }
        }
        if !entries.iter().any(|(name, numbers)| name == "background" && numbers == &[0]) {
            return Err(NnunetError::key("labels.background", "is missing; expected 0"));
        }
        let ignore = entries.iter().find(|(name, _)| name == "ignore").map(|(_, numbers)| numbers[0]);
        let mut all: Vec<u16> = entries.iter().flat_map(|(_, numbers)| numbers).copied().collect();
        all.sort_unstable();
        all.dedup();
        if ignore.is_some_and(|ignore| all.last() != Some(&ignore)) {
            return Err(NnunetError::key("labels.ignore", "must be the highest label"));
        }
        if let Some(gap) = all.iter().enumerate().find(|(index, label)| *index != usize::from(**label)) {
            return Err(NnunetError::key("labels", format!("there is no label {}; expected 0, 1, 2, ...", gap.0)));
        }
        let foreground: Vec<u16> = all.iter().copied().filter(|label| *label != 0 && Some(*label) != ignore).collect();
        let regions = entries.iter().any(|(name, numbers)| name != "ignore" && numbers.len() > 1);
        if !regions {
            let name =
                |label: u16| entries.iter().find(|(_, numbers)| numbers[0] == label).map(|(name, _)| name.clone());
            let heads = std::iter::once(0).chain(foreground.iter().copied());
            let heads = heads.map(|label| (name(label).unwrap_or_default(), vec![label])).collect();
            return Ok(LabelManager { heads, writes: Writes::Winner, foreground, ignore });
        }
        // Outputs are in the order of the file.
        let heads: Vec<_> = entries.into_iter().filter(|(name, numbers)| name != "ignore" && numbers != &[0]).collect();
        let order = dataset.get("regions_class_order").cloned().unwrap_or_default();
        let order: Option<Vec<u16>> = serde_json::from_value(order).ok();
        match order {
            Some(order) if order.len() == heads.len() => {
                Ok(LabelManager { heads, writes: Writes::Regions(order), foreground, ignore })
            }
            _ => {
                let what = format!("expected the label that each of the {} regions writes", heads.len());
                Err(NnunetError::key("regions_class_order", what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{LabelManager, Writes};

    fn read(labels: Value, order: Value) -> Result<LabelManager, String> {
        let dataset = json!({"labels": labels, "regions_class_order": order});
        LabelManager::parse(&dataset).map_err(|error| error.to_string())
    }

    #[test]
    fn plain_labels_win_by_index() {
        let labels = read(json!({"b": 2, "background": 0, "ignore": 3, "a": 1}), Value::Null).expect("labels");
        assert_eq!(labels.heads.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["background", "a", "b"]);
        assert_eq!((labels.writes, labels.foreground, labels.ignore), (Writes::Winner, vec![1, 2], Some(3)));
    }

    #[test]
    fn regions_keep_the_order_of_the_file() {
        let given = json!({"background": 0, "whole": [1, 2, 3], "core": [2, 3], "enhancing": 3, "ignore": 4});
        let labels = read(given.clone(), json!([1, 2, 3])).expect("labels");
        assert_eq!(labels.heads(), 3);
        assert_eq!((&labels.writes, labels.has_regions()), (&Writes::Regions(vec![1, 2, 3]), true));
        assert!(read(given, json!([1, 2])).is_err_and(|error| error.contains("3 regions")));
    }

    #[test]
    fn labels_that_cannot_be_are_named() {
        for (labels, said) in [
            (json!({"a": 1}), "background"),
            (json!({"background": 0, "a": 2}), "there is no label 1"),
            (json!({"background": 0, "a": "1"}), "labels.a"),
            (json!({"background": 0, "1": "a"}), "names come before numbers"),
            (json!({"background": 0, "ignore": 1, "a": 2}), "labels.ignore"),
        ] {
            let error = read(labels.clone(), Value::Null).expect_err("no labels");
            assert!(error.contains(said), "{labels}: {error}");
        }
    }
}
