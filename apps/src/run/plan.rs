//! A recipe made ready: device, precision, pipelines, all checked before anything runs.

use std::sync::Arc;

use burn::tensor::Device;
use hearth_data::{Pipeline, RecipeError, RecipeOptions};
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_train::{Post, Precision, TestTimeAugmentation, device};
use toml::Spanned;

use crate::error::{Failure, Outcome};
use crate::recipe::{Document, PrecisionWord, Recipe, post, suggest};

/// What a recipe asks for, checked.
pub struct Plan {
    /// The recipe's text, for errors.
    pub document: Document,
    /// What it says; the precision is no longer `auto`.
    pub recipe: Recipe,
    /// Where it runs.
    pub device: Device,
    /// Whether that is this machine's processor.
    pub on_processor: bool,
    /// The precision.
    pub precision: Precision,
    /// The training chain.
    pub training: Arc<Pipeline>,
    /// The same without what is random and what is for training only.
    pub validation: Arc<Pipeline>,
    /// The same without the label.
    pub prediction: Arc<Pipeline>,
}

/// Which chain of a recipe.
#[derive(Clone, Copy, PartialEq)]
enum Chain {
    Training,
    Validation,
    Prediction,
}

impl Plan {
    /// Reads the recipe, opens the device, checks the pipelines.
    pub fn new(document: Document) -> Outcome<Self> {
        let mut recipe = Recipe::read(&document)?;
        let device = device::parse(&recipe.training.device)
            .map_err(|error| document.error_at("training.device", error.to_string()))?;
        let on_processor = device.clone() == device::parse("cpu").unwrap_or_default();
        let precision = match recipe.training.precision {
            PrecisionWord::Fp32 => Precision::Fp32,
            PrecisionWord::Bf16 => Precision::Bf16,
            PrecisionWord::Fp16 => Precision::Fp16,
            PrecisionWord::Auto if on_processor => Precision::Fp32,
            PrecisionWord::Auto => Precision::Fp16,
        };
        precision.check(&device).map_err(|error| document.error_at("training.precision", error.to_string()))?;
        recipe.training.precision = match precision {
            Precision::Fp32 => PrecisionWord::Fp32,
            Precision::Bf16 => PrecisionWord::Bf16,
            Precision::Fp16 => PrecisionWord::Fp16,
        };
        let (training, places) = pipeline(&document, &recipe, &device, Chain::Training, &[])?;
        // What is random, as the transforms themselves say: a `Range` around one is random too.
        let steps = places.iter().zip(training.steps());
        let random: Vec<usize> = steps.filter(|(_, step)| step.is_random()).map(|(place, _)| *place).collect();
        let (validation, _) = pipeline(&document, &recipe, &device, Chain::Validation, &random)?;
        let (prediction, _) = pipeline(&document, &recipe, &device, Chain::Prediction, &random)?;
        let plan = Self { document, recipe, device, on_processor, precision, training, validation, prediction };
        plan.post_prediction()?;
        plan.post_label()?;
        plan.augmentation()?;
        Ok(plan)
    }

    /// The recipe's test-time augmentation around its inferer.
    pub fn augmentation(&self) -> Outcome<Option<TestTimeAugmentation>> {
        let Recipe { tta, inferer, training, .. } = &self.recipe;
        tta.build(&self.document, inferer.build(), training.seed)
    }

    /// What is made of a prediction.
    pub fn post_prediction(&self) -> Outcome<Vec<Post>> {
        post::steps(&self.document, "prediction", &self.recipe.post.prediction)
    }

    /// What is made of a label before the metric sees it.
    pub fn post_label(&self) -> Outcome<Vec<Post>> {
        post::steps(&self.document, "label", &self.recipe.post.label)
    }

    /// The network with its first weights, on a device of the caller's.
    pub fn network(&self, device: &Device) -> Outcome<AnyNetwork> {
        let init = self.recipe.network.init(device, self.recipe.training.seed);
        let network = init.map_err(|error| self.document.error_at("network", error.to_string()))?;
        let ([_, out], classes) = (network.channels(), self.recipe.labels.len());
        if out != classes {
            let message = format!("the network gives out_channels = {out}, but there are {classes} labels");
            return Err(self.document.error_at("network.out_channels", message));
        }
        Ok(network)
    }
}

