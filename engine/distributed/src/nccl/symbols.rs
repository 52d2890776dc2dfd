//! The functions of NCCL and RCCL, and of the drivers CUDA and HIP, that this crate uses, with
//! their arguments.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

use super::Vendor;

/// An address on a GPU, a stream, an event, a context or a communicator: each is a pointer in one
/// of the libraries. CUDA declares addresses as 64-bit integers, which are passed like pointers on
/// every platform with GPUs (x86-64, AArch64, POWER).
pub(super) type Pointer = *mut c_void;

/// `ncclUniqueId`, which is passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct UniqueId(pub [u8; Self::BYTES]);

impl UniqueId {
    /// `NCCL_UNIQUE_ID_BYTES`.
    pub(super) const BYTES: usize = 128;
}

/// A function, with its name for messages.
pub(super) struct Function<F> {
    pub name: &'static str,
    pub call: F,
}

/// A table of functions: field, symbol (NVIDIA's, and AMD's if it differs), arguments and result.
macro_rules! functions {
    (
        $(#[$doc:meta])* $table:ident;
        $($field:ident = $nvidia:literal $(| $amd:literal)? ($($argument:ty),*) -> $result:ty;)*
    ) => {
        $(#[$doc])*
        pub(super) struct $table {
            $(pub $field: Function<unsafe extern "C" fn($($argument),*) -> $result>,)*
        }

        impl $table {
            /// The functions of a library.
            ///
            /// # Safety
            /// The library is the vendor's, or one with the same interface, and is never unloaded.
            ///
            /// # Errors
            /// The name of the first missing function.
            pub(super) unsafe fn of(library: &Library, vendor: Vendor) -> Result<Self, &'static str> {
                Ok($table {
                    $($field: {
                        let name = match vendor {
                            Vendor::Nvidia => $nvidia,
                            Vendor::Amd => [$($amd,)? $nvidia][0],
                        };
                        // SAFETY: the vendor's headers give this symbol these arguments, and the
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
    /// Functions of NCCL 2.10 and of RCCL. All but the error text return an `ncclResult_t`.
    Collectives;
    all_gather = "ncclAllGather" (*const c_void, Pointer, usize, c_int, Pointer, Pointer) -> c_int;
    all_reduce = "ncclAllReduce" (*const c_void, Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int;
    broadcast = "ncclBroadcast" (*const c_void, Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int;
    comm_abort = "ncclCommAbort" (Pointer) -> c_int;
    comm_destroy = "ncclCommDestroy" (Pointer) -> c_int;
    comm_get_async_error = "ncclCommGetAsyncError" (Pointer, *mut c_int) -> c_int;
    comm_init_rank = "ncclCommInitRank" (*mut Pointer, c_int, UniqueId, c_int) -> c_int;
    get_error_string = "ncclGetErrorString" (c_int) -> *const c_char;
    get_unique_id = "ncclGetUniqueId" (*mut UniqueId) -> c_int;
    get_version = "ncclGetVersion" (*mut c_int) -> c_int;
    group_end = "ncclGroupEnd" () -> c_int;
    group_start = "ncclGroupStart" () -> c_int;
    recv = "ncclRecv" (Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int;
    send = "ncclSend" (*const c_void, usize, c_int, c_int, Pointer, Pointer) -> c_int;
}

functions! {
    /// Functions that CUDA and HIP have in common. Each returns a `CUresult` or `hipError_t`.
    Devices;
    bus_id = "cuDeviceGetPCIBusId" | "hipDeviceGetPCIBusId" (*mut c_char, c_int, c_int) -> c_int;
    count = "cuDeviceGetCount" | "hipGetDeviceCount" (*mut c_int) -> c_int;
    event_create = "cuEventCreate" | "hipEventCreateWithFlags" (*mut Pointer, c_uint) -> c_int;
    event_destroy = "cuEventDestroy_v2" | "hipEventDestroy" (Pointer) -> c_int;
    event_query = "cuEventQuery" | "hipEventQuery" (Pointer) -> c_int;
    event_record = "cuEventRecord" | "hipEventRecord" (Pointer, Pointer) -> c_int;
    init = "cuInit" | "hipInit" (c_uint) -> c_int;
    memory_allocate = "cuMemAlloc_v2" | "hipMalloc" (*mut Pointer, usize) -> c_int;
    memory_free = "cuMemFree_v2" | "hipFree" (Pointer) -> c_int;
    pinned_allocate = "cuMemHostAlloc" | "hipHostMalloc" (*mut Pointer, usize, c_uint) -> c_int;
    pinned_free = "cuMemFreeHost" | "hipHostFree" (Pointer) -> c_int;
    stream_create = "cuStreamCreate" | "hipStreamCreateWithFlags" (*mut Pointer, c_uint) -> c_int;
    stream_destroy = "cuStreamDestroy_v2" | "hipStreamDestroy" (Pointer) -> c_int;
    stream_query = "cuStreamQuery" | "hipStreamQuery" (Pointer) -> c_int;
    stream_wait_event = "cuStreamWaitEvent" | "hipStreamWaitEvent" (Pointer, Pointer, c_uint) -> c_int;
}

functions! {
    /// Functions specific to CUDA. A GPU (`CUdevice`) is an `int`.
    Cuda;
    context_pop = "cuCtxPopCurrent_v2" (*mut Pointer) -> c_int;
    context_push = "cuCtxPushCurrent_v2" (Pointer) -> c_int;
    device_get = "cuDeviceGet" (*mut c_int, c_int) -> c_int;
    download = "cuMemcpyDtoHAsync_v2" (Pointer, c_ulonglong, usize, Pointer) -> c_int;
    error_string = "cuGetErrorString" (c_int, *mut *const c_char) -> c_int;
    primary_release = "cuDevicePrimaryCtxRelease_v2" (c_int) -> c_int;
    primary_retain = "cuDevicePrimaryCtxRetain" (*mut Pointer, c_int) -> c_int;
    upload = "cuMemcpyHtoDAsync_v2" (c_ulonglong, *const c_void, usize, Pointer) -> c_int;
}

functions! {
    /// Functions specific to HIP. A GPU is an `int`, and each thread has a current one.
    Hip;
    copy = "hipMemcpyAsync" (Pointer, *const c_void, usize, c_int, Pointer) -> c_int;
    device_get = "hipGetDevice" (*mut c_int) -> c_int;
    device_set = "hipSetDevice" (c_int) -> c_int;
    error_string = "hipGetErrorString" (c_int) -> *const c_char;
}
