//! The apps that have a demo.

use std::path::Path;

use hearth_data::phantom;

use crate::error::{Context, Outcome};
use crate::terminal::progress;

/// An app with a demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum App {
    /// A spleen in abdominal CT
    Spleen,
    /// Brain tumours in four MR contrasts: core, whole tumour and enhancing tumour
    Brats,
    /// Lung tumours in CT, as DICOM
    Lung,
    /// Tumours on whole-slide images
    Pathology,
    /// Five networks of a cross-validation, merged
    Ensemble,
    /// Pictures from random numbers
    Gan,
}

/// What the demo of an app does.
pub struct Demo {
    /// The bundled recipe.
    pub recipe: &'static str,
    /// What is generated, in words.
    pub data: &'static str,
    /// Generates it by this seed.
    pub make: fn(&Path, u64) -> Outcome,
    /// The kind of its network.
    pub network: &'static str,
    /// The class that shows whether the network has learned,
    pub class: &'static str,
    /// and the Dice that it reaches then.
    pub least: f64,
    /// What to do with real data.
    pub next: &'static str,
}

impl App {
    /// Its demo, where that is a run of volumes.
    pub fn demo(self) -> Option<Demo> {
        Some(match self {
            App::Pathology | App::Ensemble | App::Gan => return None,
            App::Spleen => Demo {
                recipe: "demo",
                data: "24 CT volumes with a spleen",
                // The recipe says how many of the cases validate.
                make: |data, seed| crate::commands::data::phantom_spleen(data, 24, Some(128), seed),
                network: "UNet",
                class: "spleen",
                least: 0.85,
                next: "hearth train spleen --data Task09_Spleen --out runs/spleen",
            },
            App::Brats => Demo {
                recipe: "demo-brats",
                data: "24 MR volumes of four contrasts with a brain tumour",
                make: |data, seed| {
                    let options = phantom::BratsOptions::default().seed(seed).progress(progress());
                    phantom::brats(data, 24, &options)
                        .while_doing(|| format!("cannot make the volumes in {}", data.display()))
                },
                network: "SegResNet",
                class: "WT",
                least: 0.8,
                next: "hearth train brats --data Task01_BrainTumour --out runs/brats",
            },
            App::Lung => Demo {
                recipe: "demo-lung",
                data: "24 patients with a lung tumour, as DICOM",
                make: |data, seed| {
                    let options = phantom::LungOptions::default().seed(seed).progress(progress());
                    phantom::lung(data, 24, &options)
                        .while_doing(|| format!("cannot make the volumes in {}", data.display()))
                },
                network: "UNet",
                class: "GTV-1",
                least: 0.8,
                next: "hearth train lung --data NSCLC-Radiomics --out runs/lung",
            },
        })
    }
}
