//! The probability map of a whole slide, patch by patch, resumable.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::{DType, Tensor};
use hearth_data::slides::{
    Feature, Geometry, Resolution, Slide, TissueMask, TissueOptions, TissueRule, is_dicom_slide,
};
use hearth_data::transforms::ProbNMS;
use hearth_data::{
    DataLoader, Image, LoaderOptions, OneOrMany, PatchWSIDataset, Pipeline, Transform, WsiOptions, WsiPatch, affine,
};
use hearth_nn::networks::Network;
use serde_json::{Value, json};

use crate::cases::files_key;
use crate::ensemble::Disagreement;
use crate::ensemble::Merged;
use crate::run::trained::Trained;
use hearth_recipe::task::Patches;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::named;

/// Steps of a recipe that split regions into patches: a map reads its patches itself.
const READING: [&str; 4] = ["LoadRegion", "LoadImage", "EnsureChannelFirst", "GridSplit"];

/// The probability map of a slide, with a value for each pixel of a reduced slide; 0 outside of tissue.
#[derive(Clone, Debug, PartialEq)]
pub struct SlideMap {
    /// The number of rows and columns.
    pub shape: [usize; 2],
    /// The values, row by row.
    pub values: Vec<f64>,
    /// Maps of the disagreement between the members of an ensemble, with the same shape, by name.
    pub disagreement: Vec<(Disagreement, Vec<f64>)>,
    /// The width and height of a pixel in pixels of level 0.
    pub scale: [f64; 2],
    /// The width and height of the slide at level 0.
    pub slide: (usize, usize),
    /// Micrometres per pixel of level 0.
    pub mpp: Option<f64>,
    /// The number of evaluated patches.
    pub patches: usize,
}

/// The progress of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// The number of patches of the map.
    pub total: usize,
    /// The number of finished patches.
    pub done: usize,
    /// The number of finished patches from an earlier call.
    pub resumed: usize,
}

