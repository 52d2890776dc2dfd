//! `hearth predict`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_models::bundle::RunOptions;
use hearth_models::cases::globs::expanded;
use hearth_models::cases::images_of;
use hearth_models::job::Job;
use hearth_models::model::{Kind, Model};
use hearth_models::open::{OpenOptions, open};
use hearth_recipe::text::seconds;
use hearth_train::Ranks;

use crate::commands::bundle::flags::absolute;
use crate::commands::bundle::run::run_opened;
use crate::commands::generate::generate;
use crate::commands::opening::{ModelArgs, NnunetArgs, OpeningArgs, open_options};
use crate::commands::output_args::FileArgs;
use crate::commands::predict_held_out;
use crate::error::{Failure, Outcome};
use crate::interrupt;
use crate::note;
use crate::ranks::{RanksArgs, is_first, local_rank};
use crate::sharing::{prepared, shared_cases};
use crate::terminal::Lines;
use crate::warnings;

/// The option that generated images and configs of bundles obey, too.
const FORMAT: &str = "--format";

/// Arguments of `hearth predict`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The folder of a run; a package (.hearth); a recipe, with --weights; the folder of a trained
    /// nnU-Net v2 model, or of several, such as TotalSegmentator's; a MONAI bundle; or the name of a
    /// model that `hearth models add` stored
    #[arg(value_name = "RUN|MODEL")]
    pub run: PathBuf,
    /// What the model is opened with, in addition to its name.
    #[command(flatten)]
    pub model: ModelArgs,
    /// The images: files in any supported format, folders of images, folders or trees of DICOM slices,
    /// or what --data of `train` takes (data sets, a case's folder of modalities, tables, lists);
    /// quoted patterns ('scans/*/t1.nii.gz'), and lists of paths (.txt). For an nnU-Net model also
    /// folders of NAME_0000.nii.gz, NAME_0001.nii.gz
    #[arg(short = 'i', long = "image", value_name = "PATH", required_unless_present = "count", num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// The folder for the results; subfolders as in a tree of images. Labels: NAME_seg.nii.gz, with one
    /// channel per region without labels; for an nnU-Net model NAME.nii.gz; images: NAME_pred.nii.gz;
    /// scores: scores.csv; slides: NAME.npy, NAME_heat.tif, NAME.geojson and NAME_picture.png;
    /// generated images: generated_0000.png, or .nii.gz in 3-D
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// The number of images to generate from random numbers, with a run whose task is Generation
    #[arg(long, value_name = "N", conflicts_with_all = ["images", "tta", "uncertainty"],
        value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The seed of the random numbers; the same seed gives the same images [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The network, and how it runs.
    #[command(flatten)]
    pub opening: OpeningArgs,
    /// Also write NAME_std.nii.gz: the standard deviation of the foreground probability over the
    /// augmented images; for an nnU-Net model over its folds and mirrored images, at twice the time
    #[arg(long)]
    pub uncertainty: bool,
    /// What is written, and what may be replaced.
    #[command(flatten)]
    pub files: FileArgs,
    /// The number of ranks, each of which processes some of the images.
    #[command(flatten)]
    pub ranks: RanksArgs,
    /// Predict each labelled case of the -i data set with the run that did not train on it: RUN is a
    /// folder of folds, or one of their runs. The second stage of a cascade learns from such labels
    #[arg(long, conflicts_with_all = ["count", "weights"])]
    pub held_out: bool,
    /// Options for models of nnU-Net.
    #[command(flatten)]
    pub nnunet: NnunetArgs,
}

impl Args {
    /// The arguments without any option: predicts these images with the best checkpoint of a run.
    pub fn new(run: &Path, images: Vec<PathBuf>, out: &Path, device: &str, tune: Option<&str>) -> Self {
        Self {
            run: run.to_owned(),
            model: ModelArgs::default(),
            images,
            out: out.to_owned(),
            count: None,
            seed: None,
            opening: OpeningArgs::new(device, tune),
            uncertainty: false,
            files: FileArgs::default(),
            ranks: RanksArgs::default(),
            held_out: false,
            nnunet: NnunetArgs::default(),
        }
    }

    /// The options for opening the model on a rank.
    pub fn open_options(&self, ranks: Option<&Ranks>) -> OpenOptions {
        let options = open_options(&self.opening, &self.model, &self.nnunet);
        OpenOptions { local_rank: local_rank(ranks), uncertainty: self.uncertainty, ..options }
    }

