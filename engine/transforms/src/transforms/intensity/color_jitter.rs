use burn::tensor::Tensor;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::color::{PixelType, adjust_brightness, adjust_contrast, adjust_contrasts, adjust_hue, adjust_saturation};
use super::ranges::check_pair;
use crate::Draw;
use crate::params::Keys;

/// Changes brightness, contrast, saturation and hue by random factors in random order, with
/// probability `prob` (default 1): `torchvision.transforms.ColorJitter`, and cuCIM's
/// `color_jitter`.
///
/// A number b means factors from `max(0, 1 - b)` to `1 + b`, for `hue` from -b to b; a pair is the
/// range itself; 0 omits a step. All keys share order and factors. `dtype` is the type of the
/// values: `float32` from 0 to 1, or `uint8`, grey levels from 0 to 255. An image of 3n channels is
/// n pictures, as in a batch, which also share order and factors.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ColorJitter};
/// let pixel = tiny::image([3, 1, 1, 1], [0.1, 0.2, 0.3]).with_spatial_dims(2);
/// let image = tiny::apply(ColorJitter::new("image").brightness([2.0, 2.0]), pixel)?;
/// assert!(tiny::is_near(&image, [0.2, 0.4, 0.6]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColorJitter {
    keys: Keys,
    #[serde(default)]
    brightness: OneOrMany<f64>,
    #[serde(default)]
    contrast: OneOrMany<f64>,
    #[serde(default)]
    saturation: OneOrMany<f64>,
    #[serde(default)]
    hue: OneOrMany<f64>,
    #[serde(default)]
    dtype: PixelType,
    #[serde(default = "always")]
    prob: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn always() -> f64 {
    1.0
}

/// One step, with its factor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Brightness(f64),
    Contrast(f64),
    Saturation(f64),
    Hue(f64),
}

impl ColorJitter {
    /// Creates the transform: no change until a range is set.
    pub fn new(keys: impl Into<Keys>) -> Self {
        ColorJitter {
            keys: keys.into(),
            brightness: OneOrMany::default(),
            contrast: OneOrMany::default(),
            saturation: OneOrMany::default(),
            hue: OneOrMany::default(),
            dtype: PixelType::default(),
            prob: always(),
            allow_missing_keys: false,
        }
    }

