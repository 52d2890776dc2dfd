//! Files of `torch.save`: NumPy arrays and plain values, as Python reads them
//! (`tests/golden/record_arrays.py`); damaged and hostile files.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use hearth_bundle::{Config, Fault, FaultKind, Resolver, Value};
use serde_json::json;

type Tested = Result<(), Box<dyn Error>>;

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded")
}

fn value(folder: &Path, file: &str, expression: &str) -> Result<Value, Fault> {
    let load = format!("$torch.load('{file}', map_location=torch.device('cuda'))");
    let config = Config::parse("c.json", &json!({"file": load, "x": expression}).to_string())?;
    Resolver::new(config, folder.to_owned())?.get("x")
}

#[test]
fn arrays_are_those_of_python() -> Tested {
    let text = std::fs::read_to_string(recorded().join("arrays.json"))?;
    let wanted: serde_json::Value = serde_json::from_str(&text)?;
    let content = wanted["content"].as_object().ok_or("no content")?;
    assert_eq!(content.len(), 12);
    for file in ["zip.pt", "older.pt", "protocol4.pt", "protocol5.pt"] {
        for (key, wanted) in content {
            let got = value(&recorded(), file, &format!("$@file['{key}']"))?;
            assert_eq!(got.to_json().as_ref(), Some(wanted), "{file}: {key}");
        }
    }
    let got = value(&recorded(), "earlier.pt", "$@file['node_a']")?;
    assert_eq!(got.to_json(), Some(json!([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])));
    Ok(())
}

/// As the configs of DiNTS and other programs use them.
#[test]
fn arrays_work_in_expressions() -> Tested {
    for (expression, wanted) in [
        ("$torch.from_numpy(@file['node_a'])", json!([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])),
        ("$torch.from_numpy(@file['arch_code_c']).to(torch.device('cuda'))", json!([[0, 1, 4], [3, 2, 0]])),
        ("$@file['arch_code_c'][1][0]", json!(3)),
        ("$@file['arch_code_c'][-1]", json!([3, 2, 0])),
        ("$@file['arch_code_c'][:1]", json!([[0, 1, 4]])),
        ("$@file['arch_code_c'] * 2 + 1", json!([[1, 3, 9], [7, 5, 1]])),
        ("$@file['node_a'] - @file['arch_code_c']", json!([[1.0, -1.0, -3.0], [-2.0, -1.0, 0.0]])),
        ("$@file['arch_code_c'].tolist() + [[7]]", json!([[0, 1, 4], [3, 2, 0], [7]])),
        ("$len(@file['node_a'])", json!(2)),
        ("$@file['plain']['iter'] // 10", json!(1859)),
        ("$@file.get('nothing', 4)", json!(4)),
        (
            "$[key for key in @file.keys() if key.startswith('n')]",
            json!(["node_a", "negative", "no_values", "no_axes"]),
        ),
    ] {
        let got = value(&recorded(), "zip.pt", expression).map_err(|fault| format!("{expression}: {fault}"))?;
        assert_eq!(got.to_json(), Some(wanted), "{expression}");
    }
    let missing = value(&recorded(), "zip.pt", "$@file['none']").err().ok_or("a missing key")?;
    assert!(missing.to_string().contains("no key \"none\""), "{missing}");
    // A tensor is not read, and does not prevent reading the arrays next to it.
    assert!(value(&recorded(), "tensor.pt", "$@file['node_a']").is_ok());
    let tensor = value(&recorded(), "tensor.pt", "$@file['weight']")?;
    assert_eq!((tensor.to_json(), tensor.kind().as_str()), (None, "torch.Tensor(...)"));
    Ok(())
}

/// A file with one pickle, as `torch.save` writes it.
fn archive(folder: &Path, pickle: &[u8]) -> Tested {
    let mut zip = zip::ZipWriter::new(std::fs::File::create(folder.join("x.pt"))?);
    zip.start_file("x/data.pkl", zip::write::SimpleFileOptions::default())?;
    zip.write_all(pickle)?;
    zip.finish()?;
    Ok(())
}

