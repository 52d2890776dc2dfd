//! The rates that are computed from a confusion matrix, by name.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// True positives, false positives, true negatives, false negatives.
pub(crate) type Counts = [f32; 4];

/// A rate computed from a confusion matrix. Recipes may use any of its names; case is ignored, and
/// words are separated by spaces or underscores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum ConfusionName {
    /// Recall, hit rate, true positive rate (`tpr`).
    Sensitivity,
    /// Selectivity, true negative rate (`tnr`).
    Specificity,
    /// Positive predictive value (`ppv`).
    Precision,
    /// `npv`
    NegativePredictiveValue,
    /// False negative rate (`fnr`).
    MissRate,
    /// False positive rate (`fpr`).
    FallOut,
    /// `fdr`
    FalseDiscoveryRate,
    /// `for`
    FalseOmissionRate,
    /// `pt`
    PrevalenceThreshold,
    /// Critical success index (`ts`, `csi`).
    ThreatScore,
    /// `acc`
    Accuracy,
    /// `ba`
    BalancedAccuracy,
    /// `f1`
    F1Score,
    /// `mcc`
    MatthewsCorrelationCoefficient,
    /// `fm`
    FowlkesMallowsIndex,
    /// Youden index (`bm`).
    Informedness,
    /// Delta p (`mk`).
    Markedness,
}

use ConfusionName as Name;

/// Every rate with its names; the first name is printed.
const NAMES: [(Name, &[&str]); 17] = [
    (Name::Sensitivity, &["sensitivity", "recall", "hit_rate", "true_positive_rate", "tpr"]),
    (Name::Specificity, &["specificity", "selectivity", "true_negative_rate", "tnr"]),
    (Name::Precision, &["precision", "positive_predictive_value", "ppv"]),
    (Name::NegativePredictiveValue, &["negative_predictive_value", "npv"]),
    (Name::MissRate, &["miss_rate", "false_negative_rate", "fnr"]),
    (Name::FallOut, &["fall_out", "false_positive_rate", "fpr"]),
    (Name::FalseDiscoveryRate, &["false_discovery_rate", "fdr"]),
    (Name::FalseOmissionRate, &["false_omission_rate", "for"]),
    (Name::PrevalenceThreshold, &["prevalence_threshold", "pt"]),
    (Name::ThreatScore, &["threat_score", "critical_success_index", "ts", "csi"]),
    (Name::Accuracy, &["accuracy", "acc"]),
    (Name::BalancedAccuracy, &["balanced_accuracy", "ba"]),
    (Name::F1Score, &["f1_score", "f1"]),
    (Name::MatthewsCorrelationCoefficient, &["matthews_correlation_coefficient", "mcc"]),
    (Name::FowlkesMallowsIndex, &["fowlkes_mallows_index", "fm"]),
    (Name::Informedness, &["informedness", "bookmaker_informedness", "bm", "youden_index", "youden"]),
    (Name::Markedness, &["markedness", "deltap", "mk"]),
];

impl ConfusionName {
    /// The full name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(rate, _)| *rate == self).map_or("", |(_, names)| names[0])
    }

    /// The full names of all rates.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, names)| names[0])
    }

    /// Whether a larger rate is better; `None` if it depends.
    pub fn higher_is_better(self) -> Option<bool> {
        match self {
            Name::MissRate | Name::FallOut | Name::FalseDiscoveryRate | Name::FalseOmissionRate => Some(false),
            Name::PrevalenceThreshold => None,
            _ => Some(true),
        }
    }

    /// Computes the rate; NaN if it divides by zero.
    pub(crate) fn of(self, [tp, fp, tn, missed]: Counts) -> f32 {
        let (p, n) = (tp + missed, fp + tn);
        let share = |part: f32, whole: f32| if whole == 0.0 { f32::NAN } else { part / whole };
        let (sensitivity, specificity) = (share(tp, p), share(tn, n));
        let (precision, npv) = (share(tp, tp + fp), share(tn, tn + missed));
        match self {
            Name::Sensitivity => sensitivity,
            Name::Specificity => specificity,
            Name::Precision => precision,
            Name::NegativePredictiveValue => npv,
            Name::MissRate => share(missed, p),
            Name::FallOut => share(fp, n),
            Name::FalseDiscoveryRate => share(fp, fp + tp),
            Name::FalseOmissionRate => share(missed, missed + tn),
            Name::PrevalenceThreshold => {
                let root = (sensitivity * (1.0 - specificity)).sqrt();
                share(root + specificity - 1.0, sensitivity + specificity - 1.0)
            }
            Name::ThreatScore => share(tp, tp + missed + fp),
            Name::Accuracy => share(tp + tn, p + n),
            Name::BalancedAccuracy => (sensitivity + specificity) / 2.0,
            Name::F1Score => share(tp * 2.0, tp * 2.0 + missed + fp),
            Name::MatthewsCorrelationCoefficient => {
                let whole = (tp + fp) * (tp + missed) * (tn + fp) * (tn + missed);
                share(tp * tn - fp * missed, whole.sqrt())
            }
            Name::FowlkesMallowsIndex => (precision * sensitivity).sqrt(),
            Name::Informedness => sensitivity + specificity - 1.0,
            Name::Markedness => precision + npv - 1.0,
        }
    }
}

impl TryFrom<String> for ConfusionName {
    type Error = String;

    fn try_from(given: String) -> Result<Self, String> {
        let plain = given.replace(' ', "_").to_lowercase();
        let found = NAMES.iter().find(|(_, names)| names.contains(&plain.as_str()));
        found.map(|(rate, _)| *rate).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(_, names)| names[0]).collect();
            format!("unknown rate `{given}`; known are: {}", known.join(", "))
        })
    }
}

impl From<ConfusionName> for String {
    fn from(name: ConfusionName) -> String {
        name.name().to_owned()
    }
}

/// One rate or several rates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ConfusionNames {
    /// One rate.
    One(ConfusionName),
    /// Several rates.
    Many(Vec<ConfusionName>),
}

impl JsonSchema for ConfusionNames {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConfusionNames".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = ConfusionName::names().collect();
        schemars::json_schema!({
            "anyOf": [{ "enum": names }, { "type": "array", "items": { "type": "string" } }]
        })
    }
}

impl ConfusionNames {
    /// Iterates over the rates in order.
    pub fn iter(&self) -> impl Iterator<Item = ConfusionName> {
        match self {
            ConfusionNames::One(name) => std::slice::from_ref(name),
            ConfusionNames::Many(names) => names.as_slice(),
        }
        .iter()
        .copied()
    }
}

/// Implemented by hand, so that an unknown rate is reported as such.
impl<'de> Deserialize<'de> for ConfusionNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = ConfusionNames;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate or a list of rates")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<ConfusionNames, E> {
                ConfusionName::try_from(name.to_owned()).map(ConfusionNames::One).map_err(E::custom)
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<ConfusionNames, S::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(ConfusionNames::Many(names))
            }
        }
        deserializer.deserialize_any(Read)
    }
}
