use std::fs::File;
use std::io::Read;
use std::path::Path;

use hearth_dicom::{Annotation, AnnotationKind, Finding, Scan, Segmentation, Series, Severity};

use super::{Probe, ReadError, ReadOptions, Reader};
use crate::{Image, host_device};

/// So many files of a folder are looked at to tell whether it holds DICOM.
const LOOKED_AT: usize = 16;

/// DICOM: a file, or a folder with the slices of one series ([`hearth_dicom`]). Values are rescaled (HU, ...), the affine is RAS+.
///
/// What is odd about a series is a warning; what would make the volume wrong is an error. Of a folder with several series
/// `series` names one, by its UID or its description.
///
/// A segmentation (SEG) becomes a label map of the frames it has, which are often fewer than the slices it was drawn on:
/// [`ResampleToMatch`](crate::transforms::ResampleToMatch) with zeros outside puts it on the grid of those.
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
        let how = hearth_dicom::ReadOptions::default();
        let mut scan = hearth_dicom::scan_with(path, &how).map_err(|e| ReadError::new(path, e))?;
        if !options.segments.is_empty() || scan.series.is_empty() {
            let of = |a: &&Annotation| a.kind == AnnotationKind::Segmentation;
            let files: Vec<&Path> = scan.annotations.iter().filter(of).map(|a| a.path.as_path()).collect();
            match files.as_slice() {
                [file] => return labels(path, file, &options.segments, &how),
                [] if options.segments.is_empty() => {}
                [] => return Err(ReadError::new(path, "`segments` are asked for, but there is no segmentation (SEG)")),
                several => {
                    let names: Vec<String> = several.iter().map(|f| f.display().to_string()).collect();
                    let what = format!("{} segmentations; give one of the files: {}", names.len(), names.join(", "));
                    return Err(ReadError::new(path, what));
                }
            }
        }
        match &options.series {
            Some(wanted) => keep_named(&mut scan, path, wanted)?,
            None if scan.series.len() > 1 => {
                let what = "several series of images; name one by `series`, its UID or description";
                return Err(ReadError::new(path, format!("{what}: {}", listed(&scan))));
            }
            None => {}
        }
        let volume = scan.into_volume(path, &how).map_err(|e| ReadError::new(path, e))?;
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

/// Drops all series but the one of that UID or description.
fn keep_named(scan: &mut Scan, path: &Path, wanted: &str) -> Result<(), ReadError> {
    let is_wanted = |series: &Series| series.uid() == wanted || series.description() == Some(wanted);
    let what = match scan.series.iter().filter(|series| is_wanted(series)).count() {
        1 => {
            scan.series.retain(is_wanted);
            return Ok(());
        }
        0 => format!("no series is called {wanted:?}; give a UID or description of those there are"),
        _ => format!("several series are called {wanted:?}; give a UID, or a folder with the files of one"),
    };
    Err(ReadError::new(path, format!("{what}: {}", listed(scan))))
}

/// A line for each series.
fn listed(scan: &Scan) -> String {
    scan.series.iter().map(|series| format!("\n  {}", series.summary())).collect()
}

/// The label map of a segmentation, on the grid of its own frames.
fn labels(path: &Path, file: &Path, names: &[String], how: &hearth_dicom::ReadOptions) -> Result<Image, ReadError> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let read = || {
        let segmentation = Segmentation::open_with(file, how)?;
        let grid = segmentation.own_grid()?;
        segmentation.labels(&names, &grid, how)
    };
    let map = read().map_err(|e| ReadError::new(path, e))?;
    warn(path, &map.findings);
    let mut image = Image::from_values(map.values, map.shape, *map.grid.affine(), &host_device());
    image.meta.path = Some(path.to_owned());
    let largest = map.regions.iter().map(|region| region.label).max().unwrap_or_default();
    image.meta.stored_type = if largest > 255 { "uint16" } else { "uint8" }.to_owned();
    Ok(image)
}

fn warn(path: &Path, findings: &[Finding]) {
    for finding in findings.iter().filter(|finding| finding.severity >= Severity::Warning) {
        tracing::warn!("{}: {finding}", path.display());
    }
}
