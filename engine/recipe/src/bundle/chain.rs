//! Chains of transforms: the components of a `Compose`, as steps that run here.

use std::sync::Arc;

use hearth_bundle::{Component, Fault, Function, Value, dtype_name};
use hearth_data::transforms::Invert;
use hearth_data::{Image, Transform};
use hearth_nn::post::{Activations, AsDiscrete, Rounding};
use hearth_registry::{Node, Registry};

use super::case::Case;
use super::classes::Classes;
use super::field::{self, Field, Kind};
use super::nodes::{base_names, components, each, fault, is, keys, table};
use super::save::Save;
use super::writing::Writing;
use crate::error::{Context, Outcome, RecipeError};

/// What a step does.
enum Work {
    /// A transform of the registry.
    Registered(Box<dyn Transform>),
    /// Values as a type of numbers has them.
    Cast(String),
    /// A function of one tensor, for each key.
    Lambda(Vec<Arc<Function>>),
    Activations(Vec<(Activations, Option<Arc<Function>>)>),
    Discrete(Vec<AsDiscrete>),
    /// Back to the grid of another key, and what is done to the values then.
    Invert(Invert, Option<Arc<Function>>),
    /// Colours as RGB, whatever the picture has.
    Rgb,
    Save(Save),
    Classes(Classes),
}

/// A step of a chain.
pub(super) struct Step {
    id: String,
    name: String,
    keys: Vec<String>,
    may_lack: bool,
    work: Work,
}

/// Steps in order.
#[derive(Default)]
pub(super) struct Chain {
    pub steps: Vec<Step>,
    /// What was left out or taken as something else.
    pub notes: Vec<String>,
}

/// Where nothing is to do: an image is a tensor with its metadata already.
const NOTHING: [&str; 8] =
    ["ToTensor", "ToNumpy", "ToDevice", "FromMetaTensor", "ToMetaTensor", "Identity", "SimulateDelay", "ToCupy"];

/// Options that change nothing here.
const IGNORED: [&str; 12] = [
    "meta_keys",
    "meta_key_postfix",
    "track_meta",
    "to_tensor",
    "overwriting",
    "meta_key",
    "data_type",
    "wrap_sequence",
    "lazy",
    "device",
    "prune_meta_pattern",
    "simple_keys",
];

/// Transforms of bundles' own scripts that are here.
const SCRIPTS: [&str; 4] = ["ConcatImages", "MergeClasses", "AddClickSignals", "AddLabelAsGuidance"];

impl Chain {
    /// Of the value of a `transform`: a `Compose`, a transform, a list of them, or nothing.
    ///
    /// # Errors
    /// All that is not supported.
    pub fn new(value: Option<&Value>) -> Result<Self, Vec<Fault>> {
        let (mut chain, mut faults) = (Chain::default(), Vec::new());
        chain.add(value, &mut faults);
        if faults.is_empty() { Ok(chain) } else { Err(faults) }
    }

    fn add(&mut self, value: Option<&Value>, faults: &mut Vec<Fault>) {
        let Some(list) = components(value) else {
            // An unknown value has its own fault already.
            if !matches!(value, Some(Value::Unknown)) && !value.is_some_and(has_unknown) {
                let kind = value.map(Value::kind).unwrap_or_default();
                faults
                    .push(Fault::new(hearth_bundle::FaultKind::Component, format!("{kind} is no chain of transforms")));
            }
            for component in value.and_then(Value::as_slice).unwrap_or_default().iter().filter_map(Value::as_component)
            {
                self.add(Some(&Value::Component(component.clone())), faults);
            }
            return;
        };
        for component in list {
            if component.name() == "Compose" {
                self.add(component.get("transforms"), faults);
                continue;
            }
            match steps(&component, &mut self.notes) {
                Ok(steps) => self.steps.extend(steps),
                Err(fault) => faults.push(fault),
            }
        }
    }

    /// The keys that files are read to.
    pub fn loads(&self) -> Vec<String> {
        let loads = self.steps.iter().filter(|step| step.name == "LoadImage");
        loads.flat_map(|step| step.keys.iter().cloned()).collect()
    }

