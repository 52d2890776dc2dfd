//! Divides a network into parts for a table.

/// Whether a layer belongs to the part `name`.
pub(super) fn holds(name: &str, layer: &str) -> bool {
    name.is_empty() || layer.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The names one level below `name`, in order; empty for a layer.
fn children<'a>(name: &str, layers: &[&'a str]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for layer in layers.iter().copied().filter(|layer| holds(name, layer)) {
        if layer == name {
            return Vec::new();
        }
        let start = if name.is_empty() { 0 } else { name.len() + 1 };
        let child = layer[start..].find('.').map_or(layer, |dot| &layer[..start + dot]);
        if !found.contains(&child) {
            found.push(child);
        }
    }
    found
}

/// The names of at most `rows` parts, or more if a network has more at its top level. The part with
/// the most layers is divided first.
pub(super) fn names<'a>(layers: &[&'a str], rows: usize) -> Vec<&'a str> {
    let mut names = vec![""];
    loop {
        let divisible = names.iter().enumerate().filter_map(|(place, name)| {
            let parts = children(name, layers);
            let fits = parts.len() == 1 || names.len() - 1 + parts.len() <= rows || names.len() == 1;
            let count = layers.iter().filter(|layer| holds(name, layer)).count();
            (!parts.is_empty() && fits).then_some((count, place, parts))
        });
        let Some((_, place, parts)) = divisible.max_by_key(|(count, place, _)| (*count, usize::MAX - place)) else {
            return names;
        };
        names.splice(place..=place, parts);
    }
}

#[cfg(test)]
mod tests {
    use super::{holds, names};

    #[test]
    fn the_part_with_the_most_layers_is_divided() {
        let layers = ["model.0.conv", "model.1.a.conv", "model.1.a.norm", "model.1.b.conv", "model.2.conv"];
        assert_eq!(names(&layers, 3), ["model.0.conv", "model.1", "model.2.conv"]);
        assert_eq!(names(&layers, 4), ["model.0.conv", "model.1.a", "model.1.b.conv", "model.2.conv"]);
        assert_eq!(names(&layers, 9).len(), 5);
        assert!(holds("model.1", "model.1.a.conv") && !holds("model.1", "model.10.conv"));
    }

    /// A module with parameters of its own is not divided.
    #[test]
    fn a_layer_with_layers_inside_is_one_part() {
        assert_eq!(names(&["attn", "attn.qkv", "norm"], 9), ["attn", "norm"]);
    }
}
