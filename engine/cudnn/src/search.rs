//! Where the library is searched: [`Search`].

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::names::{CUDNN, Names};
use crate::raw::Library;

/// The places that are searched for the library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// A file, or a folder that contains it or a Python package of it. If given, no other place is
    /// searched.
    pub named: Option<PathBuf>,
    /// Whether the system's loader searches before the folders (`LD_LIBRARY_PATH`, `ldconfig`).
    pub loader: bool,
    /// Folders that are searched in this order.
    pub folders: Vec<PathBuf>,
}

impl Search {
    /// The usual places: `HEARTH_CUDNN` alone if it is set, else the loader's path, the packages of
    /// Python's environments (`nvidia/cudnn/lib`), CUDA's folders.
    pub fn standard() -> Self {
        let named = env::var_os(CUDNN.variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let mut folders = Vec::new();
        for environment in environments() {
            folders.extend(package_folders(&environment).iter().map(|folder| folder.join(CUDNN.package)));
        }
        folders.extend(toolkits().iter().flat_map(|cuda| ["lib64", "lib"].map(|part| cuda.join(part))));
        Search { named, loader: true, folders }
    }
}

/// The folders of Python's environments, those of the user first.
fn environments() -> Vec<PathBuf> {
    let variables = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let own = env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    let all = variables.chain(own).chain(["/usr/local", "/usr"].map(PathBuf::from));
    all.filter(|folder| folder.is_absolute()).collect()
}

/// The folders of packages of an environment: `lib/python3.12/site-packages`.
fn package_folders(environment: &Path) -> Vec<PathBuf> {
    let pythons = sorted(&environment.join("lib"), |name| name.starts_with("python3"));
    pythons.iter().flat_map(|python| ["site-packages", "dist-packages"].map(|part| python.join(part))).collect()
}

/// The folders of CUDA's toolkit.
fn toolkits() -> Vec<PathBuf> {
    let named = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let mut all: Vec<PathBuf> = named.filter(|folder| folder.is_absolute()).collect();
    all.push(PathBuf::from("/usr/local/cuda"));
    all.extend(sorted(Path::new("/usr/local"), |name| name.starts_with("cuda-")));
    all
}

/// The entries of a folder with a suitable name, the last in the alphabet first.
fn sorted(folder: &Path, suits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> =
        entries.filter(|entry| suits(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all
}

/// The file of a value of the variable: itself, or in the folder or its package.
fn file_in(names: &Names, named: &Path) -> Option<PathBuf> {
    let inside = ["", "lib", "lib64", names.package].map(|part| named.join(part).join(names.file));
    std::iter::once(named.to_owned()).chain(inside).find(|file| file.is_file())
}

impl Library {
    /// Opens the first library of these places that can be used.
    ///
    /// # Errors
    /// If no place has it; or else why the first file that was found cannot be used.
    pub fn open(search: &Search) -> Result<Arc<Self>, Error> {
        let names = &CUDNN;
        if let Some(named) = &search.named {
            let error = || Error::Named { variable: names.variable, path: named.clone(), file: names.file };
            let file = file_in(names, named).ok_or_else(error)?;
            return Library::open_file(names, &file);
        }
        let mut first = None;
        if search.loader {
            match Library::open_file(names, Path::new(names.file)) {
                Ok(library) => return Ok(library),
                // The loader has one text for all reasons, and mostly it finds no file.
                Err(Error::CannotOpen { why, .. }) => tracing::debug!(why, "the loader opens no {}", names.file),
                Err(error) => first = Some(error),
            }
        }
        for file in search.folders.iter().map(|folder| folder.join(names.file)).filter(|file| file.is_file()) {
            match Library::open_file(names, &file) {
                Ok(library) => return Ok(library),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let Names { library, file, install, variable, .. } = *names;
        let folders = search.folders.len();
        Err(first.unwrap_or(Error::NotFound { library, file, folders, install, variable }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_may_have_the_file_or_the_package() {
        let root = tempfile::tempdir().expect("a folder");
        let lib = root.path().join("nvidia/cudnn/lib");
        let file = lib.join("libcudnn.so.9");
        fs::create_dir_all(&lib).expect("a folder");
        fs::write(&file, "").expect("a file");
        for named in [root.path(), &lib, &file] {
            assert_eq!(file_in(&CUDNN, named).as_ref(), Some(&file), "{}", named.display());
        }
        assert_eq!(file_in(&CUDNN, &root.path().join("nvidia")), None);
    }

    #[test]
    fn packages_of_each_python_are_searched() {
        let root = tempfile::tempdir().expect("a folder");
        for python in ["python3.12", "python3", "pkgconfig"] {
            fs::create_dir_all(root.path().join("lib").join(python)).expect("a folder");
        }
        let found = package_folders(root.path());
        let expected =
            ["python3.12/site-packages", "python3.12/dist-packages", "python3/site-packages", "python3/dist-packages"];
        assert_eq!(found, expected.map(|part| root.path().join("lib").join(part)));
        assert!(Search::standard().folders.iter().all(|folder| folder.is_absolute()));
    }
}
