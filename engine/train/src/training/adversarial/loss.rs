//! What two networks that compete want: [`AdversarialLoss`].

use burn::tensor::Tensor;
use hearth_nn::losses::{LossError, PatchAdversarialLoss};

/// What the discriminator says of images `[b, c, x, y, z]`, at one scale or several: its main
/// output, and those behind it.
pub type Judge<'a> = dyn Fn(Tensor<5>) -> Vec<Tensor<5>> + 'a;

/// The losses of generator and discriminator; both ask the discriminator by `judge`. More than one
/// value is averaged.
pub trait AdversarialLoss: Send {
    /// What the generator makes smaller (MONAI's `g_loss_function`), `[1]`.
    ///
    /// # Errors
    /// For values that it cannot work with.
    fn generator(&self, fakes: Tensor<5>, judge: &Judge<'_>) -> Result<Tensor<1>, LossError>;

    /// What the discriminator makes smaller (MONAI's `d_loss_function`), `[1]`. `fakes` have no
    /// gradient.
    ///
    /// # Errors
    /// For values that it cannot work with.
    fn discriminator(&self, fakes: Tensor<5>, reals: Tensor<5>, judge: &Judge<'_>) -> Result<Tensor<1>, LossError>;
}

/// The discriminator's is the mean of what it says of real images and of generated ones.
impl AdversarialLoss for PatchAdversarialLoss {
    fn generator(&self, fakes: Tensor<5>, judge: &Judge<'_>) -> Result<Tensor<1>, LossError> {
        self.forward(&judge(fakes), true, false)
    }

    fn discriminator(&self, fakes: Tensor<5>, reals: Tensor<5>, judge: &Judge<'_>) -> Result<Tensor<1>, LossError> {
        let real = self.forward(&judge(reals), true, true)?;
        let fake = self.forward(&judge(fakes), false, true)?;
        Ok((real.mean() + fake.mean()) / 2.0)
    }
}
