//! Round numbers for the ticks of an axis.

/// The smallest round step (1, 2 or 5 times a power of ten) that divides a range into at most
/// `most` parts.
pub fn step(range: f64, most: f64) -> f64 {
    let rough = range / most;
    let decade = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|part| part * decade).into_iter().find(|step| *step >= rough).unwrap_or(rough)
}

/// Formats a number with at most four decimal places; very small or large ones as powers of ten.
pub fn number(value: f64) -> String {
    if (value != 0.0 && value.abs() < 1e-3) || value.abs() >= 1e5 {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        let steps = [(1.0, 6.0), (100.0, 4.0), (7.0, 7.0), (0.03, 3.0), (1e9, 3.0)].map(|(r, most)| step(r, most));
        assert_eq!(steps.map(number), ["0.2", "50", "1", "0.01", "5e8"]);
        // Nothing to divide.
        assert_eq!(step(0.0, 6.0), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.25, 1000.0, 1e5, 5e-4, -2.5].map(number), ["0", "0.25", "1000", "1e5", "5e-4", "-2.5"]);
    }
}
