//! Writes DICOM whole-slide images by hand, valid or not.
#![allow(dead_code, reason = "each test uses a part of it")]

/// VL Whole Slide Microscopy Image Storage.
pub const WHOLE_SLIDE: &str = "1.2.840.10008.5.1.4.1.1.77.1.6";
pub const IMPLICIT: &str = "1.2.840.10008.1.2";
pub const EXPLICIT: &str = "1.2.840.10008.1.2.1";
pub const JPEG: &str = "1.2.840.10008.1.2.4.50";
pub const JPEG_2000: &str = "1.2.840.10008.1.2.4.90";
pub const RLE: &str = "1.2.840.10008.1.2.5";

/// The assignment of fragments to frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offsets {
    /// An empty table.
    None,
    Basic,
    Extended,
}

/// The value of an element.
#[derive(Clone, Debug)]
pub enum Value {
    Text(&'static str, String),
    U16(Vec<u16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(f32),
    Long(Vec<u64>),
    Bytes(Vec<u8>),
    /// Items of elements; whether lengths are stated.
    Items(Vec<Vec<Element>>, bool),
}

pub type Element = (u32, Value);

/// One instance.
#[derive(Clone, Debug)]
pub struct Instance {
    pub syntax: &'static str,
    pub class: &'static str,
    /// The third value of ImageType.
    pub role: &'static str,
    pub series: &'static str,
    pub size: (u32, u32),
    pub tile: (u16, u16),
    pub samples: u16,
    pub bits: u16,
    pub photometric: &'static str,
    pub planar: bool,
    /// The stored bytes of each frame: several fragments, or one.
    pub frames: Vec<Vec<Vec<u8>>>,
    /// Column, row and depth of each frame, from 1; otherwise TILED_FULL.
    pub places: Option<Vec<(i32, i32, f64)>>,
    pub offsets: Offsets,
    /// Millimetres between rows and between columns.
    pub spacing: Option<(f64, f64)>,
    /// Elements to add or to replace.
    pub extra: Vec<Element>,
    pub without: Vec<u32>,
}

impl Default for Instance {
    fn default() -> Self {
        Instance {
            syntax: EXPLICIT,
            class: WHOLE_SLIDE,
            role: "VOLUME",
            series: "1.2.3",
            size: (20, 10),
            tile: (8, 8),
            samples: 3,
            bits: 8,
            photometric: "RGB",
            planar: false,
            frames: Vec::new(),
            places: None,
            offsets: Offsets::Basic,
            spacing: Some((0.0005, 0.0004)),
            extra: Vec::new(),
            without: Vec::new(),
        }
    }
}

fn text(vr: &'static str, value: impl ToString) -> Value {
    Value::Text(vr, value.to_string())
}

fn group(tag: u32, elements: Vec<Element>, stated: bool) -> Element {
    (tag, Value::Items(vec![elements], stated))
}

impl Instance {
    /// Frames of uncompressed values, or their run-length encoding: `value(x, y, channel)`, little
    /// endian.
    pub fn of_values(mut self, value: impl Fn(usize, usize, usize) -> u32) -> Self {
        let (across, down) = self.tiles();
        self.frames = (0..across * down).map(|i| vec![self.frame(i % across, i / across, &value)]).collect();
        self
    }

    pub fn tiles(&self) -> (usize, usize) {
        let tiles = |size: u32, tile: u16| (size as usize).div_ceil(tile.into());
        (tiles(self.size.0, self.tile.0), tiles(self.size.1, self.tile.1))
    }

    /// The frame in a column and row of the grid.
    pub fn frame(&self, column: usize, row: usize, value: impl Fn(usize, usize, usize) -> u32) -> Vec<u8> {
        let (width, height) = (usize::from(self.tile.0), usize::from(self.tile.1));
        let (samples, bytes) = (usize::from(self.samples), usize::from(self.bits) / 8);
        let at = |i: usize, c: usize| value(column * width + i % width, row * height + i / width, c).to_le_bytes();
        let pixels = 0..width * height;
        if self.syntax == RLE {
            let planes = (0..samples).flat_map(|c| (0..bytes).rev().map(move |b| (c, b)));
            let planes = planes.map(|(c, b)| pixels.clone().map(|i| at(i, c)[b]).collect::<Vec<u8>>());
            return run_lengths(&planes.collect::<Vec<_>>());
        }
        if self.planar {
            return (0..samples).flat_map(|c| pixels.clone().flat_map(move |i| at(i, c)[..bytes].to_vec())).collect();
        }
        pixels.flat_map(|i| (0..samples).flat_map(move |c| at(i, c)[..bytes].to_vec())).collect()
    }

    /// Adds an element, or replaces it.
    pub fn with(mut self, tag: u32, value: Value) -> Self {
        self.extra.push((tag, value));
        self
    }

    pub fn without(mut self, tag: u32) -> Self {
        self.without.push(tag);
        self
    }

    fn elements(&self) -> Vec<Element> {
        let full = self.places.is_none();
        let mut all = vec![
            (0x0008_0008, text("CS", format!("ORIGINAL\\PRIMARY\\{}\\NONE", self.role))),
            (0x0008_0016, text("UI", self.class)),
            (0x0008_0018, text("UI", format!("1.2.3.4.{}", self.size.0))),
            (0x0008_0060, text("CS", "SM")),
            (0x0008_0070, text("LO", "Somebody")),
            (0x0020_000E, text("UI", self.series)),
            (0x0020_0052, text("UI", "1.2.3.5")),
            (0x0020_9311, text("CS", if full { "TILED_FULL" } else { "TILED_SPARSE" })),
            (0x0028_0002, Value::U16(vec![self.samples])),
            (0x0028_0004, text("CS", self.photometric)),
            (0x0028_0006, Value::U16(vec![u16::from(self.planar)])),
            (0x0028_0008, text("IS", self.frames.len())),
            (0x0028_0010, Value::U16(vec![self.tile.1])),
            (0x0028_0011, Value::U16(vec![self.tile.0])),
            (0x0028_0100, Value::U16(vec![self.bits])),
            (0x0028_0101, Value::U16(vec![self.bits])),
            (0x0028_0102, Value::U16(vec![self.bits - 1])),
            (0x0028_0103, Value::U16(vec![0])),
            (0x0048_0001, Value::F32(self.size.0 as f32 * 0.0002)),
            (0x0048_0002, Value::F32(self.size.1 as f32 * 0.0003)),
            (0x0048_0006, Value::U32(vec![self.size.0])),
            (0x0048_0007, Value::U32(vec![self.size.1])),
            group(0x0048_0105, vec![(0x0048_0106, text("SH", "1")), (0x0048_0112, text("DS", "40"))], false),
            (0x0048_0302, Value::U32(vec![1])),
            (0x0048_0303, Value::U32(vec![1])),
        ];
        let spacing = self.spacing.map(|(rows, columns)| (0x0028_0030, text("DS", format!("{rows}\\{columns}"))));
        all.push(group(0x5200_9229, vec![group(0x0028_9110, spacing.into_iter().collect(), true)], false));
        if let Some(places) = &self.places {
            let frame = |(column, row, z): &(i32, i32, f64)| {
                let place = vec![
                    (0x0040_074A, text("DS", z)),
                    (0x0048_021E, Value::I32(vec![*column])),
                    (0x0048_021F, Value::I32(vec![*row])),
                ];
                vec![group(0x0048_021A, place, true)]
            };
            all.push((0x5200_9230, Value::Items(places.iter().map(frame).collect(), true)));
        }
        if self.offsets == Offsets::Extended && self.encapsulated() {
            let (offsets, lengths) = (self.places_of_frames(), self.frames.iter().map(|f| f[0].len() as u64));
            all.push((0x7FE0_0001, Value::Long(offsets)));
            all.push((0x7FE0_0002, Value::Long(lengths.collect())));
        }
        all.retain(|(tag, _)| self.extra.iter().all(|(other, _)| tag != other) && !self.without.contains(tag));
        all.extend(self.extra.iter().cloned());
        all.sort_by_key(|(tag, _)| *tag);
        all
    }

    fn encapsulated(&self) -> bool {
        ![IMPLICIT, EXPLICIT].contains(&self.syntax)
    }

    /// The offset of each frame's first fragment.
    fn places_of_frames(&self) -> Vec<u64> {
        let length = |frame: &Vec<Vec<u8>>| frame.iter().map(|f| 8 + f.len().next_multiple_of(2) as u64).sum::<u64>();
        let mut at = 0;
        let mut places = Vec::new();
        for frame in &self.frames {
            places.push(at);
            at += length(frame);
        }
        places
    }

    pub fn bytes(&self) -> Vec<u8> {
        let implicit = self.syntax == IMPLICIT;
        let mut meta = Vec::new();
        for (tag, value) in [(0x0002_0002, self.class), (0x0002_0003, "1.2.3.4"), (0x0002_0010, self.syntax)] {
            put(&mut meta, tag, &text("UI", value), false);
        }
        let mut out = vec![0; 128];
        out.extend_from_slice(b"DICM");
        put(&mut out, 0x0002_0000, &Value::U32(vec![meta.len() as u32]), false);
        out.extend(meta);
        self.elements().iter().for_each(|(tag, value)| put(&mut out, *tag, value, implicit));
        if self.without.contains(&0x7FE0_0010) {
            return out;
        }
        out.extend([0xE0, 0x7F, 0x10, 0x00]);
        if !implicit {
            out.extend(if self.bits == 8 { *b"OB\0\0" } else { *b"OW\0\0" });
        }
        if !self.encapsulated() {
            let bytes: Vec<u8> = self.frames.iter().flatten().flatten().copied().collect();
            out.extend((bytes.len().next_multiple_of(2) as u32).to_le_bytes());
            out.extend(even(&bytes));
            return out;
        }
        out.extend(u32::MAX.to_le_bytes());
        let table = if self.offsets == Offsets::Basic { self.places_of_frames() } else { Vec::new() };
        item(&mut out, &table.iter().flat_map(|at| (*at as u32).to_le_bytes()).collect::<Vec<u8>>());
        self.frames.iter().flatten().for_each(|fragment| item(&mut out, fragment));
        out.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
        out
    }
}

fn even(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    bytes
}

fn item(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend([0xFE, 0xFF, 0x00, 0xE0]);
    out.extend((bytes.len().next_multiple_of(2) as u32).to_le_bytes());
    out.extend(even(bytes));
}

fn put(out: &mut Vec<u8>, tag: u32, value: &Value, implicit: bool) {
    let list = |bytes: Vec<Vec<u8>>| bytes.concat();
    let (vr, bytes) = match value {
        Value::Text(vr, text) => {
            let mut bytes = text.clone().into_bytes();
            let padding = if *vr == "UI" { 0 } else { b' ' };
            bytes.resize(bytes.len().next_multiple_of(2), padding);
            (*vr, bytes)
        }
        Value::U16(v) => ("US", list(v.iter().map(|v| v.to_le_bytes().to_vec()).collect())),
        Value::U32(v) => ("UL", list(v.iter().map(|v| v.to_le_bytes().to_vec()).collect())),
        Value::I32(v) => ("SL", list(v.iter().map(|v| v.to_le_bytes().to_vec()).collect())),
        Value::F32(v) => ("FL", v.to_le_bytes().to_vec()),
        Value::Long(v) => ("OV", list(v.iter().map(|v| v.to_le_bytes().to_vec()).collect())),
        Value::Bytes(v) => ("OB", even(v)),
        Value::Items(items, stated) => {
            let mut bytes = Vec::new();
            for elements in items {
                let mut content = Vec::new();
                elements.iter().for_each(|(tag, value)| put(&mut content, *tag, value, implicit));
                bytes.extend([0xFE, 0xFF, 0x00, 0xE0]);
                bytes.extend(if *stated { content.len() as u32 } else { u32::MAX }.to_le_bytes());
                bytes.extend(content);
                if !stated {
                    bytes.extend([0xFE, 0xFF, 0x0D, 0xE0, 0, 0, 0, 0]);
                }
            }
            if !stated {
                bytes.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
            }
            ("SQ", bytes)
        }
    };
    let length = match value {
        Value::Items(_, false) => u32::MAX,
        _ => bytes.len() as u32,
    };
    out.extend(((tag >> 16) as u16).to_le_bytes());
    out.extend((tag as u16).to_le_bytes());
    if implicit {
        out.extend(length.to_le_bytes());
    } else {
        out.extend(vr.as_bytes());
        if ["OB", "OV", "SQ"].contains(&vr) {
            out.extend([0, 0]);
            out.extend(length.to_le_bytes());
        } else {
            out.extend((length as u16).to_le_bytes());
        }
    }
    out.extend(bytes);
}

/// A run-length encoded frame with literal runs only.
fn run_lengths(segments: &[Vec<u8>]) -> Vec<u8> {
    let (mut header, mut body) = (vec![segments.len() as u32], Vec::new());
    for segment in segments {
        header.push(64 + body.len() as u32);
        segment.chunks(128).for_each(|run| body.extend([&[run.len() as u8 - 1], run].concat()));
        body.resize(body.len().next_multiple_of(2), 0x80);
    }
    header.resize(16, 0);
    header.iter().flat_map(|word| word.to_le_bytes()).chain(body).collect()
}