    /// Warns where label maps are mapped back between their values.
    pub fn warnings(&self) -> Vec<String> {
        let mut decided: Vec<&String> = Vec::new();
        let mut warnings = Vec::new();
        for step in &self.steps {
            match &step.work {
                Work::Discrete(_) => decided.extend(&step.keys),
                Work::Invert(invert, _) if step.keys.iter().any(|key| decided.contains(&key)) => {
                    let linear = serde_json::to_value(invert).is_ok_and(|table| table["nearest_interp"] != true);
                    if linear {
                        let what = "labels are mapped back linearly (nearest_interp: false), as the config says: the \
                                    file will have values between labels";
                        warnings.push(format!("{}: {what}", step.id));
                    }
                }
                _ => {}
            }
        }
        warnings
    }

    /// Runs the steps on a case.
    ///
    /// # Errors
    /// That of a step, with its id.
    pub fn run(&self, case: &mut Case, writing: &mut Writing) -> Outcome {
        for step in &self.steps {
            step.run(case, writing).while_doing(|| format!("{}: {}", step.id, step.name))?;
        }
        Ok(())
    }

    /// Ends what is written once for all cases.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(&self, writing: &mut Writing) -> Outcome {
        for step in &self.steps {
            if let Work::Classes(classes) = &step.work {
                classes.finish(writing)?;
            }
        }
        Ok(())
    }
}

fn has_unknown(value: &Value) -> bool {
    match value {
        Value::Unknown => true,
        other => other.as_slice().is_some_and(|items| items.iter().any(has_unknown)),
    }
}

/// The steps of a component; a type of numbers that is asked for beside is one more.
fn steps(component: &Component, notes: &mut Vec<String>) -> Result<Vec<Step>, Fault> {
    let name = component.name();
    let scripted = component.target.starts_with("scripts.");
    if scripted && !is(component, &SCRIPTS) {
        return Err(fault(component, "is a class of the bundle's own scripts, which are never executed"));
    }
    let step = |name: &str, work: Work| -> Result<Step, Fault> {
        let may_lack = component.get("allow_missing_keys").and_then(Value::truth).unwrap_or(false);
        let keys = if component.has("keys") { keys(component)? } else { Vec::new() };
        Ok(Step { id: component.id.clone(), name: name.to_owned(), keys, may_lack, work })
    };
    let cast = || -> Result<Option<Step>, Fault> {
        let Some(given) = component.get("dtype") else { return Ok(None) };
        // One type for each key is of use where they differ; here all are f32 until they are written.
        let given = match given.as_slice() {
            Some([first, ..]) => first,
            _ => given,
        };
        let dtype = dtype_name(given).ok_or_else(|| fault(component, format!("dtype is {}", given.kind())))?;
        Ok(Some(step("CastToType", Work::Cast(dtype))?))
    };
    if is(component, &NOTHING) {
        return Ok(cast()?.into_iter().collect());
    }
    if is(component, &["CastToType"]) || is(component, &["EnsureType"]) {
        keys(component)?;
        return Ok(cast()?.into_iter().collect());
    }
    if is(component, &["Lambda"]) {
        return Ok(vec![lambda(component, step)?]);
    }
    if is(component, &["Activations"]) {
        let count = keys(component)?.len();
        let work = Work::Activations(activations(component, count)?);
        return Ok(vec![step("Activations", work)?]);
    }
    if is(component, &["AsDiscrete"]) {
        let count = keys(component)?.len();
        return Ok(vec![step("AsDiscrete", Work::Discrete(discrete(component, count)?))?]);
    }
    if is(component, &["Invert"]) {
        let function = match component.get("post_func") {
            Some(Value::Function(function)) => Some(function.clone()),
            None => None,
            Some(other) => return Err(fault(component, format!("post_func is {}; expected a lambda", other.kind()))),
        };
        keys(component)?;
        let without = [&IGNORED[..], &["transform", "post_func"]].concat();
        let table = table(component, "Invert", &without, false)?;
        let invert = read::<Invert>(component, table)?;
        return Ok(vec![step("Invert", Work::Invert(invert, function))?]);
    }
    if is(component, &["SaveImage"]) {
        keys(component)?;
        return Ok(vec![step("SaveImage", Work::Save(Save::new(component, notes)?))?]);
    }
    if is(component, &["SaveClassification"]) {
        keys(component)?;
        return Ok(vec![step("SaveClassification", Work::Classes(Classes::new(component)?))?]);
    }
    if is(component, &["SqueezeDim"]) && component.get("dim").and_then(Value::as_int).unwrap_or(0) == 0 {
        // Only an axis of patches stands before the channels, and there is none here.
        return Ok(Vec::new());
    }
    if is(component, &["LoadImage"]) {
        return load(component, step, cast()?, notes);
    }
    registered(component, name, step, cast()?)
}

