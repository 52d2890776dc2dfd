//! Decodes bytes to samples whose values are read on demand.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{Device, Tensor, TensorData};
use hearth_image::TransformError;
use hearth_transforms::{BoxSource, IndexSource, Sample, StoredImage, StoredIndices, Value};
use rayon::prelude::*;

use super::bytes::Bytes;
use super::chunk::unpack;
use super::head::{ChunkHead, Head, ImageHead, IndicesHead, SampleHead, ValueHead};
use super::{MAGIC, PREFIX};

/// Why an entry cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    /// The entry is damaged, or was written for another case.
    #[error("{0}")]
    Damaged(String),
    /// The entry cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// An entry with a valid head.
#[derive(Debug)]
pub(crate) struct Entry {
    shared: Arc<Shared>,
    samples: Vec<SampleHead>,
}

/// The data shared by the values of an entry.
#[derive(Debug)]
struct Shared {
    bytes: Box<dyn Bytes>,
    /// Offsets of the chunks.
    chunks: u64,
    /// Name of the entry in messages.
    name: String,
    damaged: AtomicBool,
}

impl Entry {
    /// Reads the head of an entry of `length` bytes that was written for `key`.
    pub fn open(bytes: Box<dyn Bytes>, length: u64, key: &[u8; 32], name: String) -> Result<Entry, EntryError> {
        let damaged = |what: String| EntryError::Damaged(what);
        if length < PREFIX as u64 {
            return Err(damaged(format!("only {length} bytes long")));
        }
        let mut prefix = [0; PREFIX];
        bytes.with(0, PREFIX, &mut |b| prefix.copy_from_slice(b))?;
        let field = |range: std::ops::Range<usize>| {
            prefix[range].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        if prefix[..8] != MAGIC {
            return Err(damaged("not written by this version".to_owned()));
        }
        if field(8..16) != length {
            return Err(damaged(format!("{length} bytes long, but {} were written", field(8..16))));
        }
        let head_length = field(16..20);
        let chunks = PREFIX as u64 + head_length;
        if chunks > length {
            return Err(damaged("its head is longer than the entry".to_owned()));
        }
        let mut head = None;
        bytes.with(PREFIX as u64, head_length as usize, &mut |b| {
            head = (*blake3::hash(b).as_bytes() == prefix[20..52]).then(|| postcard::from_bytes::<Head>(b));
        })?;
        let head = head.ok_or_else(|| damaged("the checksum of its head is wrong".to_owned()))?;
        let head = head.map_err(|e| damaged(format!("its head is invalid: {e}")))?;
        if head.key != *key {
            return Err(damaged("written for another case or another pipeline".to_owned()));
        }
        let end = length - chunks;
        let sound = head.samples.iter().flat_map(|s| &s.values).all(|(_, value)| match value {
            ValueHead::Image(image) => image.is_sound(end),
            ValueHead::Indices(list) => list.is_sound(end),
            ValueHead::Lists(lists) => lists.iter().all(|list| list.is_sound(end)),
            _ => true,
        });
        if !sound {
            return Err(damaged("its table of chunks does not fit its shape or its length".to_owned()));
        }
        let shared = Arc::new(Shared { bytes, chunks, name, damaged: false.into() });
        Ok(Entry { shared, samples: head.samples })
    }

    /// Returns the samples; images and lists are read later, to the device that `place` returns for
    /// the sample and key.
    pub fn samples(&self, place: impl Fn(usize, &str) -> Device) -> Vec<Sample> {
        let list = |head: &IndicesHead| {
            let source = EntryIndices { shared: self.shared.clone(), head: head.clone() };
            StoredIndices::new(Arc::new(source), head.length)
        };
        let value = |sample: usize, name: &str, head: &ValueHead| match head {
            ValueHead::Image(head) => {
                let (shape, affine, meta) = (head.shape, head.affine, (&head.meta).into());
                let source =
                    EntryImage { shared: self.shared.clone(), head: head.clone(), device: place(sample, name) };
                Value::Stored(StoredImage::new(Arc::new(source), shape, affine, meta))
            }
            ValueHead::Indices(head) => Value::StoredIndices(list(head)),
            ValueHead::Lists(heads) => Value::StoredLists(heads.iter().map(&list).collect()),
            ValueHead::Path(path) => Value::Path(path.clone()),
            ValueHead::Number(number) => Value::Number(*number),
            ValueHead::Numbers(numbers) => Value::Numbers(numbers.as_slice().into()),
            ValueHead::Text(text) => Value::Text(text.clone()),
        };
        let samples = self.samples.iter().enumerate();
        samples
            .map(|(i, sample)| Sample {
                case: sample.case.clone(),
                values: sample.values.iter().map(|(name, head)| (name.clone(), value(i, name, head))).collect(),
            })
            .collect()
    }

    /// Whether a damaged chunk was found.
    pub fn is_damaged(&self) -> bool {
        self.shared.damaged.load(Ordering::Relaxed)
    }

    /// The number of bytes of memory in use.
    pub fn held(&self) -> usize {
        self.shared.bytes.held()
    }
}

impl Shared {
    /// Returns the unpacked bytes of a chunk of `count` values.
    fn chunk(&self, head: &ChunkHead, size: usize, count: usize) -> Result<Vec<u8>, TransformError> {
        let mut out = None;
        let read = self.bytes.with(self.chunks + head.at, head.size as usize, &mut |bytes| {
            if crc32fast::hash(bytes) == head.checksum {
                out = unpack(head.codec, bytes, size, count);
            }
        });
        read.map_err(|e| self.broken(&e.to_string()))?;
        out.ok_or_else(|| self.broken("the checksum of a chunk is wrong"))
    }

