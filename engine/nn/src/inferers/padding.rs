//! Padding of images.

use burn::tensor::{Int, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The padding mode of an image (`monai.utils.PytorchPadMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PaddingMode {
    /// Padding with a constant value.
    #[default]
    Constant,
    /// Mirror padding that does not repeat the edge voxel.
    Reflect,
    /// Padding with the edge voxel.
    Replicate,
    /// Circular padding.
    Circular,
}

impl PaddingMode {
    /// Pads each axis by a number of voxels before and after it. The error is a message.
    pub(super) fn pad(
        self,
        x: Tensor<5>,
        before: [usize; 3],
        after: [usize; 3],
        value: f64,
    ) -> Result<Tensor<5>, String> {
        if before == [0; 3] && after == [0; 3] {
            return Ok(x);
        }
        let [batch, channels, nx, ny, nz] = x.dims();
        let image = [nx, ny, nz];
        let padded: [usize; 3] = std::array::from_fn(|a| before[a] + image[a] + after[a]);
        let device = x.device();
        if self == PaddingMode::Constant {
            let shape = [batch, channels, padded[0], padded[1], padded[2]];
            let whole = Tensor::<5>::full(shape, value, &device).cast(x.dtype());
            let place = |a: usize| before[a]..before[a] + image[a];
            return Ok(whole.slice_assign([0..batch, 0..channels, place(0), place(1), place(2)], x));
        }
        let mut x = x;
        for axis in 0..3 {
            let length = image[axis];
            if length == padded[axis] {
                continue;
            }
            let sources: Option<Vec<i64>> =
                (0..padded[axis]).map(|i| self.source(i as i64 - before[axis] as i64, length as i64)).collect();
            let sources = sources.ok_or_else(|| {
                format!("an axis of {length} is too short to pad to {} with this mode; use constant", padded[axis])
            })?;
            let indices = Tensor::<1, Int>::from_data(TensorData::from(sources.as_slice()), &device);
            x = x.select(2 + axis, indices);
        }
        Ok(x)
    }

    /// The index of the source voxel for index `i`, inside or outside the image. As in PyTorch,
    /// reflect and circular padding are limited by the length of the axis.
    fn source(self, i: i64, length: i64) -> Option<i64> {
        let source = match self {
            PaddingMode::Constant | PaddingMode::Replicate => i.clamp(0, length - 1),
            PaddingMode::Reflect if i < 0 => -i,
            PaddingMode::Reflect if i >= length => 2 * (length - 1) - i,
            PaddingMode::Circular if i < 0 => i + length,
            PaddingMode::Circular if i >= length => i - length,
            PaddingMode::Reflect | PaddingMode::Circular => i,
        };
        (0..length).contains(&source).then_some(source)
    }
}
