//! Chains of MONAI's array transforms, which process one array without a key. Here they process the
//! value `image`.

use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_bundle::{Component, Fault, Value};
use hearth_data::Image;

use crate::bundle::nodes::{base_names, components, fault};
use hearth_recipe::{Outcome, RecipeError};

/// The key of the array.
pub(crate) const KEY: &str = "image";

/// The option that marks axes as those of a file, before the channels are moved first.
pub(crate) const OF_FILE: &str = "axes_of_file";

/// Whether a chain begins with `LoadImage` in its array form.
pub(crate) fn is_array_form(transform: Option<&Value>) -> bool {
    let first = components(transform).and_then(|list| list.into_iter().next());
    match first {
        Some(first) if first.name() == "Compose" => is_array_form(first.get("transforms")),
        Some(first) => first.name() == "LoadImage" && !first.has("keys"),
        None => false,
    }
}

/// Converts the chain to the dictionary form. Other values are returned unchanged.
pub(crate) fn keyed(transform: Option<Value>) -> Option<Value> {
    match is_array_form(transform.as_ref()) {
        true => transform.map(|transform| with_key(&transform, &mut true)),
        false => transform,
    }
}

/// Adds the key to each component; `of_file` is whether the channels have not been moved first yet.
fn with_key(value: &Value, of_file: &mut bool) -> Value {
    let component = match value {
        Value::Component(component) => component,
        Value::List(items) => return Value::list(items.iter().map(|item| with_key(item, of_file))),
        other => return other.clone(),
    };
    let mut args = component.args.clone();
    if component.name() == "Compose" {
        for (name, value) in &mut args {
            if name == "transforms" {
                *value = with_key(value, of_file);
            }
        }
    } else {
        args.retain(|(name, _)| name != "keys");
        args.push(("keys".to_owned(), Value::text(KEY)));
        let first = base_names(component.name()).contains(&"EnsureChannelFirst");
        let truth = |name: &str| component.get(name).and_then(Value::truth).unwrap_or(false);
        if component.name() == "Transpose" && *of_file {
            args.push((OF_FILE.to_owned(), Value::Bool(true)));
        }
        *of_file &= !first && !truth("ensure_channel_first") && component.name() != "Transpose";
    }
    let Component { id, file, target, callable, .. } = &**component;
    let made = Component { id: id.clone(), file: file.clone(), target: target.clone(), args, callable: *callable };
    Value::Component(Arc::new(made))
}

/// The cases of a list: in the array form each one is a file, or several files that make one image.
pub(crate) fn cases(list: Vec<Value>) -> Vec<Value> {
    let case = |value: Value| match value.as_dict() {
        Some(_) => value,
        None if matches!(value, Value::Call(_)) => value,
        None => Value::Dict([(Value::text(KEY), value)].into()),
    };
    list.into_iter().map(case).collect()
}

/// The axes of a `Transpose` of a file.
pub(crate) fn axes(component: &Component) -> Result<Vec<usize>, Fault> {
    let wrong = || fault(component, "indices are no order of the axes of a file: [2, 0, 1], for instance");
    let given = component.get("indices").and_then(Value::as_slice).ok_or_else(wrong)?;
    let axes: Option<Vec<usize>> = given.iter().map(|axis| usize::try_from(axis.as_int()?).ok()).collect();
    let axes = axes.filter(|axes| (2..=4).contains(&axes.len()) && (0..axes.len()).all(|axis| axes.contains(&axis)));
    axes.ok_or_else(wrong)
}

/// Reorders the channels and axes of an image as `Transpose` reorders those of its file.
///
/// # Errors
/// A file with another number of axes.
pub(crate) fn in_order(image: Image, axes: &[usize]) -> Outcome<Image> {
    // Channels are the first axis here; files with an additional axis have them last.
    let spatial = image.meta.spatial_dims;
    let channels = image.meta.original_channel_dim.is_some();
    let mut here: Vec<isize> = (1..=spatial as isize).collect();
    here.extend(channels.then_some(0));
    if here.len() != axes.len() {
        let what = format!("the file has {} axes, and Transpose orders {}", here.len(), axes.len());
        return Err(RecipeError::new(what));
    }
    let mut order: Vec<isize> = axes.iter().map(|axis| here[*axis]).collect();
    // The other axes have length 1.
    order.extend((0..4).filter(|axis| !here.contains(axis)));
    let order: [isize; 4] = std::array::from_fn(|axis| order[axis]);
    let data: Tensor<4> = image.data.clone().permute(order);
    Ok(Image { data, ..image }.with_spatial_dims((axes.len() - 1).max(2)))
}

#[cfg(test)]
mod tests {
    use hearth_bundle::{Config, Resolver};
    use hearth_data::{affine, host_device};
    use serde_json::json;

    use super::*;

    #[test]
    fn axes_of_a_file_are_ordered() {
        let values: Vec<f32> = (0..2 * 3 * 4 * 5).map(|value| value as f32).collect();
        // A file of 3 x 4 x 5 x 2.
        let mut image = Image::from_values(values.clone(), [2, 3, 4, 5], affine::IDENTITY, &host_device());
        image.meta.original_channel_dim = Some(-1);
        let made = in_order(image.clone(), &[2, 0, 1, 3]).map_err(|error| error.line()).expect("four axes");
        assert_eq!((made.data.dims(), made.meta.spatial_dims), ([5, 3, 4, 2], 3));
        // Voxel 1, 2, 3 at time 1.
        let at = ((3 * 3 + 1) * 4 + 2) * 2 + 1;
        assert_eq!(made.to_vec()[at], values[((3 + 1) * 4 + 2) * 5 + 3]);
        assert!(in_order(image, &[2, 0, 1]).is_err());
        let image = Image::from_values(values, [1, 6, 4, 5], affine::IDENTITY, &host_device());
        let made = in_order(image, &[2, 0, 1]).map_err(|error| error.line()).expect("three axes");
        assert_eq!((made.data.dims(), made.meta.spatial_dims), ([5, 6, 4, 1], 2));
    }

    #[test]
    fn array_transforms_get_a_key() {
        let chain = |first: serde_json::Value| {
            let config = json!({"chain": {"_target_": "Compose", "transforms": [first, {"_target_": "Transpose",
                "indices": [2, 0, 1, 3]}, {"_target_": "ScaleIntensity"}]}});
            let config = Config::parse("c.json", &config.to_string()).expect("a config");
            let value = Resolver::new(config, ".".into()).and_then(|resolver| resolver.get("chain")).expect("a chain");
            let made = keyed(Some(value));
            let list =
                made.as_ref().and_then(Value::as_component).and_then(|compose| components(compose.get("transforms")));
            list.expect("components")
        };
        let made = chain(json!({"_target_": "LoadImage", "image_only": "true"}));
        assert!(made.iter().all(|component| component.get("keys").and_then(Value::as_str) == Some("image")));
        assert!(made[1].has(OF_FILE) && !made[2].has(OF_FILE));
        assert!(!chain(json!({"_target_": "LoadImage", "ensure_channel_first": true}))[1].has(OF_FILE));
        assert!(!chain(json!({"_target_": "LoadImaged", "keys": "image"}))[2].has("keys"));
    }
}
