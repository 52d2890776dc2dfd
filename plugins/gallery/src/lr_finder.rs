//! A Hearth plugin that raises the learning rate from step to step, and proposes one from the losses (Smith 2017,
//! "Cyclical learning rates for training neural networks"; the proposal is that of fastai and ignite).

use hearth_plugin::{Attachment, Context, Event, Fault, Handler, HandlerError, Level, When, export_plugin, options};

const NAME: &str = "lr-finder";

options! {
    /// Options in a recipe.
    pub struct Options {
        /// The first learning rate.
        from: f64 = 1e-6,
        /// The last learning rate.
        to: f64 = 1.0,
        /// Number of iterations, each with a learning rate of its own.
        steps: u64 = 100,
        /// The part of a new loss in the smoothed one; 1 does not smooth.
        smooth: f64 = 0.2,
    }
}

/// Learning rates and smoothed losses, up to five times the lowest one. A resumed search starts again.
pub struct LrFinder(Options, Vec<(f64, f64)>);

impl LrFinder {
    /// The handler with these options; fails if one is out of its range.
    pub fn new(options: Options) -> Result<Self, Fault> {
        match options {
            Options { from, .. } if !(from > 0.0) => Err(Fault::at("from", "it must be above 0")),
            Options { from, to, .. } if !(to > from) => Err(Fault::at("to", "it must be above `from`")),
            Options { steps: 0..10, .. } => Err(Fault::at("steps", "give 10 or more")),
            Options { smooth, .. } if !(smooth > 0.0 && smooth <= 1.0) => Err(Fault::at("smooth", "above 0, up to 1")),
            options => Ok(Self(options, Vec::new())),
        }
    }

    /// The rate at which the loss falls fastest, before its minimum. `None` for a curve without a descent.
    fn proposal(&self) -> Option<f64> {
        let end = (0..self.1.len()).min_by(|a, b| self.1[*a].1.total_cmp(&self.1[*b].1))?;
        let slope = |at: usize| self.1[at + 1].1 - self.1[at - 1].1;
        (1..end).min_by(|a, b| slope(*a).total_cmp(&slope(*b))).map(|at| self.1[at].0)
    }
}

impl Handler for LrFinder {
    fn name(&self) -> &str {
        NAME
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::BackwardCompleted | Event::IterationCompleted]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let Self(Options { from, to, steps, smooth }, curve) = self;
        let rate = *from * (*to / *from).powf(curve.len() as f64 / (*steps - 1) as f64);
        if event == Event::BackwardCompleted {
            return Ok(cx.host.set_learning_rate(rate)?);
        }
        let loss = cx.host.output("loss")?;
        let smoothed = curve.last().map_or(loss, |(_, last)| *smooth * loss + (1.0 - *smooth) * *last);
        let lowest = curve.iter().map(|(_, loss)| *loss).fold(f64::INFINITY, f64::min);
        if smoothed.is_finite() && smoothed <= 5.0 * lowest {
            curve.push((rate, smoothed));
            if (curve.len() as u64) < *steps {
                return Ok(());
            }
        }
        let lines: String = curve.iter().map(|(rate, loss)| format!("{rate:e},{loss}\n")).collect();
        cx.host.attach("curve.csv", &Attachment::File(format!("learning_rate,loss\n{lines}").as_bytes()))?;
        let none = || HandlerError::new("the loss does not fall: lower `from`, raise `to`, or give more `steps`");
        let rate = self.proposal().ok_or_else(none)?;
        cx.host.log(Level::Notice, &format!("{NAME}: the proposed learning rate is {rate:.2e}"));
        cx.host.terminate("the search for a learning rate is done");
        Ok(())
    }
}

export_plugin!(NAME, Options, LrFinder::new, needs: [CHANGES_RUN, FILES]);
