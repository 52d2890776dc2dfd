//! Byte codecs: LZW, Deflate, ZSTD.

use std::cell::RefCell;

use libdeflater::{DecompressionError, Decompressor};
use weezl::{BitOrder, LzwStatus, decode::Decoder};

use super::Shape;
use crate::error::Fault;

fn room(shape: Shape) -> Vec<u8> {
    vec![0; shape.height * shape.row_bytes()]
}

pub(super) fn lzw(mut bytes: &[u8], shape: Shape) -> Result<Vec<u8>, Fault> {
    let mut out = room(shape);
    let mut filled = 0;
    let mut decoder = Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
    // Data after the last pixel (usually an end code) is not needed.
    while filled < out.len() {
        let result = decoder.decode_bytes(bytes, &mut out[filled..]);
        filled += result.consumed_out;
        bytes = &bytes[result.consumed_in..];
        match result.status {
            Ok(LzwStatus::Ok) => {}
            Ok(LzwStatus::Done | LzwStatus::NoProgress) => break,
            Err(error) => return Err(Fault::damaged(format!("LZW: {error}"))),
        }
    }
    out.truncate(filled);
    Ok(out)
}

thread_local! {
    // Their tables are built once per thread, not once per tile.
    static INFLATE: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

pub(super) fn deflate(bytes: &[u8], shape: Shape) -> Result<Vec<u8>, Fault> {
    let mut out = room(shape);
    match INFLATE.with_borrow_mut(|inflate| inflate.zlib_decompress(bytes, &mut out)) {
        Ok(filled) => {
            out.truncate(filled);
            Ok(out)
        }
        Err(DecompressionError::InsufficientSpace) => {
            Err(Fault::damaged(format!("Deflate: more than the {} bytes of its pixels", out.len())))
        }
        Err(error) => Err(Fault::damaged(format!("Deflate: {error}"))),
    }
}

pub(super) fn zstd(bytes: &[u8], shape: Shape) -> Result<Vec<u8>, Fault> {
    let fault = |error: std::io::Error| Fault::damaged(format!("ZSTD: {error}"));
    ZSTD.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(zstd::bulk::Decompressor::new().map_err(fault)?),
        };
        decompressor.decompress(bytes, shape.height * shape.row_bytes()).map_err(fault)
    })
}
