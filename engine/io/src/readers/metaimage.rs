use std::collections::HashMap;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use hearth_image::Image;

use super::raw_voxels::{Packing, RawVoxels, data_file, line};
use super::{Probe, ReadError, ReadOptions, Reader};
use crate::nifti::DataType;

/// Reads MetaImage, ITK's format: `.mha`, or `.mhd` with its voxels in another file of the folder.
/// Two or three axes, and channels; coordinates are LPS in the file.
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
        let local = fields.get("ElementDataFile").map(String::as_str).unwrap_or_default();
        if local.eq_ignore_ascii_case("LOCAL") {
            return stored.image(file, path);
        }
        let mut file = data_file(path, "ElementDataFile", local)?;
        if skip < 0 {
            let length = file.get_ref().metadata().map_err(error)?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(stored.bytes()))).map_err(error)?;
        } else {
            file.seek(SeekFrom::Start(skip as u64)).map_err(error)?;
        }
        stored.image(file, path)
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

fn describe(fields: &HashMap<String, String>) -> Result<RawVoxels, String> {
    let numbers = |keys: &[&str]| -> Result<Option<Vec<f64>>, String> {
        let Some((key, text)) = keys.iter().find_map(|key| Some((key, fields.get(*key)?))) else { return Ok(None) };
        let parsed: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        let parsed = parsed.ok().filter(|all| all.iter().all(|number| number.is_finite()));
        parsed.map(Some).ok_or_else(|| format!("{key} is {text:?}; expected numbers"))
    };
    let whether = |key: &str| fields.get(key).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let dims = numbers(&["NDims"])?.and_then(|all| all.first().copied()).unwrap_or(0.0);
    if dims != 2.0 && dims != 3.0 {
        return Err(format!("NDims is {dims}; expected 2 or 3"));
    }
    let dims = dims as usize;
    let axes = |keys: &[&str], count: usize, default: &dyn Fn() -> Vec<f64>| -> Result<Vec<f64>, String> {
        let found = numbers(keys)?.unwrap_or_else(default);
        if found.len() == count {
            Ok(found)
        } else {
            Err(format!("{} has {} numbers; expected {count}", keys[0], found.len()))
        }
    };
    let sizes = axes(&["DimSize"], dims, &Vec::new)?;
    if sizes.iter().any(|size| *size < 1.0 || size.fract() != 0.0 || *size > f64::from(u32::MAX)) {
        return Err(format!("DimSize is {sizes:?}; expected whole numbers above 0"));
    }
    let spacing = axes(&["ElementSpacing", "ElementSize"], dims, &|| vec![1.0; dims])?;
    let origin = axes(&["Offset", "Position", "Origin"], dims, &|| vec![0.0; dims])?;
    let identity = || -> Vec<f64> { (0..dims * dims).map(|at| f64::from(u8::from(at % (dims + 1) == 0))).collect() };
    let matrix = axes(&["TransformMatrix", "Rotation", "Orientation"], dims * dims, &identity)?;
    let mut affine = hearth_image::affine::IDENTITY;
    for row in 0..dims {
        // From left and posterior to right and anterior.
        let sign = if row < 2 { -1.0 } else { 1.0 };
        for column in 0..dims {
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
    let size = |axis: usize| sizes.get(axis).map_or(1, |size| *size as usize);
    Ok(RawVoxels {
        shape: [size(0), size(1), size(2)],
        spatial_dims: dims,
        channels: channels as usize,
        interleaved: true,
        data_type,
        big_endian: whether("BinaryDataByteOrderMSB") || whether("ElementByteOrderMSB"),
        packing,
        affine,
    })
}
