//! Calls of configs that compute and write without an evaluator: the sampling of latent diffusion,
//! and an autoencoder applied to an image. The interpreter describes the calls; this module runs
//! them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use hearth_bundle::{CallValue, Component, Value};
use hearth_data::Image;
use hearth_data::writers::{WriteOptions, write_image};
use hearth_nn::diffusion::noise;
use hearth_nn::networks::{AutoencoderKL, Network};

use super::array::Array;
use super::calls::{Output, file_of, output, picture_path, sizes, transposed};
use super::case::Case;
use super::first::First;
use super::networks::Networks;
use super::sampler::{NETWORKS, Sampler, network};
use super::save::Save;
use super::writing::Writing;
use super::{Context, Seen, Told};
use hearth_recipe::{Context as _, Outcome, RecipeError};

/// The distance between the draws of two calls: a sampling uses the numbers in between for its steps.
const APART: u64 = 1 << 32;

/// The value of an expression.
#[allow(clippy::large_enum_variant, reason = "all of them are behind a pointer")]
#[derive(Debug)]
enum Given {
    Array(Array),
    /// The outputs of a network.
    Outputs(Vec<Array>),
    /// The images of a loader's batch, by key.
    Batch(Vec<(String, Array)>),
}

/// The values that the calls of a run have computed so far: a value that is used several times is
/// computed once.
#[derive(Default)]
pub(crate) struct Computed {
    known: Vec<(Arc<CallValue>, Arc<Given>)>,
    draws: u64,
    /// The number of images that a network has processed.
    pub cases: usize,
    /// The number of sampling steps, by the id of the scheduler.
    pub steps: BTreeMap<String, usize>,
}

/// The context in which a call runs.
pub(crate) struct Doing<'a> {
    pub computed: &'a mut Computed,
    pub context: &'a Context,
    pub networks: &'a mut Networks,
    pub writing: &'a mut Writing,
    pub device: &'a Device,
    pub tell: &'a mut dyn FnMut(Told<'_>),
}

