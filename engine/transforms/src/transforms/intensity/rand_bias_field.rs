use burn::tensor::{Tensor, TensorData};
use hearth_image::{Image, TransformError};
use hearth_kernels::host;
use hearth_kernels::math::exp;
use hearth_registry::Fault;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranges::check_pair;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Simulates the bias field of MR images: multiplies by `exp` of a polynomial over the image, with
/// probability `prob` (Van Leemput et al., "Automated model-based tissue classification of MR
/// images of the brain", 1999).
///
/// The polynomial has all products of Legendre polynomials with a total degree up to `degree`, with
/// coefficients drawn uniformly from `coeff_range`; all channels and keys share them.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandBiasField};
/// let step = RandBiasField::new("image").prob(1.0).coeff_range([0.1, 0.2]);
/// let values = tiny::apply(step, tiny::line([1.0; 4]))?.to_vec();
/// assert!(values.iter().all(|value| *value > 0.0) && values[0] != values[3]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandBiasField {
    keys: Keys,
    #[serde(default = "three")]
    degree: usize,
    #[serde(default = "coefficients")]
    coeff_range: [f64; 2],
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The maximum degree of a plausible bias field.
const MAX_DEGREE: usize = 30;

fn three() -> usize {
    3
}

fn coefficients() -> [f64; 2] {
    [0.0, 0.1]
}

impl RandBiasField {
    /// Creates the transform: degree 3, coefficients from 0 to 0.1, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandBiasField {
            keys: keys.into(),
            degree: three(),
            coeff_range: coefficients(),
            prob: tenth(),
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, images: &[&Image]) -> Result<Vec<f64>, TransformError> {
        let n = images.iter().map(|i| i.meta.spatial_dims).max().unwrap_or(3);
        let [low, high] = self.coeff_range;
        Ok((0..bias_coefficients(self.degree, n)).map(|_| draw.between(low, high)).collect())
    }

    fn change(&self, image: Image, drawn: &[f64], _: usize) -> Result<Image, TransformError> {
        // A 2-D image uses the first of the coefficients that are drawn for a 3-D one.
        let count = bias_coefficients(self.degree, image.meta.spatial_dims);
        apply_bias_field(image, self.degree, drawn.get(..count).unwrap_or(drawn))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if !(1..=MAX_DEGREE).contains(&self.degree) {
            return Err(Fault::at("degree", format!("{} is not 1 to {MAX_DEGREE}", self.degree)));
        }
        check_pair("coeff_range", self.coeff_range, f64::NEG_INFINITY, f64::INFINITY)
    }
}

/// The number of coefficients of a bias field of this degree, over 2 or 3 axes.
pub fn bias_coefficients(degree: usize, spatial_dims: usize) -> usize {
    (1..=spatial_dims).fold(1, |product, k| product * (degree + k) / k)
}

/// The logarithm of a bias field, row by row: a polynomial along the last axis whose coefficients
/// depend on the row.
struct Field {
    /// Degrees of the three axes, with their coefficient.
    terms: Vec<([usize; 3], f64)>,
    /// Legendre polynomials of the first two axes, by degree.
    across: [Vec<Vec<f64>>; 2],
    /// Legendre polynomials along a row.
    along: Vec<Vec<f32>>,
    /// Shape `[X, Y, Z]`; `[1, X, Y]` for a 2-D image.
    shape: [usize; 3],
}

impl Field {
    fn new(shape: [usize; 3], n: usize, degree: usize, coefficients: &[f64]) -> Result<Self, TransformError> {
        let expected = bias_coefficients(degree, n);
        if coefficients.len() != expected {
            return Err(TransformError::new(format!("{} coefficients", coefficients.len()))
                .expected(format!("{expected} for degree {degree} over {n} axes")));
        }
        let mut terms = Vec::with_capacity(expected);
        for i in 0..=degree {
            if n == 2 {
                // MONAI fills the lower triangle of its matrix in 2-D: the second degree is at most
                // the first.
                terms.extend((0..=i).map(|j| [0, i, j]));
            } else {
                terms.extend((0..=degree - i).flat_map(|j| (0..=degree - i - j).map(move |k| [i, j, k])));
            }
        }
        // The rows of a 2-D image are along its second axis: the last axis has a single voxel.
        let shape = if n == 2 { [1, shape[0], shape[1]] } else { shape };
        let [x, y, z] = std::array::from_fn(|axis| legendre(shape[axis], degree));
        let along = z.into_iter().map(|p| p.into_iter().map(|v| v as f32).collect()).collect();
        let terms = terms.into_iter().zip(coefficients.iter().copied()).collect();
        Ok(Field { terms, across: [x, y], along, shape })
    }

