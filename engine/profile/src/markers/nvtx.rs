//! NVTX, NVIDIA's markers, by the protocol between a program and the library of a profiler.
//!
//! The profiler names its library in `NVTX_INJECTION64_PATH`, or has loaded it already. The library has
//! one function, which gets a function of this program that returns tables; it writes the addresses of
//! its own functions into the places of the tables. The places that it leaves empty do nothing.

use std::ffi::{CString, OsStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

use super::{Category, Markers, NoMarkers};

/// The variable in which a profiler names its library.
const INJECTION: &str = "NVTX_INJECTION64_PATH";

/// The version of NVTX whose tables and structures these are.
const VERSION: u16 = 3;

/// The number of entries of each module's table; the first of each is not used. NVTX's modules are
/// numbered from 1: core, CUDA, OpenCL, CUDA's runtime, domains, synchronization.
const SIZES: [c_uint; 7] = [0, 16, 9, 15, 7, 16, 7];

/// The most entries of a module.
const MOST: usize = 16;

/// The core module, and its functions that are called here.
const CORE: usize = 1;
const RANGE_START: usize = 4;
const RANGE_END: usize = 7;
const RANGE_PUSH: usize = 8;
const RANGE_POP: usize = 11;
const NAME_CATEGORY: usize = 12;

/// The functions of the profiler, or null.
static FUNCTIONS: [[AtomicPtr<c_void>; MOST]; SIZES.len()] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; MOST] }; SIZES.len()];

/// The table of a module: the addresses of the places of [`FUNCTIONS`].
struct Table([*mut *mut c_void; MOST]);

// SAFETY: the addresses are those of statics, which are atomic.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

fn tables() -> &'static [Table; SIZES.len()] {
    static TABLES: OnceLock<[Table; SIZES.len()]> = OnceLock::new();
    TABLES.get_or_init(|| {
        std::array::from_fn(|module| {
            let place = |entry: usize| if entry == 0 { ptr::null_mut() } else { FUNCTIONS[module][entry].as_ptr() };
            Table(std::array::from_fn(place))
        })
    })
}

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    size: usize,
    table: extern "C" fn(c_int, *mut *const *mut *mut c_void, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    size: usize,
    version: u32,
    reserved: u32,
    set_version: extern "C" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), table: table_of };
static VERSION_INFO: VersionInfo =
    VersionInfo { size: size_of::<VersionInfo>(), version: VERSION as u32, reserved: 0, set_version };

extern "C" fn set_version(_: u32) {}

/// Returns the table of a module and its length: 1, or 0 for an unknown module.
extern "C" fn table_of(module: c_int, table: *mut *const *mut *mut c_void, size: *mut c_uint) -> c_int {
    let Some(index) = usize::try_from(module).ok().filter(|index| (1..SIZES.len()).contains(index)) else { return 0 };
    // SAFETY: the profiler passes the addresses of its variables, or null for what it does not need.
    unsafe {
        if !size.is_null() {
            *size = SIZES[index];
        }
        if !table.is_null() {
            *table = tables()[index].0.as_ptr();
        }
    }
    1
}

/// `nvtxGetExportTable`: 1 is the callbacks, 3 the version.
extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        1 => ptr::from_ref(&CALLBACKS).cast(),
        3 => ptr::from_ref(&VERSION_INFO).cast(),
        _ => ptr::null(),
    }
}

/// `InitializeInjectionNvtx2`.
type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;

/// `nvtxEventAttributes_v2`, with a text and a colour.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    colour_type: i32,
    colour: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

impl Attributes {
    fn new(message: &CString, category: Category) -> Self {
        Attributes {
            version: VERSION,
            size: size_of::<Attributes>() as u16,
            category: category.id,
            // ARGB.
            colour_type: 1,
            colour: category.colour,
            payload_type: 0,
            reserved: 0,
            payload: 0,
            // ASCII, or UTF-8.
            message_type: 1,
            message: message.as_ptr(),
        }
    }
}

/// The functions of the profiler that are called.
type Start = extern "C" fn(*const Attributes) -> u64;
type End = extern "C" fn(u64);
type Push = extern "C" fn(*const Attributes) -> c_int;
type Pop = extern "C" fn() -> c_int;
type NameCategory = extern "C" fn(u32, *const c_char);

