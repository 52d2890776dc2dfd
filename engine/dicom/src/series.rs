//! Series, and their conversion to volumes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::error::DicomError;
use crate::finding::{Finding, FindingKind, Severity};
use crate::geometry::Grid;
use crate::image::ImageFile;
use crate::options::ReadOptions;
use crate::pixels::{FrameReader, Photometric, check_expansion};
use crate::stack::{Slice, Stack};
use crate::syntax::TransferSyntax;
use crate::volume::{Rescale, Volume};

/// The largest number of bytes of decoded slices held at once.
const BATCH: usize = 256 << 20;

/// The number of columns that one thread moves into the volume at once.
const BLOCK: usize = 16;

/// The slices of one volume, in order along their normal.
#[derive(Clone, Debug)]
pub struct Series {
    slices: Vec<Slice>,
    grid: Grid,
    findings: Vec<Finding>,
    key: Option<String>,
    parts: Vec<String>,
}

impl Series {
    pub(crate) fn new(stack: Stack) -> Self {
        let Stack { slices, grid, findings, key, parts } = stack;
        Series { slices, grid, findings, key, parts }
    }

    fn first(&self) -> &ImageFile {
        &self.slices[0].file
    }

    /// SeriesInstanceUID; empty if missing. Slices of one UID that cannot be stacked, or that lie at the
    /// same positions, become several series with different [keys](Self::key).
    pub fn uid(&self) -> &str {
        &self.first().identity.series
    }

    /// The key of this volume among those with the same SeriesInstanceUID: `echo2`, `b1000-3`,
    /// `localizer`; `None` if it is the only one. It consists of lower-case letters, digits and `._-`.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The name by which [`Scan::select`](crate::Scan::select) finds this volume: `UID`, or `UID#KEY`.
    pub fn name(&self) -> String {
        self.key().map_or_else(|| self.uid().to_owned(), |key| format!("{}#{key}", self.uid()))
    }

    /// Whether a key names this volume: its own key, or, such as where the other volumes are elsewhere,
    /// parts that it has.
    pub(crate) fn answers_to(&self, key: &str) -> bool {
        let has = |part: &str| self.parts.iter().any(|own| own.eq_ignore_ascii_case(part));
        !key.is_empty() && (self.is_called(key) || key.split('-').all(has))
    }

    pub(crate) fn is_called(&self, key: &str) -> bool {
        self.key().is_some_and(|own| own.eq_ignore_ascii_case(key))
    }

    /// SeriesDescription.
    pub fn description(&self) -> Option<&str> {
        self.first().identity.series_description.as_deref()
    }

    /// SeriesNumber.
    pub fn number(&self) -> Option<i64> {
        self.first().identity.series_number
    }

    /// Modality: `CT`, `MR`, `PT`, ...
    pub fn modality(&self) -> &str {
        &self.first().identity.modality
    }

    /// The transfer syntax of its first file: the compression of the pixels.
    pub fn transfer_syntax(&self) -> &TransferSyntax {
        &self.first().syntax
    }

    /// StudyInstanceUID; empty if missing.
    pub fn study(&self) -> &str {
        &self.first().identity.study
    }

    /// PatientID.
    pub fn patient(&self) -> Option<&str> {
        self.first().identity.patient.as_deref()
    }

    /// FrameOfReferenceUID: images that share it lie in the same coordinates.
    pub fn frame_of_reference(&self) -> Option<&str> {
        self.first().identity.frame_of_reference.as_deref()
    }

