//! The prediction of a network on an image's own grid, with the chain of `[post]` applied.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::activation::softmax;
use burn::tensor::{DType, Tensor};
use hearth_data::affine::{IDENTITY, compose};
use hearth_data::transforms::ResolveRegions;
use hearth_data::{Affine, DrawKey, Image, Pipeline, Sample, Value, host_device};
use hearth_nn::inferers::InferError;
use hearth_nn::losses::one_hot;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_train::Post;

use crate::ensemble::Merged;
use crate::model::Uncertainty;
use crate::run::trained::Trained;
use crate::spread::{Spread, Spreading};
use crate::writers::regions::determinant;
use hearth_recipe::recipe::Output;
use hearth_recipe::{Outcome, RecipeError};
use hearth_run::ImageFacts;
use hearth_run::Plan;
use hearth_run::Windows;

/// The prediction for an image, on its own grid.
pub struct Segmented {
    /// The class of every voxel, a channel of 0 and 1 for each region, or the predicted image.
    pub image: Image,
    /// The kind of the image.
    pub output: Output,
    /// The probability of each label or region, one per channel.
    pub probabilities: Option<Image>,
    /// The differences between the predictions of augmented images or of the networks of an ensemble.
    pub uncertainty: Option<Uncertainty>,
    /// Maps of the disagreement between the members of an ensemble, by name.
    pub disagreement: Vec<(&'static str, Image)>,
}

/// A preprocessed image.
pub struct Ready {
    image: Image,
    case: String,
    facts: Option<ImageFacts>,
}

impl Ready {
    /// Spacing, extent and values of the image as loaded; `None` if the chain does not load whole images.
    pub fn facts(&self) -> Option<&ImageFacts> {
        self.facts.as_ref()
    }

    /// The image as the network takes it.
    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// The approximate memory in bytes until the prediction is written: image, file and prediction
    /// on both grids.
    pub fn bytes(&self) -> u64 {
        let [channels, shape @ ..] = self.image.data.dims();
        let seen = shape.iter().product::<usize>() * channels;
        let stored = self.image.meta.original_shape.iter().product::<usize>();
        (seen + 2 * stored) as u64 * size_of::<f32>() as u64
    }
}

/// Reads and preprocesses images. Unlike a plan it can be shared by threads.
#[derive(Clone, Debug)]
pub struct Reading {
    chain: Arc<Pipeline>,
    /// The key of the labels of an earlier stage, if the recipe continues from one.
    previous: Option<String>,
}

impl Reading {
    /// The reader for the images that a plan predicts.
    pub fn of(plan: &Plan) -> Self {
        let previous = plan.recipe.previous_stage().map(|stage| stage.key);
        Self { chain: plan.prediction.clone(), previous }
    }

    /// Reads a case whose `image` has files, and runs the recipe's chain on it. The image is not on
    /// the device yet, unless a step of the chain works there.
    ///
    /// # Errors
    /// An image that cannot be read, or a step that fails.
    pub fn ready(&self, sample: Sample) -> Outcome<Ready> {
        let case = sample.case.clone();
        if self.previous.as_ref().is_some_and(|key| !sample.values.contains_key(key)) {
            return Err(RecipeError::new(format!("case {case} has no labels of the earlier stage (--previous-stage)")));
        }
        let (loaded, facts) = ImageFacts::of_loaded(&self.chain, sample)?;
        let mut samples = self.chain.run_steps(loaded, DrawKey::new(0, 0, 0), 1, self.chain.split())?;
        let mut sample = samples.pop().ok_or_else(|| RecipeError::new("the pipeline returned nothing"))?;
        Ok(Ready { image: sample.take_image("image")?, case, facts })
    }

    /// Reads a case with the label file of an earlier stage, if there is one.
    ///
    /// # Errors
    /// Same as [`ready`](Self::ready).
    pub fn ready_from(&self, sample: Sample, previous: Option<&Path>) -> Outcome<Ready> {
        match self.previous.as_ref().zip(previous) {
            Some((key, path)) => self.ready(sample.with(key, Value::Path(path.to_owned()))),
            None => self.ready(sample),
        }
    }
}

/// Requested outputs of a prediction in addition to the image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// [`Segmented::probabilities`], which take a volume of the image's size for each channel.
    pub probabilities: bool,
    /// [`Segmented::uncertainty`], which needs test-time augmentation or several networks.
    pub uncertainty: bool,
}