impl Trained {
    /// Computes the map of a slide: a patch around each pixel of tissue (MONAI's
    /// `MaskedPatchWSIDataset`), whose probability comes from the chain of `[post]`. With an
    /// ensemble, each patch passes through all networks before the next ones are read.
    ///
    /// Results are appended to `partial`, and a call that finds results of an earlier one there
    /// continues. The file stays until the caller removes it. `tell` is called after every batch.
    ///
    /// # Errors
    /// The recipe does not learn patches, the slide cannot be read, `partial` is another file, or
    /// the network does not return one probability.
    pub fn slide_map(&self, slide: &Path, partial: &Path, mut tell: impl FnMut(Tiles)) -> Outcome<SlideMap> {
        let task = self.plan.recipe.learns();
        let how = task.patches().ok_or_else(|| RecipeError::new("this run does not learn patches of slides"))?;
        let opened = Slide::open(slide)?;
        let level = opened.level_for(Resolution::Level(how.level), 0.0)?;
        let mask = tissue(&opened, how.stride)?;
        let patches = patches(slide, &mask, how, opened.levels()[level].downsample);
        let key = self.slide_key(slide)?.to_string();
        let maps = self.ensemble.as_ref().map_or(&[][..], |ensemble| ensemble.maps());
        let each = 1 + maps.len();
        let (mut file, mut values) = resume(partial, &key, patches.len(), each)?;
        let done = values.len() / each;
        let mut tiles = Tiles { total: patches.len(), done, resumed: done };
        tell(tiles);
        let left = patches[done..].to_vec();
        if !left.is_empty() {
            let options = WsiOptions::new(how.patch_size, how.patch_size);
            let options = options.resolution(Resolution::Level(how.level)).corners();
            let data = PatchWSIDataset::new(left, options, self.patch_pipeline()?)?;
            let workers = self.plan.recipe.data.workers.max(1);
            let device = (!self.plan.on_processor).then(|| self.plan.device.clone());
            let loading = LoaderOptions { batch_size: how.batch, workers, device, ..LoaderOptions::default() };
            for batch in DataLoader::new(data, loading)?.epoch(0, 0) {
                let found = self.patch_values(batch?.tensor("image")?.clone())?;
                let bytes: Vec<u8> = found.iter().flat_map(|value| value.to_le_bytes()).collect();
                file.write_all(&bytes).while_doing(|| format!("cannot write {}", partial.display()))?;
                values.extend(found);
                tiles.done = values.len() / each;
                tell(tiles);
            }
        }
        let mut map = SlideMap {
            shape: [mask.height, mask.width],
            values: vec![0.0; mask.width * mask.height],
            disagreement: maps.iter().map(|map| (*map, vec![0.0; mask.width * mask.height])).collect(),
            scale: mask.scale,
            slide: opened.dimensions(),
            mpp: opened.mpp().map(|[x, y]| (x + y) / 2.0),
            patches: values.len() / each,
        };
        for (patch, found) in patches.iter().zip(values.chunks_exact(each)) {
            let Some([row, column]) = patch.map_location else { continue };
            let filled = std::iter::once(&mut map.values).chain(map.disagreement.iter_mut().map(|(_, values)| values));
            for (values, value) in filled.zip(found) {
                values[row * mask.width + column] = f64::from(*value);
            }
        }
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

    /// The key of a map: the slide, the weights, the recipe's processing, and the merging of an
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

/// The files of a slide: the file itself, or the DICOM files in a folder. Other files in the
/// folder, such as results, are ignored.
fn slide_files(slide: &Path) -> Outcome<Vec<PathBuf>> {
    if !slide.is_dir() {
        return Ok(vec![slide.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(slide).while_doing(|| format!("cannot read {}", slide.display()))? {
        let path = entry.while_doing(|| format!("cannot read {}", slide.display()))?.path();
        if path.is_file() && is_dicom_slide(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

/// The tissue of a slide, with a pixel for every `stride` pixels of level 0. It uses the level with
/// this downsampling factor if there is one, such as CAMELYON's level 6.
fn tissue(slide: &Slide, stride: usize) -> Outcome<TissueMask> {
    let wanted = stride as f64;
    let level = slide.levels().iter().position(|level| (level.downsample / wanted - 1.0).abs() < 0.01);
    let (width, height) = slide.dimensions();
    let side = (width.max(height) as f64 / wanted).round().max(1.0) as usize;
    let options = TissueOptions { level, side, rule: TissueRule::Foreground, ..TissueOptions::default() };
    Ok(slide.tissue_mask(&options)?)
}

/// A patch for each pixel of tissue, row by row.
fn patches(slide: &Path, mask: &TissueMask, how: &Patches, downsample: f64) -> Vec<WsiPatch> {
    let places = mask.patches((how.patch_size, how.patch_size), downsample);
    let patch = |((x, y), place): ((usize, usize), hearth_data::slides::Patch)| WsiPatch {
        slide: slide.to_owned(),
        location: [place.y, place.x],
        label: Vec::new(),
        map_location: Some([y, x]),
    };
    places.into_iter().map(patch).collect()
}

/// Opens a partial map to continue it: returns the file, positioned after the last complete patch,
/// and its values, `each` per patch. A file of another map (other weights, a changed slide) is
/// started again.
fn resume(path: &Path, key: &str, patches: usize, each: usize) -> Outcome<(File, Vec<f32>)> {
    let doing = || format!("cannot use {}", path.display());
    let mut values: Vec<f32> = Vec::new();
    if path.exists() {
        let mut reader = BufReader::new(hearth_files::open(path).while_doing(doing)?);
        let mut line = Vec::new();
        reader.by_ref().take(1 << 16).read_until(b'\n', &mut line).while_doing(doing)?;
        let line = String::from_utf8_lossy(&line);
        if !line.is_empty() && !line.starts_with("{\"hearth\":\"partial probability map\"") {
            let what = "is no partial map of this program; move it away";
            return Err(RecipeError::new(format!("{} {what}", path.display())));
        }
        if line.strip_suffix('\n') == Some(key) {
            let mut bytes = Vec::new();
            reader.take((4 * patches * each) as u64).read_to_end(&mut bytes).while_doing(doing)?;
            values.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            values.truncate(values.len() / each * each);
        }
    }
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let mut file = hearth_files::open_own(path, &mut options).while_doing(doing)?;
    let start = key.len() as u64 + 1;
    if values.is_empty() {
        file.set_len(0).while_doing(doing)?;
        file.write_all(format!("{key}\n").as_bytes()).while_doing(doing)?;
    }
    // A truncated patch is computed again.
    let end = start + 4 * values.len() as u64;
    file.set_len(end).while_doing(doing)?;
    file.seek(SeekFrom::Start(end)).while_doing(doing)?;
    Ok((file, values))
}

impl SlideMap {
    /// The map as an image `[1, rows, columns, 1]`.
    pub fn image(&self) -> Image {
        let values = self.values.iter().map(|value| *value as f32).collect();
        let shape = [1, self.shape[0], self.shape[1], 1];
        Image::from_values(values, shape, affine::IDENTITY, &hearth_data::host_device()).with_spatial_dims(2)
    }

    /// The peaks (MONAI's `PathologyProbNMS`): probability, and row and column of the map.
    ///
    /// # Errors
    /// None for a map of [`Trained::slide_map`].
    pub fn peaks(&self, how: &Patches) -> Outcome<Vec<(f32, [usize; 2])>> {
        let nms = ProbNMS::new("map", 2).prob_threshold(how.threshold).box_size(OneOrMany::One(how.box_size));
        let found = nms.detections(&self.image())?;
        Ok(found.into_iter().map(|peak| (peak.probability, [peak.at[0], peak.at[1]])).collect())
    }

    /// The peaks as points at level 0, x before y, truncated to integers as in MONAI.
    pub fn features(&self, peaks: &[(f32, [usize; 2])], class: &str) -> Vec<Feature> {
        let place = |at: usize, scale: f64| ((at as f64 + 0.5) * scale).trunc();
        let feature = |(probability, [row, column]): &(f32, [usize; 2])| Feature {
            geometry: Geometry::Point([place(*column, self.scale[0]), place(*row, self.scale[1])]),
            name: String::new(),
            class: class.to_owned(),
            measurements: vec![("probability".to_owned(), f64::from(*probability))],
        };
        peaks.iter().map(feature).collect()
    }

    /// The map as 8-bit grey levels, 255 for a probability of 1.
    pub fn grey(&self) -> Vec<u8> {
        grey(&self.values, 1.0)
    }

    /// The map as an NPY file of f64, as MONAI's `ProbMapProducer` writes it.
    pub fn npy(&self) -> Vec<u8> {
        npy(&self.values, self.shape)
    }
}

/// Converts values to 8-bit grey levels, 255 for values of `most` and above.
pub fn grey(values: &[f64], most: f64) -> Vec<u8> {
    values.iter().map(|value| (value / most * 255.0).round().clamp(0.0, 255.0) as u8).collect()
}

/// An array of f64 as an NPY file (version 1.0).
pub fn npy(values: &[f64], [rows, columns]: [usize; 2]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    // Magic, version and length take 10 bytes; data begin at a multiple of 64.
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "{\"hearth\":\"partial probability map\",\"n\":1}";

    #[test]
    fn a_partial_map_continues_where_it_was_cut() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.part");
        let (mut file, values) = resume(&path, KEY, 10, 1).expect("new");
        assert!(values.is_empty());
        file.write_all(&[1.5_f32, 0.25].map(f32::to_le_bytes).concat()).expect("written");
        file.write_all(&[9, 9]).expect("a value cut in the middle");
        drop(file);
        let (mut file, values) = resume(&path, KEY, 10, 1).expect("again");
        assert_eq!(values, [1.5, 0.25]);
        file.write_all(&0.75_f32.to_le_bytes()).expect("written");
        drop(file);
        assert_eq!(resume(&path, KEY, 10, 1).expect("again").1, [1.5, 0.25, 0.75]);
        // With two values per patch, the second patch is not complete.
        assert_eq!(resume(&path, KEY, 10, 2).expect("pairs").1, [1.5, 0.25]);
        assert_eq!(resume(&path, KEY, 1, 1).expect("fewer").1, [1.5]);
        // With other weights it is started again; a file of another program stays.
        assert!(resume(&path, &KEY.replace('1', "2"), 10, 1).expect("other").1.is_empty());
        std::fs::write(&path, "notes").expect("written");
        assert!(resume(&path, KEY, 10, 1).expect_err("somebody's").to_string().contains("move it away"));
        assert_eq!(std::fs::read(&path).expect("read"), b"notes");
    }

    #[test]
    fn peaks_lie_at_level_0_as_in_monai() {
        let mut values = vec![0.0; 60 * 50];
        values[10 * 50 + 20] = 0.9;
        values[12 * 50 + 22] = 0.8;
        values[55 * 50 + 49] = 0.7;
        let map = SlideMap {
            shape: [60, 50],
            values,
            disagreement: Vec::new(),
            scale: [64.0; 2],
            slide: (3200, 3840),
            mpp: None,
            patches: 3,
        };
        let peaks = map.peaks(&Patches { box_size: 8, ..Patches::default() }).expect("peaks");
        assert_eq!(peaks, [(0.9, [10, 20]), (0.7, [55, 49])]);
        let features = map.features(&peaks, "tumor");
        assert_eq!(features[0].geometry, Geometry::Point([1312.0, 672.0]));
        assert_eq!(map.grey()[10 * 50 + 20], 230);
    }

    #[test]
    fn an_npy_is_read_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("m.npy");
        std::fs::write(&path, npy(&[0.0, 0.5, 1.0, 0.25, 0.125, 0.75], [2, 3])).expect("written");
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!((bytes.len() - 48) % 64, 0);
        let image = hearth_data::read_image(&path).expect("an array");
        assert_eq!(image.shape()[..2], [2, 3]);
        assert_eq!(image.to_vec(), [0.0, 0.5, 1.0, 0.25, 0.125, 0.75]);
    }
}
