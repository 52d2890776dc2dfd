//! Trained models of nnU-Net v2: their networks, images and predictions; fingerprints and plans of
//! data sets in its raw layout, and recipes that train them with its settings.
//!
//! ```no_run
//! use std::path::Path;
//! use hearth_recipe::nnunet::{NnunetOptions, NnunetPredictor};
//!
//! let model = Path::new("nnUNetTrainer__nnUNetPlans__3d_fullres");
//! let predictor = NnunetPredictor::open(model, &NnunetOptions::default())?;
//! for case in predictor.cases(Path::new("images"))? {
//!     let found = predictor.predict(&case, None)?;
//!     found.write(Path::new(&format!("{}.nii.gz", case.name)))?;
//! }
//! # Ok::<(), hearth_recipe::RecipeError>(())
//! ```

mod checkpoint;
mod ensemble;
mod export;
mod image;
mod network;
mod predict;
mod properties;
mod raw;
mod steps;
mod total;
mod train;

pub use ensemble::NnunetEnsemble;
pub use export::{ExportOptions, export};
pub use hearth_nnunet::total::Modality;
pub use hearth_nnunet::{Case, DatasetJson, Folds, ModelFolder, Plans, planner};
pub use image::{CaseImage, Grid};
pub use predict::{NnunetOptions, NnunetPredictor, Predicted, Preparation};
pub use raw::NnunetRaw;
pub use steps::{
    NnunetPreprocess, NnunetPreviousStage, Normalization, RandNnunetAugment, RandNnunetPatch, RandNnunetPreviousStage,
};
pub(crate) use total::models_below;
pub use total::{TotalCard, TotalLabels, TotalOptions, TotalPrepared, TotalSegmentator};
pub use train::{preprocessed_recipe, training_recipe};