    /// The slices, in the order of the volume.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The files without duplicates, in the order of the volume.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut seen = std::collections::HashSet::new();
        self.slices.iter().map(|s| s.path()).filter(|p| seen.insert(*p)).map(ToOwned::to_owned).collect()
    }

    /// The shape `[C, X, Y, Z]` of its volume.
    pub fn shape(&self) -> [usize; 4] {
        let [x, y, z] = self.grid.shape();
        [self.first().format.channels(), x, y, z]
    }

    /// The positions of its voxels.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The findings. Those of severity error must be accepted before the series is read.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// A summary in one line: modality, description, size, UID and key.
    pub fn summary(&self) -> String {
        let [c, x, y, z] = self.shape();
        let colors = if c > 1 { format!(" x {c} colours") } else { String::new() };
        let description = self.description().map(|d| format!(" {d:?}")).unwrap_or_default();
        let name = match self.uid() {
            "" => self.key().map_or_else(String::new, |key| format!(", #{key}")) + ", no SeriesInstanceUID",
            _ => format!(", {}", self.name()),
        };
        format!("{}{description}, {x} x {y} x {z}{colors}{name}", self.modality())
    }

    /// Reads the series with default options.
    ///
    /// # Errors
    /// As [`Series::read_with`].
    pub fn read(&self) -> Result<Volume, DicomError> {
        self.read_with(&ReadOptions::default())
    }

    /// Reads and decodes the slices in parallel. In addition to the volume, at most 256 MiB of
    /// decoded slices are held at once (or one slice per thread, if slices are larger).
    ///
    /// # Errors
    /// If findings of severity error are not accepted, a file is damaged or has changed since it
    /// was scanned, its pixels cannot be decoded, or limits are exceeded.
    pub fn read_with(&self, options: &ReadOptions) -> Result<Volume, DicomError> {
        let refused = |f: &&Finding| f.severity == Severity::Error && !options.accept.contains(&f.kind);
        let faults: Vec<Finding> = self.findings.iter().filter(refused).cloned().collect();
        if !faults.is_empty() {
            return Err(DicomError::Findings { series: self.summary(), findings: faults });
        }
        let shape = self.shape();
        let total = shape.iter().map(|n| *n as u64).product::<u64>();
        let limit = options.limits.volume_values;
        if total > limit {
            let what = format!("{} has {total} values; the limit is {limit} (Limits::volume_values)", self.summary());
            return Err(DicomError::Limit { path: self.first().path.clone(), what });
        }
        let readers = self.readers()?;
        self.check_expansion(&readers, options)?;
        let mut values = vec![0.0; total as usize];
        let slice_bytes = shape[0] * shape[1] * shape[2] * size_of::<f32>();
        let batch = at_once(slice_bytes, rayon::current_num_threads());
        for (number, slices) in self.slices.chunks(batch).enumerate() {
            let decode = |s: &Slice| s.file.values(&readers[s.path()], s.frame, options);
            let decoded: Vec<Vec<f32>> = slices.par_iter().map(decode).collect::<Result<_, _>>()?;
            insert(&mut values, shape, number * batch, &decoded);
        }
        Ok(self.volume(values, options))
    }

    /// Readers of the frames of each file.
    fn readers(&self) -> Result<HashMap<&Path, FrameReader>, DicomError> {
        let files: HashMap<&Path, &ImageFile> = self.slices.iter().map(|s| (s.path(), s.file.as_ref())).collect();
        files.into_par_iter().map(|(path, file)| Ok((path, file.frame_reader()?))).collect()
    }

    /// Rejects compressed slices that together claim a larger size than they can have, before the
    /// volume is allocated.
    fn check_expansion(&self, readers: &HashMap<&Path, FrameReader>, options: &ReadOptions) -> Result<(), DicomError> {
        let (mut compressed, mut decoded) = (0, 0);
        for slice in &self.slices {
            if let Some(bytes) = readers[slice.path()].compressed(slice.frame()) {
                compressed += bytes;
                decoded += slice.file.format.decoded_bytes();
            }
        }
        check_expansion(&self.first().path, compressed, decoded, &options.limits)
    }

    fn volume(&self, values: Vec<f32>, options: &ReadOptions) -> Volume {
        let first = self.first();
        let info = self.slices[0].info();
        let rescale = Rescale { slope: info.slope, intercept: info.intercept };
        let same = |s: &Slice| (s.info().slope, s.info().intercept) == (info.slope, info.intercept);
        let plain = options.rescale && info.lut.is_none();
        let mut findings = self.findings.clone();
        if first.format.photometric == Photometric::Monochrome1 {
            let what = if first.inverts(options) {
                "values were inverted, so that large is bright"
            } else {
                "values were not inverted"
            };
            let text = format!("MONOCHROME1 (small values are meant to be shown white): {what}");
            findings.push(Finding::new(FindingKind::Monochrome1, Severity::Note, text));
        }
        Volume {
            values,
            shape: self.shape(),
            affine: *self.grid.affine(),
            stored_type: first.format.stored_type(),
            modality: self.modality().to_owned(),
            units: info.units.clone().filter(|_| options.rescale),
            rescale: (plain && self.slices.iter().all(same)).then_some(rescale),
            padding: first.padding,
            series_uid: self.uid().to_owned(),
            series_description: self.description().map(ToOwned::to_owned),
            patient: self.patient().map(ToOwned::to_owned),
            study_uid: self.study().to_owned(),
            frame_of_reference: self.frame_of_reference().map(ToOwned::to_owned),
            files: self.slices.iter().map(|s| s.path().to_owned()).collect(),
            findings,
            grid: self.grid.clone(),
        }
    }
}

/// The number of slices decoded at once: 64 if they fit, and at least one for each thread.
fn at_once(slice_bytes: usize, threads: usize) -> usize {
    (BATCH / slice_bytes.max(1)).min(64).max(threads)
}

/// Moves decoded slices (channel, row, column) into the volume (channel, column, row, slice),
/// several columns per thread.
fn insert(values: &mut [f32], [_, x, y, z]: [usize; 4], first: usize, slices: &[Vec<f32>]) {
    for (c, channel) in values.chunks_exact_mut(x * y * z).enumerate() {
        channel.par_chunks_mut(BLOCK * y * z).enumerate().for_each(|(block, columns)| {
            let width = columns.len() / (y * z);
            for row in 0..y {
                let at = (c * y + row) * x + block * BLOCK;
                for column in 0..width {
                    let line = &mut columns[(column * y + row) * z + first..][..slices.len()];
                    for (value, slice) in line.iter_mut().zip(slices) {
                        *value = slice[at + column];
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{at_once, insert};

    #[test]
    fn each_thread_has_a_slice_however_many_there_are() {
        let slice = 512 * 512 * 4;
        assert_eq!(at_once(slice, 2), 64);
        assert_eq!(at_once(1 << 40, 2), 2, "large slices");
        assert_eq!(at_once(0, 2), 64, "empty slices");
        for threads in [64, 65, 128, 1024] {
            assert_eq!(at_once(slice, threads), threads);
        }
    }

    #[test]
    fn slices_are_transposed_into_the_volume() {
        let (c, x, y, z) = (2, 37, 5, 7);
        let value = |c: usize, x: usize, y: usize, z: usize| (((c * 100 + x) * 100 + y) * 100 + z) as f32;
        let slice = |k: usize| -> Vec<f32> {
            (0..c).flat_map(|c| (0..y).flat_map(move |j| (0..x).map(move |i| value(c, i, j, k)))).collect()
        };
        let mut values = vec![-1.0; c * x * y * z];
        insert(&mut values, [c, x, y, z], 0, &[slice(0), slice(1), slice(2)]);
        insert(&mut values, [c, x, y, z], 3, &[slice(3), slice(4), slice(5), slice(6)]);
        let mut expected = Vec::new();
        for c in 0..c {
            for i in 0..x {
                for j in 0..y {
                    expected.extend((0..z).map(|k| value(c, i, j, k)));
                }
            }
        }
        assert_eq!(values, expected);
    }
}
