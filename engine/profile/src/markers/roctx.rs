//! roctx, AMD's markers: a library of ROCm, opened at run time. The only `unsafe` of this crate.

use std::ffi::{CString, c_char, c_int};

use libloading::Library;

use super::{Markers, NoMarkers};

/// The names of the library: ROCprofiler's own since ROCm 6.4, and the one before it.
const NAMES: [&str; 4] =
    ["librocprofiler-sdk-roctx.so.1", "libroctx64.so.4", "libroctx64.so", "/opt/rocm/lib/libroctx64.so"];

/// The variable that names a file instead.
const FILE: &str = "HEARTH_ROCTX";

/// AMD's profiler that the program runs under, if any.
pub struct Roctx {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
    /// What the functions are in: it stays open as long as they may be called.
    _library: Library,
}

impl std::fmt::Debug for Roctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roctx").finish_non_exhaustive()
    }
}

impl Roctx {
    /// Opens the library that `HEARTH_ROCTX` names, or the first that is found.
    ///
    /// # Errors
    /// Where there is none, or it lacks a function.
    pub fn open() -> Result<Self, NoMarkers> {
        if let Some(file) = std::env::var_os(FILE) {
            return Self::of(&file);
        }
        let mut first = None;
        for name in NAMES {
            match Self::of(name.as_ref()) {
                Ok(roctx) => return Ok(roctx),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| NoMarkers("there is no roctx".to_owned())))
    }

    /// The library in a file.
    ///
    /// # Errors
    /// As [`Roctx::open`].
    pub fn of(file: &std::ffi::OsStr) -> Result<Self, NoMarkers> {
        let refused = |why: libloading::Error| NoMarkers(format!("no roctx in {}: {why}", file.display()));
        // SAFETY: roctx runs nothing of its own when it is opened but what every library of the
        // system may run; the file is the site's or the user's choice.
        let library = unsafe { Library::new(file) }.map_err(refused)?;
        // SAFETY: the signatures of roctx.h: `int roctxRangePushA(const char *)`, `int roctxRangePop(void)`.
        let (push, pop) = unsafe {
            (*library.get(b"roctxRangePushA\0").map_err(refused)?, *library.get(b"roctxRangePop\0").map_err(refused)?)
        };
        Ok(Self { push, pop, _library: library })
    }
}

impl Markers for Roctx {
    fn push(&self, name: &str) {
        let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
        // SAFETY: roctx copies the text, which ends with a zero, and may be called by any thread.
        unsafe { (self.push)(name.as_ptr()) };
    }

    fn pop(&self) {
        // SAFETY: it may be called by any thread; without an open range it returns a code.
        unsafe { (self.pop)() };
    }
}
