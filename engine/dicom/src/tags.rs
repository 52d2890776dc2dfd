//! Access to attributes. A missing attribute is `None`; an invalid one is an error with the file
//! and the attribute.

use std::collections::HashSet;
use std::path::Path;

use dicom_core::{DataDictionary, PrimitiveValue, Tag};
use dicom_dictionary_std::StandardDataDictionary;
use dicom_object::InMemDicomObject;

use crate::error::DicomError;

/// The attributes of a file, or of an item in it.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    object: &'a InMemDicomObject,
    path: &'a Path,
}

impl<'a> Attributes<'a> {
    pub fn new(object: &'a InMemDicomObject, path: &'a Path) -> Self {
        Attributes { object, path }
    }

    pub fn path(&self) -> &'a Path {
        self.path
    }

    pub fn has(&self, tag: Tag) -> bool {
        self.object.get(tag).is_some()
    }

    /// An error of an attribute.
    pub fn error(&self, tag: Tag, what: impl Into<String>) -> DicomError {
        let name = StandardDataDictionary.by_tag(tag).map_or("private", |entry| entry.alias);
        DicomError::Attribute { path: self.path.to_owned(), name, what: what.into() }
    }

    fn missing(&self, tag: Tag) -> DicomError {
        self.error(tag, "missing")
    }

    /// A string without padding; `None` if it is missing, empty or not a string.
    pub fn text(&self, tag: Tag) -> Option<String> {
        let text = self.object.get(tag)?.to_str().ok()?;
        let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Finite numbers; `None` if missing or empty.
    pub fn floats(&self, tag: Tag) -> Result<Option<Vec<f64>>, DicomError> {
        let Some(element) = self.object.get(tag).filter(|e| !blank(e.value())) else { return Ok(None) };
        let wrong = || self.error(tag, format!("{} is not a list of numbers", shorten(element.to_str().ok())));
        let numbers = element.to_multi_float64().map_err(|_| wrong())?;
        if numbers.iter().all(|n| n.is_finite()) { Ok(Some(numbers)) } else { Err(wrong()) }
    }

    /// Exactly `N` numbers.
    pub fn vector<const N: usize>(&self, tag: Tag) -> Result<Option<[f64; N]>, DicomError> {
        let Some(numbers) = self.floats(tag)? else { return Ok(None) };
        let count = numbers.len();
        let wrong = |_| self.error(tag, format!("{count} numbers; expected {N}"));
        numbers.try_into().map(Some).map_err(wrong)
    }

    pub fn float(&self, tag: Tag) -> Result<Option<f64>, DicomError> {
        Ok(self.floats(tag)?.and_then(|n| n.first().copied()))
    }

    pub fn int(&self, tag: Tag) -> Result<Option<i64>, DicomError> {
        let Some(element) = self.object.get(tag).filter(|e| !blank(e.value())) else { return Ok(None) };
        let wrong = |_| self.error(tag, format!("{} is not a whole number", shorten(element.to_str().ok())));
        element.to_int::<i64>().map(Some).map_err(wrong)
    }

    /// A required whole number within bounds.
    pub fn required(&self, tag: Tag, low: i64, high: i64) -> Result<i64, DicomError> {
        let value = self.int(tag)?.ok_or_else(|| self.missing(tag))?;
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        Err(self.error(tag, format!("{value}; expected {low} to {high}")))
    }

    /// Raw words, for any value representation.
    pub fn words(&self, tag: Tag) -> Result<Option<Vec<u16>>, DicomError> {
        let Some(element) = self.object.get(tag).filter(|e| !blank(e.value())) else { return Ok(None) };
        let bytes = element.to_bytes().map_err(|_| self.error(tag, "has no bytes"))?;
        Ok(Some(bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()))
    }

    /// 64-bit offsets.
    pub fn longs(&self, tag: Tag) -> Option<Vec<u64>> {
        let element = self.object.get(tag).filter(|e| !blank(e.value()))?;
        element.to_multi_int::<u64>().ok().or_else(|| {
            let bytes = element.to_bytes().ok()?;
            bytes.chunks_exact(8).map(|b| b.try_into().ok().map(u64::from_le_bytes)).collect()
        })
    }

    /// The tag of a private element: the block of a group is the one that its creator reserved.
    pub fn private(&self, group: u16, creator: &str, element: u8) -> Option<Tag> {
        let reserves = |block: &u16| self.text(Tag(group, *block)).is_some_and(|name| name == creator);
        let block = (0x10..=0xff).find(reserves)?;
        Some(Tag(group, block << 8 | u16::from(element))).filter(|tag| self.has(*tag))
    }

    /// The bytes of an element.
    pub fn bytes(&self, tag: Tag) -> Option<Vec<u8>> {
        Some(self.object.get(tag)?.to_bytes().ok()?.into_owned())
    }

    /// The first number of an element whose type may be lost: then it is a text, or a number of eight bytes.
    pub fn number_of(&self, tag: Tag) -> Option<f64> {
        let element = self.object.get(tag).filter(|e| !blank(e.value()))?;
        let Some(PrimitiveValue::U8(bytes)) = element.value().primitive() else {
            return element.to_multi_float64().ok()?.first().copied().filter(|number| number.is_finite());
        };
        let text = std::str::from_utf8(bytes).ok().and_then(|text| {
            let first = text.split('\\').next()?;
            first.trim_matches(|c: char| c == '\0' || c.is_whitespace()).parse::<f64>().ok()
        });
        let raw = || bytes.as_slice().try_into().ok().map(f64::from_le_bytes);
        text.or_else(raw).filter(|number| number.is_finite())
    }

    /// The items of a sequence; empty if it is missing.
    pub fn items(&self, tag: Tag) -> impl Iterator<Item = Attributes<'a>> + use<'a> {
        let path = self.path;
        let items = self.object.get(tag).and_then(|e| e.items()).unwrap_or_default();
        items.iter().map(move |object| Attributes { object, path })
    }

    pub fn item(&self, tag: Tag) -> Option<Attributes<'a>> {
        self.items(tag).next()
    }

    /// The values of an attribute within all sequences, each string once, in the order of the file.
    pub fn within_sequences(&self, tag: Tag) -> Vec<String> {
        let mut found = Vec::new();
        self.collect(tag, &mut HashSet::new(), &mut found);
        found
    }

    /// The recursion is bounded: opening the file checked the nesting of sequences.
    fn collect(&self, tag: Tag, seen: &mut HashSet<String>, found: &mut Vec<String>) {
        for object in self.object.iter().filter_map(|e| e.items()).flatten() {
            let item = Attributes { object, path: self.path };
            found.extend(item.text(tag).filter(|text| seen.insert(text.clone())));
            item.collect(tag, seen, found);
        }
    }
}

/// Whether a value is empty or blank.
fn blank(value: &dicom_core::DicomValue<InMemDicomObject, Vec<u8>>) -> bool {
    let bare = |text: &String| text.trim_matches(|c: char| c == '\0' || c.is_whitespace()).is_empty();
    match value.primitive() {
        Some(PrimitiveValue::Str(text)) => bare(text),
        Some(PrimitiveValue::Strs(texts)) => texts.iter().all(bare),
        Some(other) => other.multiplicity() == 0,
        None => false,
    }
}

fn shorten(text: Option<impl AsRef<str>>) -> String {
    let text = text.map_or_else(|| "its value".to_owned(), |t| format!("{:?}", t.as_ref().trim()));
    if text.chars().count() <= 60 { text } else { text.chars().take(60).chain("...".chars()).collect() }
}
