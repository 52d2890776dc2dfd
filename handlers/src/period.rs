//! The time between two samples.

use std::time::Duration;

use hearth_registry::Fault;

/// The option `every_seconds` as a duration.
///
/// # Errors
/// If it is less than 10 ms, more than a day, or NaN.
pub(crate) fn of(every_seconds: f64) -> Result<Duration, Fault> {
    if (0.01..=86_400.0).contains(&every_seconds) {
        return Ok(Duration::from_secs_f64(every_seconds));
    }
    let what = format!("`every_seconds` is {every_seconds}; give 0.01 to 86400");
    Err(Fault::at("every_seconds", what))
}
