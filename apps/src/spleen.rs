//! Spleen in abdominal CT (Medical Segmentation Decathlon, Task09): the fast recipe of MONAI's tutorial, and the
//! regular one it is measured against.
//!
//! ```text
//! hearth train spleen --data Task09_Spleen --out runs/spleen
//! hearth predict runs/spleen -i patient.nii.gz -o labels
//! ```

use crate::recipe::bundled::Bundled;

/// Everything cached, 16 patches a batch, DiceCE, SGD at 0.2. MONAI's tutorial reports Dice 0.94 after 95 epochs of it.
pub const FAST: Bundled = Bundled { name: "spleen", text: include_str!("../recipes/spleen.toml") };

/// The plain recipe: no cache, 8 patches a batch, Dice, Adam at 2e-4.
pub const REGULAR: Bundled = Bundled { name: "spleen-regular", text: include_str!("../recipes/spleen-regular.toml") };
