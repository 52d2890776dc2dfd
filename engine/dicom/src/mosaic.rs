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
    let valid = |spacing: f64| Some(spacing.abs()).filter(|spacing| spacing.is_finite() && *spacing > 0.0);
    let of_image = || image.numbers("SpacingBetweenSlices")?.first().copied().and_then(valid);
    let of_protocol = || {
        let series = header(attributes, 0x20)?;
        let protocol = series.text("MrPhoenixProtocol").or_else(|| series.text("MrProtocol"))?;
        let thickness = attributes.number_of(tags::SLICE_THICKNESS);
        protocol_distance(protocol, count).or_else(|| distance_by_factor(protocol, thickness)).and_then(valid)
    };
    let spacing = first.slice_spacing.and_then(valid).or_else(of_image).or_else(of_protocol);
    let spacing = spacing.ok_or_else(|| {
        refused(
            "without the distance of its slices: there is no SpacingBetweenSlices, and no position or distance factor in the \
             protocol of its CSA header (0029,1020); SliceThickness leaves out gaps",
        )
    })?;
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

/// The value of a line `key = value` of a protocol. Values of 0 have no line.
fn value(protocol: &str, key: &str) -> Option<f64> {
    let line = protocol.lines().find_map(|line| line.trim_start().strip_prefix(key)?.trim_start().strip_prefix('='))?;
    line.trim().parse().ok()
}

/// Whether a protocol has a line of this array's entry.
fn has(protocol: &str, entry: &str) -> bool {
    protocol.lines().any(|line| line.trim_start().starts_with(entry))
}

/// The part of a distance by which others of the same stack may differ.
const UNEVEN: f64 = 0.01;

/// The distance of the slices of a protocol, whose lines are `sSliceArray.asSlice[0].sPosition.dTra =
/// 12.5`. A slice at the origin has no line of a position. `None` if they have no single distance, as those
/// of several stacks.
fn protocol_distance(protocol: &str, count: usize) -> Option<f64> {
    let place = |slice: usize| -> Option<Vector> {
        let key = format!("sSliceArray.asSlice[{slice}].");
        let axis = |axis: &str| value(protocol, &format!("{key}sPosition.{axis}")).unwrap_or_default();
        has(protocol, &key).then(|| ["dSag", "dCor", "dTra"].map(axis))
    };
    let places: Vec<Vector> = (0..count).map_while(place).collect();
    let mut distances = places.windows(2).map(|pair| norm(along(pair[1], pair[0], -1.0)));
    let first = distances.next()?;
    distances.all(|distance| (distance - first).abs() <= UNEVEN * first).then_some(first)
}

/// The thickness and the gap of the slices of a protocol with one group of slices: the gap is
/// `sGroupArray.asGroup[0].dDistFact` of the thickness.
fn distance_by_factor(protocol: &str, thickness: Option<f64>) -> Option<f64> {
    let one = has(protocol, "sGroupArray.asGroup[0].") && !has(protocol, "sGroupArray.asGroup[1].");
    let thickness = value(protocol, "sSliceArray.asSlice[0].dThickness").or(thickness)?;
    let factor = value(protocol, "sGroupArray.asGroup[0].dDistFact").unwrap_or_default();
    one.then_some(thickness * (1.0 + factor))
}

#[cfg(test)]
mod tests {
    use super::{distance_by_factor, protocol_distance};

    #[test]
    fn slices_of_a_protocol_have_a_distance() {
        let protocol = "sSliceArray.asSlice[0].sPosition.dCor\t = \t3.0\nsSliceArray.asSlice[1].sPosition.dCor = 6\n\
                        sSliceArray.asSlice[1].sPosition.dTra\t=\t-4.0\nsSliceArray.asSlice[10].sPosition.dTra = 9";
        assert_eq!(protocol_distance(protocol, 11), Some(5.0));
        assert_eq!(protocol_distance("sSliceArray.asSlice[0].sPosition.dTra = 9", 2), None);
        let at_origin = "sSliceArray.asSlice[0].dThickness = 3.0\nsSliceArray.asSlice[1].sPosition.dTra = 3.6";
        assert_eq!(protocol_distance(at_origin, 2), Some(3.6));
        let line = |slice: usize, at: f64| format!("sSliceArray.asSlice[{slice}].sPosition.dTra = {at}\n");
        let even: String = (0..5).map(|slice| line(slice, 3.3 * slice as f64 - 7.0)).collect();
        assert!(protocol_distance(&even, 5).is_some_and(|distance| (distance - 3.3).abs() < 1e-9));
        // The second stack lies elsewhere.
        assert_eq!(protocol_distance(&(even + &line(5, 40.0)), 6), None);
    }

    #[test]
    fn a_gap_is_a_part_of_the_thickness() {
        let protocol = "sGroupArray.asGroup[0].nSize = 5\nsGroupArray.asGroup[0].dDistFact\t = \t0.25";
        assert_eq!(distance_by_factor(protocol, Some(3.0)), Some(3.75));
        let own = format!("{protocol}\nsSliceArray.asSlice[0].dThickness = 2.0");
        assert_eq!(distance_by_factor(&own, Some(3.0)), Some(2.5));
        // A factor of 0 has no line.
        assert_eq!(distance_by_factor("sGroupArray.asGroup[0].nSize = 5", Some(3.0)), Some(3.0));
        assert_eq!(distance_by_factor(protocol, None), None);
        assert_eq!(distance_by_factor("", Some(3.0)), None);
        let two = format!("{protocol}\nsGroupArray.asGroup[1].nSize = 5");
        assert_eq!(distance_by_factor(&two, Some(3.0)), None);
    }
}
