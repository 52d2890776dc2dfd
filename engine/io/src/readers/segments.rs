//! Names and colours of the labels in a file.

use std::io::{BufReader, Read};
use std::path::Path;

use hearth_dicom::Regions;

use super::{ReadError, ReadOptions, nrrd};
use crate::writers::Segment;

/// Reads the labels of a `.seg.nrrd` of 3D Slicer, a DICOM segmentation or a structure set. They
/// are in the order of the file, with the values that [`read_image_with`](super::read_image_with)
/// assigns with the same options. Other files have no labels.
///
/// # Errors
/// If the file cannot be read.
pub fn read_segments(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Vec<Segment>, ReadError> {
    let path = path.as_ref();
    let error = |error: std::io::Error| ReadError::new(path, error);
    if path.is_dir() {
        return of_dicom(path, options);
    }
    let mut start = Vec::new();
    hearth_files::open(path).map_err(error)?.take(4096).read_to_end(&mut start).map_err(error)?;
    if start.starts_with(b"NRRD000") {
        let mut file = BufReader::new(hearth_files::open(path).map_err(error)?);
        let fields = nrrd::header(&mut file).map_err(|what| ReadError::new(path, what))?;
        return Ok(of_slicer(&|key| fields.get(&key).map(String::as_str)));
    }
    if hearth_dicom::is_dicom(&start) { of_dicom(path, options) } else { Ok(Vec::new()) }
}

/// `Segment0_Name` and so on, with keys in lower case.
fn of_slicer<'a>(field: &dyn Fn(String) -> Option<&'a str>) -> Vec<Segment> {
    let mut found = Vec::new();
    // The number of labels of a layer is at most the number of values of its type; files have far
    // fewer.
    for place in 0..65_536 {
        let of = |what: &str| field(format!("segment{place}_{what}"));
        let Some(name) = of("name").or_else(|| of("id")) else { break };
        let label = of("labelvalue").and_then(|text| text.parse().ok()).unwrap_or(place + 1);
        let mut segment = Segment::new(label, name);
        let parts = of("color").map(|text| text.split_whitespace().map(str::parse::<f64>).collect::<Vec<_>>());
        if let Some([Ok(r), Ok(g), Ok(b)]) = parts.as_deref() {
            segment.colour = [*r, *g, *b].map(|part| (part * 255.0).round().clamp(0.0, 255.0) as u8);
        }
        found.push(segment);
    }
    found
}

fn of_dicom(path: &Path, options: &ReadOptions) -> Result<Vec<Segment>, ReadError> {
    let wrong = |error: hearth_dicom::DicomError| ReadError::new(path, error);
    let asked = !options.segments.is_empty() || options.reference.is_some();
    let scan = hearth_dicom::scan(path).map_err(wrong)?;
    let [annotation] = scan.annotations.as_slice() else { return Ok(Vec::new()) };
    if !asked && !scan.series.is_empty() {
        return Ok(Vec::new());
    }
    let regions = Regions::open(&annotation.path, &hearth_dicom::ReadOptions::default()).map_err(wrong)?;
    let known = regions.list().into_iter().map(|region| {
        let mut segment = Segment::new(region.label, region.name);
        segment.colour = region.color.unwrap_or(segment.colour);
        segment.coding = region.coding;
        segment
    });
    let known: Vec<Segment> = known.collect();
    if options.segments.is_empty() {
        return Ok(known);
    }
    // Requested segments count from 1, in their order.
    let numbered = options.segments.iter().enumerate().map(|(place, name)| {
        let label = place as u32 + 1;
        let own = known.iter().find(|segment| segment.name.eq_ignore_ascii_case(name));
        own.map_or_else(|| Segment::new(label, name), |own| Segment { label, ..own.clone() })
    });
    Ok(numbered.collect())
}
