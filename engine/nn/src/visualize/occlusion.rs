//! The change of a network's answer where a part of the image is hidden: [`OcclusionSensitivity`].

use burn::tensor::{DType, Tensor, TensorData};
use derive_setters::Setters;

use super::VisualizeError;
use crate::inferers::{dense_patch_slices, scan_interval};
use crate::layers::Axes;

/// The content of the hidden part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Occlusion {
    /// Values fade to 0 towards the middle of the part, by a Gaussian.
    #[default]
    Gaussian,
    /// The mean of the image.
    MeanImage,
    /// The mean of the part.
    MeanPatch,
    /// A number.
    Constant(f32),
}

/// `monai.visualize.OcclusionSensitivity` (Zeiler and Fergus, <https://arxiv.org/abs/1311.2901>): the
/// scores of the image with a part of it hidden, for every voxel the mean over the parts that include it. A
/// voxel that supports a class has a low score of the class.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::visualize::{Occlusion, OcclusionSensitivity};
/// let image = Tensor::<5>::ones([1, 1, 4, 4, 1], &Device::default());
/// // The score is the value of one voxel, so that it falls where this voxel is hidden.
/// let corner = |x: Tensor<5>| x.narrow(2, 0, 1).narrow(3, 0, 1);
/// let hide = OcclusionSensitivity::default().mask_size(2_usize).overlap(0.0).mode(Occlusion::Constant(0.0));
/// let map = hide.scores(image, &corner)?;
/// let expected = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [1.0; 4], [1.0; 4]].concat();
/// assert_eq!(map.into_data().iter::<f32>().collect::<Vec<_>>(), expected);
/// # Ok::<(), hearth_nn::visualize::VisualizeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Setters)]
pub struct OcclusionSensitivity {
    /// The size of the hidden part in voxels.
    #[setters(into)]
    pub mask_size: Axes,
    /// Number of images with a hidden part that are predicted at once.
    pub n_batch: usize,
    /// The content of the hidden part.
    pub mode: Occlusion,
    /// The share of a part that overlaps the next one.
    pub overlap: f64,
}

impl Default for OcclusionSensitivity {
    fn default() -> Self {
        Self { mask_size: Axes::All(16), n_batch: 16, mode: Occlusion::Gaussian, overlap: 0.25 }
    }
}

