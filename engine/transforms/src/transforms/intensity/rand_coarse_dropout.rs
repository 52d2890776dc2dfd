use burn::tensor::{Tensor, TensorData};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::host;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::coarse::{Hole, Holes};
use super::ranges::check_finite;
use super::statistics::image_extremes;
use super::yes;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Fills random boxes, or everything outside of them (`dropout_holes = false`), with probability
/// `prob` (DeVries and Taylor, "Improved regularization of convolutional neural networks with
/// cutout", 2017).
///
/// `fill_value` is a number, or a pair from which each voxel is drawn uniformly; by default voxels
/// are drawn from the range of the image. There are `holes` boxes of `spatial_size` (an entry that
/// is not positive means the image's own size), or numbers and sizes up to `max_holes` and
/// `max_spatial_size`. All keys share the boxes, but have separate fillings.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandCoarseDropout};
/// let step = RandCoarseDropout::new("image", 1, [2, 1, 1]).fill_value(Some(0.0.into())).prob(1.0);
/// let values = tiny::apply(step, tiny::line([1.0; 4]))?.to_vec();
/// assert_eq!(values.iter().filter(|value| **value == 0.0).count(), 2);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandCoarseDropout {
    keys: Keys,
    /// Number of holes, or the minimum.
    holes: usize,
    spatial_size: OneOrMany<i64>,
    #[serde(default = "yes")]
    dropout_holes: bool,
    #[serde(default)]
    fill_value: Option<OneOrMany<f64>>,
    #[serde(default)]
    max_holes: Option<usize>,
    #[serde(default)]
    max_spatial_size: Option<OneOrMany<i64>>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The filling of voxels.
enum Fill {
    Number(f32),
    Between(f32, f32),
}

impl RandCoarseDropout {
    /// Creates the transform: `holes` boxes of this size, filled from the range of the image, with
    /// probability 0.1.
    pub fn new(keys: impl Into<Keys>, holes: usize, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        RandCoarseDropout {
            keys: keys.into(),
            holes,
            spatial_size: spatial_size.into(),
            dropout_holes: true,
            fill_value: None,
            max_holes: None,
            max_spatial_size: None,
            prob: tenth(),
            allow_missing_keys: false,
        }
    }

    fn boxes(&self) -> Holes<'_> {
        Holes {
            holes: self.holes,
            spatial_size: &self.spatial_size,
            max_holes: self.max_holes,
            max_spatial_size: self.max_spatial_size.as_ref(),
        }
    }

    fn draw(&self, draw: &Draw, images: &[&Image]) -> Result<(Vec<Hole>, Draw), TransformError> {
        let first = images[0];
        Ok((self.boxes().draw(draw, first.shape(), first.meta.spatial_dims)?, draw.part(0)))
    }

    fn change(&self, image: Image, (holes, draw): &(Vec<Hole>, Draw), place: usize) -> Result<Image, TransformError> {
        let fill = match self.fill_value.as_ref().map(OneOrMany::as_slice) {
            Some([low, high]) => Fill::Between(*low as f32, *high as f32),
            Some(one) => Fill::Number(one.first().copied().unwrap_or(0.0) as f32),
            None => match image_extremes(&image, false).first() {
                Some((low, high)) => Fill::Between(*low, *high),
                None => return Ok(image),
            },
        };
        let draw = draw.part(place as u64);
        let shape = image.shape();
        let holes: Vec<Hole> = holes.iter().map(|hole| hole.within(shape)).collect();
        if self.dropout_holes {
            return Ok(holes.iter().enumerate().fold(image, |image, (i, hole)| {
                let filling = values(&fill, &draw.part(i as u64), [&[image.channels()], &hole.size[..]].concat());
                put(image, *hole, filling)
            }));
        }
        let mut rest = image.clone();
        let (dims, device) = (image.data.dims(), image.data.device());
        rest.data = Tensor::from_data(TensorData::new(values(&fill, &draw, dims.to_vec()), dims), &device);
        Ok(holes.iter().fold(rest, |rest, hole| {
            let part = image.data.clone().slice(ranges(image.channels(), *hole));
            let kept = Image::new(part, image.affine).to_vec();
            put(rest, *hole, kept)
        }))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        self.boxes().check()?;
        let Some(fill) = &self.fill_value else { return Ok(()) };
        match fill.as_slice() {
            [_] | [_, _] => fill.as_slice().iter().try_for_each(|v| check_finite("fill_value", *v)),
            _ => Err(Fault::at("fill_value", "must be one number or a pair")),
        }
    }
}

fn values(fill: &Fill, draw: &Draw, shape: Vec<usize>) -> Vec<f32> {
    let count = shape.iter().product();
    match fill {
        Fill::Number(value) => vec![*value; count],
        Fill::Between(low, high) => {
            let mut values = vec![0.0; count];
            draw.fill_uniform(&mut values, *low, *high);
            values
        }
    }
}

fn ranges(channels: usize, hole: Hole) -> [std::ops::Range<usize>; 4] {
    let [x, y, z] = std::array::from_fn(|axis| hole.start[axis]..hole.start[axis] + hole.size[axis]);
    [0..channels, x, y, z]
}

/// Replaces a box of all channels by these values.
fn put(mut image: Image, hole: Hole, filling: Vec<f32>) -> Image {
    if filling.is_empty() {
        return image;
    }
    let (channels, shape) = (image.channels(), image.shape());
    let length = hole.size[2];
    let size = filling.len() / channels;
    let changed = host::change(image.data, |values| {
        let channels = values.chunks_exact_mut(shape.iter().product());
        for (channel, filling) in channels.zip(filling.chunks_exact(size)) {
            for (start, row) in hole.rows(shape).zip(filling.chunks_exact(length)) {
                channel[start..][..length].copy_from_slice(row);
            }
        }
    });
    image.data = changed.unwrap_or_else(|data| {
        let [x, y, z] = hole.size;
        let filling = Tensor::<4>::from_data(TensorData::new(filling, [channels, x, y, z]), &data.device());
        data.slice_assign(ranges(channels, hole), filling)
    });
    image
}

setters!(RandCoarseDropout {
    /// Whether to fill the boxes instead of their surroundings.
    dropout_holes: bool,
    /// Filling: a number, or a range.
    fill_value: Option<OneOrMany<f64>>,
    /// Maximum number of boxes; `holes` is the minimum.
    max_holes: Option<usize>,
    /// Maximum size in voxels; `spatial_size` is the minimum.
    max_spatial_size: Option<OneOrMany<i64>>,
    /// Probability that the transform is applied.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandCoarseDropout, through_host: |dropout| !dropout.dropout_holes);

transform_entry!(
    RandCoarseDropout,
    r#"keys = ["image"]
holes = 2
spatial_size = 4
prob = 0.5"#
);
