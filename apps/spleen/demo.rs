//! `hearth demo spleen`: CT-like volumes with a spleen.

use crate::commands::data;
use crate::commands::demo::Demo;

/// The description of the demo.
pub const DEMO: Demo = Demo {
    recipe: "demo",
    data: "24 CT volumes with a spleen",
    // The recipe sets the number of cases for validation.
    make: |folder, seed| data::phantom_spleen(folder, 24, Some(128), seed),
    network: "UNet",
    class: "spleen",
    least: 0.85,
    next: "hearth train spleen --data Task09_Spleen --out runs/spleen",
};
