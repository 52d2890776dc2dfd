//! Estimates the memory of a training before it is started: [`footprint`].
//!
//! A step is measured with synthetic crops: with some, then with twice as many, of the recipe's
//! size or of a smaller one if that is large. Memory is linear in the voxels of a batch, because
//! each activation is proportional to its crops; two measurements determine the line. The same is
//! done for windows of the inferer and for their volume. With data, its cases give the sizes and
//! the memory of the caches.

use std::path::Path;

use burn::module::Module;
use hearth_data::LoaderOptions;
use hearth_kernels::memory;
use hearth_nn::networks::Network;
use serde::Serialize;

use crate::memory::check::{HELD, layers};
use crate::memory::dataset::{batch, caches, opened};
use crate::memory::synthetic::samples::{crops_of, integer, narrowed};
use crate::memory::synthetic::steps::{evaluated, stepped};
use crate::plan::Plan;
use crate::start::Start;
use hearth_recipe::recipe::{Document, Output};
use hearth_recipe::{Outcome, RecipeError};

/// The number of voxels up to which crops and windows are measured at full size; of larger ones a
/// part is measured.
const MEASURED: usize = 1 << 20;

/// The number of voxels above which activations are allocated as large blocks.
const SEEN: usize = 1 << 18;

/// Crop sizes are multiples of this along an axis, as most networks require.
const GRAIN: usize = 32;

/// Known sizes of the images.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes<'a> {
    /// The data set, whose cases pass through the chains.
    pub data: Option<&'a Path>,
    /// The size of a crop in voxels; by default that of the chain.
    pub patch: Option<[usize; 3]>,
    /// The size of a validation volume in voxels, after the chain.
    pub volume: Option<[usize; 3]>,
}

/// Memory of a training, in bytes, by owner.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Footprint {
    /// The program itself: code, threads, small blocks.
    pub program: u64,
    /// The size of a crop in voxels.
    pub patch: [usize; 3],
    /// The number of crops in a batch.
    pub crops: usize,
    /// Parameters of the network, and of a discriminator.
    pub weights: u64,
    /// Their gradients, while they are computed.
    pub gradients: u64,
    /// The state of the optimizers.
    pub optimizer: u64,
    /// Other memory of a step: activations, their gradients, the loss, the batch itself.
    pub activations: u64,
    /// The part of the activations for one crop.
    pub activations_of_a_crop: u64,
    /// Batches that are ready and wait for the training.
    pub batches: u64,
    /// The additional memory of the threads that make batches.
    pub making: u64,
    /// The copy of weights and optimizer from which a checkpoint is written while training
    /// continues.
    pub checkpoint: u64,
    /// Memory for reading and transforming while caches are filled, before everything else; 0
    /// without data.
    pub loading: u64,
    /// Memory for listing the data set, before that; 0 without data.
    pub opening: u64,
    /// The caches; `None` without data.
    pub cache: Option<u64>,
    /// A validation, above weights and caches; `None` if images have no windows, or an unknown
    /// size.
    pub validation: Option<ValidationFootprint>,
    /// The number of measured voxels of a crop, if the crop has more.
    pub measured: Option<usize>,
    /// The bytes of a step per voxel, for crops of another size.
    #[serde(skip)]
    per_voxel: f64,
    /// The bytes of a step that do not depend on its crops.
    #[serde(skip)]
    fixed: f64,
    /// The bytes of the caches in large blocks, which are part of a run's memory in use.
    #[serde(skip)]
    cache_blocks: u64,
}

/// Memory of a validation, in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct ValidationFootprint {
    /// The size of the volume in voxels.
    pub volume: [usize; 3],
    /// The size of a window in voxels.
    pub window: [usize; 3],
    /// The number of windows per call of the network.
    pub windows: usize,
    /// Activations of the windows.
    pub activations: u64,
    /// The volume, its prediction, post-processing and metrics.
    pub maps: u64,
}

impl Footprint {
    /// The bytes while training with `crops` of size `patch`.
    fn step(&self, patch: [usize; 3], crops: usize) -> f64 {
        self.fixed + self.per_voxel * volume(patch) as f64 * crops as f64
    }

    /// The bytes that are always used: caches and waiting batches.
    fn around(&self) -> u64 {
        self.cache_blocks + self.batches + self.making
    }

    /// The peak bytes while training.
    pub fn training(&self) -> u64 {
        self.around() + self.step(self.patch, self.crops) as u64 + self.checkpoint
    }

    /// The peak bytes while validating; `None` if unknown.
    pub fn validating(&self) -> Option<u64> {
        let validation = self.validation.as_ref()?;
        let kept = self.weights + self.optimizer + self.checkpoint;
        Some(self.around() + kept + validation.activations + validation.maps)
    }

    /// The peak bytes that the run uses, without the program.
    pub fn in_use(&self) -> u64 {
        // The data set is listed first, then caches are filled, then everything else runs.
        let before = (self.cache_blocks + self.loading).max(self.opening);
        self.training().max(self.validating().unwrap_or(0)).max(before)
    }

