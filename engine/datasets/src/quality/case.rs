//! Checks of a label, and of the image and label of one case.

use std::collections::BTreeMap;

use hearth_image::Image;
use hearth_kernels::label;
use hearth_transforms::transforms::check_same_grid;
use serde::Serialize;

use super::values::{LabelValues, count};
use super::{Finding, Kind, Severity};

/// The maximum number of invalid values that a message lists.
const NAMED: usize = 5;

/// One label value in one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LabelReport {
    /// Value of the label.
    pub value: u32,
    /// Number of its voxels.
    pub voxels: usize,
    /// Sizes of its connected components (all neighbours), largest first; at most ten.
    pub largest: Vec<usize>,
    /// Number of its connected components (all neighbours).
    pub components: usize,
}

/// The labels of a label map, without 0.
pub(super) fn labels(image: &Image) -> (LabelValues, Vec<LabelReport>) {
    image.with_values(|values| {
        let counts = count(values);
        let mut reports = BTreeMap::new();
        let shape = image.spatial_shape();
        let one_channel = image.channels() == 1;
        if counts.are_labels()
            && one_channel
            && let Ok(found) = label::components_by_value(values, &shape, shape.len())
        {
            for component in found.by_size() {
                let region = found.regions()[component];
                let value = values[region.first] as u32;
                let report = reports.entry(value).or_insert_with(|| LabelReport {
                    value,
                    voxels: 0,
                    largest: Vec::new(),
                    components: 0,
                });
                report.voxels += region.size;
                report.components += 1;
                if report.largest.len() < 10 {
                    report.largest.push(region.size);
                }
            }
        }
        (counts, reports.into_values().collect())
    })
}

/// Findings about the values of a label map. `names` are the labels of the data set; empty if
/// unknown.
pub(super) fn label_findings(counts: &LabelValues, names: &BTreeMap<u32, String>) -> Vec<Finding> {
    let mut out = Vec::new();
    if !counts.are_labels() {
        let bad = counts.counts.iter().filter(|c| !(c.value >= 0.0 && c.value.fract() == 0.0));
        let named: Vec<String> = bad.take(NAMED).map(|c| c.value.to_string()).collect();
        let what = match (counts.more, named.is_empty()) {
            (true, _) => "the label has hundreds of different values".to_owned(),
            (false, true) => "the label has values above 65535".to_owned(),
            (false, false) => format!("the label has values that are not whole numbers from 0: {}", named.join(", ")),
        };
        let advice = "it may be an image, or a label that was interpolated: resample labels with nearest";
        out.push(Finding::new(Severity::Error, Kind::BadLabelValue, what).advice(advice));
        return out;
    }
    if counts.foreground() == 0 {
        let advice = "draw the label, exclude the case, or verify that it has no foreground";
        out.push(Finding::new(Severity::Warning, Kind::EmptyLabel, "the label has no foreground").advice(advice));
    }
    let unknown: Vec<String> = counts
        .counts
        .iter()
        .filter(|c| !names.is_empty() && !names.contains_key(&(c.value as u32)))
        .map(|c| format!("{} ({} voxels)", c.value, c.voxels))
        .collect();
    if !unknown.is_empty() {
        let known: Vec<String> = names.keys().map(u32::to_string).collect();
        let (first, more) = (unknown[..unknown.len().min(NAMED)].join(", "), unknown.len() > NAMED);
        let what =
            format!("the label has values that dataset.json does not name: {first}{}", if more { ", ..." } else { "" });
        let advice = format!("expected {}; correct the label, or dataset.json", known.join(", "));
        out.push(Finding::new(Severity::Error, Kind::UnexpectedLabel, what).advice(advice));
    }
    out
}

/// Whether the label lies on the image's grid.
pub(super) fn grid_findings(image: &Image, label: &Image) -> Vec<Finding> {
    let kind = if image.shape() == label.shape() { Kind::GridMismatch } else { Kind::ShapeMismatch };
    match check_same_grid(image, label) {
        Ok(()) => Vec::new(),
        Err(error) => {
            let finding = Finding::new(Severity::Error, kind, error.what);
            vec![Finding { advice: error.advice, ..finding }]
        }
    }
}
