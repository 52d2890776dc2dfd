//! NaN is no value of a recipe, whichever part would take it.

use hearth_registry::{Document, Fault, Node, Value};

/// The list whose options are those of plugins.
const PLUGINS: &str = "plugins";

/// Refuses the first NaN of a document, where it was written. A plugin decides about its options itself.
pub(super) fn refuse(document: &Document) -> Result<(), Fault> {
    let mut keys = document.root().fields().iter().filter(|entry| entry.key != PLUGINS);
    match keys.find_map(|entry| first(&entry.node)) {
        Some(node) => Err(Fault::on(node, "nan is not a number; give one")),
        None => Ok(()),
    }
}

/// The first NaN of a value.
fn first(node: &Node) -> Option<&Node> {
    match &node.value {
        Value::Leaf(toml::Value::Float(number)) => Some(node).filter(|_| number.is_nan()),
        Value::Leaf(_) | Value::Nothing => None,
        Value::List(items) => items.iter().find_map(first),
        Value::Table(fields) => fields.iter().find_map(|field| first(&field.node)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_refused_where_it_is_written() {
        let text = "transforms = [{ name = 'Pad', value = [0.0, nan] }]\n[optimizer]\nlr = inf\n";
        let document = Document::parse("r.toml", text).expect("TOML");
        let fault = refuse(&document).expect_err("a NaN");
        assert!(fault.to_string().starts_with("r.toml:1:45: nan is not a number"), "{fault}");
        let mut document = Document::parse("r.toml", text.replace("nan", "1.0")).expect("TOML");
        assert_eq!(refuse(&document), Ok(()));
        document.set("optimizer.lr=nan").expect("a key");
        assert!(refuse(&document).expect_err("a NaN").to_string().starts_with("--set optimizer.lr=nan"));
        let of_plugin =
            Document::parse("r.toml", "[[plugins]]\nname = 'own'\noptions = { level = nan }").expect("TOML");
        assert_eq!(refuse(&of_plugin), Ok(()));
    }
}
