//! Resampling to another grid, and computing the grid for a new spacing (as in MONAI's `Spacing`).

use std::borrow::Cow;
use std::fmt;

use hearth_kernels::{Interpolation, Padding, Sampling};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::lazy::{self, Step};
use super::warp::check_grid;
use crate::TransformError;
use crate::affine::{self, Affine};
use crate::image::{Applied, Image};

/// Differences of affines below this are ignored (MONAI's `AFFINE_TOL`).
const AFFINE_TOLERANCE: f64 = 1e-3;

/// The order of a B-spline, 0 to 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
pub struct SplineOrder(u8);

impl TryFrom<u8> for SplineOrder {
    type Error = String;

    fn try_from(order: u8) -> Result<Self, String> {
        if order <= 5 { Ok(SplineOrder(order)) } else { Err(format!("there is no spline of order {order}; 0 to 5")) }
    }
}

impl From<SplineOrder> for u8 {
    fn from(order: SplineOrder) -> u8 {
        order.0
    }
}

/// The interpolation between voxels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridMode {
    /// Linear along every axis (MONAI also calls it `bilinear` in 3-D).
    #[default]
    Bilinear,
    /// The nearest voxel; the even index at half-way positions.
    Nearest,
    /// Cubic convolution along every axis, PyTorch's `bicubic` (there in 2-D only).
    Bicubic,
    /// A B-spline through the voxels, as in `scipy.ndimage`, given as its order, 0 to 5. Order 0
    /// rounds half-way positions up.
    Spline(SplineOrder),
}

/// The names of [`GridMode`] in text. A spline is written as its order, a number.
const MODE_WORDS: &[&str] = &["bilinear", "nearest", "bicubic", "linear", "trilinear"];

/// [`GridMode`] in the entries of a cache, whose format cannot distinguish a name from a number.
#[derive(Serialize, Deserialize)]
#[serde(remote = "GridMode")]
enum ModeBytes {
    Bilinear,
    Nearest,
    Bicubic,
    Spline(SplineOrder),
}

impl Serialize for GridMode {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            _ if !to.is_human_readable() => ModeBytes::serialize(self, to),
            GridMode::Bilinear => to.serialize_str("bilinear"),
            GridMode::Nearest => to.serialize_str("nearest"),
            GridMode::Bicubic => to.serialize_str("bicubic"),
            GridMode::Spline(order) => order.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for GridMode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct WordOrOrder;
        impl Visitor<'_> for WordOrOrder {
            type Value = GridMode;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"bilinear\", \"nearest\", \"bicubic\" or the order of a spline, 0 to 5")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<GridMode, E> {
                match word {
                    "bilinear" | "linear" | "trilinear" => Ok(GridMode::Bilinear),
                    "nearest" => Ok(GridMode::Nearest),
                    "bicubic" => Ok(GridMode::Bicubic),
                    _ => Err(E::unknown_variant(word, &MODE_WORDS[..3])),
                }
            }

            fn visit_i64<E: de::Error>(self, order: i64) -> Result<GridMode, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(order), &self);
                u64::try_from(order).map_err(|_| wrong()).and_then(|order| self.visit_u64(order))
            }

            fn visit_u64<E: de::Error>(self, order: u64) -> Result<GridMode, E> {
                SplineOrder::deserialize(order.into_deserializer())
                    .map(GridMode::Spline)
                    .map_err(|_: E| E::invalid_value(de::Unexpected::Unsigned(order), &self))
            }
        }
        if from.is_human_readable() { from.deserialize_any(WordOrOrder) } else { ModeBytes::deserialize(from) }
    }
}

impl JsonSchema for GridMode {
    fn schema_name() -> Cow<'static, str> {
        "GridMode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "enum": MODE_WORDS }, { "type": "integer", "minimum": 0, "maximum": 5 }] })
    }
}

/// The values outside the image. The names that `scipy.ndimage` uses, and MONAI for spline orders,
/// are also accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GridPadding {
    /// The nearest edge voxel.
    #[default]
    #[serde(alias = "nearest")]
    Border,
    /// Zero. Splines read nothing beyond the centres of the edge voxels (scipy's `constant`); other
    /// modes fade out.
    #[serde(alias = "constant")]
    Zeros,
    /// The image reflected about its outer faces; about the centres of its edge voxels with
    /// `align_corners`, except for splines.
    #[serde(alias = "reflect", alias = "grid-mirror")]
    Reflection,
    /// Zero voxels, towards which all modes fade out.
    #[serde(rename = "grid-constant")]
    GridConstant,
    /// The image reflected about the centres of its edge voxels.
    Mirror,
    /// The image repeated so that its last voxel is its first. Only splines wrap; the others
    /// reflect, as in MONAI.
    Wrap,
    /// The image repeated. Only splines wrap; the others reflect, as in MONAI.
    #[serde(rename = "grid-wrap")]
    GridWrap,
}

