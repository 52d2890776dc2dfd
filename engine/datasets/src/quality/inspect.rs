//! Inspection of one image.

use std::path::{Path, PathBuf};

use hearth_image::{Affine, Image, affine};
use hearth_io::{ReadError, ReadOptions, read_image_with};
use serde::Serialize;

use super::listing::images_below;
use super::values::{LabelValues, ValueSummary, count, summarize};
use super::{Finding, Kind, Severity, geometry};
use crate::DataError;

/// The content of an image, and findings about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// Path of the file.
    #[serde(serialize_with = "super::as_text")]
    pub file: Option<PathBuf>,
    /// Type of the values in the file.
    pub stored_type: String,
    /// Shape in the file, in its own axis order.
    pub stored_shape: Vec<usize>,
    /// Number of voxels per spatial axis (two or three).
    pub shape: Vec<usize>,
    /// Number of channels.
    pub channels: usize,
    /// Voxel size in mm, per spatial axis.
    pub spacing: Vec<f64>,
    /// Orientation code, for instance `RAS`; empty if the affine is not finite.
    pub orientation: String,
    /// Affine from voxel index to mm, RAS+.
    pub affine: Affine,
    /// Statistics of each channel.
    pub values: Vec<ValueSummary>,
    /// Frequency of each value, if the values can be labels: one channel of at most 256 whole
    /// numbers from 0.
    pub labels: Option<LabelValues>,
    /// blake3 hash of shape and values: equal for two files with the same content in any format.
    pub digest: String,
    /// Findings about the image.
    pub findings: Vec<Finding>,
}

/// Inspects an image from any reader.
pub fn inspect(image: &Image) -> Inspection {
    let n = image.meta.spatial_dims;
    let voxels = image.shape().iter().product::<usize>().max(1);
    let (values, labels, digest) = image.with_values(|all| {
        let values: Vec<ValueSummary> = all.chunks(voxels).map(summarize).collect();
        let labels = (image.channels() == 1).then(|| count(all)).filter(LabelValues::are_labels);
        (values, labels, digest(image, all))
    });
    let finite = image.affine.iter().flatten().all(|v| v.is_finite());
    let mut findings = geometry::findings(image);
    findings.extend(value_findings(&values));
    let file = image.meta.path.clone();
    for finding in &mut findings {
        finding.file.clone_from(&file);
    }
    Inspection {
        file,
        stored_type: image.meta.stored_type.clone(),
        stored_shape: image.meta.original_shape.clone(),
        shape: image.spatial_shape(),
        channels: image.channels(),
        spacing: affine::spacing_in(&image.affine, n)[..n].to_vec(),
        orientation: if finite { image.orientation() } else { String::new() },
        affine: image.affine,
        values,
        labels,
        digest,
        findings,
    }
}

/// Reads a file (or a folder that is one image) and inspects it.
///
/// # Errors
/// If it cannot be read.
pub fn inspect_file(path: impl AsRef<Path>) -> Result<Inspection, ReadError> {
    inspect_file_with(path, &ReadOptions::default())
}

/// Reads and inspects a file like [`inspect_file`], with options.
///
/// # Errors
/// If it can't be read.
pub fn inspect_file_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Inspection, ReadError> {
    let path = path.as_ref();
    let mut found = inspect(&read_image_with(path, options)?);
    found.file.get_or_insert_with(|| path.to_owned());
    Ok(found)
}

/// A path in a folder with its inspection, or the error of reading it.
pub type Inspected = (PathBuf, Result<Inspection, ReadError>);

/// Inspects every image in a folder and its subfolders, in the order of their names.
///
/// # Errors
/// If the folder cannot be listed. A file that cannot be read is an entry with its error.
pub fn inspect_folder(dir: impl AsRef<Path>) -> Result<Vec<Inspected>, DataError> {
    inspect_folder_with(dir, &ReadOptions::default())
}

/// Inspects a folder like [`inspect_folder`], with options.
///
/// # Errors
/// Those of [`inspect_folder`].
pub fn inspect_folder_with(dir: impl AsRef<Path>, options: &ReadOptions) -> Result<Vec<Inspected>, DataError> {
    let files = images_below(dir.as_ref())?;
    // One image after another: all threads work on each, and only one is in memory.
    Ok(files.into_iter().map(|file| (file.clone(), inspect_file_with(&file, options))).collect())
}

fn digest(image: &Image, values: &[f32]) -> String {
    let mut hash = blake3::Hasher::new();
    for length in image.data.dims() {
        hash.update(&(length as u64).to_le_bytes());
    }
    hash.update(bytemuck::cast_slice(values));
    hash.finalize().to_hex().to_string()
}

fn value_findings(values: &[ValueSummary]) -> Vec<Finding> {
    let mut out = Vec::new();
    let total = |of: fn(&ValueSummary) -> usize| values.iter().map(of).sum::<usize>();
    let (voxels, nan, infinite) = (total(|v| v.voxels), total(|v| v.nan), total(|v| v.infinite));
    if nan + infinite > 0 {
        let what = format!("{} of {voxels} voxels are not finite ({nan} NaN, {infinite} infinite)", nan + infinite);
        let advice = "one such voxel makes a loss NaN: replace them in the file, or exclude the case";
        out.push(Finding::new(Severity::Error, Kind::NotFinite, what).advice(advice));
    }
    for (channel, summary) in values.iter().enumerate() {
        if summary.voxels > 1 && summary.min == summary.max {
            let which = if values.len() > 1 { format!(" of channel {channel}") } else { String::new() };
            out.push(Finding::new(Severity::Warning, Kind::Constant, format!("every voxel{which} is {}", summary.min)));
        }
    }
    out
}
