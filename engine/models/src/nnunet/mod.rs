//! Trained models of nnU-Net v2: their networks and predictions.
//!
//! ```no_run
//! use std::path::Path;
//! use hearth_models::nnunet::{NnunetOptions, NnunetPredictor};
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
mod facts;
mod model;
mod network;
mod onnx;
mod predict;
mod properties;
mod total;

pub use ensemble::NnunetEnsemble;
pub use export::{ExportOptions, export};
pub use hearth_nnunet::{Case, DatasetJson, Folds, ModelFolder, Plans, planner};
pub use hearth_recipe::nnunet::Source;
pub use hearth_recipe::nnunet::{
    CaseImage, Grid, ListedSet, Listing, NnunetPreprocess, NnunetPreviousStage, NnunetRaw, Normalization,
    RandNnunetAugment, RandNnunetPatch, RandNnunetPreviousStage, Reader, preprocessed_recipe, training_recipe,
};
pub(crate) use model::FAMILY;
pub use model::NnunetModel;
pub(crate) use onnx::exported;
pub use predict::{NnunetOptions, NnunetPredictor, Predicted, Preparation};
pub use total::{TotalCard, TotalLabels, TotalModel, TotalOptions, TotalPrepared, TotalSegmentator};
pub(crate) use total::{lone_model, models_below};