impl Segmented {
    /// The image for the file: regions as one label map if the recipe has labels for them.
    ///
    /// # Errors
    /// Regions that differ from those of the recipe.
    pub fn written(&self, plan: &Plan) -> Outcome<Image> {
        let Some(classes) = plan.recipe.learns().region_labels() else { return Ok(self.image.clone()) };
        let resolve = ResolveRegions::new(Post::KEY, classes).as_labels(true);
        resolve.resolve(self.image.clone()).map_err(|error| RecipeError::new(error.to_string()))
    }
}

impl Trained {
    /// The probabilities for an input, or another result of the chain's activations; merged for an
    /// ensemble.
    pub(crate) fn likely(&self, steps: &[Post], input: Tensor<5>) -> Outcome<Merged> {
        if let Some(ensemble) = &self.ensemble {
            return self.merge(ensemble, steps, input);
        }
        let passes = self.inferer.passes(input.dims());
        let logits = self.with_network(&self.network, passes, |net| self.inferer.infer(input, net))?;
        Ok(Merged { likely: self.probabilities(steps, logits)?, maps: Vec::new() })
    }

    /// Calls `work` with a network as a function, in f32; an input or window of an unsupported size is an
    /// error.
    fn with_network<T>(
        &self,
        network: &AnyNetwork,
        passes: Option<u64>,
        work: impl FnOnce(&dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<T, InferError>,
    ) -> Outcome<T> {
        // The closure cannot fail, so the error of an unsupported window is kept here.
        let misfit = RefCell::new(None);
        let windows = Windows::new(self.plan.progress, passes);
        let forward = |x: Tensor<5>| match network.check_input(x.dims()) {
            Ok(()) => {
                windows.step();
                network.forward(x).cast(DType::F32)
            }
            Err(error) => {
                misfit.borrow_mut().get_or_insert(error);
                x
            }
        };
        let output = work(&forward);
        match misfit.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(output?),
        }
    }

    /// Applies the chain's activations to logits.
    pub(crate) fn probabilities(&self, steps: &[Post], logits: Tensor<5>) -> Outcome<Tensor<5>> {
        probabilities(self.plan.recipe.output(), steps, logits)
    }

    /// Whether an image is predicted more than once: by test-time augmentation, or by several networks.
    pub(crate) fn compares(&self) -> bool {
        self.augmentation.is_some() || self.networks().count() > 1
    }

    /// The network, and the others of an ensemble.
    fn networks(&self) -> impl Iterator<Item = &AnyNetwork> {
        std::iter::once(&self.network).chain(self.ensemble.iter().flat_map(|ensemble| ensemble.others()))
    }

    /// The differences between the single predictions: those of each network, of each augmented image. Each
    /// becomes labels as the result does. The map is on the grid of `image`'s file.
    fn uncertainty(&self, steps: &[Post], input: &Tensor<5>, image: &Image, case: &str) -> Outcome<Uncertainty> {
        let output = self.plan.recipe.output();
        let (mut spread, mut shape) = (Spread::default(), [0; 3]);
        let mut add = |logits: Tensor<5>| -> Outcome {
            let likely = self.probabilities(steps, logits)?;
            let foreground = match output {
                Output::Labels => -likely.clone().narrow(1, 0, 1) + 1.0,
                _ => likely.clone().max_dim(1),
            };
            let foreground = computed(Image::new(foreground.squeeze_dim(0), image.affine))?;
            shape = foreground.shape();
            let volumes = match output {
                Output::Labels | Output::Regions => {
                    self.volumes_ml(&computed(self.decided(steps, likely, image, case, false)?.0)?)
                }
                Output::Scores | Output::Image => Vec::new(),
            };
            spread.add(&foreground.to_vec(), volumes)
        };
        for network in self.networks() {
            let Some(augmentation) = &self.augmentation else {
                add(self.with_network(network, None, |net| self.inferer.infer(input.clone(), net))?)?;
                continue;
            };
            let mut problem = None;
            let each = |logits: Tensor<5>| {
                if problem.is_none() {
                    problem = add(logits).err();
                }
            };
            self.with_network(network, None, |net| augmentation.examples(input, net, each))?;
            if let Some(problem) = problem {
                return Err(problem);
            }
        }
        let Spreading { std, vvc, volumes_ml } = spread.finish()?;
        let [x, y, z] = shape;
        let mut std = Image::from_values(std, [1, x, y, z], image.affine, &image.data.device());
        if output == Output::Image && shape != image.shape() {
            std.affine = stretched(image, shape);
        } else {
            std.meta = image.meta.clone();
            std = self.plan.prediction.invert(std, image, false)?;
        }
        Ok(Uncertainty { std: computed(std)?, vvc, volumes_ml })
    }

