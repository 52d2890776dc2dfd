//! Cases that combine several streams of images: the result of an `IterableDataset` of
//! `map(lambda t: dict(...), zip(*[ShuffleBuffer(...), ...]))`. Orders and draws are the same as NumPy's.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_bundle::{CallValue, Component, Fault, Function, Value, call};
use hearth_data::numpy::RandomState;
use hearth_data::spatial::AffineParameters;
use hearth_data::transforms::RandAffine;
use hearth_data::{Image, Value as Kept};

use super::array_form::{KEY, cases, is_array_form, keyed};
use super::case::Case;
use super::chain::Chain;
use super::data::{DATASETS, given, list};
use super::missing::of_list;
use super::nodes::{components, fault, is, read, table};
use super::writing::Writing;
use hearth_recipe::{Context, Outcome, RecipeError};

/// The argument of a `Compose` on which `set_random_state` was called.
const SEED: &str = "set_random_state";

/// The default number of images in a `ShuffleBuffer`.
const BUFFER: usize = 512;

/// Streams, and the cases that combine them.
pub(crate) struct Streams {
    id: String,
    streams: Vec<Stream>,
    /// For each key of a case, the streams that give its channels.
    made: Vec<(String, Vec<usize>)>,
}

/// Images in a random order.
struct Stream {
    list: Vec<Value>,
    order: Vec<usize>,
    before: Chain,
    affine: Option<(RandAffine, Vec<AffineParameters>)>,
    after: Chain,
    /// A note about a probable mistake.
    note: Option<String>,
}

impl Streams {
    /// Parses an `IterableDataset`; `images` replace the images of the config.
    ///
    /// # Errors
    /// All unsupported parts.
    pub fn new(dataset: &Component, images: &[String], folder: &Path) -> Result<Self, Vec<Fault>> {
        let unfit = || {
            let what = "data does not combine streams: map(lambda t: dict(...), zip(*[ShuffleBuffer(...), ...]))";
            vec![fault(dataset, what)]
        };
        let (function, streams) = match dataset.get("data") {
            Some(Value::Unknown) => return Err(Vec::new()),
            Some(Value::Call(call)) if call.name == "map" => match &call.args[..] {
                [Value::Function(function), Value::Call(zip)] if zip.name == "zip" => (function, &zip.args),
                _ => return Err(unfit()),
            },
            _ => return Err(unfit()),
        };
        if dataset.get("transform").is_some() {
            return Err(vec![fault(dataset, "transform is not supported behind streams")]);
        }
        let mut faults = Vec::new();
        let mut all = Vec::with_capacity(streams.len());
        for stream in streams {
            let Value::Component(stream) = stream else { return Err(unfit()) };
            match Stream::new(stream, images, folder) {
                Ok(stream) => all.push(stream),
                Err(found) => faults.extend(found),
            }
        }
        let made = made(dataset, function, streams.len(), folder).map_err(|fault| faults.push(fault));
        match made {
            // A stream with unknown data has its own fault already.
            Ok(made) if faults.is_empty() && all.len() == streams.len() => {
                Ok(Streams { id: dataset.id.clone(), streams: all, made })
            }
            _ => Err(faults),
        }
    }

    /// The fault of missing images; their paths are relative to `folder`.
    pub fn missing(&self, at: &Component, folder: &Path) -> Option<Fault> {
        let of = |stream: &Stream| {
            let reads = [stream.before.reads(), stream.after.reads()].concat();
            of_list(at, &stream.list, &reads, folder)
        };
        self.streams.iter().find_map(of)
    }

    /// The number of cases.
    pub fn len(&self) -> usize {
        self.streams.iter().map(|stream| stream.order.len()).min().unwrap_or(0)
    }

    /// Notes about omitted parts and probable mistakes.
    pub fn notes(&self) -> Vec<String> {
        let of = |stream: &Stream| [&stream.before.notes[..], &stream.after.notes, stream.note.as_slice()].concat();
        self.streams.iter().flat_map(of).collect()
    }

    /// Reads a case.
    ///
    /// # Errors
    /// A file that cannot be read, a step that fails, or channels of different sizes.
    pub fn case(&self, index: usize, writing: &mut Writing) -> Outcome<Case> {
        let mut parts = Vec::with_capacity(self.streams.len());
        let mut case = Case::new(&Value::None, index, &writing.inputs);
        for (place, stream) in self.streams.iter().enumerate() {
            let part = stream.case(stream.order[index], writing)?;
            case.written.extend(part.written.clone());
            if place == 0 {
                case.sample.case.clone_from(&part.sample.case);
            }
            parts.push(part.sample.image(KEY)?.clone());
        }
        for (key, of) in &self.made {
            let images: Vec<&Image> = of.iter().filter_map(|place| parts.get(*place)).collect();
            let Some(first) = images.first() else { continue };
            if let Some(other) = images.iter().find(|image| image.shape() != first.shape()) {
                let what = format!("images of {:?} and {:?} voxels", first.shape(), other.shape());
                return Err(RecipeError::new(format!("{}: {key} would have {what}", self.id)));
            }
            let data = Tensor::cat(images.iter().map(|image| image.data.clone()).collect(), 0);
            // The metadata is that of the first image.
            let image = Image { data, ..(*first).clone() };
            case.sample.values.insert(key.clone(), Kept::Image(image));
        }
        Ok(case)
    }
}

