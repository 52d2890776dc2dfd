//! Chains of transforms: the components of a `Compose`, converted to executable steps.

mod build;

use std::sync::Arc;

use hearth_bundle::{Fault, Function, Value};
use hearth_data::transforms::Invert;
use hearth_data::{Effect, Image, OneOrMany, Transform};
use hearth_nn::post::{Activations, AsDiscrete};

use build::steps;

use super::array_form::in_order;
use super::case::Case;
use super::classes::Classes;
use super::field::{self, Field, Kind};
use super::missing::Read;
use super::nodes::components;
use super::save::Save;
use super::writing::Writing;
use crate::run::segment::check_activation;
use hearth_recipe::{Context, Outcome, RecipeError};

/// An activation, and a function of the config that follows it.
type Activated = (Activations, Option<Arc<Function>>);

/// The work of a step.
enum Work {
    /// A registered transform.
    Registered(Box<dyn Transform>),
    /// Casts values to a numeric type.
    Cast(String),
    /// A function of one tensor for each key.
    Lambda(Vec<Arc<Function>>),
    Activations(Vec<Activated>),
    Discrete(Vec<AsDiscrete>),
    /// Inverts to the grid of another key, then applies an optional function.
    Invert(Invert, Option<Arc<Function>>),
    /// Converts any colours to RGB.
    Rgb,
    /// Reorders the axes of the file; the first one becomes the channels.
    Axes(Vec<usize>),
    Save(Save),
    Classes(Classes),
}

/// A step of a chain.
pub(crate) struct Step {
    id: String,
    name: String,
    keys: Vec<String>,
    may_lack: bool,
    work: Work,
}

/// Steps in order.
#[derive(Default)]
pub(crate) struct Chain {
    pub steps: Vec<Step>,
    /// Notes about omitted or replaced parts.
    pub notes: Vec<String>,
    /// Whether steps may be random.
    random: bool,
}

impl Chain {
    /// Builds a chain from the value of a `transform`: a `Compose`, a transform, a list of them, or
    /// nothing.
    ///
    /// # Errors
    /// All unsupported parts.
    pub fn new(value: Option<&Value>) -> Result<Self, Vec<Fault>> {
        Self::of(value, Chain::default())
    }

    /// Builds a chain whose steps may be random, with draws keyed by the seed of the case.
    ///
    /// # Errors
    /// Same as [`new`](Self::new).
    pub fn random(value: Option<&Value>) -> Result<Self, Vec<Fault>> {
        Self::of(value, Chain { random: true, ..Chain::default() })
    }

    fn of(value: Option<&Value>, mut chain: Chain) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        chain.add(value, &mut faults);
        if faults.is_empty() { Ok(chain) } else { Err(faults) }
    }

    fn add(&mut self, value: Option<&Value>, faults: &mut Vec<Fault>) {
        let Some(list) = components(value) else {
            // An unknown value has its own fault already.
            if !value.is_some_and(Value::has_unknown) {
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
            match steps(&component, self.random, &mut self.notes) {
                Ok(steps) => self.steps.extend(steps),
                Err(fault) => faults.push(fault),
            }
        }
    }

    /// The keys into which files are read.
    pub fn reads(&self) -> Vec<Read<'_>> {
        let loads = self.steps.iter().filter(|step| step.name == "LoadImage");
        let of = |step| {
            let Step { keys, may_lack, .. }: &Step = step;
            keys.iter().map(|key| Read { key, may_lack: *may_lack })
        };
        loads.flat_map(of).collect()
    }

    /// Warns if label maps are mapped back with interpolated values.
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
    /// The error of a step, with its id.
    pub fn run(&self, case: &mut Case, writing: &mut Writing) -> Outcome {
        for step in &self.steps {
            step.run(case, writing).while_doing(|| format!("{}: {}", step.id, step.name))?;
        }
        Ok(())
    }

    /// Runs the steps on a case, and shows it after each step that reads files.
    ///
    /// # Errors
    /// The error of a step, with its id.
    pub fn run_shown(&self, case: &mut Case, writing: &mut Writing, loaded: &mut dyn FnMut(&Case)) -> Outcome {
        for step in &self.steps {
            step.run(case, writing).while_doing(|| format!("{}: {}", step.id, step.name))?;
            if step.name == "LoadImage" {
                loaded(case);
            }
        }
        Ok(())
    }

    /// The name and the parameters of each registered transform of a key.
    pub fn parameters<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a str, serde_json::Value)> {
        self.steps.iter().filter_map(move |step| match &step.work {
            Work::Registered(transform) if step.keys.iter().any(|own| own == key) => {
                Some((step.name.as_str(), transform.describe()))
            }
            _ => None,
        })
    }

    /// Runs the steps on a case without decisions, so that the saved image is the probability of
    /// each class or region: activations stay; argmax, thresholds, and later steps that change
    /// labels are omitted; and inverting to the image's grid is linear.
    ///
    /// # Errors
    /// The error of a step, with its id.
    pub fn run_undecided(&self, case: &mut Case, writing: &mut Writing) -> Outcome {
        let mut so_far = Undecided::default();
        for step in &self.steps {
            step.run_undecided(case, writing, &mut so_far).while_doing(|| format!("{}: {}", step.id, step.name))?;
        }
        Ok(())
    }

    /// The steps that write images.
    pub fn saves(&self) -> Vec<&Save> {
        self.steps.iter().filter_map(|step| if let Work::Save(save) = &step.work { Some(save) } else { None }).collect()
    }

    /// Whether a step writes a table of classes.
    pub fn has_tables(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.work, Work::Classes(_)))
    }

    /// Whether a step selects the most likely class.
    pub fn takes_argmax(&self) -> bool {
        self.discrete().any(|discrete| discrete.argmax)
    }

    /// Whether a step decides by an argmax or a threshold.
    pub fn decides(&self) -> bool {
        self.discrete().any(|discrete| discrete.argmax || discrete.threshold.is_some())
    }

    fn discrete(&self) -> impl Iterator<Item = AsDiscrete> {
        let of = |step: &'_ Step| match &step.work {
            Work::Discrete(discrete) => discrete.clone(),
            _ => Vec::new(),
        };
        self.steps.iter().flat_map(of)
    }

    /// Finishes the files that are written once for all cases.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn finish(&self, writing: &mut Writing) -> Outcome {
        for step in &self.steps {
            if let Work::Classes(classes) = &step.work {
                classes.finish(writing)?;
            }
        }
        Ok(())
    }
}