impl Doing<'_> {
    /// Runs a described call.
    ///
    /// # Errors
    /// Unsupported calls, missing files, or noise or images that do not fit the networks.
    pub fn run(&mut self, call: &CallValue) -> Outcome {
        match call.name.as_str() {
            "LDMSampler.run" => {
                let sample = self.sample(call)?;
                let first = sample.index(&Value::Int(0))?;
                match output(call)? {
                    Output::Saver(saver) => self.save(saver, &first),
                    Output::Picture(path) => {
                        // The script rotates the picture: rows from the last y up, columns from the
                        // last x.
                        let back = Value::Slice(None, None, Some(-1));
                        let rows = first.index(&Value::Int(0))?.transpose()?;
                        let rows = rows.index(&Value::Tuple([back.clone(), back].into()))?;
                        self.write(&rows.picture()?, path)
                    }
                }
            }
            "SaveImage.__call__" => {
                let [Value::Component(saver), value] = &call.args[..] else {
                    return Err(RecipeError::new("a SaveImage is called with other than one image"));
                };
                let array = self.array(value)?;
                self.save(saver, &array)
            }
            "PIL.Image.save" => {
                let picture = self.array(call.args.first().unwrap_or(&Value::None))?;
                self.write(&picture, picture_path(call)?)
            }
            other => Err(RecipeError::new(format!("{other}(...) is not done by itself"))),
        }
    }

    fn array(&mut self, value: &Value) -> Outcome<Array> {
        match &*self.value(value)? {
            Given::Array(array) => Ok(array.clone()),
            Given::Outputs(_) => Err(RecipeError::new("all outputs of a network stand where one tensor is needed")),
            Given::Batch(_) => Err(RecipeError::new("a batch stands where one of its images is needed")),
        }
    }

    fn value(&mut self, value: &Value) -> Outcome<Arc<Given>> {
        let Value::Call(call) = value else {
            let path = file_of(value);
            let what = || RecipeError::new(format!("{} stands where a tensor is computed", value.kind()));
            let path = self.context.folder.join(path.ok_or_else(what)?);
            return Ok(Arc::new(Given::Array(Array::read(&path)?)));
        };
        if let Some((_, known)) = self.computed.known.iter().find(|(other, _)| Arc::ptr_eq(other, call)) {
            return Ok(known.clone());
        }
        let made = Arc::new(self.compute(call)?);
        self.computed.known.push((call.clone(), made.clone()));
        Ok(made)
    }

    fn compute(&mut self, call: &CallValue) -> Outcome<Given> {
        let first = call.args.first().unwrap_or(&Value::None);
        Ok(match call.name.as_str() {
            "torch.rand" | "torch.randn" | "torch.ones" | "torch.zeros" => Given::Array(self.drawn(call)?),
            "torch.load" | "numpy.load" => {
                let path = first.as_str().ok_or_else(|| RecipeError::new(format!("{} without a path", call.name)))?;
                Given::Array(Array::read(&self.context.folder.join(path))?)
            }
            "[]" => {
                let index = call.args.get(1).unwrap_or(&Value::None);
                match (&*self.value(first)?, index) {
                    (Given::Array(array), index) => Given::Array(array.index(index)?),
                    (Given::Outputs(all), index) => {
                        let place = index.as_int().and_then(|at| usize::try_from(at).ok());
                        let what = || RecipeError::new(format!("a network gives {} outputs", all.len()));
                        Given::Array(place.and_then(|place| all.get(place)).ok_or_else(what)?.clone())
                    }
                    (Given::Batch(images), index) => {
                        let found = images.iter().find(|(key, _)| index.as_str() == Some(key));
                        let what = || RecipeError::new(format!("the batch has no image {}", index.kind()));
                        Given::Array(found.map(|(_, array)| array.clone()).ok_or_else(what)?)
                    }
                }
            }
            "transpose" => {
                transposed(call)?;
                Given::Array(self.array(first)?.transpose()?)
            }
            "scripts.utils.visualize_2d_image" => Given::Array(self.array(first)?.picture()?),
            "PIL.Image.fromarray" => Given::Array(self.array(first)?),
            "monai.utils.first" => {
                let Value::Component(loader) = first else {
                    return Err(RecipeError::new("monai.utils.first of a value that is not a loader"));
                };
                let taken = First::new(loader, self.context).map_err(|faults| super::run::all(&faults))?;
                taken.notes().into_iter().for_each(|note| (self.tell)(Told::Note(note)));
                Given::Batch(taken.batch(self.context.seed, self.writing)?)
            }
            "AutoencoderKL.__call__" => Given::Outputs(self.reconstructed(call)?),
            "LDMSampler.sampling_fn" => Given::Array(self.sample(call)?),
            other => return Err(RecipeError::new(format!("{other}(...) is not computed"))),
        })
    }

    /// The next random values of the run, from the normal distribution.
    fn normal(&mut self, count: usize) -> Vec<f32> {
        let draw = self.computed.draws;
        self.computed.draws += APART;
        let seed = self.context.seed.unsigned_abs();
        let drawn = noise([1, 1, 1, 1, count], seed, draw, &hearth_data::host_device());
        drawn.into_data().iter::<f32>().collect()
    }

    fn drawn(&mut self, call: &CallValue) -> Outcome<Array> {
        let shape = sizes(call)?;
        let count = shape.iter().product();
        let values = match call.name.as_str() {
            "torch.ones" => vec![1.0; count],
            "torch.zeros" => vec![0.0; count],
            "torch.rand" => {
                let draw = self.computed.draws / APART;
                self.computed.draws += APART;
                let mut values = vec![0.0; count];
                let key = hearth_data::DrawKey::new(self.context.seed.unsigned_abs(), 0, 0);
                key.draw("noise", 0, draw as usize).fill_uniform(&mut values, 0.0, 1.0);
                values
            }
            _ => self.normal(count),
        };
        let what = "numbers are drawn by Hearth's own generator, with the config's seed: other ones than PyTorch's";
        if call.name.starts_with("torch.rand") {
            let seed = self.context.seed;
            (self.tell)(Told::Note(format!("{what} (seed {seed}; give a file of them in place of the item)")));
        }
        Ok(Array::new(shape, values))
    }

    fn sample(&mut self, call: &CallValue) -> Outcome<Array> {
        let sampler = Sampler::new(call).map_err(|faults| super::run::all(&faults))?;
        let noise = self.array(sampler.noise)?;
        let steps = self.computed.steps.get(&sampler.scheduled.id).copied();
        let seed = self.context.seed.unsigned_abs();
        let sample = sampler.sample(&noise, steps, (&mut *self.networks, self.device), seed, self.tell)?;
        self.told(&noise, &sample)?;
        Ok(sample)
    }

    /// Reports each item of a batch that a network has processed.
    fn told(&mut self, inputs: &Array, outputs: &Array) -> Outcome {
        let total = inputs.shape.first().copied().unwrap_or(0);
        for index in 0..total {
            let item = |array: &Array| array.index(&Value::Int(index as i64))?.image();
            let (image, output) = (item(inputs)?, item(outputs)?);
            (self.tell)(Told::Case(Seen { index, total, image: &image.data, output: &output.data, post: None }));
        }
        self.computed.cases += total;
        Ok(())
    }

    /// The reconstruction, mean and deviation of the latent image. MONAI's network draws the latent
    /// image from that distribution, also in evaluation.
    fn reconstructed(&mut self, call: &CallValue) -> Outcome<Vec<Array>> {
        let component = network(call, 0, "self", NETWORKS[0])?;
        let image = self.array(call.get(1, "x").unwrap_or(&Value::None))?;
        self.networks.get(component, self.device)?;
        self.networks.check_loaded(component, self.tell)?;
        let x = image.batch(self.device)?;
        let (dims, [mean, deviation]) = {
            let net: &AutoencoderKL = self.networks.built(component)?;
            net.check_input(x.dims()).while_doing(|| format!("{}: the image does not fit", component.id))?;
            (net.spatial_dims(), <[_; 2]>::from(net.encode(x)))
        };
        let drawn = self.normal(mean.dims().iter().product());
        let drawn = burn::tensor::TensorData::new(drawn, mean.dims());
        let drawn = burn::tensor::Tensor::<5>::from_data(drawn, self.device);
        let net: &AutoencoderKL = self.networks.built(component)?;
        let made = net.decode(mean.clone() + drawn * deviation.clone());
        let outputs = [made, mean, deviation].into_iter().map(|output| {
            // On the grid of the image, whatever the shape, as MONAI's tensors keep it.
            Array { like: image.like.clone(), ..Array::of_batch(output, dims) }
        });
        let outputs: Vec<Array> = outputs.collect();
        self.told(&image, &outputs[0])?;
        Ok(outputs)
    }

    /// Saves a tensor as a `SaveImage` does.
    fn save(&mut self, saver: &Arc<Component>, array: &Array) -> Outcome {
        let mut notes = Vec::new();
        let save = Save::new(saver, &mut notes)?;
        notes.into_iter().for_each(|note| (self.tell)(Told::Note(note)));
        let image = array.image()?;
        let mut case = Case::new(&Value::None, 0, &self.writing.inputs);
        if let Some(path) = &image.meta.path {
            case.written.insert(path.clone(), path.display().to_string());
        }
        case.sample.values.insert("image".to_owned(), hearth_data::Value::Image(image));
        save.write(&mut case, "image", self.writing)
    }

    /// Writes rows of RGB as PIL does.
    fn write(&mut self, picture: &Array, path: &str) -> Outcome {
        let image: Image = picture.of_pixels()?;
        let path: PathBuf = self.writing.claim(Path::new(path), &[])?;
        write_image(&path, &image, &WriteOptions::default())
            .while_doing(|| format!("cannot write {}", path.display()))?;
        self.writing.done(path);
        Ok(())
    }
}
