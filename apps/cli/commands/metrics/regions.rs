//! `--regions`: the names of regions, and the labels of each.

use std::collections::BTreeSet;

use hearth_recipe::task::{Convention, RegionLabels};

use crate::error::{Failure, Outcome};

/// A region and its labels.
pub type Region = (String, BTreeSet<u32>);

/// Parses the name of a convention, or `core=1+3,whole=1+2+3`.
pub fn read(text: &str) -> Outcome<Vec<Region>> {
    let wrong = |what: String| Failure::new(format!("--regions {text}: {what}"));
    if !text.contains('=') {
        let quoted = serde_json::Value::String(text.trim().to_lowercase());
        let convention: Convention = serde_json::from_value(quoted).map_err(|_| {
            let names = "decathlon, brats2015, brats2018, brats2023 and tutorial";
            wrong(format!("the conventions are {names}; else name regions and labels, as in core=1+3,whole=1+2+3"))
        })?;
        let labels = RegionLabels::Convention(convention).classes();
        let region = |(name, labels): (&str, Vec<i64>)| {
            (name.to_owned(), labels.into_iter().filter_map(|label| u32::try_from(label).ok()).collect())
        };
        return Ok(["TC", "WT", "ET"].into_iter().zip(labels).map(region).collect());
    }
    let mut regions: Vec<Region> = Vec::new();
    for part in text.split(',') {
        let (name, labels) =
            part.split_once('=').ok_or_else(|| wrong(format!("{part:?} has no labels, as in core=1+3")))?;
        let read = |label: &str| match label.trim().parse() {
            Ok(label) if label > 0 => Ok(label),
            _ => Err(wrong(format!("{label:?} is not a label from 1"))),
        };
        let (name, labels) = (name.trim().to_owned(), labels.split('+').map(read).collect::<Outcome<_>>()?);
        if name.is_empty() || regions.iter().any(|(other, _)| *other == name) {
            return Err(wrong(format!("{name:?} names no region, or one twice")));
        }
        regions.push((name, labels));
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conventions_and_lists_are_read() {
        let labels = |text: &str| -> Vec<(String, Vec<u32>)> {
            let read = read(text).unwrap_or_else(|failure| panic!("{text}: {}", failure.line()));
            read.into_iter().map(|(name, labels)| (name, labels.into_iter().collect())).collect()
        };
        let three = |core: &[u32], whole: &[u32], enhancing: u32| {
            vec![("TC".into(), core.to_vec()), ("WT".into(), whole.to_vec()), ("ET".into(), vec![enhancing])]
        };
        assert_eq!(labels("brats2018"), three(&[1, 4], &[1, 2, 4], 4));
        assert_eq!(labels("BraTS2023"), three(&[1, 3], &[1, 2, 3], 3));
        assert_eq!(labels("decathlon"), three(&[2, 3], &[1, 2, 3], 3));
        assert_eq!(labels("core=1 + 3, rest=2"), [("core".into(), vec![1, 3]), ("rest".into(), vec![2])]);
    }

    #[test]
    fn what_names_no_region_is_refused() {
        for (text, word) in [
            ("brats2019", "the conventions are"),
            ("core=1+x", "not a label from 1"),
            ("core=0", "not a label from 1"),
            ("core=1,whole", "has no labels"),
            ("a=1,a=2", "one twice"),
            ("=1", "names no region"),
        ] {
            let failure = read(text).err().map(|failure| failure.line()).unwrap_or_default();
            assert!(failure.contains(word), "{text}: {failure}");
        }
    }
}