/// Checks the memory for mapping an output back to the grid of its image's file, which is allocated at once:
/// a failed allocation would end all cases.
fn check_room(channels: usize, original: &Image) -> Outcome {
    let voxels = original.meta.original_shape.iter().product::<usize>();
    let bytes = (2 * channels * size_of::<f32>()).saturating_mul(voxels) as u64;
    hearth_machine::check_free(bytes).map_err(|what| {
        let what = format!("mapping {channels} channels back to the image's own grid {what}");
        RecipeError::new(format!("{what}: resample the image to larger voxels, or crop it"))
    })
}

/// State of running a chain without its decisions.
#[derive(Default)]
struct Undecided {
    activated: bool,
    decided: bool,
}

impl Step {
    /// Runs one step as described for [`Chain::run_undecided`].
    fn run_undecided(&self, case: &mut Case, writing: &mut Writing, so_far: &mut Undecided) -> Outcome {
        match &self.work {
            Work::Activations(_) => so_far.activated = true,
            Work::Discrete(each) => {
                // The most likely class is that of the largest logit: its probability needs a softmax.
                if !so_far.activated && each.iter().any(|discrete| discrete.argmax) {
                    for (_, key) in self.present(case)? {
                        let mut image = case.sample.take_image(&key)?;
                        check_activation(&image.data)?;
                        image.data = burn::tensor::activation::softmax(image.data, 0);
                        case.sample.values.insert(key, hearth_data::Value::Image(image));
                    }
                }
                so_far.decided = true;
                return Ok(());
            }
            Work::Registered(transform) if so_far.decided && matches!(transform.effect(), Effect::Values) => {
                return Ok(());
            }
            Work::Lambda(_) | Work::Cast(_) if so_far.decided => return Ok(()),
            Work::Invert(invert, function) => {
                let linear = invert.clone().nearest_interp(OneOrMany::One(false));
                let function = function.clone().filter(|_| !so_far.decided);
                let step = Step {
                    id: self.id.clone(),
                    name: self.name.clone(),
                    keys: self.keys.clone(),
                    may_lack: self.may_lack,
                    work: Work::Invert(linear, function),
                };
                return step.run(case, writing);
            }
            Work::Save(save) => {
                let save = save.of_probabilities();
                let keys = self.present(case)?;
                return keys.iter().try_for_each(|(_, key)| save.write(case, key, writing));
            }
            Work::Classes(_) => return Ok(()),
            Work::Lambda(_) | Work::Cast(_) | Work::Registered(_) | Work::Rgb | Work::Axes(_) => {}
        }
        self.run(case, writing)
    }

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

    /// The keys that the case has, with their indices.
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
            // Only one key is changed at a time, so its option is selected by index.
            let original = self.original(invert, key, place);
            let original = case.sample.image(&original)?.clone();
            let channels = case.sample.image(key)?.channels();
            check_room(channels, &original)?;
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
                check_activation(&image.data)?;
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
            Work::Axes(axes) => {
                let image = in_order(case.sample.take_image(key)?, axes)?;
                case.sample.values.insert(key.to_owned(), hearth_data::Value::Image(image));
                Ok(())
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_data::{affine, host_device};

    #[test]
    fn an_output_that_does_not_fit_on_the_grid_of_its_image_is_an_error_before_it_is_allocated() {
        let mut image = Image::from_values(vec![0.0; 8], [1, 2, 2, 2], affine::IDENTITY, &host_device());
        assert!(check_room(105, &image).is_ok());
        image.meta.original_shape = vec![1 << 16; 3];
        let said = check_room(105, &image).expect_err("no machine has that").to_string();
        assert!(said.contains("mapping 105 channels back") && said.contains("crop it"), "{said}");
    }
}
