//! What [`MixUp`](super::MixUp), [`CutMix`](super::CutMix) and [`CutOut`](super::CutOut) draw for a
//! batch: [`Mixing`].

use std::ops::Range;

use burn::tensor::{Int, Tensor, TensorData};
use hearth_image::{Image, TransformError};
use hearth_registry::Fault;

use crate::Draw;

/// The draw for a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixing {
    /// Share of each entry that remains, 0 to 1.
    pub weights: Vec<f32>,
    /// The entry that each entry is mixed with.
    pub partners: Vec<usize>,
    /// First voxel of the boxes, along each axis; all entries share it.
    pub corner: [usize; 3],
}

impl Mixing {
    /// Draws for `entries` entries of this shape: weights from Beta(alpha, alpha), a permutation, and
    /// a voxel.
    pub fn draw(draw: &Draw, alpha: f64, entries: usize, shape: [usize; 3]) -> Self {
        Mixing {
            weights: (0..entries).map(|entry| draw.part(entry as u64).beta(alpha) as f32).collect(),
            partners: draw.permutation(entries),
            corner: shape.map(|n| draw.below(n as u64) as usize),
        }
    }

    /// The values of a batch as `[N, C, X, Y, Z]`.
    ///
    /// # Errors
    /// If the channels are not those of as many entries as were drawn for.
    pub(super) fn entries(&self, image: &Image) -> Result<Tensor<5>, TransformError> {
        let ([channels, x, y, z], entries) = (image.data.dims(), self.weights.len());
        if entries == 0 || self.partners.len() != entries || !channels.is_multiple_of(entries) {
            return Err(TransformError::new(format!("{channels} channels of a batch of {entries} entries"))
                .expected("as many channels in each entry"));
        }
        Ok(image.data.clone().reshape([entries, channels / entries, x, y, z]))
    }

    /// The entries that each entry is mixed with, in order.
    pub(super) fn partners_of(&self, entries: Tensor<5>) -> Tensor<5> {
        let partners: Vec<i64> = self.partners.iter().map(|partner| *partner as i64).collect();
        let device = entries.device();
        let partners = Tensor::<1, Int>::from_data(TensorData::new(partners, [self.partners.len()]), &device);
        entries.select(0, partners)
    }

    /// The weights as a tensor that each value of an entry is multiplied by.
    pub(super) fn weights_like(&self, entries: &Tensor<5>) -> Tensor<5> {
        let shape = [self.weights.len(), 1, 1, 1, 1];
        Tensor::from_data(TensorData::new(self.weights.clone(), shape), &entries.device())
    }

    /// The box of an entry, in all channels: from the corner on, `sqrt(1 - weight)` of each axis, up
    /// to the end of the image. `None` without voxels.
    pub(super) fn region(&self, entry: usize, dims: [usize; 5]) -> Option<[Range<usize>; 5]> {
        let weight = self.weights.get(entry)?;
        // In the precision of PyTorch, whose rounding decides whether a voxel more is covered.
        let side = f64::from(1.0 - weight).sqrt();
        let along = |axis: usize| {
            let (start, n) = (self.corner[axis], dims[axis + 2]);
            let end = (start as f32 + (n as f64 * side) as f32).ceil() as usize;
            start..end.min(n)
        };
        let region = [entry..entry + 1, 0..dims[1], along(0), along(1), along(2)];
        region.iter().all(|range| range.start < range.end).then_some(region)
    }
}

/// The values of a batch as the image that they came from.
pub(super) fn as_image(image: Image, entries: Tensor<5>) -> Image {
    let dims = image.data.dims();
    Image { data: entries.reshape(dims), ..image }
}

/// The largest parameter of the Beta distribution: beyond it all weights are one half.
const MOST_ALPHA: f64 = 1e6;

/// Checks the parameters that the transforms share.
pub(super) fn check(batch_size: Option<usize>, alpha: f64) -> Result<(), Fault> {
    if batch_size == Some(0) {
        return Err(Fault::at("batch_size", "is 0; expected the number of entries of a batch"));
    }
    match alpha > 0.0 && alpha <= MOST_ALPHA {
        true => Ok(()),
        false => Err(Fault::at("alpha", format!("{alpha} is not above 0 and at most {MOST_ALPHA}"))),
    }
}

/// Checks the number of entries of a batch.
pub(super) fn check_size(expected: Option<usize>, entries: usize) -> Result<(), TransformError> {
    match expected {
        Some(expected) if expected != entries => Err(TransformError::new(format!("the batch has {entries} entries"))
            .expected(format!("{expected}, the `batch_size` of the step"))
            .advice("remove `batch_size` from the step: it then takes batches of any size")),
        _ => Ok(()),
    }
}

pub(super) fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;

    #[test]
    fn partners_and_corners_are_uniform() {
        let (mut partners, mut corners) = ([[0_u32; 3]; 3], [0_u32; 4]);
        for epoch in 0..12_000 {
            let draw = DrawKey::new(3, epoch, 0).draw("case", 0, 0);
            let mixing = Mixing::draw(&draw, 1.0, 3, [4, 1, 1]);
            let mut sorted = mixing.partners.clone();
            sorted.sort_unstable();
            assert_eq!((sorted, mixing.corner[1..].to_vec()), (vec![0, 1, 2], vec![0, 0]));
            mixing.partners.iter().enumerate().for_each(|(entry, partner)| partners[entry][*partner] += 1);
            corners[mixing.corner[0]] += 1;
        }
        // Five standard deviations about 4000 and 3000.
        assert!(partners.iter().flatten().all(|count| (3742..4258).contains(count)), "{partners:?}");
        assert!(corners.iter().all(|count| (2763..3237).contains(count)), "{corners:?}");
    }

    #[test]
    fn batches_of_another_size_are_refused() {
        assert!(check_size(None, 3).is_ok() && check_size(Some(3), 3).is_ok());
        let error = check_size(Some(4), 3).expect_err("another size").to_string();
        assert!(error.contains("3 entries") && error.contains('4'), "{error}");
        for alpha in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(check(None, alpha).is_err_and(|fault| fault.path == "alpha"), "{alpha}");
        }
        assert!(check(Some(0), 1.0).is_err_and(|fault| fault.path == "batch_size"));
    }
}
