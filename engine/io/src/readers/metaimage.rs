use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use hearth_image::Image;

use super::data_files::{data_file, listed, numbered};
use super::raw_voxels::{Packing, RawVoxels, Source, Start, line};
use super::{Probe, ReadError, ReadOptions, Reader};
use crate::nifti::DataType;

/// Reads MetaImage, ITK's format: `.mha`, or `.mhd` with its voxels in other files of the folder or of
/// one below it. Two or three axes of space, LPS in the file; channels and further axes become channels.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct MetaImageReader;

impl Reader for MetaImageReader {
    fn name(&self) -> &'static str {
        "MetaImageReader"
    }

    fn precedence(&self) -> u32 {
        2
    }

    fn suffixes(&self) -> &[&str] {
        &[".mha", ".mhd"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        let start = String::from_utf8_lossy(&probe.start[..probe.start.len().min(200)]).into_owned();
        start.starts_with("ObjectType") && start.contains("NDims")
    }

    fn read(&self, path: &Path, _: &ReadOptions) -> Result<Image, ReadError> {
        let error = |error: std::io::Error| ReadError::new(path, error);
        let wrong = |what: String| ReadError::new(path, what);
        let mut file = BufReader::new(hearth_files::open(path).map_err(error)?);
        let fields = header(&mut file).map_err(wrong)?;
        let stored = describe(&fields).map_err(wrong)?;
        let skip: i64 = fields.get("HeaderSize").and_then(|text| text.parse().ok()).unwrap_or(0);
        let data = fields.get("ElementDataFile").map(String::as_str).unwrap_or_default();
        if data.eq_ignore_ascii_case("LOCAL") {
            return stored.image(Source::Here(file), Start::After(0), path);
        }
        let start = u64::try_from(skip).map_or(Start::Last, Start::After);
        let files = files(path, data, &mut file, &sizes(&fields).map_err(wrong)?)?;
        stored.image(Source::Files(files), start, path)
    }
}

/// The other files with the voxels that the header of a file names.
pub(super) fn voxel_files(path: &Path) -> Option<Vec<PathBuf>> {
    let mut file = BufReader::new(hearth_files::open(path).ok()?);
    let fields = header(&mut file).ok()?;
    let value = fields.get("ElementDataFile").filter(|value| !value.eq_ignore_ascii_case("LOCAL"))?;
    files(path, value, &mut file, &sizes(&fields).ok()?).ok()
}

/// The files of the voxels: one, `LIST [AXES]` with names after the header, or
/// `PATTERN [FIRST [LAST [STEP]]]`. `AXES` is the number of axes of each file of a list; by default, and
/// for a pattern, one less than those of the image.
fn files(path: &Path, value: &str, file: &mut impl BufRead, sizes: &[usize]) -> Result<Vec<PathBuf>, ReadError> {
    const KEY: &str = "ElementDataFile";
    let wrong = |what: &str| ReadError::new(path, format!("{KEY} is {value:?}; {what}"));
    let words: Vec<&str> = value.split_whitespace().collect();
    let slices = sizes[sizes.len() - 1];
    match words[..] {
        [list, ref rest @ ..] if list.eq_ignore_ascii_case("LIST") && rest.len() < 2 => {
            let axes = match rest.first().map(|word| word.trim_end_matches(['d', 'D']).parse::<usize>()) {
                None => sizes.len() - 1,
                Some(Ok(axes)) if (1..=sizes.len()).contains(&axes) => axes,
                Some(_) => return Err(wrong("the number of axes of a file is from 1 to that of the image")),
            };
            let count = sizes[axes..].iter().try_fold(1_usize, |n, length| n.checked_mul(*length));
            listed(path, KEY, file, count.unwrap_or(usize::MAX))
        }
        [pattern, ref numbers @ ..] if pattern.contains('%') && numbers.len() < 4 => {
            let parsed: Result<Vec<i64>, _> = numbers.iter().map(|number| number.parse()).collect();
            let parsed =
                parsed.map_err(|_| wrong("expected a pattern, the first number, the last one and the step"))?;
            let first = parsed.first().copied().unwrap_or(1);
            let last = |step: i64| first.saturating_add(step.saturating_mul(slices as i64 - 1));
            let numbers = match parsed[..] {
                [first, last, step] => [first, last, step],
                [first, last] => [first, last, (last.saturating_sub(first) / (slices as i64 - 1).max(1)).max(1)],
                _ => [first, last(1), 1],
            };
            let found = numbered(path, KEY, pattern, numbers)?;
            if found.len() == slices { Ok(found) } else { Err(wrong("the number of files is not that of its slices")) }
        }
        _ => Ok(vec![data_file(path, KEY, value)?]),
    }
}

hearth_registry::entry!(dyn Reader => MetaImageReader, example: "", build: |_| Ok(Box::new(MetaImageReader)));

/// Reads the keys up to the last one, which precedes the voxels.
fn header(file: &mut impl BufRead) -> Result<HashMap<String, String>, String> {
    let (mut fields, mut number) = (HashMap::new(), 0);
    while let Some(text) = line(file, &mut number)? {
        let Some((key, value)) = text.split_once('=') else {
            if text.trim().is_empty() {
                continue;
            }
            return Err(format!("the header has a line without `=`: {:.40}", text.trim()));
        };
        let key = key.trim().to_owned();
        let last = key == "ElementDataFile";
        fields.insert(key, value.trim().to_owned());
        if last {
            return Ok(fields);
        }
    }
    Err("the header has no ElementDataFile".to_owned())
}

