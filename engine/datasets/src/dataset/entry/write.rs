//! Encodes samples as bytes.

use hearth_image::Image;
use hearth_kernels::device_error::reason;
use hearth_transforms::{Sample, Value};
use rayon::prelude::*;

use super::chunk::{Kind, pack};
use super::head::{BlockHead, ChunkHead, Codec, Head, ImageHead, IndicesHead, SampleHead, ValueHead, edges};
use super::{BLOCK, BLOCKS, MAGIC, PREFIX, Storage};

/// Encodes the bytes of an entry.
///
/// # Errors
/// The key of a value that cannot be stored: values too large for f16, or a kind of value that a
/// file cannot hold.
pub(crate) fn encode(samples: &[Sample], key: [u8; 32], storage: Storage) -> Result<Vec<u8>, String> {
    let mut chunks = Vec::new();
    let mut heads = Vec::with_capacity(samples.len());
    for sample in samples {
        let mut values = Vec::with_capacity(sample.values.len());
        for (name, value) in &sample.values {
            let head = match value {
                Value::Image(image) => ValueHead::Image(encode_image(image, storage, &mut chunks)?),
                Value::Indices(list) => ValueHead::Indices(encode_indices(list, &mut chunks)),
                Value::Lists(lists) => {
                    ValueHead::Lists(lists.iter().map(|list| encode_indices(list, &mut chunks)).collect())
                }
                Value::Path(path) => ValueHead::Path(path.clone()),
                Value::Number(number) => ValueHead::Number(*number),
                Value::Numbers(numbers) => ValueHead::Numbers(numbers.to_vec()),
                Value::Text(text) => ValueHead::Text(text.clone()),
                other => return Err(format!("`{name}` is {}", other.kind())),
            };
            values.push((name.clone(), head));
        }
        heads.push(SampleHead { case: sample.case.clone(), values });
    }
    let unwritable = |e: postcard::Error| format!("its description can't be written: {e}");
    let head_bytes = postcard::to_allocvec(&Head { key, samples: heads }).map_err(unwritable)?;
    let length = PREFIX + head_bytes.len() + chunks.len();
    let mut out = Vec::with_capacity(length);
    out.extend(MAGIC);
    out.extend((length as u64).to_le_bytes());
    let head_length = u32::try_from(head_bytes.len()).map_err(|_| "its description is over 4 GiB".to_owned())?;
    out.extend(head_length.to_le_bytes());
    out.extend(blake3::hash(&head_bytes).as_bytes());
    out.extend(head_bytes);
    out.extend(chunks);
    Ok(out)
}

fn encode_image(image: &Image, storage: Storage, chunks: &mut Vec<u8>) -> Result<ImageHead, String> {
    let shape = image.data.dims();
    let host = image.clone().to_host();
    let values = host.map_err(|error| format!("was not computed by its device: {}", reason(&error)))?.to_vec();
    let kind = Kind::choose(&values, storage)
        .ok_or_else(|| "has values beyond 65504, which f16 can't hold; store as exact or f32".to_owned())?;
    let mut head = ImageHead {
        shape,
        kind,
        edges: edges(image.shape()),
        affine: image.affine,
        meta: (&image.meta).into(),
        chunks: Vec::new(),
    };
    let [nx, ny, nz] = head.grid();
    let places: Vec<[usize; 4]> =
        (0..shape[0] * nx * ny * nz).map(|i| [i / (nx * ny * nz), i / (ny * nz) % nx, i / nz % ny, i % nz]).collect();
    let edges = head.edges;
    let packed: Vec<(Codec, Vec<u8>)> =
        places.par_iter().map(|place| pack(&kind.to_bytes(&cut(&values, shape, edges, *place)), kind.size())).collect();
    head.chunks = packed.into_iter().map(|(codec, bytes)| append(chunks, codec, &bytes)).collect();
    Ok(head)
}

/// Encodes the values of one chunk.
fn cut(values: &[f32], shape: [usize; 4], edges: [usize; 3], place: [usize; 4]) -> Vec<f32> {
    let [_, sx, sy, sz] = shape;
    let [channel, ..] = place;
    let range = |a: usize| {
        let start = place[a + 1] * edges[a];
        start..(start + edges[a]).min(shape[a + 1])
    };
    let (xs, ys, zs) = (range(0), range(1), range(2));
    let mut out = Vec::with_capacity(xs.len() * ys.len() * zs.len());
    for x in xs {
        for y in ys.clone() {
            let row = ((channel * sx + x) * sy + y) * sz;
            out.extend_from_slice(&values[row + zs.start..row + zs.end]);
        }
    }
    out
}

fn encode_indices(list: &[u64], chunks: &mut Vec<u8>) -> IndicesHead {
    let block = BLOCK.max(list.len().div_ceil(BLOCKS));
    let blocks = list
        .chunks(block)
        .map(|entries| {
            let differences: Vec<u8> =
                entries.windows(2).flat_map(|pair| pair[1].wrapping_sub(pair[0]).to_le_bytes()).collect();
            let (codec, bytes) = pack(&differences, 8);
            BlockHead { first: entries[0], rest: append(chunks, codec, &bytes) }
        })
        .collect();
    IndicesHead { length: list.len(), block, blocks }
}

fn append(chunks: &mut Vec<u8>, codec: Codec, bytes: &[u8]) -> ChunkHead {
    let at = chunks.len() as u64;
    chunks.extend_from_slice(bytes);
    // A chunk has at most a few hundred KiB, a block of indices at most a few hundred MiB.
    ChunkHead { at, size: bytes.len() as u32, codec, checksum: crc32fast::hash(bytes) }
}
