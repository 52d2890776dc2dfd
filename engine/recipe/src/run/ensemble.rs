//! Several runs as one: their predictions merged.

use std::cell::RefCell;

use burn::tensor::{DType, Tensor, TensorData};
use hearth_data::{Image, Item, Sample, Value};
use hearth_nn::losses::one_hot;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_train::{Post, mean_ensemble, staple, vote_ensemble};

use super::passing::Windows;
use super::{Plan, Trained};
use crate::error::{Outcome, RecipeError};
use crate::recipe::Output;

/// How predictions are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// The mean of the networks' outputs, before activations.
    #[default]
    Logits,
    /// The mean of probabilities.
    Probabilities,
    /// Each voxel has the class that most networks decide for, the lowest of equal ones; a region,
    /// where more than half of them do.
    Vote,
    /// STAPLE of what they decide, each class or region by itself; the likeliest class wins.
    Staple,
}

/// A map of how much the members of an ensemble differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// Of the mean of their probabilities, in nats: 0 where it is certain.
    Entropy,
    /// Of their probabilities over the members, as the mean over the classes or regions.
    Variance,
}

impl Disagreement {
    /// The end of its file's name.
    pub fn word(self) -> &'static str {
        match self {
            Disagreement::Entropy => "entropy",
            Disagreement::Variance => "variance",
        }
    }
}

/// How runs are merged.
#[derive(Clone, Debug, Default)]
pub struct Merging {
    /// Which operation.
    pub how: Merge,
    /// For a mean: one for each run, or for each run and channel, run by run. They need not sum to
    /// 1.
    pub weights: Option<Vec<f64>>,
    /// Maps of how much they differ.
    pub maps: Vec<Disagreement>,
}

/// The runs beside the first one, and how they are merged with it.
pub struct Ensemble {
    others: Vec<AnyNetwork>,
    merging: Merging,
    /// Names and checkpoints of all runs.
    members: Vec<String>,
}

impl Ensemble {
    /// Names and checkpoints of all runs.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// The maps that were asked for.
    pub fn maps(&self) -> &[Disagreement] {
        &self.merging.maps
    }
}

/// What an ensemble says of an input.
pub(super) struct Merged {
    /// Probabilities of classes or regions, numbers, or an image.
    pub likely: Tensor<5>,
    /// The maps that were asked for, of one channel.
    pub maps: Vec<(&'static str, Tensor<5>)>,
}

impl Trained {
    /// Merges runs, each with its name, into the first one.
    ///
    /// # Errors
    /// Where there is none; where two of them differ in labels, channels, the transforms of an
    /// image, inferer or post-processing; where the weights do not fit; for a vote or STAPLE of
    /// anything but label maps.
    pub fn merged(runs: Vec<(String, Trained)>, merging: Merging) -> Outcome<Self> {
        let mut runs = runs.into_iter();
        let (name, mut first) = runs.next().ok_or_else(|| RecipeError::new("an ensemble needs at least one run"))?;
        let (mut members, mut others) = (vec![format!("{name}: {}", first.checkpoint)], Vec::new());
        for (other_name, other) in runs {
            check_alike((&name, &first), (&other_name, &other))?;
            members.push(format!("{other_name}: {}", other.checkpoint));
            others.push(other.network);
        }
        let output = first.plan.recipe.output();
        if !output.is_map() && (matches!(merging.how, Merge::Vote | Merge::Staple) || !merging.maps.is_empty()) {
            let what = "a vote, STAPLE and maps of disagreement are of label maps; these runs predict none";
            return Err(RecipeError::new(format!("{what}: take their mean")));
        }
        if let Some(weights) = &merging.weights {
            let (count, [_, channels]) = (members.len(), first.network.channels());
            if !matches!(merging.how, Merge::Logits | Merge::Probabilities) {
                return Err(RecipeError::new("weights are for a mean; a vote and STAPLE take none"));
            }
            if weights.len() != count && weights.len() != count * channels {
                let given = weights.len();
                return Err(RecipeError::new(format!(
                    "{given} weights for {count} runs of {channels} channels: give one for each run, or for each run and \
                     channel"
                )));
            }
            let sums = (0..weights.len() / count)
                .map(|at| weights.iter().skip(at).step_by(weights.len() / count).sum::<f64>());
            if weights.iter().any(|weight| !weight.is_finite()) || sums.into_iter().any(|sum| sum == 0.0) {
                return Err(RecipeError::new(format!("weights {weights:?} must be finite, and must not sum to 0")));
            }
        }
        first.ensemble = Some(Ensemble { others, merging, members });
        Ok(first)
    }

