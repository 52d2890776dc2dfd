//! Pixels in memory.

use bytemuck::{cast_slice, cast_slice_mut};

/// The type of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleType {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Floating point, 32 bits.
    F32,
    /// Floating point, 64 bits.
    F64,
}

impl SampleType {
    /// Bytes of one sample.
    pub fn bytes(self) -> usize {
        match self {
            SampleType::U8 | SampleType::I8 => 1,
            SampleType::U16 | SampleType::I16 => 2,
            SampleType::U32 | SampleType::I32 | SampleType::F32 => 4,
            SampleType::F64 => 8,
        }
    }

    /// The name in NumPy: `uint8`, `float32`.
    pub fn name(self) -> &'static str {
        match self {
            SampleType::U8 => "uint8",
            SampleType::I8 => "int8",
            SampleType::U16 => "uint16",
            SampleType::I16 => "int16",
            SampleType::U32 => "uint32",
            SampleType::I32 => "int32",
            SampleType::F32 => "float32",
            SampleType::F64 => "float64",
        }
    }
}

/// The meaning of the channels of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Color {
    /// One channel, larger is brighter; further channels are unspecified.
    Gray,
    /// One channel and its opacity.
    GrayAlpha,
    /// Red, green, blue; further channels are unspecified.
    Rgb,
    /// Red, green, blue, opacity.
    Rgba,
    /// Cyan, magenta, yellow, black.
    Cmyk,
}

/// Samples of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    /// See [`SampleType::U8`].
    U8(Vec<u8>),
    /// See [`SampleType::I8`].
    I8(Vec<i8>),
    /// See [`SampleType::U16`].
    U16(Vec<u16>),
    /// See [`SampleType::I16`].
    I16(Vec<i16>),
    /// See [`SampleType::U32`].
    U32(Vec<u32>),
    /// See [`SampleType::I32`].
    I32(Vec<i32>),
    /// See [`SampleType::F32`].
    F32(Vec<f32>),
    /// See [`SampleType::F64`].
    F64(Vec<f64>),
}

/// Runs `$body` with `$values` bound to the vector of any type.
macro_rules! each {
    ($samples:expr, $values:ident => $body:expr) => {
        match $samples {
            Samples::U8($values) => $body,
            Samples::I8($values) => $body,
            Samples::U16($values) => $body,
            Samples::I16($values) => $body,
            Samples::U32($values) => $body,
            Samples::I32($values) => $body,
            Samples::F32($values) => $body,
            Samples::F64($values) => $body,
        }
    };
}

impl Samples {
    pub(crate) fn zeros(kind: SampleType, len: usize) -> Self {
        match kind {
            SampleType::U8 => Samples::U8(vec![0; len]),
            SampleType::I8 => Samples::I8(vec![0; len]),
            SampleType::U16 => Samples::U16(vec![0; len]),
            SampleType::I16 => Samples::I16(vec![0; len]),
            SampleType::U32 => Samples::U32(vec![0; len]),
            SampleType::I32 => Samples::I32(vec![0; len]),
            SampleType::F32 => Samples::F32(vec![0.0; len]),
            SampleType::F64 => Samples::F64(vec![0.0; len]),
        }
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        each!(self, values => values.len())
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the samples.
    pub fn kind(&self) -> SampleType {
        match self {
            Samples::U8(_) => SampleType::U8,
            Samples::I8(_) => SampleType::I8,
            Samples::U16(_) => SampleType::U16,
            Samples::I16(_) => SampleType::I16,
            Samples::U32(_) => SampleType::U32,
            Samples::I32(_) => SampleType::I32,
            Samples::F32(_) => SampleType::F32,
            Samples::F64(_) => SampleType::F64,
        }
    }

    /// The bytes of the samples, in the machine's byte order.
    pub fn as_bytes(&self) -> &[u8] {
        each!(self, values => cast_slice(values))
    }

    pub(crate) fn as_bytes_mut(&mut self) -> &mut [u8] {
        each!(self, values => cast_slice_mut(values))
    }

    /// All values as f32. 32-bit integers and 64-bit floats are rounded.
    #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one macro for all types of samples")]
    pub fn to_f32(&self) -> Vec<f32> {
        each!(self, values => values.iter().map(|v| *v as f32).collect())
    }
}

/// A rectangle of pixels, row by row from the top, the channels of a pixel next to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Raster {
    /// The number of pixels in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// The number of samples of a pixel.
    pub channels: usize,
    /// The meaning of the channels.
    pub color: Color,
    /// The `height * width * channels` values.
    pub samples: Samples,
}

impl Raster {
    /// The bits of one sample.
    pub fn bits(&self) -> usize {
        8 * self.samples.kind().bytes()
    }

    /// The values if they are u8, as in all bright-field slides.
    pub fn as_u8(&self) -> Option<&[u8]> {
        match &self.samples {
            Samples::U8(values) => Some(values),
            _ => None,
        }
    }

    /// The image `[height, width, 3]` as u8: gray is repeated, opacity dropped, 16 bits scaled to 8
    /// (rounded). `None` for other types and colours.
    pub fn to_rgb8(&self) -> Option<Vec<u8>> {
        let wide;
        let values = match &self.samples {
            Samples::U8(values) => values,
            Samples::U16(values) => {
                wide = values.iter().map(|v| ((u32::from(*v) + 128) / 257) as u8).collect();
                &wide
            }
            _ => return None,
        };
        match (self.color, self.channels) {
            (Color::Rgb, 3) => Some(values.clone()),
            (Color::Rgb | Color::Rgba, n) if n > 3 => {
                Some(values.chunks_exact(n).flat_map(|p| [p[0], p[1], p[2]]).collect())
            }
            (Color::Gray | Color::GrayAlpha, n) => Some(values.chunks_exact(n).flat_map(|p| [p[0]; 3]).collect()),
            _ => None,
        }
    }

    /// The values with channels first, `[channels, height, width]`, as f32: the layout of networks.
    pub fn to_chw_f32(&self) -> Vec<f32> {
        let pixels = self.width * self.height;
        let mut planes = vec![0.0; pixels * self.channels];
        #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one macro for all types of samples")]
        fn split<T: Copy>(values: &[T], channels: usize, planes: &mut [f32], to: impl Fn(T) -> f32) {
            let pixels = values.len() / channels;
            for (c, plane) in planes.chunks_exact_mut(pixels).enumerate() {
                for (out, pixel) in plane.iter_mut().zip(values.chunks_exact(channels)) {
                    *out = to(pixel[c]);
                }
            }
        }
        if pixels > 0 {
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one macro for all types of samples")]
            {
                each!(&self.samples, values => split(values, self.channels, &mut planes, |v| v as f32));
            }
        }
        planes
    }

    /// The pixel at column `x`, row `y`, as f64. Panics outside the raster, as indexing does.
    #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one macro for all types of samples")]
    pub fn pixel(&self, x: usize, y: usize) -> Vec<f64> {
        assert!(x < self.width && y < self.height, "({x}, {y}) outside {} x {}", self.width, self.height);
        let at = (y * self.width + x) * self.channels;
        each!(&self.samples, values => values[at..at + self.channels].iter().map(|v| *v as f64).collect())
    }
}
