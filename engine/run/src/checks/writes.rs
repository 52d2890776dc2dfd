//! Steps that write files wherever a recipe says, which may come from others.

use hearth_registry::{Value, base_names, last_part};

use hearth_recipe::recipe::{Document, Fault, Node};

/// The transform that writes images.
const WRITER: &str = "SaveImage";

/// Refuses a recipe with a step that writes images: a run writes into its own folder only.
pub(crate) fn check_writes(document: &Document) -> Result<(), Fault> {
    let Some(place) = writing(document.root(), "") else { return Ok(()) };
    let what = "SaveImage writes outside of the run's folder: remove the step; hearth predict, preprocess and convert \
                write images into the folder of -o";
    Err(document.fault(&place, what))
}

/// The place of the first step that writes, below a node at this place.
fn writing(node: &Node, place: &str) -> Option<String> {
    let is_writer = |name: &str| base_names(last_part(name)).iter().any(|base| base.eq_ignore_ascii_case(WRITER));
    if node.text("name").is_some_and(is_writer) {
        return Some(place.to_owned());
    }
    let below = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match &node.value {
        Value::Table(fields) => fields.iter().find_map(|field| writing(&field.node, &below(&field.key))),
        Value::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| writing(item, &below(&index.to_string())))
        }
        Value::Leaf(_) | Value::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_writes_is_found_at_any_depth() {
        let check = |text: &str| check_writes(&Document::parse("mine.toml", text).expect("TOML"));
        assert!(check("transforms = [{ name = \"LoadImage\" }]\n").is_ok());
        for text in [
            "transforms = [{ name = \"LoadImage\" }, { name = \"SaveImaged\", output_dir = \"/\" }]\n",
            "post = { prediction = [{ name = \"monai.transforms.SaveImage\" }] }\n",
            "transforms = [{ name = \"Range\", transform = { name = \"SaveImageDict\" } }]\n",
        ] {
            let fault = check(text).expect_err(text).to_string();
            assert!(fault.starts_with("mine.toml:1:") && fault.contains("remove the step"), "{fault}");
        }
    }
}