    /// The volume in millilitres of each label but the background, or of each region.
    fn volumes_ml(&self, decided: &Image) -> Vec<f64> {
        let of_voxel = determinant(&decided.affine).abs() / 1000.0;
        let values = decided.to_vec();
        let counts = match self.plan.recipe.output() {
            Output::Labels => {
                let mut counts = vec![0_usize; self.plan.recipe.labels.len()];
                for value in values {
                    if let Some(count) = counts.get_mut(value as usize) {
                        *count += 1;
                    }
                }
                counts.split_off(1.min(counts.len()))
            }
            _ => {
                let channels = values.chunks(decided.shape().iter().product::<usize>().max(1));
                channels.map(|channel| channel.iter().filter(|value| **value > 0.5).count()).collect()
            }
        };
        counts.into_iter().map(|count| count as f64 * of_voxel).collect()
    }

    /// Predicts the numbers of a case whose `image` has files: a probability of each class, or the
    /// values of a regression.
    ///
    /// # Errors
    /// An image that cannot be read or does not fit the network.
    pub fn scores(&self, sample: Sample) -> Outcome<Vec<f32>> {
        self.scores_of(Reading::of(&self.plan).ready(sample)?)
    }

    /// Predicts the numbers of an image that was already read.
    ///
    /// # Errors
    /// An image that does not fit the network.
    pub fn scores_of(&self, Ready { image, case, .. }: Ready) -> Outcome<Vec<f32>> {
        let (steps, image) = (self.plan.post_prediction()?, image.to_device(&self.plan.device));
        let input: Tensor<5> = image.data.clone().unsqueeze_dim(0);
        let data: Tensor<4> = self.likely(&steps, input)?.likely.squeeze_dim(0);
        // The activations are already applied.
        let rest = steps.iter().skip_while(|step| matches!(step, Post::Activations(_)));
        let scores = Post::finish(rest, Image { data, ..image }, &case);
        let scores = scores.map_err(|error| RecipeError::new(error.to_string()))?;
        let (shape, labels) = (scores.data.dims(), self.plan.recipe.labels.len());
        if shape != [labels, 1, 1, 1] {
            let what =
                format!("the network returns {shape:?} [channel, x, y, z] for an image, expected [{labels}, 1, 1, 1]");
            return Err(RecipeError::new(format!("{what}: a number for each of `labels`")));
        }
        computed(scores).map(|scores| scores.to_vec())
    }

    /// Segments a case whose `image` has files, or predicts an image.
    ///
    /// Probabilities are resampled to the image's own grid one channel at a time, and classes are
    /// decided there. This is smoother than resampling a label map, and does not hold all classes
    /// at full size.
    pub fn segment(&self, sample: Sample, wanted: Wanted) -> Outcome<Segmented> {
        self.segment_of(Reading::of(&self.plan).ready(sample)?, wanted)
    }

    /// Segments an image that was already read, or predicts an image from it.
    ///
    /// # Errors
    /// An image that does not fit the network, or a failure of post-processing.
    pub fn segment_of(&self, Ready { image, case, .. }: Ready, wanted: Wanted) -> Outcome<Segmented> {
        let steps = self.plan.post_prediction()?;
        let image = image.to_device(&self.plan.device);
        let input: Tensor<5> = image.data.clone().unsqueeze_dim(0);
        let uncertainty = match wanted.uncertainty && self.compares() {
            true => Some(self.uncertainty(&steps, &input, &image, &case)?),
            false => None,
        };
        let Merged { likely, maps } = self.likely(&steps, input)?;
        let output = self.plan.recipe.output();
        let (made, probabilities) = self.decided(&steps, likely, &image, &case, wanted.probabilities)?;
        let map_on_own_grid = |(name, map): (&'static str, Tensor<5>)| {
            let map = Image { data: map.squeeze_dim(0), affine: image.affine, meta: image.meta.clone() };
            Ok((name, self.plan.prediction.invert(map, &image, false)?))
        };
        let disagreement = maps.into_iter().map(map_on_own_grid).collect::<Outcome<Vec<_>>>()?;
        Ok(Segmented {
            image: computed(made)?,
            output,
            probabilities: probabilities.map(computed).transpose()?,
            uncertainty,
            disagreement: disagreement
                .into_iter()
                .map(|(name, map)| Ok((name, computed(map)?)))
                .collect::<Outcome<_>>()?,
        })
    }

