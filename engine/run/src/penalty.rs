//! The value of a distance if only the prediction or only the label is empty.
//!
//! In this case MONAI returns NaN or infinity, which the mean ignores: a missed organ would improve
//! the mean, and with it a checkpoint. Here the distance is the diagonal of the image instead, both
//! in validation during training and in `evaluate`; the metrics of the library keep MONAI's rule.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Tensor;
use hearth_nn::metrics::{Aggregate, Metric, MetricConfig, MetricError, count, read, without_ignored};

use hearth_registry::Fault;

/// The value of a distance to an empty mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Empty {
    /// The diagonal of the image in mm.
    #[default]
    Penalty,
    /// No value, ignored by means, as in MONAI.
    Skip,
    /// As in BraTS: the diagonal as with [`Empty::Penalty`] and a Dice of 0; if both masks are
    /// empty, a distance of 0 and a Dice of 1.
    Challenge,
}

/// The kind of a metric, as far as empty masks matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measures {
    /// A distance, which has no value for an empty mask.
    Distance,
    /// Dice, which has no value if both masks are empty.
    Dice,
    /// Any other metric, which keeps its own value.
    Other,
}

impl Measures {
    /// The kind of this metric.
    pub fn of(config: &MetricConfig) -> Self {
        match (**config).name() {
            "HausdorffDistanceMetric" | "SurfaceDistanceMetric" => Measures::Distance,
            "DiceMetric" => Measures::Dice,
            _ => Measures::Other,
        }
    }
}

impl Empty {
    /// The value of a metric for one class if one or both masks are empty; `None` if the metric's
    /// own value is kept. `diagonal` is that of the image.
    pub fn value(self, measures: Measures, one: bool, both: bool, diagonal: f64) -> Option<f64> {
        match (self, measures) {
            (Empty::Penalty | Empty::Challenge, Measures::Distance) if one => Some(diagonal),
            (Empty::Challenge, Measures::Distance) if both => Some(0.0),
            // MONAI has no value if only the label is empty.
            (Empty::Challenge, Measures::Dice) if one => Some(0.0),
            (Empty::Challenge, Measures::Dice) if both => Some(1.0),
            _ => None,
        }
    }
}

/// The number of items per class that got the diagonal since the last reset.
#[derive(Clone, Debug, Default)]
pub struct Penalties(Arc<Mutex<Vec<usize>>>);

impl Penalties {
    /// The number for each class, indexed by the counted classes, up to the last class with any.
    pub fn counts(&self) -> Vec<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<usize>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The longest distance in mm within an image of this shape and spacing.
pub fn diagonal(shape: [usize; 3], spacing: [f64; 3]) -> f64 {
    (0..3).map(|axis| (shape[axis] as f64 * spacing[axis]).powi(2)).sum::<f64>().sqrt()
}

/// Builds the metric of a recipe with a rule for empty masks.
///
/// # Errors
/// A metric that cannot be built.
pub(crate) fn measuring(config: &MetricConfig, empty: Empty) -> Result<(Box<dyn Metric>, Penalties), Fault> {
    let (inner, penalties) = (config.build()?, Penalties::default());
    inner.load()?;
    let measures = Measures::of(config);
    if ![(true, false), (false, true)].into_iter().any(|(one, both)| empty.value(measures, one, both, 1.0).is_some()) {
        return Ok((inner, penalties));
    }
    let ignored = config.node().get("ignore_index").and_then(|node| node.to_toml().as_integer());
    Ok((Box::new(Penalised { inner, measures, empty, ignored, penalties: penalties.clone() }), penalties))
}

/// A metric whose values for empty masks follow a rule.
struct Penalised {
    inner: Box<dyn Metric>,
    measures: Measures,
    empty: Empty,
    /// The class, or the channel of voxels without annotation, that is ignored.
    ignored: Option<i64>,
    penalties: Penalties,
}

impl Penalised {
    /// Puts the rule's values into the rows of a batch; returns whether any value was replaced.
    fn penalise(
        &self,
        rows: &mut [Vec<f32>],
        [pred, label]: [&Tensor<5>; 2],
        spacing: &[[f64; 3]],
    ) -> Result<bool, MetricError> {
        let [items, channels, x, y, z] = pred.dims();
        let name = self.inner.name();
        let (pred, label) = without_ignored(name, pred, label, self.ignored)?;
        let (found, drawn) = (read(name, count(pred))?, read(name, count(label))?);
        let mut any = false;
        for (item, row) in rows.iter_mut().enumerate().take(items) {
            // Rows omit the background, or have all channels.
            let first = channels.saturating_sub(row.len());
            let spacing = spacing.get(item).or(spacing.first()).copied().unwrap_or([1.0; 3]);
            for (class, value) in row.iter_mut().enumerate() {
                let channel = class + first;
                let at = item * channels + channel;
                let (one, both) = ((found[at] > 0.0) != (drawn[at] > 0.0), found[at] == 0.0 && drawn[at] == 0.0);
                let by_rule = self.empty.value(self.measures, one, both, diagonal([x, y, z], spacing));
                let Some(counts) = by_rule.filter(|_| self.ignored != Some(channel as i64)) else { continue };
                *value = counts as f32;
                any = true;
                if one && self.measures == Measures::Distance {
                    self.penalties.change(|counts| {
                        counts.resize(counts.len().max(class + 1), 0);
                        counts[class] += 1;
                    });
                }
            }
        }
        Ok(any)
    }
}

impl Metric for Penalised {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn higher_is_better(&self) -> Option<bool> {
        self.inner.higher_is_better()
    }

