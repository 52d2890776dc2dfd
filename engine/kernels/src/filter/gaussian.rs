//! The taps of a Gaussian.

use super::FilterError;

/// The discretization of a Gaussian; the names are MONAI's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approximation {
    /// Its integral over each voxel.
    #[default]
    Erf,
    /// Its value at the centre of each voxel.
    Sampled,
    /// The discrete Gaussian of scale-space theory, by modified Bessel functions (Lindeberg,
    /// "Scale-space for discrete signals", 1990).
    Scalespace,
}

/// MONAI's truncation, in sigmas.
pub const TRUNCATED: f64 = 4.0;

/// The maximum number of taps on either side of the middle: a wider Gaussian must be a mistake.
const MAX_TAIL: usize = 1 << 20;

/// The taps of a Gaussian of deviation `sigma` voxels, cut off after `truncated` sigmas;
/// `2 * tail + 1` of them, not normalized, with `tail = max(sigma * truncated, 0.5)` rounded half
/// up. With `sigma = 0` the result is the single tap 1.
///
/// They equal `monai.networks.layers.convutils.gaussian_1d` up to its f32 rounding (1e-7).
///
/// # Errors
/// Where `sigma` is negative or not finite, or `truncated` is not positive.
pub fn gaussian_taps(sigma: f64, truncated: f64, approximation: Approximation) -> Result<Vec<f32>, FilterError> {
    // PyTorch stores sigma as f32, which determines the length.
    let sigma = f64::from(sigma as f32);
    if !sigma.is_finite() || sigma < 0.0 {
        return Err(FilterError::Sigma(sigma));
    }
    let reach = sigma * truncated;
    if !(truncated > 0.0 && reach < MAX_TAIL as f64) {
        return Err(FilterError::Truncated { truncated, max: 2 * MAX_TAIL });
    }
    if sigma == 0.0 {
        return Ok(vec![1.0]);
    }
    let tail = (reach.max(0.5) + 0.5) as usize;
    let half: Vec<f64> = match approximation {
        Approximation::Erf => (0..=tail)
            .map(|x| {
                let at = |x: f64| libm::erf(x * std::f64::consts::FRAC_1_SQRT_2 / sigma);
                0.5 * (at(x as f64 + 0.5) - at(x as f64 - 0.5))
            })
            .collect(),
        Approximation::Sampled => {
            let scale = 1.0 / (std::f64::consts::TAU.sqrt() * sigma);
            (0..=tail).map(|x| scale * (-0.5 * (x as f64 / sigma).powi(2)).exp()).collect()
        }
        Approximation::Scalespace => scaled_bessel(tail, sigma * sigma),
    };
    Ok(half[1..].iter().rev().chain(&half).map(|v| *v as f32).collect())
}

/// `exp(-t) I_n(t)` for `n` in `0..=last`: Miller's downward recurrence, normalized by
/// `sum over all n of I_n(t) = exp(t)`.
fn scaled_bessel(last: usize, t: f64) -> Vec<f64> {
    // Far enough above the last order and the width of the distribution, so that the start does not
    // matter.
    let start = last + 20 + (12.0 * t.sqrt()) as usize + t.min(60.0) as usize;
    let mut values = vec![0.0; last + 1];
    let (mut above, mut here, mut sum) = (0.0_f64, 1e-300_f64, 0.0_f64);
    for n in (0..=start).rev() {
        if n <= last {
            values[n] = here;
        }
        sum += if n == 0 { here } else { 2.0 * here };
        (above, here) = (here, above + 2.0 * n as f64 / t * here);
        if here > 1e250 {
            let shrink = 1e-250;
            (above, here, sum) = (above * shrink, here * shrink, sum * shrink);
            values.iter_mut().for_each(|v| *v *= shrink);
        }
    }
    values.iter().map(|v| v / sum).collect()
}
