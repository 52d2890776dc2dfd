//! The driver's functions that CubeCL calls, under their names, for one GPU whose memory is the
//! host's. Work is done when it is requested, so there is nothing to wait for.

#![allow(non_snake_case, reason = "the driver's names")]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, reason = "as the driver's documentation says")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::launch::Launch;
use crate::parse::Kernel;

type Status = c_int;
const DONE: Status = 0;
const INVALID: Status = 1;
const NO_MEMORY: Status = 2;
/// `CUDA_ERROR_INVALID_PTX`, `CUDA_ERROR_LAUNCH_FAILED`.
const NO_KERNEL: Status = 218;
const FAILED: Status = 719;

/// The size of the GPU's memory in bytes.
const MEMORY: usize = 8 << 30;
/// The alignment of blocks of memory.
const ALIGNED: usize = 512;

/// Numbers of `CUdevice_attribute`, and an H100's values. Other attributes are 1.
const ATTRIBUTES: [(c_int, c_int); 14] = [
    (1, 1024), // units of a workgroup
    (2, 1024), // along each axis
    (3, 1024),
    (4, 64),
    (5, i32::MAX), // workgroups along each axis
    (6, 65535),
    (7, 65535),
    (8, 48 << 10), // shared memory
    (10, 32),      // units of a plane
    (16, 132),     // multiprocessors
    (75, 9),       // capability
    (76, 0),
    (97, 227 << 10), // shared memory on request
    (81, 228 << 10), // of a multiprocessor
];

#[derive(Default)]
struct Card {
    kernels: Vec<Kernel>,
    blocks: HashMap<usize, Layout>,
    used: usize,
}

static CARD: LazyLock<Mutex<Card>> = LazyLock::new(Mutex::default);

fn card() -> MutexGuard<'static, Card> {
    CARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to an address given by the caller.
///
/// # Safety
/// `to` is null or can be written.
unsafe fn give<T>(to: *mut T, value: T) -> Status {
    if to.is_null() {
        return INVALID;
    }
    // SAFETY: the caller's responsibility.
    unsafe { to.write(value) };
    DONE
}

/// Functions that do nothing in this driver.
macro_rules! nothing {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> Status {
            DONE
        }
    )*};
}

nothing! {
    cuInit cuCtxSetCurrent cuCtxSynchronize cuDevicePrimaryCtxRelease_v2 cuFuncSetAttribute cuModuleUnload
    cuEventDestroy_v2 cuEventQuery cuEventRecord cuEventSynchronize cuStreamDestroy_v2 cuStreamQuery
    cuStreamSynchronize cuStreamWaitEvent cuMemHostUnregister cuCtxGetStreamPriorityRange
}

/// Functions that create an object; here they only set a handle through their first argument.
macro_rules! handles {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: *mut *mut c_void) -> Status {
            // SAFETY: the caller's responsibility.
            unsafe { give(handle, null_mut::<c_void>().wrapping_add(1)) }
        }
    )*};
}

handles! { cuDevicePrimaryCtxRetain cuEventCreate cuStreamCreate cuStreamCreateWithPriority cuCtxGetCurrent }

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { give(version, 13000) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { give(count, 1) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, _ordinal: c_int) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { give(device, 0) }
}

