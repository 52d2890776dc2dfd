//! The random numbers that images are generated from: [`Latents`].

use burn::tensor::{Device, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;

/// The shape of an image's latent numbers. They are drawn from the normal distribution, as a
/// function of the key and their position only.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_train::Latents;
/// let latents = Latents::new(&[64])?;
/// let drawn = latents.draw(7, &[1, 2], 3, &Device::default());
/// assert_eq!(drawn.dims(), [3, 64, 1, 1, 1]);
/// # Ok::<(), hearth_train::TrainerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latents {
    shape: [usize; 4],
}

impl Latents {
    /// Makes latent numbers of this shape, without the batch: one to four axes. Missing axes are
    /// appended with length 1.
    ///
    /// # Errors
    /// For no axis, more than four, or an empty one.
    pub fn new(shape: &[usize]) -> Result<Self, crate::TrainerError> {
        if shape.is_empty() || shape.len() > 4 || shape.contains(&0) {
            return Err(crate::TrainerError::LatentShape { shape: shape.to_vec() });
        }
        let mut whole = [1; 4];
        whole[..shape.len()].copy_from_slice(shape);
        Ok(Self { shape: whole })
    }

    /// The shape of a batch, `[batch, channel, x, y, z]`.
    pub fn batch(&self, count: usize) -> [usize; 5] {
        let [c, x, y, z] = self.shape;
        [count, c, x, y, z]
    }

    /// Draws a batch, [`batch(count)`](Self::batch), keyed by a seed and further numbers, in their order.
    pub fn draw(&self, seed: u64, key: &[u64], count: usize, device: &Device) -> Tensor<5> {
        self.draw_part(seed, key, count, (0, 1), device)
    }

    /// Draws the part of `(rank, world)` in a batch that is `world` times as large: every
    /// `world`-th item.
    pub(crate) fn draw_part(
        &self,
        seed: u64,
        key: &[u64],
        count: usize,
        (rank, world): (u32, u32),
        device: &Device,
    ) -> Tensor<5> {
        let key = key.iter().fold(Key::new(seed).with_text("latents"), |key, part| key.with(*part));
        let shape = self.batch(count);
        let each = shape[1..].iter().product::<usize>() as u64;
        let of_item = |item: u64| (item * u64::from(world) + u64::from(rank)) * each;
        let places = (0..count as u64).flat_map(|item| of_item(item)..of_item(item) + each);
        let values: Vec<f32> = places.map(|place| key.normal(place) as f32).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_normal_and_their_key_alone_decides() {
        let (latents, device) = (Latents::new(&[50, 4]).expect("a shape"), Device::flex());
        let values = |seed, key: &[u64], count| {
            latents.draw(seed, key, count, &device).try_into_vec_as::<f32>().expect("numbers")
        };
        let many = values(1, &[2, 3, 0], 200);
        assert_eq!(many, values(1, &[2, 3, 0], 200));
        // A smaller batch is the start of a larger one.
        assert_eq!(many[..400], values(1, &[2, 3, 0], 2));
        for other in [values(2, &[2, 3, 0], 200), values(1, &[3, 2, 0], 200), values(1, &[2, 3, 1], 200)] {
            assert_eq!(many.iter().zip(&other).filter(|(a, b)| a == b).count(), 0);
        }
        let moment = |p: i32| many.iter().map(|v| f64::from(*v).powi(p)).sum::<f64>() / many.len() as f64;
        // Five standard deviations of each estimate, of 40000 numbers.
        for (p, expected, deviation) in [(1, 0.0, 1.0_f64), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let error = (moment(p) - expected).abs();
            assert!(error < 5.0 * (deviation / many.len() as f64).sqrt(), "moment {p} is off by {error}");
        }
    }

    #[test]
    fn a_shape_that_is_none_is_an_error() {
        for shape in [&[][..], &[4, 0], &[1, 1, 1, 1, 1]] {
            let error = Latents::new(shape).expect_err("no shape").to_string();
            assert!(error.contains("latent_shape") && error.contains(&format!("{shape:?}")), "{error}");
        }
    }
}
