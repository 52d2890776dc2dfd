//! Writes NIfTI files.

use std::path::Path;

use hearth_image::{Image, affine};

use super::{DataType, Header, NiftiError, header_bytes, voxels};

/// Options of writing an image.
///
/// ```
/// use hearth_image::{Image, affine, host_device};
/// use hearth_io::{NiftiOptions, read_nifti, write_nifti};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("labels.nii.gz");
/// let labels = Image::from_values(vec![0.0, 1.0, 300.0], [1, 3, 1, 1], affine::IDENTITY, &host_device());
/// write_nifti(&path, &labels, NiftiOptions::label())?;
/// assert_eq!(read_nifti(&path)?.meta.stored_type, "uint16"); // 300 does not fit u8
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NiftiOptions {
    /// Type of the stored values; for a [label map](Self::label) the narrowest that may be chosen.
    pub data_type: DataType,
    /// Whether the type is the narrowest integer type that holds all values.
    widens: bool,
    /// Slope and offset: `value = stored * slope + offset`.
    pub scaling: Option<(f64, f64)>,
    /// gzip level, 1 (fast) to 12 (small), for names that end in `.gz`.
    pub level: i32,
    /// Description in the header, at most 79 bytes; by default that of the image's source file.
    pub description: Option<String>,
}

impl Default for NiftiOptions {
    fn default() -> Self {
        NiftiOptions { data_type: DataType::F32, widens: false, scaling: None, level: 4, description: None }
    }
}

impl NiftiOptions {
    /// f32 values.
    pub fn image() -> Self {
        NiftiOptions::default()
    }

    /// Options for a label map: the first of u8, u16, u32, i16 and i32 that holds all labels.
    pub fn label() -> Self {
        NiftiOptions { data_type: DataType::U8, widens: true, ..NiftiOptions::default() }
    }

    /// These options with a type of whole numbers, without scaling.
    pub(crate) fn for_labels(mut self) -> Self {
        self.scaling = None;
        if matches!(self.data_type, DataType::F32 | DataType::F64) {
            (self.data_type, self.widens) = (DataType::U8, true);
        }
        self
    }

    /// The type in which these values are stored.
    pub(crate) fn type_of(&self, values: &[f32]) -> DataType {
        if !self.widens {
            return self.data_type;
        }
        let bounds = values.iter().fold([0.0_f32; 2], |[low, high], value| [low.min(*value), high.max(*value)]);
        let [low, high] = bounds.map(f64::from);
        let fits = |least: f64, most: f64| least <= low && high <= most;
        match () {
            () if fits(0.0, 255.0) => DataType::U8,
            () if fits(0.0, f64::from(u16::MAX)) => DataType::U16,
            () if fits(0.0, f64::from(u32::MAX)) => DataType::U32,
            () if fits(f64::from(i16::MIN), f64::from(i16::MAX)) => DataType::I16,
            () => DataType::I32,
        }
    }

    /// Stores values in this type.
    pub fn data_type(mut self, data_type: DataType) -> Self {
        (self.data_type, self.widens) = (data_type, false);
        self
    }

    /// Stores `(value - offset) / slope`.
    pub fn scaling(mut self, slope: f64, offset: f64) -> Self {
        self.scaling = Some((slope, offset));
        self
    }

    /// Sets the description, of which the first 79 bytes are stored.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the gzip level, 1 (fast) to 12 (small).
    pub fn level(mut self, level: i32) -> Self {
        self.level = level;
        self
    }
}

/// Writes a NIfTI file (gzip if the name ends in `.gz`), with the affine as both sform and qform. The file
/// gets its name only when it is complete.
///
/// Units, description, the first frame's time, the further axes and the codes of the affines are those of the
/// image's source file; on its grid, the timing of slices too. So are the intent and the auxiliary file,
/// unless a [label map](NiftiOptions::label) is written from an image without the intent of labels, and the
/// display range, unless it does not suit the values: that of a CT is not written with labels or scaled
/// values.
///
/// # Errors
/// If a value does not fit the type, or an I/O error occurs.
pub fn write_nifti(path: impl AsRef<Path>, image: &Image, options: NiftiOptions) -> Result<(), NiftiError> {
    let path = path.as_ref();
    let wrong = wrong(path);
    if options.scaling.is_some_and(|(s, o)| s == 0.0 || !s.is_finite() || !o.is_finite()) {
        return Err(wrong(format!("a scaling of {:?} can't be undone", options.scaling)));
    }
    let values = image.to_vec();
    let options = NiftiOptions { data_type: options.type_of(&values), ..options };
    let mut bytes = header_bytes::to_bytes(&header(image, &options, &values));
    bytes.extend(voxels::pack(&values, options.data_type, options.scaling, image.data.dims()).map_err(wrong)?);
    put(path, bytes, options.level)
}

fn wrong(path: &Path) -> impl Fn(String) -> NiftiError + Copy {
    |what| NiftiError::Write { path: path.to_owned(), what }
}

/// The form in which the affine of a label map is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelAffine {
    /// As matrix and as quaternion, both with code 1 (scanner), like SimpleITK.
    Both,
    /// As a matrix with code 2 (aligned) only, like nibabel.
    Matrix,
}