fn read<T: for<'de> serde::Deserialize<'de>>(component: &Component, mut table: Node) -> Result<T, Fault> {
    table.remove("name");
    hearth_registry::read(&table).map_err(|error| fault(component, error.to_string()))
}

fn lambda(component: &Component, step: impl Fn(&str, Work) -> Result<Step, Fault>) -> Result<Step, Fault> {
    let count = keys(component)?.len();
    let functions = each(component, "func", count, |value| match value {
        Value::Function(function) => Some(function.clone()),
        _ => None,
    })?;
    let functions: Option<Vec<_>> = functions.into_iter().collect();
    let functions = functions.ok_or_else(|| fault(component, "has no `func`"))?;
    for function in &functions {
        check(function)?;
    }
    step("Lambda", Work::Lambda(functions))
}

/// Tries a lambda on a small tensor, so that what is outside of the language is reported before a case is read.
fn check(function: &Function) -> Result<(), Fault> {
    let data = burn::tensor::Tensor::zeros([8, 8, 8, 8], &hearth_data::host_device());
    match field::apply(function, Field::new(data, 3, Kind::Float)) {
        // An index can only fail on the tensor itself.
        Err(fault) if !fault.what.contains("index") => Err(fault),
        _ => Ok(()),
    }
}

fn activations(component: &Component, count: usize) -> Result<Vec<(Activations, Option<Arc<Function>>)>, Fault> {
    let truths = |name: &str| each(component, name, count, Value::truth);
    let (sigmoid, softmax) = (truths("sigmoid")?, truths("softmax")?);
    let dims = each(component, "dim", count, Value::as_int)?;
    let other = each(component, "other", count, |value| match value {
        Value::Function(function) => Some(function.clone()),
        _ => None,
    })?;
    let made = (0..count).map(|place| {
        let one = Activations {
            sigmoid: sigmoid[place].unwrap_or(false),
            softmax: softmax[place].unwrap_or(false),
            dim: dims[place].unwrap_or(0),
            ..Activations::default()
        };
        one.check().map_err(|error| fault(component, error.to_string()))?;
        Ok((one, other[place].clone()))
    });
    made.collect()
}

fn discrete(component: &Component, count: usize) -> Result<Vec<AsDiscrete>, Fault> {
    if let Some(old) =
        ["n_classes", "num_classes", "logit_thresh", "threshold_values"].iter().find(|old| component.has(old))
    {
        return Err(fault(
            component,
            format!("{old} is an option of earlier versions of MONAI; this one refuses it, too"),
        ));
    }
    let argmax = each(component, "argmax", count, Value::truth)?;
    let classes = each(component, "to_onehot", count, |value| usize::try_from(value.as_int()?).ok())?;
    let thresholds = each(component, "threshold", count, Value::as_float)?;
    let rounding = each(component, "rounding", count, |value| Some(value.as_str()?.to_owned()))?;
    let dims = each(component, "dim", count, Value::as_int)?;
    let made = (0..count).map(|place| {
        let rounding = match rounding[place].as_deref() {
            None => None,
            Some("torchrounding") => Some(Rounding::TorchRounding),
            Some(other) => return Err(fault(component, format!("rounding is {other:?}; expected torchrounding"))),
        };
        Ok(AsDiscrete {
            argmax: argmax[place].unwrap_or(false),
            to_onehot: classes[place],
            threshold: thresholds[place],
            rounding,
            dim: dims[place].unwrap_or(0),
        })
    });
    made.collect()
}

