//! Parameters with several forms in MONAI: one value or one per key, one value or one per axis.

use std::collections::BTreeSet;

use hearth_image::OneOrMany;
use hearth_registry::{Fault, nearest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The names of the values that a transform processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "OneOrMany<String>", into = "Vec<String>")]
pub struct Keys(Vec<String>);

impl Keys {
    /// Returns the names in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that every key is known.
    ///
    /// # Errors
    /// If a key is not known, or there are no keys.
    pub fn check(&self, known: &BTreeSet<String>) -> Result<(), Fault> {
        if self.0.is_empty() {
            return Err(Fault::at("keys", "names no value"));
        }
        self.0.iter().try_for_each(|key| check_key("keys", key, known))
    }

    /// Checks that a list parameter has one entry per key.
    ///
    /// # Errors
    /// If the length is different.
    pub fn check_list<T>(&self, parameter: &str, values: &OneOrMany<T>) -> Result<(), Fault> {
        match values {
            OneOrMany::Many(values) if values.len() != self.len() => Err(Fault::at(
                parameter,
                format!("has {} entries for {} keys; give one, or one per key", values.len(), self.len()),
            )),
            _ => Ok(()),
        }
    }
}

/// Checks that a key named by any parameter is known.
///
/// # Errors
/// If it is not known; the message suggests a similar key.
pub fn check_key(parameter: &str, key: &str, known: &BTreeSet<String>) -> Result<(), Fault> {
    if known.contains(key) {
        return Ok(());
    }
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let message = format!("no value {key:?} exists at this step (there are {names:?})");
    Err(Fault::at(parameter, message).meaning(nearest(key, names)))
}

/// Checks that a probability lies in 0..=1.
///
/// # Errors
/// If it does not.
pub fn check_probability(prob: f64) -> Result<(), Fault> {
    if (0.0..=1.0).contains(&prob) {
        Ok(())
    } else {
        Err(Fault::at("prob", format!("{prob} is not a probability (0 to 1)")))
    }
}

impl From<OneOrMany<String>> for Keys {
    fn from(keys: OneOrMany<String>) -> Self {
        Keys(match keys {
            OneOrMany::One(key) => vec![key],
            OneOrMany::Many(keys) => keys,
        })
    }
}

impl From<Keys> for Vec<String> {
    fn from(keys: Keys) -> Self {
        keys.0
    }
}

impl From<&str> for Keys {
    fn from(key: &str) -> Self {
        Keys(vec![key.to_owned()])
    }
}

impl<const N: usize> From<[&str; N]> for Keys {
    fn from(keys: [&str; N]) -> Self {
        Keys(keys.iter().map(|k| (*k).to_owned()).collect())
    }
}

impl From<String> for Keys {
    fn from(key: String) -> Self {
        Keys(vec![key])
    }
}

impl From<&String> for Keys {
    fn from(key: &String) -> Self {
        Keys(vec![key.clone()])
    }
}

impl From<Vec<String>> for Keys {
    fn from(keys: Vec<String>) -> Self {
        Keys(keys)
    }
}

impl From<&[String]> for Keys {
    fn from(keys: &[String]) -> Self {
        Keys(keys.to_vec())
    }
}

impl<const N: usize> From<[String; N]> for Keys {
    fn from(keys: [String; N]) -> Self {
        Keys(keys.into())
    }
}

impl From<Vec<&str>> for Keys {
    fn from(keys: Vec<&str>) -> Self {
        Keys(keys.into_iter().map(str::to_owned).collect())
    }
}

impl From<&[&str]> for Keys {
    fn from(keys: &[&str]) -> Self {
        Keys(keys.iter().map(|k| (*k).to_owned()).collect())
    }
}

/// Resolves a size per axis as in MONAI: one number for all axes; an entry that is not positive
/// means the image's own size.
pub(crate) fn resolve_size(
    size: &OneOrMany<i64>,
    shape: [usize; 3],
    n: usize,
) -> Result<[usize; 3], hearth_image::TransformError> {
    let values = size.as_slice();
    if matches!(size, OneOrMany::Many(_)) && values.len() < n {
        return Err(hearth_image::TransformError::new(format!("a size of {} axes for an image of {n}", values.len())));
    }
    let mut out = shape;
    for (axis, length) in out.iter_mut().enumerate().take(n) {
        if let Some(value) = size.at(axis).filter(|v| *v > 0) {
            *length = value as usize;
        }
    }
    Ok(out)
}

impl Keys {
    /// Returns index and name of each key; with `allow_missing`, keys that the sample lacks are
    /// skipped.
    pub(crate) fn of<'a>(&'a self, sample: &crate::Sample, allow_missing: bool) -> Vec<(usize, &'a str)> {
        self.iter().enumerate().filter(|(_, key)| !allow_missing || sample.values.contains_key(*key)).collect()
    }
}

/// Resolves a parameter for each of `n` axes: one value for all, or exactly one per axis. Axes
/// beyond `n` get `rest`.
pub(crate) fn per_axis<T: Copy>(
    name: &str,
    values: &OneOrMany<T>,
    n: usize,
    rest: T,
) -> Result<[T; 3], hearth_image::TransformError> {
    match values {
        OneOrMany::Many(list) if list.len() != n => {
            Err(hearth_image::TransformError::new(format!("`{name}` has {} entries", list.len()))
                .expected(format!("one, or one for each of {n} axes")))
        }
        _ => Ok(std::array::from_fn(|a| if a < n { values.at(a).unwrap_or(rest) } else { rest })),
    }
}
