//! Gathers the results of all ranks in the order of cases, as one rank would have them.

use burn::tensor::Tensor;
use hearth_distributed::Share;
use hearth_engine::BoxError;
use serde::{Deserialize, Serialize};

use crate::evaluation::evaluator::CaseRow;
use crate::evaluation::pass::{Evaluation, NamedMetric};
use crate::floats::Floats;
use crate::ranks::SharedCases;

/// The results of one metric for one case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct OfCase {
    /// The rows for tables.
    shown: Vec<(String, Floats)>,
    /// The metric's own rows.
    rows: Vec<Floats>,
}

/// Replaces the results of this rank by those of all ranks.
pub(crate) fn gather<N>(work: &mut Evaluation<N>, shared: &SharedCases, epoch: u64) -> Result<(), BoxError> {
    let SharedCases { ranks, cases } = shared;
    let counted = Share::new(*cases, ranks.world()).of(ranks.rank()).count();
    for measured in &mut work.metrics {
        let all = ranks.in_order(by_case(measured), *cases, epoch)?;
        // The result of a rank without a case of its own does not count.
        let own = if counted == 0 { Vec::new() } else { measured.metric.counts() };
        let mut counts = Vec::new();
        for own in ranks.gather(&own, "counts of the validation", epoch)? {
            counts.resize(own.len().max(counts.len()), 0);
            counts.iter_mut().zip(own).for_each(|(sum, count)| *sum += count);
        }
        measured.metric.reset();
        let rows = all.iter().flat_map(|of| of.rows.iter().map(|row| row.0.clone())).collect();
        let merged = measured.metric.merge(rows);
        merged.map_err(|why| format!("the metric `{}` cannot take the rows of all ranks: {why}", measured.name))?;
        measured.metric.set_counts(counts);
        let shown = all.into_iter().flat_map(|of| of.shown);
        measured.rows = shown.map(|(case, values)| CaseRow { case, values: values.0 }).collect();
    }
    // A batch is a case, so the mean is that of the losses in the order of cases.
    for mean in &mut work.losses {
        let Some(sum) = mean.sum.take() else { continue };
        let device = sum.device();
        let own: f32 =
            sum.try_into_scalar().map_err(|why| format!("the loss `{}` cannot be read: {why}", mean.name))?;
        let own = if counted == 0 { 0.0 } else { own };
        let all = ranks.gather(&(Floats(vec![own]), counted as u64), "losses of the validation", epoch)?;
        let total: f64 = all.iter().flat_map(|(sum, _)| &sum.0).map(|sum| f64::from(*sum)).sum();
        mean.sum = Some(Tensor::from_floats([total as f32], &device));
        mean.batches = all.iter().map(|(_, count)| count).sum();
    }
    Ok(())
}

/// The results of a metric for each batch, which is a case.
fn by_case(measured: &NamedMetric) -> Vec<OfCase> {
    let rows = measured.metric.rows();
    let ends = measured.batches.iter().skip(1).copied().chain([rows.len()]);
    let of = |(start, end): (&usize, usize)| OfCase {
        shown: measured
            .rows
            .get(*start..end.min(measured.rows.len()))
            .unwrap_or_default()
            .iter()
            .map(|row| (row.case.clone(), Floats(row.values.clone())))
            .collect(),
        rows: rows[*start..end].iter().cloned().map(Floats).collect(),
    };
    measured.batches.iter().zip(ends).map(of).collect()
}
