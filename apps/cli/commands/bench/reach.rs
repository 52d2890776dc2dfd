//! Trains until the key metric of the validation reaches a target, and measures the time.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hearth_engine::Event;
use serde_json::json;

use super::course::{Course, Point};
use super::median;
use crate::error::Outcome;
use crate::note;
use crate::recipe::Document;
use crate::recipe::metric::MEAN_DICE;
use crate::run::{Start, trainer};

/// The goal of a training.
pub struct Goal {
    /// The value of the key metric at which to stop.
    pub target: f64,
    /// The number of epochs between validations.
    pub every: u64,
}

/// The results of a training; times are in seconds.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// The time before training started: filling caches, building the network.
    pub prepared: f64,
    /// The median time of an epoch without its validation.
    pub epoch: f64,
    /// The time until the target was reached, including preparation and validation.
    pub hit: Option<f64>,
    /// The total time.
    pub total: f64,
    /// The number of epochs.
    pub epochs: u64,
    /// The best value of the key metric.
    pub best: f64,
    /// The name of the key metric, with `dice` for `mean_dice`.
    pub metric: String,
    /// All validations.
    pub curve: Vec<Point>,
}

/// Values that the handlers record.
#[derive(Default)]
struct Notes {
    began: Option<Instant>,
    epochs: Vec<f64>,
    course: Course,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Notes>>);

impl Shared {
    fn open(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Trains a recipe on a data set until the goal is reached.
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
        if shared.open().course.add(cx.state.epoch, seconds, value, target) {
            cx.host.terminate("the target is reached");
        }
        Ok(())
    })?;
    trainer.run()?;
    let total = start.elapsed().as_secs_f64();
    let mut notes = notes.open();
    let epoch = if notes.epochs.is_empty() { f64::NAN } else { median(&mut notes.epochs) };
    let epochs = trainer.engine().state().epoch;
    let course = std::mem::take(&mut notes.course);
    let (hit, best) = (course.hit(goal.target).map(|point| point.seconds), course.best());
    Ok(Reached { prepared, epoch, hit, total, epochs, best, metric, curve: course.points })
}
