//! A Hearth plugin that measures the noise of the gradients, which is about the batch size above which more images
//! per step no longer pay (McCandlish et al. 2018, "An empirical model of large-batch training").

use hearth_plugin::{Context, Event, Fault, Handler, HandlerError, Parameters, When, export_plugin, options};

options! {
    /// Options in a recipe.
    pub struct Options {
        /// Number of consecutive batches whose gradients are compared with their mean.
        batches: usize = 8,
        /// The part of the averages of signal and noise that remains in an update.
        decay: f64 = 0.9,
    }
}

/// The sum of the gradients so far, and the squared length of each.
pub struct NoiseScale(Options, Vec<f32>, Vec<f64>);

impl NoiseScale {
    /// The handler with these options; fails if one is out of its range.
    pub fn new(options: Options) -> Result<Self, Fault> {
        match options {
            Options { batches: 0..2, .. } => Err(Fault::at("batches", "give 2 or more")),
            Options { decay, .. } if !(0.0..1.0).contains(&decay) => Err(Fault::at("decay", "give 0 or more, below 1")),
            options => Ok(Self(options, Vec::new(), Vec::new())),
        }
    }
}

impl Handler for NoiseScale {
    fn name(&self) -> &str {
        "noise-scale"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::BackwardCompleted.into()]
    }

    fn handle(&mut self, _event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let Self(options, sum, lengths) = self;
        let squares = |values: &[f32]| values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
        if cx.state.world_size > 1 {
            return Err(HandlerError::new("it compares the batches of one process: train without ranks"));
        }
        // Nothing is kept from one epoch to the next, so that resuming changes nothing.
        if cx.state.epoch_iteration == 0 || lengths.len() == options.batches {
            (*sum, *lengths) = (Vec::new(), Vec::new());
        }
        let gradient: Vec<f32> = Parameters::gradients(cx.host)?.values().collect();
        sum.resize(gradient.len(), 0.0);
        sum.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += value);
        lengths.push(squares(&gradient));
        // An overflow of half precision is skipped, as the step is.
        if lengths.len() < options.batches || !squares(sum).is_finite() {
            return Ok(());
        }
        // The squared length of a batch's gradient and of their mean, and the unbiased estimates from both.
        let (k, batch) = (lengths.len() as f64, cx.host.cases().len() as f64);
        let (one, all) = (lengths.iter().sum::<f64>() / k, squares(sum) / (k * k));
        let new = [(k * all - one) / (k - 1.0), (one - all) * batch * k / (k - 1.0)];
        // Kept in checkpoints.
        let old = match cx.host.recall("averages").unwrap_or_default().as_chunks().0 {
            [signal, noise] => [f64::from_le_bytes(*signal), f64::from_le_bytes(*noise)],
            _ => new,
        };
        let [signal, noise] = [0, 1].map(|i| options.decay * old[i] + (1.0 - options.decay) * new[i]);
        cx.host.remember("averages", &[signal, noise].map(f64::to_le_bytes).concat())?;
        if signal > 0.0 {
            cx.host.scalar("noise/scale", noise / signal);
        }
        Ok(())
    }
}

export_plugin!("noise-scale", Options, NoiseScale::new, needs: []);
