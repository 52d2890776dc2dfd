//! A transform of a plugin over several keys, which may draw and change the grid: `mine.Crop`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use hearth_image::spatial::{GridPadding, GridSampling};
use hearth_image::{Affine, Applied, Image, TransformError, affine};
use hearth_registry::component::texts::{Abilities, Inversion, MapAnswer, MapCall};
use hearth_registry::component::{self, Component, ComponentKind, HostArray, Places};
use hearth_registry::{Fault, Node};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::params::Keys;
use crate::{Draw, Effect, Sample, Transform, Value};

/// Calls a plugin for the images of all keys at once.
pub(crate) struct PluginMap {
    name: &'static str,
    keys: Keys,
    allow_missing_keys: bool,
    options: Node,
    component: Arc<dyn Component>,
    abilities: Abilities,
    /// The step in the history of images, for the inverse.
    step: String,
}

/// What finds the component of a step again.
#[derive(Serialize, Deserialize)]
struct Step {
    name: String,
    options: Node,
    places: Places,
}

/// The inverse in the history of an image.
#[derive(Serialize, Deserialize)]
struct Inverse {
    /// A [`Step`].
    step: String,
    key: String,
    state: String,
}

/// The components of steps whose inverse may be asked for, by their [`Step`].
static INVERTIBLE: Mutex<BTreeMap<String, Arc<dyn Component>>> = Mutex::new(BTreeMap::new());

impl fmt::Debug for PluginMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginMap").field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}

/// What rounding changes of a voxel's place, in voxels.
const NEAR: f64 = 1e-6;

fn reported(why: &str) -> TransformError {
    TransformError::new(component::reports(why))
}

fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("it answers {text:?}: {error}"))
}

impl PluginMap {
    /// The step of a component that was found.
    pub fn new(
        name: &'static str,
        keys: Keys,
        allow_missing_keys: bool,
        options: Node,
        component: Arc<dyn Component>,
    ) -> Result<Self, Fault> {
        let abilities = component.call("abilities", &[], "", None).and_then(|answer| read(&answer.text));
        let abilities: Abilities = abilities.map_err(|why| Fault::at("name", component::reports(&why)))?;
        let step = Step { name: name.to_owned(), options: options.clone(), places: component::places() };
        let step = serde_json::to_string(&step).map_err(|error| Fault::new(error.to_string()))?;
        if abilities.invertible {
            let mut known = INVERTIBLE.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(step.clone(), component.clone());
        }
        Ok(Self { name, keys, allow_missing_keys, options, component, abilities, step })
    }

    /// The image that the plugin made of `before`, with the operation in its history.
    fn mapped(&self, before: Image, array: HostArray<'_>, key: &str, state: &str) -> Result<Image, TransformError> {
        let (data, affine) = checked(&before, array)?;
        let mut image = Image { data, affine, meta: before.meta };
        let shape = [before.data.dims()[1], before.data.dims()[2], before.data.dims()[3]];
        if image.shape() == shape && affine == before.affine {
            return Ok(image);
        }
        // What was cut off becomes 0; a grid of other voxels over the same place is extended to its edges.
        let padding_mode = match covers(&image, shape, &before.affine) {
            true => GridPadding::Border,
            false => GridPadding::Zeros,
        };
        let sampling = GridSampling { padding_mode, ..GridSampling::default() };
        let affine = before.affine;
        image.meta.applied.push(if self.abilities.invertible {
            let inverse = Inverse { step: self.step.clone(), key: key.to_owned(), state: state.to_owned() };
            let inverse = serde_json::to_string(&inverse).map_err(|error| TransformError::new(error.to_string()))?;
            Applied::Foreign { affine, shape, sampling, inverse }
        } else {
            Applied::Resample { affine, shape, sampling }
        });
        Ok(image)
    }
}

/// The values and the affine of a plugin's image, on the device of the one that it was made from.
fn checked(before: &Image, array: HostArray<'_>) -> Result<(Tensor<4>, Affine), TransformError> {
    array.check().map_err(|why| TransformError::new(format!("the plugin returned an invalid array: {why}")))?;
    let [channels, x, y, z] = array.shape[..] else {
        let what = format!("the plugin returned an array of shape {:?}", array.shape);
        return Err(TransformError::new(what).expected("an image [C, X, Y, Z]"));
    };
    if channels * x * y * z == 0 {
        let what = format!("the plugin returned an image of shape {:?}", array.shape);
        return Err(TransformError::new(what).expected("at least one voxel"));
    }
    if before.meta.spatial_dims == 2 && z != 1 {
        let what = format!("the plugin returned {z} slices for an image with two axes");
        return Err(TransformError::new(what).expected("an image [C, X, Y, 1]"));
    }
    if !array.affine.iter().flatten().all(|value| value.is_finite()) || affine::inverse(&array.affine).is_none() {
        let what = format!("the plugin returned an image with the affine {:?}", array.affine);
        return Err(TransformError::new(what).expected("finite numbers, and axes that are not in one plane"));
    }
    let data = TensorData::new(array.values.into_owned(), [channels, x, y, z]);
    Ok((Tensor::from_data(data, &before.data.device()), array.affine))
}

