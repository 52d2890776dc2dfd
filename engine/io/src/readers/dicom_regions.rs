//! Reads annotations of DICOM images as an image: structure sets (RTSTRUCT) and segmentations
//! (SEG).

use std::path::Path;

use hearth_dicom::{Annotation, DicomError, RegionVolume, Regions, Scan};
use hearth_image::{Image, host_device};

use super::dicom::{named, warn};
use super::{ReadError, ReadOptions};

/// Reads the regions of a file or folder; `None` if images are requested.
pub(super) fn read(
    path: &Path,
    scan: &Scan,
    options: &ReadOptions,
    how: &hearth_dicom::ReadOptions,
) -> Result<Option<Image>, ReadError> {
    let Some(drawn) = drawn(path, scan, options, how)? else { return Ok(None) };
    warn(path, &drawn.findings);
    let mut image = Image::from_values(drawn.values, drawn.shape, *drawn.grid.affine(), &host_device());
    image.meta.path = Some(path.to_owned());
    let largest = drawn.regions.iter().map(|region| region.label).max().unwrap_or_default();
    image.meta.stored_type = match options.segments_as_channels {
        true => "float32",
        false if largest > 255 => "uint16",
        false => "uint8",
    }
    .to_owned();
    if drawn.shape[0] > 1 {
        let [c, x, y, z] = drawn.shape;
        image.meta.original_shape = vec![x, y, z, c];
        image.meta.original_channel_dim = Some(-1);
    }
    Ok(Some(image))
}

/// The regions of a file or folder on their grid; `None` if images are requested.
pub(super) fn drawn(
    path: &Path,
    scan: &Scan,
    options: &ReadOptions,
    how: &hearth_dicom::ReadOptions,
) -> Result<Option<RegionVolume>, ReadError> {
    let asked = !options.segments.is_empty() || options.segments_as_channels || options.reference.is_some();
    if !asked && !scan.series.is_empty() {
        return Ok(None);
    }
    let annotation = match scan.annotations.as_slice() {
        [one] => one,
        [] if !asked => return Ok(None),
        [] => {
            let what = "`segments` are requested, but there is no segmentation (SEG) or structure set (RTSTRUCT)";
            return Err(ReadError::new(path, what));
        }
        several => {
            let names: Vec<String> = several.iter().map(|a| a.path.display().to_string()).collect();
            let what = format!("{} files of regions; give one of them: {}", names.len(), names.join(", "));
            return Err(ReadError::new(path, what));
        }
    };
    let regions = Regions::open(&annotation.path, how).map_err(|e| ReadError::new(path, e))?;
    let names: Vec<&str> = options.segments.iter().map(String::as_str).collect();
    let channels = options.segments_as_channels;
    Ok(Some(match (&options.reference, regions.own_grid()) {
        (Some(reference), _) => {
            let images = hearth_dicom::scan_with(reference, how).map_err(|e| ReadError::new(reference, e))?;
            on_images(path, annotation, &regions, &images, options, how)?
        }
        (None, Some(own)) => {
            let draw = |grid| match channels {
                true => regions.channels(&names, &grid, how),
                false => regions.labels(&names, &grid, how),
            };
            own.and_then(draw).map_err(|e| ReadError::new(path, e))?
        }
        (None, None) if scan.series.is_empty() => {
            let what = "a structure set has no grid of its own: name the images that it was drawn on (`reference_key` of \
                        LoadImage, --like of `hearth convert`), or give a folder with both";
            return Err(ReadError::new(path, what));
        }
        (None, None) => on_images(path, annotation, &regions, scan, options, how)?,
    }))
}

/// Reads regions on the grid of the series that they, or the options, name.
fn on_images(
    path: &Path,
    annotation: &Annotation,
    regions: &Regions,
    images: &Scan,
    options: &ReadOptions,
    how: &hearth_dicom::ReadOptions,
) -> Result<RegionVolume, ReadError> {
    let series = match &options.series {
        Some(wanted) => {
            let at = named(images, options.reference.as_deref().unwrap_or(path), wanted)?;
            &images.series[at]
        }
        // Without a named series, the only series is used.
        None if annotation.referenced_series.is_empty() && images.series.len() == 1 => &images.series[0],
        None => images
            .image_of(annotation)
            .map_err(|why| ReadError::new(path, format!("{why}; name the images by `series`")))?,
    };
    let names: Vec<&str> = options.segments.iter().map(String::as_str).collect();
    regions
        .on_images(&names, options.segments_as_channels, series.grid(), how)
        .map_err(|e: DicomError| ReadError::new(path, e))
}