/// Writes labels in the order of the file, first axis fastest, on the grid of another file: its
/// first three axes and its affine, in mm. They are stored as u8, or as u16 if `wide`.
///
/// # Errors
/// If the number of labels is not that of voxels, a label does not fit, or an I/O error occurs.
pub fn write_nifti_labels(
    path: impl AsRef<Path>,
    grid: &Header,
    labels: &[u16],
    wide: bool,
    how: LabelAffine,
) -> Result<(), NiftiError> {
    let path = path.as_ref();
    let wrong = wrong(path);
    let dim: Vec<usize> = grid.dim.iter().copied().take(3).collect();
    if labels.len() != dim.iter().product::<usize>() {
        return Err(wrong(format!("{} labels for {dim:?} voxels", labels.len())));
    }
    let data_type = if wide { DataType::U16 } else { DataType::U8 };
    let version = if dim.iter().any(|d| *d > i16::MAX as usize) { 2 } else { 1 };
    let mut header = Header::default();
    header.version = version;
    header.dim = dim;
    header.datatype = data_type.code();
    header.xyzt_units = 2;
    header.set_affine(&grid.affine(), 1);
    if how == LabelAffine::Matrix {
        (header.sform_code, header.qform_code) = (2, 0);
    }
    let mut bytes = header_bytes::to_bytes(&header);
    if wide {
        bytes.extend(labels.iter().flat_map(|label| label.to_le_bytes()));
    } else if let Some(label) = labels.iter().find(|label| **label > 255) {
        return Err(wrong(format!("the label {label} does not fit {}", data_type.name())));
    } else {
        bytes.extend(labels.iter().map(|label| *label as u8));
    }
    put(path, bytes, NiftiOptions::default().level)
}

/// Writes a file atomically, compressed if its name ends in `.gz`.
fn put(path: &Path, mut bytes: Vec<u8>, level: i32) -> Result<(), NiftiError> {
    let wrong = wrong(path);
    if path.extension().is_some_and(|e| e == "gz") {
        let level =
            libdeflater::CompressionLvl::new(level).map_err(|_| wrong(format!("there is no gzip level {level}")))?;
        let mut compressor = libdeflater::Compressor::new(level);
        let mut packed = vec![0; compressor.gzip_compress_bound(bytes.len())];
        let n = compressor.gzip_compress(&bytes, &mut packed).map_err(|e| wrong(format!("gzip: {e}")))?;
        packed.truncate(n);
        bytes = packed;
    }
    hearth_files::replace(path, &bytes).map_err(|source| NiftiError::Io { path: path.to_owned(), source })
}

fn header(image: &Image, options: &NiftiOptions, values: &[f32]) -> Header {
    let [c, x, y, z] = image.data.dims();
    let mut dim = vec![x, y];
    if image.meta.spatial_dims > 2 || c > 1 {
        dim.push(z);
    }
    if c > 1 {
        dim.push(c);
    }
    let mut header = Header::default();
    let mut codes = [1; 2];
    if let Some(source) = &image.meta.header {
        header.xyzt_units = source.xyzt_units;
        header.descrip = source.descrip;
        header.toffset = source.toffset;
        codes = codes_of(source);
        let further = source.dim.get(3..).unwrap_or_default();
        if c > 1 && further.iter().product::<usize>() == c {
            dim.truncate(3);
            dim.extend(further);
            header.pixdim[4..].copy_from_slice(&source.pixdim[4..]);
        } else if c > 1 && source.dim.len() == 4 {
            header.pixdim[4] = source.pixdim[4];
        }
        keep_meaning(&mut header, source, options.widens, values);
        if image.shape()[..] == shape_of(source) && affine::distance(&image.affine, &source.rectified_affine()) < SAME {
            (header.dim_info, header.slices) = (source.dim_info, source.slices);
            (header.slice_code, header.slice_duration) = (source.slice_code, source.slice_duration);
        }
    }
    if let Some(description) = &options.description {
        header.descrip = [0; 80];
        // The last byte stays zero: C strings end with it.
        header.descrip[..79].iter_mut().zip(description.bytes()).for_each(|(to, from)| *to = from);
    }
    if dim.iter().any(|d| *d > i16::MAX as usize) {
        header.version = 2;
    }
    header.dim = dim;
    header.datatype = options.data_type.code();
    (header.scl_slope, header.scl_inter) = options.scaling.unwrap_or((1.0, 0.0));
    header.set_affine(&image.affine, codes[0]);
    if header.qform_code > 0 {
        header.qform_code = codes[1];
    }
    header
}

/// The distance in mm up to which two affines are the same.
const SAME: f64 = 1e-3;

/// The lengths of the first three axes.
fn shape_of(header: &Header) -> [usize; 3] {
    std::array::from_fn(|axis| header.dim.get(axis).copied().unwrap_or(1))
}

/// The codes of matrix and quaternion; one that is missing is that of the other, and two that lie apart
/// become one.
fn codes_of(source: &Header) -> [i32; 2] {
    let either = [source.sform_code, source.qform_code].into_iter().find(|code| *code > 0).unwrap_or(1);
    if source.sform_code > 0 && source.qform_code > 0 && source.conflict().is_none() {
        return [source.sform_code, source.qform_code];
    }
    [either; 2]
}

/// `NIFTI_INTENT_LABEL`
const LABELS: i32 = 1002;

/// Keeps the fields about what the values mean where they still hold: a prediction has the header of its
/// image, and transforms change values.
fn keep_meaning(header: &mut Header, source: &Header, labels: bool, values: &[f32]) {
    let [most, least] = source.cal;
    if most > least {
        let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(f64::from(*value)), high.max(f64::from(*value)))
        });
        let holds = match labels {
            // The range of an image does not apply to labels that were drawn on it.
            true => low <= least && most <= high,
            // That of other values is much wider than scaled ones, or lies apart.
            false => least < high && low < most && most - least <= 10.0 * (high - low),
        };
        header.cal = if holds { source.cal } else { header.cal };
    }
    if !labels || source.intent_code == LABELS {
        (header.intent_code, header.intent_p) = (source.intent_code, source.intent_p);
        (header.intent_name, header.aux_file) = (source.intent_name, source.aux_file);
    }
}
