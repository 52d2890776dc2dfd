//! Siemens' private headers (CSA): named elements with texts.

use std::collections::HashMap;

/// The largest number of elements, and of texts in one.
const MOST: u32 = 1000;

/// The elements of a header by name.
pub(crate) struct Csa(HashMap<String, Vec<String>>);

impl Csa {
    /// Parses a header of type 1 or 2 (`SV10`); `None` if it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let is_second = bytes.starts_with(b"SV10");
        let mut left = Left(if is_second { bytes.get(8..)? } else { bytes });
        let count = left.number()?;
        left.number()?;
        if !(1..=MOST).contains(&count) {
            return None;
        }
        let mut found = HashMap::new();
        let mut first_items = 0;
        for _ in 0..count {
            let name = text(left.take(64)?);
            let values = left.number()?;
            left.take(8)?;
            let items = left.number()?;
            left.number()?;
            if items > MOST {
                return None;
            }
            if first_items == 0 {
                first_items = items;
            }
            let mut texts = Vec::new();
            for item in 0..items {
                let lengths = [left.number()?, left.number()?, left.number()?, left.number()?];
                // Lengths of type 1 include the number of items of the first element that has some.
                let length = if is_second { lengths[1] } else { lengths[0].checked_sub(first_items)? };
                let value = text(left.take(length as usize)?);
                left.take(left.0.len().min((length.next_multiple_of(4) - length) as usize))?;
                if (values == 0 || item < values) && !value.is_empty() {
                    texts.push(value);
                }
            }
            found.insert(name, texts);
        }
        Some(Csa(found))
    }

    /// The numbers of an element; `None` if it has none.
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        let texts = self.0.get(name).filter(|texts| !texts.is_empty())?;
        let numbers: Option<Vec<f64>> = texts.iter().map(|text| text.parse().ok()).collect();
        numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()))
    }

    pub fn vector(&self, name: &str) -> Option<[f64; 3]> {
        self.numbers(name)?.try_into().ok()
    }

    /// The first text of an element.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.first().map(String::as_str)
    }
}

/// The bytes that are left.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}

/// A text up to its first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}
