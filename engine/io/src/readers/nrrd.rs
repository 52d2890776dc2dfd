use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use hearth_image::{Affine, Image};

use super::data_files::{data_file, listed, listed_any, numbered};
use super::raw_voxels::{Packing, RawVoxels, Source, Start, line};
use super::{Probe, ReadError, ReadOptions, Reader, segments};
use crate::nifti::DataType;

/// Reads NRRD: `.nrrd`, or `.nhdr` with its voxels in other files of the folder or of one below it;
/// raw, gzip or text. Two or three axes in LPS, RAS or LAS; an axis of channels before them and all
/// axes behind them (channels, time) become channels. 3D Slicer's segmentations (`.seg.nrrd`) are label
/// maps, with a channel for each layer of overlapping segments; with [`ReadOptions::segments`] or
/// [`ReadOptions::segments_as_channels`] they are read as those of DICOM.
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

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        let error = |error: std::io::Error| ReadError::new(path, error);
        let wrong = |what: String| ReadError::new(path, what);
        let mut file = BufReader::new(hearth_files::open(path).map_err(error)?);
        let fields = header(&mut file).map_err(wrong)?;
        let stored = describe(&fields).map_err(wrong)?;
        let whole =
            |names: [&str; 2]| names.iter().find_map(|name| fields.get(*name)?.parse::<i64>().ok()).unwrap_or(0);
        let (lines, bytes) = (whole(["line skip", "lineskip"]), whole(["byte skip", "byteskip"]));
        let packed = stored.packing != Packing::Raw;
        let start = match (u64::try_from(lines), u64::try_from(bytes)) {
            (Ok(lines), Ok(bytes)) if bytes <= 1 << 40 && (bytes == 0 || !packed) => Start::AfterLines(lines, bytes),
            (Ok(0), Err(_)) if bytes == -1 && !packed => Start::Last,
            _ => {
                return Err(wrong(format!(
                    "it skips {lines} lines and {bytes} bytes before its voxels; bytes of packed voxels, and -1 bytes \
                     after lines, are not supported"
                )));
            }
        };
        let source = match DATA_FILE.iter().find_map(|key| fields.get(*key)) {
            Some(name) => Source::Files(files(path, name, &mut file, &sizes(&fields).map_err(wrong)?)?),
            None => Source::Here(file),
        };
        let image = stored.image(source, start, path)?;
        segments::chosen(path, image, &fields, options)
    }
}

hearth_registry::entry!(dyn Reader => NrrdReader, example: "", build: |_| Ok(Box::new(NrrdReader)));

/// The other files with the voxels that the header of a file names.
pub(super) fn voxel_files(path: &Path) -> Option<Vec<PathBuf>> {
    let mut file = BufReader::new(hearth_files::open(path).ok()?);
    let fields = header(&mut file).ok()?;
    let value = DATA_FILE.iter().find_map(|key| fields.get(*key))?;
    files(path, value, &mut file, &sizes(&fields).ok()?).ok()
}

/// The keys of the files with the voxels.
const DATA_FILE: [&str; 2] = ["data file", "datafile"];

/// The files of the voxels: one, `PATTERN FIRST LAST STEP [AXES]`, or `LIST [AXES]` with names after the
/// header. `AXES` is the number of axes of each file; by default one less than those of the image.
fn files(path: &Path, value: &str, file: &mut impl BufRead, sizes: &[usize]) -> Result<Vec<PathBuf>, ReadError> {
    let wrong = |what: &str| ReadError::new(path, format!("data file is {value:?}; {what}"));
    let words: Vec<&str> = value.split_whitespace().collect();
    let axes = |word: Option<&&str>| match word.map(|word| word.parse::<usize>()) {
        None => Ok(sizes.len() - 1),
        Some(Ok(axes)) if (1..=sizes.len()).contains(&axes) => Ok(axes),
        Some(_) => Err(wrong("the number of axes of a file is from 1 to that of the image")),
    };
    // Files with all axes are slabs along the last: any number that divides it.
    let expected = |axes: usize| sizes[axes..].iter().try_fold(1_usize, |n, length| n.checked_mul(*length));
    match words[..] {
        ["LIST", ref rest @ ..] if rest.len() < 2 => {
            let axes = axes(rest.first())?;
            if axes < sizes.len() {
                return listed(path, "data file", file, expected(axes).unwrap_or(usize::MAX));
            }
            let found = listed_any(path, "data file", file)?;
            let slabs = !found.is_empty() && sizes[axes - 1].is_multiple_of(found.len());
            if slabs { Ok(found) } else { Err(wrong("the number of files must divide the last axis")) }
        }
        [pattern, first, last, step, ref rest @ ..] if pattern.contains('%') && rest.len() < 2 => {
            let numbers = [first, last, step].map(str::parse);
            let [Ok(first), Ok(last), Ok(step)] = numbers else {
                return Err(wrong("expected a pattern, the first number, the last one and the step"));
            };
            let (found, axes) = (numbered(path, "data file", pattern, [first, last, step])?, axes(rest.first())?);
            let fits = match axes < sizes.len() {
                true => expected(axes) == Some(found.len()),
                false => sizes[axes - 1].is_multiple_of(found.len()),
            };
            if fits { Ok(found) } else { Err(wrong("the number of files is not that of its slices")) }
        }
        _ => Ok(vec![data_file(path, "data file", value)?]),
    }
}

