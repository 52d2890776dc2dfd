//! Generated volumes with exact labels for experiments, written as data set folders.
//!
//! | phantom | shows |
//! |---|---|
//! | [`spleen`] | abdomens in CT with a spleen |
//! | [`brats`] | heads in four MR contrasts with nested tumours |
//! | [`lung`] | chests in CT with a tumour, as DICOM with structure sets |
//! | [`pathology`] | slides of stained tissue with tumours, and annotations |
//! | [`hands`] | radiographs of hands, as pictures |
//! | [`spheres`] | bright spheres, those of MONAI's tests |
//!
//! Every case is drawn from the seed and its number: the same seed gives the same volumes.
//!
//! ```
//! use hearth_phantom::{SpleenOptions, spleen_case};
//! let (image, label) = spleen_case(0, &SpleenOptions::default().size(32)); // HU, and 0 or 1
//! assert_eq!(image.shape(), label.shape());
//! assert!(label.to_vec().contains(&1.0));
//! ```

#![forbid(unsafe_code)]

mod brats;
mod decathlon_folder;
mod hands;
mod harder;
mod lung;
mod pathology;
mod shapes;
mod spheres;
mod spleen;

pub use brats::{BratsLayout, BratsOptions, brats, brats_case};
pub use hands::{HandsOptions, hands, hands_case};
pub use lung::{LungOptions, lung, lung_case};
pub use pathology::{PathologyOptions, pathology, pathology_case};
pub use spheres::{SpheresOptions, spheres, spheres_case};
pub use spleen::{SpleenOptions, spleen, spleen_case};
