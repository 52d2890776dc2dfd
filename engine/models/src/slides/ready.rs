//! A slide that was opened, and the patches of its map.

use std::path::{Path, PathBuf};

use hearth_data::WsiPatch;
use hearth_data::slides::{Resolution, Slide, TissueMask, TissueOptions, TissueRule};
use hearth_recipe::task::Patches;
use hearth_recipe::{Outcome, RecipeError};

use crate::cases::Case;
use crate::model::{Prepare, Prepared};

/// A slide with its tissue and the patches of its map.
pub struct SlideReady {
    pub(super) path: PathBuf,
    pub(super) slide: Slide,
    pub(super) mask: TissueMask,
    pub(super) patches: Vec<WsiPatch>,
}

impl SlideReady {
    /// Opens a slide and finds the patches of its map: one around each pixel of tissue (MONAI's
    /// `MaskedPatchWSIDataset`).
    ///
    /// # Errors
    /// A slide that cannot be read, or without the level of the patches.
    pub fn open(path: &Path, how: &Patches) -> Outcome<Self> {
        let slide = Slide::open(path)?;
        let level = slide.level_for(Resolution::Level(how.level), 0.0)?;
        let mask = tissue(&slide, how.stride)?;
        let patches = patches(path, &mask, how, slide.levels()[level].downsample);
        Ok(Self { path: path.to_owned(), slide, mask, patches })
    }

    /// The approximate memory in bytes until its map is written.
    fn bytes(&self) -> u64 {
        let of_patch = size_of::<WsiPatch>() + self.path.as_os_str().len() + size_of::<f32>();
        (self.mask.pixels.len() * (1 + size_of::<f64>()) + self.patches.len() * of_patch) as u64
    }
}

/// Opens slides for a run that learned patches.
pub(crate) struct SlidePreparer(pub(crate) Patches);

impl Prepare for SlidePreparer {
    fn prepare(&self, case: &Case, _: Option<&Path>) -> Outcome<Prepared> {
        let file = case.files().next().ok_or_else(|| RecipeError::new(format!("{} has no file", case.name())))?;
        let ready = SlideReady::open(file, &self.0)?;
        let bytes = ready.bytes();
        Ok(Prepared::new(ready, bytes))
    }
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
