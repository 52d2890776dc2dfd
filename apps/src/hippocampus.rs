//! Anterior and posterior hippocampus in brain MRI (Medical Segmentation Decathlon, Task04): small volumes, two
//! classes, minutes on a CPU.
//!
//! ```text
//! hearth train hippocampus --data Task04_Hippocampus --out runs/hippocampus
//! ```

use crate::recipe::bundled::Bundled;

/// Crops of 32 voxels, a UNet of 16 to 128 channels, DiceCE, SGD with Nesterov momentum.
pub const RECIPE: Bundled = Bundled { name: "hippocampus", text: include_str!("../recipes/hippocampus.toml") };