    /// Probabilities of an image as labels, regions or an image on its own grid, after the chain of `[post]`;
    /// and the probabilities there, if `wanted`.
    fn decided(
        &self,
        steps: &[Post],
        likely: Tensor<5>,
        image: &Image,
        case: &str,
        wanted: bool,
    ) -> Outcome<(Image, Option<Image>)> {
        let likely: Tensor<4> = likely.squeeze_dim(0);
        let [channels, size @ ..] = likely.dims();
        let output = self.plan.recipe.output();
        self.check_room(channels, image, wanted)?;
        let on_own_grid = |channel: usize| -> Outcome<Image> {
            let one = likely.clone().narrow(0, channel, 1);
            // The output of another size has its own grid over the same space.
            if output == Output::Image && size != image.shape() {
                return Ok(Image { data: one, affine: stretched(image, size), meta: image.meta.clone() });
            }
            let one = Image { data: one, affine: image.affine, meta: image.meta.clone() };
            Ok(self.plan.prediction.invert(one, image, false)?)
        };
        let mut probabilities = None;
        let made = match output {
            Output::Labels if wanted => {
                let maps = (0..channels).map(on_own_grid).collect::<Outcome<Vec<Image>>>()?;
                let label = likeliest(channels, |channel| Ok(maps[channel].clone()))?;
                probabilities = Some(stacked(maps)?);
                clean(steps, label)?
            }
            Output::Labels => clean(steps, likeliest(channels, on_own_grid)?)?,
            Output::Scores => {
                return Err(RecipeError::new(
                    "this recipe learns numbers of whole images: there is nothing to segment",
                ));
            }
            Output::Regions | Output::Image => {
                let maps = stacked((0..channels).map(on_own_grid).collect::<Outcome<Vec<Image>>>()?)?;
                probabilities = wanted.then(|| maps.clone());
                // The activations are already applied.
                let rest = steps.iter().skip_while(|step| matches!(step, Post::Activations(_)));
                Post::finish(rest, maps, case).map_err(|error| RecipeError::new(error.to_string()))?
            }
        };
        Ok((made, probabilities))
    }

    /// Checks the memory for mapping an output back to the image's own grid, which is allocated at once: a
    /// failed allocation would end all cases.
    ///
    /// # Errors
    /// A map that does not fit.
    fn check_room(&self, channels: usize, image: &Image, wanted: bool) -> Outcome {
        if !self.plan.on_processor {
            return Ok(());
        }
        // Either the best class so far, its probability and that of the next one; or all channels, once apart
        // and once together.
        let whole = wanted || self.plan.recipe.output() != Output::Labels;
        let maps = if whole { 3 + 2 * channels } else { 3 };
        let voxels = image.meta.original_shape.iter().product::<usize>();
        hearth_machine::check_free((maps * size_of::<f32>() * voxels) as u64).map_err(|what| {
            let advice = if wanted { ", or leave out --probabilities" } else { "" };
            let what = format!("the prediction on the image's own grid {what}");
            RecipeError::new(format!("{what}: resample the image to larger voxels, or crop it{advice}"))
        })
    }
}

/// Copies the image to host memory, which reports values that its device failed to compute.
pub(crate) fn computed(image: Image) -> Outcome<Image> {
    image.to_host().map_err(|error| RecipeError::of_device(&error))
}