#[test]
fn hostile_files_are_refused() -> Tested {
    let folder = tempfile::tempdir()?;
    let array = |shape: &[u8], kind: &[u8], bytes: &[u8]| {
        let mut pickle =
            b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01".to_vec();
        pickle.extend_from_slice(shape);
        pickle.extend_from_slice(b"cnumpy\ndtype\nX\x02\x00\x00\x00");
        pickle.extend_from_slice(kind);
        pickle.extend_from_slice(b"\x89\x88\x87R\x89U");
        pickle.push(bytes.len() as u8);
        pickle.extend_from_slice(bytes);
        pickle.extend_from_slice(b"tb.");
        pickle
    };
    let whole = array(b"K\x02\x85", b"i1", &[1, 2]);
    archive(folder.path(), &whole)?;
    assert_eq!(value(folder.path(), "x.pt", "$@file[1]")?.to_json(), Some(json!(2)));
    let mut deep = b"\x80\x02".to_vec();
    deep.extend(std::iter::repeat_n(b']', 200));
    deep.extend(std::iter::repeat_n(b'a', 199));
    deep.push(b'.');
    // Each list holds the one before it ten times: 10 to the power of 12 values.
    let mut many = b"\x80\x02]q\x00".to_vec();
    for level in 0..12_u8 {
        many.extend_from_slice(b"](");
        (0..10).for_each(|_| many.extend_from_slice(&[b'h', level]));
        many.extend_from_slice(&[b'e', b'q', level + 1]);
    }
    many.push(b'.');
    // A list of a hundred thousand values, which is repeatedly converted to a set.
    let mut sets = b"\x80\x02](".to_vec();
    sets.extend(std::iter::repeat_n(b'N', 100_000));
    sets.extend_from_slice(b"eq\x00\x85q\x01cbuiltins\nset\nq\x02(");
    (0..1000).for_each(|_| sets.extend_from_slice(b"h\x02h\x01R"));
    sets.extend_from_slice(b"t.");
    let cases: [(&str, Vec<u8>); 15] = [
        ("posix.system", b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.".to_vec()),
        ("builtins.eval", b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.".to_vec()),
        ("torch.load", b"\x80\x02ctorch\nload\nX\x01\x00\x00\x00x\x85R.".to_vec()),
        ("operation 0x69", b"\x80\x02(ios\nsystem\n.".to_vec()),
        ("at most 1048576", array(b"J\x00\x00\x00\x10\x85", b"i1", &[1])),
        ("at most 4096", array(b"J\x00\x00\x00\x10K\x00\x86", b"i1", &[])),
        ("with 1 values", array(b"K\x02\x85", b"i1", &[1])),
        ("3 bytes of numbers of 2", array(b"K\x02\x85", b"i2", &[1, 2, 3])),
        ("type O8", array(b"K\x01\x85", b"O8", &[0; 8])),
        ("with an invalid shape", array(b"J\xff\xff\xff\xff\x85", b"i1", &[1])),
        ("recalls what it did not store", b"\x80\x02h\x07.".to_vec()),
        ("does not have", b"\x80\x02.".to_vec()),
        ("levels deep", deep),
        ("holds more than 2000000 values", many),
        ("take more than 268435456 bytes", sets),
    ];
    for (part, pickle) in cases {
        archive(folder.path(), &pickle)?;
        let fault = value(folder.path(), "x.pt", "$@file[0]").err().ok_or_else(|| format!("{part} was read"))?;
        assert!(fault.kind == FaultKind::File && fault.id == "x", "{part}: {fault:?}");
        assert!(fault.to_string().contains(part), "{part}: {fault}");
        assert!(fault.to_string().contains("x.pt cannot be read"), "{fault}");
    }
    for length in 0..whole.len() {
        archive(folder.path(), &whole[..length])?;
        let fault =
            value(folder.path(), "x.pt", "$@file[0]").err().ok_or_else(|| format!("{length} bytes were read"))?;
        assert!(fault.to_string().contains("x.pt cannot be read"), "{fault}");
    }
    Ok(())
}

#[test]
fn damaged_files_are_told() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("x.pt");
    for name in ["zip.pt", "older.pt"] {
        let whole = std::fs::read(recorded().join(name))?;
        for length in (0..whole.len()).step_by(97) {
            std::fs::write(&path, &whole[..length])?;
            // In a file of the older format, the bytes after the arrays do not matter here.
            if let Err(fault) = value(folder.path(), "x.pt", "$@file['node_a']") {
                assert!(fault.to_string().contains("x.pt cannot be read"), "{fault}");
            } else {
                assert!(name == "older.pt" && length * 10 > whole.len() * 9, "{name}: {length} of {}", whole.len());
            }
        }
        // Change single bytes: the result is a value or an error.
        for at in (0..whole.len()).step_by(13) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&path, &bytes)?;
            let _ = value(folder.path(), "x.pt", "$@file['node_a']");
        }
    }
    std::fs::write(&path, b"no file of PyTorch's")?;
    let fault = value(folder.path(), "x.pt", "$@file['node_a']").err().ok_or("read")?;
    assert!(fault.to_string().contains("no file of torch.save"), "{fault}");
    let fault = value(folder.path(), "none.pt", "$@file['node_a']").err().ok_or("read")?;
    assert!(fault.kind == FaultKind::File && fault.to_string().contains("none.pt"), "{fault}");
    Ok(())
}
