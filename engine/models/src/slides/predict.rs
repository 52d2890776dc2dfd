//! The prediction of a slide's map, patch by patch.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{DType, Tensor};
use hearth_data::slides::Resolution;
use hearth_data::{DataLoader, LoaderOptions, PatchWSIDataset, Pipeline, Transform, WsiOptions};
use hearth_nn::networks::Network;
use hearth_recipe::{Outcome, RecipeError};
use hearth_run::named;
use serde_json::{Value, json};

use crate::cases::files_key;
use crate::ensemble::Merged;
use crate::run::trained::Trained;
use crate::slides::find::slide_files;
use crate::slides::partial::Partial;
use crate::slides::tiles::Tiles;
use crate::slides::{SlideMap, SlideReady};

/// Steps of a recipe that split regions into patches: a map reads its patches itself.
const READING: [&str; 4] = ["LoadRegion", "LoadImage", "EnsureChannelFirst", "GridSplit"];

impl Trained {
    /// Computes the map of a slide: the probability of each of its patches comes from the chain of
    /// `[post]`. With an ensemble, each patch passes through all networks before the next ones are
    /// read.
    ///
    /// Results are appended to the file `partial`, if there is one, and a call that finds results of an
    /// earlier one there continues. The file stays until the caller removes it.
    ///
    /// # Errors
    /// The recipe does not learn patches, a patch cannot be read, `partial` is another file, or the
    /// network does not return one probability.
    pub fn slide_map(&self, ready: SlideReady, partial: Option<&Path>) -> Outcome<SlideMap> {
        let task = self.plan.recipe.learns();
        let how = task.patches().ok_or_else(|| RecipeError::new("this run does not learn patches of slides"))?;
        let SlideReady { path, slide, mask, patches } = ready;
        let key = self.slide_key(&path)?.to_string();
        let maps = self.ensemble.as_ref().map_or(&[][..], |ensemble| ensemble.maps());
        let each = 1 + maps.len();
        let mut found = Partial::resume(partial, &key, patches.len(), each)?;
        let done = found.values.len() / each;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut tiles = Tiles::start(self.plan.progress, name, patches.len(), done);
        let left = patches[done..].to_vec();
        if !left.is_empty() {
            let options = WsiOptions::new(how.patch_size, how.patch_size);
            let options = options.resolution(Resolution::Level(how.level)).corners();
            let data = PatchWSIDataset::new(left, options, self.patch_pipeline()?)?;
            let workers = self.plan.recipe.data.workers.max(1);
            let device = (!self.plan.on_processor).then(|| self.plan.device.clone());
            let loading = LoaderOptions { batch_size: how.batch, workers, device, ..LoaderOptions::default() };
            for batch in DataLoader::new(data, loading)?.epoch(0, 0) {
                found.push(self.patch_values(batch?.tensor("image")?.clone())?)?;
                tiles.reach(found.values.len() / each);
            }
        }
        tiles.end();
        let mut map = SlideMap {
            shape: [mask.height, mask.width],
            values: vec![0.0; mask.width * mask.height],
            disagreement: maps.iter().map(|map| (*map, vec![0.0; mask.width * mask.height])).collect(),
            peaks: Vec::new(),
            scale: mask.scale,
            slide: slide.dimensions(),
            mpp: slide.mpp().map(|[x, y]| (x + y) / 2.0),
            patches: found.values.len() / each,
        };
        for (patch, found) in patches.iter().zip(found.values.chunks_exact(each)) {
            let Some([row, column]) = patch.map_location else { continue };
            let filled = std::iter::once(&mut map.values).chain(map.disagreement.iter_mut().map(|(_, values)| values));
            for (values, value) in filled.zip(found) {
                values[row * mask.width + column] = f64::from(*value);
            }
        }
        map.peaks = map.find_peaks(how)?;
        Ok(map)
    }

    /// The processing of a patch after it is read.
    fn patch_pipeline(&self) -> Outcome<Arc<Pipeline>> {
        let steps = self.plan.prediction.steps().iter().filter(|step| !named(&READING, step.name()));
        let steps: Vec<Arc<dyn Transform>> = steps.cloned().collect();
        Ok(Arc::new(Pipeline::new(steps)?))
    }

    /// The values of each patch of a batch, patch by patch: its probability, and those of the
    /// disagreement maps.
    fn patch_values(&self, images: Tensor<5>) -> Outcome<Vec<f32>> {
        let (images, steps) = (images.to_device(&self.plan.device), self.plan.post_prediction()?);
        let count = images.dims()[0];
        let Merged { likely, maps } = match &self.ensemble {
            Some(ensemble) => self.merge_outputs(ensemble, &steps, &images, self.outputs(ensemble, &images)?)?,
            None => {
                self.network.check_input(images.dims())?;
                let logits = self.network.forward(images).cast(DType::F32);
                Merged { likely: self.probabilities(&steps, logits)?, maps: Vec::new() }
            }
        };
        if likely.dims() != [count, 1, 1, 1, 1] {
            let shape = likely.dims();
            return Err(RecipeError::new(format!(
                "the network returns {shape:?} for {count} patches, expected one probability each: [{count}, 1, 1, 1, 1]"
            )));
        }
        let all = Tensor::cat(std::iter::once(likely).chain(maps.into_iter().map(|(_, map)| map)).collect(), 1);
        all.try_into_vec_as::<f32>().map_err(|error| RecipeError::of_device(&error))
    }

    /// The key of a partial map: the slide, the weights, the recipe's processing, and the merging of an
    /// ensemble. A map with another key is a different map.
    ///
    /// # Errors
    /// A missing slide, or a recipe that does not learn patches.
    pub fn slide_key(&self, slide: &Path) -> Outcome<Value> {
        // Starts with the mark by which partial maps are recognised.
        let mut key = json!({
            "hearth": "partial probability map",
            "slide": slide.file_name().unwrap_or_default().to_string_lossy(),
        });
        for more in [files_key(&slide_files(slide)?)?, self.key()?] {
            if let (Value::Object(key), Value::Object(more)) = (&mut key, more) {
                key.extend(more);
            }
        }
        Ok(key)
    }
}
