//! Writes TIFFs by hand, valid or not: features that encoders do not write must be readable, or an
//! error.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::Write;

/// A page: its tags, and the bytes of its tiles or strips.
#[derive(Clone, Default)]
pub struct PageSpec {
    pub tags: Vec<(u16, Values)>,
    pub segments: Vec<Vec<u8>>,
    pub tiled: bool,
    /// Nested pages.
    pub below: Vec<PageSpec>,
}

/// The values of a tag.
#[derive(Clone, Debug)]
pub enum Values {
    Short(Vec<u16>),
    Long(Vec<u32>),
    Long8(Vec<u64>),
    Text(String),
    Bytes(Vec<u8>),
    Rational(u32, u32),
}

/// A file under construction.
pub struct Writer {
    pub big: bool,
    pub big_endian: bool,
    out: Vec<u8>,
    /// Where to write the offset of the next directory.
    link: usize,
}

impl Writer {
    pub fn new(big: bool, big_endian: bool) -> Self {
        let mut writer = Writer { big, big_endian, out: Vec::new(), link: 0 };
        writer.out.extend_from_slice(if big_endian { b"MM" } else { b"II" });
        writer.u16(if big { 43 } else { 42 });
        if big {
            writer.u16(8);
            writer.u16(0);
        }
        writer.link = writer.out.len();
        writer.word(0);
        writer
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.big_endian { self.out.extend(bytes.iter().rev()) } else { self.out.extend_from_slice(bytes) }
    }

    fn u16(&mut self, v: u16) {
        self.put(&v.to_le_bytes());
    }

    fn u32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }

    /// A number as wide as an offset.
    fn word(&mut self, v: u64) {
        if self.big { self.put(&v.to_le_bytes()) } else { self.u32(v as u32) }
    }

    fn patch(&mut self, at: usize, v: u64) {
        let end = std::mem::take(&mut self.out);
        self.word(v);
        let bytes = std::mem::replace(&mut self.out, end);
        self.out[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    fn values(&mut self, values: &Values) -> (u16, u64, Vec<u8>) {
        let end = std::mem::take(&mut self.out);
        let (kind, count) = match values {
            Values::Short(v) => (3, v.iter().map(|v| self.u16(*v)).count()),
            Values::Long(v) => (4, v.iter().map(|v| self.u32(*v)).count()),
            Values::Long8(v) => (16, v.iter().map(|v| self.put(&v.to_le_bytes())).count()),
            Values::Text(v) => {
                self.out.extend_from_slice(v.as_bytes());
                self.out.push(0);
                (2, v.len() + 1)
            }
            Values::Bytes(v) => {
                self.out.extend_from_slice(v);
                (7, v.len())
            }
            Values::Rational(over, under) => {
                self.u32(*over);
                self.u32(*under);
                (5, 1)
            }
        };
        let bytes = std::mem::replace(&mut self.out, end);
        (kind, count as u64, bytes)
    }

    /// Writes a directory and the data it points to; returns its offset and the position of its
    /// link to the next one.
    fn directory(&mut self, page: &PageSpec) -> (u64, usize) {
        let mut tags = page.tags.clone();
        let mut offsets = Vec::new();
        for segment in &page.segments {
            offsets.push(if segment.is_empty() { 0 } else { self.out.len() as u64 });
            self.out.extend_from_slice(segment);
        }
        let counts: Vec<u64> = page.segments.iter().map(|s| s.len() as u64).collect();
        let list = |values: Vec<u64>, big: bool| {
            if big { Values::Long8(values) } else { Values::Long(values.into_iter().map(|v| v as u32).collect()) }
        };
        let (offsets_tag, counts_tag) = if page.tiled { (324, 325) } else { (273, 279) };
        for (tag, values) in [(offsets_tag, offsets), (counts_tag, counts)] {
            if !values.is_empty() && !tags.iter().any(|(t, _)| *t == tag) {
                tags.push((tag, list(values, self.big)));
            }
        }
        let below: Vec<u64> = page.below.iter().map(|page| self.directory(page).0).collect();
        if !below.is_empty() {
            tags.push((330, list(below, self.big)));
        }
        tags.sort_by_key(|(tag, _)| *tag);
        let entries: Vec<(u16, u16, u64, Vec<u8>)> = tags
            .iter()
            .map(|(tag, values)| {
                let (kind, count, bytes) = self.values(values);
                (*tag, kind, count, bytes)
            })
            .collect();
        let field = if self.big { 8 } else { 4 };
        let places: Vec<u64> = entries
            .iter()
            .map(|(_, _, _, bytes)| {
                let at = self.out.len() as u64;
                if bytes.len() > field {
                    self.out.extend_from_slice(bytes);
                }
                at
            })
            .collect();
        let offset = self.out.len() as u64;
        if self.big {
            self.word(entries.len() as u64)
        } else {
            self.u16(entries.len() as u16)
        }
        for ((tag, kind, count, bytes), place) in entries.iter().zip(places) {
            self.u16(*tag);
            self.u16(*kind);
            self.word(*count);
            if bytes.len() > field {
                self.word(place);
            } else {
                self.out.extend_from_slice(bytes);
                self.out.extend(std::iter::repeat_n(0, field - bytes.len()));
            }
        }
        let link = self.out.len();
        self.word(0);
        (offset, link)
    }

    /// Appends a page; returns the offset of its directory.
    pub fn page(&mut self, page: &PageSpec) -> u64 {
        let (offset, link) = self.directory(page);
        self.patch(self.link, offset);
        self.link = link;
        offset
    }

    /// Makes the last directory point to any offset.
    pub fn link_to(&mut self, offset: u64) {
        self.patch(self.link, offset);
    }

    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// Compresses pixels, by the number in the tag.
pub fn compress(bytes: &[u8], compression: u16) -> Vec<u8> {
    match compression {
        1 => bytes.to_vec(),
        5 => weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(bytes).expect("LZW"),
        8 => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect("Deflate");
            encoder.finish().expect("Deflate")
        }
        50000 => zstd::bulk::compress(bytes, 3).expect("ZSTD"),
        // Literal runs only: valid, though not small.
        32773 => bytes.chunks(128).flat_map(|run| [&[run.len() as u8 - 1], run].concat()).collect(),
        other => panic!("compression {other}"),
    }
}

/// The storage of an image of u8, u16 or u32.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    pub width: usize,
    pub height: usize,
    pub samples: usize,
    pub bytes: usize,
    /// Tiles of this size, else strips of a number of rows.
    pub tile: Option<(usize, usize)>,
    pub rows_per_strip: usize,
    pub planar: bool,
    pub predictor: bool,
    pub compression: u16,
}

