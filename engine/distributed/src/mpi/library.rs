//! Finds and opens the MPI library.

use std::error::Error as _;
use std::ffi::{OsStr, c_int};
use std::path::Path;

use libloading::Library;

use super::MpiError;
use super::abi::{self, Constants, Handle, Interface, Pointer};
use super::symbols::Functions;
use crate::{Launcher, Placement};

/// An open library.
pub(super) struct Opened {
    /// The name under which the library was found.
    pub name: String,
    pub interface: Interface,
    library: Library,
}

/// The library names of an interface, for the system's loader.
fn names(interface: Interface) -> &'static [&'static str] {
    match (interface, cfg!(target_os = "macos")) {
        (Interface::OpenMpi, false) => &["libmpi.so.40"],
        (Interface::OpenMpi, true) => &["libmpi.40.dylib"],
        // The second name is Cray's.
        (Interface::Mpich, false) => &["libmpi.so.12", "libmpi_cray.so.12", "libmpich.so.12"],
        (Interface::Mpich, true) => &["libmpi.12.dylib", "libpmpi.12.dylib"],
        (Interface::Standard, false) => &["libmpi_abi.so.0"],
        (Interface::Standard, true) => &["libmpi_abi.0.dylib"],
    }
}

/// All names of MPI libraries that are tried, with their interfaces.
pub fn library_names() -> impl Iterator<Item = (Interface, &'static str)> {
    let every = [Interface::OpenMpi, Interface::Mpich, Interface::Standard];
    every.into_iter().flat_map(|interface| names(interface).iter().map(move |name| (interface, *name)))
}

/// The interfaces to try, in order: the launcher's first. SLURM and others start ranks of any MPI;
/// for them, the interface between ranks and launcher tells which MPI is likely.
pub(super) fn order(launcher: Option<Launcher>, has_pmix: bool) -> [Interface; 3] {
    match launcher {
        Some(Launcher::Hydra | Launcher::Mvapich | Launcher::Pmi) => {
            [Interface::Mpich, Interface::Standard, Interface::OpenMpi]
        }
        Some(Launcher::Slurm | Launcher::Flux) if !has_pmix => {
            [Interface::Mpich, Interface::Standard, Interface::OpenMpi]
        }
        _ => [Interface::OpenMpi, Interface::Standard, Interface::Mpich],
    }
}

/// Opens the library that `HEARTH_MPI` names, or the first that is found.
///
/// # Errors
/// If the named library cannot be opened or is not an MPI library, or none is found.
pub(super) fn open(placement: Option<&Placement>) -> Result<Opened, MpiError> {
    if let Some(named) = std::env::var_os("HEARTH_MPI").filter(|name| !name.is_empty()) {
        let name = named.to_string_lossy().into_owned();
        let library = load(&named).map_err(|why| MpiError::Named { name: name.clone(), why })?;
        let interface = interface_of(&library, &named);
        let interface = interface.ok_or_else(|| MpiError::NotMpi { name: name.clone(), symbol: "MPI_Init_thread" })?;
        return Ok(Opened { name, interface, library });
    }
    let mut looked = Vec::new();
    for interface in order(placement.map(|placement| placement.launcher), std::env::var_os("PMIX_RANK").is_some()) {
        for name in names(interface) {
            match load(OsStr::new(name)) {
                Ok(library) => return Ok(Opened { name: (*name).to_owned(), interface, library }),
                Err(why) => tracing::debug!(name, why, "MPI library not opened"),
            }
            looked.push(*name);
        }
    }
    let started = match placement {
        Some(Placement { launcher, world, .. }) => format!("{launcher} started {world} ranks"),
        None => "ranks are to be connected over MPI".to_owned(),
    };
    Err(MpiError::NoLibrary { started, looked: looked.join(", ") })
}

/// Opens a library with global symbols, which components of Open MPI need.
#[cfg(unix)]
fn load(name: &OsStr) -> Result<Library, String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: opening a library runs its initializers; those of an MPI library only set up its own
    // state. It is named by the user, or has the name of an MPI library.
    unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }
        .map(Into::into)
        .map_err(|error| error.source().map_or_else(|| error.to_string(), ToString::to_string))
}

/// No MPI for Windows has one of the three interfaces.
#[cfg(not(unix))]
fn load(_: &OsStr) -> Result<Library, String> {
    Err("MPI libraries are opened on Unix only".to_owned())
}

/// The interface of a library, by its exported symbols. The standard's is recognized by the
/// library's name, because MPICH exports the same symbols.
fn interface_of(library: &Library, name: &OsStr) -> Option<Interface> {
    let has = |symbol: &str| {
        // SAFETY: only the address is looked up; nothing is read or called.
        unsafe { library.get::<Pointer>(symbol) }.is_ok()
    };
    let file = Path::new(name).file_name().unwrap_or(name).to_string_lossy().into_owned();
    if !has("MPI_Init_thread") {
        None
    } else if file.contains("mpi_abi") {
        Some(Interface::Standard)
    } else if has("ompi_mpi_comm_world") {
        Some(Interface::OpenMpi)
    } else {
        Some(Interface::Mpich)
    }
}

impl Opened {
    /// The functions and constants of a library whose handles are pointers. The library stays open
    /// until the process ends.
    ///
    /// # Errors
    /// If it lacks a symbol.
    pub(super) fn with_pointers(self) -> Result<(Functions<Pointer>, Constants<Pointer>), MpiError> {
        let constants = match self.interface {
            Interface::OpenMpi => abi::open_mpi(|symbol| {
                // SAFETY: the symbol's address is Open MPI's handle; it is not dereferenced here.
                let address = unsafe { self.library.get::<Pointer>(symbol) };
                address.map(|address| *address).map_err(|_| self.lacks(symbol))
            })?,
            Interface::Standard | Interface::Mpich => abi::standard(),
        };
        Ok((self.functions()?, constants))
    }

    /// The functions and constants of a library whose handles are integers. The library stays open
    /// until the process ends.
    ///
    /// # Errors
    /// If it lacks a symbol.
    pub(super) fn with_integers(self) -> Result<(Functions<c_int>, Constants<c_int>), MpiError> {
        Ok((self.functions()?, abi::MPICH))
    }

    fn functions<H: Handle>(self) -> Result<Functions<H>, MpiError> {
        // SAFETY: the library exports `MPI_Init_thread`, so it is an MPI library, and `interface`
        // shows that its handles are `H`. It is leaked below.
        let functions = unsafe { Functions::of(&self.library) }.map_err(|symbol| self.lacks(symbol));
        // MPI starts threads and sets handlers that outlive `MPI_Finalize`.
        std::mem::forget(self.library);
        functions
    }

    fn lacks(&self, symbol: &'static str) -> MpiError {
        MpiError::NotMpi { name: self.name.clone(), symbol }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_the_launcher_is_tried_first() {
        let first = |launcher, has_pmix| order(launcher, has_pmix)[0];
        assert_eq!(first(Some(Launcher::OpenMpi), true), Interface::OpenMpi);
        assert_eq!(first(Some(Launcher::Hydra), false), Interface::Mpich);
        assert_eq!(first(Some(Launcher::Hydra), true), Interface::Mpich);
        assert_eq!(first(Some(Launcher::Slurm), true), Interface::OpenMpi);
        assert_eq!(first(Some(Launcher::Slurm), false), Interface::Mpich);
        assert_eq!(first(None, false), Interface::OpenMpi);
    }
}
