//! The probability map of a whole slide.

use hearth_data::slides::{Feature, Geometry};
use hearth_data::transforms::ProbNMS;
use hearth_data::{Image, OneOrMany, affine};
use hearth_recipe::Outcome;
use hearth_recipe::task::Patches;

use crate::ensemble::Disagreement;

/// A detection in a map: its probability, and its row and column.
pub type Peak = (f32, [usize; 2]);

/// The probability map of a slide, with a value for each pixel of a reduced slide; 0 outside of tissue.
#[derive(Clone, Debug, PartialEq)]
pub struct SlideMap {
    /// The number of rows and columns.
    pub shape: [usize; 2],
    /// The values, row by row.
    pub values: Vec<f64>,
    /// Maps of the disagreement between the members of an ensemble, with the same shape, by name.
    pub disagreement: Vec<(Disagreement, Vec<f64>)>,
    /// The detections in the map.
    pub peaks: Vec<Peak>,
    /// The width and height of a pixel in pixels of level 0.
    pub scale: [f64; 2],
    /// The width and height of the slide at level 0.
    pub slide: (usize, usize),
    /// Micrometres per pixel of level 0.
    pub mpp: Option<f64>,
    /// The number of evaluated patches.
    pub patches: usize,
}

impl SlideMap {
    /// The map as an image `[1, rows, columns, 1]`.
    pub fn image(&self) -> Image {
        let values = self.values.iter().map(|value| *value as f32).collect();
        let shape = [1, self.shape[0], self.shape[1], 1];
        Image::from_values(values, shape, affine::IDENTITY, &hearth_data::host_device()).with_spatial_dims(2)
    }

    /// The peaks (MONAI's `PathologyProbNMS`): probability, and row and column of the map.
    ///
    /// # Errors
    /// None for a map of [`Trained::slide_map`](crate::run::Trained::slide_map).
    pub fn find_peaks(&self, how: &Patches) -> Outcome<Vec<Peak>> {
        let nms = ProbNMS::new("map", 2).prob_threshold(how.threshold).box_size(OneOrMany::One(how.box_size));
        let found = nms.detections(&self.image())?;
        Ok(found.into_iter().map(|peak| (peak.probability, [peak.at[0], peak.at[1]])).collect())
    }

    /// The detections as points at level 0, x before y, truncated to integers as in MONAI.
    pub fn features(&self, class: &str) -> Vec<Feature> {
        let place = |at: usize, scale: f64| ((at as f64 + 0.5) * scale).trunc();
        let feature = |(probability, [row, column]): &Peak| Feature {
            geometry: Geometry::Point([place(*column, self.scale[0]), place(*row, self.scale[1])]),
            name: String::new(),
            class: class.to_owned(),
            measurements: vec![("probability".to_owned(), f64::from(*probability))],
        };
        self.peaks.iter().map(feature).collect()
    }

    /// The map as 8-bit grey levels, 255 for a probability of 1.
    pub fn grey(&self) -> Vec<u8> {
        grey(&self.values, 1.0)
    }

    /// The map as an NPY file of f64, as MONAI's `ProbMapProducer` writes it.
    pub fn npy(&self) -> Vec<u8> {
        npy(&self.values, self.shape)
    }
}

/// Converts values to 8-bit grey levels, 255 for values of `most` and above.
pub fn grey(values: &[f64], most: f64) -> Vec<u8> {
    values.iter().map(|value| (value / most * 255.0).round().clamp(0.0, 255.0) as u8).collect()
}

/// An array of f64 as an NPY file (version 1.0).
pub fn npy(values: &[f64], [rows, columns]: [usize; 2]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    // Magic, version and length take 10 bytes; data begin at a multiple of 64.
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_lie_at_level_0_as_in_monai() {
        let mut values = vec![0.0; 60 * 50];
        values[10 * 50 + 20] = 0.9;
        values[12 * 50 + 22] = 0.8;
        values[55 * 50 + 49] = 0.7;
        let mut map = SlideMap {
            shape: [60, 50],
            values,
            disagreement: Vec::new(),
            peaks: Vec::new(),
            scale: [64.0; 2],
            slide: (3200, 3840),
            mpp: None,
            patches: 3,
        };
        map.peaks = map.find_peaks(&Patches { box_size: 8, ..Patches::default() }).expect("peaks");
        assert_eq!(map.peaks, [(0.9, [10, 20]), (0.7, [55, 49])]);
        let features = map.features("tumor");
        assert_eq!(features[0].geometry, Geometry::Point([1312.0, 672.0]));
        assert_eq!(map.grey()[10 * 50 + 20], 230);
    }

    #[test]
    fn an_npy_is_read_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("m.npy");
        std::fs::write(&path, npy(&[0.0, 0.5, 1.0, 0.25, 0.125, 0.75], [2, 3])).expect("written");
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!((bytes.len() - 48) % 64, 0);
        let image = hearth_data::read_image(&path).expect("an array");
        assert_eq!(image.shape()[..2], [2, 3]);
        assert_eq!(image.to_vec(), [0.0, 0.5, 1.0, 0.25, 0.125, 0.75]);
    }
}
