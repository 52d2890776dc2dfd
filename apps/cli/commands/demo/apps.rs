//! The apps that have a demo.

use std::path::Path;

use crate::demos;
use crate::error::Outcome;

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

/// The description of a demo.
pub struct Demo {
    /// The bundled recipe.
    pub recipe: &'static str,
    /// A description of the generated data.
    pub data: &'static str,
    /// Generates the data from a seed.
    pub make: fn(&Path, u64) -> Outcome,
    /// The kind of the network.
    pub network: &'static str,
    /// The class that shows whether the network has learned.
    pub class: &'static str,
    /// The Dice that this class must reach.
    pub least: f64,
    /// The next step with real data.
    pub next: &'static str,
}

impl App {
    /// The demo, if it runs on volumes.
    pub fn demo(self) -> Option<Demo> {
        match self {
            App::Spleen => Some(demos::spleen::DEMO),
            App::Brats => Some(demos::brats::DEMO),
            App::Lung => Some(demos::lung::DEMO),
            App::Pathology | App::Ensemble | App::Gan => None,
        }
    }
}
