//! Builds data sets: elements, UIDs, times, and the attributes copied from the series they refer
//! to.

use std::time::{SystemTime, UNIX_EPOCH};

use dicom_core::chrono::{Local, TimeZone};
use dicom_core::value::DataSetSequence;
use dicom_core::{DataElement, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::tags;
use dicom_object::{FileMetaTableBuilder, InMemDicomObject};

use super::Authorship;
use super::codes::Code;
use crate::error::DicomError;
use crate::geometry::Vector;
use crate::open::open;
use crate::options::Limits;
use crate::regions::RegionVolume;
use crate::series::Series;
use crate::stack::Slice;

/// Patient and study attributes that a file copies from its series; empty if the series lacks them.
const REQUIRED: [(Tag, VR); 9] = [
    (tags::PATIENT_NAME, VR::PN),
    (tags::PATIENT_ID, VR::LO),
    (tags::PATIENT_BIRTH_DATE, VR::DA),
    (tags::PATIENT_SEX, VR::CS),
    (tags::STUDY_DATE, VR::DA),
    (tags::STUDY_TIME, VR::TM),
    (tags::STUDY_ID, VR::SH),
    (tags::ACCESSION_NUMBER, VR::SH),
    (tags::REFERRING_PHYSICIAN_NAME, VR::PN),
];

/// Attributes that it copies only if the series has them.
const OPTIONAL: [Tag; 14] = [
    tags::ISSUER_OF_PATIENT_ID,
    tags::PATIENT_AGE,
    tags::PATIENT_SIZE,
    tags::PATIENT_WEIGHT,
    tags::PATIENT_IDENTITY_REMOVED,
    tags::DEIDENTIFICATION_METHOD,
    tags::STUDY_DESCRIPTION,
    tags::CLINICAL_TRIAL_SPONSOR_NAME,
    tags::CLINICAL_TRIAL_PROTOCOL_ID,
    tags::CLINICAL_TRIAL_PROTOCOL_NAME,
    tags::CLINICAL_TRIAL_SITE_ID,
    tags::CLINICAL_TRIAL_SITE_NAME,
    tags::CLINICAL_TRIAL_SUBJECT_ID,
    tags::POSITION_REFERENCE_INDICATOR,
];

/// A data set, or an item of a sequence.
pub(super) struct Object(InMemDicomObject);

impl Object {
    pub fn new() -> Self {
        Object(InMemDicomObject::new_empty())
    }

    pub fn text(mut self, tag: Tag, vr: VR, value: impl Into<String>) -> Self {
        self.0.put(DataElement::new(tag, vr, PrimitiveValue::from(value.into())));
        self
    }

    pub fn empty(mut self, tag: Tag, vr: VR) -> Self {
        self.0.put(DataElement::new(tag, vr, PrimitiveValue::Empty));
        self
    }

    pub fn shorts(mut self, tag: Tag, values: &[u16]) -> Self {
        self.0.put(DataElement::new(tag, VR::US, PrimitiveValue::U16(values.into())));
        self
    }

    pub fn longs(mut self, tag: Tag, values: &[u32]) -> Self {
        self.0.put(DataElement::new(tag, VR::UL, PrimitiveValue::U32(values.into())));
        self
    }

    pub fn doubles(mut self, tag: Tag, values: &[f64]) -> Self {
        self.0.put(DataElement::new(tag, VR::FD, PrimitiveValue::F64(values.into())));
        self
    }

    /// Removes an attribute that this kind of file does not have.
    pub fn without(mut self, tag: Tag) -> Self {
        self.0.remove_element(tag);
        self
    }

    pub fn tag(mut self, tag: Tag, value: Tag) -> Self {
        self.0.put(DataElement::new(tag, VR::AT, PrimitiveValue::Tags(vec![value].into())));
        self
    }

    pub fn bytes(mut self, tag: Tag, values: Vec<u8>) -> Self {
        self.0.put(DataElement::new(tag, VR::OB, PrimitiveValue::U8(values.into())));
        self
    }

    /// Adds 16-bit pixels, as little-endian bytes.
    pub fn words(mut self, tag: Tag, bytes: &[u8]) -> Self {
        let words: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
        self.0.put(DataElement::new(tag, VR::OW, PrimitiveValue::U16(words.into())));
        self
    }

    /// Decimal strings.
    pub fn decimals<'a>(self, tag: Tag, values: impl IntoIterator<Item = &'a f64>) -> Self {
        let text = values.into_iter().map(|v| decimal(*v)).collect::<Vec<_>>().join("\\");
        self.text(tag, VR::DS, text)
    }

    pub fn items(mut self, tag: Tag, items: impl IntoIterator<Item = Object>) -> Self {
        let items: Vec<InMemDicomObject> = items.into_iter().map(|o| o.0).collect();
        self.0.put(DataElement::new(tag, VR::SQ, DataSetSequence::from(items)));
        self
    }

    pub fn item(self, tag: Tag, item: Object) -> Self {
        self.items(tag, [item])
    }

    pub fn code(self, tag: Tag, code: &Code) -> Self {
        self.concept(tag, &code.value, &code.scheme, &code.meaning)
    }

    /// Adds a concept of any coding scheme.
    pub fn concept(self, tag: Tag, value: &str, scheme: &str, meaning: &str) -> Self {
        self.item(tag, Object::of_code(&Code::new(value, scheme, meaning)))
    }

    /// The attributes of a code.
    pub fn of_code(code: &Code) -> Self {
        Object::new()
            .text(tags::CODE_VALUE, VR::SH, &code.value)
            .text(tags::CODING_SCHEME_DESIGNATOR, VR::SH, &code.scheme)
            .text(tags::CODE_MEANING, VR::LO, &code.meaning)
    }

    /// Adds a date and a time: those at which the file was made.
    pub fn made(mut self, date: Tag, time: Tag) -> Self {
        let of = [(tags::INSTANCE_CREATION_DATE, date, VR::DA), (tags::INSTANCE_CREATION_TIME, time, VR::TM)];
        for (of_file, tag, vr) in of {
            if let Some(value) = self.0.get(of_file).map(|element| element.value().clone()) {
                self.0.put(DataElement::new(tag, vr, value));
            }
        }
        self
    }

    /// Adds a reference to an image, and to its frame if the image has several.
    pub fn refers_to(self, slice: &Slice) -> Self {
        let object = self.text(tags::REFERENCED_SOP_CLASS_UID, VR::UI, &slice.file.identity.sop_class).text(
            tags::REFERENCED_SOP_INSTANCE_UID,
            VR::UI,
            slice.sop_instance(),
        );
        match slice.file.format.frames {
            1 => object,
            _ => object.text(tags::REFERENCED_FRAME_NUMBER, VR::IS, (slice.frame() + 1).to_string()),
        }
    }

    /// The bytes of a file of this class.
    pub fn into_file(self, class: &str, instance: &str, syntax: &str) -> Result<Vec<u8>, String> {
        let meta = FileMetaTableBuilder::new()
            .transfer_syntax(syntax)
            .media_storage_sop_class_uid(class)
            .media_storage_sop_instance_uid(instance);
        let file = self.0.with_meta(meta).map_err(|e| e.to_string())?;
        let mut bytes = Vec::new();
        file.write_all(&mut bytes).map_err(|e| e.to_string())?;
        Ok(bytes)
    }
}

