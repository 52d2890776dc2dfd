use std::collections::HashMap;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use hearth_image::{Affine, Image};

use super::raw_voxels::{Packing, RawVoxels, data_file, line};
use super::{Probe, ReadError, ReadOptions, Reader};
use crate::nifti::DataType;

/// Reads NRRD: `.nrrd`, or `.nhdr` with its voxels in another file of the folder; raw, gzip or
/// text. Two or three axes in LPS, RAS or LAS, and optionally a channel axis, first or last; 3D
/// Slicer's segmentations (`.seg.nrrd`) are label maps.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct NrrdReader;

impl Reader for NrrdReader {
    fn name(&self) -> &'static str {
        "NrrdReader"
    }

    fn precedence(&self) -> u32 {
        3
    }

    fn suffixes(&self) -> &[&str] {
        &[".nrrd", ".nhdr"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        probe.start.starts_with(b"NRRD000")
    }

    fn read(&self, path: &Path, _: &ReadOptions) -> Result<Image, ReadError> {
        let error = |error: std::io::Error| ReadError::new(path, error);
        let wrong = |what: String| ReadError::new(path, what);
        let mut file = BufReader::new(hearth_files::open(path).map_err(error)?);
        let fields = header(&mut file).map_err(wrong)?;
        let stored = describe(&fields).map_err(wrong)?;
        let whole =
            |names: [&str; 2]| names.iter().find_map(|name| fields.get(*name)?.parse::<i64>().ok()).unwrap_or(0);
        let (lines, bytes) = (whole(["line skip", "lineskip"]), whole(["byte skip", "byteskip"]));
        if lines != 0 || !(-1..=1 << 40).contains(&bytes) || (bytes == -1 && stored.packing != Packing::Raw) {
            return Err(wrong(
                "lines or bytes before the voxels are skipped in a way that is not supported".to_owned(),
            ));
        }
        if let Some(name) = ["data file", "datafile"].iter().find_map(|key| fields.get(*key)) {
            file = data_file(path, "data file", name)?;
        }
        if bytes == -1 {
            let length = file.get_ref().metadata().map_err(error)?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(stored.bytes()))).map_err(error)?;
        } else if bytes > 0 && stored.packing == Packing::Raw {
            file.seek_relative(bytes).map_err(error)?;
        } else if bytes > 0 {
            return Err(wrong("byte skip within packed voxels is not supported".to_owned()));
        }
        stored.image(file, path)
    }
}

hearth_registry::entry!(dyn Reader => NrrdReader, example: "", build: |_| Ok(Box::new(NrrdReader)));

/// Reads the fields up to the empty line before the voxels; keys in lower case.
pub(super) fn header(file: &mut impl BufRead) -> Result<HashMap<String, String>, String> {
    let (mut fields, mut number) = (HashMap::new(), 0);
    if line(file, &mut number)?.is_none_or(|text| !text.starts_with("NRRD000")) {
        return Err("not an NRRD file: it does not start with NRRD000".to_owned());
    }
    while let Some(text) = line(file, &mut number)?.filter(|text| !text.is_empty()) {
        if text.starts_with('#') {
            continue;
        }
        // Application-specific keys use `:=`.
        let Some((key, value)) =
            text.split_once(":=").or_else(|| text.split_once(": ")).or_else(|| text.split_once(':'))
        else {
            return Err(format!("the header has a line without a colon: {text:.40}"));
        };
        fields.insert(key.trim().to_lowercase(), value.trim().to_owned());
    }
    Ok(fields)
}

/// Parses a vector such as `(1,0,0)`, or `none`.
fn vector(text: &str) -> Result<Option<[f64; 3]>, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let parsed =
        inner.map(|inner| inner.split(',').map(|part| part.trim().parse::<f64>()).collect::<Result<Vec<_>, _>>());
    match parsed {
        Some(Ok(all)) if all.len() == 3 && all.iter().all(|number| number.is_finite()) => {
            Ok(Some([all[0], all[1], all[2]]))
        }
        _ => Err(format!("{text:?} is not a vector of three numbers")),
    }
}

/// Parses vectors, which may contain spaces.
fn vectors(text: &str) -> Result<Vec<Option<[f64; 3]>>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = if rest.starts_with('(') { rest.find(')').map(|at| at + 1) } else { rest.find(char::is_whitespace) };
        let (one, after) = rest.split_at(end.unwrap_or(rest.len()));
        found.push(vector(one)?);
        rest = after.trim_start();
    }
    Ok(found)
}

