//! Gathers the results of all ranks in the order of cases, as one rank would have them.

use burn::tensor::Tensor;
use hearth_distributed::Share;
use hearth_engine::BoxError;
use serde::{Deserialize, Serialize};

use crate::evaluation::evaluator::CaseRow;
use crate::evaluation::measured::NamedMetric;
use crate::evaluation::pass::Evaluation;
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

/// The first case whose row has another length than those before, its length and theirs.
fn uneven(all: &[OfCase]) -> Option<(&str, usize, usize)> {
    let mut rows = all.iter().flat_map(|of| of.shown.iter().zip(&of.rows)).map(|((case, _), row)| (case, row.0.len()));
    let (_, first) = rows.next()?;
    rows.find(|(_, length)| *length != first).map(|(case, length)| (case.as_str(), length, first))
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
        // A rank knows only the rows of its own cases.
        if let Some((case, got, expected)) = uneven(&all) {
            let what = format!("{got} values for case {case}, and {expected} for the cases before");
            return Err(format!("the metric `{}` has {what}: expected as many for every case", measured.name).into());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_another_length_is_found_with_its_case() {
        let case = |name: &str, row: Vec<f32>| OfCase {
            shown: vec![(name.to_owned(), Floats(row.clone()))],
            rows: vec![Floats(row)],
        };
        let mut all = vec![case("a", vec![1.0, 2.0]), OfCase::default(), case("b", vec![3.0, 4.0])];
        assert_eq!(uneven(&all), None);
        all.push(case("c", vec![5.0]));
        assert_eq!(uneven(&all), Some(("c", 1, 2)));
    }
}
