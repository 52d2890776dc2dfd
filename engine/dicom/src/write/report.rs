//! Writing measurements as a Structured Report: TID 1500, "Measurement Report", of PS3.16.

use std::collections::HashSet;

use dicom_core::VR;
use dicom_dictionary_std::tags;

use super::codes::{Code, coding};
use super::measure::{Measured, measure};
use super::object::{Object, Uids, begin, decimal, shortened};
use super::seg::Reference;
use super::{Authorship, Checked, DrawnBy};
use crate::error::DicomError;
use crate::regions::{Region, RegionVolume};
use crate::series::Series;

/// Comprehensive 3D SR Storage.
const CLASS: &str = "1.2.840.10008.5.1.4.1.1.88.34";

/// Explicit VR little endian.
const SYNTAX: &str = "1.2.840.10008.1.2.1";

/// The bytes of a Structured Report of volumes and diameters ([`measure`]): a measurement group for
/// each region, with its codes, and its long and short axis on the slice where it is longest.
///
/// With a [`Reference`] to a SEG of the same regions, groups refer to its segments and to the
/// series (TID 1411, "Volumetric ROI Measurements"). Without one they only name the regions (TID
/// 1501). All images of the series are listed as evidence.
///
/// # Errors
/// As [`segmentation`](super::segmentation), and if the reference has another number of segments
/// than there are regions.
pub fn report(
    volume: &RegionVolume,
    series: &Series,
    by: &Authorship,
    segmentation: Option<&Reference>,
) -> Result<Vec<u8>, DicomError> {
    let checked = Checked::new(volume, series, by)?;
    let wrong = |what| DicomError::Regions { path: series.slices()[0].path().to_owned(), what };
    let regions = checked.regions();
    if let Some(reference) = segmentation.filter(|reference| reference.segments.len() != regions.len()) {
        let (segments, regions) = (reference.segments.len(), regions.len());
        return Err(wrong(format!("a reference to {segments} segments for a report of {regions} regions")));
    }
    let uids = Uids::new("SR", series, volume, by);
    let groups = measure(volume).into_iter().enumerate().map(|(index, measured)| {
        let unique = uids.of(&format!("region {index}"));
        let segment = segmentation.map(|reference| (reference, reference.segments[index]));
        group(&regions[index], &measured, unique, segment, series)
    });
    let measurements = container("126010", "DCM", "Imaging Measurements").items(tags::CONTENT_SEQUENCE, groups);
    let library = container("111028", "DCM", "Image Library").item(tags::CONTENT_SEQUENCE, image_group(series));
    let mut content =
        vec![item("HAS CONCEPT MOD", "CODE", "121049", "DCM", "Language of Content Item and Descendants").concept(
            tags::CONCEPT_CODE_SEQUENCE,
            "en-US",
            "RFC5646",
            "English (United States)",
        )];
    content.extend(observer(by, &uids));
    content.push(item("HAS CONCEPT MOD", "CODE", "121058", "DCM", "Procedure reported").concept(
        tags::CONCEPT_CODE_SEQUENCE,
        "363679005",
        "SCT",
        "Imaging procedure",
    ));
    content.push(library);
    content.push(measurements);
    if !by.remarks.is_empty() {
        let remark =
            |text: &String| item("CONTAINS", "TEXT", "121106", "DCM", "Comment").text(tags::TEXT_VALUE, VR::UT, text);
        let remarks = container("C0034375", "UMLS", "Qualitative Evaluations");
        content.push(remarks.items(tags::CONTENT_SEQUENCE, by.remarks.iter().map(remark)));
    }
    let object = begin(CLASS, "SR", series, &uids, by)?
        .without(tags::FRAME_OF_REFERENCE_UID)
        .without(tags::POSITION_REFERENCE_INDICATOR)
        .made(tags::CONTENT_DATE, tags::CONTENT_TIME)
        .text(tags::COMPLETION_FLAG, VR::CS, "COMPLETE")
        .text(tags::VERIFICATION_FLAG, VR::CS, "UNVERIFIED")
        .text(tags::PRELIMINARY_FLAG, VR::CS, "PRELIMINARY")
        .items(tags::PERFORMED_PROCEDURE_CODE_SEQUENCE, [])
        .items(tags::REFERENCED_PERFORMED_PROCEDURE_STEP_SEQUENCE, [])
        .item(tags::CURRENT_REQUESTED_PROCEDURE_EVIDENCE_SEQUENCE, evidence(series, segmentation))
        .text(tags::VALUE_TYPE, VR::CS, "CONTAINER")
        .concept(tags::CONCEPT_NAME_CODE_SEQUENCE, "126000", "DCM", "Imaging Measurement Report")
        .text(tags::CONTINUITY_OF_CONTENT, VR::CS, "SEPARATE")
        .item(tags::CONTENT_TEMPLATE_SEQUENCE, template("1500"))
        .items(tags::CONTENT_SEQUENCE, content);
    object.into_file(CLASS, &uids.of("instance"), SYNTAX).map_err(wrong)
}

