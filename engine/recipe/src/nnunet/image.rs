//! Images as nnU-Net's readers return them, and label maps as its writers write them.

use std::path::{Path, PathBuf};

use hearth_data::nifti::{DataType, Header, LabelAffine, read_nifti_values, write_nifti_labels};
use hearth_data::orientation::directions;
use hearth_data::writers::{WriteOptions, write_image};
use hearth_data::{Image, NiftiOptions, ReadOptions, affine, read_image_with};
use hearth_nnunet::{Axes3, Case, Volume};

use crate::error::{Context, Outcome, RecipeError};

/// The spacing of pictures in nnU-Net.
const PICTURE: Axes3<f64> = [999.0, 1.0, 1.0];

/// File extensions of label maps that can be written.
const WRITTEN: [&str; 3] = [".nii.gz", ".nii", ".png"];

/// The classes of nnU-Net that read images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// `SimpleITKIO`
    SimpleItk {
        /// Whether axes are reordered to RAS.
        reorient: bool,
    },
    /// `NibabelIO`
    Nibabel {
        /// Whether axes are reordered to RAS.
        reorient: bool,
    },
    /// `NaturalImage2DIO`
    Picture,
}

impl Reader {
    /// The reader with this name in plans, for files with this extension.
    pub fn named(name: &str, ending: &str) -> Outcome<Self> {
        let reader = match name {
            "SimpleITKIO" => Reader::SimpleItk { reorient: false },
            "SimpleITKIOWithReorient" => Reader::SimpleItk { reorient: true },
            "NibabelIO" => Reader::Nibabel { reorient: false },
            "NibabelIOWithReorient" => Reader::Nibabel { reorient: true },
            "NaturalImage2DIO" => Reader::Picture,
            _ => {
                let known = "SimpleITKIO, NibabelIO (both also WithReorient) and NaturalImage2DIO are";
                return Err(RecipeError::new(format!("images of {name} are not supported; those of {known}")));
            }
        };
        if !WRITTEN.contains(&ending) {
            let what = format!("the model's files end in {ending}, which is not supported");
            let advice = "convert the images to .nii.gz and set file_ending in the model's dataset.json";
            return Err(RecipeError::new(format!("{what}; {} are: {advice}", WRITTEN.join(", "))));
        }
        Ok(reader)
    }
}

/// The grid of an image file, on which its labels are written.
#[derive(Clone, Debug)]
pub enum Grid {
    /// A NIfTI file: its header, the form of the affine, and how its axes were reordered.
    Nifti {
        /// The first channel's header.
        header: Box<Header>,
        /// The form in which the affine is written.
        affine: LabelAffine,
        /// Per axis of the image, the axis of the file and whether it is reversed; `None`: unchanged.
        turned: Option<[(usize, bool); 3]>,
    },
    /// A picture.
    Picture,
}

/// A case's image with all channels.
#[derive(Clone, Debug)]
pub struct CaseImage {
    /// The values, `[channel, z, y, x]`.
    pub volume: Volume,
    /// The voxel size in mm, z, y, x.
    pub spacing: Axes3<f64>,
    /// The grid of its file.
    pub grid: Grid,
}

/// Reads all channels of a case, which must have the same size and spacing.
///
/// # Errors
/// Files that cannot be read, or channels that differ.
pub fn read(reader: Reader, case: &Case) -> Outcome<CaseImage> {
    let mut whole: Option<CaseImage> = None;
    for path in &case.files {
        let one = read_file(reader, path)?;
        let Some(first) = &mut whole else {
            whole = Some(one);
            continue;
        };
        let shape = |image: &CaseImage| image.volume.shape;
        if shape(first) != shape(&one) {
            let what = format!("it has {:?} voxels (z, y, x)", shape(&one));
            return Err(differs(path, &what, &format!("{:?}", shape(first)), case));
        }
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-8 + 1e-5 * b.abs();
        if !first.spacing.iter().zip(&one.spacing).all(close) {
            let what = format!("its voxels have {:?} mm (z, y, x)", one.spacing);
            return Err(differs(path, &what, &format!("{:?}", first.spacing), case));
        }
        first.volume.channels += one.volume.channels;
        first.volume.data.extend(one.volume.data);
    }
    whole.ok_or_else(|| RecipeError::new(format!("case {} has no file", case.name)))
}

