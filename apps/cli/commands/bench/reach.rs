//! Trains until the key metric of the validation reaches a target, and measures the time.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hearth_engine::Event;
use serde_json::json;

use super::median;
use crate::error::Outcome;
use crate::note;
use crate::recipe::Document;
use crate::recipe::metric::MEAN_DICE;
use crate::run::{Start, trainer};

/// How far to train.
pub struct Goal {
    /// Stop at this value of the key metric.
    pub target: f64,
    /// Validate after every so many epochs.
    pub every: u64,
}

/// What a training took, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// Until training began: filling caches, building the network.
    pub prepared: f64,
    /// An epoch without its validation, the median.
    pub epoch: f64,
    /// Until the target was reached, preparing and validating included.
    pub hit: Option<f64>,
    /// In total.
    pub total: f64,
    /// Epochs run.
    pub epochs: u64,
    /// The best value of the key metric.
    pub best: f64,
    /// Its name, `dice` for `mean_dice`.
    pub metric: String,
}

/// What handlers record.
#[derive(Default)]
struct Notes {
    began: Option<Instant>,
    epochs: Vec<f64>,
    best: f64,
    hit: Option<f64>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Notes>>);

impl Shared {
    fn open(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Trains by a recipe on a data set.
pub fn reach(document: Document, data: &Path, goal: &Goal) -> Outcome<Reached> {
    let plan = crate::terminal::plan(document)?;
    let start = Instant::now();
    let mut trainer = trainer(&plan, data, Start::Init)?;
    let prepared = start.elapsed().as_secs_f64();
    let notes = Shared::default();
    let engine = trainer.engine_mut();
    let shared = notes.clone();
    engine.on(Event::EpochStarted, move |_| {
        shared.open().began = Some(Instant::now());
        Ok(())
    })?;
    let shared = notes.clone();
    engine.on(Event::EpochCompleted, move |_| {
        let mut notes = shared.open();
        let seconds = notes.began.map(|began| began.elapsed().as_secs_f64());
        notes.epochs.extend(seconds);
        Ok(())
    })?;
    let (shared, target) = (notes.clone(), goal.target);
    let key = plan.recipe.metric.list().into_iter().next().map_or_else(|| MEAN_DICE.to_owned(), |(name, _)| name);
    let metric = if key == MEAN_DICE { "dice".to_owned() } else { key.clone() };
    let named = metric.clone();
    engine.on(Event::EpochCompleted.every(goal.every), move |cx| {
        let value = cx.host.run("validation")?.get(&key).copied().unwrap_or(f64::NAN);
        let seconds = start.elapsed().as_secs_f64();
        note!("{}", json!({ "epoch": cx.state.epoch, &named: value, "seconds": seconds }));
        let mut notes = shared.open();
        notes.best = notes.best.max(value);
        if value >= target {
            notes.hit = Some(seconds);
            cx.host.terminate("the target is reached");
        }
        Ok(())
    })?;
    trainer.run()?;
    let total = start.elapsed().as_secs_f64();
    let mut notes = notes.open();
    let epoch = if notes.epochs.is_empty() { f64::NAN } else { median(&mut notes.epochs) };
    let epochs = trainer.engine().state().epoch;
    Ok(Reached { prepared, epoch, hit: notes.hit, total, epochs, best: notes.best, metric })
}
