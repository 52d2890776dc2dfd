//! MONAI's lists of cases in JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_io::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::csv::spelled;
use super::{CaseList, Layout, Target, Wants, title, with_image, wrong};
use crate::dataset::{case_name, check_parts, make_unique};
use crate::{DataError, Field, Item};

/// The maximum number of bytes of a list.
const MAX_LIST: u64 = 256 << 20;

/// A list of cases in JSON, as MONAI's `load_decathlon_datalist` and Auto3DSeg read it: `{
/// "training": [{ "image": "a.nii.gz", "label": "b.nii.gz", "fold": 0 }, ...], "validation": [...],
/// "testing": [...] }`, or a bare list. An image may be a list of files; `[data] images` uses
/// several keys as its channels. Relative names start at the list's folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JsonList {
    /// Base of relative file names, instead of the list's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
}

impl Layout for JsonList {
    fn fits(&self, path: &Path) -> bool {
        path.is_file() && path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let io = |source| DataError::Io { path: path.to_owned(), source };
        let length = std::fs::metadata(path).map_err(io)?.len();
        if length > MAX_LIST {
            return Err(wrong(path, format!("{length} bytes, more than the limit of {MAX_LIST}")));
        }
        let text = hearth_files::read_to_string(path).map_err(io)?;
        let json: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|error| wrong(path, format!("not JSON: {error}")))?;
        let root = self.root.clone().or_else(|| path.parent().map(Path::to_owned)).unwrap_or_default();
        let mut lacking = Vec::new();
        let mut read = |key: &str, entries: &Value| -> Result<Vec<Item>, DataError> {
            let entries = match entries {
                Value::Null => &[][..],
                Value::Array(entries) => entries,
                _ => return Err(wrong(path, format!("`{key}` is not a list"))),
            };
            let mut items = Vec::with_capacity(entries.len());
            for (index, entry) in entries.iter().enumerate() {
                match case(&root, entry, wants) {
                    Ok(item) => items.push(item),
                    Err(what) => lacking.push((format!("{key}[{index}]"), what)),
                }
            }
            Ok(items)
        };
        let mut training = if json.is_array() { read("list", &json)? } else { read("training", &json["training"])? };
        let validation = read("validation", &json["validation"])?;
        let named = |item: &Item| item.parts.get("image").is_some_and(|parts| parts.files.len() == wants.images.len());
        let modalities = if training.first().is_some_and(named) { wants.images.clone() } else { Vec::new() };
        let count = training.len();
        training.extend(validation);
        check_parts(&training, count).map_err(|what| wrong(path, what))?;
        make_unique(&mut training);
        let held: Vec<String> = training[count..].iter().map(|item| item.case.clone()).collect();
        let mut list = CaseList {
            name: json["name"].as_str().map_or_else(|| title(path), str::to_owned),
            labels: crate::dataset::names(&json["labels"]),
            modalities,
            validation: (!held.is_empty()).then_some(held),
            ..CaseList::default()
        };
        list.sort(training, wants);
        for key in ["testing", "test"] {
            list.unlabelled.extend(read(key, &json[key])?);
        }
        list.lack(lacking, wants, |cases| wrong(path, format!("entries cannot be used:{cases}")))?;
        if list.labelled.is_empty() && list.unlabelled.is_empty() && list.lacking.is_empty() {
            return Err(wrong(path, "names no case: `training`, `validation` and `testing` are empty".to_owned()));
        }
        Ok(list)
    }
}

/// Parses one entry: a table, or the name of an image.
fn case(root: &Path, entry: &Value, wants: &Wants) -> Result<Item, String> {
    let plain;
    let entry = match entry {
        Value::Object(entry) => entry,
        Value::String(_) => {
            plain = Map::from_iter([("image".to_owned(), entry.clone())]);
            &plain
        }
        _ => return Err("is neither a table nor the name of an image".to_owned()),
    };
    let images = if wants.images.is_empty() { vec!["image".to_owned()] } else { wants.images.clone() };
    let known: Vec<String> = entry.keys().cloned().collect();
    let images = spelled(&known, images);
    let mut files = Vec::new();
    for key in &images {
        let named = entry.get(key).ok_or_else(|| {
            let known: Vec<&str> = entry.keys().map(String::as_str).collect();
            format!("has no `{key}` (it has {})", known.join(", "))
        })?;
        files.extend(paths(root, key, named)?);
    }
    let first = files.first().ok_or("its image is an empty list")?;
    let label = match &wants.target {
        Target::Image { name } => name.as_deref().unwrap_or("label"),
        _ => "",
    };
    let mut item = with_image(Item::new(case_name(first)), "image", Parts::new(files));
    if let Some(named) = entry.get(label).filter(|named| !named.is_null()) {
        item = with_image(item, "label", Parts::new(paths(root, label, named)?));
    }
    let others = entry.iter().filter(|(key, _)| !images.contains(key) && *key != label);
    item.fields = others.filter_map(|(key, value)| Some((key.clone(), field(value)?))).collect::<BTreeMap<_, _>>();
    Ok(item)
}

/// A number, several numbers, or a string; `true` is 1.
fn field(value: &Value) -> Option<Field> {
    match value {
        Value::Bool(yes) => Some(Field::Number(f64::from(u8::from(*yes)))),
        other => serde_json::from_value(other.clone()).ok(),
    }
}

/// The files that a key names: one, or several.
fn paths(root: &Path, key: &str, value: &Value) -> Result<Vec<PathBuf>, String> {
    let one = |value: &Value| {
        let name = value.as_str().ok_or_else(|| format!("`{key}` is not the name of a file"))?;
        let path: PathBuf = root.join(name).components().collect();
        if path.exists() { Ok(path) } else { Err(format!("`{key}`: {} does not exist", path.display())) }
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|path| vec![path]),
    }
}

hearth_registry::entry!(dyn Layout => JsonList, aliases: &["JSON"], example: "root = \"/data/images\"");
