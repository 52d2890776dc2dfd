//! Opens trained networks outside of a run: packages, and recipes with weights.

use std::path::Path;

use hearth_package::{Kind, Package, RECIPE, WEIGHTS};

use crate::run::trained::Weights;
use crate::run::trained::{Opening, Trained};
use hearth_recipe::recipe::Document;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::folders::open_run;
use hearth_run::weights_file;
use hearth_run::{FINGERPRINT, Fingerprint};

/// The recipe of a package of a run: its name in messages, and its text.
///
/// # Errors
/// A damaged package.
pub(crate) fn recipe_of(package: &Package) -> Outcome<(String, String)> {
    let path = package.path().display();
    let text = String::from_utf8(package.read(RECIPE)?)
        .map_err(|_| RecipeError::new(format!("{path} has a {RECIPE} that is not UTF-8")))?;
    Ok((format!("{RECIPE} of {path}"), text))
}

impl Trained {
    /// Opens the folder of a run, or a package of one.
    ///
    /// # Errors
    /// Same as [`Trained::open_with`] and [`Trained::open_package`].
    pub fn open_path(path: &Path, opening: Opening<'_>) -> Outcome<Self> {
        match Package::is_one(path) {
            true => Self::open_package(&Package::open(path)?, opening),
            false => Self::open_with(&open_run(path)?, opening),
        }
    }

    /// Opens the network of a package of a run. Its predictions equal those of the run bit for bit.
    /// Nothing is written to disk.
    ///
    /// # Errors
    /// A package of another kind or a damaged one, another checkpoint than that of the package, or
    /// an error of [`Trained::open_with`].
    pub fn open_package(package: &Package, opening: Opening<'_>) -> Outcome<Self> {
        let path = package.path().display().to_string();
        if package.manifest().kind != Kind::Run {
            let what = "does not hold a run of this program, and only runs can be used here: give a package of one run, or \
                        the folder of one";
            return Err(RecipeError::new(format!("{path} {what}")));
        }
        let name = package.facts().checkpoint.clone().unwrap_or_else(|| WEIGHTS.to_owned());
        // `best` is the default: the package's checkpoint is used.
        if opening.checkpoint != "best" && opening.checkpoint != name {
            let asked = opening.checkpoint;
            return Err(RecipeError::new(format!(
                "--checkpoint {asked}: {path} has the weights of {name} alone; remove it, or export the run again"
            )));
        }
        let (named, text) = recipe_of(package)?;
        let document = Document::parse(named, text)?;
        let opened = Self::with_weights(document, opening, || {
            let of = format!("the package {path}");
            Ok(Weights { name, of, bytes: package.read(WEIGHTS)? })
        });
        let opened = opened.while_doing(|| format!("cannot open {path}"))?;
        let fingerprint = match package.manifest().members.contains_key(FINGERPRINT) {
            true => Fingerprint::parse(&package.read(FINGERPRINT)?, &format!("{FINGERPRINT} of {path}")),
            false => None,
        };
        Ok(Self { labels: package.labels().to_vec(), fingerprint, ..opened })
    }

    /// Opens the network of a recipe with weights from a safetensors file with state-dict names. It
    /// must have all weights of the network, in the same shapes.
    ///
    /// # Errors
    /// A recipe that cannot be used; a PyTorch file, which `hearth convert` converts to
    /// safetensors; weights that do not fit, by name.
    pub fn open_recipe(document: Document, weights: &Path, opening: Opening<'_>) -> Outcome<Self> {
        let file = weights_file(weights)?;
        Self::with_weights(document, opening, || {
            let bytes = hearth_files::read(&file).while_doing(|| format!("cannot read {}", file.display()))?;
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Weights { name, of: file.display().to_string(), bytes })
        })
    }
}
