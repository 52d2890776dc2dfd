//! The calls of the library: [`Library`], [`Handle`], and descriptors ([`Builder`],
//! [`Descriptor`]) that keep alive what their attributes refer to.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Status};
use crate::names::Names;
use crate::numbers::{
    Attribute, ConvolutionMode, DataType, Flag, HeuristicMode, Kind, NumericalNote, OfDescriptors, OfHandle,
    OfPointers, PointwiseMode,
};
use crate::plan::next_id;
use crate::version::Version;

/// A descriptor, a handle, a stream or an address on a GPU.
pub(crate) type Pointer = *mut c_void;

/// A function, with its name for messages.
#[derive(Debug)]
struct Function<F> {
    name: &'static str,
    call: F,
}

/// A table of functions: field, arguments and result.
macro_rules! functions {
    ($($field:ident ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The names of the functions in a vendor's library.
        #[derive(Debug)]
        pub(crate) struct Symbols {
            $(pub $field: &'static str,)*
        }

        #[derive(Debug)]
        struct Functions {
            $($field: Function<unsafe extern "C" fn($($argument),*) $(-> $result)?>,)*
        }

        impl Functions {
            /// # Safety
            /// The library is the one that the names belong to, or one with the same interface, and
            /// is open while a function is called.
            ///
            /// # Errors
            /// The name of the first missing function.
            unsafe fn of(library: &libloading::Library, symbols: &Symbols) -> Result<Self, &'static str> {
                Ok(Functions {
                    $($field: {
                        let name = symbols.$field;
                        // SAFETY: the vendor's header gives this symbol these arguments, and the
                        // caller promises that the library is the vendor's.
                        let call = *unsafe { library.get(name) }.map_err(|_| name)?;
                        Function { name, call }
                    },)*
                })
            }
        }
    };
}

functions! {
    create_descriptor (c_int, *mut Pointer) -> c_int;
    destroy_descriptor (Pointer) -> c_int;
    finalize (Pointer) -> c_int;
    set_attribute (Pointer, c_int, c_int, i64, *const c_void) -> c_int;
    get_attribute (Pointer, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int;
    execute (Pointer, Pointer, Pointer) -> c_int;
    create (*mut Pointer) -> c_int;
    destroy (Pointer) -> c_int;
    set_stream (Pointer, Pointer) -> c_int;
    get_version () -> usize;
    error_string (c_int) -> *const c_char;
    last_error_string (*mut c_char, usize);
}

/// The bytes of the library's description of its last error.
const TEXT: usize = 2048;

/// An opened library that has all functions and a version that is used. It is never unloaded: it
/// has threads and caches of its own.
#[derive(Debug)]
pub struct Library {
    names: &'static Names,
    path: PathBuf,
    version: Version,
    functions: Functions,
}

/// Opens a library without looking at it.
///
/// # Errors
/// The text of the system's loader.
fn load(file: &Path) -> Result<libloading::Library, String> {
    // SAFETY: opening a library runs its initializers; those of cuDNN set up its own
    // state. The file has its name, or the user names it.
    let opened = unsafe { libloading::Library::new(file) };
    opened.map_err(|error| std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
}

/// The file that a function is in.
#[cfg(target_os = "linux")]
fn file_of(function: unsafe extern "C" fn() -> usize) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;

    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address may be asked for, and `info` is a valid place.
    let found = unsafe { libc::dladdr(function as *const c_void, &raw mut info) } != 0;
    if !found || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader gives a string that exists while the library is open; it is copied here.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

/// Other systems have no cuDNN 9 under the name that is searched.
#[cfg(not(target_os = "linux"))]
fn file_of(_: unsafe extern "C" fn() -> usize) -> Option<PathBuf> {
    None
}

impl Library {
    /// Opens a file.
    ///
    /// # Errors
    /// If the file cannot be opened, lacks a function or is too old.
    pub(crate) fn open_file(names: &'static Names, file: &Path) -> Result<Arc<Self>, Error> {
        let path = file.to_owned();
        let library = load(file).map_err(|why| Error::CannotOpen { path: path.clone(), why })?;
        // SAFETY: the file has the library's name, or the user names it. It is forgotten below, or
        // the functions end with it here.
        let functions = unsafe { Functions::of(&library, &names.symbols) }.map_err(|symbol| Error::Lacks {
            path: path.clone(),
            library: names.library,
            symbol,
        })?;
        // SAFETY: the function has no arguments.
        let version = Version(unsafe { (functions.get_version.call)() });
        let path = file_of(functions.get_version.call).unwrap_or(path);
        if version < names.oldest {
            let Names { library, oldest, faults, .. } = *names;
            return Err(Error::Old { path, library, found: version, oldest, faults });
        }
        std::mem::forget(library);
        Ok(Arc::new(Library { names, path, version, functions }))
    }

    /// The library's name: cuDNN.
    pub fn name(&self) -> &'static str {
        self.names.library
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of the file.
    pub fn version(&self) -> Version {
        self.version
    }

    fn checked(&self, function: &'static str, of: &'static str, code: c_int) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        Err(Error::Call { function, of, code, status: Status::of(code), text: self.text(code) })
    }

    /// The library's text for a code, and its description of this thread's last error.
    fn text(&self, code: c_int) -> String {
        // SAFETY: the library gives a constant string for any code, or null.
        let name = unsafe { (self.functions.error_string.call)(code) };
        let name = if name.is_null() {
            "unknown".to_owned()
        } else {
            // SAFETY: as above, and not null.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        };
        let mut buffer = [0_u8; TEXT];
        // SAFETY: the buffer has the size that is given, and the library ends the text with 0.
        unsafe { (self.functions.last_error_string.call)(buffer.as_mut_ptr().cast(), TEXT) };
        let last = CStr::from_bytes_until_nul(&buffer).unwrap_or_default().to_string_lossy().into_owned();
        let last = last.split_whitespace().collect::<Vec<_>>().join(" ");
        if last.is_empty() { name } else { format!("{name} ({last})") }
    }
}

/// A handle of the GPU that was current in the thread that created it.
#[derive(Debug)]
pub struct Handle {
    library: Arc<Library>,
    pointer: Pointer,
    gpu: String,
    /// Distinguishes handles, also of GPUs of one name.
    id: u64,
    /// One thread at a time uses a handle.
    in_use: Mutex<()>,
}

// SAFETY: a handle may be used in any thread, by one at a time, which `in_use` ensures.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// A handle of the current GPU of this thread, under a name for messages and caches.
    ///
    /// # Errors
    /// If the library reports an error, such as a missing GPU.
    pub fn create(library: &Arc<Library>, gpu: impl Into<String>) -> Result<Arc<Self>, Error> {
        let Function { name, call } = library.functions.create;
        let mut pointer = ptr::null_mut();
        // SAFETY: `pointer` is a valid place.
        library.checked(name, "", unsafe { call(&raw mut pointer) })?;
        let (library, gpu) = (library.clone(), gpu.into());
        Ok(Arc::new(Handle { library, pointer, gpu, id: next_id(), in_use: Mutex::new(()) }))
    }

    /// The name of the GPU.
    pub fn gpu(&self) -> &str {
        &self.gpu
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Keeps other threads from using the handle.
    pub(crate) fn in_use(&self) -> MutexGuard<'_, ()> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a plan on a stream.
    ///
    /// # Safety
    /// The plan and the pack are finalized, and the plan was made with this handle. The addresses
    /// in the pack and the stream are as [`Plan::execute`](crate::Plan::execute) asks for.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(crate) unsafe fn execute(&self, stream: Pointer, plan: &Descriptor, pack: &Descriptor) -> Result<(), Error> {
        let _in_use = self.in_use();
        let Function { name, call } = self.library.functions.set_stream;
        // SAFETY: the handle exists, and the caller promises the stream.
        self.library.checked(name, "", unsafe { call(self.pointer, stream) })?;
        let Function { name, call } = self.library.functions.execute;
        // SAFETY: the handle and both descriptors exist; the caller promises the rest.
        self.library.checked(name, "", unsafe { call(self.pointer, plan.pointer, pack.pointer) })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let Function { name, call } = self.library.functions.destroy;
        // SAFETY: the handle exists, and nothing uses it later: descriptors hold an `Arc` of it.
        if let Err(error) = self.library.checked(name, "", unsafe { call(self.pointer) }) {
            tracing::debug!(%error, "handle not destroyed");
        }
    }
}

/// A type whose values are copied into and out of attributes.
///
/// # Safety
/// Values have the size and alignment of the library's values with this code, and every pattern of
/// bits is a value.
pub(crate) unsafe trait Value: Copy + Default {
    /// The code: `cudnnBackendAttributeType_t`.
    const CODE: c_int;
}

macro_rules! values {
    ($($type:ty = $code:literal;)*) => {
        $(
            // SAFETY: the header gives values of this code this size: integers, floats and C's
            // enumerations (`int`), and one byte for a `bool`, of which 0 and 1 are written.
            unsafe impl Value for $type {
                const CODE: c_int = $code;
            }
        )*
    };
}

values! {
    DataType = 1;
    Flag = 2;
    i64 = 3;
    f32 = 4;
    f64 = 5;
    ConvolutionMode = 7;
    HeuristicMode = 8;
    NumericalNote = 11;
    PointwiseMode = 14;
    u8 = 24;
}

/// `CUDNN_TYPE_HANDLE`, `CUDNN_TYPE_VOID_PTR` and `CUDNN_TYPE_BACKEND_DESCRIPTOR`.
const HANDLE: c_int = 0;
const POINTER: c_int = 6;
const DESCRIPTOR: c_int = 15;

/// The number of values, as the library counts them.
fn count(values: usize) -> i64 {
    i64::try_from(values).unwrap_or(i64::MAX)
}

/// Something that a descriptor refers to.
#[derive(Debug)]
enum Held {
    Descriptor(#[allow(dead_code, reason = "held, not read")] Arc<Descriptor>),
    Handle(#[allow(dead_code, reason = "held, not read")] Arc<Handle>),
}

/// A descriptor that does not change any more. It is destroyed with its last owner.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pointer: Pointer,
    kind: Kind,
    library: Arc<Library>,
    /// Dropped after the descriptor is destroyed.
    holds: Vec<Held>,
}

// SAFETY: the library may be called from any thread; a finalized descriptor is only read.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

/// A descriptor whose attributes are being set.
#[derive(Debug)]
pub(crate) struct Builder(Descriptor);

impl Builder {
    /// # Errors
    /// If the library reports an error, here and below.
    pub(crate) fn new(library: &Arc<Library>, kind: Kind) -> Result<Self, Error> {
        let Function { name, call } = library.functions.create_descriptor;
        let mut pointer = ptr::null_mut();
        // SAFETY: `pointer` is a valid place.
        library.checked(name, kind.name, unsafe { call(kind.number, &raw mut pointer) })?;
        Ok(Builder(Descriptor { pointer, kind, library: library.clone(), holds: Vec::new() }))
    }

    /// # Safety
    /// The address has `values` values of the type of the code, which are copied; what they refer
    /// to exists as long as the descriptor, or is not followed.
    unsafe fn put<T>(
        &mut self,
        attribute: Attribute<T>,
        code: c_int,
        values: usize,
        at: *const c_void,
    ) -> Result<(), Error> {
        let Function { name, call } = self.0.library.functions.set_attribute;
        // SAFETY: the descriptor exists, and the caller promises the values.
        let status = unsafe { call(self.0.pointer, attribute.number, code, count(values), at) };
        self.0.library.checked(name, attribute.name, status)
    }

    /// Sets an attribute to values.
    pub(crate) fn set<T: Value>(mut self, attribute: Attribute<T>, values: &[T]) -> Result<Self, Error> {
        // SAFETY: the slice has the values, of the type that `Value` promises.
        unsafe { self.put(attribute, T::CODE, values.len(), values.as_ptr().cast()) }?;
        Ok(self)
    }

    /// Sets an attribute to descriptors, which are held.
    pub(crate) fn set_descriptors(
        mut self,
        attribute: Attribute<OfDescriptors>,
        values: &[&Arc<Descriptor>],
    ) -> Result<Self, Error> {
        let pointers: Vec<Pointer> = values.iter().map(|value| value.pointer).collect();
        self.0.holds.extend(values.iter().map(|value| Held::Descriptor(Arc::clone(value))));
        // SAFETY: the vector has the values, and the descriptors are held.
        unsafe { self.put(attribute, DESCRIPTOR, pointers.len(), pointers.as_ptr().cast()) }?;
        Ok(self)
    }

    /// Sets an attribute to a handle, which is held.
    pub(crate) fn set_handle(mut self, attribute: Attribute<OfHandle>, handle: &Arc<Handle>) -> Result<Self, Error> {
        self.0.holds.push(Held::Handle(handle.clone()));
        let pointer = handle.pointer;
        // SAFETY: one pointer, and the handle is held.
        unsafe { self.put(attribute, HANDLE, 1, (&raw const pointer).cast()) }?;
        Ok(self)
    }

    /// Sets an attribute to addresses, which are not followed before a plan is executed.
    pub(crate) fn set_pointers(
        mut self,
        attribute: Attribute<OfPointers>,
        pointers: &[Pointer],
    ) -> Result<Self, Error> {
        // SAFETY: the slice has the values; `Handle::execute` asks its caller for what they refer to.
        unsafe { self.put(attribute, POINTER, pointers.len(), pointers.as_ptr().cast()) }?;
        Ok(self)
    }

    /// Ends the changes.
    pub(crate) fn finalize(self) -> Result<Arc<Descriptor>, Error> {
        let Descriptor { library, pointer, kind, .. } = &self.0;
        let Function { name, call } = library.functions.finalize;
        // SAFETY: the descriptor exists.
        library.checked(name, kind.name, unsafe { call(*pointer) })?;
        Ok(Arc::new(self.0))
    }
}

impl Descriptor {
    /// # Safety
    /// The address has room for `most` values of the type of the code.
    unsafe fn read<T>(
        &self,
        attribute: Attribute<T>,
        code: c_int,
        most: usize,
        at: *mut c_void,
    ) -> Result<usize, Error> {
        let Function { name, call } = self.library.functions.get_attribute;
        let mut found = 0;
        // SAFETY: the descriptor exists, `found` is a valid place, and the caller promises the room.
        let status = unsafe { call(self.pointer, attribute.number, code, count(most), &raw mut found, at) };
        self.library.checked(name, attribute.name, status)?;
        let got = || found.to_string();
        let error = |_| Error::Unexpected { function: name, of: attribute.name, got: got(), expected: "a count" };
        usize::try_from(found).map_err(error)
    }

    /// The values of an attribute, `most` at most.
    ///
    /// # Errors
    /// If the library reports an error, here and below.
    pub(crate) fn get<T: Value>(&self, attribute: Attribute<T>, most: usize) -> Result<Vec<T>, Error> {
        let mut values = vec![T::default(); most];
        // SAFETY: the vector has the room, for the type that `Value` promises.
        let found = unsafe { self.read(attribute, T::CODE, most, values.as_mut_ptr().cast()) }?;
        values.truncate(found);
        Ok(values)
    }

    /// The only value of an attribute.
    pub(crate) fn get_one<T: Value>(&self, attribute: Attribute<T>) -> Result<T, Error> {
        let missing = || Error::Unexpected {
            function: self.library.functions.get_attribute.name,
            of: attribute.name,
            got: "no value".to_owned(),
            expected: "one value",
        };
        self.get(attribute, 1)?.first().copied().ok_or_else(missing)
    }

    /// The number of descriptors that an attribute has.
    pub(crate) fn count(&self, attribute: Attribute<OfDescriptors>) -> Result<usize, Error> {
        // SAFETY: no values are asked for.
        unsafe { self.read(attribute, DESCRIPTOR, 0, ptr::null_mut()) }
    }

    /// The descriptors of an attribute, `most` at most. Each holds this one.
    pub(crate) fn get_descriptors(
        self: &Arc<Self>,
        attribute: Attribute<OfDescriptors>,
        kind: Kind,
        most: usize,
    ) -> Result<Vec<Arc<Descriptor>>, Error> {
        let mut made =
            (0..most).map(|_| Ok(Builder::new(&self.library, kind)?.0)).collect::<Result<Vec<Descriptor>, Error>>()?;
        let mut pointers: Vec<Pointer> = made.iter().map(|descriptor| descriptor.pointer).collect();
        // SAFETY: the vector has `most` descriptors of the kind, which the library fills.
        let found = unsafe { self.read(attribute, DESCRIPTOR, most, pointers.as_mut_ptr().cast()) }?;
        made.truncate(found);
        made.iter_mut().for_each(|descriptor| descriptor.holds.push(Held::Descriptor(self.clone())));
        Ok(made.into_iter().map(Arc::new).collect())
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Function { name, call } = self.library.functions.destroy_descriptor;
        // SAFETY: the descriptor exists, and nothing uses it later: others hold an `Arc` of it.
        if let Err(error) = self.library.checked(name, self.kind.name, unsafe { call(self.pointer) }) {
            tracing::debug!(%error, "descriptor not destroyed");
        }
    }
}