    /// Prediction and label of a case as metrics compare them, on the network's grid: after the
    /// chains of `[post]`.
    ///
    /// # Errors
    /// A file that cannot be read, or an image that does not suit the network.
    pub fn compared(&self, item: &Item) -> Outcome<(Image, Image)> {
        let mut samples = self.plan.validation.run_deterministic(item.sample())?;
        let mut sample = samples.pop().ok_or_else(|| RecipeError::new("the pipeline returned nothing"))?;
        let image = sample.take_image("image")?.to_device(&self.plan.device);
        let label = label_of(sample, &image)?.to_device(&self.plan.device);
        let steps = self.plan.post_prediction()?;
        let input: Tensor<5> = image.data.clone().unsqueeze_dim(0);
        let likely = self.likely(&steps, input)?.likely;
        let pred = Image { data: likely.squeeze_dim(0), ..image };
        let wrong = |error: hearth_engine::BoxError| RecipeError::new(error.to_string());
        let rest = steps.iter().skip_while(|step| matches!(step, Post::Activations(_)));
        let pred = Post::finish(rest, pred, &item.case).map_err(wrong)?;
        let label = Post::finish(&self.plan.post_label()?, label, &item.case).map_err(wrong)?;
        Ok((pred, label))
    }

    /// What the networks of an ensemble say of an input. Each window goes through all of them
    /// before the next one is read, so there are the activations of one network at a time. A mean
    /// of logits keeps one map; all else keeps a map of each network until they are merged.
    pub(super) fn merge(&self, ensemble: &Ensemble, steps: &[Post], input: Tensor<5>) -> Outcome<Merged> {
        let Ensemble { others, merging, .. } = ensemble;
        let Merging { how, weights, maps } = merging;
        let weights = weights.as_deref();
        let at_once = *how == Merge::Logits && maps.is_empty();
        let problem: RefCell<Option<RecipeError>> = RefCell::new(None);
        let windows = Windows::new(self.plan.progress);
        let forward = |x: Tensor<5>| {
            let pass = || -> Outcome<Tensor<5>> {
                let networks = std::iter::once(&self.network).chain(others);
                let outputs = networks.map(|network| {
                    network.check_input(x.dims())?;
                    Ok(network.forward(x.clone()).cast(DType::F32))
                });
                let outputs = outputs.collect::<Outcome<Vec<Tensor<5>>>>()?;
                windows.step();
                match at_once {
                    true => mean_ensemble(&outputs, weights).map_err(RecipeError::from_error),
                    false => Ok(Tensor::cat(outputs, 1)),
                }
            };
            pass().unwrap_or_else(|error| {
                // The closure must return a tensor; its value is ignored.
                problem.borrow_mut().get_or_insert(error);
                x
            })
        };
        let output = self.inferer.infer(input, &forward);
        if let Some(error) = problem.into_inner() {
            return Err(error);
        }
        let output = output?;
        if at_once {
            return Ok(Merged { likely: self.probabilities(steps, output)?, maps: Vec::new() });
        }
        let each = output.chunk(others.len() + 1, 1);
        let probable = each.iter().map(|logits| self.probabilities(steps, logits.clone()));
        let probable = probable.collect::<Outcome<Vec<Tensor<5>>>>()?;
        let likely = match how {
            Merge::Logits => {
                self.probabilities(steps, mean_ensemble(&each, weights).map_err(RecipeError::from_error)?)?
            }
            Merge::Probabilities => mean_ensemble(&probable, weights).map_err(RecipeError::from_error)?,
            Merge::Vote => vote(self.plan.recipe.output(), steps, &probable)?,
            Merge::Staple => estimated(&decided(self.plan.recipe.output(), steps, &probable)?)?,
        };
        let exclusive = self.plan.recipe.output() == Output::Labels;
        let maps = maps.iter().map(|map| Ok((map.word(), differing(*map, exclusive, &probable)?)));
        Ok(Merged { likely, maps: maps.collect::<Outcome<_>>()? })
    }
}

/// Two runs as an ensemble takes them: the same image goes into both, and the same classes come
/// out.
fn check_alike((name, first): (&str, &Trained), (other_name, other): (&str, &Trained)) -> Outcome {
    let differ = |what: &str, one: String, two: String| {
        let advice = "an ensemble takes runs that see the same image and predict the same";
        Err(RecipeError::new(format!("{name} and {other_name} differ in {what}: {one} and {two}; {advice}")))
    };
    let (a, b) = (&first.plan, &other.plan);
    if a.recipe.labels != b.recipe.labels {
        return differ("their labels", a.recipe.labels.join(", "), b.recipe.labels.join(", "));
    }
    if a.recipe.output() != b.recipe.output() {
        let word = |plan: &Plan| format!("{:?}", plan.recipe.output()).to_lowercase();
        return differ("what they predict", word(a), word(b));
    }
    let (one, two) = (first.network.channels(), other.network.channels());
    if one != two {
        let words = |[taken, made]: [usize; 2]| format!("{taken} in, {made} out");
        return differ("the network's channels", words(one), words(two));
    }
    if a.recipe.data.images != b.recipe.data.images {
        return differ("data.images", a.recipe.data.images.join(", "), b.recipe.data.images.join(", "));
    }
    let (one, two) = (a.prediction.describe(), b.prediction.describe());
    if let Some((what, one, two)) = first_difference(&one, &two) {
        return differ(&what, one, two);
    }
    let (one, two) = (&a.recipe.inferer, &b.recipe.inferer);
    if one != two {
        let text = |inferer| toml::to_string(inferer).unwrap_or_default().trim().replace('\n', ", ");
        return differ("the inferer", text(one), text(two));
    }
    if a.recipe.post.prediction != b.recipe.post.prediction {
        let text = |plan: &Plan| {
            plan.recipe.post.prediction.iter().map(|step| step.to_toml().to_string()).collect::<Vec<_>>().join(", ")
        };
        return differ("post.prediction", text(a), text(b));
    }
    Ok(())
}

/// The first step, and parameter of it, in which two pipelines differ, with both values.
fn first_difference(one: &serde_json::Value, two: &serde_json::Value) -> Option<(String, String, String)> {
    let steps = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let (one, two) = (steps(one), steps(two));
    let name = |step: Option<&serde_json::Value>| {
        step.map_or("nothing".to_owned(), |step| step["name"].as_str().map_or_else(|| step.to_string(), str::to_owned))
    };
    let place = (0..one.len().max(two.len())).find(|place| one.get(*place) != two.get(*place))?;
    let (a, b) = (one.get(place), two.get(place));
    if let (Some(serde_json::Value::Object(a)), Some(serde_json::Value::Object(b))) = (a, b)
        && a.get("name") == b.get("name")
        && let Some(key) = a.keys().chain(b.keys()).find(|key| a.get(*key) != b.get(*key))
    {
        let text = |step: &serde_json::Map<String, serde_json::Value>| {
            step.get(key).map_or_else(|| "nothing".to_owned(), ToString::to_string)
        };
        return Some((format!("`{key}` of {}", name(one.get(place))), text(a), text(b)));
    }
    Some((format!("transform {}", place + 1), name(a), name(b)))
}

/// A case's label as an image: a map, or its numbers as channels of one voxel.
fn label_of(mut sample: Sample, image: &Image) -> Outcome<Image> {
    let numbers = match sample.get("label")? {
        Value::Number(number) => vec![*number as f32],
        Value::Numbers(numbers) => numbers.iter().map(|number| *number as f32).collect(),
        _ => return Ok(sample.take_image("label")?),
    };
    let shape = [numbers.len(), 1, 1, 1];
    let data = Tensor::<4>::from_data(TensorData::new(numbers, shape), &image.data.device());
    Ok(Image { data, affine: image.affine, meta: image.meta.clone() })
}

/// What each member decides: a channel of 0 and 1 for each class or region.
fn decided(output: Output, steps: &[Post], probable: &[Tensor<5>]) -> Outcome<Vec<Tensor<5>>> {
    let decide = |x: &Tensor<5>| match output {
        Output::Labels => Ok(one_hot(classes(x), x.dims()[1])),
        _ => steps.iter().try_fold(x.clone(), |x, step| match step {
            Post::AsDiscrete(step) => Ok(step.apply(x)?),
            _ => Ok(x),
        }),
    };
    probable.iter().map(decide).collect()
}

/// The class of the largest channel.
fn classes(x: &Tensor<5>) -> Tensor<5> {
    x.clone().argmax(1).float().cast(DType::F32)
}

fn vote(output: Output, steps: &[Post], probable: &[Tensor<5>]) -> Outcome<Tensor<5>> {
    let count = probable.first().map_or(0, |x| x.dims()[1]);
    let merged = match output {
        Output::Labels => {
            let maps: Vec<Tensor<5>> = probable.iter().map(classes).collect();
            vote_ensemble(&maps, Some(count)).map(|map| one_hot(map, count))
        }
        _ => vote_ensemble(&decided(output, steps, probable)?, None),
    };
    merged.map_err(RecipeError::from_error)
}

/// STAPLE's probability of each channel.
fn estimated(decided: &[Tensor<5>]) -> Outcome<Tensor<5>> {
    let first = decided.first().ok_or_else(|| RecipeError::new("an ensemble needs at least one run"))?;
    let ([batch, channels, x, y, z], device) = (first.dims(), first.device());
    let mut likely = Vec::with_capacity(channels);
    for channel in 0..channels {
        let marked = |member: &Tensor<5>| {
            let one = member.clone().narrow(1, channel, 1).into_data();
            one.iter::<f32>().map(|value| value > 0.5).collect::<Vec<bool>>()
        };
        let raters: Vec<Vec<bool>> = decided.iter().map(marked).collect();
        let raters: Vec<&[bool]> = raters.iter().map(Vec::as_slice).collect();
        let found = staple(&raters).map_err(RecipeError::from_error)?;
        let values: Vec<f32> = found.probability.into_iter().map(|value| value as f32).collect();
        likely.push(Tensor::<5>::from_data(TensorData::new(values, [batch, 1, x, y, z]), &device));
    }
    Ok(Tensor::cat(likely, 1))
}

/// A map of one channel.
fn differing(map: Disagreement, exclusive: bool, probable: &[Tensor<5>]) -> Outcome<Tensor<5>> {
    let mean = mean_ensemble(probable, None).map_err(RecipeError::from_error)?;
    // x ln x, 0 for 0.
    let part = |x: Tensor<5>| x.clone() * x.clamp_min(1e-30).log();
    Ok(match map {
        Disagreement::Entropy if exclusive => -part(mean).sum_dim(1),
        Disagreement::Entropy => -(part(mean.clone()) + part(-mean + 1.0)).mean_dim(1),
        Disagreement::Variance => {
            let squares: Vec<Tensor<5>> = probable.iter().map(|x| (x.clone() - mean.clone()).square()).collect();
            mean_ensemble(&squares, None).map_err(RecipeError::from_error)?.mean_dim(1)
        }
    })
}
