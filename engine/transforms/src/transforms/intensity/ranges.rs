//! The ranges of random transforms.

use hearth_image::{Image, OneOrMany};
use hearth_registry::Fault;

use crate::Draw;

/// Converts one number n to -n..n; orders a pair.
pub(super) fn symmetric(values: &OneOrMany<f64>) -> (f64, f64) {
    match values.as_slice() {
        [one] => (-one.abs(), one.abs()),
        [a, b, ..] => (a.min(*b), a.max(*b)),
        [] => (0.0, 0.0),
    }
}

/// Checks that the input of [`symmetric`] is one or two finite numbers.
pub(super) fn check_symmetric(parameter: &str, values: &OneOrMany<f64>) -> Result<(), Fault> {
    match values.as_slice() {
        [_] | [_, _] => values.as_slice().iter().try_for_each(|v| check_finite(parameter, *v)),
        _ => Err(Fault::at(parameter, "must be one number or a pair")),
    }
}

/// Checks that a pair is finite, in order, and within `low..=high`.
pub(super) fn check_pair(parameter: &str, [a, b]: [f64; 2], low: f64, high: f64) -> Result<(), Fault> {
    check_finite(parameter, a)?;
    check_finite(parameter, b)?;
    if a > b {
        return Err(Fault::at(parameter, format!("{a} to {b}: the first must not be larger than the second")));
    }
    if a < low || b > high {
        let limit = if high.is_finite() { format!("within {low} to {high}") } else { format!("not below {low}") };
        return Err(Fault::at(parameter, format!("{a} to {b} must be {limit}")));
    }
    Ok(())
}

/// Checks that a number is finite.
pub(in crate::transforms) fn check_finite(parameter: &str, value: f64) -> Result<(), Fault> {
    if value.is_finite() { Ok(()) } else { Err(Fault::at(parameter, format!("{value} is not a finite number"))) }
}

/// Checks that a number is finite and larger than 0.
pub(super) fn check_positive(parameter: &str, value: f64) -> Result<(), Fault> {
    check_finite(parameter, value)?;
    if value > 0.0 { Ok(()) } else { Err(Fault::at(parameter, format!("{value} must be larger than 0"))) }
}

/// Checks that a percentile lies in 0..=100.
pub(super) fn check_percentile(parameter: &str, value: f64) -> Result<(), Fault> {
    if (0.0..=100.0).contains(&value) {
        Ok(())
    } else {
        Err(Fault::at(parameter, format!("{value} is not a percentile (0 to 100)")))
    }
}

/// Draws one number from the range, or one for each channel of the image with the most.
pub(super) fn per_channel(draw: &Draw, (low, high): (f64, f64), channel_wise: bool, images: &[&Image]) -> Vec<f64> {
    let channels = if channel_wise { images.iter().map(|i| i.channels()).max().unwrap_or(1) } else { 1 };
    (0..channels.max(1)).map(|_| draw.between(low, high)).collect()
}

/// Returns the entries for an image with this number of channels: a single one applies to all,
/// otherwise there is one per channel.
pub(super) fn for_channels<T: Clone>(drawn: &[T], channels: usize) -> Vec<T> {
    if drawn.len() == 1 { drawn.to_vec() } else { drawn.iter().take(channels).cloned().collect() }
}