/// The transforms of one chain, and which entries of the recipe they are.
fn pipeline(
    document: &Document,
    recipe: &Recipe,
    device: &Device,
    chain: Chain,
    random: &[usize],
) -> Outcome<(Arc<Pipeline>, Vec<usize>)> {
    let mut tables = Vec::new();
    let mut places = Vec::new();
    for (index, transform) in recipe.transforms.iter().enumerate() {
        let mut table = transform.clone();
        let only = table.remove("only");
        let only = only.as_ref().and_then(toml::Value::as_str);
        let wanted = match chain {
            Chain::Training => only != Some("validation"),
            Chain::Validation | Chain::Prediction => only != Some("train") && !random.contains(&index),
        };
        if wanted {
            tables.push(Spanned::new(0..0, table));
            places.push(index);
        }
    }
    check_each_case(recipe, &mut tables, &mut places);
    let keys = (chain == Chain::Prediction).then(|| vec!["image".to_owned()]);
    let options = RecipeOptions {
        device: Some(device.clone()),
        keys,
        lazy: recipe.data.lazy,
        lazy_sampling: recipe.data.lazy_sampling.clone(),
    };
    let pipeline = Pipeline::from_toml_with(&tables, &options)
        .map_err(|error| locate(document, &error, table_at(&places, &error).as_deref()))?;
    Ok((Arc::new(pipeline), places))
}

/// Puts a `CheckCase` behind the steps that read a case, unless the recipe has one of its own: a label that belongs to
/// another image, or to other classes, would train without a complaint and measure nonsense.
fn check_each_case(recipe: &Recipe, tables: &mut Vec<Spanned<toml::Table>>, places: &mut Vec<usize>) {
    let name =
        |table: &Spanned<toml::Table>| table.get_ref().get("name").and_then(toml::Value::as_str).map(str::to_owned);
    let names: Vec<String> = tables.iter().filter_map(name).collect();
    let reading = names.iter().take_while(|name| matches!(name.as_str(), "LoadImage" | "EnsureChannelFirst")).count();
    if reading == 0 || names.iter().any(|name| name == "CheckCase") {
        return;
    }
    let mut table = toml::Table::new();
    table.insert("name".into(), "CheckCase".into());
    table.insert("num_classes".into(), (recipe.labels.len() as i64).into());
    table.insert("channels".into(), (recipe.network.in_channels() as i64).into());
    tables.insert(reading, Spanned::new(0..0, table));
    places.insert(reading, places[reading - 1]);
}

/// The table of `transforms` that an error is about.
pub fn table_at(places: &[usize], error: &RecipeError) -> Option<String> {
    places.get(error.step.saturating_sub(1)).map(|index| format!("transforms.{index}"))
}

/// A pipeline's error, at its place in the recipe: that of a transform's table.
pub fn locate(document: &Document, error: &RecipeError, place: Option<&str>) -> Failure {
    let Some(place) = place else { return Failure::new(error.to_string()) };
    let path = match &error.parameter {
        Some(parameter) => format!("{place}.{parameter}"),
        None => place.to_owned(),
    };
    let table = document.find(place);
    // A misspelt key is pointed at itself, everything else at its value.
    let misspelt = error.suggestion.as_ref().zip(error.parameter.as_ref());
    if let Some((meant, written)) = misspelt.filter(|_| error.message.starts_with("unknown field"))
        && let Some(entry) = table.entries().iter().find(|entry| entry.key == *written)
    {
        return document.error(&entry.origin, format!("unknown key {written:?}, did you mean {meant:?}?"));
    }
    if error.transform.is_none() && error.parameter.as_deref() == Some("name") {
        let names: Vec<&str> = hearth_data::transform_names().collect();
        return document.error_at(&path, suggest::unknown("transform", table.text("name").unwrap_or(""), &names));
    }
    let name = error.transform.as_deref().unwrap_or("transform");
    let hint = error.suggestion.as_ref().map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
    document.error_at(&path, format!("{name}: {}{hint}", error.message))
}