/// The type in which MONAI computes resampling. Accepted without effect: coordinates are always f64
/// and values f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComputeType {
    /// `float16`.
    Float16,
    /// `float32`.
    Float32,
    /// `float64`, MONAI's default.
    Float64,
}

/// Interpolation, padding and MONAI's `align_corners`. The last decides about which points
/// `reflection` reflects and what an axis of one voxel reads, and scales the positions that a
/// spline reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GridSampling {
    /// How a value between voxels is computed.
    pub mode: GridMode,
    /// The values outside the image.
    pub padding_mode: GridPadding,
    /// Whether to reflect about the centres of the edge voxels instead of their outer faces.
    pub align_corners: bool,
}

impl GridSampling {
    /// The same sampling, with nearest interpolation if requested.
    pub(super) fn or_nearest(self, nearest: bool) -> Self {
        if nearest { GridSampling { mode: GridMode::Nearest, ..self } } else { self }
    }

    pub(crate) fn kernel(self) -> Sampling {
        let mode = match self.mode {
            GridMode::Bilinear => Interpolation::Linear,
            GridMode::Nearest => Interpolation::Nearest,
            GridMode::Bicubic => Interpolation::Cubic,
            GridMode::Spline(order) => Interpolation::Spline(order.into()),
        };
        let spline = matches!(self.mode, GridMode::Spline(_));
        let padding = match self.padding_mode {
            GridPadding::Border => Padding::Border,
            GridPadding::Zeros if spline => Padding::Cut,
            GridPadding::Zeros | GridPadding::GridConstant => Padding::Zeros,
            GridPadding::Mirror => Padding::Mirror,
            GridPadding::Wrap if spline => Padding::Wrap,
            GridPadding::GridWrap if spline => Padding::GridWrap,
            GridPadding::Reflection if spline => Padding::Reflection,
            _ if self.align_corners => Padding::Mirror,
            GridPadding::Reflection | GridPadding::Wrap | GridPadding::GridWrap => Padding::Reflection,
        };
        Sampling { mode, padding }
    }
}

/// Resamples to the grid of `destination` and `size`. Where neither differs by more than 1e-3, the
/// image is returned unchanged.
///
/// # Errors
/// If the image's affine cannot be inverted, and those of [`check_grid`](super::check_grid).
pub fn resample_to(
    image: Image,
    destination: &Affine,
    size: [usize; 3],
    sampling: GridSampling,
) -> Result<Image, TransformError> {
    let (affine, shape) = (image.affine, image.shape());
    let (mut image, changed) = resample_unrecorded(image, destination, size, sampling)?;
    if changed {
        image.meta.applied.push(Applied::Resample { affine, shape, sampling });
    }
    Ok(image)
}

pub(super) fn resample_unrecorded(
    image: Image,
    destination: &Affine,
    size: [usize; 3],
    sampling: GridSampling,
) -> Result<(Image, bool), TransformError> {
    let n = image.meta.spatial_dims;
    let shape = image.shape();
    let source = affine::restrict(&image.affine, n);
    let inverse = affine::inverse(&source).ok_or_else(|| {
        TransformError::new(format!("the affine {:?} can't be inverted", &source[..3]))
            .expected("three independent voxel axes")
    })?;
    let to_source = affine::compose(&inverse, destination);
    if shape == size && (same(&source, destination) || same(&to_source, &affine::IDENTITY)) {
        return Ok((image, false));
    }
    check_grid(image.channels(), size)?;
    let affine = affine::compose(&image.affine, &to_source);
    let read = reading(to_source, shape, size, n, sampling);
    let mut image = lazy::sample(image, Step { place: to_source, read, size, sampling })?;
    image.affine = affine;
    Ok((image, true))
}

/// `numpy.allclose` with `atol` = 1e-3 and its default `rtol` = 1e-5.
pub(super) fn same(a: &Affine, b: &Affine) -> bool {
    a.iter().flatten().zip(b.iter().flatten()).all(|(x, y)| (x - y).abs() <= AFFINE_TOLERANCE + 1e-5 * y.abs())
}

