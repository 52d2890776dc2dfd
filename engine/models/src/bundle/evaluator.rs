//! `SupervisedEvaluator`: runs batches through a network, then each item through its post-processing.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor};
use hearth_bundle::{Component, Fault, Value};
use hearth_data::Image;
use hearth_nn::inferers::{Inferer, LandmarkInferer, SimpleInferer};
use hearth_nn::networks::Network;
use hearth_registry::Registry;

use super::case::{Case, prediction};
use super::chain::Chain;
use super::checks::device_of;
use super::classes::Classes;
use super::data::{Cases, Loading};
use super::facts::fingerprint_of;
use super::handlers::Handlers;
use super::metrics::Measure;
use super::networks::{Networks, check};
use super::nodes::{fault, is, read, table};
use super::one_by_one::OneByOne;
use super::slides::SlideOptions;
use super::writing::Writing;
use super::{Seen, Told, missing};
use crate::finite::non_finite_of;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::{Fingerprint, ImageFacts};

/// Metrics by name: a single value, or one for each class.
type Metrics = Vec<(String, Vec<f64>)>;

/// An evaluator, checked.
pub(crate) struct Evaluator {
    id: String,
    loading: Loading,
    network: Arc<Component>,
    inferer: Box<dyn Inferer>,
    before: Chain,
    after: Chain,
    measures: Vec<Measure>,
    handlers: Handlers,
    slides: Option<SlideOptions>,
    device: Device,
    /// The key into which the image of a case is read.
    key: String,
    /// What the bundle says about the images of its training.
    known: Fingerprint,
    /// Notes about omitted parts and probable mistakes.
    pub notes: Vec<String>,
}

/// The inferer of points, slice by slice, and the inferers that split images themselves.
const POINTS: &str = "LandmarkInferer";
const CUTTING: [&str; 2] = ["SliceInferer", "PatchInferer"];

/// Options of an evaluator without effect here.
const KNOWN: [&str; 24] = [
    "device",
    "val_data_loader",
    "network",
    "inferer",
    "postprocessing",
    "val_handlers",
    "amp",
    "key_val_metric",
    "additional_metrics",
    "decollate",
    "prepare_batch",
    "epoch_length",
    "non_blocking",
    "mode",
    "metric_cmp_fn",
    "iteration_update",
    "event_names",
    "event_to_attr",
    "to_kwargs",
    "amp_kwargs",
    "compile",
    "compile_kwargs",
    "use_interpolate",
    "name",
];

