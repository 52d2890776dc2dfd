//! The rows of a metric.

use super::MetricError;

/// One row of values per item, all of the same length. Starts empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(Vec<Vec<f32>>);

impl Rows {
    /// Appends rows, or none of them if one does not fit. `metric` is the metric's name, for the
    /// error.
    ///
    /// # Errors
    /// [`MetricError::Row`] for a row of another length than the previous ones.
    pub fn extend(&mut self, metric: &'static str, rows: Vec<Vec<f32>>) -> Result<(), MetricError> {
        let expected = self.0.first().or(rows.first()).map_or(0, Vec::len);
        if let Some(row) = rows.iter().find(|row| row.len() != expected) {
            return Err(MetricError::Row { metric, got: row.len(), expected });
        }
        self.0.extend(rows);
        Ok(())
    }

    /// Clears all rows.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl std::ops::Deref for Rows {
    type Target = [Vec<f32>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
