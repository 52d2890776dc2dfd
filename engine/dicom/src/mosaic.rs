//! Siemens' mosaics: the slices of a volume as tiles of one picture ([`Mosaic`]).

use dicom_dictionary_std::tags;

use crate::csa::Csa;
use crate::error::DicomError;
use crate::geometry::{Vector, along, dot, norm};
use crate::image::FrameInfo;
use crate::options::Limits;
use crate::pixels::PixelFormat;
use crate::tags::Attributes;

/// How the tiles of a picture lie in it.
#[derive(Clone, Debug)]
pub(crate) struct Mosaic {
    /// The format of the whole picture.
    pub whole: PixelFormat,
    /// Tiles in a row.
    across: usize,
}

impl Mosaic {
    /// Cuts a tile out of the picture.
    pub fn tile(&self, picture: &[u8], tile: usize) -> Vec<u8> {
        let PixelFormat { rows, columns, .. } = self.whole;
        let (height, line) = (rows / self.across, picture.len() / rows);
        let width = line / columns * (columns / self.across);
        let (top, left) = (tile / self.across * height, tile % self.across * width);
        (top..top + height).flat_map(|row| &picture[row * line + left..][..width]).copied().collect()
    }
}

/// Makes each tile of a mosaic a frame with its own position, and `format` the format of a tile. `None`
/// for other images.
///
/// The tiles are cut as in dcm2niix and nibabel. ImagePositionPatient is that of the corner of a picture
/// of the mosaic's size around the centre of the first slice.
///
/// # Errors
/// A mosaic without the private header that says how many slices it has, in which order, and at which
/// distance.
pub(crate) fn unpack(
    attributes: &Attributes<'_>,
    format: &mut PixelFormat,
    frames: &mut Vec<FrameInfo>,
    limits: &Limits,
) -> Result<Option<Mosaic>, DicomError> {
    let [first] = frames.as_slice() else { return Ok(None) };
    if !first.marks.image_type().iter().any(|word| word == "mosaic") {
        return Ok(None);
    }
    let Layout { count, normal, spacing } = layout(attributes, first, limits)?;
    let across = (1..=count).find(|side| side * side >= count).unwrap_or(1);
    if !format.rows.is_multiple_of(across) || !format.columns.is_multiple_of(across) {
        let what = format!(
            "a mosaic of {count} slices has {across} tiles in a row and a column, and its {} columns and {} rows are no \
             multiple of that",
            format.columns, format.rows
        );
        return Err(attributes.error(tags::ROWS, what));
    }
    let missing = |tag| attributes.error(tag, "missing: the slices of a mosaic cannot be placed without it");
    let corner = first.position.ok_or_else(|| missing(tags::IMAGE_POSITION_PATIENT))?;
    let orientation = first.orientation.ok_or_else(|| missing(tags::IMAGE_ORIENTATION_PATIENT))?;
    let [dx, dy] = first.spacing.ok_or_else(|| missing(tags::PIXEL_SPACING))?;
    let length = norm(normal);
    let normal = normal.map(|part| part / length);
    let alike = dot(normal, orientation.normal()).abs();
    if !alike.is_finite() || alike < 0.999 {
        let what = format!("the SliceNormalVector {normal:?} of the mosaic is not at right angles to it");
        return Err(attributes.error(tags::IMAGE_ORIENTATION_PATIENT, what));
    }
    let whole = format.clone();
    (format.rows, format.columns) = (whole.rows / across, whole.columns / across);
    let off = |whole: usize, tile: usize| (whole - tile) as f64 / 2.0;
    let origin = along(corner, orientation.row, dx * off(whole.columns, format.columns));
    let origin = along(origin, orientation.column, dy * off(whole.rows, format.rows));
    let tile = |k: usize| FrameInfo {
        position: Some(along(origin, normal, spacing * k as f64)),
        slice_spacing: Some(spacing),
        ..first.clone()
    };
    *frames = (0..count).map(tile).collect();
    Ok(Some(Mosaic { whole, across }))
}

/// What a header says about the tiles.
struct Layout {
    count: usize,
    /// The direction from the first slice to the last.
    normal: Vector,
    /// The distance of slices in mm.
    spacing: f64,
}

