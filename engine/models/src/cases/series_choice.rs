//! Selects the series of a study that suits a network: [`choose`].

use hearth_data::dicom::{FindingKind, Series, Severity};
use hearth_registry::counted;

/// Words in descriptions of series that are not diagnostic volumes.
const OTHERS: [&str; 14] = [
    "scout",
    "localizer",
    "localiser",
    "topogram",
    "surview",
    "scanogram",
    "survey",
    "smartprep",
    "premonitoring",
    "monitoring",
    "dose",
    "screen",
    "calibration",
    "patient protocol",
];

/// Words in descriptions of images that were derived from others.
const MADE: [&str; 9] = ["mpr", "mip", "minip", "vrt", "3d render", "reformat", "curved", "subtraction", "fused"];

/// The smallest number of slices of a volume.
const LEAST_SLICES: usize = 4;

/// The facts that decide about a series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    modality: String,
    description: String,
    number: Option<i64>,
    /// The key of a volume among several of a series.
    key: Option<String>,
    slices: usize,
    /// The distance between slices in mm.
    spacing: f64,
    /// Whether its slices are axial.
    axial: bool,
    /// The number of faults that must be accepted before it is read.
    faults: usize,
    /// What it is, if its values are only for display.
    display: Option<&'static str>,
}

impl Facts {
    pub(crate) fn of(series: &Series) -> Self {
        let grid = series.grid();
        let normal: [f64; 3] = std::array::from_fn(|row| grid.affine()[row][2].abs());
        Self {
            modality: series.modality().to_owned(),
            description: series.description().unwrap_or_default().trim().to_owned(),
            number: series.number(),
            key: series.key().map(str::to_owned),
            slices: series.slices().len(),
            spacing: grid.spacing()[2],
            axial: normal[2] >= normal[0] && normal[2] >= normal[1],
            faults: series.findings().iter().filter(|finding| finding.severity == Severity::Error).count(),
            display: series.findings().iter().find_map(|finding| match finding.kind {
                FindingKind::SecondaryCapture => Some("a secondary capture"),
                FindingKind::Colours => Some("in colour"),
                _ => None,
            }),
        }
    }

    fn name(&self) -> String {
        let number = self.number.map(|number| format!("{number}, ")).unwrap_or_default();
        let slices = counted(self.slices, "slice");
        let key = self.key.as_ref().map(|key| format!(" #{key}")).unwrap_or_default();
        format!("{number}{} {:?}{key}, {slices} of {:.3} mm", self.modality, self.description, self.spacing)
    }

    /// The reason why it is unsuitable, independent of the other series.
    fn unfit(&self, modalities: &[String]) -> Option<String> {
        let text = self.description.to_lowercase();
        if !modalities.is_empty() && !modalities.iter().any(|known| known.eq_ignore_ascii_case(&self.modality)) {
            return Some(format!("is {}, the network is for {}", self.modality, modalities.join(", ")));
        }
        if let Some(word) = OTHERS.iter().find(|word| text.contains(*word)) {
            return Some(format!("its description says {word:?}"));
        }
        if let Some(what) = self.display {
            return Some(format!("is {what}"));
        }
        (self.slices < LEAST_SLICES).then(|| format!("has {}", counted(self.slices, "slice")))
    }
}

/// The chosen series of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The index among the given series.
    pub place: usize,
    /// A description: the chosen series with the reason, and the skipped ones.
    pub why: String,
}

