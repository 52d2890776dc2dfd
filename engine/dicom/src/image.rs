//! One image file: its identity, its pixel format, and the position of each frame.

use std::path::PathBuf;
use std::sync::Arc;

use dicom_core::Tag;
use dicom_dictionary_std::tags;

use crate::error::DicomError;
use crate::geometry::{Orientation, Vector, along};
use crate::marks::Marks;
use crate::mosaic::{self, Mosaic};
use crate::open::{Opened, PixelElement};
use crate::options::{Limits, Monochrome1, ReadOptions};
use crate::pixels::{FrameReader, Lut, Photometric, PixelFormat, Scale, stored_frame};
use crate::syntax::TransferSyntax;
use crate::tags::Attributes;

/// An image file without its pixels.
#[derive(Clone, Debug)]
pub(crate) struct ImageFile {
    pub path: PathBuf,
    pub syntax: TransferSyntax,
    /// The format of a slice.
    pub format: PixelFormat,
    /// The slices.
    pub frames: Vec<FrameInfo>,
    /// The picture of which all slices are tiles.
    mosaic: Option<Mosaic>,
    pub identity: Identity,
    pub padding: Option<(f64, f64)>,
    pub lossy: bool,
    element: PixelElement,
    offsets: Option<Vec<u64>>,
}

/// The type of an object, and the study and series it belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub modality: String,
    pub sop_class: String,
    pub sop_instance: String,
    pub study: String,
    pub series: String,
    pub series_description: Option<String>,
    pub series_number: Option<i64>,
    pub patient: Option<String>,
    pub frame_of_reference: Option<String>,
    pub instance_number: Option<i64>,
    pub acquisition_number: Option<i64>,
}

impl Identity {
    pub fn read(attributes: &Attributes<'_>) -> Self {
        let text = |name| attributes.text(name).unwrap_or_default();
        // An invalid number that only serves as a name does not make the file invalid.
        let number = |name| attributes.int(name).ok().flatten();
        Identity {
            modality: text(tags::MODALITY),
            sop_class: text(tags::SOP_CLASS_UID),
            sop_instance: text(tags::SOP_INSTANCE_UID),
            study: text(tags::STUDY_INSTANCE_UID),
            series: text(tags::SERIES_INSTANCE_UID),
            series_description: attributes.text(tags::SERIES_DESCRIPTION),
            series_number: number(tags::SERIES_NUMBER),
            patient: attributes.text(tags::PATIENT_ID),
            frame_of_reference: attributes.text(tags::FRAME_OF_REFERENCE_UID),
            instance_number: number(tags::INSTANCE_NUMBER),
            acquisition_number: number(tags::ACQUISITION_NUMBER),
        }
    }
}

/// The position of one frame, and the meaning of its values.
#[derive(Clone, Debug)]
pub(crate) struct FrameInfo {
    pub position: Option<Vector>,
    pub orientation: Option<Orientation>,
    /// Distances of pixels along rows (x) and columns (y), in mm.
    pub spacing: Option<[f64; 2]>,
    /// Distance of slices from the header.
    pub slice_spacing: Option<f64>,
    pub thickness: Option<f64>,
    pub location: Option<f64>,
    /// The index among several volumes at the same positions.
    pub time: i64,
    /// The properties by which slices of different volumes differ.
    pub marks: Arc<Marks>,
    pub slope: f64,
    pub intercept: f64,
    pub lut: Option<Arc<Lut>>,
    pub units: Option<String>,
}

impl FrameInfo {
    /// The distance to the next slice, if positions do not determine it.
    pub fn distance(&self) -> Option<f64> {
        self.slice_spacing.map(f64::abs).or(self.thickness).filter(|d| *d > 0.0)
    }

    /// The larger one of SpacingBetweenSlices and SliceThickness: some scanners write the space that is left
    /// between slices as the former.
    pub fn stated_distance(&self) -> Option<f64> {
        let both = [self.slice_spacing.map(f64::abs), self.thickness];
        both.into_iter().flatten().filter(|d| d.is_finite() && *d > 0.0).reduce(f64::max)
    }
}

impl ImageFile {
    /// Reads the attributes about pixels; the file must have pixels.
    pub fn read(opened: &Opened, element: &PixelElement, limits: &Limits) -> Result<Self, DicomError> {
        let attributes = Attributes::new(&opened.object, &opened.path);
        let mut format = PixelFormat::read(&attributes, element.kind, limits)?;
        let mut frames = frames(&attributes, format.frames)?;
        let mosaic = mosaic::unpack(&attributes, &mut format, &mut frames, limits)?;
        let padding =
            match (attributes.float(tags::PIXEL_PADDING_VALUE)?, attributes.float(tags::PIXEL_PADDING_RANGE_LIMIT)?) {
                (Some(a), Some(b)) => Some((a.min(b), a.max(b))),
                (Some(a), None) => Some((a, a)),
                _ => None,
            };
        let sign = |v: f64| {
            // The value representation of the padding is ambiguous: US may have been read for SS.
            let top = (1_u64 << format.bits_allocated.min(32)) as f64;
            if format.signed && v >= top / 2.0 { v - top } else { v }
        };
        let padding = padding.map(|(a, b)| (sign(a), sign(b)));
        let lossy = attributes.text(tags::LOSSY_IMAGE_COMPRESSION).as_deref() == Some("01") || opened.syntax.is_lossy();
        let image = ImageFile {
            path: opened.path.clone(),
            syntax: opened.syntax.clone(),
            frames,
            mosaic,
            format,
            identity: Identity::read(&attributes),
            padding,
            lossy,
            element: element.clone(),
            offsets: attributes.longs(tags::EXTENDED_OFFSET_TABLE),
        };
        if element.length.is_some() {
            // Reports incomplete uncompressed pixels immediately, which needs no reading.
            image.frame_reader()?;
        }
        Ok(image)
    }