    /// The peak bytes that the process may hold: the program, the memory in use, and freed blocks
    /// that the allocator keeps for reuse ([`memory::slack`]).
    pub fn held(&self) -> u64 {
        let used = self.in_use();
        let small = self.cache.unwrap_or(0).saturating_sub(self.cache_blocks);
        self.program + small + used + memory::slack(used as usize) as u64
    }

    /// The largest number of crops of the recipe's size in a step within `limit` bytes; 0 if none
    /// fits.
    pub fn largest_batch(&self, limit: u64) -> usize {
        let left = limit.saturating_sub(self.program + self.around() + self.checkpoint) as f64 - self.fixed;
        (left / (self.per_voxel * volume(self.patch) as f64).max(1.0)).max(0.0) as usize
    }

    /// The largest crop with the proportions of the recipe's, in multiples of 16 and with the same
    /// number of crops in a batch, within `limit` bytes; `None` if not even the smallest fits.
    pub fn largest_patch(&self, limit: u64) -> Option<[usize; 3]> {
        let left = limit.saturating_sub(self.program + self.around() + self.checkpoint) as f64;
        let longest = *self.patch.iter().max()?;
        let scaled = |length: usize| {
            self.patch.map(|axis| match axis {
                // An axis that a picture does not have.
                1 => 1,
                axis => (axis * length / longest / 16 * 16).max(16),
            })
        };
        let fits = |length: &usize| self.step(scaled(*length), self.crops) <= left;
        (1..=128).map(|n| n * 16).take_while(fits).last().map(scaled)
    }
}

/// Estimates the memory of a recipe. Everything is measured on the CPU: the kernels of a GPU need
/// different extra memory for the same activations.
///
/// # Errors
/// A recipe, data or size that does not fit, or a program whose allocator does not count memory.
pub fn footprint(document: &Document, sizes: &Sizes<'_>) -> Outcome<Footprint> {
    let mut document = document.clone();
    document.set_option("--device", "training.device", "cpu")?;
    let plan = Plan::new(document.clone())?;
    let before = memory::in_use();
    let (cases, opening) = match sizes.data {
        Some(data) => {
            let (cases, opening) = opened(data, &plan)?;
            (Some(cases), opening)
        }
        None => (None, 0),
    };
    let caches = cases.as_ref().map(|cases| caches(&plan, cases)).transpose()?;
    let network = plan.starting_network(Start::Init)?;
    let dims = network.spatial_dims();
    let samples = crops_of(&plan, &network, cases.as_ref(), sizes.patch)?;
    let batch = batch(&plan, cases.as_ref().filter(|_| sizes.patch.is_none()), &samples)?;
    let discriminator = plan.discriminator(&network)?;
    let count = network.num_params() + discriminator.as_ref().map_or(0, Module::num_params);
    let whole = samples.first().ok_or_else(|| RecipeError::new("the chain returns no crop of the first case"))?;
    let patch = whole.shape("image")?;
    let suits = |shape: [usize; 3]| {
        let [channels, _] = network.channels();
        plan.recipe.learns().generates() || network.check_input([1, channels, shape[0], shape[1], shape[2]]).is_ok()
    };
    let small = Some(reduced(patch)).filter(|small| *small != patch && suits(*small)).unwrap_or(patch);
    // Small blocks are not counted by the allocator: a crop takes at least what the network's
    // layers hold for it.
    let held = if plan.recipe.learns().generates() { None } else { layers(&network, small) };
    let held = held.map_or(0.0, |bytes| HELD * bytes);
    drop((network, discriminator));
    // A data set may have fewer cases than a batch holds.
    let batched = cases.as_ref().map_or(usize::MAX, |cases| cases.training.len());
    let in_step = samples.len() * plan.recipe.training.batch_size.min(batched);
    let crop = if small == patch { whole.clone() } else { narrowed(whole, small)? };
    drop(samples);
    let shape = sizes.volume.or(caches.as_ref().and_then(|caches| caches.volume));
    // The second measurement is the step itself, if that is affordable: blocks are rounded up in
    // steps, so that a line from smaller ones would be inaccurate. Several small crops are used,
    // because small blocks are not counted.
    let least = (SEEN / volume(small)).clamp(1, in_step);
    let few = (in_step / 2).clamp(least, (MEASURED / volume(small)).max(least));
    let one_step = stepped(&plan, &crop, few, before)?;
    let (one, kept) = (one_step.peak, one_step.kept);
    let two_steps = stepped(&plan, &crop, 2 * few, before)?;
    let two = two_steps.peak;
    let each = (two.saturating_sub(one) as f64).max(held * few as f64);
    let per_voxel = each / (few * volume(small)) as f64;
    let fixed = (one as f64 - each).max(0.0);
    let weights = 4 * count as u64;
    let optimizer = (kept as u64).saturating_sub(weights);
    let all = per_voxel * (volume(patch) * in_step) as f64;
    let validation = validation(&plan, &document, shape, dims)?;
    let buffer = if plan.recipe.data.workers > 0 { LoaderOptions::default().buffer } else { 0 };
    // Without threads a batch is made before its step begins.
    let making = batch.making * plan.recipe.data.workers.min(buffer) as u64;
    let caches_blocks = caches.as_ref().map_or(0, |caches| caches.blocks);
    let filling = caches.as_ref().map_or(0, |caches| caches.filling);
    Ok(Footprint {
        program: program(),
        patch,
        crops: in_step,
        weights,
        gradients: weights,
        optimizer,
        activations: (fixed + all) as u64 - (2 * weights + optimizer).min((fixed + all) as u64),
        activations_of_a_crop: (per_voxel * volume(patch) as f64) as u64,
        batches: batch.held * buffer as u64,
        making,
        checkpoint: weights + optimizer,
        loading: filling.saturating_sub(caches_blocks),
        opening,
        cache: caches.as_ref().map(|caches| caches.held),
        validation,
        measured: (small != patch).then(|| volume(small)),
        per_voxel,
        fixed,
        cache_blocks: caches_blocks,
    })
}