    fn includes_background(&self) -> bool {
        self.inner.includes_background()
    }

    fn check_for(&self, classes: usize) -> Result<(), MetricError> {
        self.inner.check_for(classes)
    }

    fn update(&mut self, pred: &Tensor<5>, label: &Tensor<5>) -> Result<&[Vec<f32>], MetricError> {
        self.update_spaced(pred, label, &[])
    }

    fn update_spaced(
        &mut self,
        pred: &Tensor<5>,
        label: &Tensor<5>,
        spacing: &[[f64; 3]],
    ) -> Result<&[Vec<f32>], MetricError> {
        let before = self.inner.rows().len();
        let mut new = self.inner.update_spaced(pred, label, spacing)?.to_vec();
        if self.penalise(&mut new, [pred, label], spacing)? {
            let mut all = self.inner.rows()[..before].to_vec();
            all.extend(new);
            self.inner.reset();
            self.inner.merge(all)?;
        }
        Ok(&self.inner.rows()[before..])
    }

    fn merge(&mut self, rows: Vec<Vec<f32>>) -> Result<(), MetricError> {
        self.inner.merge(rows)
    }

    fn counts(&self) -> Vec<u64> {
        self.penalties.counts().into_iter().map(|count| count as u64).collect()
    }

    fn set_counts(&mut self, counts: Vec<u64>) {
        self.penalties.change(|own| *own = counts.into_iter().map(|count| count as usize).collect());
    }

    fn rows(&self) -> &[Vec<f32>] {
        self.inner.rows()
    }

    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        self.inner.values_of(row)
    }

    fn aggregate(&self) -> Result<Aggregate, MetricError> {
        self.inner.aggregate()
    }

    fn reset(&mut self) {
        self.penalties.change(Vec::clear);
        self.inner.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two items of background and two classes, 4 x 4 x 4 voxels of 1 x 2 x 2 mm: the second item
    /// lacks the second class, and no item has the first.
    fn measured(empty: Empty) -> (Vec<Vec<f32>>, f32, Vec<usize>) {
        let config = toml::from_str("name = \"HausdorffDistanceMetric\"\npercentile = 95").expect("a metric");
        let (mut metric, penalties) = measuring(&config, empty).expect("it builds");
        let device = Default::default();
        let mask = |there: bool| {
            let empty = Tensor::<5>::zeros([1, 3, 4, 4, 4], &device);
            if there { empty.slice_fill([0..1, 2..3, 1..3, 1..3, 1..3], 1.0) } else { empty }
        };
        for there in [true, false] {
            let rows = metric.update_spaced(&mask(there), &mask(true), &[[1.0, 2.0, 2.0]]);
            assert_eq!(rows.expect("rows").len(), 1);
        }
        let value = metric.aggregate().expect("a value").scalar();
        (metric.rows().to_vec(), value, penalties.counts())
    }

    #[test]
    fn a_missed_class_counts_the_diagonal() {
        let (rows, value, penalties) = measured(Empty::Penalty);
        // sqrt(4^2 + 8^2 + 8^2) = 12 mm; a class that neither mask has gives no distance.
        assert!(rows.iter().all(|row| row[0].is_nan()));
        assert_eq!((rows[0][1], rows[1][1], value, penalties), (0.0, 12.0, 6.0, vec![0, 1]));
    }

    #[test]
    fn the_challenge_counts_what_neither_has() {
        let (rows, value, penalties) = measured(Empty::Challenge);
        // Zero for the first class of both items, 0 and 12 mm for the second.
        assert_eq!((rows, value, penalties), (vec![vec![0.0, 0.0], vec![0.0, 12.0]], 3.0, vec![0, 1]));
        let of = |one, both| Empty::Challenge.value(Measures::Dice, one, both, 12.0);
        assert_eq!((of(true, false), of(false, true)), (Some(0.0), Some(1.0)));
        assert_eq!(Empty::Penalty.value(Measures::Dice, false, true, 12.0), None);
    }

    #[test]
    fn monais_rule_leaves_it_out() {
        let (rows, value, penalties) = measured(Empty::Skip);
        assert!(!rows[1][1].is_finite());
        assert_eq!((rows[0][1], value, penalties), (0.0, 0.0, vec![]));
    }
}
