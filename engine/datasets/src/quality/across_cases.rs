//! Checks across the cases of a data set.

use std::collections::BTreeMap;

use hearth_registry::counted;

use super::verify::CaseReport;
use super::{Finding, Inspection, Kind, Severity};

/// The factor by which a size must differ from the median to be unusual.
const UNUSUAL: f64 = 3.0;
/// The minimum number of cases for determining what is usual.
const ENOUGH: usize = 5;
/// The fraction of cases above which a property counts as usual.
const MOST: f64 = 0.9;

pub(super) fn findings(cases: &[CaseReport], names: &BTreeMap<u32, String>, channels: Option<usize>) -> Vec<Finding> {
    let mut out = Vec::new();
    duplicates(cases, &mut out);
    channel_counts(cases, channels, &mut out);
    label_channels(cases, &mut out);
    orientations(cases, &mut out);
    sizes(cases, &mut out);
    missing_labels(cases, names, &mut out);
    pieces(cases, names, &mut out);
    out
}

fn images(cases: &[CaseReport]) -> impl Iterator<Item = (&CaseReport, &Inspection)> {
    cases.iter().filter_map(|case| Some((case, case.image.as_ref()?)))
}

/// Reports files with the same content under several names. Empty labels and constant images are
/// all equal and are not reported.
fn duplicates(cases: &[CaseReport], out: &mut Vec<Finding>) {
    let telling = |i: &&Inspection| i.values.iter().any(|v| v.min != v.max);
    let mut groups: BTreeMap<(bool, &str), Vec<(&CaseReport, &Inspection)>> = BTreeMap::new();
    for case in cases {
        for (is_label, found) in [(false, &case.image), (true, &case.label)] {
            if let Some(found) = found.as_ref().filter(telling) {
                groups.entry((is_label, found.digest.as_str())).or_default().push((case, found));
            }
        }
    }
    for ((is_label, _), group) in groups.into_iter().filter(|(_, group)| group.len() > 1) {
        let (first, rest) = group.split_at(1);
        let what = if is_label { "label" } else { "image" };
        for (case, found) in rest {
            let leak = case.split != first[0].0.split;
            let severity = if leak { Severity::Error } else { Severity::Warning };
            let advice = match leak {
                true => "a case that is trained on must not be tested on: remove one of them",
                false => "remove one of the cases, or give it its own file",
            };
            let text = format!("the {what} is the same as that of case {} ({})", first[0].0.case, first[0].0.split);
            let finding = Finding::new(severity, Kind::Duplicate, text).advice(advice).case(&case.case);
            out.push(Finding { file: found.file.clone(), ..finding });
        }
    }
}

fn channel_counts(cases: &[CaseReport], stated: Option<usize>, out: &mut Vec<Finding>) {
    let expected = stated.or_else(|| most_common(images(cases).map(|(_, image)| image.channels)));
    for (case, image) in images(cases) {
        if expected.is_some_and(|n| n != image.channels) {
            let whose = if stated.is_some() { "dataset.json names" } else { "most cases have" };
            let what = format!("the image has {} channels, {whose} {}", image.channels, expected.unwrap_or_default());
            let finding = Finding::new(Severity::Error, Kind::Channels, what)
                .advice("a network takes one number of channels: complete the case, or exclude it");
            out.push(Finding { file: image.file.clone(), ..finding.case(&case.case) });
        }
    }
}

/// Reports labels with other channels than most, and several channels in most: whether they can be learned
/// depends on the recipe.
fn label_channels(cases: &[CaseReport], out: &mut Vec<Finding>) {
    let labels = || cases.iter().filter_map(|case| Some((case, case.label.as_ref()?)));
    let Some(usual) = most_common(labels().map(|(_, label)| label.channels)) else { return };
    for (case, label) in labels().filter(|(_, label)| label.channels != usual) {
        let what = format!("the label has {}, most cases have {usual}", counted(label.channels, "channel"));
        let finding = Finding::new(Severity::Error, Kind::Channels, what)
            .advice("a loss takes one number of channels: store one map in the file, or exclude the case");
        out.push(Finding { file: label.file.clone(), ..finding.case(&case.case) });
    }
    if usual > 1 {
        let what = format!("the labels have {usual} channels each (a file with a fourth axis)");
        out.push(Finding::new(Severity::Warning, Kind::Channels, what).advice(
            "a segmentation learns from one map with numbers of classes, other tasks from a channel for each region: \
             check them with the recipe, hearth data verify RECIPE PATH",
        ));
    }
}

fn most_common<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

fn orientations(cases: &[CaseReport], out: &mut Vec<Finding>) {
    let mut counts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (case, image) in images(cases).filter(|(_, image)| !image.orientation.is_empty()) {
        counts.entry(&image.orientation).or_default().push(&case.case);
    }
    if counts.len() > 1 {
        let list: Vec<String> = counts
            .iter()
            .map(|(code, cases)| match cases[..] {
                [only] => format!("{code} once ({only})"),
                _ => format!("{code} {} times", cases.len()),
            })
            .collect();
        out.push(
            Finding::new(Severity::Note, Kind::MixedOrientation, format!("several orientations: {}", list.join(", ")))
                .advice("begin the chain with Orientation"),
        );
    }
}