/// Whether an image reaches over the centres of all voxels of a grid, up to less than one of its voxels: a crop of
/// one voxel does not.
fn covers(image: &Image, shape: [usize; 3], grid: &Affine) -> bool {
    let Some(back) = affine::inverse(&image.affine) else { return false };
    let map = affine::compose(&back, grid);
    let size = image.shape();
    (0..8_usize).all(|corner| {
        let at = [0, 1, 2].map(|axis| if corner >> axis & 1 == 1 { shape[axis] as f64 - 1.0 } else { 0.0 });
        let at = affine::apply(&map, at);
        (0..3).all(|axis| at[axis] > -1.0 + NEAR && at[axis] < size[axis] as f64 - NEAR)
    })
}

/// Inverts a step by its plugin, on an image that is in the state directly after it.
pub(crate) fn undo(
    image: Image,
    inverse: &str,
    shape: [usize; 3],
    grid: Affine,
    nearest: bool,
) -> Result<Image, TransformError> {
    let failed = |why: &str| TransformError::new(format!("the inverse of a plugin's step: {why}"));
    let Inverse { step, key, state } = read(inverse).map_err(|why| failed(&why))?;
    let name = read::<Step>(&step).map_or_else(|_| String::new(), |step| step.name);
    let component = component_of(&step).map_err(|fault| failed(&fault.to_string()))?;
    let [channels, x, y, z] = image.data.dims();
    let input = HostArray { shape: vec![channels, x, y, z], values: image.to_vec().into(), affine: image.affine };
    let text = serde_json::to_string(&Inversion { key, state, nearest, shape, affine: grid });
    let text = text.map_err(|error| failed(&error.to_string()))?;
    let of_step =
        |error: TransformError| TransformError { what: format!("the inverse of {name}: {}", error.what), ..error };
    let answer = component.call("invert", &[input], &text, None).map_err(|why| of_step(reported(&why)))?;
    let [array] = <[HostArray<'_>; 1]>::try_from(answer.arrays)
        .map_err(|arrays| of_step(TransformError::new(format!("the plugin returned {} images", arrays.len()))))?;
    let (data, _) = checked(&image, array).map_err(of_step)?;
    let mut undone = Image { data, affine: grid, meta: image.meta };
    if undone.shape() != shape {
        let what = format!("the plugin returned an image of {:?} voxels", undone.shape());
        return Err(of_step(TransformError::new(what).expected(format!("{shape:?}, the shape before the step"))));
    }
    undone.meta.applied.pop();
    Ok(undone)
}

/// The component of a step: that of the chain, or, for an image of a cache, one that is found again.
fn component_of(step: &str) -> Result<Arc<dyn Component>, Fault> {
    let known = INVERTIBLE.lock().unwrap_or_else(PoisonError::into_inner).get(step).cloned();
    if let Some(component) = known {
        return Ok(component);
    }
    let Step { name, options, places } = read(step).map_err(Fault::new)?;
    component::with_places(places, || component::find(ComponentKind::MapTransform, &name, &options))
}

impl Transform for PluginMap {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_random(&self) -> bool {
        self.abilities.random
    }

    fn through_host(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys).into_iter().map(|(_, key)| key.to_owned());
        let keys: Vec<String> = keys.collect();
        if keys.is_empty() {
            return Ok(vec![sample]);
        }
        let images = keys.iter().map(|key| sample.take_image(key).map_err(|error| error.at(key)));
        let images = images.collect::<Result<Vec<Image>, _>>()?;
        let array = |image: &Image| HostArray {
            shape: image.data.dims().to_vec(),
            values: image.to_vec().into(),
            affine: image.affine,
        };
        let arrays: Vec<HostArray<'_>> = images.iter().map(array).collect();
        let [high, low, ..] = draw.at(0);
        let draw = self.abilities.random.then(|| u64::from(high) << 32 | u64::from(low));
        let text = serde_json::to_string(&MapCall { keys: keys.clone(), draw });
        let text = text.map_err(|error| TransformError::new(error.to_string()))?;
        let answer = self.component.call("apply", &arrays, &text, None).map_err(|why| reported(&why))?;
        if answer.arrays.len() != keys.len() {
            let what = format!("the plugin returned {} images", answer.arrays.len());
            return Err(TransformError::new(what).expected(format!("{}, one for each key", keys.len())));
        }
        let state = match answer.text.is_empty() {
            true => String::new(),
            false => read::<MapAnswer>(&answer.text).map_err(|why| reported(&why))?.state,
        };
        for ((key, image), array) in keys.into_iter().zip(images).zip(answer.arrays) {
            let image = self.mapped(image, array, &key, &state).map_err(|error| error.at(&key))?;
            sample.values.insert(key, Value::Image(image));
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        if self.allow_missing_keys { Ok(()) } else { self.keys.check(known) }
    }

    /// Includes the plugin's version: caches of another version are not used.
    fn describe(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "keys": self.keys.iter().collect::<Vec<_>>(),
            "options": self.options,
            "plugin": self.component.version(),
        })
    }
}
