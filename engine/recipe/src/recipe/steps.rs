//! The chains to which the transforms of a recipe belong.

use hearth_registry::{Document, Fault, Node};

/// Checks `only` and `batch` of the transforms: from the first transform that works on whole
/// batches on, all transforms of the training chain must do so.
pub(super) fn check(document: &Document, transforms: &[Node]) -> Result<(), Fault> {
    let mut batch = None;
    for (index, transform) in transforms.iter().enumerate() {
        let path = format!("transforms.{index}");
        let only = transform.get("only").map(|only| only.as_str().unwrap_or(""));
        if !matches!(only, None | Some("train" | "validation")) {
            return Err(document.fault(&format!("{path}.only"), "expected \"train\" or \"validation\""));
        }
        let whole = match transform.get("batch") {
            None => false,
            Some(node) if *node == Node::from(true) => true,
            Some(node) if *node == Node::from(false) => false,
            Some(_) => return Err(document.fault(&format!("{path}.batch"), "expected true or false")),
        };
        if whole && only == Some("validation") {
            return Err(document.fault(&format!("{path}.batch"), "only the training chain works on whole batches"));
        }
        if let (Some(first), false, true) = (batch, whole, only != Some("validation")) {
            let advice = "add batch = true, or move it";
            let message = format!("works on single cases, but transforms.{first} before it on whole batches: {advice}");
            return Err(document.fault(&path, message));
        }
        if whole {
            batch.get_or_insert(index);
        }
    }
    Ok(())
}
