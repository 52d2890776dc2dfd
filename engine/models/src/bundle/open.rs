//! Opens a bundle from a folder or a zip.

use std::path::{Path, PathBuf};

use hearth_bundle::Bundle;
use hearth_files::Scratch;
use hearth_recipe::{Outcome, RecipeError};

/// An opened bundle: a folder, or a zip that was unpacked to a temporary one.
pub struct OpenedBundle {
    /// The bundle.
    pub bundle: Bundle,
    /// The folder for results with a relative path in the config.
    pub results: PathBuf,
    _unpacked: Option<Scratch>,
}

/// Opens a folder, or unpacks a zip; results of a zip go to the working directory.
///
/// # Errors
/// A path that is neither, or an archive that is damaged, too large, or leads outside of its folder.
pub fn open(path: &Path) -> Outcome<OpenedBundle> {
    if path.is_dir() {
        let bundle = Bundle::open(path)?;
        return Ok(OpenedBundle { bundle, results: path.to_owned(), _unpacked: None });
    }
    if !path.is_file() {
        return Err(RecipeError::new(format!(
            "{} is missing: give the folder of a bundle, or its zip",
            path.display()
        )));
    }
    let unpacked = unpacked(path)?;
    let root = root_of(unpacked.path()).ok_or_else(|| {
        let what = "has no folder `configs`, which every MONAI bundle has; a zip of another model is for \
                        `hearth models add`";
        RecipeError::new(format!("{} {what}", path.display()))
    })?;
    Ok(OpenedBundle { bundle: Bundle::open(&root)?, results: PathBuf::from("."), _unpacked: Some(unpacked) })
}

/// The largest ratio of unpacked bytes to the bytes of a zip: weights hardly compress.
#[cfg(feature = "download")]
const MOST_PER_BYTE: u64 = 100;

/// Unpacks a zip.
#[cfg(feature = "download")]
fn unpacked(zip: &Path) -> Outcome<Scratch> {
    use hearth_data::Progress;
    use hearth_data::download::{ArchiveLimits, unpack};
    use hearth_recipe::Context;

    let doing = || format!("cannot open the bundle {}", zip.display());
    let size = std::fs::metadata(zip).while_doing(doing)?.len();
    let limits = ArchiveLimits { bytes: size.saturating_mul(MOST_PER_BYTE), entries: 20_000 };
    let folder = Scratch::new("hearth-bundle-").while_doing(doing)?;
    unpack(zip, &folder.path().join("bundle"), limits, Progress::None)
        .map_err(RecipeError::from_error)
        .while_doing(doing)?;
    Ok(folder)
}

/// The error without the feature that reads archives.
#[cfg(not(feature = "download"))]
fn unpacked(zip: &Path) -> Outcome<Scratch> {
    let what =
        "this program was built without the feature `download`, which reads archives: unpack it, and give the folder";
    Err(RecipeError::new(format!("{}: {what}", zip.display())))
}

/// The folder with `configs`: the archive's root, or the only folder in it.
fn root_of(unpacked: &Path) -> Option<PathBuf> {
    let folder = unpacked.join("bundle");
    if Bundle::is_one(&folder) {
        return Some(folder);
    }
    let entries = std::fs::read_dir(folder).ok()?;
    entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| Bundle::is_one(path))
}
