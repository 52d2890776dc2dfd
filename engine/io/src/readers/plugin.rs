//! Readers of plugins, which run on host memory: `mine.Raw`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hearth_image::{Image, host_device};
use hearth_registry::component::{self, Component, ComponentKind};
use hearth_registry::{Fault, Node};

use super::{ReadError, ReadOptions, Reader};

/// A reader that calls a plugin. Recipes select it by name (`LoadImage` with
/// `reader = "mine.Raw"`); it is never selected by a file's content.
struct PluginReader {
    name: &'static str,
    component: Arc<dyn Component>,
}

/// Finds the plugin's reader for a name with a dot.
pub(super) fn find(name: &str) -> Result<Arc<dyn Reader>, Fault> {
    let component = component::find(ComponentKind::Reader, name, &Node::empty())?;
    Ok(Arc::new(PluginReader { name: interned(name), component }))
}

/// The name, kept for the rest of the process, once.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.get(name).copied().unwrap_or_else(|| {
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        names.insert(name);
        name
    })
}

impl Reader for PluginReader {
    fn name(&self) -> &'static str {
        self.name
    }

    fn suffixes(&self) -> &[&str] {
        &[]
    }

    fn version(&self) -> Option<String> {
        Some(self.component.version())
    }

    fn read(&self, path: &Path, _: &ReadOptions) -> Result<Image, ReadError> {
        let failed = |why: String| ReadError::new(path, format!("{}: {why}", self.name));
        let text =
            path.to_str().ok_or_else(|| failed("a path that is not Unicode cannot be passed to it".to_owned()))?;
        let array = self.component.run(&[], text).map_err(|why| failed(component::reports(&why)))?.pop();
        let array = array.ok_or_else(|| failed("the plugin did not return an image: expected one".to_owned()))?;
        array.check().map_err(|why| failed(format!("the plugin returned an invalid array: {why}")))?;
        let [c, x, y, z] = array.shape[..] else {
            return Err(failed(format!(
                "the plugin returned an array of shape {:?}: expected an image [C, X, Y, Z]",
                array.shape
            )));
        };
        if c * x * y * z == 0 || !array.affine.iter().flatten().all(|value| value.is_finite()) {
            let what = "without voxels, or with an affine that is not finite";
            return Err(failed(format!("the plugin returned an image of shape {:?} {what}", array.shape)));
        }
        let image = Image::from_values(array.values.into_owned(), [c, x, y, z], array.affine, &host_device());
        Ok(if z == 1 { image.with_spatial_dims(2) } else { image })
    }
}
