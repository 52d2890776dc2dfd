//! Weights of a bundle that are not there: bundles are published without them.

use std::path::{Component as Part, Path, PathBuf};

use hearth_bundle::Bundle;

/// What to say of a file of weights that is not there: its place in the bundle of this folder, and where
/// `large_files.yml` says that it comes from. `path` counts from the folder.
pub(crate) fn weights(folder: &Path, path: &Path) -> String {
    let place = plain(&folder.join(path));
    let within = place.strip_prefix(plain(folder)).map_or(place.clone(), Path::to_owned);
    let from = address(folder, &within);
    let from = from.map_or_else(|| "from where the bundle comes from".to_owned(), |address| format!("from {address}"));
    format!(
        "the weights {} are missing: bundles are published without them, and nothing is fetched. Download them {from}, \
         and put them at {}",
        within.display(),
        place.display()
    )
}

/// Without the `.` that configs write between folders.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Part::CurDir).collect()
}

/// Where the bundle's list of large files says that a file comes from.
fn address(folder: &Path, within: &Path) -> Option<String> {
    let listed = Bundle::open(folder).ok()?.large_files();
    let (_, address) = listed.into_iter().find(|(path, _)| plain(Path::new(path)) == within)?;
    Some(address).filter(|address| !address.is_empty())
}
