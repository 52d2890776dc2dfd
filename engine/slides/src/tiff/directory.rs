//! The header and directories (IFDs) of a TIFF: classic and BigTIFF, either byte order. Every
//! offset and count is checked against the length of the file before it is used.

use std::cell::Cell;
use std::collections::HashSet;

use super::tags;
use crate::error::Fault;
use crate::limits::Limits;
use crate::source::Source;

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u16(self, b: &[u8]) -> u16 {
        let b = [b[0], b[1]];
        if self == Order::Little { u16::from_le_bytes(b) } else { u16::from_be_bytes(b) }
    }

    pub fn u32(self, b: &[u8]) -> u32 {
        let b = [b[0], b[1], b[2], b[3]];
        if self == Order::Little { u32::from_le_bytes(b) } else { u32::from_be_bytes(b) }
    }

    pub fn u64(self, b: &[u8]) -> u64 {
        let (first, last) = (u64::from(self.u32(b)), u64::from(self.u32(&b[4..])));
        if self == Order::Little { first | last << 32 } else { first << 32 | last }
    }

    /// Whether samples of several bytes must be byte-swapped on this machine.
    pub fn is_foreign(self) -> bool {
        (self == Order::Big) == cfg!(target_endian = "little")
    }
}

/// The largest number of entries of a directory. Real ones have at most a few dozen.
const MAX_ENTRIES: u64 = 4096;

/// Reads directories and the values of their entries.
pub(crate) struct Reader<'a> {
    source: &'a Source,
    pub order: Order,
    big: bool,
    limits: Limits,
    tag_bytes: Cell<u64>,
}

#[derive(Debug)]
struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    /// The field that holds the value, or its offset in the file.
    field: [u8; 8],
}

/// One directory: the tags of one page.
#[derive(Debug)]
pub(crate) struct Directory {
    entries: Vec<Entry>,
    /// The page whose SubIFDs include this one.
    pub parent: Option<usize>,
}

impl<'a> Reader<'a> {
    /// Reads the header; also returns the offset of the first directory.
    pub fn new(source: &'a Source, limits: &Limits) -> Result<(Self, u64), Fault> {
        let head = source.read(0, source.len().min(16), "header")?;
        let order = match head.get(..2) {
            Some(b"II") => Order::Little,
            Some(b"MM") => Order::Big,
            _ => {
                let shown: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
                return Err(Fault::NotTiff(format!(
                    "not a TIFF file: it begins with {}, expected \"II\" or \"MM\"",
                    if shown.is_empty() { "nothing".to_owned() } else { shown.join(" ") }
                )));
            }
        };
        let short = || Fault::damaged(format!("the file ends within its header, after {} bytes", head.len()));
        let version = order.u16(head.get(2..4).ok_or_else(short)?);
        let (big, first) = match version {
            42 => (false, u64::from(order.u32(head.get(4..8).ok_or_else(short)?))),
            43 => {
                let head = head.get(..16).ok_or_else(short)?;
                if order.u16(&head[4..]) != 8 {
                    return Err(Fault::damaged(format!(
                        "BigTIFF offsets of {} bytes, expected 8",
                        order.u16(&head[4..])
                    )));
                }
                (true, order.u64(&head[8..]))
            }
            other => return Err(Fault::NotTiff(format!("not a TIFF file: its version is {other}, expected 42 or 43"))),
        };
        Ok((Reader { source, order, big, limits: *limits, tag_bytes: Cell::new(0) }, first))
    }

    /// All directories: the chain that begins at `first`, each directory followed by its nested
    /// ones.
    pub fn directories(&self, first: u64) -> Result<Vec<Directory>, Fault> {
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        let mut next = first;
        while next != 0 {
            next = self.directory(next, None, &mut all, &mut seen)?;
            let parent = all.len() - 1;
            for offset in all[parent].uints(self, tags::SUB_IFDS)?.unwrap_or_default() {
                // In some files the chain of a SubIFD links to its sibling; only the list is used.
                self.directory(offset, Some(parent), &mut all, &mut seen)?;
            }
        }
        if all.is_empty() {
            return Err(Fault::damaged("the file has no directory, so no image"));
        }
        Ok(all)
    }

    /// Reads one directory into `all`; returns the offset of the next one.
    fn directory(
        &self,
        offset: u64,
        parent: Option<usize>,
        all: &mut Vec<Directory>,
        seen: &mut HashSet<u64>,
    ) -> Result<u64, Fault> {
        let page = all.len();
        let what = format!("directory of page {page}");
        if !seen.insert(offset) {
            return Err(Fault::damaged(format!("{what}: byte {offset} again, the directories form a cycle")));
        }
        if page >= self.limits.pages {
            return Err(Fault::Limit(format!("the file has more than {} pages", self.limits.pages)));
        }
        let (count_size, entry_size, field_size) = if self.big { (8, 20, 8) } else { (2, 12, 4) };
        let count = self.source.read(offset, count_size, &what)?;
        let count = if self.big { self.order.u64(&count) } else { u64::from(self.order.u16(&count)) };
        if count == 0 || count > MAX_ENTRIES {
            return Err(Fault::damaged(format!("{what} has {count} entries, expected 1 to {MAX_ENTRIES}")));
        }
        let body = self.source.read(offset + count_size, count * entry_size + field_size, &what)?;
        let (body, next) = body.split_at((count * entry_size) as usize);
        let entries = body.chunks_exact(entry_size as usize).map(|b| {
            let mut field = [0; 8];
            field[..field_size as usize].copy_from_slice(&b[(entry_size - field_size) as usize..]);
            let count = if self.big { self.order.u64(&b[4..]) } else { u64::from(self.order.u32(&b[4..])) };
            Entry { tag: self.order.u16(b), kind: self.order.u16(&b[2..]), count, field }
        });
        all.push(Directory { entries: entries.collect(), parent });
        Ok(if self.big { self.order.u64(next) } else { u64::from(self.order.u32(next)) })
    }