impl CaseImage {
    /// Converts an image that another reader read: a DICOM series, or a format that nnU-Net does
    /// not read.
    ///
    /// # Errors
    /// Values that the device failed to compute.
    pub fn of_image(image: &Image, reader: Reader) -> Outcome<Self> {
        let [channels, x, y, z] = image.data.dims();
        let flat = image.meta.spatial_dims == 2 && z == 1;
        let mut header = Header::default();
        header.dim = if flat { vec![x, y] } else { vec![x, y, z] };
        header.srow = [image.affine[0], image.affine[1], image.affine[2]];
        header.sform_code = 1;
        header.pixdim[1..4].copy_from_slice(&affine::spacing(&image.affine));
        let host = image.clone().to_host().map_err(|error| RecipeError::of_device(&error))?;
        // The last axis of an image is the fastest, in nnU-Net's arrays it is x.
        let volume = Volume::new(channels, [x, y, z], host.to_vec()).map(|volume| volume.transposed([2, 1, 0]));
        let volume = volume.ok_or_else(|| RecipeError::new("values of the image are missing"))?;
        Ok(match reader {
            Reader::SimpleItk { reorient } => on_grid(header, volume, LabelAffine::Both, reorient),
            Reader::Nibabel { reorient } => on_grid(header, volume, LabelAffine::Matrix, reorient),
            Reader::Picture => {
                let volume = volume.transposed([0, 2, 1]);
                CaseImage { volume, spacing: PICTURE, grid: Grid::Picture }
            }
        })
    }

    /// Adds the channels of another image of the same case.
    ///
    /// # Errors
    /// Images of different sizes.
    pub fn with_channels(mut self, other: Self) -> Outcome<Self> {
        if self.volume.shape != other.volume.shape {
            let (one, two) = (self.volume.shape, other.volume.shape);
            return Err(RecipeError::new(format!(
                "channels of a case must agree: they have {one:?} and {two:?} voxels"
            )));
        }
        self.volume.channels += other.volume.channels;
        self.volume.data.extend(other.volume.data);
        Ok(self)
    }
}

fn differs(path: &Path, what: &str, first: &str, case: &Case) -> RecipeError {
    let other = case.files.first().map(|path| path.display().to_string()).unwrap_or_default();
    RecipeError::new(format!("{}: {what}, and {other} has {first}: channels of a case must agree", path.display()))
}

fn read_file(reader: Reader, path: &PathBuf) -> Outcome<CaseImage> {
    match reader {
        Reader::Picture => {
            let options = ReadOptions::default().reverse_indexing(false);
            let image = read_image_with(path, &options)?;
            let [channels, height, width] = [image.channels(), image.shape()[0], image.shape()[1]];
            // Grey with alpha has two channels, which nnU-Net does not read.
            let volume = Volume::new(channels, [1, height, width], image.to_vec());
            let volume = volume.filter(|_| image.shape()[2] == 1);
            let volume = volume.ok_or_else(|| RecipeError::new(format!("{}: not a flat picture", path.display())))?;
            Ok(CaseImage { volume, spacing: PICTURE, grid: Grid::Picture })
        }
        Reader::SimpleItk { reorient } => read_nifti(path, LabelAffine::Both, reorient),
        Reader::Nibabel { reorient } => read_nifti(path, LabelAffine::Matrix, reorient),
    }
}

fn read_nifti(path: &Path, affine: LabelAffine, reorient: bool) -> Outcome<CaseImage> {
    let (header, values) = read_nifti_values(path)?;
    let axis = |i: usize| header.dim.get(i).copied().unwrap_or(1);
    let channels = header.dim.iter().skip(3).product();
    let volume = Volume::new(channels, [axis(2), axis(1), axis(0)], values);
    let volume = volume.ok_or_else(|| RecipeError::new(format!("{}: values are missing", path.display())))?;
    Ok(on_grid(header, volume, affine, reorient))
}

