//! Names and colours of the labels in a file.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufReader, Read};
use std::path::Path;

use hearth_dicom::{FindingKind, Region, Regions, select_regions};
use hearth_image::{Image, host_device};

use super::dicom::warn;
use super::{ReadError, ReadOptions, check_room, dicom_regions, nrrd};
use crate::writers::{Layers, Segment};

/// The first bytes of every NRRD file.
const NRRD: &[u8] = b"NRRD000";

/// Reads the labels of a `.seg.nrrd` of 3D Slicer, a DICOM segmentation or a structure set. They
/// are in the order of the file, with the values that [`read_image_with`](super::read_image_with)
/// assigns with the same options. Other files have no labels.
///
/// # Errors
/// If the file cannot be read.
pub fn read_segments(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Vec<Segment>, ReadError> {
    let path = path.as_ref();
    Ok(numbered(&listed(path, options)?, path, options))
}

/// Checks that each of [`ReadOptions::segments`] is in a file. Without this check, reading warns of a missing
/// one, whose label is then empty.
///
/// # Errors
/// A segment that is missing, with those of the file; a file without segments, or one that cannot be read.
pub fn require_segments(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(), ReadError> {
    let path = path.as_ref();
    let regions: Vec<Region> = listed(path, options)?.into_iter().map(|(region, _)| region).collect();
    if regions.is_empty() {
        let what = "it has no segments to choose from; expected a .seg.nrrd, SEG or RTSTRUCT";
        return Err(ReadError::new(path, what));
    }
    let how = aliased(options);
    options.segments.iter().try_for_each(|name| {
        let found = select_regions(&regions, &[name.as_str()], path, &how);
        found.map(|_| ()).map_err(|error| ReadError::new(path, error))
    })
}

/// The labels of a file in its order, each as a region and as a segment.
fn listed(path: &Path, options: &ReadOptions) -> Result<Vec<(Region, Segment)>, ReadError> {
    let error = |error: std::io::Error| ReadError::new(path, error);
    if path.is_dir() {
        return of_dicom(path, options);
    }
    let start = start(path)?;
    if start.starts_with(NRRD) {
        let mut file = BufReader::new(hearth_files::open(path).map_err(error)?);
        let fields = nrrd::header(&mut file).map_err(|what| ReadError::new(path, what))?;
        let segments = of_slicer(&fields).map_err(|what| ReadError::new(path, what))?;
        return Ok(segments.into_iter().map(|of| (Region::new(of.label, of.name.clone()), of)).collect());
    }
    if hearth_dicom::is_dicom(&start) { of_dicom(path, options) } else { Ok(Vec::new()) }
}

/// Whether segments that have no layer may share voxels, so that a label map loses some of them and
/// [`ReadOptions::segments_as_channels`] does not: segments of a DICOM segmentation or structure set that share
/// some, and a `.seg.nrrd` with a channel for each segment.
///
/// # Errors
/// If the file cannot be read.
pub fn segments_overlap(path: impl AsRef<Path>, options: &ReadOptions) -> Result<bool, ReadError> {
    let path = path.as_ref();
    if !path.is_dir() && start(path)?.starts_with(NRRD) {
        return Ok(read_segments(path, options)?.iter().any(|segment| segment.layer.is_none()));
    }
    let how = aliased(options);
    let scan = hearth_dicom::scan_with(path, &how).map_err(|error| ReadError::new(path, error))?;
    let options = ReadOptions { segments_as_channels: false, ..options.clone() };
    let drawn = dicom_regions::drawn(path, &scan, &options, &how)?;
    Ok(drawn.is_some_and(|drawn| drawn.findings.iter().any(|finding| finding.kind == FindingKind::Overlap)))
}

/// The first bytes of a file.
fn start(path: &Path) -> Result<Vec<u8>, ReadError> {
    let error = |error: std::io::Error| ReadError::new(path, error);
    let mut start = Vec::new();
    hearth_files::open(path).map_err(error)?.take(4096).read_to_end(&mut start).map_err(error)?;
    Ok(start)
}

/// The segments of a `.seg.nrrd`: `Segment0_Name` and so on, with keys in lower case; numbers may be left out.
/// Files of 3D Slicer before 4.11 have a channel for each segment, and state neither labels nor layers.
///
/// # Errors
/// Labels and layers that are not numbers.
fn of_slicer(fields: &HashMap<String, String>) -> Result<Vec<Segment>, String> {
    let place = |key: &String| -> Option<u32> {
        let (number, what) = key.strip_prefix("segment")?.split_once('_')?;
        ["name", "id"].contains(&what).then(|| number.parse().ok()).flatten()
    };
    let places: BTreeSet<u32> = fields.keys().filter_map(place).collect();
    let stated = |what: &str| places.iter().any(|place| fields.contains_key(&format!("segment{place}_{what}")));
    let in_channels =
        fields.get("dimension").is_some_and(|axes| axes == "4") && !stated("labelvalue") && !stated("layer");
    let mut found = Vec::new();
    for place in places {
        let of = |what: &str| fields.get(&format!("segment{place}_{what}")).map(String::as_str);
        let Some(name) = of("name").or_else(|| of("id")) else { continue };
        let wrong = |key: &str, text: &str| format!("Segment{place}_{key} is {text:?}; expected a whole number");
        let label = of("labelvalue").map(|text| text.trim().parse::<u32>().map_err(|_| wrong("LabelValue", text)));
        let label = label.transpose()?.unwrap_or(place.saturating_add(1));
        let mut segment = Segment::new(label, name);
        segment.id = of("id").map(str::to_owned);
        segment.tags = of("tags").filter(|tags| *tags != "|").map(str::to_owned);
        let layer = of("layer").map(|text| text.trim().parse::<usize>().map_err(|_| wrong("Layer", text)));
        let layer = layer.transpose()?.unwrap_or(0);
        segment.layer = (!in_channels).then_some(layer);
        let parts = of("color").map(|text| text.split_whitespace().map(str::parse::<f64>).collect::<Vec<_>>());
        if let Some([Ok(r), Ok(g), Ok(b)]) = parts.as_deref() {
            segment.colour = [*r, *g, *b].map(|part| (part * 255.0).round().clamp(0.0, 255.0) as u8);
        }
        found.push(segment);
    }
    Ok(found)
}

fn of_dicom(path: &Path, options: &ReadOptions) -> Result<Vec<(Region, Segment)>, ReadError> {
    let wrong = |error: hearth_dicom::DicomError| ReadError::new(path, error);
    let asked = !options.segments.is_empty() || options.reference.is_some();
    let scan = hearth_dicom::scan(path).map_err(wrong)?;
    let [annotation] = scan.annotations.as_slice() else { return Ok(Vec::new()) };
    if !asked && !scan.series.is_empty() {
        return Ok(Vec::new());
    }
    let regions = Regions::open(&annotation.path, &hearth_dicom::ReadOptions::default()).map_err(wrong)?;
    let known = regions.list().into_iter().map(|region| {
        let mut segment = Segment::new(region.label, &region.name);
        segment.colour = region.color.unwrap_or(segment.colour);
        segment.coding.clone_from(&region.coding);
        (region, segment)
    });
    Ok(known.collect())
}

/// The segments with the values that reading with these options assigns: requested ones count from 1, in
/// their order.
fn numbered(known: &[(Region, Segment)], path: &Path, options: &ReadOptions) -> Vec<Segment> {
    let how = aliased(options);
    let regions: Vec<Region> = known.iter().map(|(region, _)| region.clone()).collect();
    let numbered = options.segments.iter().enumerate().map(|(place, name)| {
        let label = place as u32 + 1;
        let found = select_regions(&regions, &[name.as_str()], path, &how).ok().and_then(|(mut found, _)| found.pop());
        let first = found.and_then(|(places, region)| Some((region.name, &known.get(*places.first()?)?.1)));
        first.map_or_else(|| Segment::new(label, name), |(name, own)| Segment { label, name, ..own.clone() })
    });
    let mut all: Vec<Segment> = match options.segments.is_empty() {
        true => known.iter().map(|(_, segment)| segment.clone()).collect(),
        false => numbered.collect(),
    };
    if !options.segments.is_empty() || options.segments_as_channels {
        all.iter_mut().for_each(|segment| segment.layer = None);
    }
    all
}

/// The requested segments of a `.seg.nrrd`: a label map, or a channel for each. Without a request, or
/// without segments, the image as it is stored.
pub(super) fn chosen(
    path: &Path,
    image: Image,
    fields: &HashMap<String, String>,
    options: &ReadOptions,
) -> Result<Image, ReadError> {
    let segments = of_slicer(fields).map_err(|what| ReadError::new(path, what))?;
    let channels = image.channels();
    if let Some(beyond) = segments.iter().find(|segment| segment.layer.is_some_and(|layer| layer >= channels)) {
        let (name, layer) = (&beyond.name, beyond.layer.unwrap_or_default());
        let what =
            format!("{name:?} is in layer {layer}, and the layers of the file are 0 to {}", channels.saturating_sub(1));
        return Err(ReadError::new(path, what));
    }
    if segments.is_empty() || (options.segments.is_empty() && !options.segments_as_channels) {
        return Ok(image);
    }
    let layers = Layers::of(&image, &segments).map_err(|what| ReadError::new(path, what))?;
    let known: Vec<Region> = layers.segments.iter().map(|of| Region::new(of.label, of.name.clone())).collect();
    let names: Vec<&str> = options.segments.iter().map(String::as_str).collect();
    let how = aliased(options);
    let (wanted, findings) = select_regions(&known, &names, path, &how).map_err(|error| ReadError::new(path, error))?;
    warn(path, &findings);
    let values = layers.image.to_vec();
    let [_, nx, ny, nz] = image.data.dims();
    let size = nx * ny * nz;
    let count = if options.segments_as_channels { wanted.len() } else { 1 };
    check_room(4 * (count * size) as u64).map_err(|what| ReadError::new(path, what))?;
    let (mut out, mut shared) = (vec![0.0_f32; count * size], 0_usize);
    for (number, (places, region)) in wanted.iter().enumerate() {
        let start = if options.segments_as_channels { number * size } else { 0 };
        let value = if options.segments_as_channels { 1.0 } else { region.label as f32 };
        for segment in places.iter().map(|place| &layers.segments[*place]) {
            let layer = &values[segment.layer.unwrap_or(0) * size..][..size];
            let inside = layer.iter().map(|stored| *stored == segment.label as f32);
            for (voxel, _) in out[start..start + size].iter_mut().zip(inside).filter(|(_, inside)| *inside) {
                shared += usize::from(*voxel != 0.0 && *voxel != value);
                *voxel = value;
            }
        }
    }
    if shared > 0 {
        tracing::warn!("{}: segments overlap in {shared} voxel(s): the later one was used", path.display());
    }
    let mut meta = image.meta.clone();
    meta.original_shape = if count > 1 { vec![nx, ny, nz, count] } else { vec![nx, ny, nz] };
    meta.original_channel_dim = (count > 1).then_some(-1);
    Ok(Image { meta, ..Image::from_values(out, [count, nx, ny, nz], image.affine, &host_device()) })
}

/// The options of `hearth_dicom` with the aliases of these.
fn aliased(options: &ReadOptions) -> hearth_dicom::ReadOptions {
    let mut how = hearth_dicom::ReadOptions::default();
    how.aliases = options.aliases.iter().map(|(name, others)| (name.clone(), others.clone())).collect();
    how
}
