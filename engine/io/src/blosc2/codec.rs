//! The codecs of streams.

use libdeflater::Decompressor;

use super::blosclz;

/// How streams are packed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Codec {
    BloscLz,
    /// Packed by LZ4 or LZ4HC.
    Lz4,
    Zlib,
    Zstd,
}

impl Codec {
    /// By the number in a chunk's header.
    pub fn of(code: u8) -> Result<Self, String> {
        match code {
            0 => Ok(Codec::BloscLz),
            1 => Ok(Codec::Lz4),
            3 => Ok(Codec::Zlib),
            4 => Ok(Codec::Zstd),
            2 => Err("packed by Snappy, which is not read".to_owned()),
            6 => Err("packed by the codec of a plugin of Blosc2, which is not read".to_owned()),
            other => Err(format!("packed by the unknown codec {other}")),
        }
    }
}

/// A codec with the tables that it keeps between streams.
pub(super) enum Unpacker {
    BloscLz,
    Lz4,
    Zlib(Box<Decompressor>),
    /// Made when it is used first, which may fail.
    Zstd(Option<zstd::bulk::Decompressor<'static>>),
}

impl Unpacker {
    pub fn new(codec: Codec) -> Self {
        match codec {
            Codec::BloscLz => Unpacker::BloscLz,
            Codec::Lz4 => Unpacker::Lz4,
            Codec::Zlib => Unpacker::Zlib(Box::default()),
            Codec::Zstd => Unpacker::Zstd(None),
        }
    }

    /// Unpacks a stream that fills `out`.
    pub fn unpack(&mut self, stream: &[u8], out: &mut [u8]) -> Result<(), String> {
        let written = match self {
            Unpacker::BloscLz => blosclz::unpack(stream, out).ok_or("BloscLZ: a damaged stream")?,
            Unpacker::Lz4 => lz4_flex::block::decompress_into(stream, out).map_err(|error| format!("LZ4: {error}"))?,
            Unpacker::Zlib(inflate) => {
                inflate.zlib_decompress(stream, out).map_err(|error| format!("zlib: {error}"))?
            }
            Unpacker::Zstd(kept) => {
                let failed = |error: std::io::Error| format!("Zstandard: {error}");
                let decompressor = match kept {
                    Some(decompressor) => decompressor,
                    None => kept.insert(zstd::bulk::Decompressor::new().map_err(failed)?),
                };
                decompressor.decompress_to_buffer(stream, out).map_err(failed)?
            }
        };
        if written == out.len() {
            return Ok(());
        }
        Err(format!("a stream of {written} bytes; expected {}", out.len()))
    }
}