/// The positions that MONAI's samplers read for a matrix from new to old voxels. They are those of
/// the matrix itself, except with `align_corners`.
pub(super) fn reading(matrix: Affine, shape: [usize; 3], size: [usize; 3], n: usize, sampling: GridSampling) -> Affine {
    if !sampling.align_corners {
        return matrix;
    }
    if !matches!(sampling.mode, GridMode::Spline(_)) {
        return lone_voxels(matrix, shape, size, n);
    }
    // As in MONAI's `Affine` and `Resample` with coordinates that are not centred.
    let mut out = affine::IDENTITY;
    let scale = |length: usize| (length.max(2) as f64 - 1.0) / length.max(2) as f64;
    for r in 0..n {
        let mut constant = matrix[r][3] + 0.5;
        for c in 0..n {
            let centre = (size[c] as f64 - 1.0) / 2.0;
            out[r][c] = matrix[r][c] / scale(size[c]) * scale(shape[r]);
            constant += matrix[r][c] * centre * (1.0 - 1.0 / scale(size[c]));
        }
        out[r][3] = constant * scale(shape[r]);
    }
    out
}

/// PyTorch's `affine_grid` with `align_corners` shifts a single output voxel by half a voxel, and
/// its sampler reads a single input voxel at 0.
pub(super) fn lone_voxels(mut matrix: Affine, shape: [usize; 3], size: [usize; 3], n: usize) -> Affine {
    for axis in (0..n).filter(|a| size[*a] == 1) {
        matrix.iter_mut().take(3).for_each(|row| row[3] += 0.5 * row[axis]);
    }
    for axis in (0..n).filter(|a| shape[*a] == 1) {
        matrix[axis] = [0.0; 4];
    }
    matrix
}

/// Removes rounding noise: terms that move no output voxel by 1e-9 of a voxel.
pub(super) fn tidy(matrix: &mut Affine, size: [usize; 3]) {
    for (r, row) in matrix.iter_mut().enumerate().take(3) {
        for c in 0..3 {
            if r != c && row[c].abs() * (size[c] as f64) < 1e-9 {
                row[c] = 0.0;
            }
        }
        if row[3].abs() < 1e-9 {
            row[3] = 0.0;
        }
    }
}

/// Returns the affine with the same axes and another spacing, without translation (MONAI's
/// `zoom_affine`).
///
/// A spacing that is not positive keeps the old spacing. `diagonal` drops rotation and flips;
/// otherwise the rotation is kept and shear is removed.
///
/// # Errors
/// Where the axes of the affine are not independent.
pub fn zoom_affine(affine: &Affine, n: usize, scale: [f64; 3], diagonal: bool) -> Result<Affine, TransformError> {
    let source = affine::restrict(affine, n);
    let old = affine::spacing(&source);
    let scale: [f64; 3] = std::array::from_fn(|a| if a < n && scale[a] > 0.0 { scale[a] } else { old[a] });
    let mut out = affine::IDENTITY;
    if diagonal {
        for axis in 0..n {
            out[axis][axis] = scale[axis];
        }
        return Ok(out);
    }
    // Gram-Schmidt gives the same Q as the Cholesky factor of A^T A: A = Q R with a positive
    // diagonal.
    let mut q = [[0.0_f64; 3]; 3];
    for c in 0..n {
        let mut column: [f64; 3] = std::array::from_fn(|r| source[r][c]);
        // Twice: the second pass removes rounding errors.
        for _ in 0..2 {
            for other in q.iter().take(c) {
                let along: f64 = other.iter().zip(&column).map(|(a, b)| a * b).sum();
                column.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
            }
        }
        let norm = column.iter().map(|v| v * v).sum::<f64>().sqrt();
        if norm <= 1e-12 * old[c] || !norm.is_finite() {
            return Err(TransformError::new(format!("the axes of the affine {:?} are not independent", &source[..3])));
        }
        q[c] = column.map(|v| v / norm);
    }
    for r in 0..n {
        for c in 0..n {
            out[r][c] = q[c][r] * scale[c];
        }
    }
    Ok(out)
}

