//! cuDNN in `hearth devices` and `hearth doctor`: whether it was found and could be used.

use std::path::Path;
use std::sync::Arc;

use hearth_cudnn::{Error, INSTALL, Library, Search, Version};
use hearth_train::device::DeviceInfo;

/// What a line ends with where the library can be used.
const USE: &str = "convolutions use it with --convolutions vendor or auto";
/// What a line ends with where it cannot.
const OWN: &str = "convolutions are Hearth's own";

/// The state of cuDNN on this machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Cudnn {
    /// It was found, and its version is one that could be used.
    Usable,
    /// It was not found.
    Missing,
    /// It was found, and is too old or cannot be opened.
    Unusable,
    /// `HEARTH_CUDNN` names something else.
    Misnamed,
}

/// The state of cuDNN, with a line about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The state.
    pub state: Cudnn,
    /// Version and file, or the reason; and what it means for convolutions.
    pub line: String,
}

impl Found {
    /// Searches for it, if one of the devices' runtimes is CUDA's.
    pub fn for_devices(devices: &[DeviceInfo]) -> Option<Self> {
        let has_cuda = devices.iter().any(|info| info.feature == "cuda" && info.compiled_in);
        has_cuda.then(|| Self::of(Library::open(&Search::standard())))
    }

    fn of(opened: Result<Arc<Library>, Error>) -> Self {
        match opened {
            Ok(library) => Self::usable(library.version(), library.path()),
            Err(error) => {
                let state = match &error {
                    Error::NotFound { .. } => Cudnn::Missing,
                    Error::Named { .. } => Cudnn::Misnamed,
                    _ => Cudnn::Unusable,
                };
                Found { state, line: format!("{error}; {OWN}") }
            }
        }
    }

    fn usable(version: Version, path: &Path) -> Self {
        Found { state: Cudnn::Usable, line: format!("{version}, {}; {USE}", path.display()) }
    }

    /// The command that corrects it.
    pub fn mend(&self) -> Option<String> {
        match self.state {
            Cudnn::Usable => None,
            Cudnn::Missing => Some(INSTALL.to_owned()),
            Cudnn::Unusable => Some(INSTALL.replace("install", "install --upgrade")),
            Cudnn::Misnamed => Some("unset HEARTH_CUDNN".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_line_and_its_command() {
        let nowhere = Search { named: None, loader: false, folders: vec![] };
        let missing = Found::of(Library::open(&nowhere));
        assert_eq!((&missing.state, missing.mend().as_deref()), (&Cudnn::Missing, Some(INSTALL)));
        assert!(missing.line.starts_with("cuDNN was not found") && missing.line.ends_with(OWN), "{}", missing.line);
        let folder = tempfile::tempdir().unwrap();
        let misnamed = Found::of(Library::open(&Search { named: Some(folder.path().to_owned()), ..nowhere.clone() }));
        assert_eq!((&misnamed.state, misnamed.mend().as_deref()), (&Cudnn::Misnamed, Some("unset HEARTH_CUDNN")));
        assert!(misnamed.line.starts_with("HEARTH_CUDNN="), "{}", misnamed.line);
        std::fs::write(folder.path().join("libcudnn.so.9"), "not a library").unwrap();
        let unusable = Found::of(Library::open(&Search { folders: vec![folder.path().to_owned()], ..nowhere }));
        assert_eq!(unusable.state, Cudnn::Unusable);
        assert_eq!(unusable.mend().as_deref(), Some("pip install --upgrade nvidia-cudnn-cu13"));
    }

    #[test]
    fn it_is_searched_in_builds_for_cuda_alone() {
        let devices = hearth_train::device::list();
        assert_eq!(Found::for_devices(&devices).is_some(), cfg!(feature = "cuda"));
        assert_eq!(Found::for_devices(&[]), None);
    }
}
