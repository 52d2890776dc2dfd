//! [`TotalLabels`]: labels, and the volume and mean intensity of each class.

use std::collections::BTreeMap;
use std::path::Path;

use hearth_nnunet::{Axes3, Volume};
use serde_json::{Map, Value, json};

use hearth_recipe::Outcome;
use hearth_recipe::nnunet::Grid;

/// A class within this distance of the image's border, in voxels, counts as cut by it.
const BORDER: usize = 3;

/// The result of a case.
#[derive(Debug)]
pub struct TotalLabels {
    /// The labels in the axes of the image as it was read, reordered to RAS.
    pub labels: Volume<u16>,
    pub(crate) grid: Grid,
    pub(crate) measured: Measured,
}

/// The measurements of all classes.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The classes, in the order of the labels.
    classes: Vec<(String, Measures)>,
    /// The volume of a voxel in mm³.
    voxel: f64,
}

/// The measurements of a class.
#[derive(Debug, Default)]
struct Measures {
    voxels: u64,
    /// The sum of the image's values, each truncated to an integer.
    sum: f64,
    /// Whether it comes within [`BORDER`] voxels of the image's border, so that a part may be outside.
    cut: bool,
}

impl TotalLabels {
    /// The grid of the labels: the image's file, and the reordering of its axes.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Writes the labels on the image's grid.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn write(&self, path: &Path) -> Outcome {
        let wide = self.labels.data.iter().any(|label| *label >= 255);
        self.grid.write(path, &self.labels, wide)
    }

    /// The volume in mm³ and the mean intensity of each class by name, as in TotalSegmentator's
    /// `statistics.json`: 0 for an empty class, and 0 for a class that the image's border may cut,
    /// unless `incomplete` ones are requested (its `--stats_include_incomplete`).
    pub fn statistics(&self, incomplete: bool) -> Value {
        let of = |(name, measures): &(String, Measures)| {
            let (volume, intensity) = match measures {
                Measures { voxels: 0, .. } => (0.0, 0.0),
                Measures { cut: true, .. } if !incomplete => (0.0, 0.0),
                Measures { voxels, sum, .. } => {
                    (*voxels as f64 * self.measured.voxel, five_digits(sum / *voxels as f64))
                }
            };
            (name.clone(), json!({"volume": volume, "intensity": intensity}))
        };
        Value::Object(self.measured.classes.iter().map(of).collect::<Map<String, Value>>())
    }

    /// Existing classes that the image's border may cut.
    pub fn incomplete(&self) -> impl Iterator<Item = &str> {
        self.measured.classes.iter().filter(|(_, measures)| measures.cut).map(|(name, _)| name.as_str())
    }
}

impl Measured {
    /// Measures labels on an image of the same size, with voxel sizes z y x in mm.
    pub fn of(names: &BTreeMap<u16, String>, labels: &Volume<u16>, image: &Volume, voxels: Axes3<f64>) -> Self {
        let mut found: BTreeMap<u16, Measures> = names.keys().map(|label| (*label, Measures::default())).collect();
        let [depth, height, width] = labels.shape;
        let near = |at: usize, of: usize| at < BORDER || at + BORDER >= of;
        let rows = labels.data.chunks(width.max(1)).zip(image.data.chunks(width.max(1)));
        for (row, (labels, values)) in rows.enumerate() {
            let outer = near(row / height.max(1), depth) || near(row % height.max(1), height);
            for (x, (label, value)) in labels.iter().zip(values).enumerate().filter(|(_, (label, _))| **label > 0) {
                if let Some(measures) = found.get_mut(label) {
                    measures.voxels += 1;
                    measures.sum += f64::from(value.trunc());
                    measures.cut |= outer || near(x, width);
                }
            }
        }
        let classes = names.iter().filter_map(|(label, name)| Some((name.clone(), found.remove(label)?)));
        Measured { classes: classes.collect(), voxel: voxels.iter().product() }
    }
}

/// Rounds to five decimal places, ties to even, like numpy's `round`.
fn five_digits(value: f64) -> f64 {
    (value * 1e5).round_ties_even() / 1e5
}