/// Formats a number in at most 16 characters, the limit of decimal strings, with as many decimals
/// as fit.
pub(super) fn decimal(value: f64) -> String {
    let shortest = format!("{}", value + 0.0);
    if shortest.len() <= 16 {
        return shortest;
    }
    let fits = (0..=12).rev().map(|decimals| format!("{value:.decimals$}")).find(|text| text.len() <= 16);
    match fits {
        Some(text) if text.contains('.') => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        Some(text) => text,
        None => format!("{value:.8e}"),
    }
}

/// Date and time of day at this offset from UTC, in DICOM's format.
pub(super) fn date_time(at: SystemTime, minutes: i64) -> (String, String) {
    let seconds = seconds(at) + minutes * 60;
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01 in the proleptic Gregorian calendar: H. Hinnant, "chrono-compatible
    // low-level date algorithms".
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (format!("{year:04}{month:02}{day:02}"), format!("{:02}{:02}{:02}", rest / 3600, rest / 60 % 60, rest % 60))
}

/// Seconds since 1970, in UTC.
fn seconds(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0))
}

/// The local time of this machine at a time, in minutes from UTC.
fn local(at: SystemTime) -> i64 {
    let there = Local.timestamp_opt(seconds(at), 0).single();
    there.map_or(0, |there| i64::from(there.offset().local_minus_utc()) / 60)
}

/// An offset from UTC as TimezoneOffsetFromUTC has it, in minutes: `+0530`.
fn minutes(offset: &str) -> Option<i64> {
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, rest) = (digits[..2].parse::<i64>().ok()?, digits[2..].parse::<i64>().ok()?);
    (hours <= 14 && rest < 60).then_some(sign * (hours * 60 + rest))
}

