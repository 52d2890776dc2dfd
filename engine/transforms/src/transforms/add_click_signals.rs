use std::collections::BTreeSet;

use burn::tensor::{Device, Tensor, TensorData};
use hearth_image::{Image, TransformError};
use hearth_kernels::filter::{self, Approximation};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::check_key;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Crops a square patch around each click on a 2-D image and appends two channels: 1 at the click,
/// and 1 at all other clicks (MONAI's `AddClickSignalsd`, Koohbanani et al.,
/// <https://arxiv.org/abs/2005.14511>).
///
/// The value `foreground` holds the clicks as numbers: x and y (the first and the second axis) of
/// each click in turn. Clicks outside the image are skipped; a patch that would reach over the
/// border is moved inside. `location`, if the sample has it, is subtracted from each click.
///
/// Each click yields a sample with its patch, whereas MONAI stacks all patches before the channels:
/// a following `SqueezeDimd`, which removes that axis for a single click, is not needed. The
/// patch's first and last corner is stored as `bounding_boxes`, the image's size as `img_width` and
/// `img_height`.
///
/// ```
/// # use hearth_transforms::{Sample, Value, tiny, transforms::AddClickSignals};
/// let sample = Sample::new("case").with_image("image", tiny::ramp([1, 4, 4, 1]).with_spatial_dims(2));
/// let clicks = [0.0, 0.0, 3.0, 3.0];
/// let sample = sample.with("foreground", Value::Numbers(clicks.as_slice().into()));
/// let made = tiny::run(AddClickSignals::new().bb_size(2_usize), sample)?;
/// assert_eq!(made.len(), 2);
/// let patch = made[1].image("image")?.to_vec();
/// assert_eq!(patch, [10.0, 11.0, 14.0, 15.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddClickSignals {
    #[serde(default = "image")]
    image: String,
    #[serde(default = "foreground")]
    foreground: String,
    #[serde(default = "side")]
    bb_size: usize,
    #[serde(default)]
    gaussian: bool,
    #[serde(default = "one")]
    sigma: f64,
    #[serde(default = "two")]
    truncated: f64,
    #[serde(default = "yes")]
    add_exclusion_map: bool,
}

fn image() -> String {
    "image".to_owned()
}

fn foreground() -> String {
    "foreground".to_owned()
}

fn side() -> usize {
    128
}

fn one() -> f64 {
    1.0
}

fn two() -> f64 {
    2.0
}

fn yes() -> bool {
    true
}

impl Default for AddClickSignals {
    fn default() -> Self {
        Self::new()
    }
}

impl AddClickSignals {
    /// Creates the transform: patches of 128 pixels, with both maps, not blurred.
    pub fn new() -> Self {
        AddClickSignals {
            image: image(),
            foreground: foreground(),
            bb_size: side(),
            gaussian: false,
            sigma: one(),
            truncated: two(),
            add_exclusion_map: true,
        }
    }

    /// Returns the clicks within an image of this size.
    fn clicks(&self, sample: &Sample, size: [usize; 2]) -> Result<Vec<[usize; 2]>, TransformError> {
        let numbers = numbers(sample, &self.foreground)?;
        let moved = match sample.values.contains_key("location") {
            true => match numbers_of(sample, "location")?[..] {
                [x, y] => [x, y],
                _ => return Err(TransformError::new("expected two numbers").at("location")),
            },
            false => [0.0; 2],
        };
        let inside = |at: f64, axis: usize| {
            // NumPy converts to whole numbers in this way: towards 0.
            let at = (at - moved[axis]).trunc();
            (at >= 0.0 && at < size[axis] as f64).then_some(at as usize)
        };
        let pairs = numbers.chunks_exact(2);
        Ok(pairs.filter_map(|pair| Some([inside(pair[0], 0)?, inside(pair[1], 1)?])).collect())
    }

