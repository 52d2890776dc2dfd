//! Images of several files: [`Parts`], [`read_parts`], [`check_grid`].

use std::path::{Path, PathBuf};

use burn::tensor::Tensor;
use hearth_image::Image;
use hearth_image::affine::{self, Affine};

use super::{ReadError, ReadOptions, read_image_with};
use crate::nifti::read_header;

/// The files of an image (modalities, frames) and optionally a selection of channels: the image is
/// the concatenation of their channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Files, in the order of their channels.
    pub files: Vec<PathBuf>,
    /// Selected channels, in this order; by default all.
    pub channels: Option<Vec<usize>>,
}

impl Parts {
    /// Selects all channels of these files.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self { files, channels: None }
    }
}

/// The tolerance between corresponding voxels of two files, in mm: headers are stored in f32 and
/// differ between programs.
const TOLERANCE: f64 = 0.01;

/// Reads the files of an image and concatenates their channels; with `channels`, only those.
///
/// # Errors
/// If a file cannot be read, the files lie on different grids (shape or affine), or a channel is
/// missing.
pub fn read_parts(parts: &Parts, options: &ReadOptions) -> Result<Image, ReadError> {
    let mut images = Vec::with_capacity(parts.files.len());
    for file in &parts.files {
        let image = read_image_with(file, options)?;
        let first: Option<&Image> = images.first();
        if let Some(first) = first {
            let (path, grids) = (&parts.files[0], [(first.shape(), first.affine), (image.shape(), image.affine)]);
            same_grid(path, grids).map_err(|why| ReadError::new(file, why))?;
        }
        images.push(image);
    }
    let at = parts.files.first().map_or(Path::new(""), |file| file.as_path());
    let mut images = images.into_iter();
    let mut whole = images.next().ok_or_else(|| ReadError::new(at, "an image needs at least one file"))?;
    let others: Vec<Tensor<4>> = images.map(|image| image.data).collect();
    if !others.is_empty() {
        whole.data = Tensor::cat(std::iter::once(whole.data).chain(others).collect(), 0);
    }
    if let Some(channels) = &parts.channels {
        let count = whole.data.dims()[0];
        if let Some(channel) = channels.iter().find(|channel| **channel >= count) {
            return Err(ReadError::new(
                at,
                format!("has {count} channels, and channel {channel} is requested (the first is 0)"),
            ));
        }
        let chosen = channels.iter().map(|channel| whole.data.clone().narrow(0, *channel, 1)).collect();
        whole.data = Tensor::cat(chosen, 0);
    }
    Ok(whole)
}

/// Checks from the headers that the files of an image have the same grid; files without a header
/// (pictures, DICOM) are compared when they are read.
///
/// # Errors
/// A message about the first file with another grid.
pub fn check_grid(parts: &Parts) -> Result<(), String> {
    let mut first = None;
    for file in &parts.files {
        let Ok(header) = read_header(file) else { continue };
        let axis = |axis: usize| header.dim.get(axis).copied().unwrap_or(1);
        let grid = ([axis(0), axis(1), axis(2)], header.rectified_affine());
        match &first {
            None => first = Some((file, grid)),
            Some((other, theirs)) => {
                same_grid(other, [*theirs, grid]).map_err(|why| format!("{}: {why}", file.display()))?
            }
        }
    }
    Ok(())
}

/// Fails if two files differ in shape or position, measured at the corners of the image.
fn same_grid(first: &Path, [a, b]: [([usize; 3], Affine); 2]) -> Result<(), String> {
    let advice = "resample the files of a case to one grid first (hearth preprocess, or the tool that registered them)";
    let beside = first.file_name().unwrap_or_default().to_string_lossy();
    if a.0 != b.0 {
        return Err(format!("has {:?} voxels, {beside} of the same case has {:?}; {advice}", b.0, a.0));
    }
    let corner = |index: usize| -> [f64; 3] {
        std::array::from_fn(|axis| if index >> axis & 1 == 1 { a.0[axis] as f64 - 1.0 } else { 0.0 })
    };
    let apart = (0..8).map(|index| {
        let (p, q) = (affine::apply(&a.1, corner(index)), affine::apply(&b.1, corner(index)));
        (0..3).map(|axis| (p[axis] - q[axis]).powi(2)).sum::<f64>().sqrt()
    });
    let apart = apart.fold(0.0, f64::max);
    if apart <= TOLERANCE {
        return Ok(());
    }
    Err(format!("lies up to {apart:.2} mm off {beside} of the same case; {advice}"))
}
