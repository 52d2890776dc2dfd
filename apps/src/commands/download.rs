//! `hearth data download`.

use std::path::PathBuf;

use hearth_data::download::{DECATHLON_TASKS, DecathlonTask, FetchOptions, decathlon};

use crate::error::{Context, Outcome};
use crate::out;
use crate::terminal::progress;

/// Arguments of `hearth data download`.
#[derive(Debug, clap::Args)]
#[command(after_help = tasks())]
pub struct Args {
    /// A task of the Medical Segmentation Decathlon: Task09_Spleen, Task09, 9, spleen
    #[arg(value_name = "TASK")]
    task: String,
    /// The folder that gets a folder for the task
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Keep the archive too
    #[arg(long)]
    keep_archive: bool,
    /// Another place that has the archives
    #[arg(long, value_name = "URL")]
    from: Option<String>,
}

fn tasks() -> String {
    let names = DECATHLON_TASKS.map(|task| format!("  {}\n", task.name));
    format!(
        "Tasks:\n{}\nA download that broke off goes on where it was when the command is given again.",
        names.concat()
    )
}

/// Downloads and unpacks a task.
pub fn run(args: &Args) -> Outcome {
    let task = DecathlonTask::find(&args.task)?;
    let options = FetchOptions { progress: progress(), ..FetchOptions::default() };
    let set = decathlon(task, &args.out, args.from.as_deref(), args.keep_archive, &options)
        .while_doing(|| format!("cannot get {}", task.name))?;
    let (cases, test) = (set.training.len(), set.test.len());
    out!("{}: {cases} labelled cases, {test} without labels, in {}", set.name, args.out.join(task.name).display());
    Ok(())
}
