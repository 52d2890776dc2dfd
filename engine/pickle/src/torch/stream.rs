//! Streams of pickles, of PyTorch 0.1.10 to 1.5.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use super::{MAGIC, Result, SavedError};
use crate::object::{Number, Object, Pickled};
use crate::{Options, PickleError, parse};

/// The version of the format.
const PROTOCOL: i64 = 1001;

#[derive(Debug)]
pub(super) struct Stream {
    file: Mutex<File>,
    /// For each storage: its offset, its length in bytes, and the expected number of values.
    storages: HashMap<String, (u64, u64, u64)>,
}

impl Stream {
    /// Opens a stream; returns it and the saved object. The pickles have at most `most` bytes
    /// together.
    pub fn open(mut file: File, options: &Options, most: u64) -> Result<(Self, Pickled)> {
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        file.by_ref().take(most).read_to_end(&mut bytes)?;
        let mut at = 0;
        let mut next = || -> Result<Pickled> {
            let early = |error: PickleError| match bytes.len() as u64 == most && most < length {
                true => SavedError::Invalid(format!("{error}, or has more than {most} bytes")),
                false => error.into(),
            };
            let (pickled, took) = parse(&bytes[at..], options).map_err(early)?;
            at += took;
            Ok(pickled)
        };
        let magic = next()?;
        // In decimal the value is not kept; the beginning of the file was compared with it.
        if magic.whole().is_some_and(|magic| !magic.is_empty() && magic != MAGIC) {
            return Err("it is not a file of torch.save".into());
        }
        if !matches!(next()?.root(), Object::Number(Number::Int(PROTOCOL))) {
            return Err("it is from an unknown version of torch.save".into());
        }
        little_endian(&next()?)?;
        let pickled = next()?;
        let keys = next()?;
        let Object::List(keys_at) = keys.root() else {
            return Err("the keys of its storages are not a list".into());
        };
        let sizes = sizes(&pickled)?;
        let mut begin = at as u64;
        let mut storages = HashMap::new();
        for key in keys_at {
            let key = keys.text(*key).ok_or("a key of its storages is not text")?;
            let (size, count) = *sizes.get(key).ok_or_else(|| format!("no tensor uses storage {key}"))?;
            let values = begin + 8;
            begin = values.checked_add(size).filter(|end| *end <= length).ok_or_else(|| {
                SavedError::Invalid(format!("storage {key} of {size} bytes goes beyond the end of the file"))
            })?;
            storages.insert(key.to_owned(), (values, size, count));
        }
        Ok((Stream { file: Mutex::new(file), storages }, pickled))
    }

    pub fn held(&self, key: &str) -> u64 {
        self.storages.get(key).map_or(0, |storage| storage.1)
    }

    /// Reads a range of a storage.
    pub fn read(&self, key: &str, start: u64, count: usize) -> Result<Vec<u8>> {
        let (values, size, expected) =
            *self.storages.get(key).ok_or_else(|| format!("storage {key} is not in the file"))?;
        if start + count as u64 > size {
            return Err(format!("storage {key} has {size} bytes, and {} are needed", start + count as u64).into());
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut there = [0; 8];
        file.seek(SeekFrom::Start(values - 8))?;
        file.read_exact(&mut there)?;
        if u64::from_le_bytes(there) != expected {
            return Err(
                format!("storage {key} has {} values, and {expected} were saved", u64::from_le_bytes(there)).into()
            );
        }
        file.seek(SeekFrom::Start(values + start))?;
        let mut bytes = vec![0; count];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// The bytes and the number of values of each storage that the pickle refers to.
fn sizes(pickled: &Pickled) -> Result<HashMap<&str, (u64, u64)>> {
    let mut sizes = HashMap::new();
    for object in pickled.objects() {
        let Object::Storage(storage) = object else { continue };
        let of = (storage.length as u64, (storage.length / storage.dtype.map_or(1, crate::Dtype::size)) as u64);
        if *sizes.entry(storage.key.as_str()).or_insert(of) != of {
            return Err(format!("storage {} has two sizes", storage.key).into());
        }
    }
    Ok(sizes)
}

/// Refuses files of big-endian machines.
pub(super) fn little_endian(facts: &Pickled) -> Result<()> {
    let Object::Dict(entries) = facts.root() else {
        return Err("the facts of the machine that wrote it are not a dictionary".into());
    };
    let found = entries.iter().rev().find(|entry| facts.text(entry.0) == Some("little_endian"));
    match found.map(|entry| facts.get(entry.1)) {
        Some(Object::Number(Number::Bool(true))) => Ok(()),
        Some(Object::Number(Number::Bool(false))) => {
            Err("it is from a big-endian machine; save it on a little-endian one".into())
        }
        _ => Err("it does not state its byte order".into()),
    }
}