    /// Returns the ranges in torchvision's order; `None` for an omitted step.
    fn ranges(&self) -> [Option<[f64; 2]>; 4] {
        let range = |values: &OneOrMany<f64>, centre: f64, lowest: f64| {
            let range = match values.as_slice() {
                [low, high] => [*low, *high],
                one => {
                    let by = one.first().copied().unwrap_or(0.0);
                    [f64::max(centre - by, lowest), centre + by]
                }
            };
            (range != [centre; 2]).then_some(range)
        };
        [
            range(&self.brightness, 1.0, 0.0),
            range(&self.contrast, 1.0, 0.0),
            range(&self.saturation, 1.0, 0.0),
            range(&self.hue, 0.0, f64::NEG_INFINITY),
        ]
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<Vec<Step>, TransformError> {
        let order = draw.permutation(4);
        let factors = self.ranges().map(|range| range.map(|[low, high]| draw.between(low, high)));
        let steps = [Step::Brightness, Step::Contrast, Step::Saturation, Step::Hue];
        Ok(order.into_iter().filter_map(|i| factors[i].map(steps[i])).collect())
    }

    fn change(&self, image: Image, steps: &[Step], _: usize) -> Result<Image, TransformError> {
        if image.channels() > 3 && image.channels().is_multiple_of(3) {
            return self.change_all(image, steps);
        }
        steps.iter().try_fold(image, |image, step| match *step {
            Step::Brightness(factor) => adjust_brightness(image, factor, self.dtype),
            Step::Contrast(factor) => adjust_contrast(image, factor, self.dtype),
            Step::Saturation(factor) => adjust_saturation(image, factor, self.dtype),
            Step::Hue(factor) => adjust_hue(image, factor, self.dtype),
        })
    }

    /// Applies the steps to several pictures, three channels each. All steps but the contrast
    /// process single pixels, so the pictures can be adjacent; for the contrast each has its own
    /// mean.
    fn change_all(&self, mut image: Image, steps: &[Step]) -> Result<Image, TransformError> {
        let [channels, x, y, z] = image.data.dims();
        let count = channels / 3;
        let apart = |data: Tensor<4>| data.reshape([count, 3, x, y, z]);
        let beside = |data: Tensor<4>| apart(data).swap_dims(0, 1).reshape([3, count * x, y, z]);
        let together = |data: Tensor<4>| data.reshape([3, count, x, y, z]).swap_dims(0, 1).reshape([channels, x, y, z]);
        let meta = image.meta.clone();
        for step in steps {
            image.data = match *step {
                Step::Contrast(factor) => {
                    adjust_contrasts(apart(image.data), factor, self.dtype)?.reshape([channels, x, y, z])
                }
                other => {
                    let row = Image { data: beside(image.data), affine: image.affine, meta: meta.clone() };
                    together(
                        match other {
                            Step::Brightness(factor) => adjust_brightness(row, factor, self.dtype)?,
                            Step::Saturation(factor) => adjust_saturation(row, factor, self.dtype)?,
                            Step::Hue(factor) => adjust_hue(row, factor, self.dtype)?,
                            Step::Contrast(_) => row,
                        }
                        .data,
                    )
                }
            };
        }
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        let given = [&self.brightness, &self.contrast, &self.saturation, &self.hue];
        let names = ["brightness", "contrast", "saturation", "hue"];
        for ((values, name), range) in given.into_iter().zip(names).zip(self.ranges()) {
            match values.as_slice() {
                [one] if one.is_nan() || *one < 0.0 => {
                    return Err(Fault::at(name, format!("a single number must not be negative, got {one}")));
                }
                [_] | [_, _] => {}
                _ => return Err(Fault::at(name, "must be one number or a pair")),
            }
            let (low, high) = if name == "hue" { (-0.5, 0.5) } else { (0.0, f64::INFINITY) };
            range.map_or(Ok(()), |range| check_pair(name, range, low, high))?;
        }
        Ok(())
    }
}

setters!(ColorJitter {
    /// Change of brightness, or the range of its factor.
    brightness: OneOrMany<f64>,
    /// Change of contrast, or the range of its factor.
    contrast: OneOrMany<f64>,
    /// Change of saturation, or the range of its factor.
    saturation: OneOrMany<f64>,
    /// Rotation of the hue, or its range.
    hue: OneOrMany<f64>,
    /// Range of the values.
    dtype: PixelType,
    /// Probability that the transform is applied.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(ColorJitter);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;

    fn drawn(jitter: &ColorJitter, n: u64) -> Vec<Step> {
        jitter.draw(&DrawKey::new(n, 0, 0).draw("", 0, 0), &[]).expect("sound")
    }

    #[test]
    fn factors_fill_their_ranges_in_every_order() {
        let jitter = ColorJitter::new("image").brightness(0.25).contrast([0.5, 0.75]).saturation(2.0).hue(0.04);
        jitter.check_parameters().expect("sound");
        let (mut first, mut low, mut high) = ([0; 4], [f64::MAX; 4], [f64::MIN; 4]);
        for n in 0..4000 {
            for (place, step) in drawn(&jitter, n).into_iter().enumerate() {
                let (kind, factor) = match step {
                    Step::Brightness(f) => (0, f),
                    Step::Contrast(f) => (1, f),
                    Step::Saturation(f) => (2, f),
                    Step::Hue(f) => (3, f),
                };
                low[kind] = low[kind].min(factor);
                high[kind] = high[kind].max(factor);
                first[kind] += usize::from(place == 0);
            }
        }
        for (kind, [a, b]) in [[0.75, 1.25], [0.5, 0.75], [0.0, 3.0], [-0.04, 0.04]].into_iter().enumerate() {
            let width = b - a;
            assert!(low[kind] >= a && low[kind] < a + 0.01 * width, "{kind}: {low:?}");
            assert!(high[kind] < b && high[kind] > b - 0.01 * width, "{kind}: {high:?}");
            assert!((900..1100).contains(&first[kind]), "{first:?}");
        }
    }

    #[test]
    fn several_pictures_are_changed_as_each_alone_is() {
        let pixels = |seed: usize| (0..3 * 20).map(|i| ((i * 37 + seed * 91) % 256) as f32).collect::<Vec<f32>>();
        let picture = |values: Vec<f32>, channels: usize| {
            let image = Image::from_values(
                values,
                [channels, 4, 5, 1],
                hearth_image::affine::IDENTITY,
                &hearth_image::host_device(),
            );
            image.with_spatial_dims(2)
        };
        let jitter = ColorJitter::new("image").brightness(0.25).contrast(0.75).saturation(0.25).hue(0.04);
        let jitter = jitter.dtype(PixelType::Uint8);
        for n in 0..8 {
            let steps = drawn(&jitter, n);
            let all = picture([pixels(0), pixels(1), pixels(2)].concat(), 9);
            let all = jitter.change(all, &steps, 0).expect("pictures").to_vec();
            let each = (0..3).flat_map(|i| jitter.change(picture(pixels(i), 3), &steps, 0).expect("one").to_vec());
            for (a, b) in all.iter().zip(each) {
                // A mean may be rounded differently, and then truncated.
                assert!((a - b).abs() <= 1.0, "{a} for {b}");
            }
        }
    }

    #[test]
    fn nothing_is_done_where_nothing_is_asked() {
        assert!(drawn(&ColorJitter::new("image").brightness([1.0, 1.0]), 0).is_empty());
    }

    #[test]
    fn bad_ranges_are_refused() {
        for jitter in [
            ColorJitter::new("image").brightness(-0.1),
            ColorJitter::new("image").contrast([1.5, 0.5]),
            ColorJitter::new("image").saturation([-0.5, 0.5]),
            ColorJitter::new("image").hue(0.6),
            ColorJitter::new("image").hue([0.0, 0.1, 0.2]),
            ColorJitter::new("image").brightness(f64::NAN),
            ColorJitter::new("image").contrast(f64::INFINITY),
        ] {
            assert!(jitter.check_parameters().is_err(), "{jitter:?}");
        }
    }
}

transform_entry!(
    ColorJitter,
    r#"keys = ["rgb"]
brightness = 0.25
contrast = 0.75
saturation = 0.25
hue = 0.04"#
);
