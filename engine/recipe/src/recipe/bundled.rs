//! The recipes included in the program.
//!
//! They are data of the apps and stored in their folders (`apps/spleen/spleen.toml`). This crate
//! includes their texts, so that every user of recipes finds them by name; it uses no code of the
//! apps.

use std::path::Path;

use hearth_registry::{Document, Fault, unknown};

use crate::error::{Outcome, RecipeError};

/// A recipe included in the program.
#[derive(Clone, Copy, Debug)]
pub struct Bundled {
    /// The name of the recipe on the command line.
    pub name: &'static str,
    /// The TOML text of the recipe.
    pub text: &'static str,
}

/// Spleen in abdominal CT (Medical Segmentation Decathlon, Task09), the fast recipe of MONAI's
/// tutorial: everything cached, 16 patches a batch, DiceCE, SGD with a learning rate of 0.2. The
/// tutorial reports a Dice of 0.94 after 95 epochs.
pub const SPLEEN: Bundled = Bundled { name: "spleen", text: include_str!("../../../../apps/spleen/spleen.toml") };

/// The plain recipe of the same tutorial: no cache, 8 patches a batch, Dice, Adam with a learning
/// rate of 2e-4.
pub const SPLEEN_REGULAR: Bundled =
    Bundled { name: "spleen-regular", text: include_str!("../../../../apps/spleen/spleen-regular.toml") };

/// Anterior and posterior hippocampus in brain MRI (Medical Segmentation Decathlon, Task04): small
/// volumes, two classes, minutes on a CPU.
pub const HIPPOCAMPUS: Bundled =
    Bundled { name: "hippocampus", text: include_str!("../../../../apps/hippocampus/hippocampus.toml") };

/// Brain tumours in four MR contrasts (Medical Segmentation Decathlon, Task01, and BraTS), the
/// recipe of MONAI's distributed tutorial on one device. Intensities are normalized before the crop,
/// so that training and validation have the same statistics and the step is cached.
pub const BRATS: Bundled = Bundled { name: "brats", text: include_str!("../../../../apps/brats/brats.toml") };

/// The plain recipe of MONAI's notebook on the same data: no cache, Dice, Adam at 1e-4.
pub const BRATS_REGULAR: Bundled =
    Bundled { name: "brats-regular", text: include_str!("../../../../apps/brats/brats-regular.toml") };

/// Lung tumours in CT (NSCLC-Radiomics) with SwinUNETR, as AMD trains it: DICOM with segmentations
/// or structure sets, one channel with a sigmoid, DiceCE, AdamW, 700 epochs.
pub const LUNG: Bundled = Bundled { name: "lung", text: include_str!("../../../../apps/lung/lung.toml") };

/// The cross-validation of MONAI's notebook on model ensembles: five folds of 50 volumes with
/// spheres, and a UNet with one output for each. The notebook reports a Dice of 0.933 for the mean
/// of the five and 0.934 for their vote, on 10 further volumes.
pub const ENSEMBLE: Bundled =
    Bundled { name: "ensemble", text: include_str!("../../../../apps/ensemble/ensemble.toml") };

/// Metastases in lymph nodes (CAMELYON16): patches of whole-slide images, with the random transforms
/// on whole batches on the device, as in MONAI's fast training guide.
pub const PATHOLOGY: Bundled =
    Bundled { name: "pathology", text: include_str!("../../../../apps/pathology/pathology.toml") };

/// The plain recipe of the same guide: the random transforms patch by patch on the host.
pub const PATHOLOGY_REGULAR: Bundled =
    Bundled { name: "pathology-regular", text: include_str!("../../../../apps/pathology/pathology-regular.toml") };

/// The recipe of `hearth demo pathology`.
pub const DEMO_PATHOLOGY: Bundled =
    Bundled { name: "demo-pathology", text: include_str!("../../../../apps/pathology/demo-pathology.toml") };

/// The recipe of `hearth demo`.
pub const DEMO: Bundled = Bundled { name: "demo", text: include_str!("../../../../apps/spleen/demo.toml") };

/// The recipe of `hearth demo brats`.
pub const DEMO_BRATS: Bundled =
    Bundled { name: "demo-brats", text: include_str!("../../../../apps/brats/demo-brats.toml") };

/// Lung tumours in generated CT, small enough for two CPU cores.
pub const DEMO_LUNG: Bundled =
    Bundled { name: "demo-lung", text: include_str!("../../../../apps/lung/demo-lung.toml") };

/// Generated radiographs of hands, small enough for two CPU cores.
pub const DEMO_GAN: Bundled = Bundled { name: "demo-gan", text: include_str!("../../../../apps/gan/demo-gan.toml") };

/// MONAI's tutorial of `GanTrainer`.
pub const GAN: Bundled = Bundled { name: "gan", text: include_str!("../../../../apps/gan/gan.toml") };

/// Segmentation with an additional discriminator.
pub const ADVERSARIAL: Bundled =
    Bundled { name: "adversarial", text: include_str!("../../../../apps/gan/adversarial.toml") };

/// The recipe of `hearth demo ensemble`.
pub const DEMO_ENSEMBLE: Bundled =
    Bundled { name: "demo-ensemble", text: include_str!("../../../../apps/ensemble/demo-ensemble.toml") };

/// All bundled recipes.
pub const ALL: &[Bundled] = &[
    SPLEEN,
    SPLEEN_REGULAR,
    HIPPOCAMPUS,
    BRATS,
    BRATS_REGULAR,
    PATHOLOGY,
    PATHOLOGY_REGULAR,
    LUNG,
    ENSEMBLE,
    ADVERSARIAL,
    GAN,
    DEMO,
    DEMO_BRATS,
    DEMO_LUNG,
    DEMO_ENSEMBLE,
    DEMO_PATHOLOGY,
    DEMO_GAN,
];

impl Bundled {
    /// The recipe's first comment line.
    pub fn about(&self) -> &'static str {
        self.text.lines().next().unwrap_or("").trim_start_matches(['#', ' '])
    }

    /// The recipe with positions; errors call it `spleen.toml (bundled)`.
    ///
    /// # Errors
    /// None: a test reads all of them.
    pub fn document(&self) -> Result<Document, Fault> {
        Document::parse(format!("{}.toml (bundled)", self.name), self.text)
    }
}

/// The bundled recipe of this name.
pub fn find(name: &str) -> Outcome<&'static Bundled> {
    ALL.iter().find(|recipe| recipe.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|recipe| recipe.name).collect();
        RecipeError::new(unknown("recipe", name, &names))
    })
}

/// Opens `RECIPE` of the command line: a file if it looks like one, otherwise a bundled recipe.
pub fn open(word: &str) -> Outcome<Document> {
    let path = Path::new(word);
    if word.ends_with(".toml") || word.contains(['/', '\\']) || path.is_file() {
        return Ok(Document::open(path)?);
    }
    match find(word) {
        Ok(recipe) => Ok(recipe.document()?),
        Err(failure) => Err(failure.context(format!("{word:?} is neither a bundled recipe nor a TOML file"))),
    }
}
