//! Metrics of training batches (MONAI's `key_train_metric` and `additional_metrics`): [`TrainMetrics`].

use std::collections::BTreeMap;

use hearth_engine::{BoxError, Snapshot, State};
use serde::{Deserialize, Serialize};

use crate::batch::feed::Feed;
use crate::checkpoint::{Checkpoint, CheckpointError, Files};
use crate::evaluation::measured::{self, NamedMetric};
use crate::evaluation::post::Post;
use crate::floats::Floats;
use crate::ranks::Ranks;

/// The file in a checkpoint, where the epoch is not over.
const FILE: &str = "train_metrics.json";

/// The metrics of a trainer, with the evaluator's chain of post-processing, and their rows of the epoch so
/// far.
#[derive(Default)]
pub(crate) struct TrainMetrics {
    pub metrics: Vec<NamedMetric>,
    pub post_pred: Vec<Post>,
    pub post_label: Vec<Post>,
    /// The rows of all ranks, for each metric. A metric itself holds those of one batch: a checkpoint then
    /// includes the work of every rank, whichever rank writes it.
    epoch: Vec<Rows>,
}

/// The rows of a metric, and what it counts next to them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rows {
    rows: Vec<Floats>,
    counts: Vec<u64>,
}

impl Rows {
    fn add(&mut self, other: Rows) {
        self.rows.extend(other.rows);
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// The length of the first row that differs from those before it, and theirs.
    fn uneven(&self) -> Option<(usize, usize)> {
        let first = self.rows.first()?.0.len();
        self.rows.iter().map(|row| row.0.len()).find(|length| *length != first).map(|length| (length, first))
    }
}

impl TrainMetrics {
    /// Whether nothing is measured, and a step does nothing for it.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// The first name that is empty, given twice or used by the trainer itself.
    pub fn bad_name(&self) -> Option<&str> {
        let names: Vec<&str> = self.metrics.iter().map(|metric| metric.name.as_str()).collect();
        let bad = |(at, name): &(usize, &&str)| {
            name.trim().is_empty() || ["loss", "mean_loss", "scale"].contains(name) || names[..*at].contains(name)
        };
        names.iter().enumerate().find(bad).map(|(_, name)| *name)
    }

    /// Clears the rows of the previous epoch.
    pub fn next_epoch(&mut self) {
        self.epoch.clear();
    }

    /// Post-processes the prediction and the label of the current batch, the prediction outside autodiff.
    pub fn post_process(&self, feed: &mut Feed, dims: usize) -> Result<(), BoxError> {
        if let Some(pred) = feed.get("pred") {
            feed.insert("pred", pred.without_autodiff())?;
        }
        measured::post_process(feed, dims, [&self.post_pred, &self.post_label])
    }

    /// Adds the current batch of every rank. Handlers can read the values of this rank's cases from now on.
    pub fn measure(
        &mut self,
        feed: &mut Feed,
        dims: usize,
        ranks: Option<&Ranks>,
        iteration: u64,
    ) -> Result<(), BoxError> {
        measured::update(&mut self.metrics, feed, dims)?;
        let mut own = Vec::with_capacity(self.metrics.len());
        for metric in &mut self.metrics {
            feed.insert_numbers(&metric.name, metric.of_batch());
            let rows = metric.metric.rows().iter().cloned().map(Floats).collect();
            own.push(Rows { rows, counts: metric.metric.counts() });
            metric.reset();
        }
        let all = match ranks {
            Some(ranks) => ranks.gather(&own, "metrics of training batches", iteration)?,
            None => vec![own],
        };
        self.epoch.resize_with(self.metrics.len(), Rows::default);
        for of_rank in all {
            self.epoch.iter_mut().zip(of_rank).for_each(|(epoch, rows)| epoch.add(rows));
        }
        Ok(())
    }

    /// Records the results of the epoch in the state. An epoch that was ended before its first batch has
    /// none.
    pub fn finish(&mut self, state: &mut State) -> Result<(), BoxError> {
        for (named, Rows { rows, counts }) in self.metrics.iter_mut().zip(std::mem::take(&mut self.epoch)) {
            let rows = rows.into_iter().map(|row| row.0).collect();
            let merged = named.metric.merge(rows);
            merged.map_err(|why| format!("the metric `{}` cannot take the rows of the epoch: {why}", named.name))?;
            named.metric.set_counts(counts);
            let observed = named.observe(state);
            named.reset();
            observed?;
        }
        Ok(())
    }

    /// Adds the rows of an unfinished epoch to a checkpoint.
    pub fn collect(&self, files: &mut Files) -> Result<(), BoxError> {
        if !self.epoch.is_empty() {
            let names = self.metrics.iter().map(|metric| &metric.name);
            let all: BTreeMap<&String, &Rows> = names.zip(&self.epoch).collect();
            files.insert(FILE.into(), serde_json::to_vec(&all)?);
        }
        Ok(())
    }

    /// The rows of an unfinished epoch in a checkpoint, for [`put_back`](Self::put_back).
    pub fn restored(&self, checkpoint: &Checkpoint, snapshot: &Snapshot) -> Result<Vec<Rows>, CheckpointError> {
        let state = &snapshot.state;
        if self.is_empty() || state.epoch_done || state.epoch_iteration == 0 {
            return Ok(Vec::new());
        }
        let mismatch = |why: String| CheckpointError::Mismatch { path: checkpoint.path.clone(), part: FILE, why };
        let mut all: BTreeMap<String, Rows> = match checkpoint.has(FILE) {
            false => BTreeMap::new(),
            true => serde_json::from_slice(&checkpoint.file(FILE)?)
                .map_err(|error| mismatch(format!("it does not parse: {error}")))?,
        };
        let of = |metric: &NamedMetric| {
            let name = &metric.name;
            let rows = all.remove(name).ok_or_else(|| {
                mismatch(format!(
                    "it has no rows of the training metric `{name}` for the first {} batches of epoch {}: resume from a \
                     checkpoint between two epochs, or without this metric",
                    state.epoch_iteration, state.epoch
                ))
            })?;
            match rows.uneven() {
                None => Ok(rows),
                Some((got, first)) => {
                    Err(mismatch(format!("the training metric `{name}` has rows of {first} and of {got} values")))
                }
            }
        };
        self.metrics.iter().map(of).collect()
    }

    /// Sets the rows of the epoch so far.
    pub fn put_back(&mut self, rows: Vec<Rows>) {
        self.epoch = rows;
    }
}