impl Default for Storage {
    fn default() -> Self {
        Storage {
            width: 20,
            height: 10,
            samples: 3,
            bytes: 1,
            tile: Some((16, 16)),
            rows_per_strip: 4,
            planar: false,
            predictor: false,
            compression: 1,
        }
    }
}

/// The value of a sample: different for each, independent of the file's layout.
pub fn value(x: usize, y: usize, c: usize) -> u32 {
    let n = (x as u32).wrapping_mul(7919) ^ (y as u32).wrapping_mul(104_729) ^ (c as u32 + 1).wrapping_mul(1_299_709);
    n.wrapping_mul(2_654_435_761)
}

/// A page of [`value`]s.
pub fn page(storage: &Storage, big_endian: bool) -> PageSpec {
    page_of(storage, big_endian, value)
}

pub fn page_of(s: &Storage, big_endian: bool, value: impl Fn(usize, usize, usize) -> u32) -> PageSpec {
    let (segment_width, segment_height) = s.tile.unwrap_or((s.width, s.rows_per_strip));
    let planes = if s.planar { s.samples } else { 1 };
    let per_plane = if s.planar { 1 } else { s.samples };
    let mut segments = Vec::new();
    for plane in 0..planes {
        for top in (0..s.height).step_by(segment_height) {
            for left in (0..s.width).step_by(segment_width) {
                let rows = if s.tile.is_some() { segment_height } else { segment_height.min(s.height - top) };
                let mut bytes = Vec::new();
                for y in top..top + rows {
                    let mut last = vec![0u32; per_plane];
                    for x in left..left + segment_width {
                        for (c, last) in last.iter_mut().enumerate() {
                            let v = value(x, y, plane + c);
                            let stored = if s.predictor { v.wrapping_sub(*last) } else { v };
                            *last = v;
                            let le = &stored.to_le_bytes()[..s.bytes];
                            if big_endian { bytes.extend(le.iter().rev()) } else { bytes.extend_from_slice(le) }
                        }
                    }
                }
                segments.push(compress(&bytes, s.compression));
            }
        }
    }
    let short = |v: usize| Values::Short(vec![v as u16]);
    let mut tags = vec![
        (256, short(s.width)),
        (257, short(s.height)),
        (258, Values::Short(vec![s.bytes as u16 * 8; s.samples])),
        (259, short(usize::from(s.compression))),
        (262, short(if s.samples >= 3 { 2 } else { 1 })),
        (277, short(s.samples)),
        (284, short(if s.planar { 2 } else { 1 })),
        (317, short(if s.predictor { 2 } else { 1 })),
    ];
    match s.tile {
        Some((width, height)) => tags.extend([(322, short(width)), (323, short(height))]),
        None => tags.push((278, short(s.rows_per_strip))),
    }
    PageSpec { tags, segments, tiled: s.tile.is_some(), below: Vec::new() }
}

impl PageSpec {
    /// Adds a tag, or replaces it.
    pub fn with(mut self, tag: u16, values: Values) -> Self {
        self.tags.retain(|(t, _)| *t != tag);
        self.tags.push((tag, values));
        self
    }

    pub fn without(mut self, tag: u16) -> Self {
        self.tags.retain(|(t, _)| *t != tag);
        self
    }
}

/// A little-endian classic TIFF of some pages.
pub fn tiff(pages: &[PageSpec]) -> Vec<u8> {
    let mut writer = Writer::new(false, false);
    for page in pages {
        writer.page(page);
    }
    writer.finish()
}
