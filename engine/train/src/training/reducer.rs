//! Gradients of all ranks become their mean: [`Reducer`].

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData};
use hearth_distributed::{BUCKET_BYTES, Buckets};
use hearth_engine::BoxError;
use hearth_nn::optim::Gradients;

use crate::ranks::Ranks;

/// Reduces the gradients of a step, in buckets of about 25 MiB that travel while the next is copied.
#[derive(Clone, Debug)]
pub(crate) struct Reducer {
    pub ranks: Ranks,
    /// The loss of this rank's batch, which travels with the gradients.
    pub loss: Option<f32>,
    /// The mean of the ranks' losses, of the last step.
    pub mean_loss: Option<f64>,
    /// How the gradients of the last step were grouped: nearly always as those of this one.
    grouped: Option<Grouped>,
    steps: u64,
}

#[derive(Clone, Debug)]
struct Grouped {
    lengths: Vec<usize>,
    buckets: Buckets,
}

impl Reducer {
    pub fn new(ranks: Ranks) -> Self {
        Self { ranks, loss: None, mean_loss: None, grouped: None, steps: 0 }
    }

    /// The mean over the ranks, on the device of each gradient. That of the losses comes with it.
    pub fn mean(&mut self, gradients: &Gradients) -> Result<Gradients, BoxError> {
        let mut own: Vec<(&str, Device, Vec<f32>)> = Vec::with_capacity(gradients.len());
        for (path, gradient) in gradients.iter() {
            let values = gradient.clone().into_data().convert::<f32>().try_into_vec::<f32>();
            let values = values.map_err(|why| format!("the gradient of {path} cannot be read: {why:?}"))?;
            own.push((path, gradient.device(), values));
        }
        // Behind all gradients, as if it were one.
        let loss = [self.loss.take().unwrap_or(f32::NAN)];
        let lengths: Vec<usize> = own.iter().map(|(.., values)| values.len()).chain([loss.len()]).collect();
        let gradient = |parameter: usize| own.get(parameter).map_or(&loss[..], |(_, _, values)| &values[..]);
        if self.grouped.as_ref().is_none_or(|grouped| grouped.lengths != lengths) {
            let buckets = Buckets::new(&lengths, BUCKET_BYTES);
            self.grouped = Some(Grouped { lengths, buckets });
        }
        let Some(Grouped { buckets, .. }) = &self.grouped else { return Ok(gradients.clone()) };
        let communicator = self.ranks.communicator();
        let at = self.ranks.at("gradients", self.steps);
        let mut pending = Vec::new();
        for number in 0..buckets.buckets().len() {
            let values = buckets.flatten(number, |parameter| Some(gradient(parameter)))?;
            pending.push(communicator.start_all_reduce(values, self.ranks.how, &at));
        }
        let share = 1.0 / self.ranks.world() as f32;
        let mut reduced = BTreeMap::new();
        for (number, pending) in pending.into_iter().enumerate() {
            let values = pending.wait()?;
            for (parameter, values) in buckets.unflatten(number, &values) {
                let mean: Vec<f32> = values.iter().map(|sum| sum * share).collect();
                let Some((path, device, _)) = own.get(parameter) else {
                    self.mean_loss = mean.first().map(|mean| f64::from(*mean));
                    continue;
                };
                let length = mean.len();
                reduced.insert((*path).to_owned(), Tensor::<1>::from_data(TensorData::new(mean, [length]), device));
            }
        }
        self.steps += 1;
        Ok(Gradients::from_map(reduced))
    }
}
