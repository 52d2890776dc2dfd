//! The value of a parameter that may be missing: [`Optional`].

use hearth_image::OneOrMany;

/// What a setter of an optional parameter accepts: the value with or without `Some`, `None`, and
/// whatever a literal of the same meaning is: `0` for `0.0`, `"name"` for a `String`, `[1, 2, 3]` for
/// one number for each axis.
///
/// ```
/// use hearth_transforms::transforms::ScaleIntensityRange;
/// let _ = ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0).b_max(1.0).b_max(Some(1.0)).b_max(None);
/// ```
pub struct Optional<T>(pub Option<T>);

impl<T> From<Option<T>> for Optional<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

impl<T> From<T> for Optional<T> {
    fn from(value: T) -> Self {
        Self(Some(value))
    }
}

impl From<i32> for Optional<f64> {
    fn from(value: i32) -> Self {
        Self(Some(value.into()))
    }
}

impl From<f32> for Optional<f64> {
    fn from(value: f32) -> Self {
        Self(Some(value.into()))
    }
}

impl From<&str> for Optional<String> {
    fn from(value: &str) -> Self {
        Self(Some(value.to_owned()))
    }
}

impl<T> From<T> for Optional<OneOrMany<T>> {
    fn from(value: T) -> Self {
        Self(Some(OneOrMany::One(value)))
    }
}

impl<T, const N: usize> From<[T; N]> for Optional<OneOrMany<T>> {
    fn from(values: [T; N]) -> Self {
        Self(Some(values.into()))
    }
}

impl<T> From<Vec<T>> for Optional<OneOrMany<T>> {
    fn from(values: Vec<T>) -> Self {
        Self(Some(values.into()))
    }
}

impl From<i32> for Optional<OneOrMany<f64>> {
    fn from(value: i32) -> Self {
        Self(Some(value.into()))
    }
}

impl<const N: usize> From<[i32; N]> for Optional<OneOrMany<f64>> {
    fn from(values: [i32; N]) -> Self {
        Self(Some(values.into()))
    }
}

impl From<&str> for Optional<OneOrMany<String>> {
    fn from(value: &str) -> Self {
        Self(Some(OneOrMany::One(value.to_owned())))
    }
}

impl<const N: usize> From<[&str; N]> for Optional<OneOrMany<String>> {
    fn from(values: [&str; N]) -> Self {
        Self(Some(values.map(str::to_owned).into()))
    }
}
