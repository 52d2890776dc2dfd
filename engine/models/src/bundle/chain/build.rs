//! Components become steps: which options they have here, and what is not supported.
use hearth_bundle::{Component, Fault, FaultKind, Function, Value, dtype_name};
use hearth_data::Transform;
use hearth_data::transforms::Invert;
use hearth_nn::post::{Activations, AsDiscrete, Rounding};
use hearth_registry::{Node, Registry};

use crate::bundle::array_form::{OF_FILE, axes};
use crate::bundle::chain::{Activated, Step, Work};
use crate::bundle::classes::Classes;
use crate::bundle::comparison::comparison;
use crate::bundle::field::{self, Field, Kind};
use crate::bundle::nodes::{base_names, each, fault, is, keys, node, read, table};
use crate::bundle::save::Save;

/// Transforms that need no work: an image is already a tensor with metadata.
const NOTHING: [&str; 8] =
    ["ToTensor", "ToNumpy", "ToDevice", "FromMetaTensor", "ToMetaTensor", "Identity", "SimulateDelay", "ToCupy"];

/// Options without effect here.
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

/// Supported transforms of the bundles' own scripts.
const SCRIPTS: [&str; 6] = [
    "ConcatImages",
    "MergeClasses",
    "AddClickSignals",
    "AddLabelAsGuidance",
    "OrientationGuidanceMultipleLabelDeepEdit",
    "NpySaver",
];

/// The steps of a component; a requested numeric type adds one more step.
pub(crate) fn steps(component: &Component, random: bool, notes: &mut Vec<String>) -> Result<Vec<Step>, Fault> {
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
        // Separate types per key only matter if they differ; here all values are f32 until they are
        // written.
        let given = match given.as_slice() {
            Some([first, ..]) => first,
            _ => given,
        };
        let wrong = || fault(component, format!("dtype is {}", given.kind())).about(given);
        let dtype = dtype_name(given).ok_or_else(wrong)?;
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
            Some(other) => {
                let what = format!("post_func is {}; expected a lambda", other.kind());
                return Err(fault(component, what).about(other));
            }
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
    if is(component, &["NpySaver"]) {
        keys(component)?;
        return Ok(vec![step("NpySaver", Work::Save(Save::arrays(component)?))?]);
    }
    if is(component, &["Transpose"]) && component.has(OF_FILE) {
        return Ok(vec![step("Transpose", Work::Axes(axes(component)?))?]);
    }
    if is(component, &["SaveClassification"]) {
        keys(component)?;
        return Ok(vec![step("SaveClassification", Work::Classes(Classes::new(component)?))?]);
    }
    if is(component, &["SqueezeDim"]) && component.get("dim").and_then(Value::as_int).unwrap_or(0) == 0 {
        // Only an axis of patches precedes the channels, and cases have no such axis.
        return Ok(Vec::new());
    }
    if is(component, &["LoadImage"]) {
        return load(component, step, cast()?, notes);
    }
    registered(component, random, step, cast()?)
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

/// Tries a lambda on a small tensor, so that unsupported syntax is reported before a case is read.
fn check(function: &Function) -> Result<(), Fault> {
    let data = burn::tensor::Tensor::zeros([8, 8, 8, 8], &hearth_data::host_device());
    match field::apply(function, Field::new(data, 3, Kind::Float)) {
        // The tensor of a case has other sizes.
        Err(fault) if fault.kind != FaultKind::Tensor => Err(fault),
        _ => Ok(()),
    }
}

fn activations(component: &Component, count: usize) -> Result<Vec<Activated>, Fault> {
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
        Some(other) => return Err(fault(component, format!("reader is {}", other.kind())).about(other)),
        None => None,
    };
    if let Some(reader) = reader {
        // These choose the format by the content of the file.
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
        Some(other) => {
            let what = "the converter is not known; lambda x: x.convert('RGB') is";
            return Err(fault(component, what).about(other));
        }
    }
    if component.get("as_closest_canonical").and_then(Value::truth) == Some(true) {
        notes.push(format!("{}: as_closest_canonical is Orientation RAS here", component.id));
        let mut table = Node::named("Orientation").with("axcodes", "RAS");
        table.insert("keys", node(component.get("keys").unwrap_or(&Value::None)).unwrap_or(Node::empty()));
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
    Registry::<dyn Transform>::new().build(table).map_err(|error| fault(component, error.to_string()))
}

fn registered(
    component: &Component,
    random: bool,
    step: impl Fn(&str, Work) -> Result<Step, Fault>,
    cast: Option<Step>,
) -> Result<Vec<Step>, Fault> {
    let registry = Registry::<dyn Transform>::new();
    let found = base_names(component.name())
        .into_iter()
        .find_map(|base| registry.entries().iter().find(|entry| entry.name == base));
    if found.is_none() && is(component, &["ConcatImages"]) {
        let mut table = table(component, "ConcatItems", &["keys_merge", "keys_out"], false)?;
        for (theirs, ours) in [("keys_merge", "keys"), ("keys_out", "output_key")] {
            let value = component.get(theirs).and_then(node);
            table.insert(ours, value.ok_or_else(|| fault(component, format!("has no `{theirs}`")))?);
        }
        return Ok(vec![step("ConcatItems", Work::Registered(build(component, &table)?))?]);
    }
    let Some(entry) = found else {
        return Err(fault(component, "is a transform that is not supported"));
    };
    let selects =
        match component.get("select_fn") {
            Some(Value::Function(function)) => Some(comparison(function).ok_or_else(|| {
                fault(component, "select_fn is no comparison with a number, such as lambda x: x > 0.5")
            })?),
            _ => None,
        };
    let mut without = [&IGNORED[..], &["dtype"]].concat();
    without.extend(selects.is_some().then_some("select_fn"));
    let mut table = table(component, entry.name, &without, false)?;
    if let Some(comparison) = selects {
        table.insert("select_fn", Node::from(comparison.as_str()));
    }
    // Labels with their numbers: only the order of the labels that have clicks matters.
    if let Some(labels) = component.get("label_names").and_then(Value::as_dict) {
        let names = Value::list(labels.iter().map(|(name, _)| name.clone()));
        table.insert("label_names", node(&names).unwrap_or_else(Node::empty));
    }
    let built = build(component, &table)?;
    if built.is_random() && !random {
        return Err(fault(component, "is random, which inference cannot be"));
    }
    let mut steps = vec![step(entry.name, Work::Registered(built))?];
    steps.extend(cast.filter(|cast| matches!(&cast.work, Work::Cast(dtype) if dtype.contains("int"))));
    Ok(steps)
}