    /// The prediction job of this command.
    pub fn outputs<'a>(&'a self, model: &'a dyn Model, ranks: Option<&'a Ranks>) -> Outcome<Job<'a>> {
        Ok(Job {
            model,
            out: &self.out,
            command: "predict",
            outputs: self.files.options(self.uncertainty)?,
            overwrite: self.files.overwrite,
            records_beside: self.files.records_beside,
            json: self.files.json,
            ranks,
            results: &Lines,
            sought: self.files.sought().accepting(&self.opening.accept),
            only: None,
        })
    }
}

/// Runs the command: predicts each image. An error with one image does not stop the others.
pub fn run(args: &Args) -> Outcome {
    shared_cases(&args.ranks, |ranks| predict(args, ranks))
}

/// Like [`run`], within another command.
pub fn predict(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    let args = &Args { images: expanded(&args.images)?, ..args.clone() };
    if args.held_out {
        return predict_held_out::run(args, ranks);
    }
    if args.seed.is_some() && args.count.is_none() {
        return Err(Failure::new("--seed is the seed of generated images: give --count too, or remove --seed"));
    }
    let start = Instant::now();
    let model = prepared(ranks, open(&args.run, &args.open_options(ranks)))?;
    let card = model.card();
    if is_first(ranks) && model.as_run().is_none() {
        note!("{}, loaded in {}", card.description, seconds(start.elapsed().as_secs_f64()));
    }
    if args.count.is_some() && card.kind != Kind::Generated {
        let what = "--count makes images of random numbers; this";
        let predicts = card.kind.words();
        return Err(Failure::new(format!("{what} {} predicts {predicts}: give images by -i", card.family)));
    }
    match (card.kind, model.as_run(), args.count) {
        (Kind::Generated, Some(_), Some(_)) if ranks.is_some() => {
            Err(Failure::new("images of random numbers are made by one rank: remove --ranks, or the launcher"))
        }
        (Kind::Generated, Some(trained), Some(count)) => {
            let given = [("--picture", args.files.picture), ("--json", args.files.json)];
            let given = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name);
            if let Some(option) = given.chain(args.files.of_volumes()).find(|name| *name != FORMAT) {
                return Err(Failure::new(format!("{option} does not go with generated images: remove it")));
            }
            generate(args, trained, count)
        }
        (Kind::Generated, ..) => {
            Err(Failure::new("this run generates images from random numbers: give --count N in place of -i"))
        }
        (Kind::Config, ..) => run_config(args, &*model, ranks),
        _ => finished(&args.outputs(&*model, ranks)?, &args.images),
    }
}

/// Runs a job, and keeps its warnings with its results.
pub fn finished(job: &Job<'_>, images: &[PathBuf]) -> Outcome {
    kept(job, job.run(images))
}

/// Keeps the warnings of a job with its results.
pub fn kept(job: &Job<'_>, done: hearth_recipe::Outcome) -> Outcome {
    if is_first(job.ranks) {
        warnings::add_to(job.out, job.records_beside);
    }
    Ok(done?)
}

/// Runs a bundle whose config does more than predict one image per case: the config sets the names and
/// folders of the files.
fn run_config(args: &Args, model: &dyn Model, ranks: Option<&Ranks>) -> Outcome {
    if ranks.is_some_and(|ranks| ranks.world() > 1) {
        return Err(Failure::new("this MONAI bundle is run by one rank: remove --ranks, or the launcher"));
    }
    let given = [
        ("--uncertainty", args.uncertainty),
        ("--picture", args.files.picture),
        ("--records-beside", args.files.records_beside),
    ];
    let given = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name);
    if let Some(name) = given.chain(args.files.of_volumes()).find(|name| *name != FORMAT) {
        let what = "what this MONAI bundle writes is decided by its config, which does more than predict an image of \
                    each case";
        let how = "`hearth bundle run` sets its items, `hearth bundle convert` makes a recipe of it";
        return Err(Failure::new(format!("{name}: {what}: leave the option out ({how})")));
    }
    let Some(opened) = model.as_bundle() else {
        return Err(Failure::new("this model predicts no images"));
    };
    interrupt::starts_over();
    let mut images = Vec::new();
    for given in &args.images {
        images.extend(images_of(given)?.iter().map(|image| absolute(&image.to_string_lossy())));
    }
    let overrides = match args.opening.device.as_str() {
        "auto" => Vec::new(),
        device => vec![("device".to_owned(), device.to_owned())],
    };
    let (results, overwrite, format) = (Some(args.out.clone()), args.files.overwrite, args.files.format);
    let options = RunOptions { overrides, images, results, overwrite, format, ..RunOptions::default() };
    run_opened(opened, &options, args.files.json)
}
