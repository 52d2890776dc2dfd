//! Archives (zip): `data.pkl`, and `data/KEY` for each storage.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::{Mutex, PoisonError};

use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::{Result, SavedError, limited};

/// The largest number of bytes that deflate unpacks a byte to.
const DEFLATE: u64 = 1032;

type Zip = ZipArchive<BufReader<File>>;

pub(super) struct Archive {
    zip: Mutex<Zip>,
    /// The folder of `data.pkl`, with its slash.
    root: String,
    /// The length of the file in bytes.
    length: u64,
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("root", &self.root).field("length", &self.length).finish_non_exhaustive()
    }
}

fn wrong(error: &zip::result::ZipError) -> SavedError {
    SavedError::Invalid(error.to_string())
}

/// Opens an entry. PyTorch can be set not to compute checksums; it then writes 0, which is not
/// compared.
fn opened<'a>(zip: &'a mut Zip, name: &str) -> Result<ZipFile<'a, BufReader<File>>> {
    let index = zip.index_for_name(name).ok_or_else(|| format!("{name} is not in the archive"))?;
    let about = zip.by_index_raw(index).map_err(|error| wrong(&error))?;
    let without = about.compression() == CompressionMethod::Stored && about.crc32() == 0;
    drop(about);
    let entry = if without { zip.by_index_raw(index) } else { zip.by_index(index) };
    entry.map_err(|error| wrong(&error))
}

impl Archive {
    /// Opens an archive; returns it and its `data.pkl`.
    pub fn open(file: File, most: u64) -> Result<(Self, Vec<u8>)> {
        let length = file.metadata()?.len();
        let mut zip = ZipArchive::new(BufReader::new(file)).map_err(|error| wrong(&error))?;
        let roots = zip.file_names().filter_map(|name| name.strip_suffix("data.pkl"));
        let root = roots.filter(|root| root.is_empty() || root.ends_with('/')).min_by_key(|root| root.len());
        let root = root.ok_or("the archive holds no data.pkl, as torch.save writes it")?.to_owned();
        let order = format!("{root}byteorder");
        if zip.index_for_name(&order).is_some() {
            let order = limited(opened(&mut zip, &order)?, 64)?;
            if order.trim_ascii() != b"little" {
                return Err("it is from a big-endian machine; save it on a little-endian one".into());
            }
        }
        let pickle = limited(opened(&mut zip, &format!("{root}data.pkl"))?, most)?;
        Ok((Archive { zip: Mutex::new(zip), root, length }, pickle))
    }

    /// The number of bytes that a storage can have.
    pub fn held(&self, key: &str) -> u64 {
        let mut zip = self.zip.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(index) = zip.index_for_name(&format!("{}data/{key}", self.root)) else { return 0 };
        let Ok(entry) = zip.by_index_raw(index) else { return 0 };
        entry.size().min(entry.compressed_size().min(self.length).saturating_mul(DEFLATE))
    }

    /// Reads a range of a storage.
    pub fn read(&self, key: &str, start: u64, count: u64) -> Result<Vec<u8>> {
        let mut zip = self.zip.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = opened(&mut zip, &format!("{}data/{key}", self.root))?;
        let size = entry.size();
        self.window(entry, key, size, start, count)
    }

    fn window(&self, mut entry: impl Read, key: &str, size: u64, start: u64, count: u64) -> Result<Vec<u8>> {
        let short =
            |has: u64| SavedError::Invalid(format!("storage {key} has {has} bytes, and {} are needed", start + count));
        if start.checked_add(count).is_none_or(|end| end > size) {
            return Err(short(size));
        }
        let damaged = |error: std::io::Error| SavedError::Invalid(format!("storage {key}: {error}"));
        let skipped = std::io::copy(&mut entry.by_ref().take(start), &mut std::io::sink()).map_err(damaged)?;
        // Sizes in an archive are only claims: memory beyond the file's length is allocated as data
        // is unpacked.
        let mut bytes = Vec::with_capacity(count.min(self.length) as usize);
        entry.by_ref().take(count).read_to_end(&mut bytes).map_err(damaged)?;
        if skipped < start || (bytes.len() as u64) < count {
            return Err(short(skipped + bytes.len() as u64));
        }
        // Reading past the last byte compares the checksum.
        if start + count == size && entry.read(&mut [0]).map_err(damaged)? > 0 {
            return Err(format!("storage {key} has more than the {size} bytes that the archive says").into());
        }
        Ok(bytes)
    }
}
