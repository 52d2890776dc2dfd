//! Transforms of whole batches.

use hearth_image::{Image, affine};
use hearth_transforms::{Pipeline, Sample};

use crate::{Batch, DataError};

/// Runs a pipeline once on a whole batch, on the device that holds it. The images of a key become
/// the channels of one image, so that they share all draws, as with cuCIM's batch transforms. The
/// draws depend on the first case and the epoch.
///
/// This suits transforms that keep channels apart (flips, rotations, zoom, ranges), those that
/// combine cases ([`MixUp`], [`CutMix`], [`CutOut`]) and [`ColorJitter`], but not crops that produce a random number of samples.
///
/// [`ColorJitter`]: hearth_transforms::transforms::ColorJitter
/// [`CutMix`]: hearth_transforms::transforms::CutMix
/// [`CutOut`]: hearth_transforms::transforms::CutOut
/// [`MixUp`]: hearth_transforms::transforms::MixUp
///
/// # Errors
/// If a step fails, or changes the number of samples or channels.
pub fn transform_batch(mut batch: Batch, pipeline: &Pipeline, epoch: u64) -> Result<Batch, DataError> {
    let Some(first) = batch.cases.first() else { return Ok(batch) };
    let mut sample = Sample::new(format!("the batch of {first}"));
    let mut sizes = Vec::new();
    for (key, tensor) in std::mem::take(&mut batch.tensors) {
        let [count, channels, x, y, z] = tensor.dims();
        let info = batch.images.first().and_then(|images| images.get(&key));
        let affine = info.map_or(affine::IDENTITY, |info| info.affine);
        let spatial_dims = info.map_or(3, |info| info.meta.spatial_dims);
        let data = tensor.reshape([count * channels, x, y, z]);
        let image = Image::new(data, affine).with_spatial_dims(spatial_dims);
        sample = sample.with_image(&key, image);
        sizes.push((key, count));
    }
    let mut made = pipeline.run_batch(sample, batch.cases.len(), pipeline.draw_key(epoch))?;
    let (Some(mut sample), true) = (made.pop(), made.is_empty()) else {
        return Err(DataError::Collate("a batch transform must return exactly one sample".to_owned()));
    };
    for (key, count) in sizes {
        let image = sample.take_image(&key).map_err(|error| DataError::Collate(error.to_string()))?;
        let [channels, x, y, z] = image.data.dims();
        if !channels.is_multiple_of(count) {
            let what = format!("a batch transform returned {channels} channels of `{key}` for {count} entries");
            return Err(DataError::Collate(what));
        }
        batch.tensors.insert(key, image.data.reshape([count, channels / count, x, y, z]));
    }
    Ok(batch)
}
