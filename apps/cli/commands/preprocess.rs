//! `hearth preprocess`: applies a recipe's deterministic transforms, and writes the results.

use std::path::{Path, PathBuf};

use hearth_data::{NiftiOptions, Sample, Value, write_nifti};
use hearth_train::Ranks;
use serde_json::json;

use crate::error::{Context, Failure, Outcome};
use crate::ranks::RanksArgs;
use crate::recipe::bundled;
use crate::run::outputs::Outputs;
use crate::run::{Cases, Plan, digest, listed, previous_labels, same};
use crate::sharing::{Done, own, prepared, reported, shared};
use crate::terminal::Lines;
use crate::{folders, note, out};
use hearth_models::cases::Case;

/// Arguments of `hearth preprocess`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe or a TOML file
    #[arg(value_name = "RECIPE")]
    pub recipe: String,
    /// The image: NIfTI, a folder of DICOM slices, or any other supported format
    #[arg(long, value_name = "FILE", required_unless_present = "data", conflicts_with = "data")]
    pub image: Option<PathBuf>,
    /// The label map of the image
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    pub label: Option<PathBuf>,
    /// A data set of which all labelled cases are processed, as for `hearth train --data`
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The folder with the labels that the earlier stage of a cascade predicted
    #[arg(long, value_name = "DIR")]
    pub previous_stage: Option<PathBuf>,
    /// The output folder, for image.nii.gz and label.nii.gz; for a data set CASE_image.nii.gz and
    /// CASE_label.nii.gz
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Change one value of the recipe, such as training.batch_size=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Replace results of an earlier `hearth preprocess` that were not changed since
    #[arg(long)]
    pub overwrite: bool,
    /// The number of ranks, each of which processes some of the cases.
    #[command(flatten)]
    pub ranks: RanksArgs,
}

/// A case, and the place of its results.
struct Task {
    sample: Sample,
    /// The text before the key in the name of a result.
    prefix: String,
    /// The input that the record of a result names.
    input: String,
}

/// Runs the validation chain, or the prediction chain without a label, and writes the result.
pub fn run(args: &Args) -> Outcome {
    shared(&args.ranks, |ranks| of_rank(args, ranks))
}

fn of_rank(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    let (plan, outputs, tasks) = prepared(ranks, prepare(args))?;
    let facts = [
        ("the recipe", digest(&plan.recipe.to_toml()?)),
        ("the cases", listed(tasks.iter().map(|task| task.input.clone()))),
        ("the folder", args.out.display().to_string()),
    ];
    prepared(ranks, same(ranks, facts))?;
    let mut done: Done<()> = Done::default();
    for place in own(ranks, tasks.len()) {
        let task = &tasks[place];
        let name = task.sample.case.clone();
        if tasks.len() > 1 {
            note!("case {} of {}: {name}", place + 1, tasks.len());
        }
        match process(args, &plan, task, &outputs) {
            Ok(()) => {}
            Err(failure) if args.data.is_none() => return Err(failure),
            Err(failure) => done.fail(place, name, &reported(&failure)),
        }
    }
    Ok(done.of_all(ranks, &Lines)?.check(ranks, tasks.len(), "cases")?)
}

/// The plan, the outputs, and the cases with their files.
fn prepare(args: &Args) -> Outcome<(Plan, Outputs, Vec<Task>)> {
    let mut document = bundled::open(&args.recipe)?;
    document.set_option("--device", "training.device", "cpu")?;
    if let Some(folder) = &args.previous_stage {
        let value = toml::Value::String(folders::check_path("--previous-stage", folder)?).to_string();
        document.set_option("--previous-stage", "data.previous_stage", &value)?;
    }
    for set in &args.sets {
        document.set(set)?;
    }
    let plan = Plan::new(document)?;
    let mut tasks = Vec::new();
    if let Some(data) = &args.data {
        for item in Cases::all(data, &plan.recipe)? {
            let prefix = format!("{}_", item.case.replace(['/', '\\'], "_"));
            tasks.push(Task { sample: item.sample(), prefix, input: item.case.clone() });
        }
    } else if let Some(image) = &args.image {
        let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut sample = Sample::new(name).with("image", Value::Path(image.clone()));
        if let Some(label) = &args.label {
            sample = sample.with("label", Value::Path(label.clone()));
        }
        if let Some(stage) = plan.recipe.previous_stage() {
            let case = Case::File(image.clone()).stem();
            let labels = previous_labels(&plan.recipe, &case.to_string_lossy())?;
            sample = labels.into_iter().fold(sample, |sample, file| sample.with(stage.key.as_str(), Value::Path(file)));
        }
        tasks.push(Task { sample, prefix: String::new(), input: image.display().to_string() });
    }
    let mut outputs = Outputs::new("preprocess", args.overwrite);
    for task in &tasks {
        for key in ["image", "label"].into_iter().filter(|key| *key == "image" || task.has_label()) {
            outputs.claim(&task.target(&args.out, key))?;
        }
    }
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    Ok((plan, outputs, tasks))
}

impl Task {
    fn has_label(&self) -> bool {
        self.sample.values.contains_key("label")
    }

    fn target(&self, out: &Path, key: &str) -> PathBuf {
        out.join(format!("{}{key}.nii.gz", self.prefix))
    }
}

fn process(args: &Args, plan: &Plan, task: &Task, outputs: &Outputs) -> Outcome {
    let pipeline = if task.has_label() { &plan.validation } else { &plan.prediction };
    let mut samples = pipeline.run_deterministic(task.sample.clone())?;
    let sample = samples.pop().ok_or_else(|| Failure::new("the pipeline returned nothing"))?;
    for (key, value) in &sample.values {
        let Value::Image(image) = value else { continue };
        let target = task.target(&args.out, key);
        if !["image", "label"].contains(&key.as_str()) {
            Outputs::new("preprocess", args.overwrite).claim(&target)?;
        }
        let options = if key == "label" { NiftiOptions::label() } else { NiftiOptions::image() };
        outputs.make(&target, json!({ "input": task.input, "recipe": args.recipe }), || {
            write_nifti(&target, image, options).while_doing(|| format!("cannot write {}", target.display()))
        })?;
        let [x, y, z] = image.shape();
        let [a, b, c] = image.spacing();
        out!("{}  {x} x {y} x {z} voxels of {a:.2} x {b:.2} x {c:.2} mm, {}", target.display(), image.orientation());
    }
    Ok(())
}
