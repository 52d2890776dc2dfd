//! The pictures of `--picture` for predictions.

use std::collections::HashMap;
use std::path::PathBuf;

use hearth_data::{Field, Image, Item, Pipeline, RecipeOptions, Sample};
use hearth_recipe::recipe::{Output, Recipe};
use hearth_recipe::{Context, Outcome, RecipeError, notice};
use hearth_train::Post;

use crate::cases::{Case, labelled};
use crate::model::{Card, Kind, Model, PredictedMap, Prediction};
use crate::picture::{Canvas, Subject, classification, labels, reconstruction, regions, regression};
use crate::run::trained::Trained;
use crate::slides::picture::SlidePictures;

/// Draws the predictions of a model.
pub enum Pictures<'a> {
    /// The pictures of a run, with the truth if a data set has it.
    Run(Box<RunPictures<'a>>),
    /// The pictures of any other model: labels over the image of the file.
    Plain(&'a Card),
    /// Maps over their slides.
    Slides(SlidePictures<'a>),
}

impl<'a> Pictures<'a> {
    /// The pictures of a model, for these arguments of `-i`.
    ///
    /// # Errors
    /// A recipe whose images cannot be read without its other steps.
    pub fn new(model: &'a dyn Model, given: &[PathBuf]) -> Outcome<Self> {
        let card = model.card();
        Ok(match model.as_run() {
            run if card.kind == Kind::SlideMap => {
                Pictures::Slides(SlidePictures::new(card, run.map(|trained| &trained.plan.recipe)))
            }
            Some(trained) => Pictures::Run(Box::new(RunPictures::new(trained, given)?)),
            None => Pictures::Plain(card),
        })
    }

    /// The picture of a prediction as PNG.
    ///
    /// # Errors
    /// An image that cannot be read again.
    pub fn png(&self, case: &Case, prediction: &Prediction) -> Outcome<Vec<u8>> {
        let canvas = match (self, prediction) {
            (Pictures::Run(run), Prediction::Scores(scores)) => run.of_scores(case, &scores.values)?,
            (Pictures::Run(run), Prediction::Map(map)) => run.of_map(case, &map.image()?)?,
            (Pictures::Plain(card), Prediction::Map(map)) => plain(card, case, &**map)?,
            (Pictures::Plain(card), Prediction::Scores(scores)) => {
                let (image, title) = (case.read_image()?, card.title.clone());
                let subject = Subject { title: &title, image: &image, window: None };
                let names: Vec<String> = card.labels.iter().map(|label| label.name.clone()).collect();
                classification(&subject, &names, &scores.values, None)
            }
            (Pictures::Slides(slides), Prediction::SlideMap(map)) => slides.draw(case, map)?,
            (Pictures::Slides(_), _) | (_, Prediction::SlideMap(_)) => {
                return Err(RecipeError::new("pictures of slides are drawn of maps of slides"));
            }
        };
        canvas
            .png()
            .map_err(RecipeError::from_error)
            .while_doing(|| format!("cannot draw the picture of {}", case.name()))
    }
}

/// The labels of a model over the image of a case.
fn plain(card: &Card, case: &Case, map: &dyn PredictedMap) -> Outcome<Canvas> {
    let (image, map) = (case.read_image()?, map.image()?);
    if image.shape() != map.shape() {
        let (image, map) = (image.shape(), map.shape());
        return Err(RecipeError::new(format!("the image has {image:?} voxels as it is read, the prediction {map:?}")));
    }
    let title = format!("{}   {}", case.parent().join(case.stem()).display(), card.title);
    let subject = Subject { title: &title, image: &image, window: None };
    // Names by the value of the label.
    let most = card.labels.iter().map(|label| label.value as usize).max().unwrap_or(0);
    let mut names = vec![String::new(); most + 1];
    card.labels.iter().for_each(|label| names[label.value as usize].clone_from(&label.name));
    Ok(match card.kind {
        Kind::Regions => regions(&subject, &names[1..], &map, None),
        Kind::Labels => labels(&subject, &names, &map, None),
        _ => reconstruction(&subject, &map, None),
    })
}

/// Draws predictions of a run, with one function for each kind of output.
pub struct RunPictures<'a> {
    trained: &'a Trained,
    /// Reads an image on its own grid.
    reading: Pipeline,
    /// The values that are drawn black and white.
    window: Option<(f32, f32)>,
    /// Cases with known truth, by name.
    known: HashMap<String, Item>,
}

impl<'a> RunPictures<'a> {
    /// The pictures of a run, for these arguments of `--image`.
    pub fn new(trained: &'a Trained, given: &[PathBuf]) -> Outcome<Self> {
        let recipe = &trained.plan.recipe;
        let known = given.iter().flat_map(|path| labelled(path, recipe)).map(|item| (item.case.clone(), item));
        Ok(Self { trained, reading: reading(recipe)?, window: window(recipe), known: known.collect() })
    }

    /// Draws a predicted volume: classes, regions or an image.
    pub fn of_map(&self, case: &Case, found: &Image) -> Outcome<Canvas> {
        match self.trained.plan.recipe.output() {
            Output::Labels | Output::Regions => self.outlines(case, found),
            Output::Image => self.image(case, found),
            Output::Scores => Err(RecipeError::new("numbers of a whole image are no map")),
        }
    }

    /// Draws numbers of a whole image.
    pub fn of_scores(&self, case: &Case, scores: &[f32]) -> Outcome<Canvas> {
        let recipe = &self.trained.plan.recipe;
        let (image, names) = (self.read(case)?, &recipe.labels);
        let title = self.title(case);
        let subject = Subject { title: &title, image: &image, window: self.window };
        let truth = self.item(case).and_then(|item| item.fields.get("label"));
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

    fn outlines(&self, case: &Case, found: &Image) -> Outcome<Canvas> {
        let image = self.read(case)?;
        if image.shape() != found.shape() {
            let (image, map) = (image.shape(), found.shape());
            return Err(RecipeError::new(format!(
                "the image has {image:?} voxels as it is read, the prediction {map:?}"
            )));
        }
        let title = self.title(case);
        let subject = Subject { title: &title, image: &image, window: self.window };
        let truth = self.truth(case, |item| self.map_of(item, found));
        let names = &self.trained.plan.recipe.labels;
        Ok(match self.trained.plan.recipe.output() {
            Output::Regions => regions(&subject, names, found, truth.as_ref()),
            _ => labels(&subject, names, found, truth.as_ref()),
        })
    }

    /// Draws a predicted image in the units of the network, which are those of its output.
    fn image(&self, case: &Case, found: &Image) -> Outcome<Canvas> {
        let plan = &self.trained.plan;
        let seen = only(plan.prediction.run_deterministic(case.sample())?)?.take_image("image")?;
        let on_own_grid = |image: Image| -> Outcome<Image> {
            let like = image.clone();
            Ok(plan.prediction.invert(image, &like, false)?)
        };
        // An output of another size lies over the input as the network sees it.
        let own = on_own_grid(seen.clone())?;
        let image = if own.shape() == found.shape() { own } else { seen };
        let title = self.title(case);
        let subject = Subject { title: &title, image: &image, window: None };
        let truth = self.truth(case, |item| {
            let label = only(plan.validation.run_deterministic(item.sample())?)?.take_image("label")?;
            if label.shape() == found.shape() { Ok(label) } else { on_own_grid(label) }
        });
        Ok(reconstruction(&subject, found, truth.as_ref()))
    }

    /// The label of a case in the form of its prediction: classes, or a channel for each region.
    fn map_of(&self, item: &Item, found: &Image) -> Outcome<Image> {
        let plan = &self.trained.plan;
        let label = only(plan.label.run_deterministic(item.sample())?)?.take_image("label")?;
        let label = match self.trained.plan.recipe.output() {
            Output::Regions => Post::finish(&plan.post_label()?, label.to_device(&plan.device), &item.case)
                .map_err(|error| RecipeError::new(error.to_string()))?,
            _ => label,
        };
        let size = |image: &Image| (image.channels(), image.shape());
        if size(&label) != size(found) {
            let (label, map) = (size(&label), size(found));
            return Err(RecipeError::new(format!(
                "it has {} channels of {:?} voxels, the prediction {} of {:?}",
                label.0, label.1, map.0, map.1
            )));
        }
        Ok(label)
    }

    /// The truth of a case. A truth that cannot be read is reported, and the picture is drawn
    /// without it: the prediction does not need it.
    fn truth(&self, case: &Case, read: impl FnOnce(&Item) -> Outcome<Image>) -> Option<Image> {
        let item = self.item(case)?;
        match read(item) {
            Ok(image) => Some(image),
            Err(error) => {
                notice!("{}: the picture lacks the label: {}", item.case, error.line());
                None
            }
        }
    }

    fn item(&self, case: &Case) -> Option<&Item> {
        let folder = match case {
            Case::Item(item) => return self.known.get(&item.case),
            Case::Series(found) => &found.folder,
            Case::File(path) | Case::Below(path, _) | Case::Slide(path) | Case::Refused(path, _) => path,
        };
        self.known.values().find(|item| item.files.get("image") == Some(folder))
    }

    fn read(&self, case: &Case) -> Outcome<Image> {
        let doing = || format!("the picture of {}", case.name());
        let sample = only(self.reading.run_deterministic(case.sample()).while_doing(doing)?)?;
        Ok({ sample }.take_image("image")?)
    }

    fn title(&self, case: &Case) -> String {
        format!("{}   {}", case.parent().join(case.stem()).display(), self.trained.plan.recipe.title())
    }
}

/// The single sample that a chain returned.
///
/// # Errors
/// A chain that returned none.
pub fn only(mut samples: Vec<Sample>) -> Outcome<Sample> {
    samples.pop().ok_or_else(|| RecipeError::new("the pipeline gave nothing"))
}

/// The steps of a recipe that read an image.
///
/// # Errors
/// Steps that cannot be built.
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

/// The range of values from which a recipe scales its images, if it has one.
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
