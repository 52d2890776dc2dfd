//! `hearth data preview`: draws a case after a pipeline, as a contact sheet.

use std::path::PathBuf;

use hearth_data::{DrawKey, Pipeline, RecipeOptions, Sample, Value};

use crate::error::{Context, Failure, Outcome};
use crate::picture::{Line, Panel, View, Volume, range, save, sheet};
use crate::recipe::{Document, Node, PreviousStage, bundled};
use crate::run::labels_of_stage;
use crate::run::outputs::Outputs;
use crate::{note, out};
use hearth_models::cases::Case;
use serde_json::json;

/// Arguments of `hearth data preview`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe or a TOML file; one with only `[[transforms]]` is enough
    #[arg(value_name = "RECIPE")]
    pub recipe: String,
    /// The image
    #[arg(short, long, value_name = "FILE")]
    pub image: PathBuf,
    /// Its label, drawn as an outline
    #[arg(short, long, value_name = "FILE")]
    pub label: Option<PathBuf>,
    /// The folder with the labels that the earlier stage of a cascade predicted; without it, the steps
    /// for these labels are skipped
    #[arg(long, value_name = "DIR")]
    pub previous_stage: Option<PathBuf>,
    /// The contact sheet, a PNG file
    #[arg(short = 'o', long = "out", value_name = "FILE", default_value = "preview.png")]
    pub out: PathBuf,
    /// The number of draws of the random transforms; of several crops in a draw, the one that shows
    /// most is drawn
    #[arg(short = 'n', long, default_value_t = 11, value_parser = clap::value_parser!(u64).range(1..=400))]
    pub samples: u64,
    /// Draw all crops of each draw
    #[arg(long, conflicts_with = "steps")]
    pub crops: bool,
    /// Draw one picture after each step of the chain instead
    #[arg(long, conflicts_with = "samples")]
    pub steps: bool,
    /// The seed; the same seed gives the same draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The channel to draw; colour pictures are drawn in colour
    #[arg(long, default_value_t = 0)]
    pub channel: usize,
    /// The number of pictures in a row
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=20))]
    pub columns: u64,
    /// Change one value of the recipe, such as training.batch_size=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Replace a sheet of an earlier `hearth data preview` that was not changed since
    #[arg(long)]
    pub overwrite: bool,
}

/// Draws the contact sheet.
pub fn run(args: &Args) -> Outcome {
    if args.out.extension().is_none_or(|e| !e.eq_ignore_ascii_case("png")) {
        return Err(Failure::new(format!(
            "--out {} is written as a PNG; give a name that ends in .png",
            args.out.display()
        )));
    }
    let mut outputs = Outputs::new("data preview", args.overwrite);
    outputs.claim(&args.out)?;
    let mut document = bundled::open(&args.recipe)?;
    for set in &args.sets {
        document.set(set)?;
    }
    let chain = Chain::new(args, &document)?;
    let panels = if args.steps { chain.steps()? } else { chain.samples()? };
    let name = args.image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let title = format!("{}  {name}", document.name());
    let shown = panels.len();
    let sheet = sheet(&title, &panels, &names(&document, &panels), args.columns as usize);
    let facts = json!({ "input": args.image.display().to_string(), "recipe": args.recipe });
    outputs.make(&args.out, facts, || save(&sheet, &args.out))?;
    out!("{}  {shown} pictures", args.out.display());
    Ok(())
}

/// The recipe's names for the outlined labels: the classes after the background, or all regions.
fn names(document: &Document, panels: &[Panel]) -> Vec<String> {
    let labels = document.root().get("labels").map_or(&[][..], Node::items);
    let background = usize::from(panels.iter().all(|panel| panel.layers.len() < 2));
    labels.iter().skip(background).filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The training chain of a recipe, and the case that it is applied to.
struct Chain<'a> {
    args: &'a Args,
    tables: Vec<Node>,
    /// Key and file of the labels of the earlier stage.
    previous: Option<(String, PathBuf)>,
}

impl<'a> Chain<'a> {
    fn new(args: &'a Args, document: &Document) -> Outcome<Self> {
        let listed = document.root().get("transforms").map_or(&[][..], Node::items);
        if listed.is_empty() {
            return Err(Failure::new(format!("{} has no [[transforms]]", document.name())));
        }
        let mut tables = Vec::new();
        for entry in listed {
            let mut table = entry.clone();
            table.remove("batch");
            if table.remove("only").as_ref().and_then(Node::as_str) != Some("validation") {
                tables.push(table);
            }
        }
        let previous = previous(args, &mut tables)?;
        Ok(Self { args, tables, previous })
    }

    /// The pipeline of the first `count` steps.
    fn pipeline(&self, count: usize) -> Outcome<Pipeline> {
        let mut keys = vec!["image".to_owned()];
        if self.args.label.is_some() {
            keys.push("label".to_owned());
        }
        keys.extend(self.previous.iter().map(|(key, _)| key.clone()));
        let options = RecipeOptions { keys: Some(keys), ..RecipeOptions::default() };
        let chain = Pipeline::from_nodes_with(&self.tables[..count], &options);
        if chain.is_err() && self.args.label.is_none() {
            return chain.while_doing(|| "without --label FILE this recipe's transforms cannot be drawn".to_owned());
        }
        Ok(chain?)
    }

    fn sample(&self) -> Sample {
        let name = self.args.image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut sample = Sample::new(name).with("image", Value::Path(self.args.image.clone()));
        let label = self.args.label.iter().map(|label| ("label", label));
        let previous = self.previous.iter().map(|(key, file)| (key.as_str(), file));
        for (key, file) in label.chain(previous) {
            sample = sample.with(key, Value::Path(file.clone()));
        }
        sample
    }

