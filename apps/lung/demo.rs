//! `hearth demo lung`: patients with a lung tumour, as DICOM.

use hearth_data::phantom;

use crate::commands::demo::Demo;
use crate::error::Context;
use crate::terminal::progress;

/// The description of the demo.
pub const DEMO: Demo = Demo {
    recipe: "demo-lung",
    data: "24 patients with a lung tumour, as DICOM",
    make: |data, seed| {
        let options = phantom::LungOptions::default().seed(seed).progress(progress());
        phantom::lung(data, 24, &options).while_doing(|| format!("cannot make the volumes in {}", data.display()))
    },
    network: "UNet",
    class: "GTV-1",
    least: 0.8,
    next: "hearth train lung --data NSCLC-Radiomics --out runs/lung",
};
