//! The specification of a layer: a name, or a name and arguments, as in MONAI's factories.

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::ConfigError;

/// The specification of a layer: `"batch"` or `["group", { num_groups = 2 }]`. Names are not
/// case-sensitive; `""` means no layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected the name of a layer, or as in [\"group\", { num_groups = 2 }]")]
pub enum LayerSpec {
    /// A name alone.
    Name(String),
    /// A name and its arguments.
    With(String, Map<String, Value>),
}

impl From<&str> for LayerSpec {
    fn from(name: &str) -> Self {
        LayerSpec::Name(name.to_owned())
    }
}

impl LayerSpec {
    /// A specification with a name and arguments.
    pub fn with(name: &str, arguments: &[(&str, Value)]) -> Self {
        LayerSpec::With(
            name.to_owned(),
            arguments.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        )
    }

    /// The name in lower case.
    pub fn name(&self) -> String {
        match self {
            LayerSpec::Name(name) | LayerSpec::With(name, _) => name.to_lowercase(),
        }
    }

    /// The arguments, checked against those of the layer.
    pub(crate) fn arguments(&self, known: &[&str]) -> Result<Arguments<'_>, ConfigError> {
        let LayerSpec::With(_, map) = self else {
            return Ok(Arguments { layer: self.name(), map: None });
        };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                Err(ConfigError::UnknownArgument { layer: self.name(), argument: key.clone(), known: known.join(", ") })
            }
            None => Ok(Arguments { layer: self.name(), map: Some(map) }),
        }
    }
}

/// The arguments of a layer.
pub(crate) struct Arguments<'a> {
    layer: String,
    map: Option<&'a Map<String, Value>>,
}

impl Arguments<'_> {
    fn get<T>(
        &self,
        name: &str,
        default: T,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, ConfigError> {
        match self.map.and_then(|map| map.get(name)) {
            None => Ok(default),
            Some(value) => read(value).ok_or_else(|| ConfigError::Value {
                name: format!("{}.{name}", self.layer),
                value: value.to_string(),
                expected: format!("expected {expected}"),
            }),
        }
    }

    pub(crate) fn number(&self, name: &str, default: f64) -> Result<f64, ConfigError> {
        self.get(name, default, "a number", Value::as_f64)
    }

    pub(crate) fn count(&self, name: &str, default: usize) -> Result<usize, ConfigError> {
        self.get(name, default, "a whole number", |v| v.as_u64().map(|n| n as usize))
    }

    /// One number per axis; the third axis of a 2-D network takes `depth`. `None` if the argument
    /// is missing.
    pub(crate) fn axes<T>(&self, name: &str, spatial_dims: usize, depth: T) -> Result<Option<[T; 3]>, ConfigError>
    where
        T: DeserializeOwned + Copy + core::fmt::Debug,
    {
        let read = |value: &Value| serde_json::from_value::<Axes<T>>(value.clone()).ok().map(Some);
        let expected = format!("one whole number, or {spatial_dims}");
        let axes = self.get(name, None, &expected, read)?;
        axes.map(|axes| axes.resolve(&format!("{}.{name}", self.layer), spatial_dims, depth)).transpose()
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, ConfigError> {
        self.get(name, default, "true or false", Value::as_bool)
    }

    pub(crate) fn text(&self, name: &str, default: &str) -> Result<String, ConfigError> {
        self.get(name, default.to_owned(), "a text", |v| v.as_str().map(str::to_owned))
    }
}

/// The number for the axes in use, and 1 for the third axis in 2-D.
pub(crate) fn in_space(spatial_dims: usize, number: usize) -> [usize; 3] {
    [number, number, if spatial_dims == 3 { number } else { 1 }]
}

/// A number for all axes, or one number per axis.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Axes<T = usize> {
    /// The same number on every axis.
    All(T),
    /// One number per spatial axis.
    Each(Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Axes<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either<T> {
            All(T),
            Each(Vec<T>),
        }
        match Either::deserialize(from) {
            Ok(Either::All(value)) => Ok(Axes::All(value)),
            Ok(Either::Each(values)) => Ok(Axes::Each(values)),
            Err(_) => {
                let counts = ["usize", "u64", "u32", "i64", "i32"].contains(&std::any::type_name::<T>());
                let whole = if counts { "whole " } else { "" };
                Err(D::Error::custom(format!("expected a {whole}number, or one for each axis")))
            }
        }
    }
}

/// Formats as in a recipe, for error messages.
impl<T: core::fmt::Debug> core::fmt::Debug for Axes<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Axes::All(value) => value.fmt(f),
            Axes::Each(values) => values.fmt(f),
        }
    }
}

impl<T: Copy + core::fmt::Debug> Axes<T> {
    /// Returns one number per axis in 3-D; the third axis of a 2-D network takes `depth`. `name` is
    /// that of the parameter, for the error.
    ///
    /// # Errors
    /// If there is one number per axis, but not for `spatial_dims` axes.
    ///
    /// # Panics
    /// If `spatial_dims` is above 3.
    pub fn resolve(&self, name: &str, spatial_dims: usize, depth: T) -> Result<[T; 3], ConfigError> {
        let mut axes = [depth; 3];
        match self {
            Axes::All(value) => axes[..spatial_dims].fill(*value),
            Axes::Each(values) if values.len() == spatial_dims => axes[..spatial_dims].copy_from_slice(values),
            Axes::Each(values) => {
                return Err(ConfigError::value(name, values, format!("expected one number, or {spatial_dims}")));
            }
        }
        Ok(axes)
    }
}

impl Axes {
    /// The upper limit of [`positive`](Self::positive). No image axis needs more, and it keeps
    /// products of a few numbers within 64 bits.
    const MOST: usize = 1 << 16;

    /// [`resolve`](Self::resolve) with depth 1, for numbers from 1 to 65536.
    pub(crate) fn positive(&self, name: &str, spatial_dims: usize) -> Result<[usize; 3], ConfigError> {
        match self.resolve(name, spatial_dims, 1)? {
            resolved if resolved.contains(&0) => Err(ConfigError::value(name, self, "expected at least 1")),
            resolved if resolved.iter().any(|number| *number > Self::MOST) => {
                Err(ConfigError::value(name, self, "expected 1 to 65536"))
            }
            resolved => Ok(resolved),
        }
    }
}

impl<T> From<T> for Axes<T> {
    fn from(value: T) -> Self {
        Axes::All(value)
    }
}