    /// Returns a map `[1, x, y, 1]` of 1 at these pixels, optionally blurred.
    fn map(&self, at: &[[usize; 2]], device: &Device) -> Result<Tensor<4>, TransformError> {
        let side = self.bb_size;
        let mut values = vec![0.0_f32; side * side];
        for [x, y] in at {
            values[x * side + y] = 1.0;
        }
        let map = Tensor::from_data(TensorData::new(values, [1, side, side, 1]), device);
        if !self.gaussian || at.is_empty() {
            return Ok(map);
        }
        filter::gaussian(map, [self.sigma, self.sigma, 0.0], self.truncated, Approximation::Erf)
            .map_err(|error| TransformError::new(error.to_string()))
    }

    /// Returns the patch that starts at `low` with its maps; `own` is the click, `all` are all
    /// clicks.
    fn patch(
        &self,
        image: &Image,
        low: [usize; 2],
        own: [usize; 2],
        all: &[[usize; 2]],
    ) -> Result<Image, TransformError> {
        let device = image.data.device();
        let (side, [lx, ly]) = (self.bb_size, low);
        let within = |[x, y]: [usize; 2]| {
            let at = [x.checked_sub(lx)?, y.checked_sub(ly)?];
            (at[0] < side && at[1] < side).then_some(at)
        };
        let clicks: Vec<[usize; 2]> = within(own).into_iter().collect();
        let mut parts = vec![image.data.clone().narrow(1, lx, side).narrow(2, ly, side), self.map(&clicks, &device)?];
        if self.add_exclusion_map {
            let others = all.iter().filter(|at| **at != own).filter_map(|at| within(*at));
            parts.push(self.map(&others.collect::<Vec<_>>(), &device)?);
        }
        Ok(Image { data: Tensor::cat(parts, 0), ..image.clone() })
    }
}

/// Returns the numbers of a value: pairs of coordinates.
fn numbers(sample: &Sample, key: &str) -> Result<Vec<f64>, TransformError> {
    let found = numbers_of(sample, key)?;
    if found.len().is_multiple_of(2) {
        return Ok(found);
    }
    Err(TransformError::new(format!("`{key}` has {} numbers", found.len()))
        .expected("x and y of each click in turn")
        .at(key))
}

fn numbers_of(sample: &Sample, key: &str) -> Result<Vec<f64>, TransformError> {
    match sample.get(key).map_err(|e| e.at(key))? {
        Value::Numbers(numbers) => Ok(numbers.to_vec()),
        other => Err(TransformError::new(format!("`{key}` is {}", other.kind())).expected("numbers").at(key)),
    }
}

setters!(AddClickSignals {
    /// Key of the image.
    image: String,
    /// Key of the clicks.
    foreground: String,
    /// Length of a patch along both axes, in pixels.
    bb_size: usize,
    /// Whether to blur the maps of clicks.
    gaussian: bool,
    /// Standard deviation of the blur, in pixels.
    sigma: f64,
    /// Truncation of the blur, in standard deviations.
    truncated: f64,
    /// Whether to append the map of the other clicks.
    add_exclusion_map: bool,
});

impl Transform for AddClickSignals {
    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn other_keys(&self) -> Vec<&str> {
        vec![&self.image, &self.foreground]
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let image = sample.image(&self.image).map_err(|e| e.at(&self.image))?.clone();
        let [width, height, depth] = image.shape();
        let side = self.bb_size;
        if depth != 1 || width < side || height < side {
            return Err(TransformError::new(format!("the image has {:?} pixels", image.shape()))
                .expected(format!("a 2-D image of at least {side} x {side}, the size of a patch (`bb_size`)"))
                .at(&self.image));
        }
        let clicks = self.clicks(&sample, [width, height])?;
        if clicks.is_empty() {
            return Err(TransformError::new("no click is inside the image").at(&self.foreground));
        }
        let one = |own: &[usize; 2]| {
            let low = [0, 1].map(|axis| own[axis].saturating_sub(side / 2).min([width, height][axis] - side));
            let patch = self.patch(&image, low, *own, &clicks)?;
            let corners = [low[0], low[1], low[0] + side, low[1] + side].map(|at| at as f64);
            Ok(sample
                .clone()
                .with_image(self.image.clone(), patch)
                .with("bounding_boxes", Value::Numbers(corners.as_slice().into()))
                .with("img_width", Value::Number(width as f64))
                .with("img_height", Value::Number(height as f64)))
        };
        clicks.iter().map(one).collect()
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        check_key("image", &self.image, known)?;
        check_key("foreground", &self.foreground, known)?;
        if self.bb_size == 0 {
            return Err(Fault::at("bb_size", "is 0; expected at least 1"));
        }
        if !(self.sigma >= 0.0 && self.sigma.is_finite() && self.truncated > 0.0 && self.truncated.is_finite()) {
            return Err(Fault::at("sigma", "expected a sigma of at least 0 and `truncated` above 0"));
        }
        known.extend(["bounding_boxes", "img_width", "img_height"].map(str::to_owned));
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    AddClickSignals,
    r#"image = "image"
foreground = "foreground"
bb_size = 128"#
);

#[cfg(test)]
mod tests {
    use super::AddClickSignals;
    use crate::{Sample, Value, tiny};

