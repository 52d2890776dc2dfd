//! An ensemble in a package: `ensemble.json` and a package of each run.

use std::path::Path;

use hearth_package::Package;
use hearth_recipe::{Context, Outcome, RecipeError};
use serde::{Deserialize, Serialize};

use super::{Merge, Merging};
use crate::run::{Opening, Trained};

/// The file that lists the runs and their merging.
pub(crate) const LIST: &str = "ensemble.json";

/// The content of [`LIST`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackedEnsemble {
    /// The file names of the runs' packages, in order.
    pub members: Vec<String>,
    /// The operation.
    pub merge: Merge,
    /// Weights of a mean, as in [`Merging`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Vec<f64>>,
}

impl PackedEnsemble {
    fn read(folder: &Path) -> Outcome<Self> {
        let path = folder.join(LIST);
        let doing = || format!("cannot read {}", path.display());
        let list: Self =
            serde_json::from_str(&hearth_files::read_to_string(&path).while_doing(doing)?).while_doing(doing)?;
        let leads_out = |name: &&String| Path::new(name.as_str()).file_name() != Some(name.as_ref());
        if let Some(name) = list.members.iter().find(leads_out) {
            return Err(RecipeError::new(format!("{name:?} is not the name of a file in it")).context(doing()));
        }
        Ok(list)
    }

    /// Opens the runs of an unpacked ensemble, and merges them.
    ///
    /// # Errors
    /// A list that cannot be read, or that names files outside of the folder; otherwise same as
    /// [`Trained::open_package`] and [`Trained::merged`].
    pub(crate) fn open(folder: &Path, opening: &Opening<'_>) -> Outcome<Trained> {
        let list = Self::read(folder)?;
        let open = |name: &String| {
            let package = Package::open(&folder.join(name))?;
            Ok((name.clone(), Trained::open_package(&package, opening.clone())?))
        };
        let runs = list.members.iter().map(open).collect::<Outcome<Vec<_>>>()?;
        Trained::merged(runs, Merging { how: list.merge, weights: list.weights, maps: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_cannot_be_followed_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let refused = |text: &str| {
            std::fs::write(dir.path().join(LIST), text).expect("written");
            let opened = PackedEnsemble::open(dir.path(), &Opening::new("best", "cpu"));
            opened.err().map(|error| error.line()).unwrap_or_else(|| panic!("{text} was opened"))
        };
        for name in ["../run0.hearth", "..", "/etc/passwd", "a/run0.hearth", ""] {
            let text = format!(r#"{{"members": ["{name}"], "merge": "logits"}}"#);
            assert!(refused(&text).contains("ensemble.json"), "{name}");
        }
        assert!(refused(r#"{"members": ["run0.hearth"], "merge": "logits"}"#).contains("run0.hearth"));
        assert!(refused(r#"{"members": [], "merge": "logits"}"#).contains("at least one run"));
        assert!(refused(r#"{"members": [], "merge": "median"}"#).contains("median"));
        assert!(refused(r#"{"members": [], "merge""#).contains("ensemble.json"));
    }
}
