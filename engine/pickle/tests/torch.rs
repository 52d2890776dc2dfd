//! Files of `torch.save`, and the values that PyTorch reads from them
//! (`tests/golden/record_pickles.py`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_pickle::torch::{Layout, Saved, SavedError};
use hearth_pickle::{Object, Options, Tensor};
use serde_json::Value;

const MOST: u64 = 1 << 20;

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

fn open(path: &Path) -> Result<Saved, SavedError> {
    Saved::open(path, &Options::weights(), MOST)
}

/// The tensors of a dictionary.
fn tensors(saved: &Saved) -> Vec<(String, Arc<Tensor>)> {
    let pickled = saved.pickled();
    let Object::Dict(entries) = pickled.root() else { return Vec::new() };
    let tensor = |(key, value): &(u32, u32)| match pickled.get(*value) {
        Object::Tensor(tensor) => Some((pickled.text(*key)?.to_owned(), tensor.clone())),
        _ => None,
    };
    entries.iter().filter_map(tensor).collect()
}

#[test]
fn values_of_tensors_are_those_of_pytorch_in_every_layout() {
    let wanted: Value =
        serde_json::from_slice(&std::fs::read(recorded("tensors.json")).expect("a file")).expect("JSON");
    let files = wanted.as_object().expect("a table");
    assert_eq!(files.len(), 7);
    for (name, wanted) in files {
        let saved = open(&recorded(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let layout = match name.as_str() {
            "tar.pt" => Layout::Tar,
            name if name.starts_with("stream") => Layout::Stream,
            _ => Layout::Archive,
        };
        assert_eq!(saved.layout(), layout, "{name}");
        let got = tensors(&saved);
        assert_eq!(got.len(), wanted.as_object().expect("a table").len(), "{name}");
        for (key, tensor) in got {
            let wanted = &wanted[&key];
            let of = format!("{name}: {key}");
            let bytes = saved.read(&tensor).unwrap_or_else(|error| panic!("{of}: {error}"));
            assert_eq!(serde_json::json!(tensor.shape), wanted["shape"], "{of}");
            assert_eq!(serde_json::json!(bytes), wanted["bytes"], "{of}");
            let dtype = match wanted["dtype"].as_str().expect("a type") {
                "float32" => "F32",
                "float64" => "F64",
                "float16" => "F16",
                "bfloat16" => "BF16",
                "int64" => "I64",
                "int8" => "I8",
                "uint16" => "U16",
                "bool" => "Bool",
                other => panic!("{other}"),
            };
            assert_eq!(format!("{:?}", tensor.dtype), dtype, "{of}");
            assert!(bytes.is_empty() || saved.held(&tensor.storage) > 0, "{of}");
        }
    }
}

#[test]
fn damaged_files_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.pt");
    for (name, step) in [("archive.pt", 37), ("stream.pt", 13), ("stream1.pt", 13), ("tar.pt", 101)] {
        let whole = std::fs::read(recorded(name)).expect("a file");
        let read_all = |bytes: &[u8]| -> Result<(), SavedError> {
            std::fs::write(&path, bytes)?;
            let saved = open(&path)?;
            let tensors = tensors(&saved);
            if tensors.is_empty() {
                return Err(SavedError::Invalid("no tensors".to_owned()));
            }
            tensors.iter().try_for_each(|(_, tensor)| saved.read(tensor).map(drop))
        };
        read_all(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
        // A tar file ends with empty blocks that are not needed.
        let needed = if name == "tar.pt" { 512 } else { whole.len() };
        for length in (0..needed).step_by(step) {
            assert!(read_all(&whole[..length]).is_err(), "{name}: {length} bytes");
        }
        for at in (0..whole.len()).step_by(step) {
            let mut bent = whole.clone();
            bent[at] ^= 0x55;
            let _ = read_all(&bent);
        }
    }
}

/// A changed bit of a value: the archive's checksum reveals it, unless PyTorch was set to compute
/// none.
#[test]
fn checksums_are_compared_where_there_are_some() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.pt");
    for (name, is_told) in [("archive.pt", true), ("unchecked.pt", false)] {
        let mut bytes = std::fs::read(recorded(name)).expect("a file");
        let saved = open(&recorded(name)).expect("whole");
        let (_, whole) = tensors(&saved).into_iter().find(|(key, _)| key == "whole").expect("a tensor");
        let values = saved.read(&whole).expect("whole");
        let at = bytes.windows(16).position(|window| *window == values[..16]).expect("stored as they are");
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        let saved = open(&path).expect("the pickle is whole");
        assert_eq!(saved.read(&whole).is_err(), is_told, "{name}");
    }
}

#[test]
fn other_files_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let says = |bytes: &[u8], part: &str| {
        let path = folder.path().join("x.pt");
        std::fs::write(&path, bytes).expect("written");
        let error = open(&path).map(drop).expect_err(part).to_string();
        assert!(error.contains(part), "no {part:?} in {error}");
    };
    says(b"", "not a PyTorch checkpoint");
    says(b"\x80\0\0\0\0\0\0\0{\"a\":1}", "not a PyTorch checkpoint");
    says(&[b"PK\x05\x06".as_slice(), &[0; 18]].concat(), "");
    // A single pickle, which cannot contain a tensor.
    says(&vec![b']'; MOST as usize + 1], "more than 1048576 bytes");
    let mut tar = [0_u8; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    says(&tar, "");
    assert!(matches!(open(&folder.path().join("none.pt")), Err(SavedError::Io(_))));
    // The facts of a big-endian machine.
    let stream = std::fs::read(recorded("stream.pt")).expect("a file");
    let at = stream.windows(13).position(|window| window == b"little_endian").expect("facts");
    let is = at + stream[at..].iter().position(|byte| *byte == 0x88).expect("True");
    let mut big = stream.clone();
    big[is] = 0x89;
    says(&big, "big-endian machine");
}
