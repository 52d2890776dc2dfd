//! Keeps small gradients alive in fp16: [`GradScaler`].

use serde::{Deserialize, Serialize};

/// A gradient scaler as `torch.amp.GradScaler`: the loss is multiplied by `scale` before the backward pass and the
/// gradients divided by it after. A step with a gradient that is not finite is left out and the scale halved; after
/// `growth_interval` good steps in a row it is doubled.
///
/// Micikevicius et al., *Mixed Precision Training*, ICLR 2018 (<https://arxiv.org/abs/1710.03740>), section 3.2.
///
/// ```
/// let mut scaler = hearth_train::GradScaler::default();
/// assert_eq!(scaler.scale(), 65536.0);
/// scaler.update(false); // infinite gradients
/// assert_eq!(scaler.scale(), 32768.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradScaler {
    scale: f64,
    growth_factor: f64,
    backoff_factor: f64,
    growth_interval: u32,
    /// Good steps since the scale last changed.
    good_steps: u32,
}

impl Default for GradScaler {
    fn default() -> Self {
        Self { scale: 65_536.0, growth_factor: 2.0, backoff_factor: 0.5, growth_interval: 2000, good_steps: 0 }
    }
}

impl GradScaler {
    /// What the loss is multiplied by in this step.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Good steps since the scale last changed.
    pub fn good_steps(&self) -> u32 {
        self.good_steps
    }

    /// Takes note of a step: `finite` says whether every gradient was finite.
    pub fn update(&mut self, finite: bool) {
        if !finite {
            self.scale *= self.backoff_factor;
            self.good_steps = 0;
            return;
        }
        self.good_steps += 1;
        if self.good_steps == self.growth_interval {
            self.good_steps = 0;
            // As torch does: a scale that would overflow f32 stays.
            let grown = self.scale * self.growth_factor;
            if (grown as f32).is_finite() {
                self.scale = grown;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_after_2000_good_steps_and_halves_after_a_bad_one() {
        let mut scaler = GradScaler::default();
        (0..1999).for_each(|_| scaler.update(true));
        assert_eq!((scaler.scale(), scaler.good_steps()), (65_536.0, 1999));
        scaler.update(true);
        assert_eq!((scaler.scale(), scaler.good_steps()), (131_072.0, 0));
        (0..1999).for_each(|_| scaler.update(true));
        scaler.update(false);
        assert_eq!((scaler.scale(), scaler.good_steps()), (65_536.0, 0), "a bad step starts the count anew");
        (0..2000).for_each(|_| scaler.update(true));
        assert_eq!(scaler.scale(), 131_072.0);
    }

    #[test]
    fn stays_finite_in_f32() {
        let mut scaler = GradScaler { scale: 2_f64.powi(127), growth_interval: 1, ..GradScaler::default() };
        scaler.update(true);
        assert_eq!(scaler.scale(), 2_f64.powi(127));
    }

    #[test]
    fn survives_being_written_down() {
        let mut scaler = GradScaler::default();
        scaler.update(false);
        scaler.update(true);
        let json = serde_json::to_string(&scaler).expect("a scaler is plain numbers");
        assert_eq!(serde_json::from_str::<GradScaler>(&json).expect("what was written"), scaler);
    }
}
