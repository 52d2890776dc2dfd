//! `hearth predict`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_data::{NiftiOptions, Sample, Value, write_nifti};
use serde_json::json;

use crate::commands::tta::TtaWord;
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::recipe::Output;
use crate::run::outputs::{Outputs, is_record, sum};
use crate::run::{Segmented, Trained};
use crate::terminal::seconds;
use crate::{note, out};

/// Arguments of `hearth predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The images: files that a reader knows, folders of DICOM slices, or folders of images
    #[arg(short = 'i', long = "image", value_name = "PATH", required = true, num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// Where the results go, as NAME_seg.nii.gz: labels, or a channel for each region
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Which checkpoint: best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// Where to compute: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Test-time augmentation, in place of the recipe's
    #[arg(long, value_name = "HOW")]
    pub tta: Option<TtaWord>,
    /// Write NAME_std.nii.gz too: how much the probability of anything but background differs between the augmented images
    #[arg(long)]
    pub uncertainty: bool,
    /// Replace results that an earlier `hearth predict` wrote and nobody has changed since
    #[arg(long)]
    pub overwrite: bool,
}

/// An image, and where its result goes.
struct Task {
    image: PathBuf,
    result: PathBuf,
    /// Of `--uncertainty`.
    deviation: Option<PathBuf>,
}

/// Segments each image. A bad one does not keep the others from being done.
pub fn run(args: &Args) -> Outcome {
    let folder = folders::open_run(&args.run)?;
    let mut outputs = Outputs::new("predict", args.overwrite);
    let tasks = tasks(args, &mut outputs)?;
    let trained = Trained::open(&folder, &args.checkpoint, &args.device, args.tta.map(TtaWord::tta))?;
    if args.uncertainty && trained.augmentation.is_none() {
        let advice = "add --tta flips, or [tta] to the recipe";
        return Err(Failure::new(format!("--uncertainty compares predictions of augmented images: {advice}")));
    }
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    let (start, count) = (Instant::now(), tasks.len());
    let mut failed = Vec::new();
    for (done, task) in tasks.iter().enumerate() {
        if count > 1 {
            let left = match done {
                0 => String::new(),
                _ => {
                    let each = start.elapsed().as_secs_f64() / done as f64;
                    format!("  {} left", seconds(each * (count - done) as f64))
                }
            };
            note!("image {} of {count}: {}{left}", done + 1, task.image.display());
        }
        match predict(&trained, task, &outputs) {
            Ok(()) => out!("{}", task.result.display()),
            Err(failure) => {
                note!("{}: {}", task.image.display(), failure.line());
                failed.push(task.image.display().to_string());
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let more = failed.len().saturating_sub(8);
    failed.truncate(8);
    let tail = if more > 0 { format!("\nand {more} more") } else { String::new() };
    let bad = failed.len() + more;
    Err(Failure::new(format!("{bad} of {count} images could not be segmented:\n{}{tail}", failed.join("\n"))))
}

/// What is done with each image; fails where a result would take the place of a file.
fn tasks(args: &Args, outputs: &mut Outputs) -> Outcome<Vec<Task>> {
    let mut tasks = Vec::new();
    for given in &args.images {
        for image in images_of(given)? {
            let stem = stem(&image);
            let result = args.out.join(format!("{stem}_seg.nii.gz"));
            outputs.claim(&result)?;
            let deviation = args.uncertainty.then(|| args.out.join(format!("{stem}_std.nii.gz")));
            if let Some(path) = &deviation {
                outputs.claim(path)?;
            }
            tasks.push(Task { image, result, deviation });
        }
    }
    Ok(tasks)
}

/// Ends of files that hold an image by themselves.
const IMAGES: &[&str] = &["nii.gz", "nii", "hdr", "npy", "npz", "tif", "tiff", "png", "jpg", "jpeg", "bmp"];

/// The images that a word of the command line means: those of a folder, unless its files are the slices of one.
fn images_of(given: &Path) -> Outcome<Vec<PathBuf>> {
    if !given.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let listed = std::fs::read_dir(given).while_doing(|| format!("cannot look into {}", given.display()))?;
    let ends = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        !name.starts_with('.') && IMAGES.iter().any(|end| name.ends_with(&format!(".{end}")))
    };
    let mut images: Vec<PathBuf> = listed
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_file() && ends(path) && !is_record(path))
        .collect();
    images.sort();
    // A folder of other files is one image: a series of DICOM slices.
    if images.is_empty() { Ok(vec![given.to_owned()]) } else { Ok(images) }
}

/// The name of an image without its end; that of a folder as it is called where it lies.
fn stem(image: &Path) -> String {
    let named = if image.is_dir() { image.canonicalize().ok() } else { None };
    let name = named.as_deref().unwrap_or(image).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let end = ["gz", "img", "dcm"].iter().chain(IMAGES).filter(|end| name.to_lowercase().ends_with(&format!(".{end}")));
    let end = end.map(|end| end.len() + 1).max().filter(|_| !image.is_dir()).unwrap_or(0);
    match &name[..name.len() - end] {
        "" => "image".to_owned(),
        stem => stem.to_owned(),
    }
}

/// Segments an image and writes what is asked for.
fn predict(trained: &Trained, task: &Task, outputs: &Outputs) -> Outcome {
    let Task { image, result, deviation } = task;
    let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let sample = Sample::new(name).with("image", Value::Path(image.clone()));
    let found = trained.segment(sample, deviation.is_some())?;
    let Segmented { image: map, output, uncertainty } = &found;
    let doing = |path: &Path| format!("cannot write {}", path.display());
    write_nifti(result, map, NiftiOptions::label()).while_doing(|| doing(result))?;
    let labels = &trained.plan.recipe.labels;
    let input = if image.is_file() { Some(sum(image)?) } else { None };
    let mut facts = json!({
        "input": image.display().to_string(), "input_blake3": input, "checkpoint": trained.checkpoint,
        "recipe": trained.plan.recipe.task,
    });
    match output {
        Output::Labels => facts["labels"] = json!(labels),
        Output::Regions => facts["regions"] = json!(labels),
    }
    outputs.record(result, facts.clone())?;
    let (Some(path), Some((std, vvc))) = (deviation, uncertainty) else { return Ok(()) };
    write_nifti(path, std, NiftiOptions::default()).while_doing(|| doing(path))?;
    facts["volume_variation_coefficient"] = json!(vvc);
    outputs.record(path, facts)?;
    out!("{}  volume variation coefficient {vvc:.4}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_names_of_their_images() {
        for (name, expected) in [
            ("a/t1.nii.gz", "t1"),
            ("a/T1.NII.GZ", "T1"),
            ("b/scan.hdr", "scan"),
            ("slice.dcm", "slice"),
            ("no-end", "no-end"),
            ("a.b.nii", "a.b"),
            (".nii.gz", "image"),
        ] {
            assert_eq!(stem(Path::new(name)), expected, "{name}");
        }
        assert!(!stem(Path::new(".")).is_empty() && stem(Path::new(".")) != ".");
    }
}
