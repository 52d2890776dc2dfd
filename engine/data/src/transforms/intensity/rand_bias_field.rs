use burn::tensor::{Tensor, TensorData};
use hearth_kernels::host;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::ranges::check_pair;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;
use crate::{CheckError, Draw, Image, TransformError};

/// The bias field of MR images: multiplies by `exp` of a polynomial over the image, with probability `prob`
/// (Van Leemput et al., "Automated model-based tissue classification of MR images of the brain", 1999).
///
/// The polynomial has all products of Legendre polynomials up to `degree` together, with coefficients drawn uniformly from `coeff_range`; all
/// channels and keys share them.
#[derive(Clone, Debug, Serialize, Deserialize)]
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

/// A polynomial of a higher degree is no bias field.
const MAX_DEGREE: usize = 30;

fn three() -> usize {
    3
}

fn coefficients() -> [f64; 2] {
    [0.0, 0.1]
}

impl RandBiasField {
    /// Degree 3, coefficients from 0 to 0.1, with probability 0.1.
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
        // A 2-D image beside a 3-D one takes the first of its coefficients.
        let count = bias_coefficients(self.degree, image.meta.spatial_dims);
        apply_bias_field(image, self.degree, drawn.get(..count).unwrap_or(drawn))
    }

    fn check_parameters(&self) -> Result<(), CheckError> {
        if !(1..=MAX_DEGREE).contains(&self.degree) {
            return Err(CheckError::new("degree", format!("{} is not 1 to {MAX_DEGREE}", self.degree)));
        }
        check_pair("coeff_range", self.coeff_range, f64::NEG_INFINITY, f64::INFINITY)
    }
}

/// How many coefficients a bias field of this degree has, over 2 or 3 axes.
pub fn bias_coefficients(degree: usize, spatial_dims: usize) -> usize {
    (1..=spatial_dims).fold(1, |product, k| product * (degree + k) / k)
}

/// The logarithm of a bias field as a function of the row: polynomials along the last axis, and their coefficients row by row.
struct Field {
    /// Degrees of the three axes with their coefficient.
    terms: Vec<([usize; 3], f64)>,
    /// Legendre polynomials by axis and degree.
    basis: [Vec<Vec<f64>>; 3],
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
                // MONAI fills the lower triangle of its matrix in 2-D: the second degree is at most the first.
                terms.extend((0..=i).map(|j| [i, j, 0]));
            } else {
                terms.extend((0..=degree - i).flat_map(|j| (0..=degree - i - j).map(move |k| [i, j, k])));
            }
        }
        let basis = std::array::from_fn(|axis| legendre(shape[axis], if axis < n { degree } else { 0 }));
        Ok(Field { terms: terms.into_iter().zip(coefficients.iter().copied()).collect(), basis })
    }

    /// The values along one row.
    fn row(&self, x: usize, y: usize, row: &mut [f32]) {
        let mut along = vec![0.0_f64; self.basis[2].len()];
        for ([i, j, k], coefficient) in &self.terms {
            along[*k] += coefficient * self.basis[0][*i][x] * self.basis[1][*j][y];
        }
        row.fill(0.0);
        for (coefficient, polynomial) in along.iter().zip(&self.basis[2]) {
            row.iter_mut().zip(polynomial).for_each(|(v, p)| *v += (coefficient * p) as f32);
        }
    }
}

/// Legendre polynomials 0 to `degree` at `n` points from -1 to 1 (which MONAI has in f32).
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
/// Where there are not [`bias_coefficients`] coefficients.
pub fn bias_field(
    shape: [usize; 3],
    spatial_dims: usize,
    degree: usize,
    coefficients: &[f64],
) -> Result<Vec<f32>, TransformError> {
    let field = Field::new(shape, spatial_dims, degree, coefficients)?;
    let [nx, ny, nz] = shape;
    let mut values = vec![0.0_f32; nx * ny * nz];
    let rows = values.par_chunks_mut(nz.max(1)).enumerate();
    rows.for_each(|(row, values)| field.row(row / ny, row % ny, values));
    Ok(values)
}

/// Multiplies each channel by the `exp` of a bias field.
///
/// # Errors
/// Where there are not [`bias_coefficients`] coefficients.
pub fn apply_bias_field(mut image: Image, degree: usize, coefficients: &[f64]) -> Result<Image, TransformError> {
    let shape = image.shape();
    let n = image.meta.spatial_dims;
    let mut field = bias_field(shape, n, degree, coefficients)?;
    field.par_iter_mut().for_each(|v| *v = v.exp());
    let changed = host::change(image.data, |values| {
        for channel in values.chunks_mut(field.len().max(1)) {
            channel.par_iter_mut().zip(&field).for_each(|(v, factor)| *v *= factor);
        }
    });
    image.data = changed.unwrap_or_else(|data| {
        let [x, y, z] = shape;
        let device = data.device();
        data * Tensor::<4>::from_data(TensorData::new(field, [1, x, y, z]), &device)
    });
    Ok(image)
}

setters!(RandBiasField {
    /// Degree of the polynomial.
    degree: usize,
    /// Range of its coefficients.
    coeff_range: [f64; 2],
    /// How often.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandBiasField);
