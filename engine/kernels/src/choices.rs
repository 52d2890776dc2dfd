//! Stores the kernels that were chosen for a GPU in a file, for machines with the same GPU:
//! [`export`], [`import`].

use std::path::Path;

/// The reason why choices cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ChoicesError {
    /// No kernels are chosen on a CPU.
    #[error("this program chooses no kernels: it is built without a GPU's backend, or without the feature `tuned`")]
    NoGpu,
    /// The file or this machine's store is invalid or not accessible.
    #[error("{0}")]
    Store(String),
}

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The number of choices that were new on this machine.
    pub new: usize,
    /// The number of choices that this machine already had; its own are kept.
    pub known: usize,
}

/// Writes this machine's choices to a file, and returns their number.
///
/// A choice is valid for one GPU model, kind of work and size: on another GPU, or with another
/// version of CubeCL, the file has no effect.
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
/// Where the file is not such a file, and in a program without a GPU's backend.
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