/// The UIDs of one file: the same for the same series, regions and time.
pub(super) struct Uids(blake3::Hasher);

impl Uids {
    pub fn new(kind: &str, series: &Series, volume: &RegionVolume, by: &Authorship) -> Self {
        let mut hasher = blake3::Hasher::new();
        let nanos = by.created.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        for text in [kind, series.uid(), series.slices()[0].sop_instance(), &by.description, &by.algorithm] {
            add(text.as_bytes());
        }
        add(&nanos.to_le_bytes());
        for region in &volume.regions {
            add(region.name.as_bytes());
            add(&region.label.to_le_bytes());
            if let Some(coding) = &region.coding {
                for code in coding.codes() {
                    [&code.value, &code.scheme, &code.meaning].into_iter().for_each(|text| add(text.as_bytes()));
                }
            }
        }
        for part in volume.values.chunks(1 << 14) {
            add(&part.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
        }
        Uids(hasher)
    }

    /// A UID of this file.
    pub fn of(&self, what: &str) -> String {
        let mut hasher = self.0.clone();
        hasher.update(what.as_bytes());
        numbered(&hasher)
    }
}

/// A UID derived from a text: the same UID for the same text.
pub fn uid(text: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(text.as_bytes());
    numbered(&hasher)
}

/// A UID below 2.25: a UUID as a number.
fn numbered(hasher: &blake3::Hasher) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    // Version 8 (application-defined), variant of RFC 9562.
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 8 << 76 | 2 << 62;
    format!("2.25.{number}")
}

/// An error if the series lacks an attribute that references require.
fn needed(slice: &Slice, name: &'static str, value: &str) -> Result<(), DicomError> {
    if !value.is_empty() {
        return Ok(());
    }
    let what = "missing: nothing can refer to this series without it".to_owned();
    Err(DicomError::Attribute { path: slice.path().to_owned(), name, what })
}

/// Checks that the series has everything that references require.
pub(super) fn identified(series: &Series) -> Result<(), DicomError> {
    let first = &series.slices()[0];
    needed(first, "SeriesInstanceUID", series.uid())?;
    needed(first, "StudyInstanceUID", series.study())?;
    needed(first, "FrameOfReferenceUID", series.frame_of_reference().unwrap_or_default())?;
    let mut files = std::collections::HashMap::new();
    for slice in series.slices() {
        needed(slice, "SOPInstanceUID", slice.sop_instance())?;
        let other = files.entry((slice.sop_instance(), slice.frame())).or_insert_with(|| slice.path());
        if *other != slice.path() {
            let what = format!(
                "the same as in {}: nothing can refer to one of them; give each a UID of its own",
                other.display()
            );
            return Err(DicomError::Attribute { path: slice.path().to_owned(), name: "SOPInstanceUID", what });
        }
        needed(slice, "SOPClassUID", &slice.file.identity.sop_class)?;
    }
    Ok(())
}

