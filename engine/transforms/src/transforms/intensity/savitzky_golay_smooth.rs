use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::padding::{FilterPadding, filtered};
use crate::params::Keys;

/// Smooths along one axis by a polynomial of degree `order` fitted to each window (Savitzky and
/// Golay, 1964).
///
/// `axis` is counted as in MONAI: 1 is the first spatial axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::SavitzkyGolaySmooth};
/// // A line through three voxels has their mean in its middle.
/// let peak = tiny::line([0.0, 0.0, 3.0, 0.0, 0.0]);
/// let image = tiny::apply(SavitzkyGolaySmooth::new("image", 3, 1), peak)?;
/// assert!(tiny::is_near(&image, [0.0, 1.0, 1.0, 1.0, 0.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SavitzkyGolaySmooth {
    keys: Keys,
    /// Number of voxels of the window, odd.
    window_length: usize,
    /// Order of the polynomial, less than the window's length.
    order: usize,
    #[serde(default = "first")]
    axis: usize,
    #[serde(default)]
    mode: FilterPadding,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The maximum length of the window, which bounds the memory of its taps.
const MAX_WINDOW: usize = 1 << 16;

fn first() -> usize {
    1
}

impl SavitzkyGolaySmooth {
    /// Creates the transform: a window of this length along the first spatial axis; the outside of
    /// the image is 0.
    pub fn new(keys: impl Into<Keys>, window_length: usize, order: usize) -> Self {
        SavitzkyGolaySmooth {
            keys: keys.into(),
            window_length,
            order,
            axis: first(),
            mode: FilterPadding::default(),
            allow_missing_keys: false,
        }
    }

    /// Smooths one image.
    ///
    /// # Errors
    /// If the axis does not exist, or the window is even, not longer than the order, or longer than
    /// its padding allows.
    pub fn smooth(&self, image: Image) -> Result<Image, TransformError> {
        self.check_parameters().map_err(|e| TransformError::new(e.to_string()))?;
        let n = image.meta.spatial_dims;
        if self.axis > n {
            return Err(TransformError::new(format!("axis {} of an image of {n} spatial axes", self.axis))
                .expected(format!("1 to {n}")));
        }
        let taps = savitzky_golay(self.window_length, self.order);
        let mut each: [&[f32]; 3] = [&[]; 3];
        each[self.axis - 1] = &taps;
        filtered(image, each, self.mode)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if self.window_length.is_multiple_of(2) || self.window_length > MAX_WINDOW {
            let message = format!("{} is not an odd number below {MAX_WINDOW}", self.window_length);
            return Err(Fault::at("window_length", message));
        }
        if self.order >= self.window_length {
            let message = format!("{} must be smaller than window_length = {}", self.order, self.window_length);
            return Err(Fault::at("order", message));
        }
        match self.axis {
            1..=3 => Ok(()),
            axis => Err(Fault::at("axis", format!("{axis} is not a spatial axis (1 to 3)"))),
        }
    }
}

/// Returns the value at 0 of the polynomial of degree `order` that fits a window best, as weights
/// of the window's values.
///
/// Uses polynomials that are orthogonal on the window, by their three-term recurrence, without
/// solving a system of equations.
fn savitzky_golay(window: usize, order: usize) -> Vec<f32> {
    let half = (window / 2) as f64;
    // The last entry is the point 0 itself; positions are scaled to -1..1 so that powers stay
    // small.
    let places: Vec<f64> = (0..window).map(|i| (i as f64 - half) / half.max(1.0)).chain([0.0]).collect();
    let norm = |p: &[f64]| p[..window].iter().map(|v| v * v).sum::<f64>();
    let mut before = vec![0.0; window + 1];
    let mut here = vec![1.0; window + 1];
    let (mut norm_before, mut taps) = (1.0, vec![0.0; window]);
    for _ in 0..=order {
        let norm_here = norm(&here);
        let at_zero = here[window];
        taps.iter_mut().zip(&here).for_each(|(tap, p)| *tap += at_zero * p / norm_here);
        let back = norm_here / norm_before;
        let next = |((x, p), q): ((&f64, &f64), &f64)| x * p - back * q;
        let after = places.iter().zip(&here).zip(&before).map(next).collect();
        (before, here, norm_before) = (here, after, norm_here);
    }
    taps.iter().map(|tap| *tap as f32).collect()
}

setters!(SavitzkyGolaySmooth {
    /// Axis along which values are smoothed; 1 is the first spatial axis.
    axis: usize,
    /// Values beyond the edge.
    mode: FilterPadding,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(SavitzkyGolaySmooth, smooth);

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.signal.savgol_coeffs` of scipy 1.17.1; the first also in Savitzky and Golay's own
    /// table.
    #[test]
    fn taps_are_scipys() {
        let five = savitzky_golay(5, 2);
        for (got, table) in five.iter().zip([-3.0, 12.0, 17.0, 12.0, -3.0]) {
            assert!((got - table / 35.0).abs() < 1e-7, "{five:?}");
        }
        let nine = savitzky_golay(9, 5);
        for (got, scipy) in nine.iter().zip([0.034_965_03, -0.128_205_13, 0.069_930_07, 0.314_685_31, 0.417_249_42]) {
            assert!((got - scipy).abs() < 1e-6, "{nine:?}");
        }
        assert_eq!(savitzky_golay(1, 0), [1.0]);
    }

    #[test]
    fn parameters_are_checked() {
        let check =
            |window, order, axis| SavitzkyGolaySmooth::new("image", window, order).axis(axis).check_parameters();
        assert!(check(5, 2, 1_usize).is_ok());
        for (window, order, axis) in [(4, 2, 1), (5, 5, 1), (0, 0, 1), (5, 2, 0), (5, 2, 4), (usize::MAX, 2, 1)] {
            assert!(check(window, order, axis).is_err(), "{window} {order} {axis}");
        }
    }
}

transform_entry!(
    SavitzkyGolaySmooth,
    r#"keys = ["image"]
window_length = 5
order = 2
axis = 1"#
);
