//! Trains until the validation reaches a Dice, and measures the time.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hearth_engine::Event;
use serde_json::json;

use super::median;
use crate::error::Outcome;
use crate::note;
use crate::recipe::Document;
use crate::run::{Start, trainer};

/// How far to train.
pub struct Goal {
    /// Stop at this mean Dice.
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
    /// The best mean Dice.
    pub best: f64,
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
    engine.on(Event::EpochCompleted.every(goal.every), move |cx| {
        let dice = cx.host.run("validation")?.get("mean_dice").copied().unwrap_or(f64::NAN);
        let seconds = start.elapsed().as_secs_f64();
        note!("{}", json!({ "epoch": cx.state.epoch, "dice": dice, "seconds": seconds }));
        let mut notes = shared.open();
        notes.best = notes.best.max(dice);
        if dice >= target {
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
    Ok(Reached { prepared, epoch, hit: notes.hit, total, epochs, best: notes.best })
}
