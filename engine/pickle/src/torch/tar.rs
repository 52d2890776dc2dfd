//! Archives (tar), of PyTorch before 0.1.10.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use super::stream::little_endian;
use super::{Result, SavedError, limited};
use crate::machine::Machine;
use crate::object::{Object, Pickled};
use crate::tensor::{Dtype, Storage, Tensor, key_of};
use crate::{Beside, Options, parse};

/// An open archive. Storages are kept in memory as they were read.
#[derive(Debug)]
pub(super) struct Tar {
    content: Vec<u8>,
    /// The type of each storage, and the range of its bytes.
    storages: HashMap<String, (Dtype, Range<usize>)>,
}

/// A reader of an entry, from its beginning.
struct Entry<'a> {
    bytes: &'a [u8],
    at: usize,
    options: &'a Options,
}

fn wrong(what: &str) -> SavedError {
    SavedError::Invalid(format!("the tar of PyTorch before 0.1.10 is damaged: {what}"))
}

impl Entry<'_> {
    fn pickle(&mut self) -> Result<Pickled> {
        let (pickled, length) = parse(&self.bytes[self.at..], self.options)?;
        self.at += length;
        Ok(pickled)
    }

    fn skip(&mut self, count: usize) -> Result<Range<usize>> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let range = self.at..end.ok_or_else(|| wrong("an entry ends early"))?;
        self.at = range.end;
        Ok(range)
    }

    fn size(&mut self) -> Result<usize> {
        let range = self.skip(8)?;
        let number = self.bytes[range].iter().rev().fold(0, |number: u64, byte| (number << 8) | u64::from(*byte));
        usize::try_from(number as i64).map_err(|_| wrong("a size is below zero"))
    }

    fn count(&mut self) -> Result<usize> {
        self.pickle()?.root().size().ok_or_else(|| wrong("an entry does not begin with a number"))
    }
}

/// The items of a tuple with `N` items.
fn parts<'a, const N: usize>(pickled: &'a Pickled, object: &'a Object) -> Result<[&'a Object; N]> {
    let Object::Tuple(items) = object else { return Err(wrong("a tuple is missing")) };
    let items: Vec<&Object> = items.iter().take(N + 1).map(|place| pickled.get(*place)).collect();
    items.try_into().map_err(|_| wrong("a tuple has other parts"))
}

fn key(object: &Object) -> Result<String> {
    key_of(object).ok_or_else(|| wrong("a key is invalid"))
}

impl Tar {
    /// Opens an archive; returns it and the saved object.
    pub fn open(file: File, options: &Options) -> Result<(Self, Pickled)> {
        // An entry has at most as many bytes as the file, whatever it claims.
        let most = file.metadata()?.len();
        let mut archive = ::tar::Archive::new(BufReader::new(file));
        let mut entries: HashMap<String, Vec<u8>> = HashMap::new();
        for entry in archive.entries()? {
            let mut entry = entry?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
            if ["sys_info", "storages", "tensors", "pickle"].contains(&name.as_str()) {
                entries.insert(name, limited(entry.by_ref(), most)?);
            }
        }
        let mut entry = |name: &str| entries.remove(name).ok_or_else(|| wrong(&format!("it holds no {name}")));
        little_endian(&parse(&entry("sys_info")?, options)?.0)?;
        let (content, tensors, pickle) = (entry("storages")?, entry("tensors")?, entry("pickle")?);
        let storages = storages(&content, options)?;
        let tensors = self::tensors(&tensors, &storages, options)?;
        let (pickled, _) = Machine::new(&pickle, options, Beside::Tensors(&tensors)).run()?;
        Ok((Tar { content, storages }, pickled))
    }

    pub fn held(&self, key: &str) -> u64 {
        self.storages.get(key).map_or(0, |storage| storage.1.len() as u64)
    }

    /// Reads a range of a storage.
    pub fn read(&self, key: &str, start: usize, count: usize) -> Result<Vec<u8>> {
        let bytes = self.storages.get(key).and_then(|storage| self.content.get(storage.1.clone()));
        let window = bytes.and_then(|bytes| bytes.get(start..start.checked_add(count)?));
        window.map(<[u8]>::to_vec).ok_or_else(|| wrong(&format!("storage {key} is too short")))
    }
}

/// Reads the storages: a number; for each storage its key, device and class, the number of values,
/// and the values; then parts of storages, which are storages of their own.
fn storages(content: &[u8], options: &Options) -> Result<HashMap<String, (Dtype, Range<usize>)>> {
    let mut entry = Entry { bytes: content, at: 0, options };
    let mut storages = HashMap::new();
    for _ in 0..entry.count()? {
        let about = entry.pickle()?;
        let [name, _, class] = parts(&about, about.root())?;
        let Object::Name(class) = class else { return Err(wrong("a storage has no class")) };
        let dtype = Dtype::of_storage(class)?;
        let bytes = entry.size()?.checked_mul(dtype.size()).ok_or_else(|| wrong("a storage is too large"))?;
        storages.insert(key(name)?, (dtype, entry.skip(bytes)?));
    }
    let views = entry.pickle()?;
    let Object::List(items) = views.root() else { return Err(wrong("the parts of storages are not a list")) };
    for item in items {
        let [name, whole, offset, count] = parts(&views, views.get(*item))?;
        let whole = key(whole)?;
        let (dtype, range) = storages.get(&whole).cloned().ok_or_else(|| wrong("a part has no storage"))?;
        let within = |object: &Object| object.size().and_then(|size| size.checked_mul(dtype.size()));
        let begin = within(offset).and_then(|offset| range.start.checked_add(offset));
        let end = begin.zip(within(count)).and_then(|(begin, bytes)| begin.checked_add(bytes));
        let part = begin.zip(end).filter(|(_, end)| *end <= range.end);
        let (begin, end) = part.ok_or_else(|| wrong("a part goes beyond its storage"))?;
        storages.insert(key(name)?, (dtype, begin..end));
    }
    Ok(storages)
}

/// Reads the tensors: a number; for each tensor its key, its storage's key and its class, the
/// number of axes, their lengths and strides, and the offset.
fn tensors(
    content: &[u8],
    storages: &HashMap<String, (Dtype, Range<usize>)>,
    options: &Options,
) -> Result<HashMap<String, Arc<Tensor>>> {
    let mut entry = Entry { bytes: content, at: 0, options };
    let mut tensors = HashMap::new();
    for _ in 0..entry.count()? {
        let about = entry.pickle()?;
        let [name, of, _] = parts(&about, about.root())?;
        let of = key(of)?;
        let (dtype, range) = storages.get(&of).ok_or_else(|| wrong("a tensor has no storage"))?;
        // The number of axes has four bytes; in older files it has eight.
        let [axes, 0, 0, 0, ..] = content[entry.skip(8)?] else { return Err(wrong("a tensor has too many axes")) };
        let shape: Vec<usize> = (0..axes).map(|_| entry.size()).collect::<Result<_>>()?;
        let stride: Vec<usize> = (0..axes).map(|_| entry.size()).collect::<Result<_>>()?;
        let offset = entry.size()?;
        let bytes = range.len();
        let storage = Storage { key: of, dtype: Some(*dtype), length: bytes, begin: 0, reach: bytes };
        let tensor = Tensor::new(Arc::new(storage), *dtype, offset, shape, stride)?;
        tensors.insert(key(name)?, Arc::new(tensor));
    }
    Ok(tensors)
}