    pub fn frame_reader(&self) -> Result<FrameReader, DicomError> {
        let format = self.mosaic.as_ref().map_or(&self.format, |mosaic| &mosaic.whole);
        FrameReader::new(&self.path, &self.element, &self.syntax, self.offsets.as_deref(), format)
    }

    /// The frame of the file that a slice is in.
    pub fn stored_frame(&self, slice: usize) -> usize {
        if self.mosaic.is_some() { 0 } else { slice }
    }

    /// A slice as stored ([`stored_frame`]).
    pub fn stored(&self, reader: &FrameReader, slice: usize, limits: &Limits) -> Result<Vec<u8>, DicomError> {
        match &self.mosaic {
            Some(mosaic) => Ok(mosaic.tile(&stored_frame(reader, &mosaic.whole, 0, limits)?, slice)),
            None => stored_frame(reader, &self.format, slice, limits),
        }
    }

    /// Whether it is a picture of a screen, or of several views: by its class, or by its ImageType.
    pub fn is_screen(&self) -> bool {
        const CLASS: &str = "1.2.840.10008.5.1.4.1.1.7";
        const WORDS: [&str; 8] = [
            "screen_save",
            "screensave",
            "screenshot",
            "screen_capture",
            "secondary_capture",
            "quad",
            "quad_view",
            "lightbox",
        ];
        let rest = self.identity.sop_class.strip_prefix(CLASS);
        let words = || self.frames[0].marks.image_type();
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            || words().iter().any(|word| WORDS.contains(&word.as_str()))
    }

    /// Whether MONOCHROME1 values are inverted.
    pub fn inverts(&self, options: &ReadOptions) -> bool {
        let quantitative = matches!(self.identity.modality.as_str(), "CT" | "PT" | "NM" | "MR" | "RTDOSE");
        self.format.photometric == Photometric::Monochrome1
            && match options.monochrome1 {
                Monochrome1::Auto => !quantitative,
                Monochrome1::Invert => true,
                Monochrome1::Keep => false,
            }
    }

    /// The values of one frame: channel after channel, rows within.
    pub fn values(&self, reader: &FrameReader, frame: usize, options: &ReadOptions) -> Result<Vec<f32>, DicomError> {
        let bytes = self.stored(reader, frame, &options.limits)?;
        let info = &self.frames[frame];
        // Over the range of the stored bits: the smallest value becomes the largest.
        let top = if self.format.signed { -1.0 } else { self.format.top() };
        let (slope, intercept) = if options.rescale { (info.slope, info.intercept) } else { (1.0, 0.0) };
        let scale = Scale {
            slope,
            intercept,
            lut: info.lut.clone().filter(|_| options.rescale),
            invert: self.inverts(options).then_some(top),
            padding: self.padding.zip(options.padding).map(|((low, high), value)| (low, high, value)),
        };
        Ok(scale.values(&bytes, self.format.stored_type(), self.format.channels()))
    }
}

/// The attributes of each frame: from its own functional groups, from the shared ones, or from the
/// file.
pub(crate) fn frames(attributes: &Attributes<'_>, count: usize) -> Result<Vec<FrameInfo>, DicomError> {
    let shared = attributes.item(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE);
    let own: Vec<Attributes<'_>> = attributes.items(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE).collect();
    if !own.is_empty() && own.len() != count {
        return Err(attributes
            .error(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, format!("{} items for {count} frame(s)", own.len())));
    }
    if own.is_empty() {
        // All frames share them; only their positions may differ.
        let file = frame(attributes, shared, None)?;
        let places = places(attributes, &file, count)?;
        return Ok(places.into_iter().map(|position| FrameInfo { position, ..file.clone() }).collect());
    }
    own.iter().map(|own| frame(attributes, shared, Some(*own))).collect()
}