    fn broken(&self, what: &str) -> TransformError {
        self.damaged.store(true, Ordering::Relaxed);
        TransformError::new(format!("cache entry {}: {what}", self.name))
    }
}

#[derive(Debug)]
struct EntryImage {
    shared: Arc<Shared>,
    head: ImageHead,
    device: Device,
}

impl BoxSource for EntryImage {
    fn read_box(&self, start: [usize; 3], end: [usize; 3]) -> Result<Tensor<4>, TransformError> {
        let size: [usize; 3] = std::array::from_fn(|a| end[a].saturating_sub(start[a]));
        let channels = self.head.shape[0];
        let plane = size[1] * size[2];
        let mut out = vec![0.0_f32; channels * size[0] * plane];
        if !out.is_empty() {
            // Chunks of one channel and one position along x fill a contiguous part of the result:
            // one task each.
            let mut slabs = Vec::new();
            let mut rest = out.as_mut_slice();
            let edge = self.head.edges[0];
            for channel in 0..channels {
                for x in start[0] / edge..end[0].div_ceil(edge) {
                    let from = (x * edge).max(start[0]);
                    let to = ((x + 1) * edge).min(end[0]);
                    let (slab, others) = rest.split_at_mut((to - from) * plane);
                    rest = others;
                    slabs.push((channel, x, from..to, slab));
                }
            }
            slabs
                .into_par_iter()
                .try_for_each(|(channel, x, xs, slab)| self.fill(slab, (channel, x), &xs, (start, end)))?;
        }
        Ok(Tensor::from_data(TensorData::new(out, [channels, size[0], size[1], size[2]]), &self.device))
    }

    fn bytes(&self) -> usize {
        // All values of the entry share the memory; each reports its own share.
        let packed: usize = self.head.chunks.iter().map(|c| c.size as usize + size_of::<ChunkHead>()).sum();
        if self.shared.bytes.held() > 0 { packed } else { 0 }
    }
}

impl EntryImage {
    /// Fills the part of a box that lies in the chunks of one channel and one position along x.
    fn fill(
        &self,
        slab: &mut [f32],
        (channel, cx): (usize, usize),
        xs: &std::ops::Range<usize>,
        (start, end): ([usize; 3], [usize; 3]),
    ) -> Result<(), TransformError> {
        let ImageHead { shape, edges, kind, .. } = self.head;
        let [nx, ny, nz] = self.head.grid();
        let (height, width) = (end[1] - start[1], end[2] - start[2]);
        for cy in start[1] / edges[1]..end[1].div_ceil(edges[1]) {
            for cz in start[2] / edges[2]..end[2].div_ceil(edges[2]) {
                let place = [cx, cy, cz];
                let low: [usize; 3] = std::array::from_fn(|a| place[a] * edges[a]);
                let lengths: [usize; 3] = std::array::from_fn(|a| edges[a].min(shape[a + 1] - low[a]));
                let index = ((channel * nx + cx) * ny + cy) * nz + cz;
                let count = lengths.iter().product();
                let bytes = self.shared.chunk(&self.head.chunks[index], kind.size(), count)?;
                let ys = low[1].max(start[1])..(low[1] + lengths[1]).min(end[1]);
                let zs = low[2].max(start[2])..(low[2] + lengths[2]).min(end[2]);
                for x in xs.clone() {
                    for y in ys.clone() {
                        let from = ((x - low[0]) * lengths[1] + y - low[1]) * lengths[2] + zs.start - low[2];
                        let to = ((x - xs.start) * height + y - start[1]) * width + zs.start - start[2];
                        let row = &bytes[from * kind.size()..(from + zs.len()) * kind.size()];
                        kind.read_row(row, &mut slab[to..to + zs.len()]);
                    }
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct EntryIndices {
    shared: Arc<Shared>,
    head: IndicesHead,
}

impl EntryIndices {
    fn block(&self, block: usize) -> Result<Vec<u64>, TransformError> {
        let IndicesHead { length, block: size, .. } = self.head;
        let count = size.min(length - block * size);
        let head = &self.head.blocks[block];
        let differences = self.shared.chunk(&head.rest, 8, count - 1)?;
        let mut out = Vec::with_capacity(count);
        let mut entry = head.first;
        out.push(entry);
        for difference in differences.as_chunks().0 {
            entry = entry.wrapping_add(u64::from_le_bytes(*difference));
            out.push(entry);
        }
        Ok(out)
    }
}

impl IndexSource for EntryIndices {
    fn get(&self, place: usize) -> Result<u64, TransformError> {
        let block = self.block(place / self.head.block)?;
        block.get(place % self.head.block).copied().ok_or_else(|| self.shared.broken("a list of indices is too short"))
    }

    fn all(&self) -> Result<Vec<u64>, TransformError> {
        let mut out = Vec::with_capacity(self.head.length);
        for block in 0..self.head.blocks.len() {
            out.extend(self.block(block)?);
        }
        Ok(out)
    }

    fn bytes(&self) -> usize {
        let packed: usize = self.head.blocks.iter().map(|b| b.rest.size as usize + size_of::<ChunkHead>()).sum();
        if self.shared.bytes.held() > 0 { packed } else { 0 }
    }
}
