//! Names of cuCIM: a recipe written with those of `cucim.core.operations` means the transforms here, which run on any device.
//!
//! Parameters keep cuCIM's names, too, and are turned into those of the transform. cuCIM counts the channel axis: its axis 1 is the
//! first spatial one.

use toml::{Table, Value};

/// Turns parameters of cuCIM into those of a transform.
type Turn = fn(&mut Table) -> Result<(), String>;

/// cuCIM's operations, by name: the transform, and what becomes of the parameters.
const OPERATIONS: &[(&str, &str, Turn)] = &[
    ("color_jitter", "ColorJitter", grey_levels),
    ("image_flip", "Flip", |table| spatial(table, "spatial_axis")),
    ("image_rotate_90", "Rotate90", |table| spatial(table, "spatial_axes")),
    ("normalize_data", "ScaleIntensityRange", normalize),
    ("rand_color_jitter", "ColorJitter", |table| {
        // Batches are made after the transforms here: each image draws for itself.
        if table.remove("whole_batch") == Some(Value::Boolean(true)) {
            return Err("`whole_batch` is not offered: every image is drawn for by itself".to_owned());
        }
        table.entry("prob").or_insert(Value::Float(0.1));
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

/// cuCIM's names, and the transform each of them means.
pub fn cucim_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    OPERATIONS.iter().map(|(name, transform, _)| (*name, *transform))
}

/// The transform that a name of cuCIM means, with its parameters turned; `None` for any other name.
pub(crate) fn translate(name: &str, table: &mut Table) -> Option<Result<&'static str, String>> {
    let (_, transform, turn) = OPERATIONS.iter().find(|(known, ..)| *known == name)?;
    Some(turn(table).map(|()| *transform))
}

fn rename(table: &mut Table, from: &str, to: &str) {
    if let Some(value) = table.remove(from) {
        table.insert(to.to_owned(), value);
    }
}

/// cuCIM turns every picture into grey levels first.
fn grey_levels(table: &mut Table) -> Result<(), String> {
    table.entry("dtype").or_insert(Value::String("uint8".to_owned()));
    Ok(())
}

/// Axes without the channel axis, under the name the transform has for them.
fn spatial(table: &mut Table, name: &str) -> Result<(), String> {
    let less = |axis: &Value| match axis.as_integer() {
        Some(axis) if axis > 0 => Ok(Value::Integer(axis - 1)),
        Some(axis) if axis < 0 => Ok(Value::Integer(axis)),
        _ => Err(format!("`spatial_axis` = {axis} is no spatial axis; cuCIM counts them from 1, after the channels")),
    };
    let axes = match table.remove("spatial_axis") {
        None => return Ok(()),
        Some(Value::Array(axes)) => Value::Array(axes.iter().map(less).collect::<Result<_, _>>()?),
        Some(axis) => less(&axis)?,
    };
    table.insert(name.to_owned(), axes);
    Ok(())
}

/// From `min_value..max_value` to 0..`norm_constant`.
fn normalize(table: &mut Table) -> Result<(), String> {
    match table.remove("type") {
        None => {}
        Some(Value::String(kind)) if kind == "range" => {}
        Some(other) => return Err(format!("`type` = {other} of normalize_data is not offered, only \"range\"")),
    }
    for (from, to) in [("min_value", "a_min"), ("max_value", "a_max"), ("norm_constant", "b_max")] {
        if !table.contains_key(from) {
            return Err(format!("missing field `{from}`"));
        }
        rename(table, from, to);
    }
    table.insert("b_min".to_owned(), Value::Float(0.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(name: &str, text: &str) -> Result<(&'static str, Table), String> {
        let mut table: Table = text.parse().expect("a table");
        translate(name, &mut table).expect("a name of cuCIM").map(|transform| (transform, table))
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
            let (got, table) = turned(name, text).expect("sound");
            assert_eq!((got, table), (transform, expected.parse().expect("a table")));
        }
        assert!(translate("Flip", &mut Table::new()).is_none());
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
