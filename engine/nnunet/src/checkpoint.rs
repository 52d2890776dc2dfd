//! Checkpoints in PyTorch's format: a zip with a pickle of protocol 2 and a file per storage. Only
//! plain values and tensors are written, so that loading runs no code.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use hearth_files::Latched;
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::error::{NnunetError, Result};

/// A tensor of a network, f32 or i64.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    /// Its key in the state dict.
    pub name: &'a str,
    /// The shape.
    pub shape: &'a [usize],
    /// The values, little-endian, row-major.
    pub values: &'a [u8],
    /// Whether the values are i64, as for counters.
    pub integers: bool,
}

impl Weight<'_> {
    /// The number of bytes per value.
    fn width(&self) -> usize {
        if self.integers { 8 } else { 4 }
    }
}

/// The folder within the zip.
const ROOT: &str = "checkpoint";

/// Writes a checkpoint: the keys of the table `about`, and the weights as `network_weights`.
/// Tensors with the same values share a storage, as nnU-Net's aliases of one tensor do.
///
/// # Errors
/// Weights whose shape does not match their values, or a file that cannot be written.
pub fn write(path: &Path, weights: &[Weight<'_>], about: &Value) -> Result<()> {
    check(path, weights)?;
    let mut storages: Vec<&[u8]> = Vec::new();
    let mut pickle = Pickle(vec![0x80, 2, b'}', b'(']);
    for (key, value) in about.as_object().into_iter().flatten() {
        pickle.text(key);
        pickle.value(value);
    }
    pickle.text("network_weights");
    pickle.state_dict(weights, &mut storages);
    pickle.0.extend(b"u.");
    write_zip(path, &pickle.0, &storages).map_err(|error| NnunetError::Io { path: path.to_owned(), source: error })
}

/// Writes only the weights, as `torch.save(network.state_dict(), path)` does.
///
/// # Errors
/// Same as [`write()`].
pub fn write_state_dict(path: &Path, weights: &[Weight<'_>]) -> Result<()> {
    check(path, weights)?;
    let mut storages: Vec<&[u8]> = Vec::new();
    let mut pickle = Pickle(vec![0x80, 2]);
    pickle.state_dict(weights, &mut storages);
    pickle.0.push(b'.');
    write_zip(path, &pickle.0, &storages).map_err(|error| NnunetError::Io { path: path.to_owned(), source: error })
}

/// Writes plain values, lists and tables as a pickle, as nnU-Net's `save_pickle` does.
///
/// # Errors
/// A file that cannot be written.
pub fn write_values(path: &Path, value: &Value) -> Result<()> {
    let mut pickle = Pickle(vec![0x80, 2]);
    pickle.value(value);
    pickle.0.push(b'.');
    let write = |file: &mut BufWriter<File>| file.write_all(&pickle.0);
    hearth_files::replace_with(path, write).map_err(|source| NnunetError::Io { path: path.to_owned(), source })
}

fn check(path: &Path, weights: &[Weight<'_>]) -> Result<()> {
    for weight @ Weight { name, shape, values, .. } in weights {
        let count = shape.iter().try_fold(weight.width(), |bytes, length| bytes.checked_mul(*length));
        if count != Some(values.len()) {
            let what = format!("{name} has {shape:?} values, and {} bytes", values.len());
            return Err(NnunetError::File { path: path.to_owned(), what });
        }
    }
    Ok(())
}

fn write_zip(path: &Path, pickle: &[u8], storages: &[&[u8]]) -> std::io::Result<()> {
    hearth_files::replace_with(path, |file| {
        let mut zip = ZipWriter::new(Latched::new(file));
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).with_alignment(64);
        let mut add = |name: &str, content: &[u8]| -> std::io::Result<()> {
            let options = stored.large_file(content.len() as u64 >= u64::from(u32::MAX));
            zip.start_file(format!("{ROOT}/{name}"), options)?;
            zip.write_all(content)
        };
        add("data.pkl", pickle)?;
        add("byteorder", b"little")?;
        for (index, storage) in storages.iter().enumerate() {
            add(&format!("data/{index}"), storage)?;
        }
        add("version", b"3\n")?;
        zip.finish()?;
        Ok(())
    })
}

/// The pickle operations that are needed.
struct Pickle(Vec<u8>);

impl Pickle {
    fn text(&mut self, text: &str) {
        self.0.push(b'X');
        self.0.extend((text.len() as u32).to_le_bytes());
        self.0.extend(text.as_bytes());
    }

    fn global(&mut self, module: &str, name: &str) {
        self.0.extend(format!("c{module}\n{name}\n").as_bytes());
    }

    fn whole(&mut self, number: i64) {
        if let Ok(small) = i32::try_from(number) {
            self.0.push(b'J');
            self.0.extend(small.to_le_bytes());
        } else {
            self.0.extend([0x8a, 8]);
            self.0.extend(number.to_le_bytes());
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.0.push(b'N'),
            Value::Bool(set) => self.0.push(if *set { 0x88 } else { 0x89 }),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => self.whole(whole),
                None => {
                    self.0.push(b'G');
                    self.0.extend(number.as_f64().unwrap_or(f64::NAN).to_be_bytes());
                }
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.0.extend(b"](");
                items.iter().for_each(|item| self.value(item));
                self.0.push(b'e');
            }
            Value::Object(table) => {
                self.0.extend(b"}(");
                for (key, value) in table {
                    self.text(key);
                    self.value(value);
                }
                self.0.push(b'u');
            }
        }
    }

    fn ordered_dict(&mut self) {
        self.global("collections", "OrderedDict");
        self.0.extend(b")R");
    }

    fn numbers(&mut self, numbers: impl Iterator<Item = usize>) {
        self.0.push(b'(');
        numbers.for_each(|number| self.whole(number as i64));
        self.0.push(b't');
    }

    fn state_dict<'a>(&mut self, weights: &[Weight<'a>], storages: &mut Vec<&'a [u8]>) {
        let mut known: HashMap<(&[u8], bool), usize> = HashMap::new();
        self.ordered_dict();
        self.0.push(b'(');
        for weight @ Weight { name, shape, values, integers } in weights.iter().copied() {
            let index = *known.entry((values, integers)).or_insert_with(|| {
                storages.push(values);
                storages.len() - 1
            });
            self.text(name);
            self.global("torch._utils", "_rebuild_tensor_v2");
            self.0.extend(b"((");
            self.text("storage");
            self.global("torch", if integers { "LongStorage" } else { "FloatStorage" });
            self.text(&index.to_string());
            self.text("cpu");
            self.whole((values.len() / weight.width()) as i64);
            self.0.extend(b"tQ");
            self.whole(0);
            self.numbers(shape.iter().copied());
            self.numbers((0..shape.len()).map(|axis| shape[axis + 1..].iter().product()));
            self.0.push(0x89);
            self.ordered_dict();
            self.0.extend(b"tR");
        }
        self.0.push(b'u');
    }
}
