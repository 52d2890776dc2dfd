//! The weight of each voxel of a window's prediction.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The blending of overlapping windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlendMode {
    /// Equal weights.
    #[default]
    Constant,
    /// Weights that decrease towards the edges.
    Gaussian,
}

/// The weights of a window, row-major (`monai.data.utils.compute_importance_map`).
///
/// Gaussian: the product over axes of `exp(-d^2 / 2 s^2)`, `d` from the centre, `s` the axis length
/// times `sigma_scale`; no weight is below the larger of the smallest weight and 0.001.
pub fn compute_importance_map(patch: &[usize], mode: BlendMode, sigma_scale: &[f64]) -> Vec<f32> {
    let mut map = vec![1.0_f32];
    for (axis, &length) in patch.iter().enumerate() {
        let line: Vec<f32> = match mode {
            BlendMode::Constant => vec![1.0; length],
            BlendMode::Gaussian => {
                let sigma = length as f64 * sigma_scale.get(axis).copied().unwrap_or(0.125);
                let centre = (length as f32 - 1.0) / 2.0;
                (0..length).map(|i| i as f32 - centre).map(|d| (d * d / (-2.0 * sigma * sigma) as f32).exp()).collect()
            }
        };
        map = map.iter().flat_map(|weight| line.iter().map(move |w| weight * w)).collect();
    }
    let floor = map.iter().copied().fold(f32::INFINITY, f32::min).max(1e-3);
    map.iter_mut().for_each(|weight| *weight = weight.max(floor));
    map
}

/// The last map and its parameters.
static LAST: Mutex<Option<(Asked, Arc<[f32]>)>> = Mutex::new(None);

type Asked = ([usize; 3], BlendMode, [f64; 3]);

/// [`compute_importance_map`] for a window. The last map is cached, because every image needs the
/// same one.
pub(super) fn importance_map(window: [usize; 3], mode: BlendMode, sigma_scale: [f64; 3]) -> Arc<[f32]> {
    let asked = (window, mode, sigma_scale);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((of, map)) if *of == asked => map.clone(),
        _ => {
            let map: Arc<[f32]> = compute_importance_map(&window, mode, &sigma_scale).into();
            *last = Some((asked, map.clone()));
            map
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BlendMode, compute_importance_map};

    fn close(a: &[f32], b: &[f32]) {
        assert_eq!(a.len(), b.len());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
    }

    #[test]
    fn a_kept_map_is_given_only_to_the_same_question() {
        for (window, mode, sigma) in [
            ([4, 5, 6], BlendMode::Gaussian, [0.125; 3]),
            ([4, 5, 6], BlendMode::Gaussian, [0.125; 3]),
            ([4, 5, 6], BlendMode::Gaussian, [0.25; 3]),
            ([4, 5, 6], BlendMode::Constant, [0.25; 3]),
            ([6, 5, 4], BlendMode::Gaussian, [0.25; 3]),
        ] {
            let computed = compute_importance_map(&window, mode, &sigma);
            assert_eq!(*super::importance_map(window, mode, sigma), *computed, "{window:?}, {mode:?}, {sigma:?}");
        }
    }

    #[test]
    fn gaussian_lines_have_the_published_values() {
        let line = |n| compute_importance_map(&[n], BlendMode::Gaussian, &[0.125]);
        close(&line(5), &[0.005976, 0.278037, 1.0, 0.278037, 0.005976]);
        close(&line(8)[..4], &[0.002187, 0.043937, 0.324652, 0.882497]);
    }

    #[test]
    fn a_gaussian_cube_is_raised_to_a_floor() {
        let cube = compute_importance_map(&[96; 3], BlendMode::Gaussian, &[0.125; 3]);
        let (min, max) = cube.iter().fold((f32::MAX, 0.0_f32), |(min, max), w| (min.min(*w), max.max(*w)));
        close(&[min, max], &[0.001, 0.997399]);
    }
}