/// Shape and origin of the grid `destination` that covers an image of `shape` on `source` (MONAI's
/// `compute_shape_offset`).
///
/// # Errors
/// Where `destination` cannot be inverted or the grid would be too large.
pub fn shape_and_offset(
    shape: [usize; 3],
    n: usize,
    source: &Affine,
    destination: &Affine,
    scale_extent: bool,
) -> Result<([usize; 3], [f64; 3]), TransformError> {
    let source = affine::restrict(source, n);
    let destination = affine::restrict(destination, n);
    let inverse = affine::inverse(&destination)
        .ok_or_else(|| TransformError::new(format!("the new affine {:?} can't be inverted", &destination[..3])))?;
    let to_new = affine::compose(&inverse, &source);
    // numpy.meshgrid with ij indexing: the last axis moves fastest.
    let corners: Vec<[f64; 3]> = (0..1 << n)
        .map(|bits: usize| {
            std::array::from_fn(|axis| {
                if axis >= n {
                    return 0.0;
                }
                let high = bits >> (n - 1 - axis) & 1 == 1;
                let edge = if scale_extent { 0.5 } else { 0.0 };
                if high { shape[axis] as f64 - 1.0 + edge } else { -edge }
            })
        })
        .collect();
    let in_new: Vec<[f64; 3]> = corners.iter().map(|c| affine::apply(&to_new, *c)).collect();
    let mut size = [1_usize; 3];
    for axis in 0..n {
        let values = || in_new.iter().map(|c| c[axis]);
        let range = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
        let count = (range + if scale_extent { 0.0 } else { 1.0 }).round_ties_even();
        if !(0.0..=65_536.0).contains(&count) {
            return Err(TransformError::new(format!("the new grid would have {count} voxels along axis {axis}"))
                .expected("at most 65536; check the spacing of the image and pixdim"));
        }
        size[axis] = count as usize;
    }
    let smallest = in_new.iter().position(|corner| {
        (0..n).all(|axis| {
            let least = in_new.iter().map(|c| c[axis] - corner[axis]).fold(f64::MAX, f64::min);
            // numpy.allclose(x, 0, rtol): only its default atol = 1e-8 has an effect.
            least.abs() <= 1e-8
        })
    });
    let mut offset = match smallest {
        Some(i) => affine::apply(&source, corners[i]),
        None => {
            let half: [f64; 3] = std::array::from_fn(|a| if a < n { shape[a] as f64 / 2.0 } else { 0.0 });
            let new_half: [f64; 3] = std::array::from_fn(|a| if a < n { size[a] as f64 / 2.0 } else { 0.0 });
            let (old, new) = (affine::apply(&source, half), affine::apply(&destination, new_half));
            std::array::from_fn(|a| old[a] - (new[a] - destination[a][3]))
        }
    };
    if scale_extent {
        let inner: [f64; 3] =
            std::array::from_fn(|a| if a < n { 0.5 * (shape[a] as f64 / size[a] as f64 - 1.0) } else { 0.0 });
        let moved = affine::apply(&source, inner);
        offset = std::array::from_fn(|a| {
            let sign = if offset[a] == 0.0 { 0.0 } else { offset[a].signum() };
            moved[a].abs() * sign
        });
    }
    Ok((size, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes for 512 x 512 x 60 voxels of 0.8 x 0.8 x 5 mm at 1.5 x 1.5 x 2 mm, computed with
    /// MONAI.
    #[test]
    fn shapes_of_the_spleen_recipe() {
        let mut old = affine::IDENTITY;
        (old[0][0], old[1][1], old[2][2]) = (0.8, 0.8, 5.0);
        let new = zoom_affine(&old, 3, [1.5, 1.5, 2.0], false).expect("independent axes");
        let shape = |extent| shape_and_offset([512, 512, 60], 3, &old, &new, extent).expect("a grid").0;
        assert_eq!(shape(false), [274, 274, 148]);
        assert_eq!(shape(true), [273, 273, 150]);
    }

    #[test]
    fn an_absurd_grid_is_refused() {
        let new = zoom_affine(&affine::IDENTITY, 3, [1e-9; 3], false).expect("independent axes");
        let error = shape_and_offset([64; 3], 3, &affine::IDENTITY, &new, false).expect_err("too large");
        assert!(error.to_string().contains("axis 0"), "{error}");
    }

    #[test]
    fn flat_affines_are_refused() {
        let mut flat = affine::IDENTITY;
        flat[2] = [0.0, 1.0, 0.0, 0.0];
        assert!(zoom_affine(&flat, 3, [1.0; 3], false).is_err());
    }
}