fn frame(
    file: &Attributes<'_>,
    shared: Option<Attributes<'_>>,
    own: Option<Attributes<'_>>,
) -> Result<FrameInfo, DicomError> {
    let group = |sequence: Tag| own.and_then(|g| g.item(sequence)).or_else(|| shared.and_then(|g| g.item(sequence)));
    // If a functional group is missing, the file itself may have the attribute.
    let source = |sequence: Tag, attribute: Tag| group(sequence).filter(|g| g.has(attribute)).unwrap_or(*file);
    let detector = file
        .item(tags::DETECTOR_INFORMATION_SEQUENCE)
        .filter(|d| d.has(tags::IMAGE_ORIENTATION_PATIENT) && !file.has(tags::IMAGE_ORIENTATION_PATIENT));
    let placed = |sequence, attribute| detector.unwrap_or_else(|| source(sequence, attribute));
    let position = placed(tags::PLANE_POSITION_SEQUENCE, tags::IMAGE_POSITION_PATIENT)
        .vector::<3>(tags::IMAGE_POSITION_PATIENT)?;
    let oriented = placed(tags::PLANE_ORIENTATION_SEQUENCE, tags::IMAGE_ORIENTATION_PATIENT);
    let orientation = match oriented.vector::<6>(tags::IMAGE_ORIENTATION_PATIENT)? {
        Some(cosines) => {
            Some(Orientation::new(cosines).map_err(|what| oriented.error(tags::IMAGE_ORIENTATION_PATIENT, what))?)
        }
        None => None,
    };
    let measures = |attribute| source(tags::PIXEL_MEASURES_SEQUENCE, attribute);
    let transform = |attribute| source(tags::PIXEL_VALUE_TRANSFORMATION_SEQUENCE, attribute);
    let dose = file.float(tags::DOSE_GRID_SCALING)?;
    let slope = transform(tags::RESCALE_SLOPE).float(tags::RESCALE_SLOPE)?.or(dose).unwrap_or(1.0);
    let lut = match file.item(tags::MODALITY_LUT_SEQUENCE) {
        Some(item) => Some(Arc::new(Lut::read(&item, tags::LUT_DESCRIPTOR, tags::LUT_DATA)?)),
        None => None,
    };
    let units = [tags::UNITS, tags::RESCALE_TYPE, tags::DOSE_UNITS].into_iter();
    let time = group(tags::FRAME_CONTENT_SEQUENCE).and_then(|c| c.int(tags::TEMPORAL_POSITION_INDEX).ok().flatten());
    let time = time.or_else(|| file.int(tags::TEMPORAL_POSITION_IDENTIFIER).ok().flatten());
    Ok(FrameInfo {
        position,
        orientation,
        spacing: spacing(&measures(tags::PIXEL_SPACING), file)?,
        slice_spacing: measures(tags::SPACING_BETWEEN_SLICES)
            .float(tags::SPACING_BETWEEN_SLICES)?
            .filter(|s| *s != 0.0),
        thickness: measures(tags::SLICE_THICKNESS).float(tags::SLICE_THICKNESS)?.filter(|t| *t > 0.0),
        location: file.float(tags::SLICE_LOCATION).ok().flatten(),
        time: time.unwrap_or(0),
        marks: Arc::new(Marks::read(file, &group)),
        slope: if slope == 0.0 { 1.0 } else { slope },
        intercept: transform(tags::RESCALE_INTERCEPT).float(tags::RESCALE_INTERCEPT)?.unwrap_or(0.0),
        lut,
        units: units.clone().find_map(|u| file.text(u)).or_else(|| units.clone().find_map(|u| transform(u).text(u))),
    })
}

/// The pixel distances along x and y. In radiographs they are those at the detector.
fn spacing(measures: &Attributes<'_>, file: &Attributes<'_>) -> Result<Option<[f64; 2]>, DicomError> {
    let places = [
        (measures, tags::PIXEL_SPACING),
        (file, tags::IMAGER_PIXEL_SPACING),
        (file, tags::NOMINAL_SCANNED_PIXEL_SPACING),
    ];
    for (attributes, named) in places {
        if let Some([rows, columns]) = attributes.vector::<2>(named)? {
            if rows > 0.0 && columns > 0.0 {
                return Ok(Some([columns, rows]));
            }
            return Err(attributes.error(named, format!("{rows} x {columns} mm; expected more than 0")));
        }
    }
    Ok(None)
}

/// The positions of frames without functional groups: along the normal by GridFrameOffsetVector
/// (dose) or by SpacingBetweenSlices (nuclear medicine).
fn places(file: &Attributes<'_>, info: &FrameInfo, count: usize) -> Result<Vec<Option<Vector>>, DicomError> {
    let (Some(first), Some(orientation)) = (info.position, info.orientation) else { return Ok(vec![None; count]) };
    let step = |by: f64| Some(along(first, orientation.normal(), by));
    if count == 1 {
        return Ok(vec![Some(first)]);
    }
    if let Some(offsets) = file.floats(tags::GRID_FRAME_OFFSET_VECTOR)? {
        if offsets.len() != count {
            return Err(
                file.error(tags::GRID_FRAME_OFFSET_VECTOR, format!("{} numbers for {count} frames", offsets.len()))
            );
        }
        return Ok(offsets.iter().map(|o| step(o - offsets[0])).collect());
    }
    Ok((0..count).map(|i| info.slice_spacing.and_then(|s| step(s * i as f64))).collect())
}
