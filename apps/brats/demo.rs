//! `hearth demo brats`: heads in four MR contrasts with a brain tumour.

use hearth_data::phantom;

use crate::commands::demo::Demo;
use crate::error::Context;
use crate::terminal::progress;

/// The description of the demo.
pub const DEMO: Demo = Demo {
    recipe: "demo-brats",
    data: "24 MR volumes of four contrasts with a brain tumour",
    make: |data, seed| {
        let options = phantom::BratsOptions::default().seed(seed).progress(progress());
        phantom::brats(data, 24, &options).while_doing(|| format!("cannot make the volumes in {}", data.display()))
    },
    network: "SegResNet",
    class: "WT",
    least: 0.8,
    next: "hearth train brats --data Task01_BrainTumour --out runs/brats",
};
