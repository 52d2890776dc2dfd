//! The difference between predictions of one image: `--uncertainty`.

use hearth_recipe::{Outcome, RecipeError};

/// The running mean and variance of the foreground's probability over predictions of one image, by Welford's
/// method, and the volumes of the labels that each prediction decides.
///
/// The results match MONAI's `TestTimeAugmentation`: the standard deviation of each voxel, and the
/// volume variation coefficient, which is the standard deviation of all values divided by their
/// mean; both are those of a sample (n - 1).
#[derive(Default)]
pub(crate) struct Spread {
    count: u32,
    mean: Vec<f32>,
    squares: Vec<f32>,
    sum: f64,
    sum_of_squares: f64,
    volumes_ml: Vec<Vec<f64>>,
}

/// The differences between predictions of an image.
pub(crate) struct Spreading {
    /// The standard deviation of each voxel.
    pub std: Vec<f32>,
    /// The volume variation coefficient; 0 for an empty foreground.
    pub vvc: f64,
    /// The volume of each label in millilitres, for each prediction.
    pub volumes_ml: Vec<Vec<f64>>,
}

impl Spread {
    /// Adds a prediction: the foreground's probability at each voxel, and the volume in millilitres of each
    /// label that it decides.
    ///
    /// # Errors
    /// A prediction of another size than the first.
    pub fn add(&mut self, foreground: &[f32], volumes_ml: Vec<f64>) -> Outcome {
        if self.count == 0 {
            self.mean = vec![0.0; foreground.len()];
            self.squares = vec![0.0; foreground.len()];
        }
        if self.mean.len() != foreground.len() {
            let (first, other) = (self.mean.len(), foreground.len());
            let what = format!("the predictions have {first} and {other} voxels");
            return Err(RecipeError::new(format!("--uncertainty compares predictions of one size; {what}")));
        }
        self.count += 1;
        self.volumes_ml.push(volumes_ml);
        for value in foreground.iter().map(|value| f64::from(*value)) {
            self.sum += value;
            self.sum_of_squares += value * value;
        }
        let share = 1.0 / self.count as f32;
        for ((mean, square), value) in self.mean.iter_mut().zip(&mut self.squares).zip(foreground) {
            let before = value - *mean;
            *mean += before * share;
            *square += before * (value - *mean);
        }
        Ok(())
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
        let std = self.squares.iter().map(|square| (square / less).sqrt()).collect();
        let values = f64::from(self.count) * self.squares.len() as f64;
        let mean = self.sum / values;
        let variance = (self.sum_of_squares - values * mean * mean).max(0.0) / (values - 1.0);
        let vvc = if mean > 0.0 { variance.sqrt() / mean } else { 0.0 };
        Ok(Spreading { std, vvc, volumes_ml: self.volumes_ml })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_deviation_of_a_sample() {
        let mut spread = Spread::default();
        spread.add(&[0.0, 0.5], vec![0.5]).expect("added");
        spread.add(&[0.2, 0.9], vec![1.1]).expect("added");
        let Spreading { std, vvc, volumes_ml } = spread.finish().expect("two predictions");
        assert_eq!(volumes_ml, [[0.5], [1.1]]);
        for (found, wanted) in std.iter().zip([0.1, 0.2].map(|half: f32| half * 2.0_f32.sqrt())) {
            assert!((found - wanted).abs() < 1e-6, "{found}");
        }
        // 0, 0.5, 0.2, 0.9: mean 0.4, squares of differences 0.46.
        assert!((vvc - (0.46_f64 / 3.0).sqrt() / 0.4).abs() < 1e-6, "{vvc}");
    }

    #[test]
    fn one_prediction_has_no_deviation_and_another_size_is_an_error() {
        let mut spread = Spread::default();
        spread.add(&[0.0], Vec::new()).expect("added");
        assert!(spread.add(&[0.0, 1.0], Vec::new()).is_err());
        assert!(spread.finish().is_err());
    }
}
