//! Patches of whole-slide images: [`PatchWSIDataset`], with patches from a list, in a sliding
//! window, or on tissue.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_image::{Image, affine, host_device};
use hearth_io::readers::slide_region;
use hearth_slides::{RESOLUTION_TOLERANCE, Resolution, Slide, SlidingOptions, TissueOptions};
use hearth_transforms::{Pipeline, Sample, Value};

use super::Dataset;
use super::cases::guarded;
use crate::DataError;

/// A patch to read.
#[derive(Clone, Debug, PartialEq)]
pub struct WsiPatch {
    /// Path of the slide.
    pub slide: PathBuf,
    /// Row and column in pixels of level 0: of the centre or of the top left corner, see
    /// [`WsiOptions::center_location`].
    pub location: [i64; 2],
    /// Labels; may be empty. They become the image `label`, `[1, n, 1, 1]`.
    pub label: Vec<f32>,
    /// Pixel (row, column) of the map that a result for this patch belongs to.
    pub map_location: Option<[usize; 2]>,
}

/// The options for reading patches.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WsiOptions {
    /// Height and width, in pixels of the level that is read.
    pub patch_size: [usize; 2],
    /// Resolution: a level, micrometres per pixel, or the power of the objective (both within 5 %).
    pub resolution: Resolution,
    /// Whether locations are centres (the corner is `location - size / 2`, as in MONAI) instead of
    /// corners.
    pub center_location: bool,
}

impl WsiOptions {
    /// Creates options for patches of a height and width at level 0, centred at their locations.
    pub fn new(height: usize, width: usize) -> Self {
        WsiOptions { patch_size: [height, width], resolution: Resolution::Level(0), center_location: true }
    }

    /// Selects another level, or the level of a resolution.
    pub fn resolution(mut self, resolution: Resolution) -> Self {
        self.resolution = resolution;
        self
    }

    /// Uses locations as top left corners.
    pub fn corners(mut self) -> Self {
        self.center_location = false;
        self
    }
}

/// Reads patches of slides and runs a pipeline on each. Only the tiles that a patch touches are
/// decoded, and all slides share one bounded cache of tiles.
///
/// A sample has `image` (`[3, H, W, 1]`, 0 to 255, rows first), `label` if the patch has labels,
/// the string `slide`, and the numbers `row`, `column` (of the corner, level 0), and `map_row` and
/// `map_column` if the patch belongs to a map.
#[derive(Debug)]
pub struct PatchWSIDataset {
    patches: Vec<WsiPatch>,
    names: Vec<String>,
    slides: BTreeMap<PathBuf, (Slide, usize)>,
    options: WsiOptions,
    pipeline: Arc<Pipeline>,
}

impl PatchWSIDataset {
    /// Opens all slides and finds the level in each.
    ///
    /// # Errors
    /// If a slide cannot be opened or lacks the resolution, or a patch starts beyond its slide's
    /// right or lower edge.
    pub fn new(
        patches: Vec<WsiPatch>,
        options: WsiOptions,
        pipeline: impl Into<Arc<Pipeline>>,
    ) -> Result<Self, DataError> {
        let pipeline = pipeline.into();
        if options.patch_size.contains(&0) {
            return Err(DataError::Option(format!("patches of {:?} pixels", options.patch_size)));
        }
        let mut slides = BTreeMap::new();
        for patch in &patches {
            if !slides.contains_key(&patch.slide) {
                let slide = open(&patch.slide)?;
                let level = slide.level_for(options.resolution, RESOLUTION_TOLERANCE).map_err(wrong)?;
                slides.insert(patch.slide.clone(), (slide, level));
            }
            let (width, height) = slides[&patch.slide].0.dimensions();
            let [row, column] = patch.location;
            if row >= height as i64 || column >= width as i64 {
                return Err(DataError::Option(format!(
                    "{}: a patch at row {row}, column {column}; the slide has {height} rows and {width} columns",
                    patch.slide.display()
                )));
            }
        }
        let name = |patch: &WsiPatch| {
            let file = patch.slide.file_stem().unwrap_or_default().to_string_lossy();
            format!("{file} row {} column {}", patch.location[0], patch.location[1])
        };
        let names = patches.iter().map(name).collect();
        Ok(PatchWSIDataset { patches, names, slides, options, pipeline })
    }

