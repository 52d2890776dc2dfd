use std::collections::BTreeSet;

use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::filter::{self, Approximation};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample, Value};

/// Finds the peaks of a probability map of one channel: the largest value above `prob_threshold`,
/// then the largest outside the box of `box_size` voxels around it, and so on.
///
/// The key then holds numbers, `1 + spatial_dims` per peak: its probability and its voxel. `sigma`
/// smooths first, but only along the third axis: MONAI treats the first two axes of the map as
/// batch and channel.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ProbNMS};
/// let peaks = ProbNMS::new("image", 3).detections(&tiny::line([0.1, 0.9, 0.2]))?;
/// assert_eq!((peaks[0].probability, peaks[0].at), (0.9, [1, 0, 0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbNMS {
    keys: Keys,
    /// Number of axes of the image, 2 or 3.
    #[serde(default = "two")]
    spatial_dims: usize,
    #[serde(default)]
    sigma: OneOrMany<f64>,
    #[serde(default = "half")]
    prob_threshold: f64,
    #[serde(default = "box_size")]
    box_size: OneOrMany<usize>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// A peak of a probability map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// Value of the peak.
    pub probability: f32,
    /// Voxel of the peak; 0 on an axis that the map does not have.
    pub at: [usize; 3],
}

fn two() -> usize {
    2
}

fn half() -> f64 {
    0.5
}

fn box_size() -> OneOrMany<usize> {
    OneOrMany::One(48)
}

impl ProbNMS {
    /// Creates the transform: peaks above 0.5 in maps with this number of axes, with boxes of 48.
    pub fn new(keys: impl Into<Keys>, spatial_dims: usize) -> Self {
        ProbNMS {
            keys: keys.into(),
            spatial_dims,
            sigma: OneOrMany::default(),
            prob_threshold: half(),
            box_size: box_size(),
            allow_missing_keys: false,
        }
    }

    /// Finds the peaks of one map, highest first; equal ones in memory order.
    ///
    /// # Errors
    /// If the map has several channels or another number of axes.
    pub fn detections(&self, image: &Image) -> Result<Vec<Detection>, TransformError> {
        let n = self.spatial_dims;
        if image.channels() != 1 || image.meta.spatial_dims != n {
            let (c, found) = (image.channels(), image.meta.spatial_dims);
            return Err(TransformError::new(format!("a probability map of {found} axes and {c} channels"))
                .expected(format!("{n} axes (`spatial_dims`) and one channel")));
        }
        let mut image = image.clone();
        if self.sigma != OneOrMany::One(0.0) && n == 3 {
            // The kernel of the first axis is applied along the last: the effect of MONAI's filter
            // on a map without batch and channel.
            let sigma = [0.0, 0.0, self.sigma.at(0).unwrap_or_default()];
            let smooth = filter::gaussian(image.data, sigma, 4.0, Approximation::Erf);
            image.data = smooth.map_err(|e| TransformError::new(e.to_string()))?;
        }
        let values = image.to_vec();
        let threshold = self.prob_threshold as f32;
        let mut candidates: Vec<usize> = (0..values.len()).filter(|i| values[*i] > threshold).collect();
        candidates.sort_unstable_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
        let shape = image.shape();
        let boxes: [usize; 3] =
            std::array::from_fn(|axis| if axis < n { self.box_size.at(axis).unwrap_or(1) } else { 1 });
        let mut taken = vec![false; values.len()];
        let mut out = Vec::new();
        for index in candidates {
            if taken[index] {
                continue;
            }
            let at = [index / (shape[1] * shape[2]), index / shape[2] % shape[1], index % shape[2]];
            out.push(Detection { probability: values[index], at });
            let start: [usize; 3] = std::array::from_fn(|a| at[a].saturating_sub(boxes[a] / 2));
            let end: [usize; 3] = std::array::from_fn(|a| (at[a] + boxes[a] - boxes[a] / 2).min(shape[a]));
            for x in start[0]..end[0] {
                for y in start[1]..end[1] {
                    let line = (x * shape[1] + y) * shape[2];
                    taken[line + start[2]..line + end[2]].fill(true);
                }
            }
        }
        Ok(out)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        let n = self.spatial_dims;
        if !(2..=3).contains(&n) {
            return Err(Fault::at("spatial_dims", format!("{n}; expected 2 or 3")));
        }
        if self.prob_threshold.is_nan() || self.prob_threshold < 0.0 {
            return Err(Fault::at("prob_threshold", format!("{}; expected 0 or more", self.prob_threshold)));
        }
        let per_axis = |parameter: &str, many: bool, count: usize| match many && count != n {
            true => Err(Fault::at(parameter, format!("has {count} entries for {n} axes"))),
            false => Ok(()),
        };
        per_axis("box_size", matches!(self.box_size, OneOrMany::Many(_)), self.box_size.as_slice().len())?;
        per_axis("sigma", matches!(self.sigma, OneOrMany::Many(_)), self.sigma.as_slice().len())?;
        if self.box_size.as_slice().contains(&0) {
            return Err(Fault::at("box_size", "is 0"));
        }
        Ok(())
    }
}

