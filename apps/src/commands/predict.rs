//! `hearth predict`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use burn::tensor::activation::softmax;
use burn::tensor::{DType, Tensor};
use hearth_data::{Image, NiftiOptions, Sample, Value, write_nifti};
use hearth_nn::inferers::InferError;
use hearth_nn::losses::one_hot;
use hearth_nn::networks::Network;
use hearth_train::Post;

use crate::error::{Context, Failure, Outcome};
use crate::run::{Trained, TtaWord, folders};
use crate::{note, out};

/// Arguments of `hearth predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The images: NIfTI, a folder of DICOM slices, or anything else that a reader knows
    #[arg(short = 'i', long = "image", value_name = "FILE", required = true, num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// Where the label maps go, under the names of the images
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
}

/// Segments each image. A bad one does not keep the others from being done.
pub fn run(args: &Args) -> Outcome {
    let folder = folders::open_run(&args.run)?;
    let targets = targets(&args.images, &args.out)?;
    let trained = Trained::open(&folder, &args.checkpoint, &args.device, args.tta)?;
    if args.uncertainty && trained.augmentation.is_none() {
        let advice = "add --tta flips, or [tta] to the recipe";
        return Err(Failure::new(format!("--uncertainty compares predictions of augmented images: {advice}")));
    }
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    let mut failed = Vec::new();
    for (image, target) in args.images.iter().zip(&targets) {
        match trained.label(image, args.uncertainty).and_then(|found| save(&found, target)) {
            Ok(()) => out!("{}", target.display()),
            Err(failure) => {
                note!("{}: {}", image.display(), failure.line());
                failed.push(image.display().to_string());
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let more = failed.len().saturating_sub(8);
    failed.truncate(8);
    let tail = if more > 0 { format!("\nand {more} more") } else { String::new() };
    let (bad, all) = (failed.len() + more, args.images.len());
    Err(Failure::new(format!("{bad} of {all} images could not be segmented:\n{}{tail}", failed.join("\n"))))
}

/// Where each label goes; fails where that would overwrite an image or another label.
fn targets(images: &[PathBuf], out: &Path) -> Outcome<Vec<PathBuf>> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let inputs: Vec<PathBuf> = images.iter().map(|image| real(image)).collect();
    let mut targets: Vec<PathBuf> = Vec::with_capacity(images.len());
    for image in images {
        let name = image.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = ["nii.gz", "nii", "hdr", "img", "gz", "dcm", "npy", "npz", "tif", "tiff", "png"]
            .iter()
            .find_map(|end| name.strip_suffix(&format!(".{end}")));
        let target = out.join(format!("{}.nii.gz", stem.unwrap_or(&name)));
        if inputs.contains(&real(&target)) {
            return Err(Failure::new(format!(
                "the label {} would overwrite an image; give another folder with -o",
                target.display()
            )));
        }
        if targets.contains(&target) {
            return Err(Failure::new(format!(
                "two images would give the same label {}; segment them into two folders",
                target.display()
            )));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn save(found: &Segmented, target: &Path) -> Outcome {
    let doing = || format!("cannot write {}", target.display());
    write_nifti(target, &found.label, NiftiOptions::label()).while_doing(doing)?;
    let Some((std, vvc)) = &found.uncertainty else { return Ok(()) };
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = target.with_file_name(format!("{}_std.nii.gz", name.trim_end_matches(".nii.gz")));
    write_nifti(&beside, std, NiftiOptions::default()).while_doing(|| format!("cannot write {}", beside.display()))?;
    out!("{}  volume variation coefficient {vvc:.4}", beside.display());
    Ok(())
}

/// What was found in an image, on its own grid.
pub struct Segmented {
    /// The class of every voxel.
    pub label: Image,
    /// Over the augmented images, of the probability of anything but background: the standard deviation at every voxel, and the
    /// volume variation coefficient.
    pub uncertainty: Option<(Image, f64)>,
}

impl Trained {
    /// Calls `work` with the network as a function, in f32; an input or window that it cannot take is an error.
    fn with_network<T>(
        &self,
        work: impl FnOnce(&dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<T, InferError>,
    ) -> Outcome<T> {
        // The closure cannot fail, so a window that does not fit is remembered.
        let misfit = RefCell::new(None);
        let forward = |x: Tensor<5>| match self.network.check_input(x.dims()) {
            Ok(()) => self.network.forward(x).cast(DType::F32),
            Err(error) => {
                misfit.borrow_mut().get_or_insert(error);
                x
            }
        };
        let output = work(&forward);
        match misfit.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(output?),
        }
    }

    /// Standard deviation and volume variation coefficient of the foreground's probability, on the grid of `image`'s file.
    fn uncertainty(&self, input: &Tensor<5>, image: &Image) -> Outcome<Option<(Image, f64)>> {
        let Some(augmentation) = &self.augmentation else { return Ok(None) };
        let foreground = |x: Tensor<5>| -softmax(x, 1).narrow(1, 0, 1) + 1.0;
        let maps = self.with_network(|net| augmentation.maps(input, &|x| foreground(net(x))))?;
        let (std, vvc) = (maps.std, maps.vvc);
        let std = Image { data: std.squeeze_dim(0), affine: image.affine, meta: image.meta.clone() };
        Ok(Some((self.plan.prediction.invert(std, image, false)?, vvc)))
    }

    /// The class of every voxel of an image, on the image's own grid. Class probabilities are brought back onto the
    /// grid one class after the other, and the likeliest wins: smoother than moving a label map, without holding all
    /// classes at full size.
    pub fn label(&self, path: &Path, uncertainty: bool) -> Outcome<Segmented> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sample = Sample::new(name).with("image", Value::Path(path.to_owned()));
        let mut samples = self.plan.prediction.run_deterministic(sample)?;
        let mut sample = samples.pop().ok_or_else(|| Failure::new("the pipeline gave nothing"))?;
        let image = sample.take_image("image")?.to_device(&self.plan.device);
        let input: Tensor<5> = image.data.clone().unsqueeze_dim(0);
        let uncertainty = if uncertainty { self.uncertainty(&input, &image)? } else { None };
        let logits = self.with_network(|net| self.inferer.infer(input, net))?;
        let likely: Tensor<4> = softmax(logits, 1).squeeze_dim(0);
        let [classes, x, y, z] = likely.dims();
        let mut best: Option<(Image, Tensor<4>)> = None;
        for class in 0..classes {
            let one = likely.clone().slice([class..class + 1, 0..x, 0..y, 0..z]);
            let one = Image { data: one, affine: image.affine, meta: image.meta.clone() };
            let one = self.plan.prediction.invert(one, &image, false)?;
            best = Some(match best.take() {
                None => {
                    let label = one.data.zeros_like();
                    (Image { data: one.data, affine: one.affine, meta: one.meta }, label)
                }
                Some((held, label)) => {
                    let wins = one.data.clone().greater(held.data.clone());
                    let label = label.mask_fill(wins.clone(), class as f64);
                    let data = held.data.clone().mask_where(wins, one.data);
                    (Image { data, ..held }, label)
                }
            });
        }
        let (held, label) = best.ok_or_else(|| Failure::new("the network has no output"))?;
        Ok(Segmented { label: self.clean(Image { data: label, ..held })?, uncertainty })
    }

    /// The transforms of `post.prediction`, on the label map: on one channel for each class from a step with `to_onehot` on, as
    /// where the metric is measured.
    fn clean(&self, mut label: Image) -> Outcome<Image> {
        let (mut onehot, mut classes) = (false, None);
        for step in self.plan.post_prediction()? {
            match step {
                Post::AsDiscrete(step) => classes = classes.or(step.to_onehot),
                Post::Transforms(steps) => {
                    if let Some(classes) = classes.filter(|_| !onehot) {
                        label.data = one_hot(label.data.unsqueeze_dim(0), classes).squeeze_dim(0);
                        onehot = true;
                    }
                    let sample = Sample::new("").with_image(Post::KEY, label);
                    let mut made = steps.run_deterministic(sample)?;
                    let mut sample = made.pop().ok_or_else(|| Failure::new("the transforms of [post] gave nothing"))?;
                    label = sample.take_image(Post::KEY)?;
                }
                _ => {}
            }
        }
        if onehot {
            // A voxel that was taken out of its class is in none now: background.
            let [_, x, y, z] = label.data.dims();
            let set = label.data.clone().max_dim(0).greater_elem(0.0);
            let class = label.data.argmax(0).float().cast(DType::F32);
            label.data = Tensor::<4>::zeros([1, x, y, z], &class.device()).mask_where(set, class);
        }
        Ok(label)
    }
}
