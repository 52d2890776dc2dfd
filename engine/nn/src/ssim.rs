//! Structural similarity per window, for the loss and the metrics.

use burn::tensor::Tensor;
use hearth_kernels::conv3d::{ConvShape, conv3d};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layers::Axes;

/// The weights of the voxels of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KernelType {
    /// Weights that decrease towards the edges.
    #[default]
    Gaussian,
    /// Equal weights.
    Uniform,
}

/// The longest axis of a window.
const MOST: usize = 1 << 16;

/// The resolved options.
#[derive(Clone, Debug)]
pub(crate) struct Ssim {
    spatial_dims: usize,
    /// The weights of a window along each axis.
    taps: [Vec<f32>; 3],
    c1: f64,
    c2: f64,
}

impl Ssim {
    /// Checks and resolves the options. The error is a message.
    pub(crate) fn new(
        spatial_dims: usize,
        (kernel, size, sigma): (KernelType, &Axes<usize>, &Axes<f64>),
        [k1, k2]: [f64; 2],
        data_range: f64,
    ) -> Result<Self, String> {
        if !matches!(spatial_dims, 2 | 3) {
            return Err(format!("spatial_dims is {spatial_dims}: expected 2 or 3"));
        }
        let size = size.resolve("win_size", spatial_dims, 1).map_err(|e| e.to_string())?;
        let sigma = sigma.resolve("kernel_sigma", spatial_dims, 1.0).map_err(|e| e.to_string())?;
        if size.iter().any(|length| !(1..=MOST).contains(length)) {
            return Err(format!("win_size is {size:?}: expected 1 to {MOST} per axis"));
        }
        if sigma.iter().any(|sigma| !(sigma.is_finite() && *sigma > 0.0)) {
            return Err(format!("kernel_sigma is {sigma:?}: expected numbers above 0"));
        }
        for (name, value) in [("data_range", data_range), ("k1", k1), ("k2", k2)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{name} is {value}: expected a number above 0"));
            }
        }
        let taps = std::array::from_fn(|axis| match kernel {
            KernelType::Uniform => vec![1.0 / size[axis] as f32; size[axis]],
            KernelType::Gaussian => gaussian(size[axis], sigma[axis] as f32),
        });
        Ok(Ssim { spatial_dims, taps, c1: (k1 * data_range).powi(2), c2: (k2 * data_range).powi(2) })
    }

    /// Checks that windows fit into images of this shape. The error is a message.
    pub(crate) fn check_shape(&self, shape: [usize; 5]) -> Result<(), String> {
        if self.spatial_dims == 2 && shape[4] != 1 {
            return Err("spatial_dims 2 needs two-dimensional images (z = 1)".to_owned());
        }
        let size = self.taps.each_ref().map(Vec::len);
        match (0..3).any(|axis| shape[2 + axis] < size[axis]) {
            true => Err(format!("a window of {size:?} voxels has to fit into the image")),
            false => Ok(()),
        }
    }

    /// Similarity and contrast of every window, `[b, c, x', y', z']`.
    pub(crate) fn maps(&self, x: Tensor<5>, y: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
        let mean_x = self.mean(x.clone());
        let mean_y = self.mean(y.clone());
        let (xx, yy, xy) = (x.clone() * x.clone(), y.clone() * y.clone(), x * y);
        let squares = mean_x.clone() * mean_x.clone() + mean_y.clone() * mean_y.clone();
        let product = mean_x * mean_y;
        let variances = self.mean(xx) + self.mean(yy) - squares.clone();
        let covariance = self.mean(xy) - product.clone();
        let contrast = (covariance * 2.0 + self.c2) / (variances + self.c2);
        let similarity = (product * 2.0 + self.c1) / (squares + self.c1) * contrast.clone();
        (similarity, contrast)
    }

    /// The weighted mean of every window that lies completely in the image.
    fn mean(&self, x: Tensor<5>) -> Tensor<5> {
        let [b, c, nx, ny, nz] = x.dims();
        let device = x.device();
        let mut x = x.reshape([b * c, 1, nx, ny, nz]);
        for (axis, taps) in self.taps.iter().enumerate() {
            if taps.len() == 1 {
                continue;
            }
            let mut kernel = [1; 5];
            kernel[2 + axis] = taps.len();
            let kernel = Tensor::<1>::from_floats(taps.as_slice(), &device).reshape(kernel);
            x = conv3d(x, kernel, None, ConvShape::default());
        }
        let [_, _, nx, ny, nz] = x.dims();
        x.reshape([b, c, nx, ny, nz])
    }
}

fn gaussian(size: usize, sigma: f32) -> Vec<f32> {
    let centre = (size as f32 - 1.0) / 2.0;
    let line: Vec<f32> = (0..size).map(|i| (-((i as f32 - centre) / sigma).powi(2) / 2.0).exp()).collect();
    let sum: f32 = line.iter().sum();
    line.iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_no_image_has_are_refused() {
        let of = |size: usize| {
            let (size, sigma) = (Axes::All(size), Axes::All(1.5));
            Ssim::new(3, (KernelType::Gaussian, &size, &sigma), [0.01, 0.03], 1.0).map(drop)
        };
        assert_eq!(of(11), Ok(()));
        for size in [0, MOST + 1, usize::MAX] {
            assert!(of(size).is_err_and(|error| error.contains("expected 1 to 65536")), "{size}");
        }
    }
}