/// The numbers of the first of these keys that the header has.
fn numbers(fields: &HashMap<String, String>, keys: &[&str]) -> Result<Option<Vec<f64>>, String> {
    let Some((key, text)) = keys.iter().find_map(|key| Some((key, fields.get(*key)?))) else { return Ok(None) };
    let parsed: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    let parsed = parsed.ok().filter(|all| all.iter().all(|number| number.is_finite()));
    parsed.map(Some).ok_or_else(|| format!("{key} is {text:?}; expected numbers"))
}

/// The lengths of the axes.
fn sizes(fields: &HashMap<String, String>) -> Result<Vec<usize>, String> {
    let dims = numbers(fields, &["NDims"])?.and_then(|all| all.first().copied()).unwrap_or(0.0);
    if dims.fract() != 0.0 || !(2.0..=7.0).contains(&dims) {
        return Err(format!("NDims is {dims}; expected 2 to 7"));
    }
    let sizes = numbers(fields, &["DimSize"])?.unwrap_or_default();
    if sizes.len() != dims as usize {
        return Err(format!("DimSize has {} numbers; expected {dims}", sizes.len()));
    }
    if sizes.iter().any(|size| *size < 1.0 || size.fract() != 0.0 || *size > f64::from(u32::MAX)) {
        return Err(format!("DimSize is {sizes:?}; expected whole numbers above 0"));
    }
    Ok(sizes.into_iter().map(|size| size as usize).collect())
}

fn describe(fields: &HashMap<String, String>) -> Result<RawVoxels, String> {
    let numbers = |keys: &[&str]| numbers(fields, keys);
    let whether = |key: &str| fields.get(key).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let sizes = sizes(fields)?;
    let dims = sizes.len();
    let axes = |keys: &[&str], count: usize, default: &dyn Fn() -> Vec<f64>| -> Result<Vec<f64>, String> {
        let found = numbers(keys)?.unwrap_or_else(default);
        if found.len() == count {
            Ok(found)
        } else {
            Err(format!("{} has {} numbers; expected {count}", keys[0], found.len()))
        }
    };
    let spacing = axes(&["ElementSpacing", "ElementSize"], dims, &|| vec![1.0; dims])?;
    let origin = axes(&["Offset", "Position", "Origin"], dims, &|| vec![0.0; dims])?;
    let identity = || -> Vec<f64> { (0..dims * dims).map(|at| f64::from(u8::from(at % (dims + 1) == 0))).collect() };
    let matrix = axes(&["TransformMatrix", "Rotation", "Orientation"], dims * dims, &identity)?;
    let spatial = dims.min(3);
    let mixed = |column: usize, row: usize| (column < spatial) != (row < spatial) && matrix[column * dims + row] != 0.0;
    if (0..dims * dims).any(|at| mixed(at / dims, at % dims)) {
        return Err("TransformMatrix turns axes of space into others; expected 0 there".to_owned());
    }
    let mut affine = hearth_image::affine::IDENTITY;
    for row in 0..spatial {
        // From left and posterior to right and anterior.
        let sign = if row < 2 { -1.0 } else { 1.0 };
        for column in 0..spatial {
            affine[row][column] = sign * matrix[column * dims + row] * spacing[column];
        }
        affine[row][3] = sign * origin[row];
    }
    let kind = fields.get("ElementType").map(String::as_str).unwrap_or_default();
    let data_type = match kind {
        "MET_CHAR" => DataType::I8,
        "MET_UCHAR" => DataType::U8,
        "MET_SHORT" => DataType::I16,
        "MET_USHORT" => DataType::U16,
        "MET_INT" | "MET_LONG" => DataType::I32,
        "MET_UINT" | "MET_ULONG" => DataType::U32,
        "MET_LONG_LONG" => DataType::I64,
        "MET_ULONG_LONG" => DataType::U64,
        "MET_FLOAT" => DataType::F32,
        "MET_DOUBLE" => DataType::F64,
        _ => return Err(format!("ElementType is {kind:?}; expected MET_SHORT, MET_FLOAT or another type of numbers")),
    };
    let channels = numbers(&["ElementNumberOfChannels"])?.and_then(|all| all.first().copied()).unwrap_or(1.0);
    if !(1.0..=65_536.0).contains(&channels) || channels.fract() != 0.0 {
        return Err(format!("ElementNumberOfChannels is {channels}; expected 1 to 65536"));
    }
    let binary = !fields.contains_key("BinaryData") || whether("BinaryData");
    let packing = match (binary, whether("CompressedData")) {
        (false, _) => Packing::Text,
        (true, true) => Packing::Zlib,
        (true, false) => Packing::Raw,
    };
    let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
    let following = sizes[spatial..].iter().try_fold(1_usize, |n, length| n.checked_mul(*length));
    Ok(RawVoxels {
        shape: [size(0), size(1), size(2)],
        spatial_dims: spatial,
        adjacent: channels as usize,
        following: following.ok_or_else(|| format!("DimSize is {sizes:?}; expected 1 to 2^33 values"))?,
        data_type,
        big_endian: whether("BinaryDataByteOrderMSB") || whether("ElementByteOrderMSB"),
        packing,
        affine,
    })
}