/// Chooses one series. It must have the network's modality and more than a few slices, and must not
/// be a localizer or a dose report. Among these it prefers, as far as possible, a series without
/// faults, original rather than derived, and axial for CT; then the smallest slice distance, then
/// the most slices, then the first.
///
/// # Errors
/// No suitable series, with the reason for each.
pub(crate) fn choose(study: &[Facts], modalities: &[String]) -> Result<Choice, String> {
    let mut left: Vec<usize> = Vec::new();
    let mut skipped = Vec::new();
    for (place, series) in study.iter().enumerate() {
        match series.unfit(modalities) {
            None => left.push(place),
            Some(why) => skipped.push(format!("skips {}: {why}", series.name())),
        }
    }
    if left.is_empty() {
        return Err(format!("no series fits:\n  {}", skipped.join("\n  ")));
    }
    let made = |series: &Facts| {
        let text = series.description.to_lowercase();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        MADE.iter().any(|known| if known.contains(' ') { text.contains(known) } else { words.contains(known) })
    };
    type Rule<'a> = (&'a str, &'a dyn Fn(&Facts) -> bool);
    let rules: [Rule<'_>; 3] = [
        ("without faults", &|series| series.faults == 0),
        ("not made of other images", &|series| !made(series)),
        ("across the body", &|series| series.axial || !series.modality.eq_ignore_ascii_case("CT")),
    ];
    let mut reasons = Vec::new();
    for (what, holds) in rules {
        let (better, worse): (Vec<usize>, Vec<usize>) = left.iter().partition(|place| holds(&study[**place]));
        if !better.is_empty() && !worse.is_empty() {
            reasons.push(what);
            skipped.extend(worse.iter().map(|place| format!("skips {}: others are {what}", study[*place].name())));
            left = better;
        }
    }
    let least = left.iter().map(|place| study[*place].spacing).fold(f64::INFINITY, f64::min);
    if left.len() > 1 {
        // Positions are rounded in files.
        let thinnest: Vec<usize> = left.iter().copied().filter(|at| study[*at].spacing <= least * 1.001).collect();
        if thinnest.len() < left.len() {
            reasons.push("the thinnest");
        }
        skipped.extend(
            left.iter()
                .filter(|at| !thinnest.contains(at))
                .map(|at| format!("skips {}: it is thicker", study[*at].name())),
        );
        left = thinnest;
    }
    let most = left.iter().map(|place| study[*place].slices).max().unwrap_or_default();
    if left.iter().any(|at| study[*at].slices < most) {
        reasons.push("the one with most slices");
    }
    let place = left.iter().copied().find(|at| study[*at].slices == most).unwrap_or(left[0]);
    let alike = left.iter().filter(|at| study[**at].slices == most).count();
    if alike > 1 {
        reasons.push("the first of several alike");
    }
    skipped.extend(left.iter().filter(|at| **at != place).map(|at| format!("skips {}", study[*at].name())));
    let reason = if reasons.is_empty() { "the only one that fits".to_owned() } else { reasons.join(", ") };
    let mut lines = vec![format!("takes {}: {reason}", study[place].name())];
    lines.extend(skipped);
    Ok(Choice { place, why: lines.join("\n  ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(modality: &str, description: &str, slices: usize, spacing: f64) -> Facts {
        let (modality, description) = (modality.to_owned(), description.to_owned());
        Facts {
            modality,
            description,
            number: Some(1),
            key: None,
            slices,
            spacing,
            axial: true,
            faults: 0,
            display: None,
        }
    }

    #[test]
    fn a_study_has_one_series_for_a_network() {
        let ct = ["CT".to_owned()];
        let study = [
            series("CT", "Topogram 0.6", 200, 0.6),
            series("CT", "Thorax 5.0", 80, 5.0),
            series("CT", "Thorax 1.0 B30", 400, 1.0),
            Facts { axial: false, ..series("CT", "Coronal 0.7", 300, 0.7) },
            series("CT", "Thorax MIP 0.8", 300, 0.8),
            series("CT", "Scan", 1, 0.5),
            series("PT", "PET", 200, 0.5),
            Facts { faults: 1, ..series("CT", "Thorax 0.6", 500, 0.6) },
            Facts { display: Some("in colour"), ..series("CT", "Fused", 500, 0.5) },
        ];
        let choice = choose(&study, &ct).expect("one fits");
        assert_eq!(choice.place, 2, "{}", choice.why);
        for said in [
            "takes 1, CT \"Thorax 1.0 B30\"",
            "topogram",
            "is PT, the network is for CT",
            "has 1 slice",
            "others are across the body",
            "others are not made of other images",
            "others are without faults",
            "is in colour",
            "Thorax 5.0\", 80 slices of 5.000 mm: it is thicker",
        ] {
            assert!(choice.why.contains(said), "no {said:?} in {}", choice.why);
        }
    }

    #[test]
    fn where_rules_leave_nothing_they_do_not_hold() {
        let made = [series("MR", "t1 mpr", 100, 1.0), series("MR", "t1 mpr", 120, 1.0)];
        assert_eq!(choose(&made, &[]).map(|choice| choice.place), Ok(1));
        let sagittal = [Facts { axial: false, ..series("MR", "t2 sag", 20, 3.0) }, series("MR", "t2 tra", 20, 4.0)];
        assert_eq!(choose(&sagittal, &[]).map(|choice| choice.place), Ok(0), "directions matter for CT alone");
        let error = choose(&[series("PT", "PET", 200, 0.5)], &["CT".to_owned()]).expect_err("none");
        assert!(error.contains("no series fits") && error.contains("is PT"), "{error}");
        assert!(choose(&[], &[]).is_err());
    }
}