/// Reads the fields up to the empty line before the voxels, or up to a list of files; keys in lower case.
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
        let (key, value) = (key.trim().to_lowercase(), value.trim().to_owned());
        // Names of files follow, up to the end of the file.
        let last = DATA_FILE.contains(&key.as_str()) && value.split_whitespace().next() == Some("LIST");
        fields.insert(key, value);
        if last {
            break;
        }
    }
    Ok(fields)
}

/// A vector of a space with up to four axes; the missing ones are 0.
type Vector = [f64; 4];

/// Parses a vector such as `(1,0,0)`, of the number of axes of the space, or `none`.
fn vector(text: &str, axes: usize) -> Result<Option<Vector>, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let parsed =
        inner.map(|inner| inner.split(',').map(|part| part.trim().parse::<f64>()).collect::<Result<Vec<_>, _>>());
    match parsed {
        Some(Ok(all)) if all.len() == axes && all.iter().all(|number| number.is_finite()) => {
            Ok(Some(std::array::from_fn(|axis| all.get(axis).copied().unwrap_or(0.0))))
        }
        _ => Err(format!("{text:?} is not a vector of {axes} numbers")),
    }
}

/// Parses vectors, which may contain spaces.
fn vectors(text: &str, axes: usize) -> Result<Vec<Option<Vector>>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = if rest.starts_with('(') { rest.find(')').map(|at| at + 1) } else { rest.find(char::is_whitespace) };
        let (one, after) = rest.split_at(end.unwrap_or(rest.len()));
        found.push(vector(one, axes)?);
        rest = after.trim_start();
    }
    Ok(found)
}

/// The lengths of the axes.
fn sizes(fields: &HashMap<String, String>) -> Result<Vec<usize>, String> {
    let sizes: Option<Vec<usize>> =
        fields.get("sizes").and_then(|text| text.split_whitespace().map(|n| n.parse().ok()).collect());
    let sizes = sizes.filter(|all| !all.is_empty() && all.iter().all(|n| (1..=u32::MAX as usize).contains(n)));
    sizes.ok_or_else(|| "sizes is missing or has no whole numbers above 0".to_owned())
}

/// The number of axes of the space, and the signs that turn its first three into RAS. Without a space,
/// coordinates are LPS, as in ITK.
fn space(fields: &HashMap<String, String>) -> Result<(usize, [f64; 3]), String> {
    let name = fields.get("space").map(|space| space.to_lowercase());
    let (axes, signs) = match name.as_deref() {
        None => (3, [-1.0, -1.0, 1.0]),
        Some("left-posterior-superior" | "lps") => (3, [-1.0, -1.0, 1.0]),
        Some("right-anterior-superior" | "ras") => (3, [1.0, 1.0, 1.0]),
        Some("left-anterior-superior" | "las") => (3, [-1.0, 1.0, 1.0]),
        Some("left-posterior-superior-time" | "lpst") => (4, [-1.0, -1.0, 1.0]),
        Some("right-anterior-superior-time" | "rast") => (4, [1.0, 1.0, 1.0]),
        Some("left-anterior-superior-time" | "last") => (4, [-1.0, 1.0, 1.0]),
        Some(other) => return Err(format!("space is {other:?}; LPS, RAS and LAS are supported")),
    };
    match fields.get("space dimension") {
        None => Ok((axes, signs)),
        Some(text) => match text.parse() {
            Ok(axes @ 2..=4) => Ok((axes, signs)),
            _ => Err(format!("space dimension is {text:?}; expected 2, 3 or 4")),
        },
    }
}

/// Which axes of the file are which.
struct Axes {
    /// Channels of a voxel that are adjacent: the first axis, if it has no direction.
    first: bool,
    /// Number of spatial axes, which come next.
    spatial: usize,
}

impl Axes {
    fn of(sizes: usize, kinds: &[&str], directions: Option<&[Option<Vector>]>) -> Result<Self, String> {
        // An axis without a direction, with one along time alone, or with a kind of channels.
        let apart = |axis: usize| match directions {
            Some(all) => match all.get(axis).copied().flatten() {
                Some([x, y, z, time]) => [x, y, z] == [0.0; 3] && time != 0.0,
                None => true,
            },
            None => kinds.get(axis).is_some_and(|kind| !["domain", "space", "none", "???"].contains(kind)),
        };
        let first = apart(0);
        let begin = usize::from(first);
        // Without directions, axes after the third are no axes of space.
        let spatial = (begin..sizes).take_while(|axis| !apart(*axis)).count();
        let spatial = if spatial > 3 { 3 } else { spatial };
        let whole = directions.is_none() && spatial == 3;
        if let Some(axis) = (begin + spatial..sizes).find(|axis| !apart(*axis) && !whole) {
            return Err(format!(
                "axis {axis} is one of space behind an axis of channels; expected channels first or last"
            ));
        }
        if !(2..=3).contains(&spatial) {
            return Err(format!("it has {spatial} axes besides channels; expected 2 or 3"));
        }
        Ok(Axes { first, spatial })
    }

