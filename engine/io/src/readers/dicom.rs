use std::io::Read;
use std::path::Path;

use hearth_dicom::{DicomError, Finding, FindingKind, Scan, Severity};
use hearth_image::{Image, host_device};
use hearth_registry::unknown;

use super::{Probe, ReadError, ReadOptions, Reader, dicom_regions, room};

/// The number of files in a folder that are checked for DICOM.
const LOOKED_AT: usize = 16;

/// Reads DICOM: a file, or a folder with the slices of one series ([`hearth_dicom`]). Values are
/// rescaled (HU, ...), the affine is RAS+.
///
/// Findings about a series are warnings, or errors if the volume would be wrong. In a folder with
/// several series, `series` selects one by its UID, description, number or a rule, and by `UID#KEY`
/// one of several volumes with the same UID, such as echoes.
///
/// A structure set (RTSTRUCT) or segmentation (SEG) becomes a label map, or a channel for each
/// region, on the grid of the images it was drawn on: [`ReadOptions::reference`]. Without these
/// images a SEG is a label map of its own frames, which are often fewer than the slices;
/// `ResampleToMatch` with zeros outside maps it to the images' grid.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct DicomReader;

impl Reader for DicomReader {
    fn name(&self) -> &'static str {
        "DicomReader"
    }

    fn precedence(&self) -> u32 {
        5
    }

    fn suffixes(&self) -> &[&str] {
        &[".dcm", ".dicom", ".ima"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        if !probe.folder {
            return hearth_dicom::is_dicom(probe.start);
        }
        let Ok(entries) = std::fs::read_dir(probe.path) else { return false };
        let mut files = entries.flatten().map(|e| e.path()).filter(|p| p.is_file()).take(LOOKED_AT);
        files.any(|path| {
            let mut head = Vec::new();
            let read = hearth_files::open(path).and_then(|file| file.take(super::START).read_to_end(&mut head));
            read.is_ok() && hearth_dicom::is_dicom(&head)
        })
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        let mut how = hearth_dicom::ReadOptions::default();
        how.limits.volume_values = how.limits.volume_values.min(room() / 4);
        how.limits.inflated_bytes = how.limits.inflated_bytes.min(room());
        how.accept = accepted(&options.accept).map_err(|what| ReadError::new(path, what))?;
        how.aliases = options.aliases.iter().map(|(name, others)| (name.clone(), others.clone())).collect();
        let mut scan = hearth_dicom::scan_with(path, &how).map_err(|e| ReadError::new(path, e))?;
        if let Some(regions) = dicom_regions::read(path, &scan, options, &how)? {
            return Ok(regions);
        }
        match &options.series {
            Some(wanted) => {
                let at = named(&scan, path, wanted)?;
                scan.series = vec![scan.series.swap_remove(at)];
            }
            None if scan.series.len() > 1 => {
                let how = "`series` of LoadImage in a recipe, --series of `hearth` predict, data inspect and convert";
                let what = match scan.is_of_volumes() {
                    true => format!("several volumes in one series of images; name one by its key, as below ({how})"),
                    false => format!(
                        "several series of images; give a folder with the files of one, or name one by its UID, \
                         number, description or a rule ({how})"
                    ),
                };
                return Err(ReadError::new(path, format!("{what}: {}", scan.list())));
            }
            None => {}
        }
        let volume = scan.into_volume(path, &how).map_err(|e| refused(path, e))?;
        warn(path, &volume.findings);
        let [channels, x, y, z] = volume.shape;
        let mut image = Image::from_values(volume.values, volume.shape, volume.affine, &host_device());
        image.meta.path = Some(path.to_owned());
        image.meta.stored_type = volume.stored_type.name().to_owned();
        if channels > 1 {
            image.meta.original_shape = vec![x, y, z, channels];
            image.meta.original_channel_dim = Some(-1);
        }
        Ok(image)
    }
}

hearth_registry::entry!(dyn Reader => DicomReader, aliases: &["PydicomReader"], example: "", build: |_| Ok(Box::new(DicomReader)));

/// Parses the names of faults of a series, for [`ReadOptions::accept`].
///
/// # Errors
/// If a name is not that of a fault that can be accepted.
pub fn accepted(names: &[String]) -> Result<Vec<FindingKind>, String> {
    let known = FindingKind::ACCEPTABLE.map(|kind| kind.to_string());
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let one = |name: &String| FindingKind::acceptable(name).ok_or_else(|| unknown("fault", name, &known));
    names.iter().map(one).collect()
}

/// The error for the faults of a series, with the option that accepts them.
fn refused(path: &Path, error: DicomError) -> ReadError {
    let DicomError::Findings { series, findings } = error else { return ReadError::new(path, error) };
    let (mut kinds, mut texts) = (Vec::new(), Vec::new());
    for finding in findings {
        let kind = finding.kind.to_string();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
        texts.push(finding.text);
    }
    let how = format!(
        "accept = {kinds:?} of LoadImage in a recipe, --accept {} of `hearth` predict, evaluate, data inspect, verify and \
         convert, ReadOptions::accept in Rust",
        kinds.join(",")
    );
    ReadError::new(path, format!("series {series}: {}\nto read it all the same: {how}", texts.join("\n  ")))
}

/// Returns the one series with that name ([`Scan::select`]).
pub(super) fn named(scan: &Scan, path: &Path, wanted: &str) -> Result<usize, ReadError> {
    scan.select(wanted).map_err(|what| ReadError::new(path, what))
}

pub(super) fn warn(path: &Path, findings: &[Finding]) {
    for finding in findings.iter().filter(|finding| finding.severity >= Severity::Warning) {
        tracing::warn!("{}: {}", path.display(), finding.text);
    }
}
