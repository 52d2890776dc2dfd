//! Look-up tables of modalities and of colours.

use dicom_core::Tag;
use dicom_dictionary_std::tags;

use crate::error::DicomError;
use crate::pixels::PixelFormat;
use crate::tags::Attributes;

/// A look-up table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lut {
    /// The stored value of the first entry.
    first: i64,
    entries: Vec<u16>,
    /// The number of bits of an entry.
    pub bits: u16,
}

impl Lut {
    /// Reads a table from a descriptor (number of entries, first value, bits) and the entries.
    pub fn read(attributes: &Attributes<'_>, descriptor: Tag, data: Tag) -> Result<Self, DicomError> {
        let missing = || attributes.error(descriptor, "missing");
        let words = attributes.words(descriptor)?.filter(|w| w.len() >= 3).ok_or_else(missing)?;
        let count = if words[0] == 0 { 65_536 } else { usize::from(words[0]) };
        let signed = attributes.int(tags::PIXEL_REPRESENTATION)?.unwrap_or(0) == 1;
        let first = if signed { i64::from(words[1] as i16) } else { i64::from(words[1]) };
        let mut entries = attributes.words(data)?.ok_or_else(|| attributes.error(data, "missing"))?;
        if entries.len() < count && entries.len() * 2 >= count {
            // Eight-bit entries, two per word.
            entries = entries.iter().flat_map(|w| [w & 0xff, w >> 8]).collect();
        }
        if entries.len() < count {
            return Err(attributes.error(data, format!("{} entries; its descriptor says {count}", entries.len())));
        }
        entries.truncate(count);
        Ok(Lut { first, entries, bits: words[2] })
    }

    /// The entry of a stored value; values beyond either end get the entry of that end.
    pub fn entry(&self, stored: i64) -> u16 {
        // Floating-point pixels may have any value.
        let at = stored.saturating_sub(self.first).clamp(0, self.entries.len() as i64 - 1);
        self.entries[at as usize]
    }
}

/// The tables of red, green and blue.
pub(super) fn palette(attributes: &Attributes<'_>) -> Result<[Lut; 3], DicomError> {
    const TABLES: [(Tag, Tag); 3] = [
        (tags::RED_PALETTE_COLOR_LOOKUP_TABLE_DESCRIPTOR, tags::RED_PALETTE_COLOR_LOOKUP_TABLE_DATA),
        (tags::GREEN_PALETTE_COLOR_LOOKUP_TABLE_DESCRIPTOR, tags::GREEN_PALETTE_COLOR_LOOKUP_TABLE_DATA),
        (tags::BLUE_PALETTE_COLOR_LOOKUP_TABLE_DESCRIPTOR, tags::BLUE_PALETTE_COLOR_LOOKUP_TABLE_DATA),
    ];
    const SEGMENTED: Tag = tags::SEGMENTED_RED_PALETTE_COLOR_LOOKUP_TABLE_DATA;
    if attributes.has(SEGMENTED) {
        return Err(attributes.error(SEGMENTED, "segmented palettes are not supported"));
    }
    let [red, green, blue] = TABLES.map(|(descriptor, data)| Lut::read(attributes, descriptor, data));
    Ok([red?, green?, blue?])
}

/// Converts indices to red, green, blue of 8 or 16 bits.
pub(super) fn apply_palette(bytes: &[u8], format: &PixelFormat, palette: &[Lut; 3]) -> Vec<u8> {
    let small = palette.iter().all(|l| l.bits <= 8);
    let size = format.sample_bytes();
    let mut out = Vec::with_capacity(bytes.len() / size * 3 * if small { 1 } else { 2 });
    for sample in bytes.chunks_exact(size) {
        let mut word = [0; 8];
        word[..size].copy_from_slice(sample);
        let index = i64::from_le_bytes(word);
        for table in palette {
            let entry = table.entry(index);
            if small { out.push(entry as u8) } else { out.extend(entry.to_le_bytes()) }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_ends_have_the_entries_of_the_ends() {
        let lut = Lut { first: -2, entries: vec![10, 20, 30], bits: 16 };
        assert_eq!([-100, -2, -1, 0, 99].map(|v| lut.entry(v)), [10, 10, 20, 30, 30]);
        assert_eq!([i64::MIN, i64::MAX].map(|v| lut.entry(v)), [10, 30]);
    }
}
