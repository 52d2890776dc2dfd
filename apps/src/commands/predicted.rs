//! What `hearth predict --picture` draws beside a prediction.

use std::collections::HashMap;
use std::path::PathBuf;

use hearth_data::{Field, Image, Item, Pipeline, RecipeOptions, Sample};
use hearth_train::Post;

use crate::error::{Context, Failure, Outcome};
use crate::note;
use crate::picture::{Canvas, Subject, classification, labels, reconstruction, regions, regression};
use crate::recipe::{Output, Recipe};
use crate::run::inputs::{Input, labelled};
use crate::run::{Segmented, Trained};

/// Draws predictions of a run: a function for each kind of output.
pub struct Pictures<'a> {
    trained: &'a Trained,
    /// Reads an image and leaves it on its own grid.
    reading: Pipeline,
    /// What is drawn black and white.
    window: Option<(f32, f32)>,
    /// Cases whose truth is known, by name.
    known: HashMap<String, Item>,
}

impl<'a> Pictures<'a> {
    /// Those of a run, for these arguments of `--image`.
    pub fn new(trained: &'a Trained, given: &[PathBuf]) -> Outcome<Self> {
        let recipe = &trained.plan.recipe;
        let known = given.iter().flat_map(|path| labelled(path, recipe)).map(|item| (item.case.clone(), item));
        Ok(Self { trained, reading: reading(recipe)?, window: window(recipe), known: known.collect() })
    }

    /// The picture of a volume that was predicted: classes, regions or an image.
    pub fn of_map(&self, input: &Input, found: &Segmented) -> Outcome<Canvas> {
        match found.output {
            Output::Labels | Output::Regions => self.outlines(input, found),
            Output::Image => self.image(input, found),
            Output::Scores => Err(Failure::new("numbers of a whole image are no map")),
        }
    }

    /// The picture of numbers of a whole image.
    pub fn of_scores(&self, input: &Input, scores: &[f32]) -> Outcome<Canvas> {
        let recipe = &self.trained.plan.recipe;
        let (image, names) = (self.read(input)?, &recipe.labels);
        let title = self.title(input);
        let subject = Subject { title: &title, image: &image, window: self.window };
        let truth = self.item(input).and_then(|item| item.fields.get("label"));
        if !recipe.learns().gives_probabilities() {
            let truth = match truth {
                Some(Field::Numbers(numbers)) => Some(numbers.as_slice()),
                _ => None,
            };
            return Ok(regression(&subject, names, scores, truth));
        }
        let truth: Option<Vec<bool>> = match truth {
            Some(Field::Number(class)) => Some((0..names.len()).map(|index| index as f64 == *class).collect()),
            Some(Field::Numbers(flags)) => Some(flags.iter().map(|flag| *flag > 0.5).collect()),
            _ => None,
        };
        Ok(classification(&subject, names, scores, truth.as_deref()))
    }

    fn outlines(&self, input: &Input, found: &Segmented) -> Outcome<Canvas> {
        let image = self.read(input)?;
        if image.shape() != found.image.shape() {
            let (image, map) = (image.shape(), found.image.shape());
            return Err(Failure::new(format!("the image has {image:?} voxels as it is read, the prediction {map:?}")));
        }
        let title = self.title(input);
        let subject = Subject { title: &title, image: &image, window: self.window };
        let truth = self.truth(input, |item| self.map_of(item, found));
        let names = &self.trained.plan.recipe.labels;
        Ok(match found.output {
            Output::Regions => regions(&subject, names, &found.image, truth.as_ref()),
            _ => labels(&subject, names, &found.image, truth.as_ref()),
        })
    }

    /// In the units of the network, which are those of its output.
    fn image(&self, input: &Input, found: &Segmented) -> Outcome<Canvas> {
        let plan = &self.trained.plan;
        let seen = only(plan.prediction.run_deterministic(input.sample())?)?.take_image("image")?;
        let on_own_grid = |image: Image| -> Outcome<Image> {
            let like = image.clone();
            Ok(plan.prediction.invert(image, &like, false)?)
        };
        // An output of another size lies over the input as the network sees it.
        let own = on_own_grid(seen.clone())?;
        let image = if own.shape() == found.image.shape() { own } else { seen };
        let title = self.title(input);
        let subject = Subject { title: &title, image: &image, window: None };
        let truth = self.truth(input, |item| {
            let label = only(plan.validation.run_deterministic(item.sample())?)?.take_image("label")?;
            if label.shape() == found.image.shape() { Ok(label) } else { on_own_grid(label) }
        });
        Ok(reconstruction(&subject, &found.image, truth.as_ref()))
    }

