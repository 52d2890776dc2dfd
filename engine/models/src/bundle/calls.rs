//! Checks of calls that compute or write, before any of them runs: unsupported calls, mismatched
//! arguments, missing files.

use std::sync::Arc;

use hearth_bundle::{CallValue, Component, Fault, FaultKind, Value};

use super::Context;
use super::first::First;
use super::nodes;
use super::sampler::{NETWORKS, Sampler, network};
use super::save::Save;

/// The largest number of values that an expression draws for a tensor.
const MOST: usize = 1 << 30;

/// The outputs of an autoencoder: reconstruction, mean, deviation.
const OUTPUTS: usize = 3;

/// The type of a computed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    Array,
    /// The outputs of a network, of which an index selects one.
    Outputs,
    /// The images of a loader's batch, of which a key selects one.
    Batch,
    /// Unknown; its own fault is reported.
    Unknown,
}

/// All faults of a call: unsupported parts and missing files.
pub(crate) fn check(call: &CallValue, context: &Context) -> Vec<Fault> {
    let mut checks = Checks { context, faults: Vec::new() };
    checks.call(call);
    let mut faults = checks.faults;
    // Faults without an item are attributed to the first component of the call.
    let place = call.args.iter().find_map(place_of);
    for fault in &mut faults {
        if let (true, Some(component)) = (fault.file.is_empty(), &place) {
            let what = std::mem::take(&mut fault.what);
            *fault = Fault { kind: fault.kind, ..nodes::fault(component, what) };
        }
    }
    faults
}

/// The first component in a value.
fn place_of(value: &Value) -> Option<Arc<Component>> {
    match value {
        Value::Component(component) => Some(component.clone()),
        Value::Call(call) => call.args.iter().find_map(place_of),
        _ => None,
    }
}

struct Checks<'a> {
    context: &'a Context,
    faults: Vec<Fault>,
}

impl Checks<'_> {
    fn note(&mut self, found: Result<(), Fault>) {
        self.faults.extend(found.err());
    }

    /// Checks a call, and returns the type of its value.
    fn call(&mut self, call: &CallValue) -> Gives {
        let first = call.args.first().unwrap_or(&Value::None);
        match call.name.as_str() {
            "LDMSampler.run" | "LDMSampler.sampling_fn" => self.sampling(call),
            "SaveImage.__call__" => {
                self.array(call.get(1, "img").unwrap_or(&Value::None));
                if let Value::Component(saver) = first {
                    self.note(Save::new(saver, &mut Vec::new()).map(drop));
                }
                if call.args.len() != 2 {
                    self.faults.push(Fault::new(FaultKind::Outside, "a SaveImage is called with other than one image"));
                }
            }
            "PIL.Image.save" => {
                self.array(first);
                self.note(picture_path(call).map(drop));
            }
            "AutoencoderKL.__call__" => {
                self.array(call.get(1, "x").unwrap_or(&Value::None));
                self.note(network(call, 0, "self", NETWORKS[0]).map(drop));
                return Gives::Outputs;
            }
            "monai.utils.first" => {
                match first {
                    Value::Component(loader) => {
                        self.faults.extend(First::new(loader, self.context).err().unwrap_or_default());
                    }
                    other => {
                        let fault =
                            Fault::new(FaultKind::Component, "monai.utils.first of a value that is not a loader");
                        self.faults.push(fault.about(other));
                    }
                }
                return Gives::Batch;
            }
            "torch.rand" | "torch.randn" | "torch.ones" | "torch.zeros" => self.note(sizes(call).map(drop)),
            "torch.load" | "numpy.load" => self.file(first.as_str().unwrap_or_default()),
            "[]" => return self.index(first, call.args.get(1).unwrap_or(&Value::None)),
            "transpose" => {
                self.array(first);
                self.note(transposed(call));
            }
            "PIL.Image.fromarray" | "scripts.utils.visualize_2d_image" => self.array(first),
            other => self.faults.push(Fault::new(FaultKind::Outside, format!("{other}(...) is not computed"))),
        }
        Gives::Array
    }

    fn sampling(&mut self, call: &CallValue) {
        let sampler = match Sampler::new(call) {
            Err(found) => return self.faults.extend(found),
            Ok(sampler) => sampler,
        };
        self.array(sampler.noise);
        if let Value::Call(noise) = sampler.noise
            && let Ok(shape) = sizes(noise)
        {
            self.note(sampler.fits(&shape));
        }
        if !self.context.images.is_empty() {
            let what = "makes images of noise: leave out those that are given (-i)";
            self.faults.push(Fault::new(FaultKind::Value, what));
        }
        if call.name == "LDMSampler.run" {
            let found = output(call).and_then(|output| match output {
                Output::Saver(saver) => Save::new(saver, &mut Vec::new()).map(drop),
                Output::Picture(_) => Ok(()),
            });
            self.note(found);
        }
    }

    /// Checks `value[index]`.
    fn index(&mut self, value: &Value, index: &Value) -> Gives {
        let given = self.value(value);
        let wrong = match given {
            Gives::Outputs => {
                let place = index.as_int().and_then(|at| usize::try_from(at).ok());
                place.is_none_or(|place| place >= OUTPUTS).then(|| format!("a network gives {OUTPUTS} outputs"))
            }
            Gives::Batch => index.as_str().is_none().then(|| format!("the batch has no image {}", index.kind())),
            Gives::Array => {
                let parts = match index {
                    Value::Tuple(parts) => parts,
                    other => std::slice::from_ref(other),
                };
                let is_place =
                    |part: &&Value| matches!(part, Value::Slice(..) | Value::Name(_)) || part.as_int().is_some();
                let wrong = parts.iter().find(|part| !is_place(part));
                wrong.map(|part| format!("an array is indexed by {}", part.kind()))
            }
            Gives::Unknown => None,
        };
        self.faults.extend(wrong.map(|what| Fault::new(FaultKind::Outside, what).about(index)));
        if given == Gives::Unknown { Gives::Unknown } else { Gives::Array }
    }

    /// Checks a value that must be one tensor.
    fn array(&mut self, value: &Value) {
        let what = match self.value(value) {
            Gives::Array | Gives::Unknown => return,
            Gives::Outputs => "all outputs of a network stand where one tensor is needed",
            Gives::Batch => "a batch stands where one of its images is needed",
        };
        self.faults.push(Fault::new(FaultKind::Outside, what));
    }

    fn value(&mut self, value: &Value) -> Gives {
        match value {
            Value::Call(call) => return self.call(call),
            Value::Unknown => return Gives::Unknown,
            other => match file_of(other) {
                Some(path) => self.file(path),
                None => {
                    let what = format!("{} stands where a tensor is computed", other.kind());
                    self.faults.push(Fault::new(FaultKind::Outside, what).about(other));
                }
            },
        }
        Gives::Array
    }

    fn file(&mut self, path: &str) {
        if !self.context.folder.join(path).is_file() {
            self.faults.push(Fault::new(FaultKind::File, format!("the file {path} is missing")));
        }
    }
}

