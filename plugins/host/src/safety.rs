//! Checks the permissions of a plugin's file: a library that others can replace is not loaded.

use std::path::Path;

use crate::error::PluginError;

/// Fails if anyone on this machine can change the file or its folder. A folder with the sticky bit
/// (`/tmp`) is safe: others cannot replace a file in it.
///
/// # Errors
/// If others can write; the error has the command that fixes it.
#[cfg(unix)]
pub fn check_owned(path: &Path) -> Result<(), PluginError> {
    use std::os::unix::fs::MetadataExt;
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let full = path.canonicalize().map_err(|source| PluginError::File { path: path.to_owned(), source })?;
    let places = [Some(full.as_path()), full.parent()];
    for place in places.into_iter().flatten() {
        let about = place.metadata().map_err(|source| PluginError::File { path: place.to_owned(), source })?;
        let sticky = about.is_dir() && about.mode() & STICKY != 0;
        if about.mode() & OTHERS_WRITE != 0 && !sticky {
            return Err(PluginError::Writable { path: path.to_owned(), place: place.to_owned() });
        }
    }
    Ok(())
}

/// Other systems have no such permission bits.
#[cfg(not(unix))]
pub fn check_owned(_: &Path) -> Result<(), PluginError> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_change_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("libmine.so");
        write(&file, "").expect("a file");
        let allow = |path: &Path, mode: u32| set_permissions(path, Permissions::from_mode(mode)).expect("ours");
        allow(&file, 0o755);
        assert!(check_owned(&file).is_ok());
        allow(&file, 0o757);
        let text = check_owned(&file).expect_err("the file").to_string();
        assert!(text.ends_with(&format!("chmod o-w {}", file.display())) && text.lines().count() <= 4, "{text}");
        allow(&file, 0o644);
        allow(folder.path(), 0o777);
        let text = check_owned(&file).expect_err("the folder").to_string();
        assert!(text.ends_with(&format!("chmod o-w {}", folder.path().display())), "{text}");
        allow(folder.path(), 0o1777);
        assert!(check_owned(&file).is_ok(), "sticky");
    }
}