/// NVTX: NVIDIA's profiler that the program runs under, if any.
#[derive(Clone, Copy, Debug)]
pub struct Nvtx(());

impl Nvtx {
    /// Connects with the profiler that the program runs under. Without one, ranges cost a branch.
    ///
    /// # Errors
    /// If the library that the profiler names cannot be opened, or refuses.
    pub fn open() -> Result<Self, NoMarkers> {
        static OPENED: OnceLock<Result<(), NoMarkers>> = OnceLock::new();
        let opened = OPENED.get_or_init(|| connect(std::env::var_os(INJECTION).as_deref()));
        opened.clone().map(|()| Nvtx(()))
    }

    /// The profiler's function with this number.
    fn function(number: usize) -> Option<*mut c_void> {
        let function = FUNCTIONS[CORE][number].load(Ordering::Acquire);
        (!function.is_null()).then_some(function)
    }
}

/// Hands the tables over to the profiler's library, if there is one, and names the categories.
fn connect(named: Option<&OsStr>) -> Result<(), NoMarkers> {
    let Some(library) = injection(named)? else { return Ok(()) };
    let file = named.unwrap_or_default().display();
    // SAFETY: the signature of `InitializeInjectionNvtx2`, the only function of such a library.
    let initialize = unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") };
    let initialize =
        *initialize.map_err(|why| NoMarkers(format!("{INJECTION}={file} is no library of NVTX: {why}")))?;
    // SAFETY: the tables are static, and have the layout that NVTX documents.
    if unsafe { initialize(export_table) } == 0 {
        return Err(NoMarkers(format!("{INJECTION}={file}: the profiler's library refuses to start")));
    }
    // The profiler's functions stay in the tables.
    std::mem::forget(library);
    if let Some(name) = Nvtx::function(NAME_CATEGORY) {
        // SAFETY: the signature of `nvtxNameCategoryA`.
        let name = unsafe { std::mem::transmute::<*mut c_void, NameCategory>(name) };
        for category in Category::all() {
            name(category.id, text(category.name).as_ptr());
        }
    }
    Ok(())
}

/// The library that is loaded already, or that the variable names.
fn injection(named: Option<&OsStr>) -> Result<Option<Library>, NoMarkers> {
    #[cfg(unix)]
    {
        let loaded: Library = libloading::os::unix::Library::this().into();
        // SAFETY: only the presence of the function is asked for.
        if unsafe { loaded.get::<Initialize>(b"InitializeInjectionNvtx2\0") }.is_ok() {
            return Ok(Some(loaded));
        }
    }
    let Some(file) = named.filter(|file| !file.is_empty()) else { return Ok(None) };
    // SAFETY: opening a profiler's library runs what the user started the program with.
    let library = unsafe { Library::new(file) };
    library.map(Some).map_err(|why| NoMarkers(format!("{INJECTION}={}: {why}", file.display())))
}

fn text(name: &str) -> CString {
    CString::new(name.replace('\0', " ")).unwrap_or_default()
}

impl Markers for Nvtx {
    fn push(&self, name: &str, category: Category) {
        let Some(push) = Self::function(RANGE_PUSH) else { return };
        // SAFETY: the signature of `nvtxRangePushEx`.
        let push = unsafe { std::mem::transmute::<*mut c_void, Push>(push) };
        let message = text(name);
        push(ptr::from_ref(&Attributes::new(&message, category)));
    }

    fn pop(&self) {
        let Some(pop) = Self::function(RANGE_POP) else { return };
        // SAFETY: the signature of `nvtxRangePop`.
        let pop = unsafe { std::mem::transmute::<*mut c_void, Pop>(pop) };
        pop();
    }

    fn start(&self, name: &str, category: Category) -> u64 {
        let Some(start) = Self::function(RANGE_START) else { return 0 };
        // SAFETY: the signature of `nvtxRangeStartEx`.
        let start = unsafe { std::mem::transmute::<*mut c_void, Start>(start) };
        let message = text(name);
        start(ptr::from_ref(&Attributes::new(&message, category)))
    }

    fn end(&self, id: u64) {
        let Some(end) = Self::function(RANGE_END) else { return };
        // SAFETY: the signature of `nvtxRangeEnd`.
        let end = unsafe { std::mem::transmute::<*mut c_void, End>(end) };
        end(id);
    }
}
