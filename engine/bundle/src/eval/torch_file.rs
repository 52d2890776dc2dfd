//! `torch.load(file)` of plain values and NumPy arrays.

use std::fs::File;
use std::io::{BufReader, Read};

use super::{Eval, World, files};
use crate::fault::{Fault, FaultKind};
use crate::pickle;

/// The largest pickle that an expression reads. Tensors lie beside it, and are not read.
const LARGEST: u64 = 64 << 20;

/// The number that files of PyTorch before 1.6 begin with, little-endian.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// The version of their format.
const PROTOCOL: i64 = 1001;

/// What is in a file that `torch.save` wrote: a zip with a pickle, or pickles one after the other.
pub fn load(world: &World, path: &str) -> Eval {
    if let Some(known) = world.loaded.borrow().get(path) {
        return Ok(known.clone());
    }
    files::check(world, path)?;
    let wrong = |what: String| Fault::new(FaultKind::File, format!("{path} cannot be read: {what}"));
    let (value, count) = content(world, path).and_then(|pickled| pickled.value()).map_err(wrong)?;
    world.take(count)?;
    world.loaded.borrow_mut().insert(path.to_owned(), value.clone());
    Ok(value)
}

fn content(world: &World, path: &str) -> Result<pickle::Pickled, String> {
    let mut file = File::open(world.path(path)).map_err(|error| error.to_string())?;
    let mut magic = Vec::new();
    file.by_ref().take(4).read_to_end(&mut magic).map_err(|error| error.to_string())?;
    let file = File::open(world.path(path)).map_err(|error| error.to_string())?;
    if magic != *b"PK\x03\x04" {
        return older(&read(file)?);
    }
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(|error| error.to_string())?;
    let named = |name: &&str| *name == "data.pkl" || name.ends_with("/data.pkl");
    let name = archive.file_names().find(named).map(str::to_owned);
    let name = name.ok_or("the archive holds no data.pkl, as torch.save writes it")?;
    let entry = archive.by_name(&name).map_err(|error| error.to_string())?;
    Ok(pickle::parse(&read(entry)?)?.0)
}

/// At most [`LARGEST`] bytes.
fn read(from: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    match bytes.len() as u64 > LARGEST {
        true => Err(format!("its pickle has more than {LARGEST} bytes")),
        false => Ok(bytes),
    }
}

/// A number, a version and facts of the machine stand before what was saved.
fn older(bytes: &[u8]) -> Result<pickle::Pickled, String> {
    let none = || "it is no file of torch.save".to_owned();
    let (magic, mut at) = pickle::parse(bytes).map_err(|_| none())?;
    if magic.whole().as_deref() != Some(&MAGIC) {
        return Err(none());
    }
    let (version, length) = pickle::parse(&bytes[at..])?;
    if version.whole().as_deref() != Some(&PROTOCOL.to_le_bytes()) {
        return Err("it is of a version of torch.save that is not known".to_owned());
    }
    at += length;
    at += pickle::parse(&bytes[at..])?.1;
    Ok(pickle::parse(&bytes[at..])?.0)
}