/// A named content item.
fn item(relation: &str, kind: &str, value: &str, scheme: &str, meaning: &str) -> Object {
    Object::new().text(tags::RELATIONSHIP_TYPE, VR::CS, relation).text(tags::VALUE_TYPE, VR::CS, kind).concept(
        tags::CONCEPT_NAME_CODE_SEQUENCE,
        value,
        scheme,
        meaning,
    )
}

fn container(value: &str, scheme: &str, meaning: &str) -> Object {
    item("CONTAINS", "CONTAINER", value, scheme, meaning).text(tags::CONTINUITY_OF_CONTENT, VR::CS, "SEPARATE")
}

fn template(identifier: &str) -> Object {
    Object::new().text(tags::MAPPING_RESOURCE, VR::CS, "DCMR").text(tags::TEMPLATE_IDENTIFIER, VR::CS, identifier)
}

/// The observer: the program, with the model's name. The name of a person is unknown.
fn observer(by: &Authorship, uids: &Uids) -> Vec<Object> {
    let name = match by.drawn_by {
        DrawnBy::Manual => "Regions drawn by a person, measured by Hearth".to_owned(),
        _ => shortened(&by.algorithm, 64),
    };
    let text = |value: &str, meaning: &str, text: &str| {
        item("HAS OBS CONTEXT", "TEXT", value, "DCM", meaning).text(tags::TEXT_VALUE, VR::UT, text)
    };
    vec![
        item("HAS OBS CONTEXT", "CODE", "121005", "DCM", "Observer Type").concept(
            tags::CONCEPT_CODE_SEQUENCE,
            "121007",
            "DCM",
            "Device",
        ),
        item("HAS OBS CONTEXT", "UIDREF", "121012", "DCM", "Device Observer UID").text(
            tags::UID,
            VR::UI,
            uids.of("observer"),
        ),
        text("121013", "Device Observer Name", &name),
        text("121014", "Device Observer Manufacturer", "Hearth"),
        text("121015", "Device Observer Model Name", &shortened(&by.software, 64)),
    ]
}

/// The images that were measured (TID 1600).
fn image_group(series: &Series) -> Object {
    let mut seen = HashSet::new();
    let slices = series.slices().iter().filter(|slice| seen.insert(slice.sop_instance()));
    let images = slices.map(|slice| {
        let reference = instance(&slice.file.identity.sop_class, slice.sop_instance());
        Object::new()
            .text(tags::RELATIONSHIP_TYPE, VR::CS, "CONTAINS")
            .text(tags::VALUE_TYPE, VR::CS, "IMAGE")
            .item(tags::REFERENCED_SOP_SEQUENCE, reference)
    });
    container("126200", "DCM", "Image Library Group").items(tags::CONTENT_SEQUENCE, images)
}