fn load(
    component: &Component,
    step: impl Fn(&str, Work) -> Result<Step, Fault>,
    cast: Option<Step>,
    notes: &mut Vec<String>,
) -> Result<Vec<Step>, Fault> {
    const UNUSED: [&str; 11] = [
        "image_only",
        "ensure_channel_first",
        "dtype",
        "reader",
        "expanduser",
        "converter",
        "as_closest_canonical",
        "affine_lps_to_ras",
        "prune_meta_sep",
        "squeeze_non_spatial_dims",
        "fallback_only",
    ];
    keys(component)?;
    let mut table = table(component, "LoadImage", &[&IGNORED[..], &UNUSED[..]].concat(), false)?;
    let reader = match component.get("reader") {
        Some(Value::Text(name) | Value::Name(name)) => Some(name.rsplit('.').next().unwrap_or(name).to_owned()),
        Some(Value::Component(reader)) => Some(reader.name().to_owned()),
        Some(other) => return Err(fault(component, format!("reader is {}", other.kind()))),
        None => None,
    };
    if let Some(reader) = reader {
        // These read what the content says.
        let general = ["itkreader", "nibabelreader", "pilreader", "numpyreader", "nrrdreader"];
        if !general.contains(&reader.to_lowercase().as_str()) {
            table.insert("reader", Node::from(reader.as_str()));
        }
    }
    if component.get("affine_lps_to_ras").and_then(Value::truth) == Some(false) {
        return Err(fault(component, "affine_lps_to_ras = false is not supported"));
    }
    let mut steps = vec![step("LoadImage", Work::Registered(build(component, &table)?))?];
    match component.get("converter") {
        None => {}
        Some(Value::Function(function)) if is_to_rgb(&function.text) => steps.push(step("LoadImage", Work::Rgb)?),
        Some(_) => return Err(fault(component, "converter is none that is known (lambda x: x.convert('RGB'))")),
    }
    if component.get("as_closest_canonical").and_then(Value::truth) == Some(true) {
        notes.push(format!("{}: as_closest_canonical is Orientation RAS here", component.id));
        let mut table = Node::named("Orientation").with("axcodes", "RAS");
        table
            .insert("keys", super::nodes::node(component.get("keys").unwrap_or(&Value::None)).unwrap_or(Node::empty()));
        steps.push(step("Orientation", Work::Registered(build(component, &table)?))?);
    }
    steps.extend(cast.filter(|cast| matches!(&cast.work, Work::Cast(dtype) if dtype.contains("int"))));
    Ok(steps)
}

fn is_to_rgb(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    plain.contains(".convert('RGB')") || plain.contains(".convert(\"RGB\")")
}

fn build(component: &Component, table: &Node) -> Result<Box<dyn Transform>, Fault> {
    Registry::<dyn Transform>::new().build(table).map_err(|error| fault(component, error.text()))
}

fn registered(
    component: &Component,
    name: &str,
    step: impl Fn(&str, Work) -> Result<Step, Fault>,
    cast: Option<Step>,
) -> Result<Vec<Step>, Fault> {
    let registry = Registry::<dyn Transform>::new();
    let found =
        base_names(name).into_iter().find_map(|base| registry.entries().iter().find(|entry| entry.name == base));
    if found.is_none() && is(component, &["ConcatImages"]) {
        let mut table = table(component, "ConcatItems", &["keys_merge", "keys_out"], false)?;
        for (theirs, ours) in [("keys_merge", "keys"), ("keys_out", "output_key")] {
            let value = component.get(theirs).and_then(super::nodes::node);
            table.insert(ours, value.ok_or_else(|| fault(component, format!("has no `{theirs}`")))?);
        }
        return Ok(vec![step("ConcatItems", Work::Registered(build(component, &table)?))?]);
    }
    let Some(entry) = found else {
        return Err(fault(component, "is a transform that is not here"));
    };
    let without = [&IGNORED[..], &["dtype"]].concat();
    let table = table(component, entry.name, &without, false)?;
    let built = build(component, &table)?;
    if built.is_random() {
        return Err(fault(component, "is random, which inference cannot be"));
    }
    let mut steps = vec![step(entry.name, Work::Registered(built))?];
    steps.extend(cast.filter(|cast| matches!(&cast.work, Work::Cast(dtype) if dtype.contains("int"))));
    Ok(steps)
}

impl Step {
    fn run(&self, case: &mut Case, writing: &mut Writing) -> Outcome {
        match &self.work {
            Work::Registered(transform) => {
                let draw = case.draw();
                let mut made = transform.apply(std::mem::take(&mut case.sample), &draw)?;
                if made.len() != 1 {
                    let what = format!("makes {} samples of one; inference keeps one for each case", made.len());
                    return Err(RecipeError::new(what));
                }
                case.sample = made.swap_remove(0);
                Ok(())
            }
            Work::Classes(classes) => {
                let keys = self.present(case)?;
                keys.iter().try_for_each(|(_, key)| classes.add(case, key, writing))
            }
            Work::Save(save) => {
                let keys = self.present(case)?;
                keys.iter().try_for_each(|(_, key)| save.write(case, key, writing))
            }
            work => {
                for (place, key) in self.present(case)? {
                    case.numbers_to_image(&key);
                    self.change(case, work, place, &key)?;
                }
                Ok(())
            }
        }
    }

