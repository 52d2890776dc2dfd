//! Converts a trainer to the files of a checkpoint, and back.

use std::collections::BTreeMap;
use std::path::Path;

use hearth_engine::{BoxError, CheckpointRequest, Snapshot};
use hearth_nn::networks::Network;

use super::{learner_files, snapshot_files};
use crate::checkpoint::background::Job;
use crate::checkpoint::{self, Checkpoint, CheckpointError, Files, Header};
use crate::evaluation::evaluators::Evaluators;
use crate::training::adversarial::losses::EpochLosses;
use crate::training::mean_loss::MeanLoss;
use crate::training::step::Training;

const SEED: &str = "rng/seed";

fn evaluator_prefix(name: &str) -> String {
    format!("evaluators/{}/", checkpoint::file_name_of(name))
}

/// Collects all files of a checkpoint, read back from the device.
pub(crate) fn collect<N: Network>(
    trainer: &Training<N>,
    request: &CheckpointRequest,
    snapshot: &Snapshot,
) -> Result<Job, BoxError> {
    let mut files = Files::new();
    learner_files::collect(&mut files, &learner_files::NETWORK, &trainer.learner)?;
    if let Some(adversary) = &trainer.adversary {
        adversary.collect(&mut files)?;
    }
    if let Some(step) = &trainer.step {
        step.collect(&mut files)?;
        trainer.notes.collect(&mut files)?;
    }
    if !snapshot.state.epoch_done {
        trainer.mean_loss.collect(&mut files)?;
        trainer.metrics.collect(&mut files)?;
    }
    job(files, trainer.options.run.as_deref(), &trainer.evaluators, request, snapshot)
}

/// The checkpoint of a trainer whose networks' files are already collected.
pub(crate) fn job<N>(
    mut files: Files,
    run: Option<&str>,
    evaluators: &Evaluators<N>,
    request: &CheckpointRequest,
    snapshot: &Snapshot,
) -> Result<Job, BoxError> {
    snapshot_files::write(&mut files, "", snapshot)?;
    for (name, evaluator) in evaluators.iter() {
        snapshot_files::write(&mut files, &evaluator_prefix(name), &evaluator.engine().snapshot())?;
    }
    files.insert(SEED.into(), format!("{}\n", snapshot.state.seed).into_bytes());

    let state = &snapshot.state;
    // A metric of an earlier epoch, or of before the last steps, is one of other weights.
    let measured = |name: &String| state.fresh(name).filter(|_| state.epoch_done);
    let header = Header {
        run: run.map(str::to_owned),
        epoch: state.epoch,
        iteration: state.iteration,
        tag: request.tag.clone(),
        best: state.is_best(),
        key_metric: state.key_metric.clone(),
        value: state.key_metric.as_ref().and_then(measured),
    };
    Ok(Job { dir: request.dir.clone(), header, files, keep_last: request.keep_last })
}

/// Restores the newest intact checkpoint. Everything is read and checked before anything changes.
pub(crate) fn read<N: Network>(trainer: &mut Training<N>, dir: &Path) -> Result<Snapshot, BoxError> {
    let checkpoint = checkpoint::newest_of(dir, trainer.options.run.as_deref())?;
    let device = trainer.options.device.clone().inner();
    let learner = learner_files::read(&checkpoint, &learner_files::NETWORK, &trainer.learner, &device)?;
    let adversary = trainer.adversary.as_ref().map(|adversary| adversary.restored(&checkpoint, &device)).transpose()?;
    let companions = trainer.step.as_ref().map(|step| step.restored(&checkpoint, &device)).transpose()?;
    let notes = match &trainer.step {
        Some(_) => EpochLosses::from_checkpoint(&checkpoint, &device)?,
        None => EpochLosses::default(),
    };
    let mean_loss = MeanLoss::from_checkpoint(&checkpoint)?;
    let rows = trainer.metrics.restored(&checkpoint, &snapshot_files::read(&checkpoint, "")?)?;
    let snapshot = read_engines(&checkpoint, &mut trainer.evaluators)?;
    (trainer.learner, trainer.adversary, trainer.mean_loss) = (learner, adversary, mean_loss);
    if let (Some(step), Some(companions)) = (&mut trainer.step, companions) {
        step.put_back(companions);
    }
    trainer.notes = notes;
    trainer.metrics.put_back(rows);
    Ok(snapshot)
}

/// Reads the trainer's snapshot, and restores its evaluators.
pub(crate) fn read_engines<N>(checkpoint: &Checkpoint, evaluators: &mut Evaluators<N>) -> Result<Snapshot, BoxError> {
    let snapshot = snapshot_files::read(checkpoint, "")?;
    for (name, snapshot) in read_evaluators(evaluators, checkpoint)? {
        if let Some(evaluator) = evaluators.get_mut(&name) {
            evaluator.engine_mut().restore(&snapshot)?;
        }
    }
    tracing::info!("resuming from checkpoint {}", checkpoint.path.display());
    Ok(snapshot)
}

fn read_evaluators<N>(
    evaluators: &Evaluators<N>,
    checkpoint: &Checkpoint,
) -> Result<BTreeMap<String, Snapshot>, CheckpointError> {
    let mut snapshots = BTreeMap::new();
    for name in evaluators.names() {
        let prefix = evaluator_prefix(&name);
        if checkpoint.has(&format!("{prefix}engine.json")) {
            snapshots.insert(name, snapshot_files::read(checkpoint, &prefix)?);
        }
    }
    Ok(snapshots)
}
