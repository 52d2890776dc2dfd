//! Landmarks in each slice of a volume: `LandmarkInferer` of MONAI's bundle `valve_landmarks`.

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InferError, Inferer, check_stop};

/// Applies a network that predicts points to each slice of a volume, and stacks the results.
///
/// The network receives `[n, c, x, y, 1]`, with the axes of a slice in their order in the volume,
/// and returns `[n, a, b, 1, 1]`: coordinates and points. The result is `[n, slices, a, b, 1]` for
/// `stack_dim = 1`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::inferers::{Inferer, LandmarkInferer};
/// let inferer: LandmarkInferer = toml::from_str("spatial_dim = 2\nstack_dim = 1").expect("options");
/// let x = Tensor::ones([1, 1, 8, 6, 3], &Device::default());
/// let points = |slice: Tensor<5>| slice.sum().reshape([1, 1, 1, 1, 1]).repeat(&[1, 2, 10, 1, 1]);
/// assert_eq!(inferer.infer(x, &points)?.dims(), [1, 3, 2, 10, 1]);
/// # Ok::<(), hearth_nn::inferers::InferError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct LandmarkInferer {
    /// The axis of the volume that is perpendicular to the slices.
    #[serde(default)]
    pub spatial_dim: usize,
    /// The axis of the result along which slices are stacked, 1 to 3; -1 is the last one.
    #[serde(default = "last")]
    pub stack_dim: i64,
}

fn last() -> i64 {
    -1
}

const NAME: &str = "LandmarkInferer";

impl Default for LandmarkInferer {
    fn default() -> Self {
        LandmarkInferer { spatial_dim: 0, stack_dim: last() }
    }
}

impl LandmarkInferer {
    /// The stacking axis, counted after the batch.
    fn place(&self) -> Option<usize> {
        let place = if self.stack_dim < 0 { self.stack_dim.checked_add(4)? } else { self.stack_dim };
        usize::try_from(place).ok().filter(|place| (1..=3).contains(place))
    }
}

impl Inferer for LandmarkInferer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), InferError> {
        let wrong = |name, value: i64, expected: &str| {
            Err(InferError::Value { inferer: NAME, name, value: value.to_string(), expected: expected.to_owned() })
        };
        if self.spatial_dim > 2 {
            return wrong("spatial_dim", self.spatial_dim as i64, "expected 0, 1 or 2");
        }
        if self.place().is_none() {
            return wrong("stack_dim", self.stack_dim, "expected 1 to 3, or -3 to -1");
        }
        Ok(())
    }

    /// A slice perpendicular to the cut axis.
    fn window(&self) -> Option<(&'static str, Vec<i64>)> {
        Some(("spatial_dim", (0..3).map(|axis| i64::from(axis == self.spatial_dim)).collect()))
    }

    fn passes(&self, shape: [usize; 5]) -> Option<u64> {
        shape.get(2 + self.spatial_dim).map(|slices| *slices as u64)
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        self.check()?;
        let across = 2 + self.spatial_dim;
        let mut points = Vec::with_capacity(x.dims()[across]);
        for slice in 0..x.dims()[across] {
            let cut = x.clone().narrow(across, slice, 1);
            // The sliced axis moves last, which keeps the order of the other two.
            let cut = (self.spatial_dim..2).fold(cut, |x, axis| x.swap_dims(2 + axis, 3 + axis));
            let window = cut.dims();
            check_stop()?;
            let got = net(cut);
            let [n, a, b, rest @ ..] = got.dims();
            if rest != [1, 1] || n != window[0] {
                let expected = format!("expected points, [{}, coordinates, points, 1, 1]", window[0]);
                return Err(InferError::Output { inferer: NAME, window, got: got.dims(), expected });
            }
            points.push(got.reshape([n, a, b, 1]));
        }
        // `check` has validated the axis.
        Ok(Tensor::stack(points, self.place().unwrap_or(1)))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};

    use super::LandmarkInferer;
    use crate::inferers::Inferer;

    #[test]
    fn slices_keep_their_axes_and_are_stacked_in_order() {
        let device = Device::default();
        let values: Vec<f32> = (0..24).map(|value| value as f32).collect();
        let x: Tensor<5> = Tensor::from_data(TensorData::new(values, [1, 1, 2, 3, 4]), &device);
        for (axis, size) in [(0, [3, 4]), (1, [2, 4]), (2, [2, 3])] {
            let inferer = LandmarkInferer { spatial_dim: axis, stack_dim: -1 };
            // The slice itself is used as its points.
            let made = inferer.infer(x.clone(), &|slice| slice.reshape([1, size[0], size[1], 1, 1])).expect("points");
            let wanted = (axis..2).fold(x.clone(), |x, axis| x.swap_dims(2 + axis, 3 + axis));
            let [_, _, a, b, slices] = wanted.dims();
            assert_eq!(made.dims(), [1, a, b, slices, 1]);
            let floats = |x: Tensor<5>| x.into_data().try_to_vec::<f32>().expect("floats");
            assert_eq!(floats(made), floats(wanted), "axis {axis}");
        }
    }

    #[test]
    fn what_gives_no_points_is_told() {
        let x = Tensor::<5>::zeros([1, 1, 4, 4, 2], &Device::default());
        // A map of the slice is `[1, 1, 4, 4, 1]`.
        let error = LandmarkInferer { spatial_dim: 2, stack_dim: 1 }.infer(x, &|slice| slice).map(|made| made.dims());
        assert!(error.is_err_and(|error| error.to_string().contains("expected points")));
    }

    #[test]
    fn options_are_checked() {
        assert!(LandmarkInferer { spatial_dim: 3, stack_dim: 1 }.check().is_err());
        assert!(LandmarkInferer { spatial_dim: 0, stack_dim: 0 }.check().is_err());
        assert!(LandmarkInferer { spatial_dim: 0, stack_dim: 4 }.check().is_err());
        assert!(LandmarkInferer::default().check().is_ok());
    }
}
