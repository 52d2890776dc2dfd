//! The difference between predictions of one image: `--uncertainty` of nnU-Net models.

use hearth_nnunet::{Axes3, Volume};
use hearth_recipe::{Outcome, RecipeError};

/// The running mean and variance of the foreground's probability over predictions of one image, by Welford's
/// method.
///
/// The results match MONAI's `TestTimeAugmentation`: the standard deviation of each voxel, and the
/// volume variation coefficient, which is the standard deviation of all values divided by their
/// mean; both are those of a sample (n - 1).
#[derive(Default)]
pub(crate) struct Spread {
    count: u32,
    shape: Axes3,
    mean: Vec<f32>,
    squares: Vec<f32>,
    sums: Vec<f64>,
    sum_of_squares: f64,
}

/// The differences between predictions of an image.
pub(crate) struct Spreading {
    /// The standard deviation `[1, z, y, x]`.
    pub std: Volume,
    /// The volume variation coefficient; 0 for an empty foreground.
    pub vvc: f64,
    /// The sum of each prediction: its expected number of voxels.
    pub sums: Vec<f64>,
}

impl Spread {
    /// Adds a prediction: probabilities of each head `[head, z, y, x]`, the background of labels first.
    pub fn add(&mut self, probabilities: &Volume, regions: bool) {
        let voxels = probabilities.voxels();
        let heads = || probabilities.data.chunks(voxels.max(1));
        let foreground: Vec<f32> = match regions {
            false => heads().next().into_iter().flatten().map(|background| 1.0 - background).collect(),
            true => heads().fold(vec![0.0_f32; voxels], |mut most, head| {
                most.iter_mut().zip(head).for_each(|(most, value)| *most = most.max(*value));
                most
            }),
        };
        if self.count == 0 {
            self.shape = probabilities.shape;
            self.mean = vec![0.0; voxels];
            self.squares = vec![0.0; voxels];
        }
        self.count += 1;
        self.sums.push(foreground.iter().map(|value| f64::from(*value)).sum());
        for value in foreground.iter().map(|value| f64::from(*value)) {
            self.sum_of_squares += value * value;
        }
        let share = 1.0 / self.count as f32;
        for ((mean, square), value) in self.mean.iter_mut().zip(&mut self.squares).zip(foreground) {
            let before = value - *mean;
            *mean += before * share;
            *square += before * (value - *mean);
        }
    }

    /// The differences between the predictions.
    ///
    /// # Errors
    /// Fewer than two predictions.
    pub fn finish(self) -> Outcome<Spreading> {
        if self.count < 2 {
            return Err(RecipeError::new("--uncertainty needs at least two predictions of an image"));
        }
        let less = self.count as f32 - 1.0;
        let mut std = Volume::zeros(1, self.shape);
        for (std, square) in std.data.iter_mut().zip(&self.squares) {
            *std = (square / less).sqrt();
        }
        let values = f64::from(self.count) * self.squares.len() as f64;
        let mean = self.sums.iter().sum::<f64>() / values;
        let variance = (self.sum_of_squares - values * mean * mean).max(0.0) / (values - 1.0);
        let vvc = if mean > 0.0 { variance.sqrt() / mean } else { 0.0 };
        Ok(Spreading { std, vvc, sums: self.sums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f32], channels: usize) -> Volume {
        let mut volume = Volume::zeros(channels, [1, 1, values.len() / channels]);
        volume.data.copy_from_slice(values);
        volume
    }

    #[test]
    fn it_is_the_deviation_of_a_sample() {
        let mut spread = Spread::default();
        // Backgrounds 1, 0.5 and 0.8, 0.1: foregrounds 0, 0.5 and 0.2, 0.9.
        spread.add(&of(&[1.0, 0.5, 0.0, 0.5], 2), false);
        spread.add(&of(&[0.8, 0.1, 0.2, 0.9], 2), false);
        let Spreading { std, vvc, sums } = spread.finish().expect("two predictions");
        assert!((sums[0] - 0.5).abs() < 1e-6 && (sums[1] - 1.1).abs() < 1e-6, "{sums:?}");
        for (found, wanted) in std.data.iter().zip([0.1, 0.2].map(|half: f32| half * 2.0_f32.sqrt())) {
            assert!((found - wanted).abs() < 1e-6, "{found}");
        }
        // 0, 0.5, 0.2, 0.9: mean 0.4, squares of differences 0.46.
        assert!((vvc - (0.46_f64 / 3.0).sqrt() / 0.4).abs() < 1e-6, "{vvc}");
    }

    #[test]
    fn regions_count_by_the_likeliest() {
        let mut spread = Spread::default();
        spread.add(&of(&[0.2, 0.6], 2), true);
        spread.add(&of(&[0.4, 0.0], 2), true);
        let Spreading { std, .. } = spread.finish().expect("two predictions");
        assert!((std.data[0] - 0.1 * 2.0_f32.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn one_prediction_has_no_deviation() {
        let mut spread = Spread::default();
        spread.add(&of(&[1.0, 0.0], 2), false);
        assert!(spread.finish().is_err());
    }
}
