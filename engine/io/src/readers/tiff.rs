use std::path::Path;

use hearth_image::{Image, affine, host_device};
use hearth_slides::{PageInfo, Raster, Samples, Slide, TiffFile};

use super::raster::planar;
use super::tiff_stack::{TiffStack, imagej};
use super::{Probe, ReadError, ReadOptions, Reader};
use crate::nifti::voxels;

/// The maximum number of values of a slide's level that is read as one image.
const MAX_VALUES: usize = 1 << 30;

fn is_tiff(probe: &Probe<'_>) -> bool {
    // Classic and BigTIFF, either byte order.
    let magics = [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"];
    magics.iter().any(|magic| probe.start.starts_with(*magic))
}

/// Reads plain TIFF, with the axes and values of [`RasterReader`](super::RasterReader); pages of the same
/// size become the slices of a volume, of colours too. Where ImageJ or OME-XML describes channels and
/// frames, these become channels. Smaller versions of a page are skipped, and up to three smaller pages
/// that may be thumbnail, label and macro image; other pages of several sizes are an error.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct TiffReader;

impl Reader for TiffReader {
    fn name(&self) -> &'static str {
        "TiffReader"
    }

    fn precedence(&self) -> u32 {
        3
    }

    fn suffixes(&self) -> &[&str] {
        &[".tif", ".tiff"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        is_tiff(probe)
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        let error = |e: hearth_slides::SlideError| ReadError::new(path, e);
        let file = TiffFile::open(path).map_err(error)?.with_labels();
        let first = file.pages().first().ok_or_else(|| ReadError::new(path, "a TIFF without pages"))?;
        let description = first.description.clone().unwrap_or_default();
        check_imagej(&description, file.pages().len()).map_err(|what| ReadError::new(path, what))?;
        // Smaller versions of a page are not slices.
        let is_page = |page: &&PageInfo| !page.is_reduced && page.parent.is_none();
        let pages: Vec<usize> = (0..file.pages().len()).filter(|at| is_page(&&file.pages()[*at])).collect();
        let (pages, skipped) = image_pages(file.pages(), pages).map_err(|what| ReadError::new(path, what))?;
        let image = pages.first().map_or(first, |page| &file.pages()[*page]);
        let (width, height, channels) = (image.width, image.height, image.channels);
        if !skipped.is_empty() {
            let path = path.display();
            tracing::warn!(
                "{path}: read as an image of {width} x {height}; smaller pages, of {}, are skipped as thumbnail, label or \
                 macro image",
                skipped.join(", ")
            );
        }
        let depth = pages.len().max(1);
        if [height, channels, depth].iter().try_fold(width, |n, d| n.checked_mul(*d)).is_none_or(|n| n > MAX_VALUES) {
            return Err(too_large(path, width, height));
        }
        if depth == 1 {
            let page = file.read(pages.first().copied().unwrap_or(0)).map_err(error)?;
            check_whole(&page.samples).map_err(|what| ReadError::new(path, what))?;
            let (pixels, stored) = (page.samples.to_f32(), page.samples.kind().name());
            return Ok(planar(path, &pixels, [width, height, channels], options.reverse_indexing, stored));
        }
        let stack = TiffStack::of(&description, depth, channels).map_err(|what| ReadError::new(path, what))?;
        let read = pages.iter().map(|page| file.read(*page)).collect::<Result<Vec<Raster>, _>>().map_err(error)?;
        read.iter().try_for_each(|page| check_whole(&page.samples)).map_err(|what| ReadError::new(path, what))?;
        let stored = read.first().map_or("uint8", |page| page.samples.kind().name());
        let planes: Vec<Vec<f32>> = read.iter().map(|page| page.samples.to_f32()).collect();
        let size = if options.reverse_indexing { [width, height] } else { [height, width] };
        let step = if options.reverse_indexing { [1, width] } else { [width, 1] };
        let mut values = Vec::with_capacity(channels * size[0] * size[1] * depth);
        for (first, channel) in stack.channels().flat_map(|first| (0..channels).map(move |channel| (first, channel))) {
            for pixel in (0..size[0]).flat_map(|a| (0..size[1]).map(move |b| a * step[0] + b * step[1])) {
                let pages = (0..stack.slices).map(|slice| first + slice * stack.step_of_slices);
                values.extend(pages.map(|page| planes[page][pixel * channels + channel]));
            }
        }
        let shape = [channels * depth / stack.slices, size[0], size[1], stack.slices];
        let mut image = Image::from_values(values, shape, affine::IDENTITY, &host_device());
        image.meta.spatial_dims = if stack.slices == 1 { 2 } else { 3 };
        image.meta.path = Some(path.to_owned());
        image.meta.stored_type = stored.to_owned();
        Ok(image)
    }
}

/// The largest number of pages that a scanner adds to an image: thumbnail, label, macro image.
const ADDED: usize = 3;

/// The pages that are an image, or the slices of a stack: those of the largest size; and the sizes of the
/// others, which may be what a scanner adds. Fails for pages that may be images of their own.
fn image_pages(all: &[PageInfo], pages: Vec<usize>) -> Result<(Vec<usize>, Vec<String>), String> {
    let size = |page: &usize| (all[*page].width, all[*page].height, all[*page].channels);
    let area = |page: &usize| all[*page].width.saturating_mul(all[*page].height);
    // Of equal areas, the first.
    let Some(largest) = pages.iter().rev().max_by_key(|page| area(page)).map(size) else {
        return Ok((pages, Vec::new()));
    };
    let (images, others): (Vec<usize>, Vec<usize>) = pages.into_iter().partition(|page| size(page) == largest);
    let words = |page: &usize| format!("{} x {}", all[*page].width, all[*page].height);
    let smaller = |page: &usize| all[*page].width < largest.0 && all[*page].height < largest.1;
    let mut sizes: Vec<_> = others.iter().map(size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if others.len() <= ADDED && sizes.len() == others.len() && others.iter().all(smaller) {
        return Ok((images, others.iter().map(words).collect()));
    }
    let mut all_sizes: Vec<String> = images.iter().chain(&others).map(words).collect();
    all_sizes.dedup();
    let shown = all_sizes[..all_sizes.len().min(4)].join(", ");
    let more = if all_sizes.len() > 4 { ", ..." } else { "" };
    Err(format!(
        "its {} pages have several sizes or numbers of channels ({shown}{more}), so they are neither the slices of one \
         volume nor an image with its thumbnails; write each image to a file of its own (tiffsplit)",
        images.len() + others.len()
    ))
}

/// Fails for a whole number that f32 cannot hold.
fn check_whole(samples: &Samples) -> Result<(), String> {
    match samples {
        Samples::U32(all) => all.iter().try_for_each(|value| voxels::check_whole((*value).into())),
        Samples::I32(all) => all.iter().try_for_each(|value| voxels::check_whole((*value).into())),
        _ => Ok(()),
    }
}

/// Fails if ImageJ wrote a stack of which the file has one directory: the other slices follow its pixels.
fn check_imagej(description: &str, pages: usize) -> Result<(), String> {
    let count = imagej(description, "images").unwrap_or(1);
    if count <= pages {
        return Ok(());
    }
    Err(format!(
        "it is a stack of {count} images by ImageJ, of which the file describes {pages}; save it from ImageJ as an image \
         sequence, or as NRRD or NIfTI"
    ))
}

hearth_registry::entry!(dyn Reader => TiffReader, example: "", build: |_| Ok(Box::new(TiffReader)));

/// Reads one level of a whole-slide image, like MONAI's `WSIReader`: `[3, H, W, 1]`, rows first.
/// `PatchWSIDataset` reads large slides patch by patch.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct WSIReader;

impl Reader for WSIReader {
    fn name(&self) -> &'static str {
        "WSIReader"
    }

    fn precedence(&self) -> u32 {
        // Above the priority of DicomReader, which finds no volume in a whole slide.
        6
    }

    fn suffixes(&self) -> &[&str] {
        &[".svs"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        let is_dicom = probe.folder || hearth_dicom::is_dicom(probe.start);
        if is_dicom && hearth_slides::is_dicom_slide(probe.path) {
            return true;
        }
        is_tiff(probe) && Slide::open(probe.path).is_ok_and(|slide| is_pyramid(&slide))
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        let error = |e: hearth_slides::SlideError| ReadError::new(path, e);
        let slide = Slide::open(path).map_err(error)?;
        let level = slide.levels().get(options.level).ok_or_else(|| {
            ReadError::new(path, format!("there is no level {}; the slide has {}", options.level, slide.levels().len()))
        })?;
        if level.width.checked_mul(level.height).is_none_or(|n| n > MAX_VALUES / 3) {
            return Err(too_large(path, level.width, level.height));
        }
        let raster = slide.read_region(options.level, 0, 0, level.width, level.height).map_err(error)?;
        let mut image = slide_region(&raster);
        image.meta.path = Some(path.to_owned());
        Ok(image)
    }
}

hearth_registry::entry!(dyn Reader => WSIReader, example: "", build: |_| Ok(Box::new(WSIReader)));

/// Whether a TIFF is a pyramid, not a picture, a stack of pages, or a picture of strips with its thumbnail.
fn is_pyramid(slide: &Slide) -> bool {
    match slide.levels() {
        [first, _] if slide.vendor() == "generic-tiff" => first.tile_width < first.width,
        levels => levels.len() > 1,
    }
}

/// Converts a region of a slide to an image, rows first.
pub fn slide_region(raster: &Raster) -> Image {
    let shape = [raster.channels, raster.height, raster.width, 1];
    let mut image = Image::from_values(raster.to_chw_f32(), shape, affine::IDENTITY, &host_device());
    image.meta.spatial_dims = 2;
    image.meta.stored_type = raster.samples.kind().name().to_owned();
    image.meta.original_shape = vec![raster.height, raster.width, raster.channels];
    image.meta.original_channel_dim = Some(-1);
    image
}

fn too_large(path: &Path, width: usize, height: usize) -> ReadError {
    let advice = "read it patch by patch (PatchWSIDataset), or a smaller level (`level`)";
    ReadError::new(path, format!("{width} x {height} pixels are too many for one image; {advice}"))
}
