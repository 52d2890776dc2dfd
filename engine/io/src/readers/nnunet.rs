use std::path::{Path, PathBuf};

use hearth_image::{Image, affine, host_device};

use super::npy::{Numbers, NumpyReader, array_shape, read_named};
use super::{Probe, ReadError, ReadOptions, Reader};
use crate::blosc2::{B2nd, is_frame, is_sparse_frame};

/// The [`Meta::stored_type`](hearth_image::Meta::stored_type) of an image that nnU-Net
/// preprocessed.
pub const PREPROCESSED: &str = "preprocessed by nnU-Net";

/// The suffix of a case's name in the file of its labels, if they are stored separately.
const LABELS: &str = "_seg.b2nd";

/// Reads cases of `nnUNet_preprocessed` folders. The arrays are z y x; the image has x y z.
///
/// `.b2nd` (Blosc2): the channels of `CASE.b2nd`, or the labels of `CASE_seg.b2nd`, whose shape is
/// compared with that of the image next to them. `.npz` (earlier versions of nnU-Net v2): the
/// channels of `data`, then `seg` as the last channel; archives of other arrays are read as NumPy
/// archives.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct NnunetReader;

impl Reader for NnunetReader {
    fn name(&self) -> &'static str {
        "NnunetReader"
    }

    fn precedence(&self) -> u32 {
        2
    }

    fn suffixes(&self) -> &[&str] {
        &[".b2nd"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        // The name of the first array follows the header of its entry.
        let archive = probe.start.starts_with(b"PK\x03\x04") && probe.start.get(30..38) == Some(b"data.npy");
        archive || is_frame(probe.start) || (probe.folder && is_sparse_frame(probe.path))
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        if is_archive(path)? { from_archive(path, options) } else { from_frame(path) }
    }
}

hearth_registry::entry!(dyn Reader => NnunetReader, example: "", build: |_| Ok(Box::new(NnunetReader)));

/// Reads the number of channels and the axes z y x of a case's image from the header of `CASE.npz`
/// or `CASE.b2nd`; its labels must be present and have the same axes.
///
/// # Errors
/// If files are damaged, labels are missing or have other axes, or the image has another number of
/// axes.
pub fn preprocessed_shape(path: &Path) -> Result<[usize; 4], ReadError> {
    let (labels, (shape, of_labels)) = if is_archive(path)? {
        (path.to_owned(), (array_shape(path, "data")?, array_shape(path, "seg")?))
    } else {
        let labels = labels_of(path);
        let shape = |path: &Path| B2nd::open(path).map(|array| array.shape().to_vec());
        let of_image = shape(path).map_err(|what| ReadError::new(path, what))?;
        let of_labels = shape(&labels).map_err(|what| ReadError::new(&labels, what))?;
        (labels, (of_image, of_labels))
    };
    let shape = four(&shape).map_err(|what| ReadError::new(path, what))?;
    same_grid(&of_labels, &shape).map_err(|what| ReadError::new(&labels, what))?;
    Ok(shape)
}

/// The file of a case's labels, next to its image `CASE.b2nd`.
pub fn labels_of(image: &Path) -> PathBuf {
    image.with_file_name(format!("{}{LABELS}", image.file_stem().unwrap_or_default().to_string_lossy()))
}

/// The image of a case, if this is the file of its labels.
fn image_of(labels: &Path) -> Option<PathBuf> {
    let case = labels.file_name()?.to_str()?.strip_suffix(LABELS)?;
    Some(labels.with_file_name(format!("{case}.b2nd")))
}

fn is_archive(path: &Path) -> Result<bool, ReadError> {
    if path.is_dir() {
        return Ok(false);
    }
    Ok(super::start(path)?.starts_with(b"PK"))
}

/// Channels, z, y, x.
fn four(shape: &[usize]) -> Result<[usize; 4], String> {
    shape.try_into().map_err(|_| format!("an array of shape {shape:?}; expected channels, z, y, x"))
}

/// Fails if labels do not lie on the grid of their image.
fn same_grid(labels: &[usize], image: &[usize; 4]) -> Result<(), String> {
    if labels.first() == Some(&1) && labels[1..] == image[1..] {
        return Ok(());
    }
    Err(format!("the labels have the shape {labels:?}, but their image {image:?}: one of them is damaged"))
}

/// Creates an image from channels stored as z y x.
fn prepared(path: &Path, values: Vec<f32>, [channels, z, y, x]: [usize; 4]) -> Image {
    let lying = Image::from_values(values, [channels, z, y, x], affine::IDENTITY, &host_device());
    let mut image = Image { data: lying.data.permute([0, 3, 2, 1]), ..lying };
    image.meta.path = Some(path.to_owned());
    image.meta.stored_type = PREPROCESSED.to_owned();
    image.meta.original_shape = vec![channels, z, y, x];
    image.meta.original_channel_dim = Some(0);
    image
}

fn from_archive(path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
    // An array that is named explicitly is read alone.
    let labels = if options.npz_key.is_some() { None } else { read_named(path, "seg").ok() };
    let Some((of_labels, labels)) = labels else { return NumpyReader.read(path, options) };
    let (shape, mut values) = read_named(path, "data")?;
    let (&[channels, z, y, x], &[1, ..]) = (&shape[..], &of_labels[..]) else {
        return NumpyReader.read(path, options);
    };
    if of_labels[1..] != shape[1..] {
        let what = format!("`seg` has the shape {of_labels:?}, but `data` {shape:?}: the file is damaged");
        return Err(ReadError::new(path, what));
    }
    values.extend(labels);
    Ok(prepared(path, values, [channels + 1, z, y, x]))
}

fn from_frame(path: &Path) -> Result<Image, ReadError> {
    let failed = |what: String| ReadError::new(path, what);
    let mut array = B2nd::open(path).map_err(failed)?;
    let shape = four(array.shape()).map_err(failed)?;
    let beside = match image_of(path).filter(|image| image.is_file()) {
        None => None,
        Some(file) => {
            let image = B2nd::open(&file).map_err(|what| ReadError::new(&file, what))?;
            let of_image = four(image.shape()).map_err(|what| ReadError::new(&file, what))?;
            same_grid(&shape, &of_image).map_err(failed)?;
            Some(image)
        }
    };
    let numbers = Numbers::named(array.value_type(), array.value_size()).map_err(failed)?;
    // The values of the image, in both orders.
    let values = 2 * 4 * shape.iter().product::<usize>() as u64;
    let bytes = array.read(beside.as_ref(), values).map_err(failed)?;
    Ok(prepared(path, numbers.values(&bytes).map_err(failed)?, shape))
}
