//! A transform of a plugin, on host memory: `mine.Blur`. Those of several keys are in
//! [`plugin_map`](super::plugin_map).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use hearth_image::{Image, TransformError};
use hearth_registry::component::{self, Component, ComponentKind, HostArray};
use hearth_registry::{Fault, Node};
use serde::Deserialize;
use serde_json::json;

use super::plugin_map::PluginMap;
use crate::params::Keys;
use crate::{Draw, Sample, Transform};

/// Parameters that every plugin transform has in a recipe, in addition to its own options.
#[derive(Deserialize)]
struct Shared {
    keys: Keys,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// Calls a plugin for the image of each key. The grid is unchanged; the number of channels may
/// change.
pub(crate) struct PluginTransform {
    name: &'static str,
    keys: Keys,
    allow_missing_keys: bool,
    options: Node,
    component: Arc<dyn Component>,
}

impl fmt::Debug for PluginTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginTransform")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Builds the plugin's transform for a name with a dot, from its table without the name.
pub(crate) fn build(name: &str, table: &Node) -> Result<Box<dyn Transform>, Fault> {
    let mut options = table.clone();
    let mut shared = Node::empty();
    for key in ["keys", "allow_missing_keys"] {
        if let Some(value) = options.remove(key) {
            shared.insert(key, value);
        }
    }
    let Shared { keys, allow_missing_keys } = hearth_registry::read(&shared)?;
    let kinds = [ComponentKind::Transform, ComponentKind::MapTransform];
    let (kind, component) = component::find_one_of(&kinds, name, &options)?;
    // Leaked once per step of a recipe; a process reads a recipe only a few times.
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    Ok(match kind {
        ComponentKind::MapTransform => Box::new(PluginMap::new(name, keys, allow_missing_keys, options, component)?),
        _ => Box::new(PluginTransform { name, keys, allow_missing_keys, options, component }),
    })
}

impl PluginTransform {
    fn change(&self, image: Image) -> Result<Image, TransformError> {
        let (shape, device) = (image.data.dims(), image.data.device());
        let values = image.to_vec();
        let input = HostArray { shape: shape.to_vec(), values: values.into(), affine: image.affine };
        let mut output =
            self.component.run(&[input], "").map_err(|why| TransformError::new(component::reports(&why)))?;
        let (Some(array), true) = (output.pop(), output.is_empty()) else {
            let what = "the plugin did not return an image";
            return Err(TransformError::new(what).expected("one image for each image"));
        };
        array.check().map_err(|why| TransformError::new(format!("the plugin returned an invalid array: {why}")))?;
        let [channels, x, y, z] = array.shape[..] else {
            let what = format!("{} returned an array of shape {:?}", self.name, array.shape);
            return Err(TransformError::new(what).expected("an image [C, X, Y, Z]"));
        };
        if [x, y, z] != shape[1..] || channels == 0 {
            let what = format!("{} returned an image of {x} x {y} x {z} for one of {:?}", self.name, &shape[1..]);
            return Err(TransformError::new(what)
                .expected("the same grid")
                .advice("a `transform` of a plugin may change values and channels only, a `map_transform` the grid"));
        }
        let data = TensorData::new(array.values.into_owned(), [channels, x, y, z]);
        Ok(Image { data: Tensor::from_data(data, &device), ..image })
    }
}

impl Transform for PluginTransform {
    fn name(&self) -> &'static str {
        self.name
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.change(image))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        if self.allow_missing_keys { Ok(()) } else { self.keys.check(known) }
    }

    /// Includes the plugin's version: caches of another version are not used.
    fn describe(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "keys": self.keys.iter().collect::<Vec<_>>(),
            "options": self.options,
            "plugin": self.component.version(),
        })
    }
}
