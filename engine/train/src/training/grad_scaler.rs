//! Prevents small gradients from vanishing in fp16: [`GradScaler`].

use burn::tensor::{Bool, DType, Device, Tensor};
use serde::{Deserialize, Serialize};

/// A gradient scaler as `torch.amp.GradScaler`: the loss is multiplied by `scale` before the
/// backward pass and the gradients divided by it after. A step with a non-finite gradient is
/// skipped and the scale halved; after `growth_interval` good steps in a row it is doubled.
///
/// Micikevicius et al., *Mixed Precision Training*, ICLR 2018 (<https://arxiv.org/abs/1710.03740>),
/// section 3.2.
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
    /// The factor of the loss in this step.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Good steps since the scale last changed.
    pub fn good_steps(&self) -> u32 {
        self.good_steps
    }

    /// Records a step: `finite` says whether every gradient was finite.
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

/// The gradient scaler on the device: a step reads back neither the scale nor the decision. Used
/// with [`Optimizer::step_where`](hearth_nn::optim::Optimizer::step_where).
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_train::{DeviceScaler, GradScaler};
/// let mut scaler = DeviceScaler::new(GradScaler::default(), &Device::default());
/// let finite = Tensor::<1>::from_floats([f32::INFINITY], &Device::default()).is_finite();
/// scaler.update(&finite);
/// assert_eq!((scaler.read().0.scale(), scaler.read().1), (32768.0, 1));
/// ```
#[derive(Clone, Debug)]
pub struct DeviceScaler {
    options: GradScaler,
    /// Scale and good steps, `[1]`, f32, which holds powers of two and small counts exactly.
    scale: Tensor<1>,
    good_steps: Tensor<1>,
    /// The number of skipped steps, `[1]`, and how many of them were reported.
    left_out: Tensor<1>,
    told: u64,
}

impl DeviceScaler {
    /// Continues from this state; the device is without autodiff.
    pub fn new(options: GradScaler, device: &Device) -> Self {
        let number = |value: f64| Tensor::<1>::full([1], value, (device, DType::F32));
        let (scale, good_steps) = (number(options.scale), number(f64::from(options.good_steps)));
        DeviceScaler { options, scale, good_steps, left_out: number(0.0), told: 0 }
    }

    /// The factor of the loss in this step, `[1]`.
    pub fn scale(&self) -> Tensor<1> {
        self.scale.clone()
    }

    /// Records a step: `finite` (`[1]`) says whether every gradient was finite, as in
    /// [`GradScaler::update`].
    pub fn update(&mut self, finite: &Tensor<1, Bool>) {
        let GradScaler { growth_factor, backoff_factor, growth_interval, .. } = self.options;
        let counted = self.good_steps.clone() + 1.0;
        let full = counted.clone().equal_elem(f64::from(growth_interval));
        let grown = self.scale.clone() * growth_factor;
        let grows = full.clone().bool_and(grown.clone().is_finite());
        let good = self.scale.clone().mask_where(grows, grown);
        self.scale = (self.scale.clone() * backoff_factor).mask_where(finite.clone(), good);
        let bad = finite.clone().bool_not();
        self.good_steps = counted.mask_fill(full.bool_or(bad.clone()), 0.0);
        self.left_out = self.left_out.clone() + bad.float().cast(DType::F32);
    }

    /// Steps skipped since the last call, and the current scale; read back from the device.
    pub fn news(&mut self) -> (u64, f64) {
        let (now, left_out) = self.read();
        let new = left_out - std::mem::replace(&mut self.told, left_out);
        (new, now.scale)
    }

    /// The current state, and the number of skipped steps; read back from the device.
    pub fn read(&self) -> (GradScaler, u64) {
        let numbers = Tensor::cat(vec![self.scale.clone(), self.good_steps.clone(), self.left_out.clone()], 0);
        let mut numbers = numbers.into_data().iter::<f64>().collect::<Vec<_>>().into_iter();
        let mut next = || numbers.next().unwrap_or_default();
        let (scale, good_steps, left_out) = (next(), next() as u32, next() as u64);
        (GradScaler { scale, good_steps, ..self.options.clone() }, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_decides_as_the_host_does() {
        let device = Device::flex();
        let options = GradScaler { growth_interval: 3, scale: 2_f64.powi(125), ..GradScaler::default() };
        let (mut host, mut scaler) = (options.clone(), DeviceScaler::new(options, &device));
        let mut left_out = 0;
        // Long enough to grow to the largest scale that f32 holds, and to fall again.
        for step in 0..60 {
            let finite = !(step % 7 == 5 || step > 40);
            left_out += u64::from(!finite);
            host.update(finite);
            scaler.update(&Tensor::from_data([finite], &device));
            assert_eq!(scaler.read(), (host.clone(), left_out), "step {step}");
        }
    }

    #[test]
    fn grows_after_2000_good_steps_and_halves_after_a_bad_one() {
        let mut scaler = GradScaler::default();
        (0..1999).for_each(|_| scaler.update(true));
        assert_eq!((scaler.scale(), scaler.good_steps()), (65_536.0, 1999));
        scaler.update(true);
        assert_eq!((scaler.scale(), scaler.good_steps()), (131_072.0, 0));
        (0..1999).for_each(|_| scaler.update(true));
        scaler.update(false);
        assert_eq!((scaler.scale(), scaler.good_steps()), (65_536.0, 0), "a bad step resets the count");
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
