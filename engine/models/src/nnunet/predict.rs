//! Prediction with a trained model of nnU-Net v2.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::{DType, Device, Tensor, TensorData, TensorReadError};
use half::f16;
use hearth_data::{Progress, Running};
use hearth_kernels::conv3d::plain_sums;
use hearth_kernels::host::is_host;
use hearth_nn::inferers::check_stop;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_nnunet::export::Origin;
use hearth_nnunet::preprocess::{Prepared, prepare};
use hearth_nnunet::window::{Sum, Windows, mean_of_folds, mirrorings, tile};
use hearth_nnunet::{
    Axes3, Case, Configuration, DatasetJson, Folds, LabelManager, Listed, ModelFolder, NnunetError, Volume, checkpoint,
    export, listed, postprocess, probabilities,
};
use hearth_train::Precision;
use serde_json::{Value, json};

use crate::nnunet::checkpoint::Checkpoint;
use crate::nnunet::properties::properties;
use crate::spread::{Spread, Spreading};
use crate::writers::regions::determinant;
use hearth_recipe::nnunet::{CaseImage, Grid, Reader, read, read_labels};
use hearth_recipe::{Context, Outcome, RecipeError, notice};
use hearth_run::labels_of_stage;
use hearth_run::outputs::sum;

/// The largest number of channels for which networks use plain sums: fast products hardly help
/// there.
const PLAIN: usize = 32;

/// The default limit in bytes of weights that are kept between images: those of two nnU-Net
/// networks of the usual size.
const KEPT: usize = 256 << 20;

/// The options of a prediction.
#[derive(Clone, Debug)]
pub struct NnunetOptions {
    /// The folds; the mean of their outputs decides.
    pub folds: Folds,
    /// The file name of each fold's checkpoint.
    pub checkpoint: String,
    /// The distance between two tiles as a share of the patch, above 0 and at most 1.
    pub step_size: f64,
    /// Whether images are also predicted mirrored, by the axes that the checkpoint allows.
    pub mirroring: bool,
    /// The postprocessing file, which lists the components to remove.
    pub postprocessing: Option<PathBuf>,
    /// The type in which the network computes; nnU-Net's labels need f32.
    pub precision: Precision,
    /// The device: `cpu`, `cuda:0`, `auto`.
    pub device: String,
    /// The limit in bytes of weights that are kept on a CPU between images. Networks above the
    /// limit are read again for each image, one after the other, which takes some tenths of a
    /// second each.
    pub kept: usize,
    /// How the progress over the tiles of an image is shown.
    pub progress: Progress,
}

impl Default for NnunetOptions {
    fn default() -> Self {
        NnunetOptions {
            folds: Folds::Found,
            checkpoint: "checkpoint_final.pth".to_owned(),
            step_size: 0.5,
            mirroring: true,
            postprocessing: None,
            precision: Precision::Fp32,
            device: "cpu".to_owned(),
            kept: KEPT,
            progress: Progress::None,
        }
    }
}

/// A trained model, each of its networks loaded once.
pub struct NnunetPredictor {
    /// The plans and the data set.
    pub folder: ModelFolder,
    /// The trained configuration.
    pub configuration: Configuration,
    /// The checkpoints of the folds.
    pub checkpoints: Vec<PathBuf>,
    /// The networks; `None` if they are read for each image.
    networks: Option<Vec<AnyNetwork>>,
    mirroring: Vec<usize>,
    reader: Reader,
    steps: Vec<postprocess::KeepLargest>,
    options: NnunetOptions,
    device: Device,
}

/// A preprocessed image.
pub struct Preparation {
    /// The network's input.
    pub data: Volume,
    /// The geometry of the source image.
    pub origin: Origin,
    /// The grid of its labels.
    pub grid: Grid,
}

/// The result of one case.
pub struct Predicted {
    /// Labels in the file's axes, `[1, z, y, x]`.
    pub labels: Volume<u16>,
    /// The probabilities of each head, if requested.
    pub probabilities: Option<Volume>,
    /// The properties that nnU-Net stores next to the probabilities.
    properties: Option<Value>,
    /// The uncertainty of the averaged outputs: standard deviation and volume variation
    /// coefficient.
    pub(crate) uncertainty: Option<Spreading>,
    grid: Grid,
    wide: bool,
}

