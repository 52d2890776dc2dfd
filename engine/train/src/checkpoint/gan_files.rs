//! Converts a trainer of two networks to the files of a checkpoint, and back.

use std::path::Path;

use hearth_engine::{BoxError, CheckpointRequest, Snapshot};
use hearth_nn::networks::Network;

use super::{learner_files, trainer_files};
use crate::checkpoint::background::Job;
use crate::checkpoint::{self, Files};
use crate::training::adversarial::losses::EpochLosses;
use crate::training::adversarial::step::Adversarial;

/// Collects all files of a checkpoint, read back from the device.
pub(crate) fn collect<G: Network, D: Network>(
    trainer: &Adversarial<G, D>,
    request: &CheckpointRequest,
    snapshot: &Snapshot,
) -> Result<Job, BoxError> {
    let mut files = Files::new();
    learner_files::collect(&mut files, &learner_files::NETWORK, &trainer.generator)?;
    learner_files::collect(&mut files, &learner_files::DISCRIMINATOR, &trainer.discriminator)?;
    trainer.losses.collect(&mut files)?;
    trainer_files::job(files, trainer.options.run.as_deref(), &trainer.evaluators, request, snapshot)
}

/// Restores the newest intact checkpoint. Everything is read and checked before anything changes.
pub(crate) fn read<G: Network, D: Network>(trainer: &mut Adversarial<G, D>, dir: &Path) -> Result<Snapshot, BoxError> {
    let checkpoint = checkpoint::newest_of(dir, trainer.options.run.as_deref())?;
    let device = trainer.options.device.clone().inner();
    let generator = learner_files::read(&checkpoint, &learner_files::NETWORK, &trainer.generator, &device)?;
    let discriminator =
        learner_files::read(&checkpoint, &learner_files::DISCRIMINATOR, &trainer.discriminator, &device)?;
    let losses = EpochLosses::from_checkpoint(&checkpoint, &device)?;
    let snapshot = trainer_files::read_engines(&checkpoint, &mut trainer.evaluators)?;
    (trainer.generator, trainer.discriminator, trainer.losses) = (generator, discriminator, losses);
    Ok(snapshot)
}
