//! Dropouts that leave nothing: [`check_dropout`].

use hearth_registry::{Node, Value};

use crate::plan::Plan;
use hearth_recipe::{At, Outcome};

/// Checks that each dropout of the network leaves some values. PyTorch's layers allow a probability of 1,
/// with which the layers before them have no gradient.
///
/// # Errors
/// A probability of 1 or more, at its key.
pub(super) fn check_dropout(plan: &Plan) -> Outcome {
    match dropping(plan.recipe.network.node()) {
        Some((key, part)) => {
            let what = format!("{key} = {part} drops every value, so that nothing is learned: give a part below 1");
            Err(plan.document.error_at(&format!("network.{key}"), what))
        }
        None => Ok(()),
    }
}

/// The first dropout of 1 or more.
fn dropping(network: &Node) -> Option<(&str, f64)> {
    network.fields().iter().find_map(|field| {
        let part = match field.node.value {
            Value::Leaf(toml::Value::Float(part)) => part,
            Value::Leaf(toml::Value::Integer(part)) => part as f64,
            _ => return None,
        };
        // `dropout_dim` is a number of axes.
        let is_part = field.key.contains("drop") && !field.key.ends_with("_dim");
        (is_part && part >= 1.0).then_some((field.key.as_str(), part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropout_of_everything_is_found() {
        let node = |key: &str, part: f64| Node::named("UNet").with("spatial_dims", 3_i64).with(key, part);
        assert_eq!(dropping(&node("dropout", 1.0)), Some(("dropout", 1.0)));
        assert_eq!(dropping(&node("attn_drop_rate", 1.0)), Some(("attn_drop_rate", 1.0)));
        assert_eq!(dropping(&node("dropout", 0.5)), None);
        assert_eq!(dropping(&node("act_slope", 2.0)), None);
        assert_eq!(dropping(&node("dropout_dim", 3.0)), None);
    }
}
