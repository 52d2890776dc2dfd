//! The confusion matrix over classes: [`ClassConfusion`] (`sklearn.metrics.confusion_matrix`).

use burn::tensor::Tensor;

use super::inputs::read;
use super::per_item::{PerItem, keeps_rows};
use super::{Aggregate, MetricError, Reduced, Rows};

/// The number of voxels of each true class by predicted class. For classification, where the
/// spatial axes have length 1, the number of images.
///
/// Prediction and label are `[b, classes, x, y, z]`, whose largest channel is the class (one-hot,
/// scores), or class indices in one channel. A label outside the classes is ignored. Rows hold
/// whole numbers of any size; [`ClassConfusion::counts`] adds them up. Over all items, the metric
/// is the share of correct voxels.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{ClassConfusion, Metric};
/// let map = |values: [f32; 4]| Tensor::<1>::from_floats(values, &Device::default()).reshape([1, 1, 4, 1, 1]);
/// let mut confusion = ClassConfusion::new(2);
/// confusion.update(&map([0.0, 1.0, 1.0, 1.0]), &map([0.0, 0.0, 1.0, 1.0]))?;
/// assert_eq!(confusion.counts(), [[1, 1], [0, 2]]);
/// assert_eq!(confusion.aggregate()?.scalar(), 0.75);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassConfusion {
    classes: usize,
    /// The rows collected so far.
    pub rows: Rows,
}

/// The base in which a count is split into two f32 values: quotient and remainder are exact.
const HIGH: u64 = 1 << 20;

impl ClassConfusion {
    const NAME: &'static str = "ClassConfusion";

    /// Creates the metric for this number of classes.
    pub fn new(classes: usize) -> Self {
        Self { classes, rows: Rows::default() }
    }

    /// `counts[truth][prediction]` over all rows so far.
    pub fn counts(&self) -> Vec<Vec<u64>> {
        Self::of_rows(self.classes, self.rows.iter().map(Vec::as_slice))
    }

    /// `counts[truth][prediction]` of rows that are stored elsewhere.
    pub fn of_rows<'a>(classes: usize, rows: impl IntoIterator<Item = &'a [f32]>) -> Vec<Vec<u64>> {
        let mut counts = vec![vec![0; classes]; classes];
        for row in rows {
            let cells = row.chunks_exact(2).map(|parts| parts[0] as u64 * HIGH + parts[1] as u64);
            counts.iter_mut().flatten().zip(cells).for_each(|(sum, count)| *sum += count);
        }
        counts
    }

    /// The class of each voxel, item by item.
    fn indices(map: &Tensor<5>) -> Result<Vec<f32>, MetricError> {
        match map.dims()[1] {
            1 => read(Self::NAME, map.clone()),
            _ => read(Self::NAME, map.clone().argmax(1).float()),
        }
    }

    /// The class of each voxel of a label; -1 for voxels without a class.
    fn true_indices(label: &Tensor<5>) -> Result<Vec<f32>, MetricError> {
        let mut indices = Self::indices(label)?;
        if label.dims()[1] > 1 {
            let sums = read(Self::NAME, label.clone().sum_dim(1))?;
            indices.iter_mut().zip(sums).filter(|(_, sum)| *sum == 0.0).for_each(|(index, _)| *index = -1.0);
        }
        Ok(indices)
    }
}

