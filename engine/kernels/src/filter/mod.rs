//! Separable filters: one row of taps per axis.
//!
//! [`separable`] correlates a volume with taps along each axis, as
//! `monai.networks.layers.separable_filtering` does; [`gaussian_taps`] returns those of a Gaussian,
//! as its `gaussian_1d` does. On the CPU a plane is filtered along all axes while it is in the
//! cache, with threads over planes; on other devices the same sums are computed from shifted
//! tensors. [`median`] is not separable, but belongs with the other filters.

mod cpu;
mod gaussian;
mod median;
mod shifted;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

pub use gaussian::{Approximation, TRUNCATED, gaussian_taps};
pub use median::median;

/// The values beyond the edge of an image, by PyTorch's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// Zero.
    #[default]
    Zeros,
    /// The image mirrored about the centre of its edge voxel: `c b | a b c`.
    Reflect,
    /// The edge voxel.
    Replicate,
    /// The other end of the image.
    Circular,
}

impl Edge {
    /// The index that is read for the position `place` on an axis of `n` voxels; `None` means zero.
    ///
    /// Indices further out than [`separable`] allows are undefined.
    fn source(self, place: isize, n: usize) -> Option<usize> {
        let n = n as isize;
        let inside = (0..n).contains(&place);
        let place = match self {
            _ if inside => place,
            Edge::Zeros => return None,
            Edge::Replicate => place.clamp(0, n - 1),
            Edge::Circular => place.rem_euclid(n),
            Edge::Reflect if place < 0 => -place,
            Edge::Reflect => 2 * (n - 1) - place,
        };
        Some(place.clamp(0, n - 1) as usize)
    }

    /// The maximum reach beyond the edge, for an axis of `n` voxels.
    fn reach(self, n: usize) -> usize {
        match self {
            Edge::Zeros | Edge::Replicate => usize::MAX,
            Edge::Reflect => n.saturating_sub(1),
            Edge::Circular => n,
        }
    }
}

/// The reason why an image cannot be filtered.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The number of taps is even.
    #[error("a filter needs an odd number of taps; axis {axis} has {taps}")]
    EvenTaps {
        /// The axis: 0, 1 or 2.
        axis: usize,
        /// Its number of taps.
        taps: usize,
    },
    /// The filter reaches further than the padding allows.
    #[error(
        "a filter that reaches {reach} voxels beyond the edge of axis {axis} can't be padded by `{edge:?}` in an image of {length} there"
    )]
    TooShort {
        /// The axis: 0, 1 or 2.
        axis: usize,
        /// Half the number of taps.
        reach: usize,
        /// Voxels along the axis.
        length: usize,
        /// The requested padding.
        edge: Edge,
    },
    /// The sigma of a Gaussian is invalid.
    #[error("the sigma of a Gaussian must be a finite number, not negative; got {0}")]
    Sigma(f64),
    /// The truncation of a Gaussian is invalid.
    #[error(
        "a Gaussian must be truncated at a positive number of sigmas, and have fewer than {max} taps; got {truncated} sigmas"
    )]
    Truncated {
        /// The given truncation.
        truncated: f64,
        /// The maximum number of taps.
        max: usize,
    },
}

/// Filters `image` (`[C, X, Y, Z]`, f32) along each axis:
/// `out[i] = sum over k of taps[k] * image[i + k - taps.len() / 2]`.
///
/// An axis without taps, or with the single tap 1, is unchanged. The result has the image's shape
/// and device.
///
/// # Errors
/// Where an axis has an even number of taps, or more than its padding allows: as in PyTorch,
/// `Reflect` reaches at most `n - 1` voxels beyond an axis of `n`, and `Circular` at most `n`.
pub fn separable(image: Tensor<4>, taps: [&[f32]; 3], edge: Edge) -> Result<Tensor<4>, FilterError> {
    let dims = image.dims();
    for (axis, taps) in taps.iter().enumerate() {
        let (length, reach) = (dims[axis + 1], taps.len() / 2);
        if !taps.is_empty() && taps.len() % 2 == 0 {
            return Err(FilterError::EvenTaps { axis, taps: taps.len() });
        }
        if length > 0 && reach > edge.reach(length) {
            return Err(FilterError::TooShort { axis, reach, length, edge });
        }
    }
    let taps = taps.map(|taps| if taps == [1.0] { &[] } else { taps });
    if dims.contains(&0) || taps.iter().all(|t| t.is_empty()) {
        return Ok(image);
    }
    if let Some(filtered) = cpu::separable(&image, taps, edge) {
        return Ok(filtered);
    }
    Ok(shifted::separable(image, taps, edge))
}

/// Smooths `image` (`[C, X, Y, Z]`) by a Gaussian with these deviations in voxels, with zero
/// padding: MONAI's `GaussianFilter`.
///
/// An axis whose sigma is 0 is unchanged.
///
/// # Errors
/// Same as [`gaussian_taps`].
pub fn gaussian(
    image: Tensor<4>,
    sigma: [f64; 3],
    truncated: f64,
    approximation: Approximation,
) -> Result<Tensor<4>, FilterError> {
    let [x, y, z] = sigma.map(|sigma| gaussian_taps(sigma, truncated, approximation));
    separable(image, [&x?, &y?, &z?], Edge::Zeros)
}
