//! Brightness, contrast, saturation and hue: torchvision's `adjust_*` functions for images with one
//! or three channels.

use burn::tensor::Tensor;
use hearth_image::{Image, TransformError};
use hearth_kernels::host;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statistics::moments;
use super::values::map;

/// The range of a picture's values, named after torchvision's type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PixelType {
    /// Numbers from 0 to 1.
    #[default]
    Float32,
    /// Integer grey levels from 0 to 255; results are truncated to integers.
    Uint8,
}

impl PixelType {
    /// The largest value.
    fn bound(self) -> f32 {
        match self {
            PixelType::Float32 => 1.0,
            PixelType::Uint8 => 255.0,
        }
    }

    /// Clamps and truncates a value to the type.
    #[inline(always)]
    fn hold(self, value: f32) -> f32 {
        let value = value.clamp(0.0, self.bound());
        if self == PixelType::Uint8 { value.floor() } else { value }
    }

    fn hold_all(self, values: Tensor<4>) -> Tensor<4> {
        let values = values.clamp(0.0, self.bound());
        if self == PixelType::Uint8 { values.floor() } else { values }
    }
}

/// The weights of the colours in torchvision's (and TensorFlow's) grey.
const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

#[inline(always)]
fn grey(r: f32, g: f32, b: f32, pixel: PixelType) -> f32 {
    let grey = GREY[0] * r + GREY[1] * g + GREY[2] * b;
    if pixel == PixelType::Uint8 { grey.floor() } else { grey }
}

fn grey_of(data: &Tensor<4>, pixel: PixelType) -> Tensor<4> {
    let [r, g, b] = split(data);
    let grey = r * GREY[0] + g * GREY[1] + b * GREY[2];
    if pixel == PixelType::Uint8 { grey.floor() } else { grey }
}

fn split(data: &Tensor<4>) -> [Tensor<4>; 3] {
    std::array::from_fn(|channel| data.clone().narrow(0, channel, 1))
}

/// Checks that an image has one or three channels.
fn check_channels(image: &Image) -> Result<(), TransformError> {
    match image.channels() {
        1 | 3 => Ok(()),
        n => Err(TransformError::new(format!("colours of an image of {n} channels"))
            .expected("1 (grey) or 3 (red, green, blue)")
            .advice("drop the transparency channel when loading")),
    }
}

fn check_factor(name: &str, factor: f64) -> Result<(), TransformError> {
    if factor >= 0.0 && factor.is_finite() {
        Ok(())
    } else {
        Err(TransformError::new(format!("a {name} factor of {factor}")).expected("a finite number, not negative"))
    }
}

/// Changes each pixel of three channels: by a loop on the CPU, otherwise by `elsewhere`.
fn each_pixel(
    mut image: Image,
    change: impl Fn([f32; 3]) -> [f32; 3] + Sync,
    elsewhere: impl FnOnce(Tensor<4>) -> Tensor<4>,
) -> Image {
    const PIECE: usize = 1 << 13;
    let changed = host::change(image.data, |values| {
        let size = values.len() / 3;
        let (red, rest) = values.split_at_mut(size);
        let (green, blue) = rest.split_at_mut(size);
        let planes = red.par_chunks_mut(PIECE).zip(green.par_chunks_mut(PIECE)).zip(blue.par_chunks_mut(PIECE));
        planes.for_each(|((red, green), blue)| {
            for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
                [*r, *g, *b] = change([*r, *g, *b]);
            }
        });
    });
    image.data = changed.unwrap_or_else(elsewhere);
    image
}

/// Multiplies by `factor`: 0 yields black, 1 the unchanged image.
///
/// # Errors
/// If the factor is negative or the image has neither one nor three channels; the same for all
/// `adjust_*` functions.
pub fn adjust_brightness(image: Image, factor: f64, pixel: PixelType) -> Result<Image, TransformError> {
    check_channels(&image)?;
    check_factor("brightness", factor)?;
    let factor = factor as f32;
    Ok(map(image, |x| pixel.hold(x * factor), |x| pixel.hold_all(x * factor)))
}

/// Blends with the mean grey of the whole image: 0 yields the mean, 1 the unchanged image.
///
/// # Errors
/// Those of [`adjust_brightness`].
pub fn adjust_contrast(image: Image, factor: f64, pixel: PixelType) -> Result<Image, TransformError> {
    check_channels(&image)?;
    check_factor("contrast", factor)?;
    let mean = mean_grey(&image, pixel);
    let (factor, rest) = (factor as f32, (1.0 - factor) as f32 * mean);
    Ok(map(image, |x| pixel.hold(x * factor + rest), |x| pixel.hold_all(x * factor + rest)))
}

