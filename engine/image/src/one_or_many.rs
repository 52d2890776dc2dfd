//! [`OneOrMany`]: one value for all axes or keys, or one for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One value, or a list. Both convert with `into()`: `1.5`, `[1.5, 1.5, 2.0]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected one value, or a list of them")]
pub enum OneOrMany<T> {
    /// One value for all axes or keys.
    One(T),
    /// A list with a value for each.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The values as a slice.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(value) => std::slice::from_ref(value),
            OneOrMany::Many(values) => values,
        }
    }
}

impl<T: Copy> OneOrMany<T> {
    /// Returns the value at an index: the single value, or that of the list (its last one beyond
    /// the end).
    pub fn at(&self, place: usize) -> Option<T> {
        match self {
            OneOrMany::One(value) => Some(*value),
            OneOrMany::Many(values) => values.get(place).or(values.last()).copied(),
        }
    }
}

impl<T: Default> Default for OneOrMany<T> {
    fn default() -> Self {
        OneOrMany::One(T::default())
    }
}

impl<T> From<T> for OneOrMany<T> {
    fn from(value: T) -> Self {
        OneOrMany::One(value)
    }
}

impl<T, const N: usize> From<[T; N]> for OneOrMany<T> {
    fn from(values: [T; N]) -> Self {
        OneOrMany::Many(values.into())
    }
}

/// A whole number where one with a fraction is expected: `0` for `0.0`.
impl From<i32> for OneOrMany<f64> {
    fn from(value: i32) -> Self {
        OneOrMany::One(value.into())
    }
}

impl<const N: usize> From<[i32; N]> for OneOrMany<f64> {
    fn from(values: [i32; N]) -> Self {
        OneOrMany::Many(values.map(f64::from).into())
    }
}

impl<T> From<Vec<T>> for OneOrMany<T> {
    fn from(values: Vec<T>) -> Self {
        OneOrMany::Many(values)
    }
}
