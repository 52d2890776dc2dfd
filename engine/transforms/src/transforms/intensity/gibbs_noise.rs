use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fourier::Spectrum;
use super::values::on_host;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Simulates Gibbs artefacts by removing high frequencies. `alpha` ranges from 0 (no change) to 1
/// (everything is removed).
///
/// Frequencies are kept within `(1 - alpha) * sqrt(2) / 2` of the largest side of the spectrum,
/// around its middle. Runs on the CPU.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::GibbsNoise};
/// // The highest frequency that there is.
/// let stripes = tiny::line([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0]);
/// let image = tiny::apply(GibbsNoise::new("image").alpha(0.5), stripes)?;
/// assert!(tiny::is_near(&image, [0.0; 8]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GibbsNoise {
    keys: Keys,
    #[serde(default = "tenth")]
    alpha: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl GibbsNoise {
    /// Creates the transform: an `alpha` of 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        GibbsNoise { keys: keys.into(), alpha: tenth(), allow_missing_keys: false }
    }

    /// Changes one image.
    pub fn cut(&self, image: Image) -> Image {
        cut_frequencies(image, self.alpha)
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.cut(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_alpha("alpha", self.alpha)
    }
}

/// Applies [`GibbsNoise`] with a given alpha.
pub(super) fn cut_frequencies(image: Image, alpha: f64) -> Image {
    let shape = image.shape();
    let size: usize = shape.iter().product();
    if size == 0 {
        return image;
    }
    let largest = shape[..image.meta.spatial_dims].iter().copied().max().unwrap_or(1) as f64;
    let radius = (1.0 - alpha) * largest * std::f64::consts::SQRT_2 / 2.0;
    // Squared distance from the middle of the spectrum with frequency 0 in its centre, per axis and
    // frequency.
    let distance: [Vec<f64>; 3] = std::array::from_fn(|axis| {
        let n = shape[axis];
        let centred = |frequency: usize| ((frequency + n / 2) % n) as f64 - (n as f64 - 1.0) / 2.0;
        (0..n).map(|frequency| centred(frequency).powi(2)).collect()
    });
    let kept = |k: [usize; 3]| f32::from((distance[0][k[0]] + distance[1][k[1]] + distance[2][k[2]]).sqrt() <= radius);
    // If a side is even, the middle lies between two frequencies, so a frequency may be kept and
    // its opposite removed. MONAI uses the real part of the result, which equals half of both.
    let opposite = |k: [usize; 3]| std::array::from_fn(|axis| (shape[axis] - k[axis]) % shape[axis]);
    on_host(image, |values| {
        for values in values.chunks_exact_mut(size) {
            let mut spectrum = Spectrum::of(values, shape);
            spectrum.weigh(shape, |k| 0.5 * (kept(k) + kept(opposite(k))));
            spectrum.into_values(values);
        }
    })
}

/// Checks that a number is a fraction of 1.
pub(super) fn check_alpha(parameter: &str, alpha: f64) -> Result<(), Fault> {
    if (0.0..=1.0).contains(&alpha) {
        Ok(())
    } else {
        Err(Fault::at(parameter, format!("{alpha} does not lie in 0 to 1")))
    }
}

setters!(GibbsNoise {
    /// Strength of the cut-off.
    alpha: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(GibbsNoise, change, through_host: |_| true);

transform_entry!(
    GibbsNoise,
    r#"keys = ["image"]
alpha = 0.3"#
);
