//! Inference with a two-dimensional network on the slices of a volume
//! (`monai.inferers.SliceInferer`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InferError, Inferer, SlidingWindowInferer};
use crate::layers::Axes;

/// Applies a two-dimensional sliding window inferer to each slice of a volume.
///
/// The network receives `[n, c, x, y, 1]`, with the axes of a slice in their order in the volume.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::inferers::{Inferer, SliceInferer};
/// let inferer: SliceInferer = toml::from_str("spatial_dim = 2\nroi_size = [4, 4]").expect("options");
/// let x = Tensor::ones([1, 1, 8, 6, 3], &Device::default());
/// let y = inferer.infer(x, &|slice| { assert_eq!(slice.dims()[2..], [4, 4, 1]); slice })?;
/// assert_eq!(y.dims(), [1, 1, 8, 6, 3]);
/// # Ok::<(), hearth_nn::inferers::InferError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct SliceInferer {
    /// The axis of the volume that is perpendicular to the slices.
    #[serde(default)]
    pub spatial_dim: usize,
    /// Size and blending of the windows along the other two axes.
    #[serde(flatten)]
    pub window: SlidingWindowInferer,
}

const NAME: &str = "SliceInferer";

impl SliceInferer {
    /// Runs a network with several outputs, `[b, c, x, y, z]` each, whose sizes may differ.
    ///
    /// # Errors
    /// If an option is invalid, outputs do not match the windows or do not fit into memory, or the
    /// prediction was stopped: see [`InferError`].
    pub fn infer_all(
        &self,
        x: Tensor<5>,
        net: &dyn Fn(Tensor<5>) -> Vec<Tensor<5>>,
    ) -> Result<Vec<Tensor<5>>, InferError> {
        let across = self.spatial_dim;
        self.slab()?.infer_all(x, &|windows| {
            // The sliced axis moves last, which keeps the order of the other two.
            let slices = (across..2).fold(windows, |x, axis| x.swap_dims(2 + axis, 3 + axis));
            let outputs = net(slices);
            let back = |x: Tensor<5>| (across..2).rev().fold(x, |x, axis| x.swap_dims(2 + axis, 3 + axis));
            outputs.into_iter().map(back).collect()
        })
    }

    /// The window in a volume: one voxel thick.
    fn slab(&self) -> Result<SlidingWindowInferer, InferError> {
        let value = |name, value: String, expected: &str| {
            Err(InferError::Value { inferer: NAME, name, value, expected: expected.to_owned() })
        };
        if self.spatial_dim > 2 {
            return value("spatial_dim", self.spatial_dim.to_string(), "expected 0, 1 or 2");
        }
        let mut roi = match &self.window.roi_size {
            Axes::Each(sizes) if sizes.len() == 2 => sizes.clone(),
            Axes::Each(sizes) => return value("roi_size", format!("{sizes:?}"), "expected two numbers, for a slice"),
            Axes::All(size) => return value("roi_size", size.to_string(), "expected two numbers, for a slice"),
        };
        roi.insert(self.spatial_dim, 1);
        Ok(SlidingWindowInferer { roi_size: Axes::Each(roi), ..self.window.clone() })
    }
}

impl Inferer for SliceInferer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), InferError> {
        self.slab()?.check_for(3)
    }

    fn check_for(&self, spatial_dims: usize) -> Result<(), InferError> {
        self.check()?;
        if spatial_dims != 2 {
            let expected =
                format!("slices have two axes, and the network takes {spatial_dims}; use SlidingWindowInferer");
            let value = self.spatial_dim.to_string();
            return Err(InferError::Value { inferer: NAME, name: "spatial_dim", value, expected });
        }
        Ok(())
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        let mut outputs = self.infer_all(x, &|slices| vec![net(slices)])?;
        // The closure above returns one output per call.
        Ok(outputs.swap_remove(0))
    }
}

hearth_registry::entry!(dyn Inferer => SliceInferer, example: r#"spatial_dim = 2
roi_size = [96, 96]
sw_batch_size = 4"#);