    /// Creates all patches of a window that slides over each slide, as MONAI's
    /// `SlidingPatchWSIDataset`: those completely inside, neighbours overlapping by `overlap` (0 to
    /// less than 1) of their size.
    ///
    /// # Errors
    /// Those of [`PatchWSIDataset::new`], and if the overlap leaves no step.
    pub fn sliding(
        slides: &[PathBuf],
        overlap: f64,
        options: WsiOptions,
        pipeline: Arc<Pipeline>,
    ) -> Result<Self, DataError> {
        let mut patches = Vec::new();
        for path in slides {
            let slide = open(path)?;
            let level = slide.level_for(options.resolution, RESOLUTION_TOLERANCE).map_err(wrong)?;
            let [height, width] = options.patch_size;
            let window = SlidingOptions { size: (width, height), level, overlap: (overlap, overlap), offset: (0, 0) };
            let places = slide.sliding_grid(&window).map_err(wrong)?;
            patches.extend(places.iter().map(|place| WsiPatch {
                slide: path.clone(),
                location: [place.y, place.x],
                label: Vec::new(),
                map_location: None,
            }));
        }
        PatchWSIDataset::new(patches, options.corners(), pipeline)
    }

    /// Creates a patch around each tissue pixel of a mask, as MONAI's `MaskedPatchWSIDataset`: for
    /// probability maps.
    ///
    /// # Errors
    /// Those of [`PatchWSIDataset::new`], and if the mask's level does not exist.
    pub fn masked(
        slides: &[PathBuf],
        mask: &TissueOptions,
        options: WsiOptions,
        pipeline: Arc<Pipeline>,
    ) -> Result<Self, DataError> {
        let mut patches = Vec::new();
        for path in slides {
            let slide = open(path)?;
            let level = slide.level_for(options.resolution, RESOLUTION_TOLERANCE).map_err(wrong)?;
            let tissue = slide.tissue_mask(mask).map_err(wrong)?;
            let [height, width] = options.patch_size;
            let places = tissue.patches((width, height), slide.levels()[level].downsample);
            patches.extend(places.into_iter().map(|((x, y), place)| WsiPatch {
                slide: path.clone(),
                location: [place.y, place.x],
                label: Vec::new(),
                map_location: Some([y, x]),
            }));
        }
        PatchWSIDataset::new(patches, options.corners(), pipeline)
    }

    /// The patches in order.
    pub fn patches(&self) -> &[WsiPatch] {
        &self.patches
    }

    fn sample(&self, index: usize, patch: &WsiPatch) -> Result<Sample, DataError> {
        let (slide, level) = self
            .slides
            .get(&patch.slide)
            .ok_or_else(|| DataError::Option(format!("{} was not opened", patch.slide.display())))?;
        let [height, width] = self.options.patch_size;
        let [mut row, mut column] = patch.location;
        if self.options.center_location {
            // As in MONAI: half of the size, in pixels of the level that is read, subtracted from a
            // position at level 0.
            (row, column) = (row - (height / 2) as i64, column - (width / 2) as i64);
        }
        let raster = slide.read_region_at((column, row), *level, (width, height)).map_err(wrong)?;
        let mut image = slide_region(&raster);
        image.meta.path = Some(patch.slide.clone());
        let mut sample = Sample::new(&self.names[index])
            .with_image("image", image)
            .with("slide", Value::Text(patch.slide.to_string_lossy().into_owned()))
            .with("row", Value::Number(row as f64))
            .with("column", Value::Number(column as f64));
        if let Some([y, x]) = patch.map_location {
            sample = sample.with("map_row", Value::Number(y as f64)).with("map_column", Value::Number(x as f64));
        }
        if !patch.label.is_empty() {
            let shape = [1, patch.label.len(), 1, 1];
            let label = Image::from_values(patch.label.clone(), shape, affine::IDENTITY, &host_device());
            sample = sample.with_image("label", label.with_spatial_dims(2));
        }
        Ok(sample)
    }
}

impl Dataset for PatchWSIDataset {
    fn len(&self) -> usize {
        self.patches.len()
    }

    fn case(&self, index: usize) -> &str {
        self.names.get(index).map_or("", String::as_str)
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let patch = self.patches.get(index).ok_or_else(|| {
            DataError::Option(format!("there is no patch {index}; the data set has {}", self.patches.len()))
        })?;
        guarded(&self.names[index], || {
            let sample = self.sample(index, patch)?;
            Ok(self.pipeline.run(sample, self.pipeline.draw_key(epoch))?)
        })
    }
}

fn open(path: &Path) -> Result<Slide, DataError> {
    Slide::open(path).map_err(wrong)
}

fn wrong(error: hearth_slides::SlideError) -> DataError {
    DataError::Slide(error)
}
