//! The weights with which steps are chosen.

use hearth_registry::Fault;

use crate::Draw;

/// Checks that there is one weight for each of `steps` steps, that none is negative, and that one is
/// above 0.
pub(super) fn check(weights: &[f64], steps: usize) -> Result<(), Fault> {
    if weights.len() != steps {
        return Err(Fault::at("weights", format!("has {} entries for {steps} transforms", weights.len())));
    }
    if let Some(weight) = weights.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
        return Err(Fault::at("weights", format!("{weight} is not a weight: expected finite numbers of at least 0")));
    }
    let sum: f64 = weights.iter().sum();
    match sum > 0.0 && sum.is_finite() {
        true => Ok(()),
        false => Err(Fault::at("weights", format!("have the sum {sum}; expected at least one above 0"))),
    }
}

/// Draws an index with a probability proportional to its weight.
pub(super) fn draw_index(weights: &[f64], draw: &Draw) -> usize {
    let mut left = draw.uniform() * weights.iter().sum::<f64>();
    for (index, weight) in weights.iter().enumerate() {
        if left < *weight {
            return index;
        }
        left -= weight;
    }
    // Reached by rounding only.
    weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0)
}
