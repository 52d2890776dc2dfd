//! The kernels that were chosen for a GPU, as a file for machines with the same card: [`export`],
//! [`import`].

use std::path::Path;

/// Why choices cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ChoicesError {
    /// Nothing is chosen on a CPU.
    #[error("this program chooses no kernels: it is built without a GPU's backend, or without the feature `tuned`")]
    NoGpu,
    /// The file, or the store of this machine.
    #[error("{0}")]
    Store(String),
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Choices that are new here.
    pub new: usize,
    /// Choices that this machine has already; its own are kept.
    pub known: usize,
}

/// Writes this machine's choices to a file, and returns how many they are.
///
/// A choice belongs to a model of card, a kind of work and a size: on another card, and for another version
/// of CubeCL, the file does nothing.
///
/// # Errors
/// Where the file cannot be written, and in a program without a GPU's backend.
pub fn export(file: &Path) -> Result<u64, ChoicesError> {
    #[cfg(tuned_gpu)]
    {
        use cubecl_environment::bundle::BundleFormat;
        use cubecl_environment::environment;
        let failed = |error: &dyn std::fmt::Display| ChoicesError::Store(format!("{}: {error}", file.display()));
        environment::bundle().save(file, BundleFormat::Flat).map_err(|error| failed(&error))?;
        let choices = environment::namespaces().into_iter().filter(|one| one.namespace.contains("autotune"));
        Ok(choices.map(|one| one.entries).sum())
    }
    #[cfg(not(tuned_gpu))]
    {
        let _ = file;
        Err(ChoicesError::NoGpu)
    }
}

/// Adds the choices of a file that [`export`] wrote to those of this machine.
///
/// # Errors
/// Where the file is none of these, and in a program without a GPU's backend.
pub fn import(file: &Path) -> Result<Imported, ChoicesError> {
    #[cfg(tuned_gpu)]
    {
        let failed = |error: &dyn std::fmt::Display| ChoicesError::Store(format!("{}: {error}", file.display()));
        let bundle = cubecl_environment::bundle::open(file).map_err(|error| failed(&error))?;
        let report = cubecl_environment::bundle::import(bundle.as_ref());
        match report.failed {
            0 => Ok(Imported { new: report.imported, known: report.skipped }),
            failures => Err(failed(&format!("{failures} choices cannot be stored on this machine"))),
        }
    }
    #[cfg(not(tuned_gpu))]
    {
        let _ = file;
        Err(ChoicesError::NoGpu)
    }
}