/// The measurement group of one region.
fn group(
    region: &Region,
    measured: &Measured,
    unique: String,
    segment: Option<(&Reference, u16)>,
    series: &Series,
) -> Object {
    let coding = region.coding.clone().unwrap_or_else(|| coding(region.property.as_deref(), &region.name));
    let code = |value: &str, scheme: &str, meaning: &str, code: &Code| {
        item("CONTAINS", "CODE", value, scheme, meaning).code(tags::CONCEPT_CODE_SEQUENCE, code)
    };
    let mut content = vec![
        item("HAS OBS CONTEXT", "TEXT", "112039", "DCM", "Tracking Identifier").text(
            tags::TEXT_VALUE,
            VR::UT,
            &region.name,
        ),
        item("HAS OBS CONTEXT", "UIDREF", "112040", "DCM", "Tracking Unique Identifier").text(
            tags::UID,
            VR::UI,
            unique,
        ),
        code("276214006", "SCT", "Finding category", &coding.category),
        code("121071", "DCM", "Finding", &coding.kind),
    ];
    if let Some((reference, number)) = segment {
        let seg = instance(&reference.class, &reference.instance).shorts(tags::REFERENCED_SEGMENT_NUMBER, &[number]);
        content.push(
            item("CONTAINS", "IMAGE", "121191", "DCM", "Referenced Segment").item(tags::REFERENCED_SOP_SEQUENCE, seg),
        );
        content.push(item("CONTAINS", "UIDREF", "121232", "DCM", "Source series for segmentation").text(
            tags::UID,
            VR::UI,
            series.uid(),
        ));
    }
    if let Some(site) = &coding.site {
        content.push(
            item("HAS CONCEPT MOD", "CODE", "363698007", "SCT", "Finding Site").code(tags::CONCEPT_CODE_SEQUENCE, site),
        );
    }
    let millimetre = Code::new("mm", "UCUM", "millimeter");
    content.push(number(&Code::new("118565006", "SCT", "Volume"), measured.volume, &cubic()));
    if let Some(diameters) = &measured.diameters {
        let long = Code::new("103339001", "SCT", "Long Axis");
        let short = Code::new("103340004", "SCT", "Short Axis");
        let slice = &series.slices()[diameters.slice];
        // Measured on one image, which each measurement refers to.
        for (name, value) in [(long, diameters.long), (short, diameters.short)] {
            let source = Object::new()
                .text(tags::RELATIONSHIP_TYPE, VR::CS, "INFERRED FROM")
                .text(tags::VALUE_TYPE, VR::CS, "IMAGE")
                .concept(tags::CONCEPT_NAME_CODE_SEQUENCE, "121112", "DCM", "Source of Measurement")
                .item(tags::REFERENCED_SOP_SEQUENCE, Object::new().refers_to(slice));
            content.push(number(&name, value, &millimetre).item(tags::CONTENT_SEQUENCE, source));
        }
    }
    let template_of = if segment.is_some() { "1411" } else { "1501" };
    container("125007", "DCM", "Measurement Group")
        .item(tags::CONTENT_TEMPLATE_SEQUENCE, template(template_of))
        .items(tags::CONTENT_SEQUENCE, content)
}

fn cubic() -> Code {
    Code::new("mm3", "UCUM", "cubic millimeter")
}

fn number(name: &Code, value: f64, unit: &Code) -> Object {
    let measured = Object::new()
        .text(tags::NUMERIC_VALUE, VR::DS, decimal(value))
        .doubles(tags::FLOATING_POINT_VALUE, &[value])
        .code(tags::MEASUREMENT_UNITS_CODE_SEQUENCE, unit);
    item("CONTAINS", "NUM", &name.value, &name.scheme, &name.meaning).item(tags::MEASURED_VALUE_SEQUENCE, measured)
}

fn instance(class: &str, uid: &str) -> Object {
    Object::new().text(tags::REFERENCED_SOP_CLASS_UID, VR::UI, class).text(
        tags::REFERENCED_SOP_INSTANCE_UID,
        VR::UI,
        uid,
    )
}

/// All instances that the report refers to, by study and series.
fn evidence(series: &Series, segmentation: Option<&Reference>) -> Object {
    let mut seen = HashSet::new();
    let slices = series.slices().iter().filter(|slice| seen.insert(slice.sop_instance()));
    let images: Vec<Object> =
        slices.map(|slice| instance(&slice.file.identity.sop_class, slice.sop_instance())).collect();
    let of = |uid: &str, instances: Vec<Object>| {
        Object::new().text(tags::SERIES_INSTANCE_UID, VR::UI, uid).items(tags::REFERENCED_SOP_SEQUENCE, instances)
    };
    let seg = segmentation.map(|seg| of(&seg.series, vec![instance(&seg.class, &seg.instance)]));
    Object::new()
        .text(tags::STUDY_INSTANCE_UID, VR::UI, series.study())
        .items(tags::REFERENCED_SERIES_SEQUENCE, [of(series.uid(), images)].into_iter().chain(seg))
}
