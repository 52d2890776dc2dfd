//! The first batch of a loader, `monai.utils.first(@dataloader)`, as an input of autoencoders.

use std::path::Path;

use burn::tensor::Tensor;
use hearth_bundle::{Component, Fault, FaultKind, Value};
use hearth_data::numpy::shuffled_indices;

use super::Context;
use super::array::Array;
use super::case::Case;
use super::chain::Chain;
use super::data::{DATASETS, LOADERS, given, list};
use super::missing;
use super::nodes::fault;
use super::writing::Writing;
use hearth_recipe::{Context as _, Outcome, RecipeError};

/// A loader whose first batch is used.
pub(crate) struct First {
    id: String,
    cases: Vec<Value>,
    chain: Chain,
    batch: usize,
    shuffled: bool,
}

impl First {
    /// Parses a data loader.
    ///
    /// # Errors
    /// All unsupported parts, or a missing data set.
    pub fn new(loader: &Component, context: &Context) -> Result<Self, Vec<Fault>> {
        if !LOADERS.contains(&loader.name()) {
            return Err(vec![fault(loader, format!("is not a supported loader; expected {}", LOADERS.join(", ")))]);
        }
        let dataset = match loader.get("dataset") {
            Some(Value::Component(dataset)) => dataset,
            other => return Err(vec![fault(loader, "has no dataset").about(other.unwrap_or(&Value::None))]),
        };
        let batch = loader.get("batch_size").and_then(Value::as_int).unwrap_or(1);
        let batch = usize::try_from(batch).ok().filter(|batch| *batch > 0);
        let mut faults = Vec::new();
        if batch.is_none() {
            faults.push(fault(loader, "batch_size is not above 0"));
        }
        let chain = Chain::random(dataset.get("transform")).map_err(|found| faults.extend(found)).ok();
        let cases = match dataset.name() {
            _ if !context.images.is_empty() => Ok(given(&context.images, "image")),
            "DecathlonDataset" => decathlon(dataset, &context.folder),
            name if DATASETS.contains(&name) => list(dataset, dataset.get("data"), &context.folder),
            _ => Err(fault(dataset, "is a data set that is not supported")),
        };
        let cases = cases.map_err(|found| faults.push(found)).ok();
        if let (Some(chain), Some(cases), Some(batch)) = (&chain, &cases, batch) {
            let taken = &cases[..batch.min(cases.len())];
            match taken {
                [] => faults.push(missing::empty(loader)),
                taken => faults.extend(missing::of_list(dataset, taken, &chain.reads(), &context.folder)),
            }
        }
        match (chain, cases, batch) {
            (Some(chain), Some(cases), Some(batch)) if faults.is_empty() => {
                let shuffled = loader.get("shuffle").and_then(Value::truth).unwrap_or(false);
                Ok(First { id: loader.id.clone(), cases, chain, batch, shuffled })
            }
            _ => Err(faults),
        }
    }

    /// Notes about probable mistakes.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.chain.notes.clone();
        if self.shuffled && self.cases.len() > self.batch {
            notes.push(format!("{}: shuffle draws a case in MONAI; here the first of the list is taken", self.id));
        }
        notes
    }

    /// The images of the batch by key, `[batch, channel, x, y, z]` or without z.
    ///
    /// # Errors
    /// A step that fails, or images of different shapes.
    pub fn batch(&self, seed: i64, writing: &mut Writing) -> Outcome<Vec<(String, Array)>> {
        let mut cases = Vec::new();
        for (index, given) in self.cases.iter().take(self.batch).enumerate() {
            let mut case = Case::new(given, index, &writing.inputs);
            case.seed = seed.unsigned_abs();
            let named = case.sample.case.clone();
            self.chain.run(&mut case, writing).while_doing(|| named)?;
            cases.push(case);
        }
        let image = |value: &hearth_data::Value| match value {
            hearth_data::Value::Image(image) => Some(image.clone()),
            _ => None,
        };
        let mut batch = Vec::new();
        for (key, value) in cases.first().map(|case| &case.sample.values).into_iter().flatten() {
            let Some(first) = image(value) else { continue };
            let others = cases.iter().map(|case| Ok(case.sample.image(key)?.data.clone()));
            let images: Vec<Tensor<4>> = others.collect::<Outcome<_>>()?;
            let shape = first.data.dims();
            if images.iter().any(|image| image.dims() != shape) {
                let what = format!("the images {key} of a batch have several shapes: set batch_size to 1");
                return Err(RecipeError::new(format!("{}: {what}", self.id)));
            }
            let mut array = Array::of_batch(Tensor::stack(images, 0), first.meta.spatial_dims);
            array.like = Some((first.affine, first.meta));
            batch.push((key.clone(), array));
        }
        Ok(batch)
    }
}

/// `DecathlonDataset`: the cases of a section. A fifth of the training cases validates, drawn by
/// NumPy's generator with the seed of the data set.
fn decathlon(dataset: &Component, folder: &Path) -> Result<Vec<Value>, Fault> {
    let text = |key: &str| {
        let value = dataset.get(key).and_then(Value::as_str);
        value.ok_or_else(|| fault(dataset, format!("has no {key} that is a text")))
    };
    let (root, task, section) = (folder.join(text("root_dir")?), text("task")?, text("section")?);
    let list = root.join(task).join("dataset.json");
    let missing = |what: String| Fault { kind: FaultKind::File, ..fault(dataset, what) };
    let content = hearth_files::read(&list).map_err(|error| {
        let what = "set dataset_dir to the folder of the data set, which is not downloaded, or give images (-i)";
        missing(format!("{} cannot be read ({error}): {what}", list.display()))
    })?;
    let content: serde_json::Value =
        serde_json::from_slice(&content).map_err(|error| missing(format!("{}: {error}", list.display())))?;
    let key = if section == "test" { "test" } else { "training" };
    let items = content[key].as_array();
    let items = items.ok_or_else(|| missing(format!("{} has no list {key:?}", list.display())))?;
    let path = |value: &serde_json::Value| {
        value.as_str().map(|path| Value::text(root.join(task).join(path).display().to_string()))
    };
    let case = |item: &serde_json::Value| {
        let entry = |key: &str| Some((Value::text(key), path(item.get(key)?)?));
        let entries: Vec<(Value, Value)> = match path(item) {
            Some(image) => vec![(Value::text("image"), image)],
            None => ["image", "label"].into_iter().filter_map(entry).collect(),
        };
        Value::Dict(entries.into())
    };
    let cases: Vec<Value> = items.iter().map(case).collect();
    if section == "test" {
        return Ok(cases);
    }
    let seed = dataset.get("seed").and_then(Value::as_int).unwrap_or(0);
    let seed = u32::try_from(seed).map_err(|_| fault(dataset, format!("NumPy does not accept the seed {seed}")))?;
    let share = dataset.get("val_frac").and_then(Value::as_float).unwrap_or(0.2);
    let order = shuffled_indices(cases.len(), seed);
    let (validation, training) = order.split_at(((cases.len() as f64 * share) as usize).min(cases.len()));
    let chosen = if section == "training" { training } else { validation };
    Ok(chosen.iter().map(|place| cases[*place].clone()).collect())
}