impl Predicted {
    /// The grid of the image.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Writes the labels on the image's grid.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn write(&self, path: &Path) -> Outcome {
        self.grid.write(path, &self.labels, self.wide)
    }

    /// Writes the probabilities, if there are any, as nnU-Net's `.npz`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn write_probabilities(&self, path: &Path) -> Outcome {
        let Some(found) = &self.probabilities else { return Ok(()) };
        Ok(probabilities::write(path, found)?)
    }

    /// Writes the `.pkl` file that nnU-Net's ensembles read next to the probabilities: a pickle of
    /// plain values, which runs no code.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn write_properties(&self, path: &Path) -> Outcome {
        let Some(found) = &self.properties else { return Ok(()) };
        Ok(checkpoint::write_values(path, found)?)
    }
}

impl NnunetPredictor {
    /// Opens a model's folder and loads its networks.
    ///
    /// # Errors
    /// Files that are missing, damaged or of another network, or unsupported options.
    pub fn open(path: &Path, options: &NnunetOptions) -> Outcome<Self> {
        if !(options.step_size > 0.0 && options.step_size <= 1.0) {
            let what =
                format!("the step size is {}: expected a share of the patch, above 0 and at most 1", options.step_size);
            return Err(RecipeError::new(what));
        }
        let folder = ModelFolder::open(path)?;
        let (plans, dataset) = (&folder.plans, &folder.dataset);
        let found = folder.checkpoints(&options.folds, &options.checkpoint)?;
        let device = hearth_train::device::parse(&options.device).map_err(RecipeError::from_error)?;
        options.precision.prepare(&device)?;
        if options.precision == Precision::Tf32 && !options.precision.rounds(&device) {
            notice!("--precision tf32: {} computes in fp32", hearth_train::device::name(&device));
        }
        let reader = dataset.overwrite_image_reader_writer.as_deref().unwrap_or(&plans.image_reader_writer);
        let reader = Reader::named(reader, &dataset.file_ending)?;
        let (mut networks, mut chosen, mut mirroring) = (Some(Vec::new()), None, Vec::new());
        let (kept, mut bytes) = (if is_host(&device) { options.kept } else { usize::MAX }, 0_usize);
        for (fold, path) in &found {
            let checkpoint = Checkpoint::open(path)?;
            let configuration = checkpoint.configuration(&folder, path)?;
            let name = configuration.name.clone();
            if let Some((first, known)) = &chosen
                && *known != configuration
            {
                let Configuration { name: before, .. } = known;
                return Err(RecipeError::new(format!("fold_{first} is of {before}, and fold_{fold} of {name}")));
            }
            let network = load(&checkpoint, &configuration, dataset, path, &device)?;
            bytes += network.num_params() * size_of::<f32>();
            match &mut networks {
                Some(networks) if bytes <= kept => networks.push(options.precision.apply(network)),
                _ => networks = None,
            }
            // The first fold decides, as in nnU-Net.
            if chosen.is_none() {
                mirroring = checkpoint.mirroring;
                chosen = Some((fold.clone(), configuration));
            }
        }
        let Some((_, configuration)) = chosen else { return Err(RecipeError::new("no fold is chosen")) };
        if let Some(axis) = mirroring.iter().find(|axis| **axis >= configuration.dims()) {
            return Err(RecipeError::new(format!(
                "axis {axis} cannot be mirrored: there are {}",
                configuration.dims()
            )));
        }
        let expected = dataset.channel_names.len();
        if configuration.normalization_schemes.len() != expected {
            let plans = configuration.normalization_schemes.len();
            return Err(RecipeError::new(format!(
                "dataset.json names {expected} channels, and plans.json has {plans}"
            )));
        }
        let steps = options.postprocessing.as_deref().map(postprocess::read).transpose()?.unwrap_or_default();
        Ok(NnunetPredictor {
            checkpoints: found.into_iter().map(|(_, path)| path).collect(),
            configuration,
            networks,
            mirroring: if options.mirroring { mirroring } else { Vec::new() },
            reader,
            steps,
            options: options.clone(),
            device,
            folder,
        })
    }

