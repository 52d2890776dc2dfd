//! [`Source`]: how a planned recipe reads its data set.

use std::sync::Arc;

use hearth_data::layouts::Layout;
use hearth_data::{Pipeline, Transform};
use hearth_registry::Named;
use toml::Value as Toml;

use crate::error::{Outcome, RecipeError};

/// The source of images and label maps: the content of `[data]`, `[task]` and the first steps of a
/// recipe. The default is a raw data set of nnU-Net, which is recognised.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// `data.layout`, if it is not recognised.
    pub layout: Option<Named<dyn Layout>>,
    /// `data.images`: the modalities that make up an image; all by default.
    pub images: Vec<String>,
    /// `task.label`: the column, key or suffix of the label map, if it is not the usual one.
    pub label: Option<String>,
    /// The regions of DICOM structure sets or segmentations that become labels 1, 2, ...; empty if
    /// labels are label maps.
    pub regions: Vec<String>,
}

impl Source {
    /// The steps that read a case, one per line; with the labels of an earlier stage if `previous`
    /// is set.
    pub(super) fn steps(&self, previous: bool) -> String {
        let keys = if previous { r#"["image", "label", "previous"]"# } else { r#"["image", "label"]"# };
        let load = match self.regions.is_empty() {
            true => format!("    {{ name = \"LoadImage\", keys = {keys} }},\n"),
            false => {
                let images = if previous { r#"["image", "previous"]"# } else { r#"["image"]"# };
                let regions = list(&self.regions);
                format!(
                    "    {{ name = \"LoadImage\", keys = {images} }},\n\
                     \x20   {{ name = \"LoadImage\", keys = [\"label\"], reference_key = \"image\", segments = {regions} }},\n"
                )
            }
        };
        format!("{load}    {{ name = \"EnsureChannelFirst\", keys = {keys} }},\n")
    }

    /// The lines of `[data]`.
    pub(super) fn data(&self) -> String {
        let mut out = String::new();
        if let Some(layout) = &self.layout {
            out += &format!("layout = {}\n", layout.node().to_toml());
        }
        if !self.images.is_empty() {
            out += &format!("images = {}\n", list(&self.images));
        }
        out
    }

    /// Builds the transforms of [`steps`](Self::steps).
    ///
    /// # Errors
    /// A step that cannot be built.
    pub(super) fn pipeline(&self) -> Outcome<Pipeline> {
        #[derive(serde::Deserialize)]
        struct Steps {
            transforms: Vec<Named<dyn Transform>>,
        }
        let steps: Steps = toml::from_str(&format!("transforms = [\n{}]\n", self.steps(false)))?;
        let steps: Vec<Arc<dyn Transform>> = steps.transforms.iter().map(Named::shared).collect();
        Pipeline::new(steps).map_err(RecipeError::from)
    }
}

fn list(names: &[String]) -> Toml {
    Toml::Array(names.iter().map(|name| Toml::String(name.clone())).collect())
}