setters!(ProbNMS {
    /// Standard deviation of the smoothing, in voxels.
    sigma: OneOrMany<f64>,
    /// Threshold: peaks are above it.
    prob_threshold: f64,
    /// Size of the box around a peak in which there is no other, one number or one per axis.
    box_size: OneOrMany<usize>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for ProbNMS {
    fn name(&self) -> &'static str {
        "ProbNMS"
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let found = sample.image(key).and_then(|image| self.detections(image)).map_err(|e| e.at(key))?;
            let row = |d: &Detection| {
                let place = d.at.into_iter().take(self.spatial_dims).map(|v| v as f64);
                std::iter::once(f64::from(d.probability)).chain(place).collect::<Vec<_>>()
            };
            sample.values.insert(key.to_owned(), Value::Numbers(found.iter().flat_map(row).collect()));
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.check_parameters()
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;

    #[test]
    fn peaks_come_from_the_highest_and_the_boxes_are_cut_off_at_the_edge() {
        let map = rows(&[[9, 8, 1, 0, 7], [1, 1, 1, 1, 7]]);
        let nms = ProbNMS::new("x", 2).prob_threshold(0.9).box_size(OneOrMany::One(3_usize));
        let found: Vec<([usize; 3], f32)> =
            nms.detections(&map).expect("peaks").iter().map(|d| (d.at, d.probability)).collect();
        assert_eq!(found, [([0, 0, 0], 9.0), ([0, 4, 0], 7.0), ([0, 2, 0], 1.0)]);
        let sample = Sample::new("a").with_image("x", map);
        let draw = crate::DrawKey::new(0, 0, 0).draw("a", 0, 0);
        let made = nms.apply(sample, &draw).expect("peaks").remove(0);
        match made.get("x") {
            Ok(Value::Numbers(numbers)) => assert_eq!(numbers[..], [9.0, 0.0, 0.0, 7.0, 0.0, 4.0, 1.0, 0.0, 2.0]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn maps_and_boxes_of_other_axes_are_refused() {
        let text = ProbNMS::new("x", 3).detections(&rows(&[[1]])).expect_err("refused").to_string();
        assert!(text.contains("2 axes and 1 channels; expected 3 axes"), "{text}");
        let wrong = |nms: ProbNMS| assert!(nms.check_parameters().is_err());
        wrong(ProbNMS::new("x", 2).box_size(OneOrMany::from([1_usize, 2, 3])));
        wrong(ProbNMS::new("x", 2).box_size(OneOrMany::One(0_usize)));
        wrong(ProbNMS::new("x", 2).prob_threshold(-0.1));
        wrong(ProbNMS::new("x", 4));
    }
}

transform_entry!(
    ProbNMS,
    r#"keys = ["image"]
spatial_dims = 3
prob_threshold = 0.5
box_size = 4"#
);
