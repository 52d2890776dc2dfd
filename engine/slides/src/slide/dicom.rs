//! A DICOM slide: the images of a series as levels and associated images.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dicom_dictionary_std::tags;

use super::pixels::{Pixels, Tiles, assemble, background_pixel, canvas};
use super::{Background, Counts, Level, Opened, SlideOptions};
use crate::dicom::{Header, Matrix, Series};
use crate::error::Fault;
use crate::limits::Limits;
use crate::raster::Raster;
use crate::region::{Rect, fill};
use crate::source::Source;

struct DicomPixels {
    limits: Limits,
    background: Background,
    tiles: Tiles,
    levels: Vec<Matrix>,
    associated: BTreeMap<String, Matrix>,
}

/// Opens the slide of a file or of a folder.
pub(super) fn open(path: &Path, options: &SlideOptions, counts: Arc<Counts>) -> Result<Opened, Fault> {
    of_series(Series::open(path, &options.limits)?, options, counts)
}

/// Opens the slide of a file in memory.
pub(super) fn of_source(source: Source, options: &SlideOptions, counts: Arc<Counts>) -> Result<Opened, Fault> {
    of_series(Series::of_source(source, &options.limits)?, options, counts)
}

fn of_series(series: Series, options: &SlideOptions, counts: Arc<Counts>) -> Result<Opened, Fault> {
    let limits = options.limits;
    let main = series.levels.first().and_then(|parts| parts.first());
    let main = main.ok_or_else(|| Fault::unsupported("no image of the slide itself"))?;
    let (mpp, power, properties) = (mpp(&main.header), main.header.power, properties(&main.header));
    let levels = series.levels.into_iter().map(|parts| Matrix::new(parts, &limits)).collect::<Result<Vec<_>, _>>()?;
    check_pyramid(&levels)?;
    let associated = series.associated.into_iter().map(|(name, parts)| Ok((name, Matrix::new(parts, &limits)?)));
    // A label that cannot be read does not make the slide unreadable.
    let associated: BTreeMap<String, Matrix> = associated.filter_map(Result::<_, Fault>::ok).collect();
    let (width, height) = (levels[0].width as f64, levels[0].height as f64);
    let level = |level: &Matrix| Level {
        width: level.width,
        height: level.height,
        downsample: (width / level.width as f64 + height / level.height as f64) / 2.0,
        tile_width: level.tile_width,
        tile_height: level.tile_height,
    };
    Ok(Opened {
        levels: levels.iter().map(level).collect(),
        mpp,
        power,
        vendor: "dicom".to_owned(),
        properties,
        associated: associated.keys().cloned().collect(),
        pixels: Box::new(DicomPixels {
            limits,
            background: options.background,
            tiles: Tiles::new(options, counts),
            levels,
            associated,
        }),
    })
}

/// Checks that levels show the same image: smaller by one factor along both axes, up to a tile of
/// padding, which some scanners count as part of the image.
fn check_pyramid(levels: &[Matrix]) -> Result<(), Fault> {
    let Some((first, rest)) = levels.split_first() else { return Ok(()) };
    for level in rest {
        let factors = |whole: usize, size: usize, tile: usize| {
            let (whole, size, tile) = (whole as f64, size as f64, tile as f64);
            let highest = if size > tile { whole / (size - tile) } else { f64::INFINITY };
            (whole / (size + tile), highest)
        };
        let (x, y) = (
            factors(first.width, level.width, level.tile_width),
            factors(first.height, level.height, level.tile_height),
        );
        if x.0.max(y.0) > x.1.min(y.1) {
            return Err(Fault::unsupported(format!(
                "images of {} x {} and {} x {} pixels in one series are not levels of one pyramid; move the files of one \
                 to another folder",
                first.width, first.height, level.width, level.height
            )));
        }
    }
    Ok(())
}

/// Micrometres per pixel along x and y: the pixel spacing, else the size of the imaged volume.
fn mpp(header: &Header) -> Option<[f64; 2]> {
    if let Some([rows, columns]) = header.spacing {
        return Some([columns * 1e3, rows * 1e3]);
    }
    let side = |length, count| Some(header.positive(length)? / header.positive(count)? * 1e3);
    Some([
        side(tags::IMAGED_VOLUME_WIDTH, tags::TOTAL_PIXEL_MATRIX_COLUMNS)?,
        side(tags::IMAGED_VOLUME_HEIGHT, tags::TOTAL_PIXEL_MATRIX_ROWS)?,
    ])
}

/// The attributes of level 0 that describe the slide without identifying the patient.
fn properties(header: &Header) -> BTreeMap<String, String> {
    let all = [
        ("ImageType", tags::IMAGE_TYPE),
        ("AcquisitionDateTime", tags::ACQUISITION_DATE_TIME),
        ("Manufacturer", tags::MANUFACTURER),
        ("ManufacturerModelName", tags::MANUFACTURER_MODEL_NAME),
        ("DeviceSerialNumber", tags::DEVICE_SERIAL_NUMBER),
        ("SoftwareVersions", tags::SOFTWARE_VERSIONS),
        ("StudyInstanceUID", tags::STUDY_INSTANCE_UID),
        ("SeriesInstanceUID", tags::SERIES_INSTANCE_UID),
        ("FrameOfReferenceUID", tags::FRAME_OF_REFERENCE_UID),
        ("PyramidUID", tags::PYRAMID_UID),
        ("ContainerIdentifier", tags::CONTAINER_IDENTIFIER),
        ("DimensionOrganizationType", tags::DIMENSION_ORGANIZATION_TYPE),
        ("PhotometricInterpretation", tags::PHOTOMETRIC_INTERPRETATION),
    ];
    let mut properties: BTreeMap<String, String> =
        all.into_iter().filter_map(|(name, tag)| Some((format!("dicom.{name}"), header.text(tag)?))).collect();
    properties.insert("dicom.TransferSyntaxUID".into(), header.syntax().to_owned());
    properties
}

impl Pixels for DicomPixels {
    fn compression(&self, level: usize) -> Option<String> {
        self.levels.get(level).map(Matrix::compression)
    }

    fn region(&self, level: usize, rect: Rect) -> Result<Raster, Fault> {
        let matrix = &self.levels[level];
        let tile = |index: usize| self.tiles.get(level, index, || matrix.tile(index));
        assemble(matrix.grid(), matrix.format, rect, self.background, &self.limits, tile)
    }

    fn associated(&self, name: &str) -> Result<Raster, Fault> {
        let matrix = &self.associated[name];
        matrix.check_stored()?;
        let rect = Rect { x: 0, y: 0, width: matrix.width, height: matrix.height };
        let mut raster = canvas(rect, matrix.format, &self.limits)?;
        let background = background_pixel(matrix.format, self.background);
        fill(raster.samples.as_bytes_mut(), matrix.grid(), rect, &background, |index| {
            matrix.tile(index).map(|tile| tile.map(Arc::new))
        })?;
        Ok(raster)
    }
}
