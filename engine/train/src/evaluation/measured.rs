//! Metrics of a batch, after the chains of post-processing: the same code for an evaluator's cases and for
//! training batches.

use burn::tensor::Tensor;
use hearth_engine::{BoxError, State};
use hearth_nn::metrics::Metric;

use crate::batch::feed::Feed;
use crate::batch::step_error::name_cases;
use crate::evaluation::evaluator::CaseRow;
use crate::evaluation::post::Post;

/// A metric, the name it is recorded under, and its values for each case of the pass.
pub(crate) struct NamedMetric {
    pub name: String,
    pub metric: Box<dyn Metric>,
    pub rows: Vec<CaseRow>,
    /// The number of values before the current batch.
    pub before: usize,
    /// The number of rows of the metric before each batch.
    pub batches: Vec<usize>,
    /// Steps on the prediction for this metric only.
    pub post_pred: Vec<Post>,
    pub post_label: Vec<Post>,
}

impl NamedMetric {
    pub fn new(name: String, metric: Box<dyn Metric>) -> Self {
        Self {
            name,
            metric,
            rows: Vec::new(),
            before: 0,
            batches: Vec::new(),
            post_pred: Vec::new(),
            post_label: Vec::new(),
        }
    }

    /// Clears the values of earlier batches.
    pub fn reset(&mut self) {
        self.metric.reset();
        self.rows.clear();
        self.before = 0;
        self.batches.clear();
    }

    /// The values of the current batch's cases; empty before they are measured.
    pub fn of_batch(&self) -> Vec<Vec<f64>> {
        let values = |row: &CaseRow| row.values.iter().map(|value| f64::from(*value)).collect();
        self.rows[self.before..].iter().map(values).collect()
    }

    /// Records the result over all rows in the state, and that of each class where it has one.
    pub fn observe(&self, state: &mut State) -> Result<(), BoxError> {
        let Self { name, metric, .. } = self;
        let aggregate = metric.aggregate().map_err(|e| format!("the metric `{name}` has no value: {e}"))?;
        for (label, value) in aggregate.labels.iter().zip(&aggregate.value.values) {
            state.observe(&format!("{name}_{label}"), f64::from(*value));
        }
        state.observe(name, f64::from(aggregate.scalar()));
        Ok(())
    }
}

/// Applies the chains of prediction and label to the tensors of the current batch.
pub(crate) fn post_process(feed: &mut Feed, dims: usize, [pred, label]: [&[Post]; 2]) -> Result<(), BoxError> {
    let _range = tracing::trace_span!("post").entered();
    let chains = [("pred", pred, "post-processing the prediction"), ("label", label, "post-processing the label")];
    for (key, steps, part) in chains {
        let Some(mut x) = feed.get(key) else { continue };
        for step in steps {
            x = step.apply(x, dims, feed.items()).map_err(|e| feed.part(part, e))?;
        }
        feed.insert(key, x)?;
    }
    Ok(())
}

/// Adds the current batch to the metrics.
pub(crate) fn update(metrics: &mut [NamedMetric], feed: &Feed, dims: usize) -> Result<(), BoxError> {
    if metrics.is_empty() {
        return Ok(());
    }
    let (all_preds, all_labels) = (feed.named("pred")?, feed.named("label")?);
    let spacing = feed.spacing();
    for NamedMetric { name, metric, rows, batches, post_pred, post_label, .. } in metrics {
        let _range = tracing::trace_span!("metric", name = name.as_str()).entered();
        batches.push(metric.rows().len());
        let after = |steps: &[Post], x: &Tensor<5>| {
            let done = steps.iter().try_fold(x.clone(), |x, step| step.apply(x, dims, feed.items()));
            done.map_err(|e| feed.part("post-processing for a metric", e))
        };
        let (pred, label) = (after(post_pred, &all_preds)?, after(post_label, &all_labels)?);
        // Distances are in mm only where every item has a voxel size.
        let spacing = if spacing.len() == pred.dims()[0] { &spacing[..] } else { &[] };
        if let Err(e) = metric.update_spaced(&pred, &label, spacing) {
            let cases = name_cases(feed.cases());
            return Err(format!("the metric `{name}` failed on {cases}: {e}").into());
        }
        let new: Vec<Vec<f32>> = metric.rows().iter().skip(rows.len()).map(|row| metric.values_of(row)).collect();
        for (case, values) in feed.cases().iter().zip(new) {
            rows.push(CaseRow { case: case.clone(), values });
        }
    }
    Ok(())
}