impl Evaluator {
    /// Builds an evaluator from a component and the components to which it refers.
    ///
    /// # Errors
    /// All unsupported parts.
    pub fn new(component: &Arc<Component>, options: &super::Context) -> Result<Self, Vec<Fault>> {
        if component.name() != "SupervisedEvaluator" {
            let what = format!("{} is not supported; use SupervisedEvaluator", component.name());
            return Err(vec![fault(component, what)]);
        }
        let mut faults = unsupported(component);
        let network = network(component).map_err(|fault| faults.push(fault)).ok();
        let inferer = inferer(component).map_err(|fault| faults.push(fault)).ok();
        let loading = Loading::new(component, options);
        let transform = match &loading {
            Ok(loading) => loading.transform.clone(),
            Err(_) => transform_of(component),
        };
        let mut chain = |value: Option<&Value>| match Chain::new(value) {
            Ok(chain) => chain,
            Err(found) => {
                faults.extend(found);
                Chain::default()
            }
        };
        let (before, after) = (chain(transform.as_ref()), chain(component.get("postprocessing")));
        let measures = Measure::all(component).map_err(|fault| faults.push(fault)).unwrap_or_default();
        let handlers = Handlers::new(component, &options.folder).map_err(|found| faults.extend(found)).ok();
        let loading = loading.map_err(|fault| faults.push(fault)).ok();
        let mut slides = None;
        if let Some(loading) = &loading {
            let maps = handlers.as_ref().is_none_or(|handlers| handlers.maps.is_some());
            if !options.case_by_case {
                faults.extend(unfit(component, loading, &before, maps, &options.folder));
            }
            slides = slides_of(loading).map_err(|fault| faults.push(fault)).ok().flatten();
        }
        let device = device_of(&Value::Component(component.clone())).map_err(|fault| faults.push(fault)).ok();
        let (Some(network), Some(inferer), Some(loading), Some(handlers), Some(device)) =
            (network, inferer, loading, handlers, device)
        else {
            return Err(faults);
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut notes: Vec<String> = before.notes.iter().chain(&after.notes).cloned().collect();
        notes.extend(after.warnings());
        if let Cases::Streams(streams) = &loading.cases {
            notes.extend(streams.notes());
        }
        let key = before.reads().first().map_or("image", |read| read.key).to_owned();
        let known = fingerprint_of(&before, &key, options.metadata.as_ref());
        Ok(Evaluator {
            id: component.id.clone(),
            key,
            known,
            loading,
            network,
            inferer,
            before,
            after,
            measures,
            handlers,
            slides,
            device,
            notes,
        })
    }

    /// The weights files that its handlers load. Paths are relative to `folder`.
    pub fn weights(&self, folder: &Path) -> Vec<PathBuf> {
        self.handlers.loads.iter().map(|loads| folder.join(&loads.path)).filter(|path| path.is_file()).collect()
    }

    /// Converts to an evaluator that predicts cases one by one, with the network's weights loaded.
    /// `None` for slides, streams and tables, and for a config that does not write exactly one
    /// image per case.
    ///
    /// # Errors
    /// Weights that are missing or do not fit.
    pub fn one_by_one(self, mut networks: Networks, folder: &Path) -> Outcome<Option<OneByOne>> {
        let saves = self.after.saves();
        let writes_one = saves.len() == 1 && saves.iter().all(|save| save.is_of_images());
        let Handlers { loads, tables, maps } = self.handlers;
        let listed = matches!(self.loading.cases, Cases::List(_));
        if !writes_one || !listed || maps.is_some() || !tables.is_empty() || self.after.has_tables() {
            return Ok(None);
        }
        for loads in &loads {
            networks.load(loads, folder, &self.device)?;
        }
        networks.get(&self.network, &self.device)?;
        networks.check_loaded(&self.network, &mut |_| {})?;
        Ok(Some(OneByOne {
            id: self.id,
            network: self.network,
            networks,
            inferer: self.inferer,
            before: self.before,
            after: self.after,
            device: self.device,
            folder: folder.to_owned(),
            key: self.key,
            known: self.known,
        }))
    }

    /// Runs over all cases.
    ///
    /// # Errors
    /// The error of the first case that fails, with its file.
    pub fn run(
        self,
        networks: &mut Networks,
        writing: &mut Writing,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Outcome<(usize, Metrics)> {
        let Evaluator { id, loading, network, inferer, before, after, measures, slides, device, key, known, .. } = self;
        let Handlers { loads, tables, maps } = self.handlers;
        for loads in &loads {
            let path = networks.load(loads, &writing.inputs, &device)?;
            tell(Told::Weights(&path));
        }
        networks.get(&network, &device)?;
        networks.check_loaded(&network, tell)?;
        let pass = Pass { network: networks.get(&network, &device)?, inferer: &*inferer, device: &device, id: &id };
        let Loading { cases, batch, .. } = loading;
        let mut ending = Ending { after: &after, tables: &tables, measures, total: 0, key: &key, known: &known };
        let count = match cases {
            Cases::List(list) => {
                ending.total = list.len();
                for (start, some) in list.chunks(batch).enumerate() {
                    ending.batch(some, start * batch, &before, &pass, writing, tell)?;
                }
                list.len()
            }
            Cases::Drawn(drawn) => {
                ending.total = drawn.len();
                for (start, some) in drawn.chunks(batch).enumerate() {
                    for (place, (input, output)) in some.iter().zip(pass.run(some.to_vec())?).enumerate() {
                        let mut case = Case::new(&Value::None, start * batch + place, &writing.inputs);
                        let flat = output.dims()[3] == 1;
                        let item = prediction(output.clone(), None).with_spatial_dims(if flat { 2 } else { 3 });
                        case.sample.values.insert("pred".to_owned(), hearth_data::Value::Image(item));
                        ending.finish(&mut case, input, &output, writing, tell)?;
                    }
                }
                drawn.len()
            }
            Cases::Streams(streams) => {
                ending.total = streams.len();
                let mut some = Vec::with_capacity(batch);
                for index in 0..streams.len() {
                    some.push(streams.case(index, writing)?);
                    if some.len() == batch || index + 1 == streams.len() {
                        ending.cases(std::mem::take(&mut some), &pass, writing, tell)?;
                    }
                }
                streams.len()
            }
            Cases::Unfit(faults) => return Err(super::run::all(&faults)),
            Cases::Slides(_, list) => {
                let (Some(options), Some(maps)) = (&slides, &maps) else {
                    return Err(RecipeError::new(format!("{id}: slides without a ProbMapProducer have no output")));
                };
                maps.run(options, &list, (&before, &after), batch, &pass, writing, tell)?
            }
        };
        after.finish(writing)?;
        tables.iter().try_for_each(|table| table.finish(writing))?;
        let measured = ending.measures.iter().map(|measure| Ok((measure.name.clone(), measure.value()?)));
        Ok((count, measured.collect::<Outcome<_>>()?))
    }
}

/// The work on each case after the network.
pub(crate) struct Ending<'a> {
    pub(crate) after: &'a Chain,
    pub(crate) tables: &'a [Classes],
    pub(crate) measures: Vec<Measure>,
    pub(crate) total: usize,
    /// The key into which the image of a case is read.
    pub(crate) key: &'a str,
    /// What the bundle says about the images of its training.
    pub(crate) known: &'a Fingerprint,
}

impl Ending<'_> {
    /// A batch of cases of a list, starting from their files.
    fn batch<N: Network>(
        &mut self,
        batch: &[Value],
        first: usize,
        before: &Chain,
        pass: &Pass<'_, N>,
        writing: &mut Writing,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Outcome {
        let mut cases = Vec::with_capacity(batch.len());
        for (place, given) in batch.iter().enumerate() {
            let mut case = Case::new(given, first + place, &writing.inputs);
            let named = case.sample.case.clone();
            let mut remarks = Vec::new();
            let mut loaded = |case: &Case| {
                let facts = case.sample.image(self.key).ok().map(ImageFacts::of);
                remarks = facts.map(|facts| self.known.unlike(&facts)).unwrap_or_default();
            };
            before.run_shown(&mut case, writing, &mut loaded).while_doing(|| named.clone())?;
            for remark in remarks {
                tell(Told::Note(format!("warning: {named}: unlike the training data: {remark}")));
            }
            // The config decides what is written, as in MONAI.
            if let Some(what) = case.sample.image("image").ok().map(non_finite_of).transpose()?.flatten() {
                let meaning = "its result has no meaning around them";
                tell(Told::Note(format!("warning: {named}: the network's input: {what}; {meaning}")));
            }
            cases.push(case);
        }
        self.cases(cases, pass, writing, tell)
    }

    /// A batch of cases after their transforms.
    pub(crate) fn cases<N: Network>(
        &mut self,
        cases: Vec<Case>,
        pass: &Pass<'_, N>,
        writing: &mut Writing,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Outcome {
        let first = cases.first().map(|case| case.sample.case.clone()).unwrap_or_default();
        for PassedCase { mut case, input, output } in pass.cases(cases).while_doing(|| first)? {
            self.finish(&mut case, &input, &output, writing, tell)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        case: &mut Case,
        image: &Tensor<4>,
        output: &Tensor<4>,
        writing: &mut Writing,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Outcome {
        let named = case.sample.case.clone();
        self.after.run(case, writing).while_doing(|| named.clone())?;
        for table in self.tables {
            table.add(case, "pred", writing).while_doing(|| named.clone())?;
        }
        for measure in &mut self.measures {
            let name = measure.name.clone();
            measure.add(case).while_doing(|| format!("{named}: metric {name}"))?;
        }
        let post = case.sample.image("pred").ok().map(|image| image.data.clone());
        tell(Told::Case(Seen { index: case.index, total: self.total, image, output, post }));
        Ok(())
    }
}

/// A network, and how it is applied to its inputs.
pub(crate) struct Pass<'a, N: Network> {
    pub(crate) network: &'a N,
    pub(crate) inferer: &'a dyn Inferer,
    pub(crate) device: &'a Device,
    pub(crate) id: &'a str,
}

/// A case after the network: its `pred` is the output.
pub(crate) struct PassedCase {
    pub(crate) case: Case,
    pub(crate) input: Tensor<4>,
    pub(crate) output: Tensor<4>,
}

impl<N: Network> Pass<'_, N> {
    /// Runs a batch of cases after their transforms.
    ///
    /// # Errors
    /// A case without an image, images that do not fit the network, or a device that fails.
    pub fn cases(&self, cases: Vec<Case>) -> Outcome<Vec<PassedCase>> {
        let images = cases.iter().map(|case| Ok(case.sample.image("image")?.clone()));
        let images: Outcome<Vec<Image>> = images.collect();
        let images = images.while_doing(|| format!("{}: the preprocessing gives no `image`", self.id))?;
        let outputs = self.run(images.iter().map(|image| image.data.clone()).collect())?;
        let passed = |((mut case, image), output): ((Case, Image), Tensor<4>)| {
            let mut item = prediction(output.clone(), Some(&image));
            if self.inferer.name() == POINTS {
                // Slices, coordinates, points.
                item = item.with_spatial_dims(2);
            }
            case.sample.values.insert("pred".to_owned(), hearth_data::Value::Image(item));
            PassedCase { case, input: image.data, output }
        };
        Ok(cases.into_iter().zip(images).zip(outputs).map(passed).collect())
    }

    /// The output for each input, on the host.
    pub fn run(&self, inputs: Vec<Tensor<4>>) -> Outcome<Vec<Tensor<4>>> {
        let shape = inputs.first().map(Tensor::dims).unwrap_or_default();
        if let Some(other) = inputs.iter().find(|input| input.dims() != shape) {
            let (other, what) = (other.dims(), "a batch needs equal shapes: set the loader's batch_size to 1");
            return Err(RecipeError::new(format!(
                "{}: images of shapes {shape:?} and {other:?} [channel, x, y, z]; {what}",
                self.id
            )));
        }
        let batch: Tensor<5> = Tensor::stack(inputs, 0);
        let batch = batch.cast(DType::F32).to_device(self.device);
        let [count, channels, sizes @ ..] = batch.dims();
        if self.inferer.name() == POINTS {
            let cut = self.inferer.window().map(|(_, window)| window).unwrap_or_default();
            let kept: Vec<usize> = (0..3).filter(|axis| cut.get(*axis) != Some(&1)).map(|axis| sizes[axis]).collect();
            let slice = [0, 1].map(|axis| kept.get(axis).copied().unwrap_or(1));
            self.network.check_input([count, channels, slice[0], slice[1], 1])?;
        } else if self.inferer.window().is_none() && !CUTTING.contains(&self.inferer.name()) {
            self.network.check_input(batch.dims())?;
        } else {
            let [given, wanted] = [batch.dims()[1], self.network.channels()[0]];
            if given != wanted {
                let what = format!("images have {given} channels, and the network takes {wanted}");
                return Err(RecipeError::new(format!("{}: {what}", self.id)));
            }
        }
        let output = self.inferer.infer(batch, &|windows| self.network.forward(windows))?;
        let output = output.cast(DType::F32).to_device(&hearth_data::host_device());
        let count = output.dims()[0];
        Ok((0..count).map(|item| output.clone().narrow(0, item, 1).squeeze_dim(0)).collect())
    }
}

/// Unsupported options of an evaluator.
fn unsupported(evaluator: &Component) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some((unknown, _)) = evaluator.args.iter().find(|(key, _)| !KNOWN.contains(&key.as_str())) {
        faults.push(fault(evaluator, format!("the option {unknown} is not known")));
    }
    for unused in ["iteration_update", "mode"] {
        if let Some(value) = evaluator.get(unused)
            && !matches!(value, Value::Text(text) if &**text == "eval")
        {
            faults.push(fault(evaluator, format!("{unused} is not supported")).about(value));
        }
    }
    if let Some(given) = evaluator.get("prepare_batch")
        && !is_whole_batch(given)
    {
        let what = "prepare_batch is not supported, but for one that gives the whole batch as the image";
        faults.push(fault(evaluator, what).about(given));
    }
    faults
}

/// The network of an evaluator.
fn network(evaluator: &Component) -> Result<Arc<Component>, Fault> {
    match evaluator.get("network") {
        Some(Value::Component(network)) => check(network).map(|()| network.clone()),
        other => {
            let kind = other.map_or("missing".to_owned(), Value::kind);
            let wrong = fault(evaluator, format!("network is {kind}; expected a network"));
            Err(wrong.about(other.unwrap_or(&Value::None)))
        }
    }
}

/// What the cases of an evaluator lack: all cases, files, or a handler for the patches of slides
/// (`maps`).
fn unfit(evaluator: &Component, loading: &Loading, before: &Chain, maps: bool, folder: &Path) -> Vec<Fault> {
    let dataset = &*loading.dataset;
    let found = match &loading.cases {
        Cases::Unfit(faults) => return faults.clone(),
        Cases::Drawn(_) => None,
        Cases::List(list) if list.is_empty() => Some(missing::empty(evaluator)),
        Cases::List(list) => missing::of_list(dataset, list, &before.reads(), folder),
        Cases::Streams(streams) if streams.len() == 0 => Some(missing::empty(evaluator)),
        Cases::Streams(streams) => streams.missing(dataset, folder),
        Cases::Slides(..) if !maps => Some(fault(evaluator, "slides without a ProbMapProducer have no output")),
        Cases::Slides(_, list) => {
            missing::of_list(dataset, list, &[missing::Read { key: "image", may_lack: false }], folder)
        }
    };
    found.into_iter().collect()
}

/// How the slides of a data set are split into patches, if it has slides.
fn slides_of(loading: &Loading) -> Result<Option<SlideOptions>, Fault> {
    match &loading.cases {
        Cases::Slides(dataset, _) => SlideOptions::new(dataset).map(Some),
        _ => Ok(None),
    }
}

fn transform_of(evaluator: &Component) -> Option<Value> {
    let loader = evaluator.get("val_data_loader")?.as_component()?;
    loader.get("dataset")?.as_component()?.get("transform").cloned()
}

/// Whether a `prepare_batch` passes the whole batch, such as
/// `lambda batchdata, *_, **__: (batchdata.to(@device), None, (), {})`.
fn is_whole_batch(value: &Value) -> bool {
    let Value::Function(function) = value else { return false };
    let Some((name, _)) = function.lambda.parameters.first() else { return false };
    let plain: String = function.text.chars().filter(|c| !c.is_whitespace()).collect();
    let Some((_, body)) = plain.split_once(':') else { return false };
    body.starts_with(&format!("({name}.to("))
        && (body.ends_with("),None,(),{})") || body.ends_with("),())") || body.ends_with("),None)"))
}

/// The inferer of an evaluator.
pub(crate) fn inferer(evaluator: &Component) -> Result<Box<dyn Inferer>, Fault> {
    const DEVICES: [&str; 8] = [
        "device",
        "sw_device",
        "progress",
        "cache_roi_weight_map",
        "cpu_thresh",
        "buffer_steps",
        "buffer_dim",
        "with_coord",
    ];
    let component = match evaluator.get("inferer") {
        None => return Ok(Box::new(SimpleInferer {})),
        Some(Value::Component(component)) => component,
        Some(other) => return Err(fault(evaluator, format!("inferer is {}", other.kind())).about(other)),
    };
    if is(component, &["LandmarkInferer"]) {
        let table = table(component, "LandmarkInferer", &DEVICES, false)?;
        let made: LandmarkInferer = read(component, table)?;
        return match made.check() {
            Ok(()) => Ok(Box::new(made)),
            Err(error) => Err(fault(component, error.to_string())),
        };
    }
    let registry = Registry::<dyn Inferer>::new();
    let Some(entry) = registry.entries().iter().find(|entry| entry.name == component.name()) else {
        return Err(fault(component, "is an inferer that is not supported"));
    };
    if is(component, &["SimpleInferer"]) {
        return Ok(Box::new(SimpleInferer {}));
    }
    let splitter = component.get("splitter").and_then(Value::as_component);
    let without = if splitter.is_some() { [&DEVICES[..], &["splitter"]].concat() } else { DEVICES.to_vec() };
    let mut given = table(component, entry.name, &without, false)?;
    if let Some(splitter) = splitter {
        if !is(splitter, &["SlidingWindowSplitter"]) {
            return Err(fault(splitter, "is a splitter that is not supported; SlidingWindowSplitter is"));
        }
        let mut parts = table(splitter, "SlidingWindowSplitter", &["device"], false)?;
        parts.remove("name");
        given.insert("splitter", parts);
    }
    registry.build(&given).map_err(|error| fault(component, error.to_string()))
}