/// The attributes of patient, study, frame of reference and equipment, and the file's own identity.
pub(super) fn begin(
    class: &str,
    modality: &str,
    series: &Series,
    uids: &Uids,
    by: &Authorship,
) -> Result<Object, DicomError> {
    identified(series)?;
    let source = open(series.slices()[0].path(), &Limits::default())?.object;
    let mut object = Object::new();
    for (tag, vr) in REQUIRED {
        match source.get(tag) {
            Some(element) => drop(object.0.put(element.clone())),
            None => object = object.empty(tag, vr),
        }
    }
    for tag in OPTIONAL {
        if let Some(element) = source.get(tag) {
            object.0.put(element.clone());
        }
    }
    // The offset holds for all dates and times of a file, those copied from the series included. Without it,
    // they are local times.
    let zone = source.get(tags::TIMEZONE_OFFSET_FROM_UTC).and_then(|element| element.to_str().ok());
    let zone = zone.and_then(|text| Some((minutes(text.trim())?, text.trim().to_owned())));
    let (date, time) = date_time(by.created, zone.as_ref().map_or_else(|| local(by.created), |(minutes, _)| *minutes));
    if let Some((_, offset)) = zone {
        object = object.text(tags::TIMEZONE_OFFSET_FROM_UTC, VR::SH, offset);
    }
    let mut object = object
        // Text is written as UTF-8, independent of the series.
        .text(tags::SPECIFIC_CHARACTER_SET, VR::CS, "ISO_IR 192")
        .text(tags::SOP_CLASS_UID, VR::UI, class)
        .text(tags::SOP_INSTANCE_UID, VR::UI, uids.of("instance"))
        .text(tags::INSTANCE_CREATION_DATE, VR::DA, &date)
        .text(tags::INSTANCE_CREATION_TIME, VR::TM, &time)
        .text(tags::STUDY_INSTANCE_UID, VR::UI, series.study())
        .text(tags::MODALITY, VR::CS, modality)
        .text(tags::SERIES_INSTANCE_UID, VR::UI, uids.of("series"))
        .text(tags::SERIES_DESCRIPTION, VR::LO, shortened(&by.description, 64))
        .made(tags::SERIES_DATE, tags::SERIES_TIME)
        .text(tags::SERIES_NUMBER, VR::IS, (series.number().unwrap_or(0).clamp(0, 1 << 30) + 1000).to_string())
        .text(tags::INSTANCE_NUMBER, VR::IS, "1")
        .text(tags::FRAME_OF_REFERENCE_UID, VR::UI, series.frame_of_reference().unwrap_or_default())
        .text(tags::MANUFACTURER, VR::LO, "Hearth")
        .text(tags::MANUFACTURER_MODEL_NAME, VR::LO, "hearth-dicom")
        .text(tags::DEVICE_SERIAL_NUMBER, VR::LO, "0")
        .text(tags::SOFTWARE_VERSIONS, VR::LO, shortened(&by.software, 64));
    if let Some(contribution) = &by.contribution {
        let purpose = Object::new()
            .text(tags::CODE_VALUE, VR::SH, "109102")
            .text(tags::CODING_SCHEME_DESIGNATOR, VR::SH, "DCM")
            .text(tags::CODE_MEANING, VR::LO, "Processing Equipment");
        let equipment = Object::new()
            .items(tags::PURPOSE_OF_REFERENCE_CODE_SEQUENCE, [purpose])
            .text(tags::MANUFACTURER, VR::LO, "Hearth")
            .text(tags::MANUFACTURER_MODEL_NAME, VR::LO, shortened(&by.algorithm, 64))
            .text(tags::SOFTWARE_VERSIONS, VR::LO, shortened(&by.software, 64))
            .text(tags::CONTRIBUTION_DATE_TIME, VR::DT, format!("{date}{time}"))
            .text(tags::CONTRIBUTION_DESCRIPTION, VR::ST, shortened(contribution, 1024));
        object = object.items(tags::CONTRIBUTING_EQUIPMENT_SEQUENCE, [equipment]);
    }
    if source.get(tags::POSITION_REFERENCE_INDICATOR).is_none() {
        object = object.empty(tags::POSITION_REFERENCE_INDICATOR, VR::LO);
    }
    Ok(object)
}

/// The first characters of a text.
pub(super) fn shortened(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control() && *c != '\\').take(most).collect()
}

/// The centre of a pixel, in mm.
pub(super) fn placed(origin: Vector, row: Vector, column: Vector, [x, y]: [f64; 2]) -> Vector {
    std::array::from_fn(|a| origin[a] + x * row[a] + y * column[a])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn decimals_have_at_most_16_characters_and_what_fits() {
        for value in [0.0, -0.0, 1.0, -123.456, 1.0 / 3.0, -1.0 / 3.0, -12345.678901234567, 1e-9 / 3.0, 1e20 / 3.0] {
            let text = decimal(value);
            let back: f64 = text.parse().expect("a number");
            assert!(text.len() <= 16, "{text}");
            assert!((back - value).abs() <= 1e-7 * value.abs().max(1e-3), "{value}: {text}");
        }
        assert_eq!((decimal(-0.0).as_str(), decimal(2.5).as_str()), ("0", "2.5"));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        // `date -u -d @SECONDS`.
        for (seconds, date, time) in [
            (0, "19700101", "000000"),
            (951_827_696, "20000229", "123456"),
            (1_709_251_199, "20240229", "235959"),
            (4_107_542_400, "21000301", "000000"),
        ] {
            let got = date_time(UNIX_EPOCH + Duration::from_secs(seconds), 0);
            assert_eq!(got, (date.to_owned(), time.to_owned()), "{seconds}");
        }
        // `TZ=Asia/Kolkata date -d @951827696`, `TZ=America/St_Johns ...`.
        for (offset, date, time) in [("+0530", "20000229", "180456"), ("-0330", "20000229", "090456")] {
            let at = UNIX_EPOCH + Duration::from_secs(951_827_696);
            assert_eq!(date_time(at, minutes(offset).expect("an offset")), (date.to_owned(), time.to_owned()));
        }
        for wrong in ["", "+", "0530", "+05:30", "+0561", "+1500", "-05", "+\u{663}530"] {
            assert_eq!(minutes(wrong), None, "{wrong}");
        }
    }
}
