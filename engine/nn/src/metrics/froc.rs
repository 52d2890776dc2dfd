//! Free-response receiver operating characteristic (`monai.metrics.froc`).

use super::MetricError;

/// Numbers of false positives per image at which the sensitivity is averaged, as in the CAMELYON16
/// challenge.
pub const EVAL_THRESHOLDS: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

const NAME: &str = "FROC";

/// The hits and false positives of the detections of one image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageHits {
    /// Probabilities of the detections that hit no target.
    pub fp_probs: Vec<f32>,
    /// The largest probability of a hit for every target; 0 for a target that is not hit or is
    /// excluded.
    pub tp_probs: Vec<f32>,
    /// Number of targets that are not excluded.
    pub num_targets: usize,
}

/// Compares detections with a map of targets, which are numbered from 1; 0 is background
/// (`compute_fp_tp_probs_nd`).
///
/// `shape` is that of the map, row-major; each detection is a voxel of it. A detection outside all
/// targets is a false positive; one on an excluded target is ignored.
///
/// # Errors
/// Fails if the map has another shape, or if a detection lies outside.
pub fn compute_fp_tp_probs_nd(
    detections: &[(f32, Vec<usize>)],
    mask: &[u32],
    shape: &[usize],
    labels_to_exclude: &[u32],
) -> Result<ImageHits, MetricError> {
    let fail = |reason: String| MetricError::Option { key: "", metric: NAME, reason };
    if shape.iter().product::<usize>() != mask.len() {
        return Err(fail(format!("a map of {} voxels does not have the shape {shape:?}", mask.len())));
    }
    let targets = mask.iter().copied().max().unwrap_or(0);
    let mut hits = ImageHits { tp_probs: vec![0.0; targets as usize], ..ImageHits::default() };
    hits.num_targets = (1..=targets).filter(|label| !labels_to_exclude.contains(label)).count();
    for (probability, at) in detections {
        if at.len() != shape.len() || at.iter().zip(shape).any(|(place, length)| place >= length) {
            return Err(fail(format!("a detection at {at:?} lies outside a map of shape {shape:?}")));
        }
        let index = at.iter().zip(shape).fold(0, |index, (place, length)| index * length + place);
        match mask[index] {
            0 => hits.fp_probs.push(*probability),
            label if labels_to_exclude.contains(&label) => {}
            label => {
                let best = &mut hits.tp_probs[label as usize - 1];
                *best = best.max(*probability);
            }
        }
    }
    Ok(hits)
}

/// Compares detections at `(y, x)` of level 0 of a slide with a map of targets at another level
/// (`compute_fp_tp_probs`).
///
/// # Errors
/// Fails if the map has another shape, or if a detection lies outside.
pub fn compute_fp_tp_probs(
    detections: &[(f32, [f64; 2])],
    mask: &[u32],
    shape: [usize; 2],
    labels_to_exclude: &[u32],
    resolution_level: u32,
) -> Result<ImageHits, MetricError> {
    let scale = f64::from(resolution_level).exp2();
    let mut placed = Vec::with_capacity(detections.len());
    for (probability, at) in detections {
        if let Some(wrong) = at.iter().find(|place| !(place.is_finite() && **place >= 0.0)) {
            let reason = format!("a detection at {wrong} lies outside the slide");
            return Err(MetricError::Option { key: "", metric: NAME, reason });
        }
        // Truncated, as in NumPy's astype(int).
        placed.push((*probability, at.iter().map(|place| (place / scale) as usize).collect()));
    }
    compute_fp_tp_probs_nd(&placed, mask, &shape, labels_to_exclude)
}

/// Sensitivity against false positives per image, starting at the lowest threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrocCurve {
    /// Number of false positives per image.
    pub fps_per_image: Vec<f64>,
    /// Share of targets that are found.
    pub sensitivity: Vec<f64>,
}

