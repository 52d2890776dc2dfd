//! The cases of a data loader: lists of dictionaries, tables, random tensors.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use hearth_bundle::{CallValue, Component, Fault, Value};
use hearth_data::{DrawKey, host_device};

use super::array_form::{cases, is_array_form, keyed};
use super::field;
use super::nodes::{components, fault, is, texts};
use super::streams::Streams;

/// The cases of an evaluator.
pub(crate) enum Cases {
    /// Dictionaries, before their transforms.
    List(Vec<Value>),
    /// Tensors, `[channel, x, y, z]`, that need no transforms.
    Drawn(Vec<Tensor<4>>),
    /// Cases that combine several streams of images.
    Streams(Streams),
    /// Unsupported or unknown cases.
    Unfit(Vec<Fault>),
    /// Patches of slides.
    Slides(Arc<Component>, Vec<Value>),
}

/// The parts of a data loader.
pub(crate) struct Loading {
    pub cases: Cases,
    pub dataset: Arc<Component>,
    pub transform: Option<Value>,
    pub batch: usize,
}

pub(crate) const LOADERS: [&str; 2] = ["DataLoader", "ThreadDataLoader"];
pub(crate) const DATASETS: [&str; 6] =
    ["Dataset", "CacheDataset", "PersistentDataset", "CacheNTransDataset", "LMDBDataset", "SmartCacheDataset"];

/// Functions whose tensors a list of cases may hold: random numbers, or a constant.
const DRAWN: [&str; 4] = ["torch.rand", "torch.randn", "torch.ones", "torch.zeros"];

impl Loading {
    /// Parses the value of `val_data_loader`; `images` replace the images of the config.
    ///
    /// # Errors
    /// Unsupported classes, or data that is not a list of dictionaries.
    pub fn new(evaluator: &Component, context: &super::Context) -> Result<Self, Fault> {
        let (images, seed, folder) = (&context.images[..], context.seed, &*context.folder);
        let loader = match evaluator.get("val_data_loader") {
            Some(Value::Component(loader)) => loader,
            other => return Err(absent(evaluator, "val_data_loader", other)),
        };
        if !LOADERS.contains(&loader.name()) {
            return Err(fault(loader, format!("is not a supported loader; expected {}", LOADERS.join(", "))));
        }
        let batch = loader.get("batch_size").and_then(Value::as_int).unwrap_or(1);
        let batch = usize::try_from(batch).ok().filter(|batch| *batch > 0);
        let batch = batch.ok_or_else(|| fault(loader, "batch_size is not above 0"))?;
        let dataset = match loader.get("dataset") {
            Some(Value::Component(dataset)) => dataset.clone(),
            other => return Err(absent(loader, "dataset", other)),
        };
        let arrays = is_array_form(dataset.get("transform"));
        let transform = keyed(dataset.get("transform").cloned());
        let data = dataset.get("data");
        if dataset.name() == "MaskedPatchWSIDataset" {
            let list = if images.is_empty() { list(&dataset, data, folder)? } else { given(images, "image") };
            return Ok(Loading { cases: Cases::Slides(dataset.clone(), list), dataset, transform, batch });
        }
        if dataset.name() == "IterableDataset" {
            let cases = match Streams::new(&dataset, images, folder) {
                Ok(streams) => Cases::Streams(streams),
                Err(faults) => Cases::Unfit(faults),
            };
            return Ok(Loading { cases, dataset, transform: None, batch });
        }
        if !DATASETS.contains(&dataset.name()) {
            return Err(fault(&dataset, "is a data set that is not supported"));
        }
        if !images.is_empty() {
            let chain = super::chain::Chain::new(transform.as_ref()).unwrap_or_default();
            let reads = chain.reads();
            let cases = Cases::List(given(images, reads.first().map_or("image", |read| read.key)));
            return Ok(Loading { cases, dataset, transform, batch });
        }
        if context.case_by_case {
            return Ok(Loading { cases: Cases::List(Vec::new()), dataset, transform, batch });
        }
        let list = list(&dataset, data, folder)?;
        let list = if arrays { cases(list) } else { list };
        let draws: Option<Vec<&Arc<CallValue>>> = list
            .iter()
            .map(|value| match value {
                Value::Call(call) if DRAWN.contains(&call.name.as_str()) => Some(call),
                _ => None,
            })
            .collect();
        if let Some(draws) = draws.filter(|draws| !draws.is_empty()) {
            let drawn = draws.into_iter().enumerate().map(|(place, call)| draw(&dataset, call, place, seed));
            let cases = Cases::Drawn(drawn.collect::<Result<_, Fault>>()?);
            return Ok(Loading { cases, dataset, transform, batch });
        }
        if let Some(other) = list.iter().find(|value| value.as_dict().is_none()) {
            let what = format!("data holds {}; expected dictionaries", other.kind());
            return Err(fault(&dataset, what).about(other));
        }
        Ok(Loading { cases: Cases::List(list), dataset, transform, batch })
    }
}

/// The fault of an argument that is not a component.
fn absent(of: &Component, name: &str, value: Option<&Value>) -> Fault {
    match value {
        Some(other) => fault(of, format!("{name} is {}", other.kind())).about(other),
        None => fault(of, format!("has no {name}")),
    }
}

