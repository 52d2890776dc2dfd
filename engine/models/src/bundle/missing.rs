//! Finds missing images of a config's list before any case is read.

use std::path::Path;

use hearth_bundle::{Component, Fault, FaultKind, Value};

use super::nodes::fault;

/// A key into which files are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<'a> {
    pub key: &'a str,
    /// Whether the key is optional in a case.
    pub may_lack: bool,
}

/// The fault of a list without cases.
pub(crate) fn empty(at: &Component) -> Fault {
    let what = "the list of images is empty: nothing is there that the config looks for; set dataset_dir, or give \
                images (-i)";
    Fault { kind: FaultKind::File, ..fault(at, what) }
}

/// The fault of missing files in a list: the first file, and their number. Paths are relative to
/// `folder`.
pub(crate) fn of_list(at: &Component, list: &[Value], reads: &[Read<'_>], folder: &Path) -> Option<Fault> {
    let mut first: Option<String> = None;
    let mut count = 0;
    for (place, case) in list.iter().enumerate() {
        for read in reads {
            let Some(value) = case.key(read.key) else {
                match read.may_lack {
                    true => continue,
                    false => return Some(fault(at, format!("case {place} has no `{}`, which is loaded", read.key))),
                }
            };
            for file in files(value).filter(|file| !folder.join(file).exists()) {
                count += 1;
                first.get_or_insert_with(|| file.to_owned());
            }
        }
    }
    let first = first?;
    let what = match count {
        1 => format!("the image {first} is missing"),
        _ => format!("{count} images are missing, {first} among them"),
    };
    Some(Fault { kind: FaultKind::File, ..fault(at, what) })
}

/// A text is one file, and a list of texts several.
fn files(value: &Value) -> impl Iterator<Item = &str> {
    let several = value.as_slice().unwrap_or_default().iter().filter_map(Value::as_str);
    value.as_str().into_iter().chain(several)
}
