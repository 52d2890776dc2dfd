//! Writes an image in the format of the file's suffix: NIfTI, NRRD, MetaImage, MGH, PNG, NPY.

mod encoded;
mod layers;
mod metaimage;
mod mgh;
mod nrrd;
mod plugin;
mod regions;
mod surfaces;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use derive_setters::Setters;
use hearth_dicom::write::Coding;
use hearth_image::Image;

use crate::nifti::NiftiError;
use crate::{NiftiOptions, write_nifti};
pub use hearth_surface::Space as SurfaceSpace;
pub(crate) use layers::Layers;
pub use layers::label_map;
pub use plugin::PluginWriter;
pub use regions::{RegionFile, coding_of, parse_codes, read_codes, regions_of};
pub use surfaces::{SurfaceOptions, Written, file_part, surface_bytes, write_surfaces};

/// Options of writing an image: `WriteOptions::default()` for images, [`WriteOptions::label`] for label
/// maps.
#[derive(Clone, Debug, Default, Setters)]
#[non_exhaustive]
#[setters(strip_option)]
pub struct WriteOptions {
    /// Type and compression of NIfTI files.
    pub nifti: NiftiOptions,
    /// Factor for the values of a PNG; 255 for values from 0 to 1, as MONAI's
    /// `PILWriter(scale=255)`.
    pub scale: Option<f32>,
    /// Names, colours and layers of labels in `.seg.nrrd`; other labels are named `Segment_1` and so on.
    #[setters(skip)]
    pub segments: Vec<Segment>,
}

/// A label as described in segmentations of 3D Slicer and DICOM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Value of the label.
    pub label: u32,
    /// Name of the label.
    pub name: String,
    /// Colour: red, green, blue.
    pub colour: [u8; 3],
    /// DICOM codes of what it is.
    pub coding: Option<Coding>,
    /// The channel that has it, of an image whose channels are label maps (`.seg.nrrd` with layers).
    /// Without a layer, a label map has it, or the channel of its place.
    pub layer: Option<usize>,
    /// Name of the segment within its `.seg.nrrd`, which is unique there.
    pub id: Option<String>,
    /// Further tags of the segment in a `.seg.nrrd`: state, terminology.
    pub tags: Option<String>,
}

impl Segment {
    /// Whether this is another segment after it got its layer.
    fn is(&self, given: &Segment) -> bool {
        let layer = given.layer.is_none() || given.layer == self.layer;
        layer && self.label == given.label && self.name == given.name
    }

    /// Creates a label with a colour that differs from those of its neighbours.
    pub fn new(label: u32, name: impl Into<String>) -> Self {
        Segment {
            label,
            name: name.into(),
            colour: nrrd::usual_colour(label),
            coding: None,
            layer: None,
            id: None,
            tags: None,
        }
    }
}

impl WriteOptions {
    /// Options for a label map: whole numbers, not scaled.
    pub fn label() -> Self {
        WriteOptions { nifti: NiftiOptions::label(), ..WriteOptions::default() }
    }
}

/// The error of writing an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Error of the NIfTI writer.
    #[error(transparent)]
    Nifti(#[from] NiftiError),
    /// I/O error.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The format cannot hold the image.
    #[error("{path}: {what}")]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
}

/// The suffixes of supported formats.
pub const SUFFIXES: [&str; 8] = [".nii", ".nii.gz", ".nrrd", ".mha", ".mgz", ".mgh", ".png", ".npy"];

