//! A running average (`monai.metrics.CumulativeAverage`).

use super::MetricError;

/// The average of values with counts, entry by entry. Non-finite values are skipped.
///
/// ```
/// # use hearth_nn::metrics::CumulativeAverage;
/// let mut loss = CumulativeAverage::default();
/// loss.append(&[1.0], 3.0)?;
/// loss.append(&[2.0], 1.0)?;
/// assert_eq!(loss.aggregate(), [1.25]);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CumulativeAverage {
    sums: Vec<f64>,
    counts: Vec<f64>,
    last: Vec<f64>,
}

impl CumulativeAverage {
    /// Adds values that all have the count `count`.
    ///
    /// # Errors
    /// Fails if the number of values differs from before.
    pub fn append(&mut self, values: &[f64], count: f64) -> Result<(), MetricError> {
        self.append_each(values, &vec![count; values.len()])
    }

    /// Adds values, each with its own count.
    ///
    /// # Errors
    /// Fails if the number of values differs from before, or from the number of counts.
    pub fn append_each(&mut self, values: &[f64], counts: &[f64]) -> Result<(), MetricError> {
        let expected = if self.sums.is_empty() { counts.len() } else { self.sums.len() };
        if let Some(got) = [values.len(), counts.len()].into_iter().find(|got| *got != expected) {
            return Err(MetricError::Row { metric: "CumulativeAverage", got, expected });
        }
        self.sums.resize(expected, 0.0);
        self.counts.resize(expected, 0.0);
        self.last = values.to_vec();
        for (i, (value, count)) in values.iter().zip(counts).enumerate() {
            let part = value * count;
            if part.is_finite() {
                self.sums[i] += part;
                self.counts[i] += count;
            }
        }
        Ok(())
    }

    /// Adds the sums of another rank.
    ///
    /// # Errors
    /// Fails if the other has averages of another number of values.
    pub fn merge(&mut self, other: &CumulativeAverage) -> Result<(), MetricError> {
        if self.sums.is_empty() {
            *self = CumulativeAverage { last: std::mem::take(&mut self.last), ..other.clone() };
            return Ok(());
        }
        if other.sums.is_empty() {
            return Ok(());
        }
        let (got, expected) = (other.sums.len(), self.sums.len());
        if got != expected {
            return Err(MetricError::Row { metric: "CumulativeAverage", got, expected });
        }
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, part)| *sum += part);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, part)| *count += part);
        Ok(())
    }

    /// The values added last; non-finite values are 0.
    pub fn current(&self) -> Vec<f64> {
        self.last.iter().map(|value| if value.is_finite() { *value } else { 0.0 }).collect()
    }

    /// The averages so far, 0 for an entry without counted values. Empty before the first value.
    pub fn aggregate(&self) -> Vec<f64> {
        let average = |(sum, count): (&f64, &f64)| if *count > 0.0 { sum / count } else { *sum };
        self.sums.iter().zip(&self.counts).map(average).collect()
    }

    /// Clears everything.
    pub fn reset(&mut self) {
        *self = CumulativeAverage::default();
    }
}
