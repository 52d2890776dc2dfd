//! The losses of two competing networks: [`AdversarialLoss`].

use burn::tensor::{DType, Tensor};
use hearth_nn::losses::{LossError, PatchAdversarialLoss};
use hearth_nn::networks::Network;

/// The discriminator's judgement of images `[b, c, x, y, z]`, at one scale or several: its main
/// output, and those after it.
pub type Judge<'a> = dyn Fn(Tensor<5>) -> Vec<Tensor<5>> + 'a;

/// The judgements of this discriminator, in f32.
pub(crate) fn judgements<D: Network>(network: &D) -> impl Fn(Tensor<5>) -> Vec<Tensor<5>> + '_ {
    // Outputs before the main one are features; outputs after it are other scales.
    |x| network.forward_all(x).into_iter().skip(network.main_output()).map(|y| y.cast(DType::F32)).collect()
}

/// The losses of generator and discriminator; both call the discriminator through `judge`. More
/// than one value is averaged.
pub trait AdversarialLoss: Send + Sync {
    /// The loss that the generator minimizes (MONAI's `g_loss_function`), `[1]`.
    ///
    /// # Errors
    /// For values that the loss does not accept.
    fn generator(&self, fakes: Tensor<5>, judge: &Judge<'_>) -> Result<Tensor<1>, LossError>;

    /// The loss that the discriminator minimizes (MONAI's `d_loss_function`), `[1]`. `fakes` have
    /// no gradient.
    ///
    /// # Errors
    /// For values that the loss does not accept.
    fn discriminator(&self, fakes: Tensor<5>, reals: Tensor<5>, judge: &Judge<'_>) -> Result<Tensor<1>, LossError>;
}

/// The discriminator's loss is the mean of its losses for real and for generated images.
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