pub(crate) fn given(images: &[String], key: &str) -> Vec<Value> {
    images.iter().map(|image| Value::Dict([(Value::text(key), Value::text(image))].into())).collect()
}

/// The elements of a data list.
pub(crate) fn list(dataset: &Component, data: Option<&Value>, folder: &Path) -> Result<Vec<Value>, Fault> {
    match data {
        Some(Value::Component(table)) if table.name() == "CSVDataset" => csv(table, folder),
        Some(Value::Component(other)) if DATASETS.contains(&other.name()) && other.get("transform").is_none() => {
            list(other, other.get("data"), folder)
        }
        Some(Value::Component(other)) => Err(fault(other, "is a data set that is not supported")),
        Some(value) => {
            let items = value.as_slice().map(<[Value]>::to_vec);
            let what = || format!("data is {}; expected a list", value.kind());
            items.ok_or_else(|| fault(dataset, what()).about(value))
        }
        None => Err(fault(dataset, "has no data")),
    }
}

/// A tensor of a constant, or of random numbers from Hearth's generator that are the same each time.
fn draw(dataset: &Component, call: &CallValue, place: usize, seed: i64) -> Result<Tensor<4>, Fault> {
    let sizes: Option<Vec<usize>> = match call.args.first().and_then(Value::as_slice) {
        Some(list) => list.iter().map(|size| usize::try_from(size.as_int()?).ok()).collect(),
        None => call.args.iter().map(|size| usize::try_from(size.as_int()?).ok()).collect(),
    };
    let wrong = || fault(dataset, format!("{} with an invalid size", call.name));
    let sizes = sizes.filter(|sizes| (1..=4).contains(&sizes.len())).ok_or_else(wrong)?;
    let count = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    let count = count.filter(|count| *count <= 1 << 30).ok_or_else(wrong)?;
    let mut values = vec![0.0; count];
    let draw = DrawKey::new(seed.unsigned_abs(), 0, 0).draw("noise", 0, place);
    match call.name.as_str() {
        "torch.zeros" => {}
        "torch.ones" => values.fill(1.0),
        "torch.randn" => draw.add_normal(&mut values, 0.0, 1.0),
        _ => draw.fill_uniform(&mut values, 0.0, 1.0),
    }
    let mut shape = [1; 4];
    shape[..sizes.len()].copy_from_slice(&sizes);
    Ok(Tensor::from_data(TensorData::new(values, shape), &host_device()))
}

/// `CSVDataset`: the rows of a table, with one lambda per key.
fn csv(table: &Component, folder: &Path) -> Result<Vec<Value>, Fault> {
    let source = table.get("src").or_else(|| table.get("filename"));
    let source = source.and_then(texts).filter(|files| files.len() == 1).and_then(|mut files| files.pop());
    let source = source.ok_or_else(|| fault(table, "src is no single file"))?;
    for unused in ["col_groups", "col_types", "row_indices"] {
        if table.get(unused).is_some() {
            return Err(fault(table, format!("{unused} is not supported")));
        }
    }
    let options = table.get("kwargs_read_csv");
    let names = options.and_then(|options| options.key("names")).and_then(texts);
    let headed = match options.and_then(|options| options.key("header")) {
        Some(Value::None) => false,
        _ => names.is_none(),
    };
    let path = folder.join(&source);
    let separator = match options.and_then(|options| options.key("sep").or_else(|| options.key("delimiter"))) {
        None => None,
        Some(given) => match given.as_str().map(|text| text.chars().collect::<Vec<_>>()).as_deref() {
            Some([one]) => Some(*one),
            _ => return Err(fault(table, "sep of kwargs_read_csv is not one character")),
        },
    };
    let mut rows = hearth_data::table_rows(&path, separator).map_err(|error| Fault {
        kind: hearth_bundle::FaultKind::File,
        ..fault(table, format!("{source} cannot be read: {error}"))
    })?;
    let names = match names {
        Some(names) => names,
        None if headed && !rows.is_empty() => rows.remove(0),
        None => return Err(fault(table, format!("{source} is empty"))),
    };
    let wanted = table.get("col_names").and_then(texts);
    let change = table.get("transform");
    let mut cases = Vec::with_capacity(rows.len());
    for row in rows {
        let entries =
            names.iter().zip(row).filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted.contains(name)));
        let entries = entries
            .map(|(name, cell)| (Value::text(name), cell.parse().map_or_else(|_| Value::text(&cell), Value::Float)));
        let mut entries: Vec<(Value, Value)> = entries.collect();
        for step in components(change).unwrap_or_default() {
            let (Some(keys), Some(Value::Function(function)), true) =
                (step.get("keys").and_then(texts), step.get("func"), is(&step, &["Lambda"]))
            else {
                return Err(fault(&step, "is not run on rows of a table; only a Lambda of a text is"));
            };
            for (name, value) in &mut entries {
                if name.as_str().is_some_and(|name| keys.iter().any(|key| key == name)) {
                    *value = field::text(function, value, folder)?;
                }
            }
        }
        cases.push(Value::Dict(entries.into()));
    }
    Ok(cases)
}