/// Writes an image in the format of its suffix. The file gets its name only when it is complete.
///
/// NIfTI is written as by [`write_nifti`]. NRRD and MetaImage are compressed, in LPS, in the type
/// of [`WriteOptions::nifti`]; `.seg.nrrd` is a segmentation of 3D Slicer, with a name and a colour
/// for each label. It has layers if the image has several channels: those of the segments' layers, or
/// one channel with 0 outside and 1 inside for each segment. MGZ and MGH, FreeSurfer's format, have the
/// channels as frames, and `int16`, `int32` or f32 where they lack the type. PNG needs a 2-D image with 1 to 4
/// channels, its first axis the width, and values from 0 to 65535 after scaling; they are rounded and
/// stored in 8 bits if all fit, else in 16. NPY is f32, `[C, X, Y, Z]` (without `Z` for a 2-D image).
///
/// # Errors
/// Where the suffix is not supported, the format cannot hold the image, or an I/O error occurs.
pub fn write_image(path: impl AsRef<Path>, image: &Image, options: &WriteOptions) -> Result<(), WriteError> {
    let path = path.as_ref();
    let name = path.to_string_lossy().to_lowercase();
    if name.ends_with(".nii") || name.ends_with(".nii.gz") {
        return Ok(write_nifti(path, image, options.nifti.clone())?);
    }
    let format = |what: String| WriteError::Format { path: path.to_owned(), what };
    if name.ends_with(".seg.nrrd") {
        let layers = Layers::of(image, &options.segments).map_err(format)?;
        let encoded = encoded::encode(&layers.image, &options.nifti.clone().for_labels()).map_err(format)?;
        whole(path, |file| nrrd::write(&layers.image, &encoded, Some(&layers), file))
    } else if name.ends_with(".nrrd") || name.ends_with(".mha") {
        let encoded = encoded::encode(image, &options.nifti).map_err(format)?;
        whole(path, |file| match name.ends_with(".mha") {
            true => metaimage::write(image, &encoded, file),
            false => nrrd::write(image, &encoded, None, file),
        })
    } else if name.ends_with(".mgz") || name.ends_with(".mgh") {
        let encoded = mgh::encode(image, &options.nifti).map_err(format)?;
        whole(path, |file| mgh::write(&encoded, name.ends_with(".mgz"), file))
    } else if name.ends_with(".png") {
        let picture = Picture::of(image, options.scale).map_err(format)?;
        whole(path, |file| picture.write(file).map_err(std::io::Error::other))
    } else if name.ends_with(".npy") {
        let [c, x, y, z] = image.data.dims().map(|d| d as u64);
        let shape = if image.meta.spatial_dims == 2 { vec![c, x, y] } else { vec![c, x, y, z] };
        whole(path, |file| {
            file.write_all(&hearth_files::npy_start(&shape))?;
            image.to_vec().into_iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))
        })
    } else {
        Err(format(format!("no format is known for this name; expected one that ends in {}", SUFFIXES.join(" "))))
    }
}

/// Writes the complete file or no file.
fn whole(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<(), WriteError> {
    hearth_files::replace_with(path, write).map_err(|source| WriteError::Io { path: path.to_owned(), source })
}

/// A slice as the pixels of a PNG, row by row, the channels of a pixel next to each other.
struct Picture {
    size: [u32; 2],
    color: png::ColorType,
    pixels: Vec<u16>,
}

impl Picture {
    fn of(image: &Image, scale: Option<f32>) -> Result<Self, String> {
        let [channels, width, height, depth] = image.data.dims();
        let color = match channels {
            1 => png::ColorType::Grayscale,
            2 => png::ColorType::GrayscaleAlpha,
            3 => png::ColorType::Rgb,
            _ => png::ColorType::Rgba,
        };
        if depth != 1 || channels != color.samples() {
            return Err(format!(
                "a PNG holds one slice of 1 to 4 channels, the image has {:?} voxels and {channels} channels",
                image.shape()
            ));
        }
        let values = image.to_vec();
        let factor = scale.unwrap_or(1.0);
        let mut pixels = Vec::with_capacity(values.len());
        for y in 0..height {
            for x in 0..width {
                for c in 0..channels {
                    let value = (values[(c * width + x) * height + y] * factor).round_ties_even();
                    if !(0.0..=65_535.0).contains(&value) {
                        return Err(format!(
                            "the value {value} at ({x}, {y}) does not fit into a PNG; expected 0 to 65535"
                        ));
                    }
                    pixels.push(value as u16);
                }
            }
        }
        let side = |count: usize| u32::try_from(count).map_err(|_| format!("{count} pixels do not fit into a PNG"));
        Ok(Self { size: [side(width)?, side(height)?], color, pixels })
    }

    /// Writes values below 256 in eight bits, others in sixteen.
    fn write(&self, file: &mut BufWriter<File>) -> Result<(), png::EncodingError> {
        let [width, height] = self.size;
        let mut encoder = png::Encoder::new(file, width, height);
        encoder.set_color(self.color);
        let (depth, bytes): (_, Vec<u8>) = match self.pixels.iter().all(|value| *value < 256) {
            true => (png::BitDepth::Eight, self.pixels.iter().map(|value| *value as u8).collect()),
            false => (png::BitDepth::Sixteen, self.pixels.iter().flat_map(|value| value.to_be_bytes()).collect()),
        };
        encoder.set_depth(depth);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&bytes)?;
        writer.finish()
    }
}