/// The file of an array, if the value is a text: a user gives noise as `--noise noise.npy`.
pub(crate) fn file_of(value: &Value) -> Option<&str> {
    value.as_str()
}

/// The output of `LDMSampler.run`.
pub(crate) enum Output<'a> {
    Saver(&'a Arc<Component>),
    Picture(&'a str),
}

pub(crate) fn output(call: &CallValue) -> Result<Output<'_>, Fault> {
    match call.get(5, "saver").or_else(|| call.get(5, "output_file")) {
        Some(Value::Component(saver)) if saver.name() == "SaveImage" => Ok(Output::Saver(saver)),
        Some(Value::Text(path) | Value::Path(path)) => png(path).map(Output::Picture),
        Some(Value::Component(other)) => Err(nodes::fault(other, "is no SaveImage, which the sampler writes by")),
        other => {
            let kind = other.map_or("missing".to_owned(), Value::kind);
            let what = format!("what the sampler writes by is {kind}; expected a SaveImage or a file");
            Err(Fault::new(FaultKind::Component, what).about(other.unwrap_or(&Value::None)))
        }
    }
}

/// The path of a picture, which must be PNG.
fn png(path: &str) -> Result<&str, Fault> {
    match path.to_lowercase().ends_with(".png") {
        true => Ok(path),
        false => Err(Fault::new(FaultKind::Value, format!("{path}: only pictures in PNG are written"))),
    }
}

pub(crate) fn picture_path(call: &CallValue) -> Result<&str, Fault> {
    let given = call.get(1, "fp").unwrap_or(&Value::None);
    let missing = || Fault::new(FaultKind::Value, "save of a picture without a path").about(given);
    png(given.as_str().ok_or_else(missing)?)
}

/// The sizes of `torch.randn(1, 2, 3)` or `torch.randn([1, 2, 3])`.
pub(crate) fn sizes(call: &CallValue) -> Result<Vec<usize>, Fault> {
    let given = call.get(0, "size").and_then(Value::as_slice).unwrap_or(&call.args);
    let sizes: Option<Vec<usize>> = given.iter().map(|size| usize::try_from(size.as_int()?).ok()).collect();
    let count = |sizes: &Vec<usize>| sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
    let fits = |sizes: &Vec<usize>| !sizes.is_empty() && count(sizes).is_some_and(|count| (1..=MOST).contains(&count));
    sizes.filter(fits).ok_or_else(|| Fault::new(FaultKind::Value, format!("{} with invalid sizes", call.name)))
}

/// Checks for `array.transpose(1, 0)`; no other order is supported.
pub(crate) fn transposed(call: &CallValue) -> Result<(), Fault> {
    let axes: Vec<Option<i64>> = call.args.iter().skip(1).map(Value::as_int).collect();
    match axes[..] {
        [] | [Some(1), Some(0)] => Ok(()),
        _ => Err(Fault::new(FaultKind::Outside, "only transpose(1, 0) is computed")),
    }
}