    /// The places of the spatial axes.
    fn spatial(&self) -> std::ops::Range<usize> {
        let begin = usize::from(self.first);
        begin..begin + self.spatial
    }
}

fn describe(fields: &HashMap<String, String>) -> Result<RawVoxels, String> {
    let field = |key: &str| fields.get(key).map(String::as_str);
    let sizes = sizes(fields)?;
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
    let (space_axes, signs) = space(fields)?;
    let directions = field("space directions").map(|text| vectors(text, space_axes)).transpose()?;
    let kinds: Vec<&str> = field("kinds").map(|text| text.split_whitespace().collect()).unwrap_or_default();
    let axes = Axes::of(sizes.len(), &kinds, directions.as_deref())?;
    let spatial: Vec<usize> = axes.spatial().collect();
    let origin = field("space origin").map(|text| vector(text, space_axes)).transpose()?.flatten();
    let origin = if directions.is_some() || origin.is_some() { origin } else { starts(fields, &spatial)? };
    let mut directions: Vec<Option<Vector>> = directions.unwrap_or_default();
    directions.resize(sizes.len(), None);
    let affine = affine(fields, signs, &directions, origin.unwrap_or_default(), &spatial)?;
    let size = |place: usize| spatial.get(place).map_or(1, |axis| sizes[*axis]);
    let behind = &sizes[axes.spatial().end..];
    let following = behind.iter().try_fold(1_usize, |n, length| n.checked_mul(*length));
    Ok(RawVoxels {
        shape: [size(0), size(1), size(2)],
        spatial_dims: spatial.len(),
        adjacent: if axes.first { sizes[0] } else { 1 },
        following: following.ok_or_else(|| format!("{sizes:?} values; expected 1 to 2^33 values"))?,
        data_type,
        big_endian: field("endian") == Some("big"),
        packing,
        affine,
    })
}

/// The origin by the starts of the axes, as in ITK: voxels begin there, unless their centres do.
fn starts(fields: &HashMap<String, String>, spatial: &[usize]) -> Result<Option<Vector>, String> {
    let words = |keys: &[&str]| {
        let text = keys.iter().find_map(|key| fields.get(*key));
        text.map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    let Some(starts) = words(&["axis mins", "axismins"]) else { return Ok(None) };
    let (steps, centres) = (words(&["spacings"]), words(&["centers", "centerings"]).unwrap_or_default());
    let number = |words: &[String], axis: usize| {
        words.get(axis).and_then(|word| word.parse::<f64>().ok()).filter(|number| number.is_finite())
    };
    let mut origin = [0.0; 4];
    for (place, axis) in spatial.iter().enumerate() {
        let step = steps.as_deref().and_then(|steps| number(steps, *axis));
        let (Some(start), Some(step)) = (number(&starts, *axis), step) else {
            return Err("axis mins without spacings; expected both for each axis of space, or neither".to_owned());
        };
        let half = if centres.get(*axis).is_some_and(|word| word == "node") { 0.0 } else { step / 2.0 };
        origin[place] = start + half;
    }
    Ok(Some(origin))
}

/// The affine from voxel to mm, RAS.
fn affine(
    fields: &HashMap<String, String>,
    signs: [f64; 3],
    directions: &[Option<Vector>],
    origin: Vector,
    spatial: &[usize],
) -> Result<Affine, String> {
    let spacings: Vec<f64> = match fields.get("spacings") {
        Some(text) => text.split_whitespace().map(|n| n.parse().unwrap_or(f64::NAN)).collect(),
        None => Vec::new(),
    };
    if let Some([.., time]) = spatial.iter().filter_map(|axis| directions[*axis]).find(|vector| vector[3] != 0.0) {
        return Err(format!("an axis of space has the direction {time} in time; expected 0"));
    }
    let mut affine = hearth_image::affine::IDENTITY;
    for row in 0..3 {
        for (column, axis) in spatial.iter().enumerate() {
            let along = match directions[*axis] {
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
    // A slice that does not lie across z: its third axis is upright on the two of the file.
    if spatial.len() == 2 && hearth_image::affine::inverse(&affine).is_none() {
        let [a, b] = [0, 1].map(|column| [0, 1, 2].map(|row| affine[row][column]));
        let normal: [f64; 3] = std::array::from_fn(|row| {
            let [next, last] = [(row + 1) % 3, (row + 2) % 3];
            a[next] * b[last] - a[last] * b[next]
        });
        let length = normal.iter().map(|part| part * part).sum::<f64>().sqrt();
        if length > 0.0 {
            (0..3).for_each(|row| affine[row][2] = normal[row] / length);
        }
    }
    Ok(affine)
}