/// Whether predictions are maps, so that validations need memory for a volume.
fn has_maps(plan: &Plan) -> bool {
    plan.recipe.output() != Output::Scores && !plan.recipe.learns().generates()
}

/// Estimates the memory of a validation.
fn validation(
    plan: &Plan,
    document: &Document,
    shape: Option<[usize; 3]>,
    dims: usize,
) -> Outcome<Option<ValidationFootprint>> {
    let Some(shape) = shape.filter(|_| has_maps(plan)) else { return Ok(None) };
    let inferer = plan.recipe.inferer.shared();
    let full = inferer.window().map(|(key, size)| {
        let axis = |axis: usize| if size.len() == 1 { size[0] } else { size.get(axis).copied().unwrap_or(1) };
        let whole = |at: usize| usize::try_from(axis(at)).ok().filter(|length| *length > 0).unwrap_or(shape[at]);
        (key, [whole(0), whole(1), whole(2)])
    });
    let Some((key, window)) = full else {
        // The whole image at once.
        let small = reduced(shape);
        let maps = evaluated(plan, small)? as f64 * volume(shape) as f64 / volume(small) as f64;
        return Ok(Some(ValidationFootprint {
            volume: shape,
            window: shape,
            windows: 1,
            activations: 0,
            maps: maps as u64,
        }));
    };
    let volume_padded = [0, 1, 2].map(|axis| shape[axis].max(window[axis]));
    let small = reduced(window);
    let of = |batch: usize, volume: [usize; 3]| -> Outcome<usize> {
        let mut document = document.clone();
        let sides: Vec<String> = small[..dims].iter().map(usize::to_string).collect();
        document.set(&format!("inferer.{key}=[{}]", sides.join(", ")))?;
        document.set(&format!("inferer.sw_batch_size={batch}"))?;
        evaluated(&Plan::new(document)?, volume)
    };
    let double = [2 * small[0], small[1], small[2]];
    let (one, of_double, of_two) = (of(1, small)?, of(1, double)?, of(2, double)?);
    let per_window = of_two.saturating_sub(of_double) as f64 / volume(small) as f64;
    let per_voxel = of_double.saturating_sub(one) as f64 / volume(small) as f64;
    let fixed = (one as f64 - (per_window + per_voxel) * volume(small) as f64).max(0.0);
    let channels = plan.recipe.network.in_channels();
    let passes = inferer.passes([1, channels, volume_padded[0], volume_padded[1], volume_padded[2]]);
    let batch = plan.recipe.inferer.node().get("sw_batch_size").and_then(integer).unwrap_or(1);
    let windows = passes.map_or(batch, |passes| batch.min(usize::try_from(passes).unwrap_or(batch).max(1)));
    Ok(Some(ValidationFootprint {
        volume: shape,
        window,
        windows,
        activations: (per_window * (volume(window) * windows) as f64 + fixed) as u64,
        maps: (per_voxel * volume(volume_padded) as f64) as u64,
    }))
}

fn volume(shape: [usize; 3]) -> usize {
    shape.iter().product()
}

/// A smaller size with the same proportions, in multiples of the grain.
fn reduced(shape: [usize; 3]) -> [usize; 3] {
    let factor = (MEASURED as f64 / volume(shape) as f64).cbrt();
    if factor >= 1.0 {
        return shape;
    }
    shape.map(|axis| if axis <= GRAIN { axis } else { ((axis as f64 * factor) as usize / GRAIN).max(1) * GRAIN })
}

/// The bytes of this process that are not in large blocks: code, threads, small blocks.
fn program() -> u64 {
    memory::begin_peak();
    hearth_machine::resident().unwrap_or(0).saturating_sub(memory::peak_held() as u64)
}
