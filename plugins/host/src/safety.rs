//! Checks who can change a plugin's files: a library that another user can replace is not loaded.

use std::path::{Path, PathBuf};

use crate::error::PluginError;
use crate::linked::linked;
use crate::shown::shown_path;

/// The files of a plugin: its library, and of a Python plugin the modules next to it (`NAME.py` next
/// to `libNAME.so`, and the module that it imports). They are code, too.
pub fn files_of(library: &Path) -> Vec<PathBuf> {
    let stem = library.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = stem.strip_prefix(std::env::consts::DLL_PREFIX).unwrap_or(stem);
    let module = library.with_file_name(format!("{name}.py"));
    let mut files = vec![library.to_owned()];
    if module.is_file() {
        let shared = library.with_file_name("hearth_plugin.py");
        files.extend([module, shared].into_iter().filter(|path| path.is_file()));
    }
    files
}

/// The files of a plugin, and the libraries in its folder that it brings.
///
/// # Errors
/// A file that cannot be read, or a library whose table of others cannot be understood.
pub fn files_beside(library: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = files_of(&library.canonicalize()?);
    files.extend(linked(library)?.into_iter().filter(|linked| linked.beside).map(|linked| linked.path));
    Ok(files)
}

/// Fails if another user can change a file of the plugin or its folder, or everyone a folder above:
/// the rules of ssh for its keys. Owners may be this user, root, and the owner of this program. A
/// folder with the sticky bit (`/tmp`) is safe: others cannot replace a file in it.
///
/// # Errors
/// The file or folder, who can change it, and the command that fixes it.
#[cfg(unix)]
pub fn check_owned(path: &Path) -> Result<(), PluginError> {
    let user = User::here();
    for file in files_beside(path).map_err(|source| PluginError::File { path: path.to_owned(), source })? {
        // A module may be a link to a file elsewhere.
        let file = file.canonicalize().map_err(|source| PluginError::File { path: file, source })?;
        for (height, place) in file.ancestors().enumerate() {
            let access = Access::of(place).map_err(|source| PluginError::File { path: place.to_owned(), source })?;
            let danger = if height < 2 { access.danger(&user) } else { access.danger_above() };
            if let Some(danger) = danger {
                return Err(danger.error(path, place, user.id));
            }
        }
    }
    Ok(())
}

/// Other systems have no such permission bits.
#[cfg(not(unix))]
pub fn check_owned(_: &Path) -> Result<(), PluginError> {
    Ok(())
}

/// The users whose files are trusted.
#[cfg(unix)]
struct User {
    id: u32,
    /// The owner of this program, who could as well change the program.
    installer: u32,
}

#[cfg(unix)]
impl User {
    fn here() -> Self {
        // SAFETY: the function has no arguments, and cannot fail.
        let id = unsafe { libc::geteuid() };
        let program = std::env::current_exe().and_then(|program| Access::of(&program));
        Self { id, installer: program.map_or(id, |access| access.owner) }
    }
}

/// Who owns a file or folder, and who can write to it.
#[cfg(unix)]
struct Access {
    mode: u32,
    owner: u32,
    group: u32,
    folder: bool,
}

/// How another user can change a file or folder.
#[cfg(unix)]
#[derive(Debug, PartialEq, Eq)]
enum Danger {
    Owner(u32),
    Group(u32),
    Everyone,
}

#[cfg(unix)]
impl Access {
    fn of(place: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let about = place.metadata()?;
        Ok(Self { mode: about.mode(), owner: about.uid(), group: about.gid(), folder: about.is_dir() })
    }

    fn danger(&self, user: &User) -> Option<Danger> {
        const GROUP_WRITES: u32 = 0o020;
        if ![0, user.id, user.installer].contains(&self.owner) {
            return Some(Danger::Owner(self.owner));
        }
        // A user's own group, with the number of the user, has no other members.
        let shared = self.group != self.owner;
        if self.mode & GROUP_WRITES != 0 && shared && !self.is_sticky() {
            return Some(Danger::Group(self.group));
        }
        self.danger_above()
    }

    /// The danger of a folder that contains the plugin's folder.
    fn danger_above(&self) -> Option<Danger> {
        const OTHERS_WRITE: u32 = 0o002;
        (self.mode & OTHERS_WRITE != 0 && !self.is_sticky()).then_some(Danger::Everyone)
    }

    fn is_sticky(&self) -> bool {
        const STICKY: u32 = 0o1000;
        self.folder && self.mode & STICKY != 0
    }
}

#[cfg(unix)]
impl Danger {
    fn error(self, path: &Path, place: &Path, user: u32) -> PluginError {
        let shown = shown_path(place);
        let (who, mend) = match self {
            Danger::Owner(owner) => (
                format!("user {owner} owns {shown} and can change it"),
                format!("chown {user} {shown}, or copy it: hearth plugin install {}", shown_path(path)),
            ),
            Danger::Group(group) => {
                (format!("the users of group {group} can change {shown}"), format!("chmod g-w {shown}"))
            }
            Danger::Everyone => (format!("everyone on this machine can change {shown}"), format!("chmod o-w {shown}")),
        };
        PluginError::Unsafe { path: path.to_owned(), who, mend }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn allow(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn what_others_may_change_is_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("plugins");
        create_dir(&folder).expect("a folder");
        let file = folder.join("libmine.so");
        write(&file, "").expect("a file");
        allow(&file, 0o755);
        assert!(check_owned(&file).is_ok());
        allow(&file, 0o757);
        let text = check_owned(&file).expect_err("the file").to_string();
        assert!(text.ends_with(&format!("chmod o-w {}", file.display())) && text.lines().count() <= 4, "{text}");
        allow(&file, 0o644);
        for (place, mode) in [(folder.as_path(), 0o755), (outer.path(), 0o700)] {
            allow(place, 0o777);
            let text = check_owned(&file).expect_err("the folder").to_string();
            assert!(text.ends_with(&format!("chmod o-w {}", place.display())), "{text}");
            allow(place, 0o1777);
            assert!(check_owned(&file).is_ok(), "sticky");
            allow(place, mode);
        }
        let module = folder.join("mine.py");
        write(&module, "").expect("a file");
        assert!(check_owned(&file).is_ok());
        allow(&module, 0o666);
        let text = check_owned(&file).expect_err("the module of a Python plugin").to_string();
        assert!(text.ends_with(&format!("chmod o-w {}", module.display())), "{text}");
    }

    #[test]
    fn owners_and_groups_are_compared() {
        let user = User { id: 1000, installer: 900 };
        let danger = |owner, group, mode, folder| Access { mode, owner, group, folder }.danger(&user);
        assert_eq!(danger(1000, 100, 0o755, false), None);
        assert_eq!(danger(0, 0, 0o755, true), None);
        assert_eq!(danger(900, 900, 0o755, false), None, "the owner of the program");
        assert_eq!(danger(1001, 1000, 0o700, false), Some(Danger::Owner(1001)));
        assert_eq!(danger(1000, 100, 0o775, false), Some(Danger::Group(100)));
        assert_eq!(danger(1000, 1000, 0o775, false), None, "a group of one user");
        assert_eq!(danger(1000, 100, 0o1775, true), None, "a sticky folder");
        assert_eq!(danger(1000, 100, 0o1775, false), Some(Danger::Group(100)), "the bit protects folders only");
        assert_eq!(danger(1000, 1000, 0o757, false), Some(Danger::Everyone));
        let text = Danger::Owner(1001).error(Path::new("a.so"), Path::new("/p"), 1000).to_string();
        assert!(text.contains("user 1001 owns /p") && text.contains("chown 1000 /p"), "{text}");
    }
}