impl FrocCurve {
    /// The mean sensitivity at given numbers of false positives per image, interpolated linearly
    /// between the points and constant outside (`compute_froc_score`).
    pub fn score(&self, eval_thresholds: &[f64]) -> f64 {
        // Sorted by the number of false positives; the last of equal ones is used, as in NumPy.
        let points: Vec<(f64, f64)> =
            self.fps_per_image.iter().copied().zip(self.sensitivity.iter().copied()).rev().collect();
        let at = |x: f64| match points.partition_point(|(fps, _)| *fps <= x) {
            0 => points.first().map_or(f64::NAN, |(_, y)| *y),
            n if n == points.len() => points[n - 1].1,
            n => {
                let ((x0, y0), (x1, y1)) = (points[n - 1], points[n]);
                if x == x0 { y0 } else { (y1 - y0) / (x1 - x0) * (x - x0) + y0 }
            }
        };
        eval_thresholds.iter().map(|x| at(*x)).sum::<f64>() / eval_thresholds.len() as f64
    }
}

/// The free-response receiver operating characteristic over images.
///
/// ```
/// # use hearth_nn::metrics::{EVAL_THRESHOLDS, Froc, compute_fp_tp_probs_nd};
/// let mut froc = Froc::default();
/// froc.add(compute_fp_tp_probs_nd(&[(0.9, vec![0, 1]), (0.4, vec![1, 0])], &[0, 1, 0, 0], &[2, 2], &[])?);
/// assert_eq!(froc.curve().sensitivity, [1.0, 0.0]);
/// assert_eq!(froc.score(&EVAL_THRESHOLDS), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Froc {
    hits: ImageHits,
    images: usize,
}

impl Froc {
    /// Adds an image.
    pub fn add(&mut self, hits: ImageHits) {
        self.merge(Froc { hits, images: 1 });
    }

    /// Adds the images of another rank.
    pub fn merge(&mut self, other: Froc) {
        self.hits.fp_probs.extend(other.hits.fp_probs);
        self.hits.tp_probs.extend(other.hits.tp_probs);
        self.hits.num_targets += other.hits.num_targets;
        self.images += other.images;
    }

    /// The numbers of images and targets so far.
    pub fn totals(&self) -> (usize, usize) {
        (self.images, self.hits.num_targets)
    }

    /// The curve: one point per threshold (all probabilities except the smallest), and a last point
    /// without detections.
    pub fn curve(&self) -> FrocCurve {
        let sorted = |values: &[f32]| {
            let mut values = values.to_vec();
            values.sort_unstable_by(f32::total_cmp);
            values
        };
        let (fps, tps) = (sorted(&self.hits.fp_probs), sorted(&self.hits.tp_probs));
        let mut thresholds = sorted(&[fps.as_slice(), tps.as_slice()].concat());
        thresholds.dedup();
        let above = |values: &[f32], threshold: f32| values.len() - values.partition_point(|v| *v < threshold);
        let mut curve = FrocCurve::default();
        let mut point = |fp: usize, tp: usize| {
            curve.fps_per_image.push(fp as f64 / self.images as f64);
            curve.sensitivity.push(tp as f64 / self.hits.num_targets as f64);
        };
        thresholds.iter().skip(1).for_each(|t| point(above(&fps, *t), above(&tps, *t)));
        point(0, 0);
        curve
    }

    /// The mean sensitivity at given numbers of false positives per image; NaN if there are no
    /// images or targets.
    pub fn score(&self, eval_thresholds: &[f64]) -> f64 {
        self.curve().score(eval_thresholds)
    }
}

#[cfg(test)]
mod tests {
    use super::{EVAL_THRESHOLDS, Froc, ImageHits};

    /// The table of the recipes, recorded from MONAI.
    #[test]
    fn the_score_is_monais() {
        let image = |fp: &[f32], tp: &[f32], num_targets| ImageHits {
            fp_probs: fp.to_vec(),
            tp_probs: tp.to_vec(),
            num_targets,
        };
        let mut froc = Froc::default();
        froc.add(image(&[0.9, 0.6], &[0.95, 0.8], 2));
        froc.add(image(&[0.3], &[0.0, 0.5], 2));
        let curve = froc.curve();
        assert_eq!(curve.fps_per_image, [1.5, 1.0, 1.0, 0.5, 0.5, 0.0, 0.0]);
        assert_eq!(curve.sensitivity, [0.75, 0.75, 0.5, 0.5, 0.25, 0.25, 0.0]);
        assert_eq!(froc.score(&EVAL_THRESHOLDS), 0.625);
    }
}
