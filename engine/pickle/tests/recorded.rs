//! Pickles of all protocols that Python wrote, and the values that Python reads from them
//! (`tests/golden/record_pickles.py`).

use std::path::{Path, PathBuf};

use hearth_pickle::{Number, Object, Options, Others, PickleError, Pickled, parse};
use serde_json::{Map, Value, json};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(recorded(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn number(number: Number) -> Value {
    match number {
        Number::Bool(truth) => truth.into(),
        Number::Int(number) => number.into(),
        Number::Float(number) => number.into(),
    }
}

/// A value in the script's format.
fn described(pickled: &Pickled, object: &Object) -> Value {
    let all = |items: &[u32]| items.iter().map(|item| described(pickled, pickled.get(*item))).collect::<Vec<_>>();
    let table = |entries: &[(u32, u32)]| {
        let text = |key: u32| match described(pickled, pickled.get(key)) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let pairs = entries.iter().map(|(key, value)| (text(*key), described(pickled, pickled.get(*value))));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    match object {
        Object::None => Value::Null,
        Object::Number(of) => number(*of),
        Object::Text(text) => Value::from(&**text),
        Object::Bytes(bytes) => json!({"bytes": &bytes[..]}),
        Object::Tuple(items) => all(items).into(),
        Object::List(items) => all(items).into(),
        Object::Set(items) => {
            let mut items = all(items);
            items.sort_by_key(Value::as_i64);
            json!({"set": items})
        }
        Object::Dict(entries) => table(entries),
        Object::Array(array) => {
            let values: Vec<Value> = array.numbers().expect("small numbers").into_iter().map(number).collect();
            json!({"shape": array.shape, "values": values})
        }
        Object::Foreign(foreign) => json!({"object": foreign.name, "fields": table(&foreign.fields)}),
        other => panic!("{other:?}"),
    }
}

const VARIANTS: [&str; 7] = ["0", "1", "2", "3", "4", "5", "4s"];

#[test]
fn values_and_arrays_of_all_protocols_are_those_of_python() {
    let wanted: Value = serde_json::from_slice(&bytes("values.json")).expect("JSON");
    let operations = wanted["operations"].as_array().expect("names");
    assert!(operations.len() > 45, "the files have {} kinds of operations", operations.len());
    for (name, options) in [
        ("values", Options::default()),
        ("arrays", Options::default()),
        ("records", Options { others: Others::PassedOver, ..Options::default() }),
    ] {
        for variant in VARIANTS {
            let file = format!("{name}.{variant}.pkl");
            let bytes = bytes(&file);
            let (pickled, length) = parse(&bytes, &options).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert_eq!(length, bytes.len(), "{file}");
            let Value::Object(got) = described(&pickled, pickled.root()) else { panic!("{file} is no table") };
            let wanted = wanted[name].as_object().expect("a table");
            assert_eq!(got.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{file}");
            for (key, wanted) in wanted {
                assert_eq!(&got[key], wanted, "{file}: {key}");
            }
        }
    }
}

/// An object that occurs in two places is stored once.
#[test]
fn the_same_object_is_kept_once() {
    let (pickled, _) = parse(&bytes("values.4.pkl"), &Options::default()).expect("plain values");
    let Object::Dict(entries) = pickled.root() else { panic!("a table") };
    let twice = entries.iter().find(|entry| pickled.text(entry.0) == Some("twice")).expect("a key");
    let Object::List(twice) = pickled.get(twice.1) else { panic!("a list") };
    assert_eq!(twice[0], twice[1]);
}

/// Only accepted functions may be named, and none is called.
#[test]
fn functions_are_named_where_they_are_expected() {
    let named = |fits: fn(&str) -> bool| Options { others: Others::Named(fits), ..Options::default() };
    for variant in VARIANTS {
        let bytes = bytes(&format!("postprocessing.{variant}.pkl"));
        let refused = parse(&bytes, &Options::default()).expect_err("a function");
        let name =
            "nnunetv2.postprocessing.remove_connected_components.remove_all_but_largest_component_from_segmentation";
        assert_eq!(refused, PickleError::Refused(name.to_owned()));
        assert!(refused.to_string().contains(name) && refused.to_string().contains("nothing was executed"));
        assert!(parse(&bytes, &named(|name| name.starts_with("monai."))).is_err());
        let (pickled, _) = parse(&bytes, &named(|name| name.starts_with("nnunetv2."))).expect("a known function");
        let Object::Tuple(parts) = pickled.root() else { panic!("a tuple") };
        let Object::List(functions) = pickled.get(parts[0]) else { panic!("a list") };
        assert!(matches!(pickled.get(functions[1]), Object::Name(found) if **found == *name));
    }
    let call = b"\x80\x02cnnunetv2.run\nstart\n)R.";
    let error = parse(call, &named(|name| name.starts_with("nnunetv2."))).expect_err("a call").to_string();
    assert!(error.contains("calls nnunetv2.run.start"), "{error}");
}

#[test]
fn damaged_pickles_are_errors() {
    for name in ["values", "arrays", "records", "postprocessing"] {
        for variant in VARIANTS {
            let whole = bytes(&format!("{name}.{variant}.pkl"));
            for options in [Options::default(), Options::weights()] {
                for length in 0..whole.len() {
                    assert!(parse(&whole[..length], &options).is_err(), "{name}.{variant}: {length} bytes");
                }
                for at in 0..whole.len() {
                    for bit in [0x01, 0x55, 0x80] {
                        let mut bent = whole.clone();
                        bent[at] ^= bit;
                        let _ = parse(&bent, &options);
                    }
                }
            }
        }
    }
}
