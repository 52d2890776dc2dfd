//! `hearth plan`: nnU-Net's fingerprint and plans of a data set.

use std::path::{Path, PathBuf};

use hearth_models::nnunet::planner::{Planner, PlannerOptions, plan, splits};
use hearth_models::nnunet::{DatasetJson, Plans, preprocessed_recipe};

use super::plan_data::{Set, SetArgs, foreign};
use crate::error::{Context, Failure, Outcome};
use crate::run::outputs::Outputs;
use crate::terminal::progress;
use crate::{note, out};

/// Arguments of `hearth plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A data set of label maps in any layout that hearth train reads, or a folder of
    /// nnUNet_preprocessed, for which recipes are written
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// The folder for dataset_fingerprint.json, the plans, splits_final.json and the recipes
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// The planner: default, M, L, XL (residual encoders), or the name of nnU-Net's class
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub planner: String,
    /// GPU memory in GB [default: 8; for L 24, for XL 40]
    #[arg(long, value_name = "GB")]
    pub memory: Option<f64>,
    /// Voxel size in mm, z y x, in place of the planner's
    #[arg(long, value_name = "MM", num_args = 3)]
    pub spacing: Option<Vec<f64>>,
    /// The name of the plans, in place of the planner's
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Facts that are missing in the data set's files.
    #[command(flatten)]
    pub set: SetArgs,
    /// Replace files of an earlier call that were not changed since
    #[arg(long)]
    pub overwrite: bool,
}

/// Reads all training cases, and writes what nnU-Net's planner would write.
pub fn run(args: &Args) -> Outcome {
    let options = options(args)?;
    if let Some(failure) = foreign(&args.data) {
        return Err(failure);
    }
    if is_preprocessed(&args.data) {
        args.set.refuse_all("these are nnU-Net's plans")?;
        return preprocessed(args, &options);
    }
    let set = Set::open(&args.data, &args.set)?;
    let plans_name = options.plans_name.clone().unwrap_or_else(|| options.planner.plans_name().to_owned());
    let mut outputs = Outputs::new("plan", args.overwrite);
    let file = |name: &str| args.out.join(name);
    let (fingerprint_at, plans_at) = (file("dataset_fingerprint.json"), file(&format!("{plans_name}.json")));
    let splits_at = file("splits_final.json");
    let folds = splits(&set.names());
    outputs.claim(&fingerprint_at)?;
    outputs.claim(&plans_at)?;
    if folds.is_ok() {
        outputs.claim(&splits_at)?;
    }
    // The configurations are only known after the fingerprint.
    let recipe_at = |configuration: &str| file(&format!("{configuration}.toml"));
    for configuration in ["2d", "3d_fullres", "3d_lowres", "3d_cascade_fullres"] {
        outputs.claim(&recipe_at(configuration))?;
    }
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    let (fingerprint, dataset) = set.fingerprint(progress())?;
    let plans = plan(set.name(), &dataset, set.reader(), &fingerprint, &options)?;
    let text = |value: &serde_json::Value| Ok::<_, Failure>(serde_json::to_string_pretty(value)? + "\n");
    outputs.write(&fingerprint_at, text(&fingerprint.json())?)?;
    out!("{}", fingerprint_at.display());
    outputs.write(&plans_at, text(&plans)?)?;
    out!("{}", plans_at.display());
    match folds {
        Ok(folds) => {
            outputs.write(&splits_at, text(&folds)?)?;
            out!("{}", splits_at.display());
        }
        Err(error) => note!("no splits_final.json: {error}"),
    }
    let mut written = 0;
    for (name, configuration) in plans["configurations"].as_object().into_iter().flatten() {
        match configuration.get("inherits_from").and_then(|parent| parent.as_str()) {
            Some(parent) => note!("{name}: as {parent}, from the labels of the stage before"),
            None => note!(
                "{name}: patch {}, batch {}, spacing {}",
                configuration["patch_size"],
                configuration["batch_size"],
                configuration["spacing"]
            ),
        }
        match set.recipe(&plans, &dataset, name) {
            Ok(recipe) => {
                outputs.write(&recipe_at(name), recipe)?;
                out!("{}", recipe_at(name).display());
                written += 1;
            }
            Err(error) => note!("{name}: no recipe is written: {}", error.line()),
        }
    }
    match written {
        0 => Err(Failure::new(format!(
            "{}: no configuration can be a recipe, for the reasons above (--memory, --spacing)",
            plans_at.display()
        ))),
        _ => Ok(()),
    }
}

