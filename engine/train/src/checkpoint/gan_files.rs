//! A trainer of two networks as the files of a checkpoint, and back.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use hearth_engine::{BoxError, CheckpointRequest, Snapshot};
use hearth_nn::networks::Network;
use serde::{Deserialize, Serialize};

use super::{learner_files, trainer_files};
use crate::checkpoint::background::Job;
use crate::checkpoint::{self, Checkpoint, CheckpointError, Files};
use crate::training::adversarial::step::{Adversarial, Losses};
use crate::training::step::read_back;

/// What an epoch's losses have come to where it is not over.
const LOSSES: &str = "losses.json";

#[derive(Serialize, Deserialize)]
struct LossesJson {
    /// As text: a JSON number may come back with another last digit and cannot be NaN.
    generator: String,
    discriminator: String,
    iterations: u64,
}

/// Everything of a checkpoint, read back from the device.
pub(crate) fn collect<G: Network, D: Network>(
    trainer: &Adversarial<G, D>,
    request: &CheckpointRequest,
    snapshot: &Snapshot,
) -> Result<Job, BoxError> {
    let mut files = Files::new();
    learner_files::collect(&mut files, &learner_files::NETWORK, &trainer.generator)?;
    learner_files::collect(&mut files, &learner_files::DISCRIMINATOR, &trainer.discriminator)?;
    if let Some((sum, iterations)) = &trainer.so_far {
        let json = LossesJson {
            generator: read_back(sum.generator.clone(), "the generator's loss")?.to_string(),
            discriminator: read_back(sum.discriminator.clone(), "the discriminator's loss")?.to_string(),
            iterations: *iterations,
        };
        files.insert(LOSSES.into(), serde_json::to_vec_pretty(&json)?);
    }
    trainer_files::job(files, &trainer.evaluators, request, snapshot)
}

/// Takes back the newest whole checkpoint. Everything is read and checked before anything is
/// changed.
pub(crate) fn read<G: Network, D: Network>(trainer: &mut Adversarial<G, D>, dir: &Path) -> Result<Snapshot, BoxError> {
    let checkpoint = checkpoint::newest(dir)?;
    let device = trainer.options.device.clone().inner();
    let generator = learner_files::read(&checkpoint, &learner_files::NETWORK, &trainer.generator, &device)?;
    let discriminator =
        learner_files::read(&checkpoint, &learner_files::DISCRIMINATOR, &trainer.discriminator, &device)?;
    let so_far = if checkpoint.has(LOSSES) { Some(read_losses(&checkpoint, &device)?) } else { None };
    let snapshot = trainer_files::read_engines(&checkpoint, &mut trainer.evaluators)?;
    (trainer.generator, trainer.discriminator, trainer.so_far) = (generator, discriminator, so_far);
    Ok(snapshot)
}

fn read_losses(checkpoint: &Checkpoint, device: &Device) -> Result<(Losses, u64), BoxError> {
    let mismatch = |why: String| CheckpointError::Mismatch { path: checkpoint.path.clone(), part: LOSSES, why };
    let json: LossesJson = serde_json::from_slice(&checkpoint.file(LOSSES)?)
        .map_err(|error| mismatch(format!("it does not parse: {error}")))?;
    let number = |text: &str| {
        let number: f32 = text.parse().map_err(|_| mismatch(format!("the loss `{text}` is no number")))?;
        Ok::<_, CheckpointError>(Tensor::<1>::from_floats([number], device))
    };
    let losses = Losses { generator: number(&json.generator)?, discriminator: number(&json.discriminator)? };
    Ok((losses, json.iterations))
}
