//! Options and limits of reading.

use crate::finding::FindingKind;

/// Limits of reading. Sizes are checked before memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one file. Default 4 GiB.
    pub file_bytes: u64,
    /// Bytes of a deflated data set after it is inflated, which are kept in memory. Default 4 GiB.
    pub inflated_bytes: u64,
    /// Bytes of the attributes before the pixels, which are kept in memory. Default 1 GiB.
    pub attribute_bytes: u64,
    /// Samples (pixels times colours) of one frame. Default 2^28.
    pub frame_samples: u64,
    /// Frames of one file. Default 200 000.
    pub frames: u64,
    /// Values of a volume, of four bytes each. Default 2^31.
    pub volume_values: u64,
    /// Expansion of compressed pixels: `n` bytes may become 16 MiB, or 20 000 `n` bytes if that is
    /// more, so that a small file cannot claim gigabytes.
    pub expansion: u64,
    /// Files in a folder. Default one million.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            file_bytes: 4 << 30,
            inflated_bytes: 4 << 30,
            attribute_bytes: 1 << 30,
            frame_samples: 1 << 28,
            frames: 200_000,
            volume_values: 1 << 31,
            expansion: 20_000,
            files: 1_000_000,
        }
    }
}

/// The handling of MONOCHROME1, whose smallest value is displayed white.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Monochrome1 {
    /// Invert values without a unit (radiographs: CR, DX, MG, XA and similar), so that dense is
    /// bright as in MONOCHROME2. Keep CT, PT, NM, MR and RTDOSE: there MONOCHROME1 only concerns
    /// the display, and inverted Hounsfield units would be wrong.
    #[default]
    Auto,
    /// Always invert, over the range of the stored bits.
    Invert,
    /// Never invert.
    Keep,
}

/// Options of reading.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The limits.
    pub limits: Limits,
    /// Findings of severity error to accept.
    pub accept: Vec<FindingKind>,
    /// The handling of MONOCHROME1.
    pub monochrome1: Monochrome1,
    /// Whether to apply RescaleSlope and RescaleIntercept, the modality LUT or DoseGridScaling;
    /// otherwise stored values are returned.
    pub rescale: bool,
    /// The replacement for padding pixels (after rescaling). `None` keeps the padding, as in MONAI.
    pub padding: Option<f32>,
    /// Other names of regions, for files that lack a requested one: `GTV-1` is also `GTV_Mass_CT`.
    /// The first existing name is used; patterns are possible.
    pub aliases: Vec<(String, Vec<String>)>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            limits: Limits::default(),
            accept: Vec::new(),
            monochrome1: Monochrome1::default(),
            rescale: true,
            padding: None,
            aliases: Vec::new(),
        }
    }
}

impl ReadOptions {
    /// Accepts an error finding, so that a series with it is read.
    pub fn accept(mut self, kind: FindingKind) -> Self {
        self.accept.push(kind);
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the handling of MONOCHROME1.
    pub fn monochrome1(mut self, what: Monochrome1) -> Self {
        self.monochrome1 = what;
        self
    }

    /// Sets whether to rescale to the modality's units.
    pub fn rescale(mut self, rescale: bool) -> Self {
        self.rescale = rescale;
        self
    }

    /// Replaces padding pixels by `value`.
    pub fn padding(mut self, value: f32) -> Self {
        self.padding = Some(value);
        self
    }

    /// Adds other names of a region.
    pub fn alias(mut self, name: impl Into<String>, others: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.aliases.push((name.into(), others.into_iter().map(Into::into).collect()));
        self
    }
}
