//! [`Source`]: how a planned recipe reads its data set.

use std::sync::Arc;

use hearth_data::layouts::Layout;
use hearth_data::{Pipeline, Transform};
use hearth_registry::Named;
use toml::Value as Toml;

use crate::error::{Outcome, RecipeError};

/// Where images and label maps come from: what `[data]`, `[task]` and the first steps of a recipe say. By
/// default a raw data set of nnU-Net, which is recognised.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// `data.layout`, where it is not recognised.
    pub layout: Option<Named<dyn Layout>>,
    /// `data.images`: the modalities that make up an image; all by default.
    pub images: Vec<String>,
    /// `task.label`: the column, key or suffix of the label map, where it is not the usual one.
    pub label: Option<String>,
    /// The regions of structure sets or segmentations in DICOM that become labels 1, 2, ...; empty
    /// where labels are label maps.
    pub regions: Vec<String>,
}

impl Source {
    /// The steps that read a case, a line each; with the labels of an earlier stage where `previous` is set.
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

    /// The steps of [`steps`](Self::steps), built.
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