/// Applies [`adjust_contrast`] to several pictures, `[n, 3, x, y, z]`, each with its own mean.
pub(super) fn adjust_contrasts(
    pictures: Tensor<5>,
    factor: f64,
    pixel: PixelType,
) -> Result<Tensor<5>, TransformError> {
    check_factor("contrast", factor)?;
    let [n, _, x, y, z] = pictures.dims();
    let [r, g, b] = std::array::from_fn(|channel| pictures.clone().narrow(1, channel, 1));
    let grey = r * GREY[0] + g * GREY[1] + b * GREY[2];
    let grey = if pixel == PixelType::Uint8 { grey.floor() } else { grey };
    let mean = grey.reshape([n, x * y * z]).mean_dim(1).reshape([n, 1, 1, 1, 1]);
    let changed = (pictures * factor as f32 + mean * (1.0 - factor) as f32).clamp(0.0, pixel.bound());
    Ok(if pixel == PixelType::Uint8 { changed.floor() } else { changed })
}

fn mean_grey(image: &Image, pixel: PixelType) -> f32 {
    let three = image.channels() == 3;
    let here = host::read(&image.data, |values| {
        if !three {
            return moments(values, false).mean as f32;
        }
        const PIECE: usize = 1 << 14;
        let size = (values.len() / 3).max(1);
        let [r, g, b] = std::array::from_fn(|c| values.get(c * size..(c + 1) * size).unwrap_or_default());
        let sums: Vec<f64> = r
            .par_chunks(PIECE)
            .zip(g.par_chunks(PIECE))
            .zip(b.par_chunks(PIECE))
            .map(|((r, g), b)| r.iter().zip(g).zip(b).map(|((r, g), b)| f64::from(grey(*r, *g, *b, pixel))).sum())
            .collect();
        (sums.iter().sum::<f64>() / size as f64) as f32
    });
    here.unwrap_or_else(|| {
        let grey = if three { grey_of(&image.data, pixel) } else { image.data.clone() };
        host::values(&grey.mean()).first().copied().unwrap_or(0.0)
    })
}

/// Blends with the grey image: 0 yields the grey image, 1 the unchanged image. A grey image is
/// unchanged.
///
/// # Errors
/// Those of [`adjust_brightness`].
pub fn adjust_saturation(image: Image, factor: f64, pixel: PixelType) -> Result<Image, TransformError> {
    check_channels(&image)?;
    check_factor("saturation", factor)?;
    if image.channels() == 1 {
        return Ok(image);
    }
    let (factor, rest) = (factor as f32, (1.0 - factor) as f32);
    let change = |[r, g, b]: [f32; 3]| {
        let grey = rest * grey(r, g, b, pixel);
        [r, g, b].map(|x| pixel.hold(factor * x + grey))
    };
    Ok(each_pixel(image, change, |x| pixel.hold_all(x.clone() * factor + grey_of(&x, pixel) * rest)))
}

/// Rotates the hue by `factor`, from -0.5 to 0.5 of a full turn. A grey image is unchanged.
///
/// # Errors
/// Those of [`adjust_brightness`], and if the factor is outside this range.
pub fn adjust_hue(image: Image, factor: f64, pixel: PixelType) -> Result<Image, TransformError> {
    check_channels(&image)?;
    if !(-0.5..=0.5).contains(&factor) {
        return Err(TransformError::new(format!("a hue factor of {factor}")).expected("-0.5 to 0.5"));
    }
    if image.channels() == 1 {
        return Ok(image);
    }
    let factor = factor as f32;
    // torchvision's conversions to f32 and back to grey levels.
    let (down, up) = if pixel == PixelType::Uint8 { (255.0, 255.999) } else { (1.0, 1.0) };
    let whole = pixel == PixelType::Uint8;
    let change =
        |rgb: [f32; 3]| turn_hue(rgb.map(|x| x / down), factor).map(|x| if whole { (x * up).floor() } else { x });
    let elsewhere = |x: Tensor<4>| {
        let turned = turn_hue_of(x / down, factor);
        if whole { (turned * up).floor() } else { turned }
    };
    Ok(each_pixel(image, change, elsewhere))
}

/// Hue in sixths of a turn (0..6), and the range of the colours.
#[inline(always)]
fn hue([r, g, b]: [f32; 3]) -> (f32, f32, f32) {
    let most = r.max(g).max(b);
    let range = most - r.min(g).min(b);
    let divisor = if range == 0.0 { 1.0 } else { range };
    let (rc, gc, bc) = ((most - r) / divisor, (most - g) / divisor, (most - b) / divisor);
    let h = if most == r {
        bc - gc
    } else if most == g {
        2.0 + rc - bc
    } else {
        4.0 + gc - rc
    };
    (if h < 0.0 { h + 6.0 } else { h }, most, range)
}

