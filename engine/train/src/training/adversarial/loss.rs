//! What two networks that compete want: [`AdversarialLoss`].

use burn::tensor::{DType, Tensor};
use hearth_nn::losses::{LossError, PatchAdversarialLoss};
use hearth_nn::networks::Network;

/// What the discriminator says of images `[b, c, x, y, z]`, at one scale or several: its main
/// output, and those behind it.
pub type Judge<'a> = dyn Fn(Tensor<5>) -> Vec<Tensor<5>> + 'a;

/// What this discriminator says, in f32.
pub(crate) fn judgements<D: Network>(network: &D) -> impl Fn(Tensor<5>) -> Vec<Tensor<5>> + '_ {
    // What stands before the main output are features; what stands behind it are other scales.
    |x| network.forward_all(x).into_iter().skip(network.main_output()).map(|y| y.cast(DType::F32)).collect()
}

/// The losses of generator and discriminator; both ask the discriminator by `judge`. More than one
/// value is averaged.
pub trait AdversarialLoss: Send + Sync {
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
