//! nnU-Net's preprocessing of an image.

use std::collections::{BTreeMap, BTreeSet};

use hearth_data::affine::{self, IDENTITY, compose};
use hearth_data::orientation::Reorder;
use hearth_data::readers::PREPROCESSED;
use hearth_data::spatial::{ResizeMode, crop, reorder};
use hearth_data::{Applied, Draw, Effect, Fault, Image, Keys, Sample, Transform, TransformError};
use hearth_nnunet::preprocess::Preprocessing;
use hearth_nnunet::{Intensities, Resampling, Scheme, Volume};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_previous, describe, tensor, volume};

/// Prepares a case like nnU-Net: reorders the axes to z y x in the order `transpose`, crops the
/// margin of zeros, normalises each channel, and resamples everything to `spacing`: images by cubic
/// splines, labels by linear indicators, and an axis that is more than three times as coarse
/// separately.
///
/// `keys` are the image and, if there is one, its label map; labels outside of the image's content
/// become -1. `previous_key` is the label map predicted by an earlier stage of a cascade, which is
/// processed the same way. Cases from a folder of `nnUNet_preprocessed` are already prepared and
/// stay unchanged. The parameters are those of nnU-Net's plans, which `hearth plan` writes.
/// Predictions are mapped back linearly.
///
/// ```
/// # use hearth_data::{tiny, Transform};
/// # use hearth_recipe::nnunet::NnunetPreprocess;
/// let step: NnunetPreprocess = toml::from_str(
///     "keys = ['image']\nspacing = [1.0, 1.0, 1.0]\nnormalization = [{ scheme = 'ZScoreNormalization' }]",
/// )
/// .expect("parameters");
/// // Zeros at the ends are cropped.
/// let image = tiny::apply(step, tiny::line([0.0, 1.0, 3.0, 0.0]))?;
/// assert_eq!((image.shape(), image.to_vec()), ([1, 1, 2], vec![-1.0, 1.0]));
/// # Ok::<(), hearth_data::TransformError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NnunetPreprocess {
    keys: Keys,
    /// Voxel size in mm, z y x in the order of `transpose`; two numbers keep the distance between
    /// slices.
    pub spacing: Vec<f64>,
    /// The normalisation of each channel.
    pub normalization: Vec<Normalization>,
    /// The axis of z y x for each axis of the result.
    #[serde(default = "in_order")]
    pub transpose: [usize; 3],
    /// Key of the labels of the earlier stage of a cascade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_key: Option<String>,
}

fn in_order() -> [usize; 3] {
    [0, 1, 2]
}

/// The normalisation of a channel: nnU-Net's class, and for CT the foreground intensities of the
/// training images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Normalization {
    /// `ZScoreNormalization`, `CTNormalization`, `RescaleTo01Normalization`,
    /// `RGBTo01Normalization` or `NoNormalization`.
    pub scheme: String,
    /// Whether only voxels of the image's content are used and changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub use_mask: bool,
    /// The mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub std: Option<f64>,
    /// The lower limit to which values are clipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile_00_5: Option<f64>,
    /// The upper limit to which values are clipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile_99_5: Option<f64>,
}

impl NnunetPreprocess {
    fn how(&self) -> Result<Preprocessing, Fault> {
        let mut intensities = BTreeMap::new();
        let mut channels = Vec::with_capacity(self.normalization.len());
        for (channel, how) in self.normalization.iter().enumerate() {
            let at = |what: String| Fault::at(format!("normalization.{channel}"), what);
            let scheme = Scheme::named(&how.scheme).map_err(|error| at(error.to_string()))?;
            match [how.mean, how.std, how.percentile_00_5, how.percentile_99_5] {
                [Some(mean), Some(std), Some(low), Some(high)] => {
                    intensities.insert(channel, Intensities { mean, std, low, high });
                }
                _ if scheme == Scheme::Ct => {
                    let what = "CTNormalization needs mean, std, percentile_00_5 and percentile_99_5";
                    return Err(at(what.to_owned()));
                }
                _ => {}
            }
            channels.push((scheme, how.use_mask));
        }
        Ok(Preprocessing {
            transpose: self.transpose,
            spacing: self.spacing.clone(),
            channels,
            intensities,
            data: Resampling::IMAGES,
            seg: Resampling::LABELS,
        })
    }