    /// The postprocessing of its labels.
    pub(crate) fn steps(&self) -> &[postprocess::KeepLargest] {
        &self.steps
    }

    /// The key of its results, apart from the image: plans, weights and options.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn key(&self) -> Outcome<Value> {
        let json = |name: &str| sum(&self.folder.path.join(name));
        let weights = self.checkpoints.iter().map(|path| sum(path)).collect::<Outcome<Vec<_>>>()?;
        let options = &self.options;
        Ok(json!({
            "plans": json("plans.json")?, "dataset": json("dataset.json")?, "weights": weights,
            "step_size": options.step_size, "mirroring": self.mirroring, "precision": options.precision.to_string(),
            "postprocessing": options.postprocessing.as_deref().map(sum).transpose()?,
        }))
    }

    /// The cases of a folder of images.
    ///
    /// # Errors
    /// A folder without images, an image that belongs to no case, and cases that lack channels.
    pub fn cases(&self, folder: &Path) -> Outcome<Vec<Case>> {
        Ok(self.listed(folder)?.complete()?)
    }

    /// Lists the complete cases, and separately the images that belong to none.
    ///
    /// # Errors
    /// A folder that cannot be read, or has no image by nnU-Net's names.
    pub fn listed(&self, folder: &Path) -> Outcome<Listed> {
        // A picture has its colours in one file.
        let channels = (self.reader != Reader::Picture).then_some(self.folder.dataset.channel_names.len());
        let one_file = match channels {
            Some(channels) if channels > 1 => self.single_files(folder)?,
            _ => false,
        };
        Ok(listed(folder, &self.folder.dataset.file_ending, channels.filter(|_| !one_file))?)
    }

    /// Whether every case is a single file, which may hold all channels.
    fn single_files(&self, folder: &Path) -> Outcome<bool> {
        let found = listed(folder, &self.folder.dataset.file_ending, None)?.cases;
        let several = |case: &Case| {
            let first = case.files.first().filter(|_| case.files.len() == 1);
            first.and_then(|path| hearth_data::nifti::read_header(path).ok()).is_some_and(|header| header.dim.len() > 3)
        };
        Ok(found.iter().all(several))
    }

    /// Predicts the labels of a case. `previous` is the folder of the earlier stage's labels.
    ///
    /// # Errors
    /// Images that cannot be read or do not fit the model.
    pub fn predict(&self, case: &Case, previous: Option<&Path>) -> Outcome<Predicted> {
        self.predict_with(case, previous, false)
    }

    /// Predicts the labels of a case, and probabilities if `wanted`.
    ///
    /// # Errors
    /// Same as [`predict`](Self::predict).
    pub fn predict_with(&self, case: &Case, previous: Option<&Path>, wanted: bool) -> Outcome<Predicted> {
        let preparation = self.prepare(case, previous)?;
        let logits = self.logits(&preparation.data)?;
        self.export(&logits, preparation.origin, preparation.grid, wanted)
    }

    /// Predicts the labels of an image that was already read, in the same axes.
    pub(crate) fn labels_of(&self, volume: Volume, spacing: Axes3<f64>, grid: Grid) -> Outcome<Volume<u16>> {
        let Prepared { data, spacing, shape_before_cropping, bounds } =
            prepare(&self.folder.plans, &self.configuration, volume, spacing, None)?;
        let logits = self.logits(&data)?;
        Ok(self.export(&logits, Origin { spacing, shape_before_cropping, bounds }, grid, false)?.labels)
    }

    /// The label file of a case in the folder of the earlier stage: with nnU-Net's name, or with
    /// the name from `hearth predict` with a run.
    ///
    /// # Errors
    /// A missing file.
    pub fn previous_labels(&self, folder: &Path, case: &Case) -> Outcome<PathBuf> {
        let usual = folder.join(format!("{}{}", case.name, self.folder.dataset.file_ending));
        if usual.is_file() { Ok(usual) } else { labels_of_stage(folder, &case.name) }
    }

    /// The reader of its images.
    pub fn reader(&self) -> Reader {
        self.reader
    }

    /// Reads and preprocesses a case. `previous` is the folder of the earlier stage's labels.
    ///
    /// # Errors
    /// Same as [`predict`](Self::predict).
    pub fn prepare(&self, case: &Case, previous: Option<&Path>) -> Outcome<Preparation> {
        let previous = match (&self.configuration.previous_stage, previous) {
            (Some(_), Some(folder)) => Some(self.previous_labels(folder, case)?),
            _ => None,
        };
        self.prepare_image(read(self.reader, case)?, previous.as_deref())
    }

    /// Preprocesses an image. `previous` is the label file of an earlier stage.
    ///
    /// # Errors
    /// Same as [`predict`](Self::predict).
    pub fn prepare_image(&self, image: CaseImage, previous: Option<&Path>) -> Outcome<Preparation> {
        let CaseImage { volume, spacing, grid } = image;
        let foreground = &self.folder.dataset.labels.foreground;
        let labels = match (&self.configuration.previous_stage, previous) {
            (None, _) => None,
            (Some(_), Some(path)) => Some(read_labels(self.reader, path, &grid).while_doing(|| "the previous stage")?),
            (Some(stage), None) => {
                let what = format!("{} continues from the labels of {stage}", self.configuration.name);
                return Err(RecipeError::new(format!(
                    "{what}: predict with that first, and give its results by --previous-stage"
                )));
            }
        };
        let previous = labels.as_ref().map(|labels| (labels, &foreground[..]));
        let Prepared { data, spacing, shape_before_cropping, bounds } =
            prepare(&self.folder.plans, &self.configuration, volume, spacing, previous)?;
        Ok(Preparation { data, origin: Origin { spacing, shape_before_cropping, bounds }, grid })
    }

    /// The properties of a prepared image that nnU-Net stores next to its probabilities: spacing,
    /// box, and the geometry for writing its labels.
    pub fn properties(&self, preparation: &Preparation) -> Value {
        properties(&preparation.grid, &preparation.origin, self.folder.plans.transpose_forward)
    }

    /// The mean output of all folds over a prepared image, `[head, z, y, x]` in half precision, as
    /// nnU-Net rounds it.
    ///
    /// # Errors
    /// Outputs that are not finite, or patches that the network does not support.
    pub fn logits(&self, data: &Volume) -> Outcome<Volume<f16>> {
        let dims = self.configuration.dims();
        let windows = Windows::new(data.shape, self.configuration.patch(), dims, self.options.step_size);
        let padded = windows.pad(data.clone());
        let running = self.options.progress.start("tiles", (windows.len() * self.checkpoints.len()) as u64);
        let mut fault = None;
        let flips = self.flips();
        let outputs = (0..self.checkpoints.len()).map(|fold| {
            let network = self.network(fold).map_err(|why| {
                let message = NnunetError::case(why.to_string());
                fault = Some(why);
                message
            })?;
            self.output(&network, &windows, &padded, &flips, &running)
        });
        let mean = mean_of_folds(outputs);
        if let Some(why) = fault {
            return Err(why);
        }
        let mean = mean?;
        running.finish();
        mean.ok_or_else(|| RecipeError::new("no fold is chosen"))
    }

    /// The sets of axes along which an image is mirrored, the empty set first.
    fn flips(&self) -> Vec<Vec<usize>> {
        let mut flips = mirrorings(&self.mirroring);
        flips.insert(0, Vec::new());
        flips
    }

    /// The network of a fold; read from its file if the networks are not kept.
    fn network(&self, fold: usize) -> Outcome<Cow<'_, AnyNetwork>> {
        if let Some(networks) = &self.networks {
            return Ok(Cow::Borrowed(&networks[fold]));
        }
        let path = &self.checkpoints[fold];
        let network = load(&Checkpoint::open(path)?, &self.configuration, &self.folder.dataset, path, &self.device)?;
        Ok(Cow::Owned(self.options.precision.apply(network)))
    }

    /// The mean output of a network over these flips for a padded image.
    fn output(
        &self,
        network: &AnyNetwork,
        windows: &Windows,
        padded: &Volume,
        flips: &[Vec<usize>],
        running: &Running,
    ) -> hearth_nnunet::Result<Volume<f16>> {
        let heads = network.channels()[1];
        let room = hearth_machine::check_free(windows.sum_bytes(heads));
        room.map_err(|what| NnunetError::case(format!("the sum of the tiles, for {heads} heads, {what}")))?;
        let mut sum = Sum::new(windows, heads);
        for start in windows.tiles() {
            check_stop().map_err(|error| NnunetError::case(error.to_string()))?;
            let tile = tile(padded, start, windows.patch);
            let output = self.forward(network, tile, windows.patch, flips);
            sum.add(start, &output.map_err(|error| NnunetError::case(RecipeError::of_device(&error).line()))?);
            running.advance();
        }
        sum.finish()
    }

    /// Adds the output of each fold for each flip of an image as a member to `spread`. `steps` is the
    /// postprocessing of the result.
    ///
    /// # Errors
    /// Same as [`logits`](Self::logits), and labels beyond the limits of postprocessing.
    pub(crate) fn spread(
        &self,
        Preparation { data, origin, grid }: &Preparation,
        steps: &[postprocess::KeepLargest],
        spread: &mut Spread,
    ) -> Outcome {
        let dims = self.configuration.dims();
        let windows = Windows::new(data.shape, self.configuration.patch(), dims, self.options.step_size);
        let (padded, flips) = (windows.pad(data.clone()), self.flips());
        let count = windows.len() * self.checkpoints.len() * flips.len();
        let running = self.options.progress.start("tiles of --uncertainty", count as u64);
        let (plans, manager) = (&self.folder.plans, &self.folder.dataset.labels);
        for fold in 0..self.checkpoints.len() {
            let network = self.network(fold)?;
            for flip in &flips {
                let logits = self.output(&network, &windows, &padded, std::slice::from_ref(flip), &running)?;
                self.check_room(origin, true)?;
                let heads = export::heads(&self.configuration, &logits, origin);
                let found = probabilities::probabilities(plans, manager, &heads, origin);
                let mut labels = probabilities::labels(manager, &found);
                postprocess::apply(steps, &mut labels)?;
                let volumes = volumes_ml(manager, &labels, grid);
                spread.add(&foreground(manager, &found), volumes)?;
            }
        }
        running.finish();
        Ok(())
    }

    /// The number of members that [`spread`](Self::spread) adds.
    pub(crate) fn spread_members(&self) -> usize {
        self.checkpoints.len() * self.flips().len()
    }

    /// The mean of a tile's outputs over these flips, `[head, z, y, x]` in f32.
    fn forward(
        &self,
        network: &AnyNetwork,
        tile: Vec<f32>,
        [z, y, x]: Axes3,
        flips: &[Vec<usize>],
    ) -> Result<Vec<f32>, TensorReadError> {
        let channels = tile.len() / (z * y * x).max(1);
        // A slice uses the first two axes of a 2-D network.
        let shape = if self.configuration.dims() == 2 { [1, channels, y, x, 1] } else { [1, channels, z, y, x] };
        let tile = Tensor::<5>::from_data(TensorData::new(tile, shape), &self.device);
        let apply = |tile: Tensor<5>| network.forward(tile).cast(DType::F32);
        // Small networks are fast either way, and plain sums round as PyTorch does.
        let small = self.configuration.architecture.features.iter().all(|features| *features <= PLAIN);
        let run = |tile: Tensor<5>| if small { plain_sums(|| apply(tile)) } else { apply(tile) };
        let of_flip = |axes: &Vec<usize>| {
            let flip = |x: Tensor<5>| axes.iter().fold(x, |x, axis| x.flip([axis + 2]));
            flip(run(flip(tile.clone())))
        };
        let mut sum = of_flip(&flips[0]);
        for axes in &flips[1..] {
            sum = sum + of_flip(axes);
        }
        if flips.len() > 1 {
            sum = sum / flips.len() as f64;
        }
        sum.try_into_vec_as()
    }

    /// Checks the memory for mapping outputs back to the image's own grid: what follows is allocated at once,
    /// and a failed allocation would end all cases.
    ///
    /// # Errors
    /// A map that does not fit.
    fn check_room(&self, origin: &Origin, probabilities: bool) -> Outcome {
        let voxels = origin.shape_before_cropping.iter().product::<usize>() as u64;
        let heads = self.folder.dataset.labels.heads() as u64;
        // Probabilities: each head in the used part and in the whole image, and two maps of their softmax.
        // Labels: two heads, and the labels in both axes.
        let (bytes, advice) = match probabilities {
            true => (4 * (2 * heads + 2) * voxels, "; labels alone take less: leave out --probabilities"),
            false => ((2 * 4 + 2 * 2) * voxels, ""),
        };
        hearth_machine::check_free(bytes).map_err(|what| {
            let shape = origin.shape_before_cropping;
            let of = format!("mapping {heads} outputs back to the image's {shape:?} voxels (z, y, x)");
            let why = "resample the image to larger voxels, or crop it";
            RecipeError::new(format!("{of} {what}: {why}{advice}"))
        })
    }

    /// Converts outputs to labels, and to probabilities if `wanted`.
    ///
    /// # Errors
    /// Volumes beyond the limits of postprocessing.
    pub fn export(&self, logits: &Volume<f16>, origin: Origin, grid: Grid, wanted: bool) -> Outcome<Predicted> {
        let (plans, manager) = (&self.folder.plans, &self.folder.dataset.labels);
        self.check_room(&origin, wanted)?;
        let heads = export::heads(&self.configuration, logits, &origin);
        let probabilities = wanted.then(|| probabilities::probabilities(plans, manager, &heads, &origin));
        let mut labels = match &probabilities {
            Some(found) => probabilities::labels(manager, found),
            None => export::labels(plans, manager, &heads, &origin),
        };
        postprocess::apply(&self.steps, &mut labels)?;
        let properties = wanted.then(|| properties(&grid, &origin, plans.transpose_forward));
        Ok(Predicted { labels, probabilities, properties, uncertainty: None, grid, wide: manager.needs_u16() })
    }
}

