//! roctx, AMD's markers: a library of ROCm, opened at run time.

use std::ffi::{CString, c_char, c_int};

use libloading::Library;

use super::{Category, Markers, NoMarkers};

/// The file names of the library: ROCprofiler's since ROCm 6.4, and the older one.
const NAMES: [&str; 4] =
    ["librocprofiler-sdk-roctx.so.1", "libroctx64.so.4", "libroctx64.so", "/opt/rocm/lib/libroctx64.so"];

/// The environment variable that names a file instead.
const FILE: &str = "HEARTH_ROCTX";

/// AMD's profiler that the program runs under, if any.
pub struct Roctx {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
    start: unsafe extern "C" fn(*const c_char) -> u64,
    stop: unsafe extern "C" fn(u64),
    /// The library of the functions: it stays open as long as they may be called.
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
    /// Where the library is missing, or lacks a function.
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
        Err(first.unwrap_or_else(|| NoMarkers("no roctx library was found".to_owned())))
    }

    /// Opens the library in the given file.
    ///
    /// # Errors
    /// Same as [`Roctx::open`].
    pub fn of(file: &std::ffi::OsStr) -> Result<Self, NoMarkers> {
        let refused = |why: libloading::Error| NoMarkers(format!("no roctx library in {}: {why}", file.display()));
        // SAFETY: opening roctx runs nothing more than any library of the system may run; the site
        // or the user chose the file.
        let library = unsafe { Library::new(file) }.map_err(refused)?;
        // SAFETY: the signatures of roctx.h: `int roctxRangePushA(const char *)`, `int roctxRangePop(void)`,
        // `roctx_range_id_t roctxRangeStartA(const char *)`, `void roctxRangeStop(roctx_range_id_t)`.
        unsafe {
            Ok(Self {
                push: *library.get(b"roctxRangePushA\0").map_err(refused)?,
                pop: *library.get(b"roctxRangePop\0").map_err(refused)?,
                start: *library.get(b"roctxRangeStartA\0").map_err(refused)?,
                stop: *library.get(b"roctxRangeStop\0").map_err(refused)?,
                _library: library,
            })
        }
    }
}

fn text(name: &str) -> CString {
    CString::new(name.replace('\0', " ")).unwrap_or_default()
}

/// roctx knows no categories and no colours.
impl Markers for Roctx {
    fn push(&self, name: &str, _: Category) {
        let name = text(name);
        // SAFETY: roctx copies the zero-terminated text, and any thread may call it.
        unsafe { (self.push)(name.as_ptr()) };
    }

    fn pop(&self) {
        // SAFETY: any thread may call it; without an open range it returns a code.
        unsafe { (self.pop)() };
    }

    fn start(&self, name: &str, _: Category) -> u64 {
        let name = text(name);
        // SAFETY: as for `push`.
        unsafe { (self.start)(name.as_ptr()) }
    }

    fn end(&self, id: u64) {
        // SAFETY: any thread may call it, also another one than that of the start.
        unsafe { (self.stop)(id) };
    }
}