    fn clicked(clicks: &[f64]) -> Sample {
        let image = tiny::ramp([1, 5, 6, 1]).with_spatial_dims(2);
        Sample::new("case").with_image("image", image).with("foreground", Value::Numbers(clicks.into()))
    }

    #[test]
    fn patches_are_moved_inside_and_clicks_outside_are_left_out() -> Result<(), hearth_image::TransformError> {
        let transform = AddClickSignals::new().bb_size(4_usize).add_exclusion_map(false);
        let made = tiny::run(transform, clicked(&[4.0, 5.0, 5.0, 0.0, -1.0, 2.0]))?;
        assert_eq!(made.len(), 1);
        let image = made[0].image("image")?;
        assert_eq!(image.data.dims(), [2, 4, 4, 1]);
        let values = image.to_vec();
        assert_eq!(values[..4], [8.0, 9.0, 10.0, 11.0]);
        assert_eq!(values[16..].iter().sum::<f32>(), 1.0);
        assert_eq!(values[31], 1.0);
        assert!(matches!(made[0].get("bounding_boxes")?, Value::Numbers(b) if b[..] == [1.0, 2.0, 5.0, 6.0]));
        Ok(())
    }

    #[test]
    fn the_other_map_has_the_other_clicks_of_the_patch() -> Result<(), hearth_image::TransformError> {
        let made = tiny::run(AddClickSignals::new().bb_size(2_usize), clicked(&[1.0, 1.0, 1.0, 0.0, 4.0, 4.0]))?;
        let maps: Vec<Vec<f32>> =
            made.iter().map(|s| s.image("image").map(|i| i.to_vec()[4..].to_vec())).collect::<Result<_, _>>()?;
        assert_eq!(maps[0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(maps[1], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(maps[2], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        Ok(())
    }

    #[test]
    fn a_blurred_click_is_a_gaussian() -> Result<(), hearth_image::TransformError> {
        let transform = AddClickSignals::new().bb_size(5_usize).gaussian(true).add_exclusion_map(false);
        let made = tiny::run(transform, clicked(&[2.0, 2.0]))?;
        let map = made[0].image("image")?.to_vec()[25..].to_vec();
        // The integral of a Gaussian of deviation 1 over a pixel, along both axes.
        let share = |from: f64, to: f64| 0.5 * (erf(to / 2.0_f64.sqrt()) - erf(from / 2.0_f64.sqrt()));
        let centre = share(-0.5, 0.5).powi(2);
        assert!((f64::from(map[12]) - centre).abs() < 1e-4, "{} for {centre}", map[12]);
        assert!((f64::from(map[13]) - share(-0.5, 0.5) * share(0.5, 1.5)).abs() < 1e-4);
        Ok(())
    }

    /// The error function by its series.
    fn erf(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for n in 1..60 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn what_cannot_be_cut_is_told() {
        let error = |clicks: &[f64], side: usize| {
            tiny::run(AddClickSignals::new().bb_size(side), clicked(clicks)).expect_err("refused").to_string()
        };
        assert!(error(&[1.0, 1.0], 7).contains("at least 7 x 7"));
        assert!(error(&[9.0, 9.0], 2).contains("no click is inside"));
        assert!(error(&[1.0, 1.0, 2.0], 2).contains("3 numbers"));
    }
}