/// Whether nnU-Net has preprocessed a data set into this folder.
fn is_preprocessed(folder: &Path) -> bool {
    !folder.join("imagesTr").is_dir()
        && folder.join("gt_segmentations").is_dir()
        && folder.join("dataset.json").is_file()
}

/// Writes recipes that train on data planned and preprocessed by nnU-Net.
fn preprocessed(args: &Args, options: &PlannerOptions) -> Outcome {
    if args.memory.is_some() || args.spacing.is_some() {
        let what = "--memory and --spacing are for plans; these are nnU-Net's";
        return Err(Failure::new(format!("{what}: remove them, or give the raw data set")));
    }
    let plans_name = options.plans_name.clone().unwrap_or_else(|| options.planner.plans_name().to_owned());
    let path = args.data.join(format!("{plans_name}.json"));
    let plans = Plans::read(&path).while_doing(|| "--planner and --name say which plans are read".to_owned())?;
    let dataset = DatasetJson::read(&args.data.join("dataset.json"))?;
    let mut outputs = Outputs::new("plan", args.overwrite);
    let mut recipes = Vec::new();
    for name in plans.names() {
        let folder = plans.value(name, "data_identifier").and_then(|folder| folder.as_str());
        if !folder.is_some_and(|folder| args.data.join(folder).is_dir()) {
            note!("{name}: {} has no folder {}", args.data.display(), folder.unwrap_or("of it"));
            continue;
        }
        match preprocessed_recipe(&plans.raw, &dataset, name) {
            Ok(recipe) => {
                let at = args.out.join(format!("{name}.toml"));
                outputs.claim(&at)?;
                recipes.push((at, recipe));
            }
            Err(error) => note!("{error}"),
        }
    }
    if recipes.is_empty() {
        return Err(Failure::new(format!("{}: no recipe can be written", path.display())));
    }
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    for (at, recipe) in recipes {
        outputs.write(&at, recipe)?;
        out!("{}", at.display());
    }
    Ok(())
}

fn options(args: &Args) -> Outcome<PlannerOptions> {
    let planner = match args.planner.to_lowercase().as_str() {
        "default" => Planner::Default,
        "m" => Planner::ResEncM,
        "l" => Planner::ResEncL,
        "xl" => Planner::ResEncXL,
        _ => Planner::named(&args.planner).while_doing(|| "--planner".to_owned())?,
    };
    if let Some(memory) = args.memory.filter(|memory| !(*memory > 0.0 && memory.is_finite())) {
        return Err(Failure::new(format!("--memory is {memory}: expected gigabytes above 0")));
    }
    let target_spacing: Option<[f64; 3]> = args.spacing.clone().and_then(|sizes| sizes.try_into().ok());
    if let Some(sizes) = target_spacing.filter(|sizes| !sizes.iter().all(|size| *size > 0.0 && size.is_finite())) {
        return Err(Failure::new(format!("--spacing is {sizes:?}: expected sizes in mm above 0")));
    }
    if let Some(name) = args.name.as_deref().filter(|name| name.is_empty() || name.contains(['/', '\\'])) {
        return Err(Failure::new(format!("--name {name:?} cannot be the name of a file")));
    }
    Ok(PlannerOptions {
        memory_gb: args.memory,
        target_spacing,
        plans_name: args.name.clone(),
        ..PlannerOptions::new(planner)
    })
}
