//! Writes labels as DICOM objects that refer to the series they were drawn on: SEG, RTSTRUCT,
//! report.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hearth_dicom::write::{self, Code, Coding, SegmentationType};
use hearth_dicom::{Authorship, DicomError, Grid, Region, RegionVolume, Series};
use hearth_image::Image;

use super::layers::Layers;
use super::{Segment, WriteError};

/// A kind of DICOM file that holds regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionFile {
    /// SEG: regions as voxels.
    Segmentation(SegmentationType),
    /// RTSTRUCT: regions as contours.
    StructureSet,
    /// SR: volumes and diameters; refers to a SEG of this kind that is written with the same
    /// authorship.
    Report(Option<SegmentationType>),
}

impl RegionFile {
    /// Encodes the file.
    ///
    /// # Errors
    /// Those of [`mod@write`].
    pub fn bytes(self, regions: &RegionVolume, series: &Series, by: &Authorship) -> Result<Vec<u8>, DicomError> {
        match self {
            RegionFile::Segmentation(kind) => write::segmentation_as(kind, regions, series, by),
            RegionFile::StructureSet => write::structure_set(regions, series, by),
            RegionFile::Report(seg) => {
                let reference = seg.map(|kind| write::reference(kind, regions, series, by));
                write::report(regions, series, by, reference.as_ref())
            }
        }
    }
}

/// Converts a label map, layers of labels, or a channel for each segment to regions; labels without a
/// segment are named `Segment_1` and so on. A segment's codes are those of the table for its name, or else
/// its own. Regions of layers whose labels repeat are numbered from 1.
///
/// # Errors
/// If the image has values that are not labels, or segments do not suit its channels.
pub fn regions_of(
    path: &Path,
    image: &Image,
    segments: &[Segment],
    codes: &BTreeMap<String, Coding>,
) -> Result<RegionVolume, WriteError> {
    let format = |what: String| WriteError::Format { path: path.to_owned(), what };
    let layers = Layers::of(image, segments).map_err(format)?;
    let labels: BTreeSet<u32> = layers.segments.iter().map(|segment| segment.label).collect();
    let unique = labels.len() == layers.segments.len();
    let region = |(place, segment): (usize, &Segment)| {
        let label = if unique { segment.label } else { place as u32 + 1 };
        let mut region = Region::new(label, segment.name.clone());
        region.color = Some(segment.colour);
        region.coding = coding_of(codes, &region.name).or_else(|| segment.coding.clone());
        region
    };
    let regions = layers.segments.iter().enumerate().map(region).collect();
    let grid = Grid::new(image.shape(), image.affine);
    Ok(match image.channels() {
        1 => RegionVolume::of_labels(image.to_vec(), regions, grid),
        _ => RegionVolume::of_channels(layers.channels(), regions, grid),
    })
}

/// Looks up a name in a table, ignoring case.
pub fn coding_of(codes: &BTreeMap<String, Coding>, name: &str) -> Option<Coding> {
    codes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, coding)| coding.clone())
}

/// Parses a table of codes: TOML with a table for each label's name, with `category`, `type`,
/// optionally `side` and, for a lesion, `site`, each as code, coding scheme and meaning.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"
/// ["liver tumour"]
/// category = ["49755003", "SCT", "Morphologically Abnormal Structure"]
/// type = ["108369006", "SCT", "Neoplasm"]
/// site = ["10200004", "SCT", "Liver"]
/// "#;
/// let codes = hearth_io::writers::parse_codes(text)?;
/// assert_eq!(codes["liver tumour"].kind.meaning, "Neoplasm");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// A message with the label and what is wrong with its codes.
pub fn parse_codes(text: &str) -> Result<BTreeMap<String, Coding>, String> {
    /// One entry as written in the table.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        category: [String; 3],
        r#type: [String; 3],
        site: Option<[String; 3]>,
        side: Option<[String; 3]>,
    }
    let entries: BTreeMap<String, Entry> = toml::from_str(text).map_err(|error| error.to_string())?;
    let code = |name: &str, [value, scheme, meaning]: [String; 3]| {
        let code = Code::new(value, scheme, meaning);
        match code.fault() {
            Some(fault) => Err(format!("the codes of {name:?}: {fault}")),
            None => Ok(code),
        }
    };
    let coding = |(name, entry): (String, Entry)| -> Result<(String, Coding), String> {
        let Entry { category, r#type, site, side } = entry;
        let (category, kind) = (code(&name, category)?, code(&name, r#type)?);
        let [site, side] = [site, side].map(|of| of.map(|of| code(&name, of)).transpose());
        Ok((name, Coding { site: site?, side: side?, ..Coding::new(category, kind) }))
    };
    entries.into_iter().map(coding).collect()
}

/// Reads a table of codes from a file; see [`parse_codes`].
///
/// # Errors
/// Those of [`parse_codes`], and if the file cannot be read.
pub fn read_codes(path: impl AsRef<Path>) -> Result<BTreeMap<String, Coding>, WriteError> {
    let path = path.as_ref();
    let io = |source| WriteError::Io { path: path.to_owned(), source };
    let text = hearth_files::read_to_string(path).map_err(io)?;
    parse_codes(&text).map_err(|what| WriteError::Format { path: path.to_owned(), what })
}
