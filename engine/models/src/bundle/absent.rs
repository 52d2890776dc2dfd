//! Missing weights of a bundle: bundles are published without them.

use std::path::{Component as Part, Path, PathBuf};

use hearth_bundle::Bundle;

/// The message for a missing weights file: its place in the folder of the bundle, and the download
/// address from `large_files.yml`. `path` is relative to the folder.
pub(crate) fn weights(folder: &Path, path: &Path) -> String {
    let place = plain(&folder.join(path));
    let within = place.strip_prefix(plain(folder)).map_or(place.clone(), Path::to_owned);
    let from = address(folder, &within);
    let from = from.map_or_else(|| "from the source of the bundle".to_owned(), |address| format!("from {address}"));
    format!(
        "the weights {} are missing: bundles are published without them, and nothing is fetched. Download them {from}, \
         and put them at {}",
        within.display(),
        place.display()
    )
}

/// The path without the `.` that configs write between folders.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Part::CurDir).collect()
}

/// The address of a file in the bundle's list of large files.
fn address(folder: &Path, within: &Path) -> Option<String> {
    let listed = Bundle::open(folder).ok()?.large_files();
    let (_, address) = listed.into_iter().find(|(path, _)| plain(Path::new(path)) == within)?;
    Some(address).filter(|address| !address.is_empty())
}