fn layout(attributes: &Attributes<'_>, first: &FrameInfo, limits: &Limits) -> Result<Layout, DicomError> {
    let refused = |what: &str| DicomError::Unsupported {
        path: attributes.path().to_owned(),
        what: format!(
            "a mosaic of Siemens (slices as tiles of one picture) {what}; export it with its private elements, or as single \
             slices"
        ),
    };
    let image = header(attributes, 0x10).ok_or_else(|| {
        refused("without its CSA header (0029,1010), which has the number and order of the slices: it was removed or is damaged")
    })?;
    let count = count(attributes, &image, limits);
    let count = count.ok_or_else(|| refused("without a valid NumberOfImagesInMosaic in its CSA header"))?;
    let normal = image.vector("SliceNormalVector").filter(|normal| norm(*normal) > 0.0);
    let normal =
        normal.ok_or_else(|| refused("without SliceNormalVector in its CSA header, the order of its slices"))?;
    let spacing = first
        .slice_spacing
        .map(f64::abs)
        .or_else(|| image.numbers("SpacingBetweenSlices")?.first().copied())
        .or_else(|| {
            let series = header(attributes, 0x20)?;
            distance(series.text("MrPhoenixProtocol").or_else(|| series.text("MrProtocol"))?)
        })
        .filter(|spacing| spacing.is_finite() && *spacing > 0.0);
    let spacing = spacing.ok_or_else(|| refused("without SpacingBetweenSlices, the distance of its slices"))?;
    Ok(Layout { count, normal, spacing })
}

/// The number of slices of a file: more than one for a mosaic.
pub(crate) fn slices(attributes: &Attributes<'_>, limits: &Limits) -> Option<usize> {
    let kind = attributes.text(tags::IMAGE_TYPE)?;
    let is_mosaic = kind.split('\\').any(|word| word.trim().eq_ignore_ascii_case("MOSAIC"));
    is_mosaic.then(|| count(attributes, &header(attributes, 0x10)?, limits)).flatten()
}

/// A CSA header: of the image (10), or of the series (20).
fn header(attributes: &Attributes<'_>, element: u8) -> Option<Csa> {
    let bytes = attributes.bytes(attributes.private(0x0029, "SIEMENS CSA HEADER", element)?)?;
    Csa::parse(&bytes)
}

/// NumberOfImagesInMosaic, of the CSA header or next to it.
fn count(attributes: &Attributes<'_>, image: &Csa, limits: &Limits) -> Option<usize> {
    let by_number = || attributes.number_of(attributes.private(0x0019, "SIEMENS MR HEADER", 0x0a)?);
    let count =
        image.numbers("NumberOfImagesInMosaic").and_then(|numbers| numbers.first().copied()).or_else(by_number)?;
    (count >= 1.0 && count <= limits.frames as f64 && count.fract() == 0.0).then_some(count as usize)
}

/// The distance of the first two slices of a protocol, whose lines are
/// `sSliceArray.asSlice[0].sPosition.dTra = 12.5`; coordinates of 0 have no line, and so a slice at the origin
/// has none of a position.
fn distance(protocol: &str) -> Option<f64> {
    let value = |slice: usize, axis: &str| -> Option<f64> {
        let key = format!("sSliceArray.asSlice[{slice}].sPosition.{axis}");
        let line = protocol.lines().find_map(|line| line.trim_start().strip_prefix(&key))?;
        line.trim_start().strip_prefix('=')?.trim().parse().ok()
    };
    let place = |slice| -> Option<Vector> {
        let key = format!("sSliceArray.asSlice[{slice}].");
        let exists = protocol.lines().any(|line| line.trim_start().starts_with(&key));
        exists.then(|| ["dSag", "dCor", "dTra"].map(|axis| value(slice, axis).unwrap_or_default()))
    };
    Some(norm(along(place(1)?, place(0)?, -1.0)))
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn slices_of_a_protocol_have_a_distance() {
        let protocol = "sSliceArray.asSlice[0].sPosition.dCor\t = \t3.0\nsSliceArray.asSlice[1].sPosition.dCor = 6\n\
                        sSliceArray.asSlice[1].sPosition.dTra\t=\t-4.0\nsSliceArray.asSlice[10].sPosition.dTra = 9";
        assert_eq!(distance(protocol), Some(5.0));
        assert_eq!(distance("sSliceArray.asSlice[0].sPosition.dTra = 9"), None);
        let at_origin = "sSliceArray.asSlice[0].dThickness = 3.0\nsSliceArray.asSlice[1].sPosition.dTra = 3.6";
        assert_eq!(distance(at_origin), Some(3.6));
    }
}