/// Each channel is the largest value minus a fraction of the range, and that fraction is a
/// trapezoid over the hue: no table of sectors.
#[inline(always)]
fn turn_hue(rgb: [f32; 3], turn: f32) -> [f32; 3] {
    let (h, most, range) = hue(rgb);
    let h = h + 6.0 * turn;
    [5.0, 3.0, 1.0].map(|offset: f32| {
        let k = h + offset;
        let k = if k >= 12.0 { k - 12.0 } else { k };
        let k = if k >= 6.0 { k - 6.0 } else { k };
        let k = if k < 0.0 { k + 6.0 } else { k };
        let part = range * k.min(4.0 - k).clamp(0.0, 1.0);
        most - part
    })
}

fn turn_hue_of(x: Tensor<4>, turn: f32) -> Tensor<4> {
    let [r, g, b] = split(&x);
    let most = x.clone().max_dim(0);
    let range = most.clone() - x.min_dim(0);
    let divisor = range.clone().mask_fill(range.clone().equal_elem(0.0), 1.0);
    let [rc, gc, bc] = [&r, &g, &b].map(|c| (most.clone() - c.clone()) / divisor.clone());
    let blue = gc.clone() - rc.clone() + 4.0;
    let h = blue.mask_where(most.clone().equal(g), rc - bc.clone() + 2.0).mask_where(most.clone().equal(r), bc - gc);
    let h = h + 6.0 * turn;
    let channel = |offset: f32| {
        // The value was in -6..15; two more turns make it positive.
        let k = h.clone() + (offset + 12.0);
        let k = k.clone() - (k / 6.0).floor() * 6.0;
        let part = k.clone().min_pair(-k + 4.0).clamp(0.0, 1.0);
        most.clone() - range.clone() * part
    };
    Tensor::cat(vec![channel(5.0), channel(3.0), channel(1.0)], 0)
}

/// Hue (0..1), saturation and value of three channels: `skimage.color.rgb2hsv`.
pub(super) fn hsv(rgb: &[f32]) -> Vec<f32> {
    let size = rgb.len() / 3;
    let mut out = vec![0.0; 3 * size];
    for i in 0..size {
        let (h, most, range) = hue([rgb[i], rgb[size + i], rgb[2 * size + i]]);
        out[i] = if range == 0.0 { 0.0 } else { h / 6.0 };
        out[size + i] = if range == 0.0 { 0.0 } else { range / most };
        out[2 * size + i] = most;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_image::affine::IDENTITY;

    fn picture(values: &[f32]) -> Image {
        Image::from_values(values.to_vec(), [3, values.len() / 3, 1, 1], IDENTITY, &hearth_image::host_device())
    }

    /// Red, orange, yellow, green, cyan, blue, violet, grey, black, and one in between.
    const COLOURS: [f32; 30] = [
        1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.6, 0.4, 0.0, 0.3, //
        0.0, 0.5, 1.0, 1.0, 1.0, 0.0, 0.1, 0.4, 0.0, 0.7, //
        0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.9, 0.4, 0.0, 0.2,
    ];

    #[test]
    fn tensor_operations_turn_the_hue_alike() {
        for turn in [-0.5, -0.3, -0.01, 0.0, 0.2, 0.49, 0.5] {
            let image = picture(&COLOURS);
            let expected = adjust_hue(image.clone(), turn, PixelType::Float32).expect("sound").to_vec();
            let got = Image::new(turn_hue_of(image.data, turn as f32), IDENTITY).to_vec();
            for (a, b) in got.iter().zip(&expected) {
                assert!((a - b).abs() < 2e-6, "{a} for {b} at {turn}: {got:?} {expected:?}");
            }
        }
    }

    #[test]
    fn a_third_of_a_turn_moves_the_channels_on() {
        let turned = adjust_hue(picture(&COLOURS), 1.0 / 3.0, PixelType::Float32).expect("sound").to_vec();
        let (red, rest) = COLOURS.split_at(10);
        for (i, value) in turned.iter().enumerate() {
            let expected = if i < 10 {
                rest[10 + i]
            } else if i < 20 {
                red[i - 10]
            } else {
                rest[i - 20]
            };
            assert!((value - expected).abs() < 2e-6, "{i}: {value} for {expected}");
        }
    }

    #[test]
    fn bad_input_is_an_error() {
        let two = || Image::from_values(vec![0.0; 8], [2, 2, 2, 1], IDENTITY, &hearth_image::host_device());
        assert!(adjust_brightness(two(), 1.0, PixelType::Float32).expect_err("two").to_string().contains("2 channels"));
        assert!(adjust_contrast(picture(&COLOURS), -1.0, PixelType::Float32).is_err());
        assert!(adjust_saturation(picture(&COLOURS), f64::NAN, PixelType::Float32).is_err());
        assert!(adjust_hue(picture(&COLOURS), 0.51, PixelType::Float32).is_err());
    }
}
