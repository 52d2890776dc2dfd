//! Gradients of a class's score with respect to the image: [`VanillaGrad`], [`SmoothGrad`].

use burn::tensor::{DType, Tensor, TensorData};
use derive_setters::Setters;
use hearth_kernels::counter_rng::Key;

use super::{VisualizeError, differentiable, score};
use crate::networks::Network;

/// `monai.visualize.VanillaGrad` (Simonyan et al., <https://arxiv.org/abs/1312.6034>): the gradient of the
/// class's score.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::DenseNetConfig;
/// # use hearth_nn::visualize::VanillaGrad;
/// let config = DenseNetConfig { block_config: Some(vec![2, 2]), init_features: 8, ..DenseNetConfig::new(2, 1, 3) };
/// let net = config.init(&Device::default(), 0)?;
/// let image = Tensor::ones([1, 1, 16, 16, 1], &Device::default());
/// assert_eq!(VanillaGrad::default().map(&net, image)?.dims(), [1, 1, 16, 16, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Setters)]
#[setters(strip_option)]
pub struct VanillaGrad {
    /// The class; by default the one with the highest score.
    pub class_idx: Option<usize>,
}

impl VanillaGrad {
    /// Computes the gradient `[b, c, x, y, z]` for images of that shape.
    ///
    /// # Errors
    /// Fails for images that the network does not accept, outputs that are no scores of classes, and a class
    /// that does not exist.
    pub fn map<N: Network>(&self, net: &N, x: Tensor<5>) -> Result<Tensor<5>, VisualizeError> {
        net.check_input(x.dims())?;
        self.gradient(net.name(), &differentiable(net), x)
    }

    fn gradient<N: Network>(&self, network: &'static str, net: &N, x: Tensor<5>) -> Result<Tensor<5>, VisualizeError> {
        let image = x.dims();
        let leaf = x.without_autodiff().cast(DType::F32).autodiff().require_grad();
        let gradients = score(net.forward(leaf.clone()), image, self.class_idx)?.sum().backward();
        let independent = || VisualizeError::Independent { network, what: "the image".to_owned() };
        leaf.grad(&gradients).ok_or_else(independent)
    }
}

/// `monai.visualize.SmoothGrad` (Smilkov et al., <https://arxiv.org/abs/1706.03825>): the mean of the
/// gradients of noisy copies of the image.
#[derive(Clone, Copy, Debug, PartialEq, Setters)]
#[setters(strip_option)]
pub struct SmoothGrad {
    /// The class; by default the one with the highest score.
    pub class_idx: Option<usize>,
    /// The deviation of the noise, as a share of the range of the image's values.
    pub stdev_spread: f64,
    /// Number of noisy copies.
    pub n_samples: usize,
    /// Whether gradients are squared, and their sum's root is taken.
    pub magnitude: bool,
    /// The seed of the noise.
    pub seed: u64,
}

impl Default for SmoothGrad {
    fn default() -> Self {
        Self { class_idx: None, stdev_spread: 0.15, n_samples: 25, magnitude: true, seed: 0 }
    }
}

impl SmoothGrad {
    /// Computes the map `[b, c, x, y, z]` for images of that shape.
    ///
    /// # Errors
    /// As [`VanillaGrad::map`], and for invalid options.
    pub fn map<N: Network>(&self, net: &N, x: Tensor<5>) -> Result<Tensor<5>, VisualizeError> {
        let invalid =
            |name, value: String, expected: &str| VisualizeError::Option { name, value, expected: expected.to_owned() };
        if self.n_samples == 0 {
            return Err(invalid("n_samples", "0".to_owned(), "give at least 1"));
        }
        if !(self.stdev_spread.is_finite() && self.stdev_spread >= 0.0) {
            return Err(invalid("stdev_spread", self.stdev_spread.to_string(), "give 0 or more"));
        }
        net.check_input(x.dims())?;
        let (name, net) = (net.name(), differentiable(net));
        let x = x.without_autodiff().cast(DType::F32);
        let range: f32 = (x.clone().max() - x.clone().min()).into_scalar();
        let (stdev, shape) = (self.stdev_spread * f64::from(range), x.dims());
        let plain = VanillaGrad { class_idx: self.class_idx };
        let count = shape.iter().product::<usize>() as u64;
        let mut sum = x.zeros_like();
        for sample in 0..self.n_samples {
            let key = Key::new(self.seed).with_text("smooth grad").with(sample as u64);
            let noise: Vec<f32> = (0..count).map(|i| (stdev * key.normal(i)) as f32).collect();
            let noise = Tensor::<5>::from_data(TensorData::new(noise, shape), &x.device());
            let gradient = plain.gradient(name, &net, x.clone() + noise)?;
            sum = sum + if self.magnitude { gradient.square() } else { gradient };
        }
        Ok(if self.magnitude { sum.sqrt() } else { sum } / self.n_samples as f64)
    }
}
