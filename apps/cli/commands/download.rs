//! `hearth data download`.

use std::path::{Path, PathBuf};

use hearth_data::download::{DECATHLON_TASKS, DecathlonTask, FetchOptions, Tcia, TciaOptions, decathlon};

use crate::error::{Context, Failure, Outcome};
use crate::terminal::progress;
use crate::{interrupt, out};

/// Arguments of `hearth data download`.
#[derive(Debug, clap::Args)]
#[command(after_help = tasks())]
pub struct Args {
    /// The Medical Segmentation Decathlon task, in one of the forms Task09_Spleen, Task09, 9, spleen
    #[arg(value_name = "TASK", required_unless_present = "tcia")]
    task: Option<String>,
    /// A collection of The Cancer Imaging Archive instead of a task: its segmentations and their images
    #[arg(long, value_name = "COLLECTION", conflicts_with = "task")]
    tcia: Option<String>,
    /// Download only the first N segmentations of the collection
    #[arg(long, value_name = "N", conflicts_with = "task", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// The modality of the collection's segmentations: SEG or RTSTRUCT
    #[arg(long, value_name = "MODALITY", conflicts_with = "task", default_value = "SEG")]
    modality: String,
    /// The folder in which the folder of the task or collection is created
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Keep the task's archive, too
    #[arg(long, conflicts_with = "tcia")]
    keep_archive: bool,
    /// Another server for the archives, or another server with the API of The Cancer Imaging Archive
    #[arg(long, value_name = "URL")]
    from: Option<String>,
}

fn tasks() -> String {
    let names = DECATHLON_TASKS.map(|task| format!("  {}\n", task.name));
    format!("Tasks:\n{}\nTo resume an interrupted download, run the command again.", names.concat())
}

/// Downloads and unpacks a task or a collection. Ctrl-C removes what is not unpacked completely.
pub fn run(args: &Args) -> Outcome {
    interrupt::listen()?;
    interrupt::between("the same command resumes the download");
    download(args)
}

fn download(args: &Args) -> Outcome {
    let options = FetchOptions { progress: progress(), ..FetchOptions::default() };
    match (&args.task, &args.tcia) {
        (_, Some(collection)) => tcia(args, collection, options),
        (Some(task), None) => decathlon_task(args, task, &options),
        (None, None) => Err(Failure::new("give a TASK, or a collection by --tcia")),
    }
}

/// Whether a data set is at this path: a file, or a folder with something in it.
pub fn is_there(data: &Path) -> bool {
    data.is_file() || std::fs::read_dir(data).is_ok_and(|mut inside| inside.next().is_some())
}

/// Downloads the data set of a training: the folder's name is that of a task of the Decathlon, or else of a
/// collection of The Cancer Imaging Archive.
pub fn of_training(data: &Path) -> Outcome {
    let name = data.file_name().unwrap_or_default().to_string_lossy();
    let parent = data.parent().unwrap_or(Path::new("")).to_owned();
    let by_name = || format!("--download: what to get follows from the folder that --data names, {}", data.display());
    let args = |tcia: Option<String>| Args {
        task: tcia.is_none().then(|| name.clone().into_owned()),
        tcia,
        limit: None,
        modality: "SEG".to_owned(),
        out: parent.clone(),
        keep_archive: false,
        from: None,
    };
    match DecathlonTask::find(&name) {
        Ok(task) if task.name == name => download(&args(None)),
        Ok(task) => {
            let right = parent.join(task.name);
            Err(Failure::new(format!("give --data {}", right.display())).context(by_name()))
        }
        Err(error) if name.is_empty() || name.to_lowercase().starts_with("task") => {
            Err(Failure::from(error).context(by_name()))
        }
        Err(_) => download(&args(Some(name.clone().into_owned()))),
    }
}

fn decathlon_task(args: &Args, task: &str, options: &FetchOptions) -> Outcome {
    let task = DecathlonTask::find(task)?;
    let set = decathlon(task, &args.out, args.from.as_deref(), args.keep_archive, options)
        .while_doing(|| format!("cannot get {}", task.name))?;
    let (cases, test) = (set.training.len(), set.test.len());
    out!("{}: {cases} labelled cases, {test} without labels, in {}", set.name, args.out.join(task.name).display());
    Ok(())
}

fn tcia(args: &Args, collection: &str, fetch: FetchOptions) -> Outcome {
    let dir = args.out.join(collection);
    let options = TciaOptions {
        modality: args.modality.clone(),
        limit: args.limit.map(|limit| limit as usize),
        base: args.from.clone(),
        fetch,
    };
    let cases = Tcia::download(collection, &dir, &options)
        .while_doing(|| format!("cannot get the collection {collection}"))?
        .cases()?;
    out!("{collection}: {} cases, images and what was segmented, in {}", cases.len(), dir.display());
    Ok(())
}