impl Stream {
    fn new(buffer: &Arc<Component>, images: &[String], folder: &Path) -> Result<Self, Vec<Fault>> {
        let one = |found: Fault| vec![found];
        if buffer.name() != "ShuffleBuffer" {
            return Err(one(fault(buffer, "is a stream that is not supported; ShuffleBuffer is")));
        }
        if buffer.get("transform").is_some() || buffer.get("epochs").is_some_and(|epochs| epochs.as_int() != Some(1)) {
            return Err(one(fault(buffer, "transform and epochs are not supported")));
        }
        let dataset = match buffer.get("data") {
            Some(Value::Component(dataset)) if DATASETS.contains(&dataset.name()) => dataset,
            Some(Value::Unknown) => return Err(Vec::new()),
            _ => return Err(one(fault(buffer, "data is no Dataset"))),
        };
        let transform = dataset.get("transform");
        let arrays = is_array_form(transform);
        let listed = match images.is_empty() {
            true => match dataset.get("data") {
                Some(Value::Unknown) => Vec::new(),
                data => list(dataset, data, folder).map_err(one)?,
            },
            false => given(images, KEY),
        };
        let listed = if arrays { cases(listed) } else { listed };
        if let Some(other) = listed.iter().find(|value| value.as_dict().is_none()) {
            let what = format!("data holds {}; expected files", other.kind());
            return Err(one(fault(dataset, what).about(other)));
        }
        let steps = leaves(keyed(transform.cloned()).as_ref());
        let drawn = steps.iter().position(|step| is(step, &["RandAffine"]));
        let affine = drawn
            .map(|place| affine(&steps[place], seed(transform).unwrap_or(0), listed.len()))
            .transpose()
            .map_err(one)?;
        let unseeded = drawn.is_some() && seed(transform).is_none();
        let note = unseeded.then(|| format!("{}: its random transform has no seed; 0 is taken", dataset.id));
        let chain = |steps: &[Arc<Component>]| {
            Chain::new(Some(&Value::list(steps.iter().map(|step| Value::Component(step.clone())))))
        };
        let (before, after) = match drawn {
            Some(place) => (chain(&steps[..place])?, chain(&steps[place + 1..])?),
            None => (chain(&steps)?, Chain::default()),
        };
        let number = |name: &str, default: usize| match buffer.get(name) {
            None => Ok(default),
            Some(value) => {
                let number = value.as_int().and_then(|number| usize::try_from(number).ok());
                let what = || format!("{name} is {}; expected a whole number", value.kind());
                number.ok_or_else(|| one(fault(buffer, what()).about(value)))
            }
        };
        let (size, seed) = (number("buffer_size", BUFFER)?, number("seed", 0)?);
        // Each pass uses the next seed.
        let order = shuffled(listed.len(), size, (seed as u32).wrapping_add(1));
        Ok(Stream { list: listed, order, before, affine, after, note })
    }

    /// Reads an image by its index in the list.
    fn case(&self, place: usize, writing: &mut Writing) -> Outcome<Case> {
        let mut case = Case::new(&self.list[place], place, &writing.inputs);
        let named = case.sample.case.clone();
        self.before.run(&mut case, writing).while_doing(|| named.clone())?;
        if let Some((affine, drawn)) = &self.affine {
            let moved = case.sample.update(KEY, |image| affine.transform(image, &drawn[place], 0));
            moved.while_doing(|| named.clone())?;
        }
        self.after.run(&mut case, writing).while_doing(|| named)?;
        Ok(case)
    }
}

/// The transforms of a chain, in order.
fn leaves(value: Option<&Value>) -> Vec<Arc<Component>> {
    let steps = components(value).unwrap_or_default();
    let inner = |step: Arc<Component>| match step.name() {
        "Compose" => leaves(step.get("transforms")),
        _ => vec![step],
    };
    steps.into_iter().flat_map(inner).collect()
}

/// The seed given to `set_random_state`.
fn seed(transform: Option<&Value>) -> Option<u32> {
    let compose = transform.and_then(Value::as_component)?;
    compose.get(SEED)?.as_int().map(|seed| seed as u32)
}

/// The indices of a list in the order in which a buffer of this size returns them.
fn shuffled(count: usize, size: usize, seed: u32) -> Vec<usize> {
    let mut random = RandomState::new(seed);
    let (mut buffer, mut order) = (Vec::new(), Vec::with_capacity(count));
    let mut pop = |buffer: &mut Vec<usize>| {
        let place = random.integer(0, buffer.len());
        buffer.swap_remove(place)
    };
    for place in 0..count {
        if buffer.len() >= size && !buffer.is_empty() {
            order.push(pop(&mut buffer));
        }
        buffer.push(place);
    }
    while !buffer.is_empty() {
        order.push(pop(&mut buffer));
    }
    order
}

