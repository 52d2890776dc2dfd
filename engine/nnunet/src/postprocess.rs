//! The postprocessing that nnU-Net found to help: it removes all but the largest component of some
//! labels.

mod pickle;

use std::fs;
use std::path::Path;

use hearth_kernels::label::components;
use serde_json::Value;

use crate::error::{NnunetError, Result};
use crate::json;
use crate::volume::Volume;

/// The only function that nnU-Net writes.
const FUNCTION: &str = "remove_all_but_largest_component_from_segmentation";

/// The largest file in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Keeps the largest component of the union of some labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepLargest {
    /// The labels of the union.
    pub labels: Vec<u16>,
    /// The value of removed voxels.
    pub background: u16,
}

/// Reads the steps of `postprocessing.json` or `postprocessing.pkl`, in order. The latter is a
/// pickle, which is parsed and never run.
///
/// # Errors
/// Files in neither format, and functions that nnU-Net does not have.
pub fn read(path: &Path) -> Result<Vec<KeepLargest>> {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let file = |what: String| NnunetError::File { path: path.to_owned(), what };
    let (functions, arguments) = if is_json {
        let value = json::read(path)?;
        let list = |key: &str| value.get(key).and_then(Value::as_array).cloned();
        list("postprocessing_fns").zip(list("postprocessing_kwargs")).ok_or_else(|| {
            file("expected postprocessing_fns and postprocessing_kwargs, lists of one length".to_owned())
        })?
    } else {
        let io = |source| NnunetError::Io { path: path.to_owned(), source };
        if fs::metadata(path).map_err(io)?.len() > MAX_BYTES {
            return Err(file(format!("more than {MAX_BYTES} bytes; expected nnU-Net's postprocessing.pkl")));
        }
        let value = pickle::read(&hearth_files::read(path).map_err(io)?).map_err(&file)?;
        let pair = value.as_array().and_then(|pair| match &pair[..] {
            [Value::Array(functions), Value::Array(arguments)] => Some((functions.clone(), arguments.clone())),
            _ => None,
        });
        pair.ok_or_else(|| file("expected functions and their arguments, as nnU-Net writes them".to_owned()))?
    };
    if functions.len() != arguments.len() {
        return Err(file(format!("{} functions with {} arguments", functions.len(), arguments.len())));
    }
    let steps = functions.iter().zip(&arguments).map(|(function, arguments)| step(function, arguments));
    steps.collect::<std::result::Result<Vec<_>, String>>().map_err(file)
}

fn step(function: &Value, arguments: &Value) -> std::result::Result<KeepLargest, String> {
    let name = function.as_str().unwrap_or_default();
    if name.rsplit('.').next() != Some(FUNCTION) {
        return Err(format!("the function {function} is not supported; {FUNCTION} is"));
    }
    let Some(arguments) = arguments.as_object() else { return Err(format!("{arguments} are no arguments")) };
    let known = ["labels_or_regions", "background_label"];
    if let Some(key) = arguments.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("{FUNCTION} has no argument {key:?}"));
    }
    let number = |value: &Value| value.as_u64().and_then(|label| u16::try_from(label).ok());
    let mut labels = Vec::new();
    let mut pending: Vec<&Value> = arguments.get("labels_or_regions").into_iter().collect();
    while let Some(value) = pending.pop() {
        match (value, number(value)) {
            (_, Some(label)) => labels.push(label),
            (Value::Array(several), None) => pending.extend(several),
            _ => return Err(format!("labels_or_regions: {value} is no label")),
        }
    }
    labels.sort_unstable();
    labels.dedup();
    let background = match arguments.get("background_label") {
        None => 0,
        Some(value) => number(value).ok_or_else(|| format!("background_label: {value} is no label"))?,
    };
    Ok(KeepLargest { labels, background })
}

/// Applies steps in order. Voxels are connected by faces, edges and corners; several largest
/// components of the same size all stay.
///
/// # Errors
/// A volume beyond the size limits for components.
pub fn apply(steps: &[KeepLargest], map: &mut Volume<u16>) -> Result<()> {
    for step in steps {
        let mask: Vec<bool> = map.data.iter().map(|label| step.labels.binary_search(label).is_ok()).collect();
        let found = components(&mask, &map.shape, 3).map_err(|error| NnunetError::case(error.to_string()))?;
        let most = found.regions().iter().map(|region| region.size).max().unwrap_or(0);
        let regions = found.regions();
        found.paint(&mut map.data, |index| (regions[index].size < most).then_some(step.background));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_components_stay() {
        let mut map = Volume::new(1, [1, 3, 5], vec![1, 0, 2, 2, 0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0]).expect("15 voxels");
        let steps = [KeepLargest { labels: vec![1, 2], background: 0 }];
        apply(&steps, &mut map).expect("small");
        assert_eq!(map.data, [0, 0, 2, 2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]);
        let mut tied = Volume::new(1, [1, 1, 5], vec![1, 1, 0, 1, 1]).expect("5 voxels");
        apply(&steps, &mut tied).expect("small");
        assert_eq!(tied.data, [1, 1, 0, 1, 1]);
    }

    #[test]
    fn other_functions_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("postprocessing.json");
        let wrong = |text: &str, said: &str| {
            fs::write(&path, text).expect("written");
            let error = read(&path).expect_err("refused").to_string();
            assert!(error.contains(said), "{error}");
        };
        wrong(r#"{"postprocessing_fns": ["os.system"], "postprocessing_kwargs": [{}]}"#, "os.system");
        wrong(r#"{"postprocessing_fns": [], "postprocessing_kwargs": [{}]}"#, "0 functions");
        wrong("{}", "postprocessing_fns");
        let path = folder.path().join("postprocessing.pkl");
        // `os.system("true")`, as a pickle would call it.
        fs::write(&path, b"cos\nsystem\n(S'true'\ntR.").expect("written");
        assert!(read(&path).is_err());
    }
}