fn describe(fields: &HashMap<String, String>) -> Result<RawVoxels, String> {
    let field = |key: &str| fields.get(key).map(String::as_str);
    let sizes: Option<Vec<usize>> =
        field("sizes").and_then(|text| text.split_whitespace().map(|n| n.parse().ok()).collect());
    let sizes = sizes.filter(|all| all.iter().all(|n| (1..=u32::MAX as usize).contains(n)));
    let sizes = sizes.ok_or_else(|| "sizes is missing or has no whole numbers above 0".to_owned())?;
    let data_type = match field("type").unwrap_or_default() {
        "signed char" | "int8" | "int8_t" => DataType::I8,
        "uchar" | "unsigned char" | "uint8" | "uint8_t" => DataType::U8,
        "short" | "short int" | "signed short" | "signed short int" | "int16" | "int16_t" => DataType::I16,
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" | "uint16_t" => DataType::U16,
        "int" | "signed int" | "int32" | "int32_t" => DataType::I32,
        "uint" | "unsigned int" | "uint32" | "uint32_t" => DataType::U32,
        "longlong" | "long long" | "long long int" | "signed long long" | "int64" | "int64_t" => DataType::I64,
        "ulonglong" | "unsigned long long" | "unsigned long long int" | "uint64" | "uint64_t" => DataType::U64,
        "float" => DataType::F32,
        "double" => DataType::F64,
        other => return Err(format!("type is {other:?}; expected short, float or another type of numbers")),
    };
    let packing = match field("encoding").unwrap_or("raw") {
        "raw" => Packing::Raw,
        "gzip" | "gz" => Packing::Gzip,
        "txt" | "text" | "ascii" => Packing::Text,
        other => return Err(format!("encoding is {other:?}; raw, gzip and text are supported")),
    };
    let directions = field("space directions").map(vectors).transpose()?;
    let kinds: Vec<&str> = field("kinds").map(|text| text.split_whitespace().collect()).unwrap_or_default();
    // The channel axis: the axis without a direction, or with a kind of channels.
    let apart = |axis: usize| match &directions {
        Some(all) => all.get(axis).is_none_or(Option::is_none),
        None => kinds.get(axis).is_some_and(|kind| !["domain", "space", "none", "???"].contains(kind)),
    };
    let channels: Vec<usize> = (0..sizes.len()).filter(|axis| apart(*axis)).collect();
    let channel = match channels[..] {
        [] if sizes.len() == 4 => Some(3),
        [] => None,
        [axis] if axis == 0 || axis + 1 == sizes.len() => Some(axis),
        _ => return Err(format!("axes {channels:?} of {} have no direction; one may, the first or last", sizes.len())),
    };
    let spatial: Vec<usize> = (0..sizes.len()).filter(|axis| Some(*axis) != channel).collect();
    if !(2..=3).contains(&spatial.len()) {
        return Err(format!("it has {} axes besides channels; expected 2 or 3", spatial.len()));
    }
    let affine = affine(fields, directions.as_deref(), &spatial)?;
    let size = |place: usize| spatial.get(place).map_or(1, |axis| sizes[*axis]);
    Ok(RawVoxels {
        shape: [size(0), size(1), size(2)],
        spatial_dims: spatial.len(),
        channels: channel.map_or(1, |axis| sizes[axis]),
        interleaved: channel == Some(0),
        data_type,
        big_endian: field("endian") == Some("big"),
        packing,
        affine,
    })
}

/// The affine from voxel to mm, RAS. Without a space, coordinates are LPS, as in ITK.
fn affine(
    fields: &HashMap<String, String>,
    directions: Option<&[Option<[f64; 3]>]>,
    spatial: &[usize],
) -> Result<Affine, String> {
    let space = fields.get("space").map(|space| space.to_lowercase());
    let signs = match space.as_deref() {
        None | Some("left-posterior-superior" | "lps") => [-1.0, -1.0, 1.0],
        Some("right-anterior-superior" | "ras") => [1.0, 1.0, 1.0],
        Some("left-anterior-superior" | "las") => [-1.0, 1.0, 1.0],
        Some(other) => return Err(format!("space is {other:?}; LPS, RAS and LAS are supported")),
    };
    let spacings: Vec<f64> = match fields.get("spacings") {
        Some(text) => text.split_whitespace().map(|n| n.parse().unwrap_or(f64::NAN)).collect(),
        None => Vec::new(),
    };
    let origin = fields.get("space origin").map(|text| vector(text)).transpose()?.flatten().unwrap_or_default();
    let mut affine = hearth_image::affine::IDENTITY;
    for row in 0..3 {
        for (column, axis) in spatial.iter().enumerate() {
            let along = match directions.and_then(|all| all.get(*axis).copied().flatten()) {
                Some(vector) => vector[row],
                None => {
                    let length = spacings.get(*axis).copied().filter(|n| n.is_finite() && *n > 0.0).unwrap_or(1.0);
                    if row == column { length } else { 0.0 }
                }
            };
            affine[row][column] = signs[row] * along;
        }
        affine[row][3] = signs[row] * origin[row];
    }
    Ok(affine)
}
