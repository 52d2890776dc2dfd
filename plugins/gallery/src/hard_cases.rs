//! A Hearth plugin with a sampler that draws cases with a high loss more often (as Loshchilov & Hutter 2015, "Online
//! batch selection for faster training of neural networks").

use hearth_plugin::component::{Draw, Epoch, Sampler};
use hearth_plugin::{Fault, HandlerError, export_components, options};

options! {
    /// Options of `ByLoss` in a recipe.
    pub struct ByLossOptions {
        /// A case's weight is its last loss to this power; with 0 all weights are equal.
        power: f64 = 1.0,
        /// The part of an epoch that is drawn by weight; in the other part no case occurs twice.
        share: f64 = 0.5,
    }
}

/// Draws cases by their last loss. A case without one counts as the mean of the others.
pub struct ByLoss(ByLossOptions);

impl ByLoss {
    /// The sampler with these options; fails if one is out of its range.
    pub fn new(options: ByLossOptions) -> Result<Self, Fault> {
        match options {
            ByLossOptions { power, .. } if !(0.0..=8.0).contains(&power) => Err(Fault::at("power", "give 0 to 8")),
            ByLossOptions { share, .. } if !(0.0..=1.0).contains(&share) => Err(Fault::at("share", "give 0 to 1")),
            options => Ok(Self(options)),
        }
    }
}

impl Sampler for ByLoss {
    fn order(&self, epoch: &Epoch<'_>, mut draw: Draw) -> Result<Vec<usize>, HandlerError> {
        let count = epoch.cases.len();
        let mut order: Vec<usize> = (0..count).collect();
        draw.shuffle(&mut order);
        order.truncate(count - (self.0.share * count as f64).round() as usize);

        let loss = |case: &String| epoch.losses.get(case).copied().filter(|loss| loss.is_finite());
        let known: Vec<f64> = epoch.cases.iter().filter_map(loss).collect();
        let mean = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
        let relative = |case| if mean > 0.0 { loss(case).unwrap_or(mean).max(0.0) / mean } else { 1.0 };
        let mut total = 0.0;
        let sums = epoch.cases.iter().map(|case| {
            total += relative(case).powf(self.0.power);
            total
        });
        let sums: Vec<f64> = sums.collect();
        while order.len() < count {
            let at = draw.between(0.0, total);
            order.push(sums.partition_point(|sum| *sum <= at).min(count - 1));
        }
        draw.shuffle(&mut order);
        Ok(order)
    }
}

export_components!("hard-cases", needs: [], {
    "Cases with a high loss more often." sampler ByLoss(ByLossOptions) = ByLoss::new;
});
