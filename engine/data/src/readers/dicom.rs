use std::fs::File;
use std::io::Read;
use std::path::Path;

use hearth_dicom::Severity;

use super::{Probe, ReadError, ReadOptions, Reader};
use crate::{Image, host_device};

/// So many files of a folder are looked at to tell whether it holds DICOM.
const LOOKED_AT: usize = 16;

/// DICOM: a file, or a folder with the slices of one series ([`hearth_dicom`]). Values are rescaled (HU, ...), the affine is RAS+.
///
/// What is odd about a series is a warning; what would make the volume wrong is an error. Of a folder with several series
/// `series` names one, by its UID or its description.
#[derive(Clone, Copy, Debug)]
pub struct DicomReader;

impl Reader for DicomReader {
    fn name(&self) -> &'static str {
        "DicomReader"
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
            let read = File::open(path).and_then(|file| file.take(super::START).read_to_end(&mut head));
            read.is_ok() && hearth_dicom::is_dicom(&head)
        })
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        let error = |e: hearth_dicom::DicomError| ReadError::new(path, e);
        let how = hearth_dicom::ReadOptions::default();
        let volume = match &options.series {
            None => hearth_dicom::read_path(path, &how).map_err(error)?,
            Some(wanted) => {
                let scan = hearth_dicom::scan_with(path, &how).map_err(error)?;
                let mut found = scan.series.iter().filter(|s| s.uid() == wanted || s.description() == Some(wanted));
                match (found.next(), found.next()) {
                    (Some(series), None) => series.read_with(&how).map_err(error)?,
                    (found, _) => {
                        let what = if found.is_some() { "several series are" } else { "no series is" };
                        let known: Vec<String> =
                            scan.series.iter().map(|s| format!("{} ({})", s.summary(), s.uid())).collect();
                        return Err(ReadError::new(
                            path,
                            format!("{what} called {wanted:?}; there are: {}", known.join("; ")),
                        ));
                    }
                }
            }
        };
        for finding in volume.findings.iter().filter(|finding| finding.severity >= Severity::Warning) {
            tracing::warn!("{}: {finding}", path.display());
        }
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
