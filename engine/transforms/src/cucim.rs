//! cuCIM's names: recipes with names of `cucim.core.operations` use the transforms of this crate,
//! which run on any device.
//!
//! Parameters also have cuCIM's names and are converted to those of the transform. cuCIM counts the
//! channel axis: its axis 1 is the first spatial one.

use hearth_registry::{Fault, Node, Value};

/// Converts cuCIM's parameters to those of a transform.
type Turn = fn(&mut Node) -> Result<(), Fault>;

/// cuCIM's operations, by name: the transform, and the conversion of the parameters.
const OPERATIONS: &[(&str, &str, Turn)] = &[
    ("color_jitter", "ColorJitter", grey_levels),
    ("image_flip", "Flip", |table| spatial(table, "spatial_axis")),
    ("image_rotate_90", "Rotate90", |table| spatial(table, "spatial_axes")),
    ("normalize_data", "ScaleIntensityRange", normalize),
    ("rand_color_jitter", "ColorJitter", |table| {
        // Batches are collated after the transforms: each image has its own draws.
        if table.get("whole_batch") == Some(&Node::from(true)) {
            return Err(Fault::at("whole_batch", "is not supported: every image has its own draws"));
        }
        table.remove("whole_batch");
        add(table, "prob", 0.1);
        grey_levels(table)
    }),
    ("rand_image_flip", "RandFlip", |table| spatial(table, "spatial_axis")),
    ("rand_image_rotate_90", "RandRotate90", |table| spatial(table, "spatial_axes")),
    ("rand_zoom", "RandZoom", |_| Ok(())),
    ("scale_intensity_range", "ScaleIntensityRange", |_| Ok(())),
    ("zoom", "Zoom", |table| {
        rename(table, "zoom_factor", "zoom");
        Ok(())
    }),
];

/// cuCIM's names, each with the transform that implements it.
pub fn cucim_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    OPERATIONS.iter().map(|(name, transform, _)| (*name, *transform))
}

/// Replaces a cuCIM name in a table by that of the transform and converts its parameters.
///
/// # Errors
/// If a parameter has no counterpart in the transform.
pub(crate) fn translate(table: &mut Node) -> Result<(), Fault> {
    let name = table.text("name");
    let Some((_, transform, turn)) = OPERATIONS.iter().find(|(known, ..)| Some(*known) == name) else { return Ok(()) };
    turn(table)?;
    let origin = table.find("name").origin.clone();
    table.insert("name", Node { origin, ..Node::from(*transform) });
    Ok(())
}

fn rename(table: &mut Node, from: &str, to: &str) {
    if let Some(value) = table.remove(from) {
        table.insert(to, value);
    }
}

fn add(table: &mut Node, key: &str, value: impl Into<Node>) {
    if table.get(key).is_none() {
        table.insert(key, value.into());
    }
}

/// cuCIM first converts every picture to grey levels.
fn grey_levels(table: &mut Node) -> Result<(), Fault> {
    add(table, "dtype", "uint8");
    Ok(())
}

/// Axes without the channel axis, under the transform's parameter name.
fn spatial(table: &mut Node, name: &str) -> Result<(), Fault> {
    let less = |axis: &Node| {
        let value = match &axis.value {
            Value::Leaf(toml::Value::Integer(axis)) if *axis > 0 => axis - 1,
            Value::Leaf(toml::Value::Integer(axis)) if *axis < 0 => *axis,
            _ => {
                return Err(Fault::at(
                    "spatial_axis",
                    "is not a spatial axis; cuCIM counts them from 1, after the channels",
                ));
            }
        };
        Ok(Node { origin: axis.origin.clone(), ..Node::from(value) })
    };
    let Some(written) = table.get("spatial_axis").cloned() else { return Ok(()) };
    let axes = match &written.value {
        Value::List(axes) => {
            let value = Value::List(axes.iter().map(less).collect::<Result<_, _>>()?);
            Node { origin: written.origin.clone(), value }
        }
        _ => less(&written)?,
    };
    table.remove("spatial_axis");
    table.insert(name, axes);
    Ok(())
}

/// From `min_value..max_value` to 0..`norm_constant`.
fn normalize(table: &mut Node) -> Result<(), Fault> {
    match table.get("type") {
        None => {}
        Some(kind) if kind.as_str() == Some("range") => {}
        Some(_) => return Err(Fault::at("type", "of normalize_data is not supported, only \"range\"")),
    }
    table.remove("type");
    for (from, to) in [("min_value", "a_min"), ("max_value", "a_max"), ("norm_constant", "b_max")] {
        if table.get(from).is_none() {
            return Err(Fault::new(format!("the key {from:?} is missing")));
        }
        rename(table, from, to);
    }
    table.insert("b_min", Node::from(0.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, text: &str) -> Node {
        let table: toml::Table = text.parse().expect("a table");
        Node::from(toml::Value::Table(table)).with("name", name)
    }

    fn turned(name: &str, text: &str) -> Result<Node, String> {
        let mut table = table(name, text);
        translate(&mut table).map_err(|fault| fault.to_string()).map(|()| table)
    }

    #[test]
    fn parameters_get_the_names_of_the_transform() {
        for (name, text, transform, expected) in [
            (
                "normalize_data",
                "norm_constant = 10\nmin_value = 0\nmax_value = 255",
                "ScaleIntensityRange",
                "b_max = 10\na_min = 0\na_max = 255\nb_min = 0.0",
            ),
            ("image_rotate_90", "k = 1\nspatial_axis = [1, 2]", "Rotate90", "k = 1\nspatial_axes = [0, 1]"),
            ("rand_image_flip", "spatial_axis = [1, -1]\nprob = 0.5", "RandFlip", "spatial_axis = [0, -1]\nprob = 0.5"),
            ("rand_color_jitter", "hue = 0.1", "ColorJitter", "hue = 0.1\nprob = 0.1\ndtype = \"uint8\""),
            ("zoom", "zoom_factor = [1.1, 1.1]", "Zoom", "zoom = [1.1, 1.1]"),
        ] {
            assert_eq!(turned(name, text), Ok(table(transform, expected)));
        }
        assert_eq!(turned("Flip", "spatial_axis = 1"), Ok(table("Flip", "spatial_axis = 1")));
    }

    #[test]
    fn what_can_not_be_turned_is_told() {
        assert!(turned("image_flip", "spatial_axis = [0, 1]").expect_err("a channel").contains("from 1"));
        assert!(
            turned("normalize_data", "norm_constant = 1\nmin_value = 0").expect_err("missing").contains("max_value")
        );
        assert!(turned("normalize_data", "type = \"atan\"").is_err());
        assert!(turned("rand_color_jitter", "whole_batch = true").is_err());
    }
}