/// Checks the memory for an activation of values in host memory: its result, and a copy in another order.
///
/// # Errors
/// Values whose activation does not fit.
pub(crate) fn check_activation<const D: usize>(values: &Tensor<D>) -> Outcome {
    if values.device() != host_device() {
        return Ok(());
    }
    let bytes = (2 * size_of::<f32>()).saturating_mul(values.shape().num_elements()) as u64;
    hearth_machine::check_free(bytes).map_err(|what| {
        let what = format!("the probabilities of the prediction, {:?}, {what}", values.dims());
        RecipeError::new(format!("{what}: resample the image to larger voxels, or crop it"))
    })
}

/// Converts logits to probabilities with the activations of the chain; exclusive classes get a
/// softmax if it has none.
pub(crate) fn probabilities(output: Output, steps: &[Post], logits: Tensor<5>) -> Outcome<Tensor<5>> {
    check_activation(&logits)?;
    let mut activated = None;
    for step in steps.iter().take_while(|step| !matches!(step, Post::AsDiscrete(_))) {
        if let Post::Activations(step) = step {
            activated = Some(step.apply(activated.unwrap_or_else(|| logits.clone()))?);
        }
    }
    Ok(match (activated, output) {
        (Some(probabilities), _) => probabilities,
        (None, Output::Labels) => softmax(logits, 1),
        (None, Output::Regions | Output::Scores | Output::Image) => logits,
    })
}

/// Combines images of one channel on the same grid to one image.
fn stacked(maps: Vec<Image>) -> Outcome<Image> {
    let mut maps = maps.into_iter();
    let mut first = maps.next().ok_or_else(|| RecipeError::new("the network has no output"))?;
    first.data = Tensor::cat(std::iter::once(first.data).chain(maps.map(|map| map.data)).collect(), 0);
    Ok(first)
}

/// The affine for a grid with this number of voxels over the space of an image.
fn stretched(image: &Image, size: [usize; 3]) -> Affine {
    let mut scale = IDENTITY;
    for (axis, (old, new)) in image.shape().into_iter().zip(size).enumerate() {
        let factor = old as f64 / new as f64;
        // The image's edges stay in place, so voxel centres move.
        (scale[axis][axis], scale[axis][3]) = (factor, (factor - 1.0) / 2.0);
    }
    compose(&image.affine, &scale)
}

/// The channel with the largest value at each voxel.
fn likeliest(channels: usize, channel: impl Fn(usize) -> Outcome<Image>) -> Outcome<Image> {
    let mut best: Option<(Image, Tensor<4>)> = None;
    for class in 0..channels {
        let one = channel(class)?;
        best = Some(match best.take() {
            None => {
                let label = one.data.zeros_like();
                (one, label)
            }
            Some((held, label)) => {
                let wins = one.data.clone().greater(held.data.clone());
                let label = label.mask_fill(wins.clone(), class as f64);
                let data = held.data.clone().mask_where(wins, one.data);
                (Image { data, ..held }, label)
            }
        });
    }
    let (held, label) = best.ok_or_else(|| RecipeError::new("the network has no output"))?;
    Ok(Image { data: label, ..held })
}

/// Applies the transforms of the chain to the label map: from a step with `to_onehot` on, they work
/// on one channel per class, as for the metric.
fn clean(steps: &[Post], mut label: Image) -> Outcome<Image> {
    let (mut onehot, mut classes) = (false, None);
    for step in steps {
        match step {
            Post::AsDiscrete(step) => classes = classes.or(step.to_onehot),
            Post::Transforms(steps) => {
                if let Some(classes) = classes.filter(|_| !onehot) {
                    label.data = one_hot(label.data.unsqueeze_dim(0), classes).squeeze_dim(0);
                    onehot = true;
                }
                let sample = Sample::new("").with_image(Post::KEY, label);
                let mut made = steps.run_deterministic(sample)?;
                let mut sample =
                    made.pop().ok_or_else(|| RecipeError::new("the transforms of [post] returned nothing"))?;
                label = sample.take_image(Post::KEY)?;
            }
            _ => {}
        }
    }
    if onehot {
        // A voxel that was removed from its class becomes background.
        let [_, x, y, z] = label.data.dims();
        let set = label.data.clone().max_dim(0).greater_elem(0.0);
        let class = label.data.argmax(0).float().cast(DType::F32);
        label.data = Tensor::<4>::zeros([1, x, y, z], &class.device()).mask_where(set, class);
    }
    Ok(label)
}