    /// The panels of the deterministic part, then those of each draw of the random part. All use the
    /// window of the first panel, so that a change of intensity shows, and its view, so that a flip
    /// shows: see [`View`].
    fn samples(&self) -> Outcome<Vec<Panel>> {
        let pipeline = self.pipeline(self.tables.len())?;
        let before = pipeline.run_deterministic(self.sample())?;
        let first = before.first().ok_or_else(|| Failure::new("the chain gave nothing"))?;
        let view = View::of(first.image("image")?);
        let mut panels = Vec::new();
        let mut window = None;
        for sample in &before {
            panels.push(panel(sample, self.args, "not augmented".to_owned(), &view, &mut window)?);
        }
        if pipeline.split() == pipeline.len() {
            return Ok(panels);
        }
        for epoch in 1..=self.args.samples {
            let key = DrawKey::new(self.args.seed, epoch, 0);
            let drawn = pipeline.run_random(before.clone(), key)?;
            let caption = |part: usize| match drawn.len() {
                1 => format!("draw {epoch}"),
                parts => format!("draw {epoch}, crop {} of {parts}", part + 1),
            };
            let all = drawn.iter().enumerate();
            let all = all.map(|(part, sample)| panel(sample, self.args, caption(part), &view, &mut window));
            let mut all = all.collect::<Outcome<Vec<Panel>>>()?;
            if !self.args.crops {
                // Of equal panels, the first one.
                let most = (0..all.len()).rev().max_by_key(|part| told(&all[*part])).unwrap_or(0);
                all = all.into_iter().skip(most).take(1).collect();
            }
            panels.append(&mut all);
        }
        Ok(panels)
    }

    /// The first sample after each step, each with its own window. Deterministic steps do not flip:
    /// each of their images has its own view. Random steps use the view of the last deterministic one.
    fn steps(&self) -> Outcome<Vec<Panel>> {
        let mut panels = Vec::new();
        let (mut done, mut view) = (0, None);
        for count in 1..=self.tables.len() {
            let pipeline = self.pipeline(count)?;
            // A step on keys that are not drawn adds no panel.
            let Some(step) = pipeline.steps().last().filter(|_| pipeline.len() > done) else { continue };
            done = pipeline.len();
            let samples = pipeline.run(self.sample(), DrawKey::new(self.args.seed, 1, 0))?;
            let first = samples.first().ok_or_else(|| Failure::new(format!("step {count} gave nothing")))?;
            let own = View::of(first.image("image")?);
            if pipeline.split() == pipeline.len() {
                view = Some(own);
            }
            let caption = format!("{done} {}", step.name());
            panels.push(panel(first, self.args, caption, view.as_ref().unwrap_or(&own), &mut None)?);
        }
        Ok(panels)
    }
}

/// Key and file of the earlier stage's labels for a chain that continues from a cascade. If they are
/// not given, the steps for them are removed.
fn previous(args: &Args, tables: &mut Vec<Node>) -> Outcome<Option<(String, PathBuf)>> {
    match (PreviousStage::of(tables), &args.previous_stage) {
        (Some(stage), Some(folder)) => {
            let case = Case::File(args.image.clone()).stem();
            Ok(Some((stage.key, labels_of_stage(folder, &case.to_string_lossy())?)))
        }
        (Some(_), None) => {
            note!(
                "drawn without the labels of the earlier stage: `hearth predict RUN --held-out` of that stage writes \
                 them; give their folder by --previous-stage"
            );
            PreviousStage::remove_from(tables);
            Ok(None)
        }
        (None, Some(_)) => {
            Err(Failure::new("--previous-stage: this recipe continues from no earlier stage of a cascade; remove it"))
        }
        (None, None) => Ok(None),
    }
}

/// How much a panel shows: the pixels of classes, then of tissue that is neither black nor white.
fn told(panel: &Panel) -> (usize, usize) {
    let classes = panel.layers.iter().flat_map(|layer| &layer.classes).filter(|class| **class > 0).count();
    let tissue = panel.pixels.iter().filter(|pixel| (16..240).contains(&pixel[1])).count();
    (classes, tissue)
}

/// Draws the slice of a sample that shows most of its label, else its middle slice, in the axes of a
/// view.
fn panel(
    sample: &Sample,
    args: &Args,
    caption: String,
    view: &View,
    window: &mut Option<(f32, f32)>,
) -> Outcome<Panel> {
    let image = sample.image("image")?;
    let values = image.to_vec();
    let size = image.shape().iter().product::<usize>();
    let channels: Vec<&[f32]> = values.chunks(size.max(1)).collect();
    let channels = if image.meta.spatial_dims != 3 && channels.len() == 3 {
        channels
    } else {
        let count = channels.len();
        let one = channels.into_iter().nth(args.channel);
        vec![one.ok_or_else(|| Failure::new(format!("--channel {}: the image has {count} channels", args.channel)))?]
    };
    let classes: Vec<Vec<u8>> = match sample.image("label") {
        Ok(label) if label.shape() == image.shape() && size > 0 => {
            // Several channels are regions, each in its own colour.
            let several = label.channels() > 1;
            let class = |region: usize, value: f32| match several {
                true if value > 0.5 => (region + 1) as u8,
                true => 0,
                false => value.round() as u8,
            };
            let of = |(region, values): (usize, &[f32])| values.iter().map(|value| class(region, *value)).collect();
            label.to_vec().chunks(size).enumerate().map(of).collect()
        }
        _ => Vec::new(),
    };
    let window = *window.get_or_insert_with(|| range(&channels));
    let layers = classes.iter().map(|classes| (Line::Solid, &classes[..])).collect();
    let volume = Volume { grid: view.grid(image), channels, layers, window };
    let plane = volume.grid.planes()[0];
    Ok(Panel { caption, ..volume.slice(plane, volume.telling(plane)) })
}
