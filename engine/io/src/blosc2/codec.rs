//! The codecs of streams.

use libdeflater::Decompressor;

use super::blosclz;

/// How streams are compressed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Codec {
    BloscLz,
    /// LZ4 or LZ4HC.
    Lz4,
    Zlib,
    Zstd,
}

impl Codec {
    /// Returns the codec with this number in a chunk's header.
    pub fn of(code: u8) -> Result<Self, String> {
        match code {
            0 => Ok(Codec::BloscLz),
            1 => Ok(Codec::Lz4),
            3 => Ok(Codec::Zlib),
            4 => Ok(Codec::Zstd),
            2 => Err("compressed with Snappy, which is not supported".to_owned()),
            6 => Err("compressed with a codec of a Blosc2 plugin, which is not supported".to_owned()),
            other => Err(format!("compressed with the unknown codec {other}")),
        }
    }
}

/// A codec with the tables that it keeps between streams.
pub(super) enum Unpacker {
    BloscLz,
    Lz4,
    Zlib(Box<Decompressor>),
    /// Created on first use, which may fail.
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