    /// The keys that the case has, with their places.
    fn present(&self, case: &Case) -> Outcome<Vec<(usize, String)>> {
        let mut present = Vec::new();
        for (place, key) in self.keys.iter().enumerate() {
            match case.sample.values.contains_key(key) {
                true => present.push((place, key.clone())),
                false if self.may_lack => {}
                false => drop(case.sample.get(key)?),
            }
        }
        Ok(present)
    }

    fn change(&self, case: &mut Case, work: &Work, place: usize, key: &str) -> Outcome {
        let dtype = case.dtypes.get(key).cloned();
        if let Work::Invert(invert, function) = work {
            // Only one key is changed at a time, so the transform is asked for it by its place.
            let original = self.original(invert, key, place);
            let original = case.sample.image(&original)?.clone();
            case.sample.update(key, |prediction| invert.invert(prediction, &original, place))?;
            if let Some(function) = function {
                self.function(case, key, function, Kind::Float)?;
            }
            return Ok(());
        }
        match work {
            Work::Lambda(functions) => {
                let kind = match dtype.as_deref() {
                    Some("bool") => Kind::Bool,
                    Some(name) if name.contains("int") => Kind::Int,
                    _ => Kind::Float,
                };
                self.function(case, key, &functions[place], kind)
            }
            Work::Cast(dtype) => {
                let dims = case.sample.image(key)?.meta.spatial_dims;
                case.sample.update(key, |image| {
                    let data = field::cast(Field::new(image.data, dims, Kind::Float), dtype).data;
                    Ok(Image { data, ..image })
                })?;
                case.dtypes.insert(key.to_owned(), dtype.clone());
                Ok(())
            }
            Work::Activations(each) => {
                let (activations, function) = &each[place];
                let mut image = case.sample.take_image(key)?;
                image.data = activations.apply(image.data.unsqueeze())?.squeeze_dim(0);
                case.sample.values.insert(key.to_owned(), hearth_data::Value::Image(image));
                case.dtypes.remove(key);
                function.as_ref().map_or(Ok(()), |function| self.function(case, key, function, Kind::Float))
            }
            Work::Discrete(each) => {
                let mut image = case.sample.take_image(key)?;
                image.data = each[place].apply(image.data.unsqueeze())?.squeeze_dim(0);
                case.sample.values.insert(key.to_owned(), hearth_data::Value::Image(image));
                case.dtypes.remove(key);
                Ok(())
            }
            Work::Rgb => Ok(case.sample.update(key, |mut image| {
                let channels = image.channels();
                image.data = match channels {
                    1 | 2 => image.data.narrow(0, 0, 1).repeat_dim(0, 3),
                    _ => image.data.narrow(0, 0, 3),
                };
                Ok(image)
            })?),
            Work::Registered(_) | Work::Invert(..) | Work::Save(_) | Work::Classes(_) => Ok(()),
        }
    }

    fn original(&self, invert: &Invert, key: &str, place: usize) -> String {
        let table = serde_json::to_value(invert).unwrap_or_default();
        let originals = &table["orig_keys"];
        let found = originals.as_str().or_else(|| originals.get(place).or_else(|| originals.get(0))?.as_str());
        found.unwrap_or(key).to_owned()
    }

    fn function(&self, case: &mut Case, key: &str, function: &Function, kind: Kind) -> Outcome {
        let image = case.sample.take_image(key)?;
        let made = field::apply(function, Field::new(image.data, image.meta.spatial_dims, kind))?;
        match made.kind {
            Kind::Float => drop(case.dtypes.remove(key)),
            Kind::Int => drop(case.dtypes.insert(key.to_owned(), "int64".to_owned())),
            Kind::Bool => drop(case.dtypes.insert(key.to_owned(), "bool".to_owned())),
        }
        let image = Image { data: made.data, ..image };
        case.sample.values.insert(key.to_owned(), hearth_data::Value::Image(image));
        Ok(())
    }
}
