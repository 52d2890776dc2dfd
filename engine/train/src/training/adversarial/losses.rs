//! The losses of competing networks, by name: [`EpochLosses`].

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use hearth_engine::{BoxError, HostError, State};
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoint, CheckpointError, Files};
use crate::floats::Floats;
use crate::ranks::Ranks;
use crate::training::step::read_back;

/// The file in a checkpoint, where the epoch is not over.
const FILE: &str = "losses.json";

/// The losses of the current iteration, and their sums over the epoch so far. Values stay on the
/// device until they are read.
#[derive(Clone, Default)]
pub(crate) struct EpochLosses {
    now: BTreeMap<String, Tensor<1>>,
    sums: BTreeMap<String, (Tensor<1>, u64)>,
}

#[derive(Serialize, Deserialize)]
struct SumJson {
    /// As text: a JSON number may come back with a different last digit, and cannot be NaN.
    sum: String,
    iterations: u64,
}

impl EpochLosses {
    /// Clears the losses of the previous iteration.
    pub fn next_iteration(&mut self) {
        self.now.clear();
    }

    /// Clears everything.
    pub fn next_epoch(&mut self) {
        *self = Self::default();
    }

    /// Records a loss, `[1]`, of the current iteration.
    pub fn note(&mut self, name: &str, loss: Tensor<1>) {
        self.now.insert(name.to_owned(), loss);
    }

    /// Ends an iteration: several ranks have the means of their losses from now on.
    pub fn settle(&mut self, ranks: Option<&Ranks>, iteration: u64) -> Result<(), BoxError> {
        if let Some(ranks) = ranks {
            self.share(ranks, iteration)?;
        }
        for (name, loss) in &self.now {
            let sum = match self.sums.remove(name) {
                Some((sum, iterations)) => (sum + loss.clone(), iterations + 1),
                None => (loss.clone(), 1),
            };
            self.sums.insert(name.clone(), sum);
        }
        Ok(())
    }

    fn share(&mut self, ranks: &Ranks, iteration: u64) -> Result<(), BoxError> {
        let own = self.now.iter().map(|(name, loss)| Ok(read_back(loss.clone(), name)? as f32));
        let own = Floats(own.collect::<Result<Vec<f32>, HostError>>()?);
        let all: Vec<Floats> = ranks.gather(&own, "the numbers of a step", iteration)?;
        if let Some(other) = all.iter().position(|numbers| numbers.0.len() != own.0.len()) {
            let names: Vec<&str> = self.names().collect();
            return Err(format!(
                "this rank notes {} numbers ({}), rank {other} {}: all ranks must note the same in an iteration",
                names.len(),
                names.join(", "),
                all[other].0.len()
            )
            .into());
        }
        for (place, loss) in self.now.values_mut().enumerate() {
            let of_ranks = all.iter().filter_map(|losses| losses.0.get(place));
            let mean = of_ranks.map(|loss| f64::from(*loss)).sum::<f64>() / ranks.world() as f64;
            *loss = Tensor::from_floats([mean as f32], &loss.device());
        }
        Ok(())
    }

    /// The names of the losses of the current iteration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.now.keys().map(String::as_str)
    }

    /// A loss of the current iteration by name, read back; `None` where it does not exist.
    pub fn read(&self, name: &str) -> Option<Result<f64, HostError>> {
        self.now.get(name).map(|loss| read_back(loss.clone(), name))
    }

    /// Adds the means over the epoch to the metrics of the state.
    pub fn finish(&mut self, state: &mut State) -> Result<(), HostError> {
        for (name, (sum, iterations)) in std::mem::take(&mut self.sums) {
            state.observe(&name, read_back(sum, &name)? / iterations as f64);
        }
        Ok(())
    }

    /// Adds the sums to a checkpoint.
    pub fn collect(&self, files: &mut Files) -> Result<(), BoxError> {
        if self.sums.is_empty() {
            return Ok(());
        }
        let json = self.sums.iter().map(|(name, (sum, iterations))| {
            let sum = read_back(sum.clone(), name)?.to_string();
            Ok((name, SumJson { sum, iterations: *iterations }))
        });
        let json: BTreeMap<_, _> = json.collect::<Result<_, HostError>>()?;
        files.insert(FILE.into(), serde_json::to_vec_pretty(&json)?);
        Ok(())
    }

    /// Reads the sums from a checkpoint.
    pub fn from_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Result<Self, BoxError> {
        if !checkpoint.has(FILE) {
            return Ok(Self::default());
        }
        let mismatch = |why: String| CheckpointError::Mismatch { path: checkpoint.path.clone(), part: FILE, why };
        let json: BTreeMap<String, SumJson> = serde_json::from_slice(&checkpoint.file(FILE)?)
            .map_err(|error| mismatch(format!("it does not parse: {error}")))?;
        let sums = json.into_iter().map(|(name, SumJson { sum, iterations })| {
            let number: f32 = sum.parse().map_err(|_| mismatch(format!("the loss `{sum}` is not a number")))?;
            Ok((name, (Tensor::<1>::from_floats([number], device), iterations)))
        });
        Ok(Self { now: BTreeMap::new(), sums: sums.collect::<Result<_, CheckpointError>>()? })
    }
}