/// A `RandAffine`, and its random parameters for each image of a list.
fn affine(step: &Component, seed: u32, count: usize) -> Result<(RandAffine, Vec<AffineParameters>), Fault> {
    const RANGES: [&str; 4] = ["rotate_range", "shear_range", "translate_range", "scale_range"];
    const WITHOUT: [&str; 3] = ["device", "lazy", "cache_grid"];
    // The parameters are drawn here.
    let transform: RandAffine = read(step, table(step, "RandAffine", &[&RANGES[..], &WITHOUT].concat(), false)?)?;
    let [rotate, shear, translate, scale] = RANGES.map(|name| spans(step, name));
    let (rotate, shear, translate, scale) = (rotate?, shear?, translate?, scale?);
    let prob = step.get("prob").and_then(Value::as_float).unwrap_or(0.1);
    // The chain draws a seed for each of its random transforms, and this one has two generators
    // with it.
    let seed = RandomState::new(seed).integer(0, 1 << 32) as u32;
    let (mut own, mut grid) = (RandomState::new(seed), RandomState::new(seed));
    let mut draw = |spans: &[(f64, f64)], add: f64| -> Vec<f64> {
        spans.iter().map(|(low, high)| low + (high - low) * grid.random() + add).collect()
    };
    let mut each = || {
        if own.random() >= prob {
            return AffineParameters::default();
        }
        let mut once = || AffineParameters {
            rotate: draw(&rotate, 0.0),
            shear: draw(&shear, 0.0),
            translate: draw(&translate, 0.0),
            scale: draw(&scale, 1.0),
            ..AffineParameters::default()
        };
        // MONAI draws to decide, and draws again to make the grid.
        once();
        once()
    };
    Ok((transform, (0..count).map(|_| each()).collect()))
}

/// The ends of a range for each parameter: a number is used with both signs.
fn spans(step: &Component, name: &str) -> Result<Vec<(f64, f64)>, Fault> {
    let wrong = || fault(step, format!("{name} is neither a number nor a list of numbers and pairs"));
    let one = |value: &Value| match value.as_slice() {
        Some([low, high]) => Some((low.as_float()?, high.as_float()?)),
        Some(_) => None,
        None => value.as_float().map(|end| (-end, end)),
    };
    let Some(given) = step.get(name) else { return Ok(Vec::new()) };
    match given.as_slice() {
        Some(list) => list.iter().filter(|value| !matches!(value, Value::None)).map(one).collect::<Option<_>>(),
        None => one(given).map(|span| vec![span]),
    }
    .ok_or_else(wrong)
}

/// The streams that make up each key of a case.
fn made(
    dataset: &Component,
    function: &Function,
    count: usize,
    folder: &Path,
) -> Result<Vec<(String, Vec<usize>)>, Fault> {
    // Each stream is represented by a name, and evaluating the lambda shows how they are combined.
    let names: Vec<Value> = (0..count).map(|place| Value::Name(format!("stream.{place}").into())).collect();
    let got = call(function, &[Value::Tuple(names.into())], folder)?;
    let place = |value: &Value| match value {
        Value::Name(name) => name.strip_prefix("stream.")?.parse::<usize>().ok(),
        _ => None,
    };
    let parts = |value: &Value| match value {
        Value::Call(call) => joined(call)?.iter().map(place).collect(),
        value => place(value).map(|place| vec![place]),
    };
    let keys: Option<Vec<(String, Vec<usize>)>> = got.as_dict().and_then(|entries| {
        entries.iter().map(|(key, value)| Some((key.as_str()?.to_owned(), parts(value)?))).collect()
    });
    let keys = keys.filter(|keys| keys.iter().any(|(key, _)| key == KEY));
    keys.ok_or_else(|| {
        let what =
            "the lambda makes no dictionary with an `image` of streams: dict(image=monai.transforms.concatenate(t))";
        fault(dataset, what)
    })
}

/// The values that `concatenate` joins along the channels.
fn joined(call: &CallValue) -> Option<&[Value]> {
    let along = call.args.get(1).or_else(|| call.named.iter().find(|(name, _)| name == "axis").map(|(_, axis)| axis));
    let channels = along.is_none_or(|axis| axis.as_int() == Some(0));
    (call.name == "monai.transforms.concatenate" && channels).then(|| call.args.first()?.as_slice()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[i for i in ShuffleBuffer(range(10), seed=2)]`, and the same with `buffer_size=4`, in MONAI 1.6.1.
    #[test]
    fn orders_are_those_of_monai() {
        ORDERS.iter().for_each(|(size, wanted)| assert_eq!(shuffled(10, *size, 3), *wanted, "{size}"));
    }

    const ORDERS: [(usize, [usize; 10]); 2] =
        [(512, [8, 3, 0, 7, 6, 9, 2, 1, 4, 5]), (4, [2, 0, 1, 6, 4, 7, 8, 5, 3, 9])];
}
