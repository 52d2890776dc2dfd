//! Free-response receiver operating characteristic of tumours on slides
//! (`monai.apps.pathology.metrics.LesionFROC`).

use derive_setters::Setters;
use hearth_kernels::label::{LabelError, To, components, distances, fill_holes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MetricError;
use super::froc::{EVAL_THRESHOLDS, Froc, compute_fp_tp_probs_nd};

/// Counts the detected tumours and the false positives on slides, by the rules of the CAMELYON16
/// challenge.
///
/// Detections are peaks of a probability map (`ProbNMS`). Tumours closer than `grow_distance` are
/// counted as one. Tumours smaller than `itc_diameter` are isolated tumour cells; a detection on
/// one is ignored.
///
/// ```
/// # use hearth_nn::metrics::LesionFroc;
/// let mut froc = LesionFroc::default();
/// let mut tumour = vec![0; 40 * 40];
/// (10..30).for_each(|row| tumour[row * 40 + 10..row * 40 + 30].fill(1));
/// froc.add(&[(0.9, [15, 15]), (0.6, [2, 37])], Some(&tumour), [40, 40], 6, 0.243)?;
/// assert_eq!(froc.evaluate(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct LesionFroc {
    /// Distance in micrometres; half of it is added around every tumour.
    pub grow_distance: f64,
    /// Tumours with a longest diameter below this value, in micrometres, are isolated tumour cells.
    pub itc_diameter: f64,
    /// Numbers of false positives per slide at which the sensitivity is averaged.
    #[setters(into)]
    pub eval_thresholds: Vec<f64>,
    /// The slides collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub froc: Froc,
}

impl Default for LesionFroc {
    fn default() -> Self {
        LesionFroc {
            grow_distance: 75.0,
            itc_diameter: 200.0,
            eval_thresholds: EVAL_THRESHOLDS.to_vec(),
            froc: Froc::default(),
        }
    }
}

/// The tumours of a slide at one level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tumours {
    /// The number of the tumour from 1, or 0 for background, row-major.
    pub labels: Vec<u32>,
    /// The numbers of isolated tumour cells.
    pub isolated_cells: Vec<u32>,
}

const NAME: &str = "LesionFROC";

impl LesionFroc {
    /// Finds the tumours of a mask (0 is background) at a level of a slide. `pixel_spacing` is that
    /// of level 0, in micrometres.
    ///
    /// # Errors
    /// Fails if the mask has another shape, or if the spacing is not above 0.
    pub fn tumours(
        &self,
        mask: &[u8],
        shape: [usize; 2],
        level: u32,
        pixel_spacing: f64,
    ) -> Result<Tumours, MetricError> {
        let spacing = pixel_spacing * f64::from(level).exp2();
        if !(spacing.is_finite() && spacing > 0.0) {
            let reason = format!("pixel_spacing is {pixel_spacing}: expected micrometres above 0");
            return Err(MetricError::Option { key: "pixel_spacing", metric: NAME, reason });
        }
        let label = |e: LabelError| MetricError::from_label(NAME, e);
        let far = distances(mask, &shape, &[1.0; 2], To::Set).map_err(label)?;
        let reach = (self.grow_distance / (spacing * 2.0)) as f32;
        let mut grown: Vec<bool> = far.iter().map(|distance| *distance < reach).collect();
        fill_holes(&mut grown, &shape, 1, true).map_err(label)?;
        let labels = components(&grown, &shape, 2).map_err(label)?.labels();
        let smallest = (self.itc_diameter + self.grow_distance) / spacing;
        let lengths = major_axes(&labels, shape[1]);
        let small = lengths.iter().enumerate().filter(|(_, length)| **length < smallest);
        Ok(Tumours { isolated_cells: small.map(|(i, _)| i as u32 + 1).collect(), labels })
    }

    /// Adds a slide: its detections as probability and pixel (row, column) at the level, and its
    /// mask of tumours at that level. The mask is `None` for a normal slide, on which every
    /// detection is a false positive.
    ///
    /// # Errors
    /// Fails as [`tumours`](Self::tumours) does, and if a detection lies outside.
    pub fn add(
        &mut self,
        detections: &[(f32, [usize; 2])],
        mask: Option<&[u8]>,
        shape: [usize; 2],
        level: u32,
        pixel_spacing: f64,
    ) -> Result<(), MetricError> {
        let tumours = match mask {
            Some(mask) => self.tumours(mask, shape, level, pixel_spacing)?,
            None => Tumours { labels: vec![0; shape[0] * shape[1]], isolated_cells: Vec::new() },
        };
        let detections: Vec<(f32, Vec<usize>)> = detections.iter().map(|(p, at)| (*p, at.to_vec())).collect();
        let hits = compute_fp_tp_probs_nd(&detections, &tumours.labels, &shape, &tumours.isolated_cells)?;
        self.froc.add(hits);
        Ok(())
    }

