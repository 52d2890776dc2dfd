//! Images that are in the training and in the validation, under two names: [`twins`].

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use hearth_data::Item;
use hearth_registry::counted;

/// Bytes at the start and in the middle of a file that are compared before all of it is.
const SOME: u64 = 1 << 16;

/// What to say about validation cases whose image file is, byte for byte, that of a training case; `None`
/// if there is no such case. Files that cannot be read end the training elsewhere.
pub(crate) fn twins(train: &[Item], validate: &[Item]) -> Option<String> {
    let mut trained: HashMap<u64, Vec<&Item>> = HashMap::new();
    for item in train {
        if let Some(length) = length(item) {
            trained.entry(length).or_default().push(item);
        }
    }
    let mut parts: HashMap<&Path, Option<blake3::Hash>> = HashMap::new();
    let mut found = Vec::new();
    for item in validate {
        let (Some(own), Some(others)) = (image(item), length(item).and_then(|length| trained.get(&length))) else {
            continue;
        };
        let Ok(start) = part_of(own) else { continue };
        for other in others {
            let Some(path) = image(other) else { continue };
            let part = *parts.entry(path).or_insert_with(|| part_of(path).ok());
            if part == Some(start) && is_same(own, path).unwrap_or(false) {
                found.push((&item.case, &other.case));
                break;
            }
        }
    }
    let (case, other) = found.first()?;
    Some(format!(
        "{} of the validation have the same image as a training case, such as {case} and {other}: what is measured on \
         them was trained on; remove one of each two",
        counted(found.len(), "case")
    ))
}

/// The file of a case that has one.
fn image(item: &Item) -> Option<&Path> {
    item.files.get("image").map(PathBuf::as_path)
}

fn length(item: &Item) -> Option<u64> {
    let facts = image(item)?.metadata().ok()?;
    (facts.is_file() && facts.len() > 0).then_some(facts.len())
}

/// The hash of the start and the middle of a file.
fn part_of(path: &Path) -> io::Result<blake3::Hash> {
    let mut file = File::open(path)?;
    let middle = file.metadata()?.len() / 2;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(SOME).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(middle))?;
    file.take(SOME).read_to_end(&mut bytes)?;
    Ok(blake3::hash(&bytes))
}

fn is_same(a: &Path, b: &Path) -> io::Result<bool> {
    let hash = |path: &Path| -> io::Result<blake3::Hash> {
        Ok(blake3::Hasher::new().update_reader(File::open(path)?)?.finalize())
    };
    Ok(hash(a)? == hash(b)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_image_under_two_names_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let item = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).expect("written");
            let mut item = Item::new(name);
            item.files.insert("image".to_owned(), path);
            item
        };
        let long = vec![7; 200_000];
        // The same start and middle, and another end.
        let mut other = long.clone();
        other[199_999] = 8;
        let train = [item("a", b"first"), item("b", &long)];
        assert_eq!(twins(&train, &[item("c", b"other"), item("d", &other), item("e", b"")]), None);
        let said = twins(&train, &[item("f", &long), item("g", b"first"), item("h", b"third")]).expect("twins");
        assert!(said.starts_with("2 cases of the validation") && said.contains("such as f and b"), "{said}");
    }
}