    /// Returns the values along one row, by its number.
    fn row(&self, number: usize, row: &mut [f32]) {
        let (x, y) = (number / self.shape[1], number % self.shape[1]);
        let mut coefficients = vec![0.0_f64; self.along.len()];
        for ([i, j, k], coefficient) in &self.terms {
            coefficients[*k] += coefficient * self.across[0][*i][x] * self.across[1][*j][y];
        }
        row.fill(0.0);
        for (coefficient, polynomial) in coefficients.into_iter().zip(&self.along) {
            let coefficient = coefficient as f32;
            row.iter_mut().zip(polynomial).for_each(|(v, p)| *v += coefficient * p);
        }
    }

    /// Changes the values of the whole image row by row.
    fn values(&self, change: impl Fn(&mut [f32]) + Sync) -> Vec<f32> {
        let mut values = vec![0.0_f32; self.shape.iter().product()];
        values.par_chunks_mut(self.shape[2].max(1)).enumerate().for_each(|(number, row)| {
            self.row(number, row);
            change(row);
        });
        values
    }
}

/// Legendre polynomials 0 to `degree` at `n` points from -1 to 1 (in MONAI in f32).
fn legendre(n: usize, degree: usize) -> Vec<Vec<f64>> {
    let points = (0..n).map(|i| if i == 0 { -1.0 } else { 2.0 * i as f64 / (n - 1) as f64 - 1.0 });
    let points: Vec<f64> = points.map(|x| f64::from(x as f32)).collect();
    let mut found = vec![vec![1.0; n], points.clone()];
    for k in 2..=degree {
        let factor = k as f64;
        let next =
            |i: usize| ((2.0 * factor - 1.0) * points[i] * found[k - 1][i] - (factor - 1.0) * found[k - 2][i]) / factor;
        let next = (0..n).map(next).collect();
        found.push(next);
    }
    found.truncate(degree + 1);
    found
}

/// The logarithm of a bias field, `[X, Y, Z]` row-major (`Z` = 1 for 2 axes).
///
/// # Errors
/// If the number of coefficients is not [`bias_coefficients`].
pub fn bias_field(
    shape: [usize; 3],
    spatial_dims: usize,
    degree: usize,
    coefficients: &[f64],
) -> Result<Vec<f32>, TransformError> {
    Ok(Field::new(shape, spatial_dims, degree, coefficients)?.values(|_| ()))
}

/// Multiplies each channel by the `exp` of a bias field.
///
/// # Errors
/// If the number of coefficients is not [`bias_coefficients`].
pub fn apply_bias_field(mut image: Image, degree: usize, coefficients: &[f64]) -> Result<Image, TransformError> {
    let shape = image.shape();
    let field = Field::new(shape, image.meta.spatial_dims, degree, coefficients)?;
    let [planes, rows, length] = field.shape;
    let rows = planes * rows;
    let changed = host::change(image.data, |values| {
        // The field is recomputed for each channel, which costs less than reading it from memory.
        let all = values.par_chunks_mut(length.max(1)).enumerate();
        all.for_each_init(
            || vec![0.0_f32; length],
            |factors, (number, row)| {
                field.row(number % rows, factors);
                exp(factors);
                row.iter_mut().zip(factors).for_each(|(v, factor)| *v *= *factor);
            },
        );
    });
    image.data = changed.unwrap_or_else(|data| {
        let [x, y, z] = shape;
        let device = data.device();
        data * Tensor::<4>::from_data(TensorData::new(field.values(exp), [1, x, y, z]), &device)
    });
    Ok(image)
}

setters!(RandBiasField {
    /// Degree of the polynomial.
    degree: usize,
    /// Range of its coefficients.
    coeff_range: [f64; 2],
    /// Probability that the transform is applied.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandBiasField);

transform_entry!(
    RandBiasField,
    r#"keys = ["image"]
degree = 3
coeff_range = [0.0, 0.1]
prob = 0.5"#
);