impl OcclusionSensitivity {
    /// Computes the map `[1, classes, x, y, z]` for an image `[1, c, x, y, z]`. `net` returns scores
    /// `[b, classes, 1, 1, 1]`; MONAI's apply a softmax, or for a single class a sigmoid.
    ///
    /// # Errors
    /// Fails for several images, a part that is larger than the image, invalid options, and outputs that are
    /// no scores.
    pub fn scores(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, VisualizeError> {
        let [items, channels, size @ ..] = x.dims();
        let mask = self.mask(items, size)?;
        let x = x.without_autodiff().cast(DType::F32);
        let device = x.device();
        let windows = dense_patch_slices(&size, &mask, &scan_interval(size, mask, [self.overlap; 3]));
        let mean = x.clone().mean();
        let fade = Tensor::<5>::from_data(TensorData::new(fade(mask), [1, 1, mask[0], mask[1], mask[2]]), &device);
        let place = |window: &[[usize; 2]]| {
            [0..1, 0..channels, window[0][0]..window[0][1], window[1][0]..window[1][1], window[2][0]..window[2][1]]
        };
        let (mut sum, mut count): (Option<Tensor<5>>, _) =
            (None, Tensor::<5>::zeros([1, 1, size[0], size[1], size[2]], &device));
        for group in windows.chunks(self.n_batch) {
            let hidden = |window: &Vec<[usize; 2]>| {
                let part = x.clone().slice(place(window));
                let one = |value: Tensor<1>| value.reshape([1, 1, 1, 1, 1]).expand(part.dims());
                let content = match self.mode {
                    Occlusion::Gaussian => part.clone() * fade.clone(),
                    Occlusion::MeanImage => one(mean.clone()),
                    Occlusion::MeanPatch => one(part.clone().mean()),
                    Occlusion::Constant(value) => part.full_like(value),
                };
                x.clone().slice_assign(place(window), content)
            };
            let images = Tensor::cat(group.iter().map(hidden).collect(), 0);
            let image = images.dims();
            let scores = net(images).cast(DType::F32);
            let got = scores.dims();
            if got[0] != image[0] || got[1] == 0 || got[2..] != [1; 3] {
                return Err(VisualizeError::Scores { image, got });
            }
            let [_, classes, ..] = got;
            let mut all = sum.take().unwrap_or_else(|| Tensor::zeros([1, classes, size[0], size[1], size[2]], &device));
            for (index, window) in group.iter().enumerate() {
                let [x, y, z] = [0, 1, 2].map(|axis| window[axis][0]..window[axis][1]);
                let of_window = scores.clone().narrow(0, index, 1);
                let (there, ones) = ([0..1, 0..classes, x.clone(), y.clone(), z.clone()], [0..1, 0..1, x, y, z]);
                let before = all.clone().slice(there.clone());
                let shape = before.dims();
                all = all.slice_assign(there, before + of_window.expand(shape));
                let before = count.clone().slice(ones.clone());
                count = count.slice_assign(ones, before + 1.0);
            }
            sum = Some(all);
        }
        let sum = sum.ok_or(VisualizeError::Scores { image: x.dims(), got: [0; 5] })?;
        Ok(sum / count)
    }

    /// The size of the hidden part, if it fits the image.
    fn mask(&self, items: usize, size: [usize; 3]) -> Result<[usize; 3], VisualizeError> {
        let invalid = |name, value: String, expected: String| VisualizeError::Option { name, value, expected };
        if items != 1 {
            return Err(invalid("the batch", format!("{items} images"), "give a single image".to_owned()));
        }
        if self.n_batch == 0 {
            return Err(invalid("n_batch", "0".to_owned(), "give at least 1".to_owned()));
        }
        if !(0.0..1.0).contains(&self.overlap) {
            return Err(invalid("overlap", self.overlap.to_string(), "give at least 0 and less than 1".to_owned()));
        }
        let dims = if size[2] == 1 { 2 } else { 3 };
        let wrong = |expected: String| invalid("mask_size", format!("{:?}", self.mask_size), expected);
        let mask = self.mask_size.resolve("mask_size", dims, 1).map_err(|error| wrong(error.to_string()))?;
        if mask.iter().zip(size).any(|(mask, size)| *mask == 0 || *mask > size) {
            return Err(wrong(format!("give at least 1 voxel and at most the image's {size:?}")));
        }
        Ok(mask)
    }
}

/// The factors of [`Occlusion::Gaussian`]: 0 in the middle and 1 where the Gaussian is lowest. Its
/// deviation is a quarter of the part; as MONAI's `GaussianSmooth` it is integrated over voxels and cut
/// after four deviations.
fn fade(mask: [usize; 3]) -> Vec<f32> {
    let along = mask.map(|length| {
        let (middle, sigma) = (length / 2, length as f64 * 0.25);
        let reach = ((4.0 * sigma).max(0.5) + 0.5) as usize;
        let share = move |at: usize| {
            let x = at.abs_diff(middle);
            let end = |x: f64| erf(x / (sigma * std::f64::consts::SQRT_2));
            if x > reach { 0.0 } else { 0.5 * (end(x as f64 + 0.5) - end(x as f64 - 0.5)) }
        };
        (0..length).map(share).collect::<Vec<f64>>()
    });
    let [xs, ys, zs] = &along;
    let product = |x: &f64| ys.iter().flat_map(move |y| zs.iter().map(move |z| x * y * z)).collect::<Vec<f64>>();
    let gaussian: Vec<f64> = xs.iter().flat_map(product).collect();
    let low = gaussian.iter().copied().fold(f64::INFINITY, f64::min);
    let high = gaussian.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = high - low;
    gaussian.into_iter().map(|value| if range > 0.0 { ((high - value) / range) as f32 } else { 0.0 }).collect()
}

/// The error function by its series, for |x| of a few deviations.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_hidden_and_the_corner_stays() {
        // Of 4 voxels with a deviation of 1, along one axis: the integrals of a normal distribution.
        let along = [0.060_598, 0.241_730, 0.382_925, 0.241_730];
        for (found, share) in fade([4, 1, 1]).into_iter().zip(along) {
            let expected = (along[2] - share) / (along[2] - along[0]);
            assert!((f64::from(found) - expected).abs() < 1e-5, "{found} {expected}");
        }
        assert!((erf(0.5) - 0.520_499_877_8).abs() < 1e-10 && (erf(-3.0) + 0.999_977_909_5).abs() < 1e-10);
    }
}