/// The probability of the foreground at each voxel: of anything but the background, or of the likeliest
/// region.
fn foreground(manager: &LabelManager, probabilities: &Volume) -> Vec<f32> {
    let voxels = probabilities.voxels();
    let heads = || probabilities.data.chunks(voxels.max(1));
    match manager.has_regions() {
        false => heads().next().into_iter().flatten().map(|background| 1.0 - background).collect(),
        true => heads().fold(vec![0.0_f32; voxels], |mut most, head| {
            most.iter_mut().zip(head).for_each(|(most, value)| *most = most.max(*value));
            most
        }),
    }
}

/// The volume in millilitres of each label or region but the background.
fn volumes_ml(manager: &LabelManager, labels: &Volume<u16>, grid: &Grid) -> Vec<f64> {
    let of_voxel = determinant(&grid.image(&Volume::<u8>::zeros(1, [1; 3])).affine).abs() / 1000.0;
    let mut counts = vec![0_usize; 1 + usize::from(u16::MAX)];
    labels.data.iter().for_each(|label| counts[usize::from(*label)] += 1);
    let heads = manager.heads.iter().filter(|(_, own)| own.iter().any(|label| *label > 0));
    heads.map(|(_, own)| of_voxel * own.iter().map(|label| counts[usize::from(*label)]).sum::<usize>() as f64).collect()
}

/// Loads the network of a checkpoint, for predictions.
pub(crate) fn load(
    checkpoint: &Checkpoint,
    configuration: &Configuration,
    dataset: &DatasetJson,
    path: &Path,
    device: &Device,
) -> Outcome<AnyNetwork> {
    let stage = if configuration.previous_stage.is_some() { dataset.labels.foreground.len() } else { 0 };
    let inputs = configuration.normalization_schemes.len() + stage;
    let channels = [inputs, dataset.labels.heads()];
    Ok(checkpoint.network(&configuration.architecture, channels, path, device)?.valid())
}
