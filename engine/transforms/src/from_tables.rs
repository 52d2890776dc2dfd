//! Pipelines from recipe tables.
//!
//! ```toml
//! [[transforms]]
//! name = "Spacing"
//! keys = ["image", "label"]
//! pixdim = [1.5, 1.5, 2.0]
//! mode = ["bilinear", "nearest"]
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::tensor::Device;
use derive_setters::Setters;
use hearth_image::spatial::{Lazy, LazySampling};
use hearth_registry::component::is_of_a_plugin;
use hearth_registry::{Document, Fault, Node, Registry, Value};

use crate::nested::all_steps;
use crate::pipeline::named;
use crate::{Pipeline, Transform, cucim};

/// Properties of the run that a recipe's transforms need.
#[derive(Clone, Debug, Default, Setters)]
#[setters(strip_option)]
pub struct RecipeOptions {
    /// Device that `device = "run"` means in `ToDevice` and `EnsureType`; the CPU by default.
    pub device: Option<Device>,
    /// Keys to keep: a training pipeline can then be used for prediction, where there is no
    /// `label`. Per-key lists are shortened accordingly, and a transform without remaining keys is
    /// dropped.
    #[setters(into)]
    pub keys: Option<Vec<String>>,
    /// Whether a run of spatial transforms is sampled once.
    pub lazy: Lazy,
    /// Options with which keys are sampled in that case, overriding the transforms.
    pub lazy_sampling: BTreeMap<String, LazySampling>,
}

/// Builds the transform that a table names: MONAI's name, with or without the `d` of its dictionary
/// form, or cuCIM's.
///
/// # Errors
/// If the name is unknown, or a parameter is unknown, missing or of another type.
pub fn build_transform(table: &Node) -> Result<Box<dyn Transform>, Fault> {
    let registry = Registry::<dyn Transform>::new();
    let mut table = table.clone();
    cucim::translate(&mut table).map_err(|fault| named(table.text("name").unwrap_or(""), fault).within(&table))?;
    let name = match table.text("name").filter(|name| is_of_a_plugin(name)) {
        Some(name) => name,
        None => registry.entry(&table)?.name,
    };
    registry.build(&table).map_err(|fault| Fault { message: format!("{name}: {}", fault.message), ..fault })
}

impl Pipeline {
    /// Builds and checks a pipeline from the `[[transforms]]` of a TOML text.
    ///
    /// ```
    /// use hearth_transforms::Pipeline;
    /// let steps = Pipeline::from_toml("[[transforms]]\nname = 'LoadImage'\nkeys = 'image'\n")?;
    /// assert_eq!(steps.input_keys(), ["image"]);
    /// let fault = Pipeline::from_toml("[[transforms]]\nname = 'LoadImage'\nkey = 'image'\n").unwrap_err();
    /// assert!(fault.to_string().contains("unknown key \"key\", did you mean \"keys\"?"));
    /// # Ok::<(), hearth_registry::Fault>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not TOML; otherwise the first invalid table, at its line.
    pub fn from_toml(text: &str) -> Result<Pipeline, Fault> {
        let document = Document::parse("transforms", text)?;
        let tables = document.root().get("transforms").map_or(&[][..], Node::items);
        Self::from_nodes(tables).map_err(|fault| document.located("transforms", fault))
    }

    /// Builds and checks a pipeline from the tables of a recipe.
    ///
    /// # Errors
    /// The fault of the first invalid table; its path is the table's index and the parameter:
    /// `2.pixdim`.
    pub fn from_nodes(tables: &[Node]) -> Result<Pipeline, Fault> {
        Self::from_nodes_with(tables, &RecipeOptions::default())
    }

