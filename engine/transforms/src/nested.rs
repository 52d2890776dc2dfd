//! Steps within steps: the transform of a `Range`, the transforms of a `OneOf`.

use hearth_registry::{Node, Value};

/// The key of a table that holds one step.
const ONE: &str = "transform";

/// The key of a table that holds several steps.
const SEVERAL: &str = "transforms";

/// The tables of a chain and of the steps within them, each with its path: `3`, `3.transforms.0`.
///
/// ```
/// # use hearth_transforms::all_steps;
/// use hearth_registry::Document;
/// let text = "[[chain]]\nname = 'Flip'\n[[chain]]\nname = 'OneOf'\ntransforms = [{ name = 'RandFlip' }]\n";
/// let document = Document::parse("recipe", text)?;
/// let steps = all_steps(document.find("chain").items());
/// let named: Vec<_> = steps.iter().map(|(path, step)| (path.as_str(), step.text("name"))).collect();
/// assert_eq!(named, [("0", Some("Flip")), ("1", Some("OneOf")), ("1.transforms.0", Some("RandFlip"))]);
/// # Ok::<(), hearth_registry::Fault>(())
/// ```
pub fn all_steps(tables: &[Node]) -> Vec<(String, &Node)> {
    let mut found = Vec::new();
    tables.iter().enumerate().for_each(|(index, table)| add(table, index.to_string(), &mut found));
    found
}

fn add<'a>(table: &'a Node, path: String, found: &mut Vec<(String, &'a Node)>) {
    found.push((path.clone(), table));
    if let Some(inner) = table.get(ONE).filter(|inner| inner.is_table()) {
        add(inner, format!("{path}.{ONE}"), found);
    }
    for (index, inner) in table.get(SEVERAL).map_or(&[][..], Node::items).iter().enumerate() {
        add(inner, format!("{path}.{SEVERAL}.{index}"), found);
    }
}

/// Changes a table of a chain and the tables of the steps within it.
pub fn for_each_step(table: &mut Node, change: &mut dyn FnMut(&mut Node)) {
    change(table);
    within(table, |inner| for_each_step(inner, change));
}

/// Calls `change` for each step that is directly in a table.
pub(crate) fn within(table: &mut Node, mut change: impl FnMut(&mut Node)) {
    if let Some(inner) = table.get_mut(ONE).filter(|inner| inner.is_table()) {
        change(inner);
    }
    if let Some(Value::List(inner)) = table.get_mut(SEVERAL).map(|several| &mut several.value) {
        inner.iter_mut().for_each(change);
    }
}

/// The descriptions ([`describe`](crate::Transform::describe)) of a step and of the steps within it.
pub(crate) fn described_steps(described: &serde_json::Value) -> Vec<&serde_json::Value> {
    let several = described.get(SEVERAL).and_then(serde_json::Value::as_array).into_iter().flatten();
    let inner = described.get(ONE).into_iter().chain(several).flat_map(described_steps);
    std::iter::once(described).chain(inner).collect()
}
