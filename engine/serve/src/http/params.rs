//! The parameters of a prediction in a form: [`InferParams`], [`check_fields`].
//!
//! Each is obeyed or refused. Fields that MONAI Label's clients (3D Slicer, OHIF) always send and that change
//! nothing here are accepted with the values that change nothing.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fault::Fault;
use super::predict::format_of;
use crate::model::{Card, Format, Kind, Model};

/// The parameters that `/infer` obeys.
const OBEYED: [&str; 4] = ["result_extension", "series", "save_label", "label_tag"];

/// Clicks and strokes, for models that are not served.
const INTERACTIVE: [&str; 4] = ["foreground", "background", "scribbles", "guidance"];

/// The types of `result_dtype`, and the largest label of each.
const TYPES: [(&str, u64); 10] = [
    ("uint8", u8::MAX as u64),
    ("int8", i8::MAX as u64),
    ("uint16", u16::MAX as u64),
    ("int16", i16::MAX as u64),
    ("uint32", u32::MAX as u64),
    ("int32", i32::MAX as u64),
    ("uint64", u64::MAX),
    ("int64", i64::MAX as u64),
    // Integers up to these are exact.
    ("float32", 1 << 24),
    ("float64", 1 << 53),
];

/// `params` of `/infer`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InferParams {
    /// The format of the result, by its file extension.
    pub format: Option<Format>,
    /// The series of a study.
    pub series: Option<String>,
    /// Whether the result is stored in the datastore.
    pub save_label: bool,
    /// The tag of the stored label.
    pub label_tag: Option<String>,
}

impl InferParams {
    /// Reads `params`; a null is an absent field.
    ///
    /// # Errors
    /// A field that nothing reads, which is named, and a value that cannot be obeyed.
    pub fn read(params: &Map<String, Value>, model: &dyn Model) -> Result<Self, Fault> {
        let mut found = Self::default();
        for (key, value) in params.iter().filter(|(_, value)| !value.is_null()) {
            match key.as_str() {
                "result_extension" => found.format = Some(format_of(Some(value.as_str().unwrap_or("")))?),
                "series" => found.series = Some(text(key, value)?),
                "save_label" => found.save_label = word(key, value)?,
                "label_tag" => found.label_tag = Some(text(key, value)?),
                // Its name for itself.
                "client_id" => {}
                // Results are always compressed; `.nii` is not.
                "result_compress" => drop(word(key, value)?),
                "result_dtype" => check_type(value, model.card())?,
                // Labels have the numbers of the model's own files.
                "restore_label_idx" if !word(key, value)? => {}
                _ if model.parameters().contains(&key.as_str()) => {}
                _ => return Err(unknown(key, OBEYED.iter().chain(model.parameters()).copied())),
            }
        }
        if found.label_tag.is_some() && !found.save_label {
            return Err(Fault::bad("params has label_tag without save_label: no label is stored"));
        }
        Ok(found)
    }
}

/// Checks that a form has no text fields but these, and that `params` has only parameters of the model.
///
/// # Errors
/// The first other field.
pub fn check_fields(fields: &BTreeMap<String, String>, known: &[&str]) -> Result<(), Fault> {
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Fault::bad(format!("{key:?} is not a field of the form, expected {}", known.join(" or ")))),
    }
}

/// Checks `params` of `/predict`, whose options are in the address.
///
/// # Errors
/// A field that nothing reads.
pub fn check_params(params: &Map<String, Value>, model: &dyn Model) -> Result<(), Fault> {
    match params.keys().find(|key| !model.parameters().contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(unknown(key, model.parameters().iter().copied())),
    }
}

fn unknown<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Fault {
    if INTERACTIVE.contains(&key) {
        return Fault::bad(format!("params has {key:?}: interactive models are not supported"));
    }
    let known: Vec<&str> = known.collect();
    let expected = if known.is_empty() { "expected none".to_owned() } else { format!("expected {}", known.join(", ")) };
    Fault::bad(format!("params has {key:?}, which this server does not read, {expected}"))
}

fn text(key: &str, value: &Value) -> Result<String, Fault> {
    value.as_str().map(str::to_owned).ok_or_else(|| Fault::bad(format!("params: {key} is {value}, expected a text")))
}

/// True or false; MONAI Label's clients also send words.
fn word(key: &str, value: &Value) -> Result<bool, Fault> {
    let of_text = |text: &str| match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    let found = value.as_bool().or_else(|| value.as_str().and_then(of_text));
    found.ok_or_else(|| Fault::bad(format!("params: {key} is {value}, expected true or false")))
}

/// Label maps have the smallest integer type that holds the model's labels, which every other one that
/// holds them can be read as.
fn check_type(value: &Value, card: &Card) -> Result<(), Fault> {
    let known = || TYPES.map(|(name, _)| name).join(", ");
    let found = value.as_str().and_then(|text| TYPES.iter().find(|(name, _)| *name == text));
    let Some((name, most)) = found else {
        return Err(Fault::bad(format!("params: result_dtype is {value}, expected {}", known())));
    };
    let beyond = card.labels.iter().find(|(_, label)| u64::from(*label) > *most);
    match beyond.filter(|_| card.kind == Kind::Segmentation) {
        None => Ok(()),
        Some((label, number)) => {
            Err(Fault::bad(format!("params: result_dtype {name} does not hold the label {number} of {label:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Answer, Refusal, Request};
    use serde_json::json;

    struct Labels(Card);

    impl Model for Labels {
        fn card(&self) -> &Card {
            &self.0
        }

        fn parameters(&self) -> &[&str] {
            &["threshold"]
        }

        fn infer(&self, _: &Request<'_>) -> Result<Answer, Refusal> {
            Ok(Answer::default())
        }
    }

    fn read(params: Value) -> Result<InferParams, String> {
        let model = Labels(Card {
            name: "m".to_owned(),
            description: String::new(),
            kind: Kind::Segmentation,
            dimension: 3,
            labels: vec![("a".to_owned(), 1), ("rare".to_owned(), 300)],
            channels: Vec::new(),
            checksum: None,
        });
        InferParams::read(params.as_object().expect("an object"), &model).map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn known_parameters_are_obeyed() {
        let all = json!({"result_extension": ".nrrd", "series": "2", "save_label": "True", "label_tag": "final",
            "client_id": "x", "result_dtype": "uint16", "result_compress": false, "restore_label_idx": false,
            "threshold": 0.5});
        let expected = InferParams {
            format: Some(Format::Nrrd),
            series: Some("2".to_owned()),
            save_label: true,
            label_tag: Some("final".to_owned()),
        };
        assert_eq!(read(all), Ok(expected));
        assert_eq!(read(json!({"series": null, "result_dtype": null})), Ok(InferParams::default()));
    }

    #[test]
    fn others_are_refused_by_name() {
        for (params, words) in [
            (json!({"largest_cc": true}), "largest_cc"),
            (json!({"threshhold": 0.5}), "threshold"),
            (json!({"foreground": [[1, 2, 3]]}), "interactive"),
            (json!({"restore_label_idx": true}), "restore_label_idx"),
            (json!({"result_dtype": "uint8"}), "300"),
            (json!({"result_dtype": "complex"}), "expected uint8"),
            (json!({"result_extension": 3}), "expected nifti"),
            (json!({"save_label": "maybe"}), "expected true or false"),
            (json!({"series": 2}), "expected a text"),
            (json!({"label_tag": "final"}), "without save_label"),
        ] {
            let fault = read(params.clone()).expect_err("refused");
            assert!(fault.contains(words) && fault.contains("400"), "{params}: {fault}");
        }
    }
}
