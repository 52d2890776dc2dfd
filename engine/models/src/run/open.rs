//! Trained networks from other places than a run: packages, recipes with weights beside them.

use std::path::Path;

use hearth_package::{Kind, Package, RECIPE, WEIGHTS};

use crate::run::trained::Weights;
use crate::run::trained::{Opening, Trained};
use hearth_recipe::recipe::Document;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::folders::open_run;
use hearth_run::weights_file;

impl Trained {
    /// Opens the folder of a run, or a package of one.
    ///
    /// # Errors
    /// Those of [`Trained::open_with`] and [`Trained::open_package`].
    pub fn open_path(path: &Path, opening: Opening<'_>) -> Outcome<Self> {
        match Package::is_one(path) {
            true => Self::open_package(&Package::open(path)?, opening),
            false => Self::open_with(&open_run(path)?, opening),
        }
    }

    /// The network of a package of a run. It predicts what the run does, bit for bit. Nothing is
    /// written to a disk.
    ///
    /// # Errors
    /// A package of another kind, a damaged one; a checkpoint of another name than that of the package;
    /// and as [`Trained::open_with`].
    pub fn open_package(package: &Package, opening: Opening<'_>) -> Outcome<Self> {
        let path = package.path().display().to_string();
        if package.manifest().kind != Kind::Run {
            let what = "does not hold a run of this program, and only runs can be used here: give a package of one run, or \
                        the folder of one";
            return Err(RecipeError::new(format!("{path} {what}")));
        }
        let name = package.facts().checkpoint.clone().unwrap_or_else(|| WEIGHTS.to_owned());
        // `best` is what is asked for by default: the package has one.
        if opening.checkpoint != "best" && opening.checkpoint != name {
            let asked = opening.checkpoint;
            return Err(RecipeError::new(format!(
                "--checkpoint {asked}: {path} has the weights of {name} alone; remove it, or export the run again"
            )));
        }
        let text = String::from_utf8(package.read(RECIPE)?)
            .map_err(|_| RecipeError::new(format!("{path} has a {RECIPE} that is not UTF-8")))?;
        let document = Document::parse(format!("{RECIPE} of {path}"), text)?;
        let opened = Self::with_weights(document, opening, || {
            let of = format!("the package {path}");
            Ok(Weights { name, of, bytes: package.read(WEIGHTS)? })
        });
        let opened = opened.while_doing(|| format!("cannot open {path}"))?;
        Ok(Self { labels: package.labels().to_vec(), ..opened })
    }

    /// The network of a recipe with weights from a file in safetensors, of state-dict names. All of the
    /// network's weights must be there, in its shapes.
    ///
    /// # Errors
    /// A recipe that cannot be used; a file of PyTorch, which `hearth convert` makes safetensors of;
    /// weights that do not fit, by name.
    pub fn open_recipe(document: Document, weights: &Path, opening: Opening<'_>) -> Outcome<Self> {
        let file = weights_file(weights)?;
        Self::with_weights(document, opening, || {
            let bytes = std::fs::read(&file).while_doing(|| format!("cannot read {}", file.display()))?;
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Weights { name, of: file.display().to_string(), bytes })
        })
    }
}
