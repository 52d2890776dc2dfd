//! A series converted to numbers.

use std::path::PathBuf;

use crate::finding::Finding;
use crate::geometry::{Affine, Grid};
use crate::pixels::StoredType;

/// The conversion from stored values to the modality's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rescale {
    /// RescaleSlope (or DoseGridScaling).
    pub slope: f64,
    /// RescaleIntercept.
    pub intercept: f64,
}

/// A volume: values and their positions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Volume {
    /// The values, row-major: `[C, X, Y, Z]`, Z fastest.
    pub values: Vec<f32>,
    /// The shape `[C, X, Y, Z]`: one channel, or three for red, green, blue; X along the rows of a
    /// slice, Y along its columns.
    pub shape: [usize; 4],
    /// The affine from voxel index to RAS+ mm. With a gantry tilt it is sheared.
    pub affine: Affine,
    /// The type of stored samples.
    pub stored_type: StoredType,
    /// Modality: `CT`, `MR`, `PT`, ...
    pub modality: String,
    /// Units as in the file: `HU`, `BQML`, `GY`, ...
    pub units: Option<String>,
    /// Slope and intercept of stored values, if they are the same for all slices (for PET they
    /// often differ).
    pub rescale: Option<Rescale>,
    /// The range of stored values that mark padding.
    pub padding: Option<(f64, f64)>,
    /// SeriesInstanceUID; empty if missing.
    pub series_uid: String,
    /// SeriesDescription.
    pub series_description: Option<String>,
    /// PatientID.
    pub patient: Option<String>,
    /// StudyInstanceUID; empty if missing.
    pub study_uid: String,
    /// FrameOfReferenceUID.
    pub frame_of_reference: Option<String>,
    /// The file of each slice, along Z.
    pub files: Vec<PathBuf>,
    /// The findings.
    pub findings: Vec<Finding>,
    pub(crate) grid: Grid,
}

impl Volume {
    /// The grid of the voxels, for masks and segmentations.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The value at channel and voxel; `None` outside.
    pub fn get(&self, [c, x, y, z]: [usize; 4]) -> Option<f32> {
        let [channels, nx, ny, nz] = self.shape;
        let inside = c < channels && x < nx && y < ny && z < nz;
        if inside { self.values.get(((c * nx + x) * ny + y) * nz + z).copied() } else { None }
    }
}