    /// The label of a case as its prediction is: classes, or a channel for each region.
    fn map_of(&self, item: &Item, found: &Segmented) -> Outcome<Image> {
        let plan = &self.trained.plan;
        let label = only(plan.label.run_deterministic(item.sample())?)?.take_image("label")?;
        let label = match found.output {
            Output::Regions => Post::finish(&plan.post_label()?, label.to_device(&plan.device), &item.case)
                .map_err(|error| Failure::new(error.to_string()))?,
            _ => label,
        };
        let size = |image: &Image| (image.channels(), image.shape());
        if size(&label) != size(&found.image) {
            let (label, map) = (size(&label), size(&found.image));
            return Err(Failure::new(format!(
                "it has {} channels of {:?} voxels, the prediction {} of {:?}",
                label.0, label.1, map.0, map.1
            )));
        }
        Ok(label)
    }

    /// What is true of a case. A truth that cannot be read is reported, and the picture does
    /// without it: the prediction needs none.
    fn truth(&self, input: &Input, read: impl FnOnce(&Item) -> Outcome<Image>) -> Option<Image> {
        let item = self.item(input)?;
        match read(item) {
            Ok(image) => Some(image),
            Err(failure) => {
                note!("{}: the picture lacks the label: {}", item.case, failure.line());
                None
            }
        }
    }

    fn item(&self, input: &Input) -> Option<&Item> {
        let folder = match input {
            Input::Case(item) => return self.known.get(&item.case),
            Input::Series(found) => &found.folder,
            Input::File(path) => path,
        };
        self.known.values().find(|item| item.files.get("image") == Some(folder))
    }

    fn read(&self, input: &Input) -> Outcome<Image> {
        let doing = || format!("the picture of {}", input.name());
        let sample = only(self.reading.run_deterministic(input.sample()).while_doing(doing)?)?;
        Ok({ sample }.take_image("image")?)
    }

    fn title(&self, input: &Input) -> String {
        format!("{}   {}", input.parent().join(input.stem()).display(), self.trained.plan.recipe.title())
    }
}

pub fn only(mut samples: Vec<Sample>) -> Outcome<Sample> {
    samples.pop().ok_or_else(|| Failure::new("the pipeline gave nothing"))
}

/// The steps of a recipe that read an image.
pub fn reading(recipe: &Recipe) -> Outcome<Pipeline> {
    let known = ["LoadImage", "EnsureChannelFirst", "EnsureType", "SqueezeDim"];
    let reads = |name: &str| known.contains(&name.strip_suffix('d').unwrap_or(name));
    let mut tables = recipe.transforms.clone();
    tables.retain_mut(|table| {
        table.remove("batch");
        let only = table.remove("only");
        only.as_ref().and_then(|only| only.as_str()) != Some("train") && table.text("name").is_some_and(reads)
    });
    let options = RecipeOptions { keys: Some(vec!["image".to_owned()]), ..RecipeOptions::default() };
    Ok(Pipeline::from_nodes_with(&tables, &options)?)
}

/// The range of values that a recipe scales its images from, where it names one.
pub fn window(recipe: &Recipe) -> Option<(f32, f32)> {
    let scales = |name: &str| name.strip_suffix('d').unwrap_or(name) == "ScaleIntensityRange";
    let table = recipe.transforms.iter().find(|table| table.text("name").is_some_and(scales))?;
    let number = |key: &str| match table.get(key)?.to_toml() {
        toml::Value::Float(value) => Some(value as f32),
        toml::Value::Integer(value) => Some(value as f32),
        _ => None,
    };
    Some((number("a_min")?, number("a_max")?)).filter(|(low, high)| low < high)
}