    /// Reorders arrays that nnU-Net has prepared to z y x, without other changes.
    fn lying(&self, image: Image, maps: Vec<Image>) -> Result<(Image, Vec<Image>), TransformError> {
        let (found, expected) = (image.channels(), self.normalization.len());
        if found != expected {
            let what = format!("it has {found} channels; expected {expected}, each with its normalization");
            return Err(TransformError::new(what));
        }
        if maps.iter().any(|map| map.meta.stored_type != PREPROCESSED) {
            let what = "the image was preprocessed by nnU-Net, and a label map lies on the grid of the image's file";
            return Err(TransformError::new(what).advice("train with the raw data set"));
        }
        let turn = |image: Image| reorder(image, &Reorder { source: [2, 1, 0], flip: [false; 3] });
        Ok((turn(image), maps.into_iter().map(turn).collect()))
    }

    /// Prepares the image and the label maps on its grid.
    fn run(&self, image: Image, maps: Vec<Image>) -> Result<(Image, Vec<Image>), TransformError> {
        if image.meta.stored_type == PREPROCESSED {
            return self.lying(image, maps);
        }
        let how = self.how().map_err(|fault| TransformError::new(fault.message))?;
        let size = spacing(&image);
        let (image, maps) = (as_volume(image), maps.into_iter().map(as_volume).collect::<Vec<_>>());
        // The axes of the file are x y z.
        let turn = |axes: [usize; 3]| Reorder { source: axes, flip: [false; 3] };
        let lying = reorder(image.clone(), &turn([2, 1, 0]));
        let labels = maps.iter().map(|map| labels(&reorder(map.clone(), &turn([2, 1, 0]))));
        let labels = labels.collect::<Result<Vec<_>, _>>()?;
        let labels: Vec<&Volume<u16>> = labels.iter().collect();
        let failed = |error: hearth_nnunet::NnunetError| TransformError::new(error.to_string());
        let (prepared, labels) = how.run(volume(&lying)?, size, &labels).map_err(failed)?;
        let place = |image: Image, values: Volume| -> Image {
            let turned = reorder(image, &turn(self.transpose.map(|axis| 2 - axis)));
            let mut image = crop(turned, prepared.bounds.start, prepared.bounds.end);
            let (old, device) = (image.shape(), image.data.device());
            if old != values.shape {
                image.meta.applied.push(Applied::Resize {
                    affine: image.affine,
                    shape: old,
                    spatial_dims: image.meta.spatial_dims,
                    mode: ResizeMode::Trilinear,
                    align_corners: false,
                });
                image.affine = resized(&image.affine, old, values.shape);
            }
            image.data = tensor(values, false, &device);
            image
        };
        let on_grid = |(map, labels): (Image, Volume<i32>)| {
            let data = labels.data.into_iter().map(|label| label as f32).collect();
            place(map, Volume { channels: 1, shape: labels.shape, data })
        };
        let maps = maps.into_iter().zip(labels).map(on_grid).collect();
        Ok((place(image, prepared.data), maps))
    }
}

/// The affine for another number of voxels over the same space.
fn resized(affine: &affine::Affine, old: [usize; 3], new: [usize; 3]) -> affine::Affine {
    let mut scale = IDENTITY;
    for axis in 0..3 {
        let factor = old[axis] as f64 / new[axis].max(1) as f64;
        (scale[axis][axis], scale[axis][3]) = (factor, (factor - 1.0) / 2.0);
    }
    compose(affine, &scale)
}

/// Converts a picture, or another image of two axes, to a volume of one slice.
fn as_volume(mut image: Image) -> Image {
    if image.meta.spatial_dims == 2 {
        // Undoing this restores the two axes.
        image.meta.applied.push(Applied::Resize {
            affine: image.affine,
            shape: image.shape(),
            spatial_dims: 2,
            mode: ResizeMode::Trilinear,
            align_corners: false,
        });
        image.meta.spatial_dims = 3;
    }
    image
}