/// An image on the grid of a header, reordered to RAS if requested.
fn on_grid(header: Header, mut volume: Volume, affine: LabelAffine, reorient: bool) -> CaseImage {
    let mut spacing = [header.pixdim[3], header.pixdim[2], header.pixdim[1]];
    if header.dim.len() < 3 {
        // nnU-Net's spacing puts a slice far from all others.
        spacing[0] = 999.0 * spacing[1].max(spacing[2]);
    }
    let turned = reorient.then(|| to_ras(&header)).flatten();
    if let Some(turned) = turned {
        volume = turn(volume, turned);
        spacing = turned.map(|(axis, _)| spacing[axis]);
    }
    CaseImage { volume, spacing, grid: Grid::Nifti { header: Box::new(header), affine, turned } }
}

/// For each axis S, A and R, slowest first: the file axis (z, y, x) along it, and whether it is
/// reversed.
fn to_ras(header: &Header) -> Option<[(usize, bool); 3]> {
    let found = directions(&header.affine(), 3);
    let mut turned = [None; 3];
    for (axis, direction) in found.into_iter().enumerate() {
        let (world, flipped) = direction?;
        turned[2 - world] = Some((2 - axis, flipped));
    }
    let [Some(z), Some(y), Some(x)] = turned else { return None };
    ([z, y, x] != [(0, false), (1, false), (2, false)]).then_some([z, y, x])
}

fn turn<T: Copy + Send + Sync + Default>(volume: Volume<T>, turned: [(usize, bool); 3]) -> Volume<T> {
    flip(volume.transposed(turned.map(|(axis, _)| axis)), turned.map(|(_, flipped)| flipped))
}

fn turn_back<T: Copy + Send + Sync + Default>(volume: Volume<T>, turned: [(usize, bool); 3]) -> Volume<T> {
    let mut back = [0; 3];
    turned.iter().enumerate().for_each(|(to, (from, _))| back[*from] = to);
    flip(volume, turned.map(|(_, flipped)| flipped)).transposed(back)
}

fn flip<T: Copy>(mut volume: Volume<T>, axes: [bool; 3]) -> Volume<T> {
    let [_, ny, nx] = volume.shape;
    let plane = ny * nx;
    let voxels = plane * volume.shape[0];
    if voxels == 0 {
        return volume;
    }
    for channel in volume.data.chunks_mut(voxels) {
        if axes[0] {
            let mut planes: Vec<&mut [T]> = channel.chunks_mut(plane).collect();
            let count = planes.len();
            let (low, high) = planes.split_at_mut(count / 2);
            low.iter_mut().zip(high.iter_mut().rev()).for_each(|(a, b)| a.swap_with_slice(b));
        }
        for plane in channel.chunks_mut(plane) {
            if axes[1] {
                let mut rows: Vec<&mut [T]> = plane.chunks_mut(nx).collect();
                let count = rows.len();
                let (low, high) = rows.split_at_mut(count / 2);
                low.iter_mut().zip(high.iter_mut().rev()).for_each(|(a, b)| a.swap_with_slice(b));
            }
            if axes[2] {
                plane.chunks_mut(nx).for_each(<[T]>::reverse);
            }
        }
    }
    volume
}

impl Grid {
    /// Reorders a label map of a file on this grid to the axes of images.
    pub fn oriented(&self, labels: Volume<u16>) -> Volume<u16> {
        match self {
            Grid::Nifti { turned: Some(turned), .. } => turn(labels, *turned),
            _ => labels,
        }
    }

    /// Converts a map in the axes of images, `[C, z, y, x]`, to an image `[C, X, Y, Z]` on the grid
    /// of the file.
    pub fn image<T: Copy + Send + Sync + Default + Into<f32>>(&self, map: &Volume<T>) -> Image {
        let (turned, affine) = match self {
            Grid::Nifti { header, turned, .. } => (*turned, header.affine()),
            Grid::Picture => (None, affine::IDENTITY),
        };
        let map = match turned {
            Some(turned) => turn_back(map.clone(), turned),
            None => map.clone(),
        };
        let (channels, [z, y, x]) = (map.channels, map.shape);
        let values = map.transposed([2, 1, 0]).data.into_iter().map(Into::into).collect();
        let mut image = Image::from_values(values, [channels, x, y, z], affine, &hearth_data::host_device());
        if let Grid::Nifti { header, .. } = self {
            image.meta.spatial_dims = header.dim.len().clamp(2, 3);
        }
        image
    }