impl PerItem for ClassConfusion {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let (shape, got, classes) = (pred.dims(), label.dims(), self.classes);
        let channels = |dims: [usize; 5]| dims[1] == 1 || dims[1] == classes;
        if shape[0] != got[0] || shape[2..] != got[2..] || !channels(shape) || !channels(got) {
            let expected = format!("equal batch and spatial axes, and one channel or {classes}");
            return Err(MetricError::Shape { metric: Self::NAME, pred: shape, label: got, expected });
        }
        let voxels = shape[2..].iter().product::<usize>().max(1);
        let (pred, label) = (Self::indices(pred)?, Self::true_indices(label)?);
        let class = |value: f32| (value >= 0.0).then_some(value.round() as usize).filter(|class| *class < classes);
        let item = |(pred, label): (&[f32], &[f32])| {
            let mut counts = vec![0_u64; classes * classes];
            for (pred, label) in pred.iter().zip(label) {
                if let (Some(pred), Some(label)) = (class(*pred), class(*label)) {
                    counts[label * classes + pred] += 1;
                }
            }
            counts.into_iter().flat_map(|count| [(count / HIGH) as f32, (count % HIGH) as f32]).collect()
        };
        Ok(pred.chunks(voxels).zip(label.chunks(voxels)).map(item).collect())
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        let counts = Self::of_rows(self.classes, rows.iter().map(Vec::as_slice));
        let all: u64 = counts.iter().flatten().sum();
        let right: u64 = counts.iter().enumerate().map(|(class, row)| row[class]).sum();
        let number = |value: f64| Reduced { shape: Vec::new(), values: vec![value as f32] };
        let value = number(right as f64 / all as f64);
        Aggregate { value, not_nans: number(all as f64), labels: Vec::new() }
    }
}

keeps_rows!(ClassConfusion);

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::metrics::Metric;

    fn map(values: &[f32], channels: usize) -> Tensor<5> {
        let shape = [1, channels, values.len() / channels, 1, 1];
        Tensor::<1>::from_floats(values, &Device::flex()).reshape(shape)
    }

    /// `sklearn.metrics.confusion_matrix([0, 0, 1, 2, 2, 2], [0, 2, 1, 2, 2, 0])`, scikit-learn 1.7:
    /// `[[1, 0, 1], [0, 1, 0], [1, 0, 2]]`.
    #[test]
    fn counts_are_those_of_scikit_learn() {
        let (truth, pred) = ([0.0, 0.0, 1.0, 2.0, 2.0, 2.0], [0.0, 2.0, 1.0, 2.0, 2.0, 0.0]);
        let wanted = [vec![1, 0, 1], vec![0, 1, 0], vec![1, 0, 2]];
        let mut confusion = ClassConfusion::new(3);
        confusion.update(&map(&pred, 1), &map(&truth, 1)).expect("sound");
        assert_eq!(confusion.counts(), wanted);
        // The same maps as channels, with the same result.
        let channels = |map: &[f32]| -> Vec<f32> {
            (0..3).flat_map(|class| map.iter().map(move |value| f32::from(*value == class as f32))).collect()
        };
        confusion.update(&map(&channels(&pred), 3), &map(&channels(&truth), 3)).expect("sound");
        assert_eq!(confusion.counts(), wanted.map(|row| row.iter().map(|count| 2 * count).collect::<Vec<u64>>()));
        assert!((confusion.aggregate().expect("rows").scalar() - 4.0 / 6.0).abs() < 1e-6);
        // A voxel that is in no channel has no class.
        let mut known = channels(&truth);
        known[0] = 0.0;
        let mut confusion = ClassConfusion::new(3);
        confusion.update(&map(&channels(&pred), 3), &map(&known, 3)).expect("sound");
        assert_eq!(confusion.counts(), [vec![0, 0, 1], vec![0, 1, 0], vec![1, 0, 2]]);
    }

    #[test]
    fn large_counts_are_exact_and_other_labels_do_not_count() {
        let count = 78_643_201_u64;
        let row = [(count / HIGH) as f32, (count % HIGH) as f32];
        assert_eq!(ClassConfusion::of_rows(1, [&row[..], &row[..]]), [[2 * count]]);
        let mut confusion = ClassConfusion::new(2);
        confusion.update(&map(&[0.0, 1.0, 1.0], 1), &map(&[255.0, -1.0, 1.0], 1)).expect("sound");
        assert_eq!(confusion.counts(), [[0, 0], [0, 1]]);
        let error = confusion.update(&map(&[0.0; 6], 3), &map(&[0.0; 2], 1)).expect_err("three of two").to_string();
        assert!(error.contains("one channel or 2"), "{error}");
    }
}
