use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::host;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statistics::image_extremes;
use super::values::each_piece;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Changes intensities by a curve through random control points, with probability `prob`.
///
/// The curve covers the range of the image, with `num_control_points` equidistant points (one
/// number, or a range from which the number is drawn); each inner point is moved to a position
/// between its neighbours. All keys share the curve.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandHistogramShift};
/// let step = RandHistogramShift::new("image").prob(1.0);
/// let values = tiny::apply(step, tiny::line([0.0, 1.0, 2.0, 3.0]))?.to_vec();
/// assert!(values.is_sorted() && values[0].abs() < 1e-5 && (values[3] - 3.0).abs() < 1e-5);
/// assert_ne!(values[1..3], [1.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandHistogramShift {
    keys: Keys,
    #[serde(default = "ten")]
    num_control_points: OneOrMany<usize>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The maximum number of points: more cost time and have little effect.
const MAX_POINTS: usize = 1000;

fn ten() -> OneOrMany<usize> {
    OneOrMany::One(10)
}

impl RandHistogramShift {
    /// Creates the transform: 10 control points, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandHistogramShift { keys: keys.into(), num_control_points: ten(), prob: tenth(), allow_missing_keys: false }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<[Vec<f64>; 2], TransformError> {
        let counts = self.num_control_points.as_slice();
        let low = counts.iter().copied().min().unwrap_or(10);
        let high = counts.iter().copied().max().unwrap_or(10);
        let n = low + draw.below((high - low) as u64 + 1) as usize;
        let reference: Vec<f64> = (0..n).map(|i| i as f64 / (n - 1) as f64).collect();
        let mut floating = reference.clone();
        for i in 1..n - 1 {
            floating[i] = draw.between(floating[i - 1], floating[i + 1]);
        }
        Ok([reference, floating])
    }

    fn change(&self, image: Image, [reference, floating]: &[Vec<f64>; 2], _: usize) -> Result<Image, TransformError> {
        shift_histogram(image, reference, floating)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        let counts = self.num_control_points.as_slice();
        match counts.len() {
            1 | 2 => match counts.iter().find(|n| !(3..=MAX_POINTS).contains(*n)) {
                Some(n) => Err(Fault::at("num_control_points", format!("{n} is not 3 to {MAX_POINTS}"))),
                None => Ok(()),
            },
            _ => Err(Fault::at("num_control_points", "must be one number or a pair")),
        }
    }
}

/// Maps the values piecewise linearly from `reference` points to `floating` points; both are
/// fractions of the image's range, in ascending order. A constant image is unchanged.
///
/// # Errors
/// If there are fewer than two points, or the numbers of the two kinds differ.
pub fn shift_histogram(mut image: Image, reference: &[f64], floating: &[f64]) -> Result<Image, TransformError> {
    if reference.len() < 2 || reference.len() != floating.len() {
        return Err(TransformError::new(format!(
            "{} reference points and {} floating points",
            reference.len(),
            floating.len()
        ))
        .expected("the same number of each, at least two"));
    }
    let Some((low, high)) = image_extremes(&image, false).first().copied() else { return Ok(image) };
    if low == high || low.is_nan() {
        return Ok(image);
    }
    let scaled = |points: &[f64]| -> Vec<f32> { points.iter().map(|p| *p as f32 * (high - low) + low).collect() };
    let (from, to) = (scaled(reference), scaled(floating));
    // Slope and offset of each line, and its start.
    let lines: Vec<(f32, f32, f32)> = from
        .windows(2)
        .zip(to.windows(2))
        .map(|(x, y)| {
            let slope = (y[1] - y[0]) / (x[1] - x[0]);
            (x[0], slope, y[0] - slope * x[0])
        })
        .collect();
    let ends = ((from[0], to[0]), (from[from.len() - 1], to[to.len() - 1]));
    image.data = match host::change(image.data, |values| {
        each_piece(values, |piece| piece.chunks_mut(LANES).for_each(|lanes| bend(lanes, &lines, ends)));
    }) {
        Ok(data) => data,
        Err(x) => {
            let (_, slope, offset) = lines[0];
            let mut out = x.clone() * slope + offset;
            for (start, slope, offset) in &lines[1..] {
                out = out.mask_where(x.clone().greater_elem(*start), x.clone() * *slope + *offset);
            }
            out.mask_fill(x.clone().lower_elem(ends.0.0), ends.0.1).mask_fill(x.greater_elem(ends.1.0), ends.1.1)
        }
    };
    Ok(image)
}

/// The number of values that are compared with the control points together.
const LANES: usize = 64;

fn bend(values: &mut [f32], lines: &[(f32, f32, f32)], (first, last): ((f32, f32), (f32, f32))) {
    let mut slopes = [lines[0].1; LANES];
    let mut offsets = [lines[0].2; LANES];
    for (start, slope, offset) in &lines[1..] {
        for ((x, s), o) in values.iter().zip(&mut slopes).zip(&mut offsets) {
            let beyond = *x > *start;
            *s = if beyond { *slope } else { *s };
            *o = if beyond { *offset } else { *o };
        }
    }
    for ((x, slope), offset) in values.iter_mut().zip(&slopes).zip(&offsets) {
        let value = slope * *x + offset;
        let value = if *x < first.0 { first.1 } else { value };
        *x = if *x > last.0 { last.1 } else { value };
    }
}

setters!(RandHistogramShift {
    /// Number of control points, or its range.
    num_control_points: OneOrMany<usize>,
    /// Probability that the transform is applied.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandHistogramShift);

transform_entry!(
    RandHistogramShift,
    r#"keys = ["image"]
num_control_points = [5, 10]
prob = 0.5"#
);