/// The voxel size of an image in its file, z y x: nnU-Net uses that of the header. The only slice
/// of a picture is far from all others.
fn spacing(image: &Image) -> [f64; 3] {
    let [x, y, z] = match &image.meta.header {
        Some(header) if image.meta.applied.is_empty() => [header.pixdim[1], header.pixdim[2], header.pixdim[3]],
        _ => image.spacing(),
    };
    if image.meta.spatial_dims == 2 { [999.0 * x.max(y), y, x] } else { [z, y, x] }
}

/// An image and its label map in the axes of their files, z y x, and the voxel size: the input of
/// the preprocessing.
///
/// # Errors
/// A label map with another size, or with values that are not integers.
pub(in crate::nnunet) fn as_read(
    image: Image,
    label: Image,
) -> Result<(Volume, [f64; 3], Volume<u16>), TransformError> {
    if label.shape() != image.shape() {
        let what = format!("it has {:?} voxels; expected {:?}, as the image has", label.shape(), image.shape());
        return Err(TransformError::new(what).at("label"));
    }
    let size = spacing(&image);
    let lying = |image| reorder(as_volume(image), &Reorder { source: [2, 1, 0], flip: [false; 3] });
    let labels = labels(&lying(label)).map_err(|error| error.at("label"))?;
    Ok((volume(&lying(image))?, size, labels))
}

fn labels(label: &Image) -> Result<Volume<u16>, TransformError> {
    let values = volume(label)?;
    let whole = |value: &f32| (value.fract() == 0.0 && (0.0..=65_535.0).contains(value)).then_some(*value as u16);
    let data: Option<Vec<u16>> = values.data.iter().map(whole).collect();
    let found = data.and_then(|data| Volume::new(1, values.shape, data));
    found.ok_or_else(|| TransformError::new("the label is not a map of whole numbers from 0 to 65535 in one channel"))
}

impl Transform for NnunetPreprocess {
    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mut keys = self.keys.iter().chain(self.previous_key.as_deref());
        let first = keys.next().ok_or_else(|| TransformError::new("no key is given"))?;
        let image = sample.take_image(first).map_err(|error| error.at(first))?;
        let others: Vec<&str> = keys.collect();
        let mut maps = Vec::with_capacity(others.len());
        for key in &others {
            let map = sample.take_image(key).map_err(|error| error.at(key))?;
            if map.shape() != image.shape() {
                let what = format!("it has {:?} voxels; expected {:?}, as the image has", map.shape(), image.shape());
                return Err(TransformError::new(what).at(key));
            }
            maps.push(map);
        }
        let (image, maps) = self.run(image, maps).map_err(|error| error.at(first))?;
        let sample = sample.with_image(first, image);
        Ok(vec![others.into_iter().zip(maps).fold(sample, |sample, (key, map)| sample.with_image(key, map))])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if self.keys.len() > 2 {
            return Err(Fault::at("keys", "expected the image and its label map"));
        }
        check_previous(self.previous_key.as_deref(), known)?;
        if !(2..=3).contains(&self.spacing.len()) || self.spacing.iter().any(|size| !(*size > 0.0 && size.is_finite()))
        {
            return Err(Fault::at("spacing", format!("{:?}: expected two or three sizes above 0", self.spacing)));
        }
        let mut axes = self.transpose;
        axes.sort_unstable();
        if axes != [0, 1, 2] {
            return Err(Fault::at("transpose", format!("{:?} is no order of 0, 1 and 2", self.transpose)));
        }
        self.how().map(|_| ())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

hearth_registry::entry!(
    dyn Transform => NnunetPreprocess,
    paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
    example: r#"keys = ["image", "label"]
spacing = [2.0, 1.0, 1.0]
normalization = [{ scheme = "ZScoreNormalization" }]"#
);