/// Writes a text that ends with 0.
///
/// # Safety
/// `to` has room for `length` bytes.
unsafe fn text(to: *mut c_char, length: c_int, text: &CStr) -> Status {
    let bytes = text.to_bytes_with_nul();
    if to.is_null() || (length as usize) < bytes.len() {
        return INVALID;
    }
    // SAFETY: there is room for it.
    unsafe { bytes.as_ptr().copy_to(to.cast(), bytes.len()) };
    DONE
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, _device: c_int) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { text(name, length, c"interpreter of PTX") }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, _device: c_int) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { text(id, length, c"0000:00:00.0") }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> Status {
    let found = ATTRIBUTES.iter().find(|(of, _)| *of == attribute);
    // SAFETY: the caller's responsibility.
    unsafe { give(value, found.map_or(1, |(_, value)| *value)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { give(bytes, MEMORY) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { give(free, MEMORY.saturating_sub(card().used)).max(give(total, MEMORY)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(to: *mut *mut u8, bytes: usize) -> Status {
    let mut card = card();
    let Some(layout) = Layout::from_size_align(bytes.max(1), ALIGNED).ok().filter(|_| bytes <= MEMORY - card.used)
    else {
        return NO_MEMORY;
    };
    // SAFETY: its size is not 0.
    let block = unsafe { alloc_zeroed(layout) };
    if block.is_null() {
        return NO_MEMORY;
    }
    card.used += layout.size();
    card.blocks.insert(block.addr(), layout);
    // SAFETY: the caller's responsibility.
    unsafe { give(to, block) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(to: *mut *mut u8, bytes: usize, _stream: *mut c_void) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { cuMemAlloc_v2(to, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(to: *mut *mut u8, bytes: usize) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { cuMemAlloc_v2(to, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(block: *mut u8) -> Status {
    let mut card = card();
    let Some(layout) = card.blocks.remove(&block.addr()) else { return INVALID };
    card.used -= layout.size();
    // SAFETY: a block of this layout, which is not among the blocks any more.
    unsafe { dealloc(block, layout) };
    DONE
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(block: *mut u8, _stream: *mut c_void) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { cuMemFree_v2(block) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(block: *mut u8) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { cuMemFree_v2(block) }
}

/// Copies from and to the GPU, which have the same memory.
macro_rules! copies {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(to: *mut u8, from: *const u8, bytes: usize, _stream: *mut c_void) -> Status {
            // SAFETY: the caller's responsibility.
            unsafe { from.copy_to(to, bytes) };
            DONE
        }
    )*};
}

copies! { cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 }

/// `CUDA_MEMCPY2D`: one end of a copy of rows.
#[repr(C)]
pub struct End {
    x: usize,
    y: usize,
    /// 1 for host memory, 2 for GPU memory.
    kind: c_uint,
    host: *mut u8,
    device: *mut u8,
    array: *mut c_void,
    pitch: usize,
}

impl End {
    fn row(&self, row: usize) -> *mut u8 {
        let first = if self.kind == 1 { self.host } else { self.device };
        first.wrapping_add((self.y + row) * self.pitch + self.x)
    }
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub struct Rows {
    from: End,
    to: End,
    bytes: usize,
    rows: usize,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2DAsync_v2(copy: *const Rows, _stream: *mut c_void) -> Status {
    // SAFETY: the caller's responsibility.
    let copy = unsafe { &*copy };
    if [&copy.from, &copy.to].iter().any(|end| !matches!(end.kind, 1 | 2)) {
        return INVALID;
    }
    for row in 0..copy.rows {
        // SAFETY: the caller's responsibility, for the rows of both ends.
        unsafe { copy.from.row(row).copy_to(copy.to.row(row), copy.bytes) };
    }
    DONE
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(_status: Status, name: *mut *const c_char) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { give(name, c"interpreter of PTX".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(_status: Status, text: *mut *const c_char) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { give(text, c"what the interpreter of PTX wrote to the standard error".as_ptr()) }
}

/// Loads a kernel, and writes it to the folder in `HEARTH_PTX_KERNELS`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_char) -> Status {
    // SAFETY: PTX ends with 0.
    let text = unsafe { CStr::from_ptr(image) }.to_string_lossy();
    let kernel = match Kernel::parse(&text) {
        Ok(kernel) => kernel,
        Err(e) => {
            eprintln!("hearth-ptx: {e}");
            return NO_KERNEL;
        }
    };
    if let Some(folder) = std::env::var_os("HEARTH_PTX_KERNELS") {
        let file = PathBuf::from(folder).join(format!("{}.ptx", kernel.name));
        if let Err(e) = std::fs::write(&file, text.as_bytes()) {
            eprintln!("hearth-ptx: {}: {e}", file.display());
        }
    }
    let mut card = card();
    card.kernels.push(kernel);
    // SAFETY: the caller's responsibility.
    unsafe { give(module, null_mut::<c_void>().wrapping_byte_add(card.kernels.len())) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    to: *mut *mut c_void,
    module: *mut c_void,
    _name: *const c_char,
) -> Status {
    // SAFETY: the caller's responsibility.
    unsafe { give(to, module) }
}

/// Runs a kernel, and prints the number of its instructions if `HEARTH_PTX_LAUNCHES` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    groups_x: c_uint,
    groups_y: c_uint,
    groups_z: c_uint,
    units_x: c_uint,
    units_y: c_uint,
    units_z: c_uint,
    shared: c_uint,
    _stream: *mut c_void,
    values: *const *const u8,
    _extra: *const c_void,
) -> Status {
    let card = card();
    let Some(kernel) = function.addr().checked_sub(1).and_then(|i| card.kernels.get(i)) else { return INVALID };
    let end = kernel.parameters.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
    let mut parameters = vec![0; end];
    for (i, (offset, size)) in kernel.parameters.iter().enumerate() {
        // SAFETY: the caller gives a value of this size for each parameter.
        unsafe { (*values.add(i)).copy_to(parameters[*offset..].as_mut_ptr(), *size) };
    }
    let groups = [groups_x, groups_y, groups_z];
    let units = [units_x, units_y, units_z];
    let launch = Launch { kernel, groups, units, shared: shared as usize, parameters: &parameters };
    match launch.run() {
        Ok(count) => {
            if std::env::var_os("HEARTH_PTX_LAUNCHES").is_some() {
                eprintln!("hearth-ptx: {} {groups:?} x {units:?}: {count} instructions", kernel.name);
            }
            DONE
        }
        Err(e) => {
            eprintln!("hearth-ptx: {e}");
            FAILED
        }
    }
}