    /// Builds and checks a pipeline like [`Pipeline::from_nodes`], for a device and a selection of
    /// keys.
    ///
    /// # Errors
    /// The fault of the first invalid table.
    pub fn from_nodes_with(tables: &[Node], options: &RecipeOptions) -> Result<Pipeline, Fault> {
        let mut steps: Vec<Arc<dyn Transform>> = Vec::new();
        let mut places = Vec::new();
        for (i, table) in tables.iter().enumerate() {
            let Some(kept) = keep_keys(table.clone(), options.keys.as_deref())? else { continue };
            let mut step = build_transform(&kept).map_err(|fault| fault.under(&i.to_string()))?;
            step.place(options.device.as_ref());
            steps.push(step.into());
            places.push(i);
        }
        let pipeline = Pipeline::new(steps).map_err(|fault| {
            // Converts the index among the kept steps to an index among the tables.
            let (step, rest) = fault.path.split_once('.').unwrap_or((&fault.path, ""));
            let place = step.parse::<usize>().ok().and_then(|step| places.get(step).copied()).unwrap_or_default();
            let fault = Fault { path: rest.to_owned(), ..fault.clone() };
            match tables.get(place) {
                Some(table) => fault.within(table).under(&place.to_string()),
                None => fault,
            }
        })?;
        let sampled = |pipeline: Pipeline, (key, sampling): (&String, &_)| pipeline.lazy_sampling(key, *sampling);
        Ok(options.lazy_sampling.iter().fold(pipeline.lazy(options.lazy), sampled))
    }
}

/// The keys of the first step of a table that names some.
fn first_keys(table: &Node) -> Option<&Node> {
    all_steps(std::slice::from_ref(table)).into_iter().find_map(|(_, step)| step.get("keys"))
}

/// Drops the keys that are not selected, and their entries in lists of the same length.
fn keep_keys(mut table: Node, wanted: Option<&[String]>) -> Result<Option<Node>, Fault> {
    let Some(wanted) = wanted else { return Ok(Some(table)) };
    if let Some(Value::List(steps)) = table.get_mut("transforms").map(|steps| &mut steps.value) {
        let kept = steps.iter().map(|step| keep_keys(step.clone(), Some(wanted))).collect::<Result<Vec<_>, _>>()?;
        let Some(keys) = kept.iter().flatten().find_map(first_keys).cloned() else { return Ok(None) };
        // A choice of a dropped step remains a choice, without effect.
        let nothing = Node::named("Identity").with("keys", keys).with("allow_missing_keys", true);
        *steps = kept.into_iter().map(|step| step.unwrap_or_else(|| nothing.clone())).collect();
        return Ok(Some(table));
    }
    if let Some(inner) = table.get("transform").filter(|inner| inner.is_table()) {
        let Some(inner) = keep_keys(inner.clone(), Some(wanted))? else { return Ok(None) };
        table.insert("transform", inner);
    }
    let keep: Vec<bool> = match table.get("keys").map(|keys| &keys.value) {
        Some(Value::List(keys)) => {
            keys.iter().map(|k| k.as_str().is_none_or(|k| wanted.iter().any(|w| w == k))).collect()
        }
        Some(Value::Leaf(toml::Value::String(key))) => return Ok(wanted.contains(key).then_some(table)),
        _ => return Ok(Some(table)),
    };
    if !keep.contains(&true) {
        // Dropped tables must also be valid.
        build_transform(&table).map_err(|fault| fault.within(&table))?;
        return Ok(None);
    }
    for parameter in [
        "keys",
        "mode",
        "padding_mode",
        "align_corners",
        "dtype",
        "scale_extent",
        "anti_aliasing",
        "anti_aliasing_sigma",
        "dst_keys",
        "factor_key",
        "orig_keys",
        "nearest_interp",
        "post_func",
        "field_mode",
        "grid_mode",
        "grid_padding_mode",
    ] {
        if let Some(Value::List(values)) = table.get_mut(parameter).map(|values| &mut values.value)
            && values.len() == keep.len()
        {
            let mut kept = keep.iter();
            values.retain(|_| *kept.next().unwrap_or(&true));
        }
    }
    Ok(Some(table))
}
