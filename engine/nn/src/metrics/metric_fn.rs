//! A closure as a metric: [`metric_fn`].

use burn::tensor::Tensor;

use super::{Metric, MetricError, PerItem, read};

struct MetricFn<F> {
    name: &'static str,
    measure: F,
}

impl<F> PerItem for MetricFn<F>
where
    F: Fn(Tensor<5>, Tensor<5>) -> Result<Tensor<2>, MetricError> + Send,
{
    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let rows = (self.measure)(pred.clone(), label.clone())?;
        let ([items, ..], [count, values]) = (pred.dims(), rows.dims());
        if count != items || values == 0 {
            let reason = format!("it returned [{count}, {values}] values for {items} items: expected a row for each");
            return Err(MetricError::new(self.name, reason));
        }
        Ok(read(self.name, rows)?.chunks(values).map(<[f32]>::to_vec).collect())
    }

    fn higher_is_better(&self) -> Option<bool> {
        None
    }

    fn name(&self) -> &'static str {
        self.name
    }
}

/// A metric that is a function or closure of prediction and label, `[b, c, x, y, z]`. It returns a row
/// of values for each item, `[b, n]`: one for each class, or one for all; NaN where there is nothing to
/// measure. The name is that of messages. The evaluator's `better` states which values are better; a
/// metric that knows it, or needs voxel sizes, implements [`PerItem`]. Another number of rows than
/// items is an error of [`Metric::update`].
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_nn::metrics::{Metric, count, metric_fn};
///
/// let mut error = metric_fn("VolumeError", |pred, label| {
///     let label = count(label);
///     Ok((count(pred) - label.clone()).abs() / label)
/// });
/// let device = Device::default();
/// error.update(&Tensor::full([2, 1, 4, 4, 4], 3.0, &device), &Tensor::full([2, 1, 4, 4, 4], 2.0, &device))?;
/// assert_eq!((error.name(), error.rows().len(), error.aggregate()?.scalar()), ("VolumeError", 2, 0.5));
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
pub fn metric_fn<F>(name: &'static str, measure: F) -> impl Metric + 'static
where
    F: Fn(Tensor<5>, Tensor<5>) -> Result<Tensor<2>, MetricError> + Send + 'static,
{
    MetricFn { name, measure }.gathered()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn other_than_a_row_for_each_item_is_an_error() {
        let batch = Tensor::<5>::ones([3, 2, 2, 2, 2], &Device::flex());
        let of = |shape: [usize; 2]| {
            let mut metric = metric_fn("Rows", move |pred, _| Ok(Tensor::zeros(shape, &pred.device())));
            metric.update(&batch, &batch).map(<[Vec<f32>]>::len)
        };
        assert_eq!(of([3, 1]), Ok(3));
        for shape in [[1, 2], [6, 1]] {
            let error = of(shape).expect_err("refused").to_string();
            assert!(error.starts_with("Rows: ") && error.contains("for 3 items"), "{error}");
        }
    }
}