    /// The bytes of an entry's values.
    fn bytes(&self, entry: &Entry) -> Result<Vec<u8>, Fault> {
        let size = type_size(entry.kind).ok_or_else(|| entry.fault("has a type that TIFF does not know"))?;
        let len = entry.count.checked_mul(size).ok_or_else(|| entry.fault("has more values than any file holds"))?;
        let taken = self.tag_bytes.get().saturating_add(len);
        if taken > self.limits.tag_bytes {
            return Err(Fault::Limit(format!(
                "tag {}: {len} bytes, but of all tags' values only {} are allowed",
                entry.tag, self.limits.tag_bytes
            )));
        }
        let field_size = if self.big { 8 } else { 4 };
        if len <= field_size {
            return Ok(entry.field[..len as usize].to_vec());
        }
        let offset = if self.big { self.order.u64(&entry.field) } else { u64::from(self.order.u32(&entry.field)) };
        let bytes = self.source.read(offset, len, &format!("values of tag {}", entry.tag))?;
        self.tag_bytes.set(taken);
        Ok(bytes)
    }
}

impl Entry {
    fn fault(&self, what: &str) -> Fault {
        Fault::damaged(format!("tag {} {what} (type {}, {} values)", self.tag, self.kind, self.count))
    }
}

fn type_size(kind: u16) -> Option<u64> {
    match kind {
        1 | 2 | 6 | 7 => Some(1),
        3 | 8 => Some(2),
        4 | 9 | 11 | 13 => Some(4),
        5 | 10 | 12 | 16 | 17 | 18 => Some(8),
        _ => None,
    }
}

impl Directory {
    fn entry(&self, tag: u16) -> Option<&Entry> {
        self.entries.iter().find(|e| e.tag == tag)
    }

    /// Whether the tag exists.
    pub fn has(&self, tag: u16) -> bool {
        self.entry(tag).is_some()
    }

    /// Unsigned integers of any width.
    pub fn uints(&self, reader: &Reader, tag: u16) -> Result<Option<Vec<u64>>, Fault> {
        let Some(entry) = self.entry(tag) else { return Ok(None) };
        let order = reader.order;
        let bytes = reader.bytes(entry)?;
        Ok(Some(match entry.kind {
            1 => bytes.into_iter().map(u64::from).collect(),
            3 => bytes.chunks_exact(2).map(|b| u64::from(order.u16(b))).collect(),
            4 | 13 => bytes.chunks_exact(4).map(|b| u64::from(order.u32(b))).collect(),
            16 | 18 => bytes.chunks_exact(8).map(|b| order.u64(b)).collect(),
            _ => return Err(entry.fault("is not of an integer type")),
        }))
    }

    /// The first of several unsigned integers.
    pub fn uint(&self, reader: &Reader, tag: u16) -> Result<Option<u64>, Fault> {
        match (self.uints(reader, tag)?, self.entry(tag)) {
            (Some(values), Some(entry)) => values.first().copied().map(Some).ok_or_else(|| entry.fault("has no value")),
            _ => Ok(None),
        }
    }

    /// A fraction, if the denominator is above 0.
    pub fn rational(&self, reader: &Reader, tag: u16) -> Result<Option<f64>, Fault> {
        let Some(entry) = self.entry(tag).filter(|e| e.kind == 5 && e.count >= 1) else { return Ok(None) };
        let bytes = reader.bytes(entry)?;
        let (over, under) = (reader.order.u32(&bytes), reader.order.u32(&bytes[4..]));
        Ok((under > 0).then(|| f64::from(over) / f64::from(under)))
    }

    /// A string, up to its first NUL.
    pub fn text(&self, reader: &Reader, tag: u16) -> Result<Option<String>, Fault> {
        let bytes = self.raw(reader, tag)?;
        Ok(bytes.map(|b| {
            let end = b.iter().position(|b| *b == 0).unwrap_or(b.len());
            String::from_utf8_lossy(&b[..end]).into_owned()
        }))
    }

    /// The bytes of a value of any type.
    pub fn raw(&self, reader: &Reader, tag: u16) -> Result<Option<Vec<u8>>, Fault> {
        self.entry(tag).map(|entry| reader.bytes(entry)).transpose()
    }
}