    /// The mean sensitivity at `eval_thresholds`.
    pub fn evaluate(&self) -> f64 {
        self.froc.score(&self.eval_thresholds)
    }
}

/// Length of the major axis of the ellipse with the same second moments, for every label from 1 on
/// (scikit-image's `axis_major_length`).
fn major_axes(labels: &[u32], columns: usize) -> Vec<f64> {
    let count = labels.iter().copied().max().unwrap_or(0) as usize;
    // The count, the sums, and the sums of squares and products.
    let mut moments = vec![[0.0_f64; 6]; count];
    for (i, label) in labels.iter().enumerate().filter(|(_, label)| **label > 0) {
        let (r, c) = ((i / columns) as f64, (i % columns) as f64);
        let own = &mut moments[*label as usize - 1];
        own.iter_mut().zip([1.0, r, c, r * r, r * c, c * c]).for_each(|(sum, value)| *sum += value);
    }
    let length = |[n, r, c, rr, rc, cc]: &[f64; 6]| {
        let (rows, both, columns) = (rr / n - (r / n).powi(2), rc / n - r * c / (n * n), cc / n - (c / n).powi(2));
        let largest = (rows + columns) / 2.0 + ((rows - columns) / 2.0).hypot(both);
        4.0 * largest.max(0.0).sqrt()
    };
    moments.iter().map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::{LesionFroc, major_axes};

    #[test]
    fn a_line_is_as_long_as_scikit_image_says() {
        let line = [0, 1, 1, 1, 1, 0];
        // 4 sqrt((4^2 - 1) / 12)
        assert!((major_axes(&line, 6)[0] - 4.0 * (15.0_f64 / 12.0).sqrt()).abs() < 1e-12);
    }

    /// Recorded from MONAI and scikit-image.
    #[test]
    fn a_slanting_ellipse_has_the_recorded_axis() {
        let inside = |i: i32| {
            let (row, column) = (i / 60 - 30, i % 60 - 25);
            let (along, across) = (f64::from((row + column).pow(2)), f64::from((row - column).pow(2)));
            u8::from(along / 400.0 + across / 60.0 < 1.0)
        };
        let mask: Vec<u8> = (0..3600).map(inside).collect();
        let tumours = LesionFroc::default().tumours(&mask, [60, 60], 6, 0.243).expect("a mask");
        assert_eq!(tumours.labels.iter().filter(|label| **label > 0).count(), 393);
        assert!((major_axes(&tumours.labels, 60)[0] - 32.4698333278118).abs() < 1e-9);
    }

    #[test]
    fn near_tumours_are_one_and_small_ones_do_not_count() {
        let mut mask = vec![0; 60 * 60];
        let mut fill = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
            rows.for_each(|row| mask[row * 60 + columns.start..row * 60 + columns.end].fill(1));
        };
        fill(5..25, 5..15);
        fill(5..25, 18..28);
        fill(50..52, 50..52);
        let froc = LesionFroc::default();
        let tumours = froc.tumours(&mask, [60, 60], 6, 0.243).expect("a mask");
        assert_eq!(tumours.labels.iter().max(), Some(&2));
        assert_eq!(tumours.isolated_cells, [2]);
        // Recorded from MONAI and scikit-image.
        assert_eq!(tumours.labels.iter().filter(|label| **label > 0).count(), 674);
        let lengths = major_axes(&tumours.labels, 60);
        assert!((lengths[0] - 31.03048445854636).abs() < 1e-9 && (lengths[1] - 6.324555320336759).abs() < 1e-9);
        let mut froc = froc;
        froc.add(&[(0.7, [51, 51]), (0.8, [40, 40])], Some(&mask), [60, 60], 6, 0.243).expect("inside");
        assert_eq!(froc.froc.totals(), (1, 1));
        assert_eq!(froc.froc.curve().fps_per_image, [1.0, 0.0]);
        assert!(froc.add(&[(0.7, [60, 0])], None, [60, 60], 6, 0.243).is_err());
    }
}