/// Reports sizes far from the median. Axes are sorted by length, so that the orientation does not
/// matter.
fn sizes(cases: &[CaseReport], out: &mut Vec<Finding>) {
    let spacing = |image: &Inspection| sorted(image.spacing.clone());
    let shape = |image: &Inspection| sorted(image.shape.iter().map(|n| *n as f64).collect());
    let spacing_text = |image: &Inspection| {
        let sizes: Vec<String> = image.spacing.iter().map(|s| format!("{s:.3}")).collect();
        format!("voxels of {} mm", sizes.join(" x "))
    };
    let shape_text = |image: &Inspection| {
        let sizes: Vec<String> = image.shape.iter().map(usize::to_string).collect();
        format!("{} voxels", sizes.join(" x "))
    };
    unusual(cases, Kind::UnusualSpacing, Severity::Warning, spacing, spacing_text, out);
    unusual(cases, Kind::UnusualShape, Severity::Note, shape, shape_text, out);
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn unusual(
    cases: &[CaseReport],
    kind: Kind,
    severity: Severity,
    measure: impl Fn(&Inspection) -> Vec<f64>,
    text: impl Fn(&Inspection) -> String,
    out: &mut Vec<Finding>,
) {
    let all: Vec<(&CaseReport, &Inspection, Vec<f64>)> =
        images(cases).map(|(case, image)| (case, image, measure(image))).collect();
    if all.len() < ENOUGH {
        return;
    }
    let dims = all.iter().map(|(.., m)| m.len()).max().unwrap_or(0);
    let medians: Vec<f64> = (0..dims)
        .map(|axis| {
            let along =
                sorted(all.iter().filter_map(|(.., m)| m.get(axis).copied()).filter(|v| v.is_finite()).collect());
            along.get(along.len() / 2).copied().unwrap_or(f64::NAN)
        })
        .collect();
    for (case, image, measured) in &all {
        let far = |(value, median): (&f64, &f64)| *value > median * UNUSUAL || *value * UNUSUAL < *median;
        if measured.iter().zip(&medians).any(far) {
            let usual: Vec<String> =
                medians.iter().map(|m| if m.fract() == 0.0 { format!("{m}") } else { format!("{m:.3}") }).collect();
            let what = format!("{}; the median over the cases (sorted) is {}", text(image), usual.join(" x "));
            let finding = Finding::new(severity, kind, what).case(&case.case);
            out.push(Finding { file: image.file.clone(), ..finding });
        }
    }
}

fn called(value: u32, names: &BTreeMap<u32, String>) -> String {
    match names.get(&value) {
        Some(name) => format!("label {value} ({name})"),
        None => format!("label {value}"),
    }
}

/// Reports labels that no case has, or that nearly all cases except this one have.
fn missing_labels(cases: &[CaseReport], names: &BTreeMap<u32, String>, out: &mut Vec<Finding>) {
    let labelled: Vec<&CaseReport> = cases.iter().filter(|c| c.has_labels()).collect();
    if labelled.is_empty() {
        return;
    }
    for value in names.keys().filter(|value| **value != 0) {
        let without: Vec<&&CaseReport> =
            labelled.iter().filter(|c| c.labels.iter().all(|l| l.value != *value)).collect();
        let usual = (labelled.len() - without.len()) as f64 >= MOST * labelled.len() as f64;
        if without.len() == labelled.len() {
            let what = format!("{} is named in dataset.json and occurs in no case", called(*value, names));
            let advice = "a class without a voxel can't be learned: correct the labels, or dataset.json";
            out.push(Finding::new(Severity::Warning, Kind::MissingLabel, what).advice(advice));
        } else if usual && labelled.len() >= ENOUGH {
            for case in without.iter().filter(|c| !c.labels.is_empty()) {
                let what = format!("the case has no {}, which nearly all others have", called(*value, names));
                let file = case.label.as_ref().and_then(|l| l.file.clone());
                let finding = Finding::new(Severity::Note, Kind::MissingLabel, what).case(&case.case);
                out.push(Finding { file, ..finding });
            }
        }
    }
}

/// Reports labels in several pieces that have one piece in nearly all cases.
fn pieces(cases: &[CaseReport], names: &BTreeMap<u32, String>, out: &mut Vec<Finding>) {
    let mut by_label: BTreeMap<u32, Vec<(&CaseReport, &super::LabelReport)>> = BTreeMap::new();
    for case in cases {
        for label in case.labels.iter().filter(|l| l.value != 0) {
            by_label.entry(label.value).or_default().push((case, label));
        }
    }
    for (value, all) in by_label {
        let whole = all.iter().filter(|(_, label)| label.components == 1).count();
        if all.len() < ENOUGH || (whole as f64) < MOST * all.len() as f64 {
            continue;
        }
        for (case, label) in all.iter().filter(|(_, label)| label.components > 1) {
            let sizes: Vec<String> = label.largest.iter().take(4).map(usize::to_string).collect();
            let more = if label.components > 4 { ", ..." } else { "" };
            let what = format!(
                "{} is in {} pieces ({}{more} voxels), in nearly all other cases in one",
                called(value, names),
                label.components,
                sizes.join(", ")
            );
            let advice = "look for stray voxels; KeepLargestConnectedComponent removes them";
            let finding = Finding::new(Severity::Warning, Kind::Pieces, what).advice(advice).case(&case.case);
            out.push(Finding { file: case.label.as_ref().and_then(|l| l.file.clone()), ..finding });
        }
    }
}