    /// Writes labels on this grid in the format of the file's name, with 16 bits if `wide`.
    pub fn write(&self, path: &Path, labels: &Volume<u16>, wide: bool) -> Outcome {
        match self {
            Grid::Nifti { header, affine, turned } if is_nifti(path) => {
                let turned = turned.map(|turned| turn_back(labels.clone(), turned));
                let labels = turned.as_ref().unwrap_or(labels);
                Ok(write_nifti_labels(path, header, &labels.data, wide, *affine)?)
            }
            _ => {
                let stored = if wide { DataType::U16 } else { DataType::U8 };
                let options = WriteOptions::default().nifti(NiftiOptions::label().data_type(stored));
                write_image(path, &self.image(labels), &options).while_doing(|| path.display().to_string())
            }
        }
    }
}

/// Whether a file is NIfTI by its name.
fn is_nifti(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    name.ends_with(".nii.gz") || name.ends_with(".nii")
}

/// Reads the labels of a file, in the axes of the case with this grid.
///
/// # Errors
/// A file that cannot be read or is not a label map.
pub fn read_labels(reader: Reader, path: &Path, grid: &Grid) -> Outcome<Volume<u16>> {
    let doing = || format!("the labels {}", path.display());
    let reader = reader_as_it_lies(reader);
    let image = if reader == Reader::Picture || is_nifti(path) {
        read_file(reader, &path.to_owned()).while_doing(doing)?
    } else {
        let image = read_image_with(path, &ReadOptions::default()).while_doing(doing)?;
        CaseImage::of_image(&image, reader).while_doing(doing)?
    };
    let label = |value: &f32| {
        let whole = value.fract() == 0.0 && (0.0..=65_535.0).contains(value);
        whole.then_some(*value as u16)
    };
    let labels: Option<Vec<u16>> = image.volume.data.iter().map(label).collect();
    let volume = labels.and_then(|labels| Volume::new(1, image.volume.shape, labels));
    let what = || RecipeError::new("it is not a map of whole numbers from 0 to 65535 in one channel");
    Ok(grid.oriented(volume.ok_or_else(what).while_doing(doing)?))
}

/// The same reader without reordering: the image's grid has the order of its labels.
fn reader_as_it_lies(reader: Reader) -> Reader {
    match reader {
        Reader::SimpleItk { .. } => Reader::SimpleItk { reorient: false },
        Reader::Nibabel { .. } => Reader::Nibabel { reorient: false },
        Reader::Picture => Reader::Picture,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_turned_to_ras_and_back() {
        let mut header = Header::default();
        header.dim = vec![2, 3, 4];
        header.sform_code = 1;
        // x points to the front, y to the left, z up.
        header.srow = [[0.0, -2.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]];
        let turned = to_ras(&header).expect("another order");
        assert_eq!(turned, [(0, false), (2, false), (1, true)]);
        let volume = Volume::new(1, [4, 3, 2], (0..24_u16).collect()).expect("24 voxels");
        let ras = turn(volume.clone(), turned);
        assert_eq!((ras.shape, &ras.data[..3]), ([4, 2, 3], &[4, 2, 0][..]));
        assert_eq!(turn_back(ras, turned), volume);
        header.srow = [[2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]];
        assert_eq!(to_ras(&header), None);
        let all = turn(volume.clone(), [(0, true), (1, true), (2, true)]);
        assert!(all.data.iter().rev().eq(&volume.data));
    }

    #[test]
    fn readers_that_are_not_supported_are_named() {
        let error = Reader::named("Tiff3DIO", ".tif").expect_err("refused").to_string();
        assert!(error.contains("Tiff3DIO"), "{error}");
        let error = Reader::named("SimpleITKIO", ".nrrd").expect_err("refused").to_string();
        assert!(error.contains(".nrrd") && error.contains(".nii.gz"), "{error}");
    }
}
