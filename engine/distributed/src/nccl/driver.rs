//! The calls of the drivers CUDA and HIP, over functions that were found at run time: [`Driver`].
//!
//! The common part of the two is in one table. They differ in how a GPU becomes the current one of
//! a thread (CUDA has contexts, HIP has indices), and in the functions for copies and error texts.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};
use std::ptr;

use super::NcclError;
use super::symbols::{Cuda, Devices, Function, Hip, Pointer};
use crate::Cause;

/// `CUDA_ERROR_NOT_READY` and `hipErrorNotReady`.
const NOT_READY: c_int = 600;
/// `CU_STREAM_NON_BLOCKING` and `hipStreamNonBlocking`: the stream does not wait for the default one.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING` and `hipEventDisableTiming`.
const DISABLE_TIMING: c_uint = 2;
/// `hipMemcpyHostToDevice` and `hipMemcpyDeviceToHost`.
const UPLOAD: c_int = 1;
const DOWNLOAD: c_int = 2;

/// A call that failed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failed {
    pub function: &'static str,
    pub code: c_int,
    pub text: String,
}

impl From<Failed> for Cause {
    fn from(Failed { function, code, text }: Failed) -> Self {
        Cause::Call { function, code, text }
    }
}

impl From<Failed> for NcclError {
    fn from(Failed { function, code, text }: Failed) -> Self {
        NcclError::Call { function, code, text }
    }
}

/// The text at an address that a library returned.
///
/// # Safety
/// The address is null, or that of a string that ends with 0 and stays in place during the call.
pub(super) unsafe fn text_at(address: *const c_char) -> String {
    if address.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: the caller promises a string.
    unsafe { CStr::from_ptr(address) }.to_string_lossy().into_owned()
}

/// A driver's library, which is never unloaded.
pub(super) struct Driver {
    pub name: String,
    shared: Devices,
    own: Own,
}

enum Own {
    Cuda(Cuda),
    Hip(Hip),
}

/// A thread's handle of a GPU. For CUDA its primary context, which CUDA's runtime and CubeCL use
/// too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    card: c_int,
    /// CUDA's context; null with HIP.
    handle: Pointer,
}

// SAFETY: a context belongs to a process; any thread may make it its current one.
unsafe impl Send for Context {}
// SAFETY: as above; it is not changed.
unsafe impl Sync for Context {}

/// The previous current GPU of a thread, to restore it with HIP. (CUDA has a stack.)
pub(super) struct Previous(c_int);

impl Driver {
    pub(super) fn cuda(name: String, shared: Devices, own: Cuda) -> Self {
        Driver { name, shared, own: Own::Cuda(own) }
    }

    pub(super) fn hip(name: String, shared: Devices, own: Hip) -> Self {
        Driver { name, shared, own: Own::Hip(own) }
    }

    fn text(&self, code: c_int) -> String {
        match &self.own {
            Own::Cuda(cuda) => {
                let mut text = ptr::null();
                // SAFETY: `text` is a place for an address; CUDA writes null for an unknown code.
                unsafe { (cuda.error_string.call)(code, &raw mut text) };
                // SAFETY: CUDA gives null or a constant string.
                unsafe { text_at(text) }
            }
            // SAFETY: HIP gives a constant string for any code.
            Own::Hip(hip) => unsafe { text_at((hip.error_string.call)(code)) },
        }
    }

    fn checked(&self, function: &'static str, code: c_int) -> Result<(), Failed> {
        // The codes `CUDA_SUCCESS` and `hipSuccess`.
        if code == 0 { Ok(()) } else { Err(Failed { function, code, text: self.text(code) }) }
    }

    /// Whether the work of a query is complete.
    fn complete(&self, function: &'static str, code: c_int) -> Result<bool, Failed> {
        if code == NOT_READY { Ok(false) } else { self.checked(function, code).map(|()| true) }
    }

    /// Initializes the driver in this process. May be called repeatedly.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) fn init(&self) -> Result<(), Failed> {
        let Function { name, call } = self.shared.init;
        // SAFETY: 0 is the only flag, and the call is allowed at any time.
        self.checked(name, unsafe { call(0) })
    }

    /// The number of GPUs that the process sees, after [`Driver::init`].
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) fn count(&self) -> Result<usize, Failed> {
        let Function { name, call } = self.shared.count;
        let mut count = 0;
        // SAFETY: `count` is a valid place.
        self.checked(name, unsafe { call(&raw mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Opens a GPU, by its index below [`Driver::count`].
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) fn open(&self, index: usize) -> Result<Context, Failed> {
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        match &self.own {
            Own::Cuda(cuda) => {
                let (mut card, mut handle) = (0, ptr::null_mut());
                // SAFETY: `card` is a valid place.
                let code = unsafe { (cuda.device_get.call)(&raw mut card, index) };
                self.checked(cuda.device_get.name, code)?;
                // SAFETY: `handle` is a valid place, and CUDA gave the GPU.
                let code = unsafe { (cuda.primary_retain.call)(&raw mut handle, card) };
                self.checked(cuda.primary_retain.name, code)?;
                Ok(Context { card, handle })
            }
            Own::Hip(_) => Ok(Context { card: index, handle: ptr::null_mut() }),
        }
    }

    /// Releases a GPU that [`Driver::open`] returned.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) fn close(&self, context: Context) -> Result<(), Failed> {
        match &self.own {
            Own::Cuda(cuda) => {
                // SAFETY: it was retained once, by `open`.
                let code = unsafe { (cuda.primary_release.call)(context.card) };
                self.checked(cuda.primary_release.name, code)
            }
            Own::Hip(_) => Ok(()),
        }
    }

    /// The address of a GPU on the bus (`0000:01:00.0`), which is the same for all processes.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) fn bus_id(&self, context: Context) -> Result<String, Failed> {
        let Function { name, call } = self.shared.bus_id;
        let mut text: [c_char; 64] = [0; 64];
        // SAFETY: the buffer has one character more than the length that is given.
        self.checked(name, unsafe { call(text.as_mut_ptr(), text.len() as c_int - 1, context.card) })?;
        // SAFETY: the last character is still 0.
        Ok(unsafe { text_at(text.as_ptr()) }.to_lowercase())
    }

    /// Makes a GPU the current one of this thread, until [`Driver::leave`].
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) fn enter(&self, context: Context) -> Result<Previous, Failed> {
        match &self.own {
            Own::Cuda(cuda) => {
                // SAFETY: the context is retained while the `Card` that owns it exists.
                let code = unsafe { (cuda.context_push.call)(context.handle) };
                self.checked(cuda.context_push.name, code).map(|()| Previous(0))
            }
            Own::Hip(hip) => {
                let mut previous = 0;
                // SAFETY: `previous` is a valid place.
                self.checked(hip.device_get.name, unsafe { (hip.device_get.call)(&raw mut previous) })?;
                // SAFETY: the driver reports an unknown index as an error.
                self.checked(hip.device_set.name, unsafe { (hip.device_set.call)(context.card) })?;
                Ok(Previous(previous))
            }
        }
    }

    /// Restores the GPU that was current in this thread before [`Driver::enter`].
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) fn leave(&self, previous: &Previous) -> Result<(), Failed> {
        match &self.own {
            Own::Cuda(cuda) => {
                let mut popped = ptr::null_mut();
                // SAFETY: `popped` is a valid place; this thread pushed a context.
                self.checked(cuda.context_pop.name, unsafe { (cuda.context_pop.call)(&raw mut popped) })
            }
            // SAFETY: HIP gave the number.
            Own::Hip(hip) => self.checked(hip.device_set.name, unsafe { (hip.device_set.call)(previous.0) }),
        }
    }

    /// Creates a handle or memory of the current GPU.
    fn made(&self, name: &'static str, make: impl FnOnce(*mut Pointer) -> c_int) -> Result<Pointer, Failed> {
        let mut made = ptr::null_mut();
        self.checked(name, make(&raw mut made))?;
        Ok(made)
    }

    pub(super) fn create_stream(&self) -> Result<Pointer, Failed> {
        let Function { name, call } = self.shared.stream_create;
        // SAFETY: the place is valid.
        self.made(name, |place| unsafe { call(place, NON_BLOCKING) })
    }

    pub(super) fn create_event(&self) -> Result<Pointer, Failed> {
        let Function { name, call } = self.shared.event_create;
        // SAFETY: the place is valid.
        self.made(name, |place| unsafe { call(place, DISABLE_TIMING) })
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<Pointer, Failed> {
        let Function { name, call } = self.shared.memory_allocate;
        // SAFETY: the place is valid.
        self.made(name, |place| unsafe { call(place, bytes) })
    }

    pub(super) fn allocate_pinned(&self, bytes: usize) -> Result<Pointer, Failed> {
        let Function { name, call } = self.shared.pinned_allocate;
        // SAFETY: the place is valid; 0 asks for nothing special.
        self.made(name, |place| unsafe { call(place, bytes, 0) })
    }

    /// Releases what one of the functions above created.
    ///
    /// # Safety
    /// `handle` was created by this driver with this kind, and nothing uses it any more.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) unsafe fn release(&self, kind: Kind, handle: Pointer) -> Result<(), Failed> {
        let Function { name, call } = match kind {
            Kind::Stream => &self.shared.stream_destroy,
            Kind::Event => &self.shared.event_destroy,
            Kind::Memory => &self.shared.memory_free,
            Kind::Pinned => &self.shared.pinned_free,
        };
        // SAFETY: the caller promises that it was made and is released once.
        self.checked(name, unsafe { call(handle) })
    }

    /// Whether all work of a stream is complete.
    ///
    /// # Safety
    /// The stream exists and belongs to the current GPU.
    ///
    /// # Errors
    /// If the driver reports an error, or the work failed.
    pub(super) unsafe fn is_idle(&self, stream: Pointer) -> Result<bool, Failed> {
        let Function { name, call } = self.shared.stream_query;
        // SAFETY: the caller promises a stream.
        self.complete(name, unsafe { call(stream) })
    }

    /// Whether an event has happened.
    ///
    /// # Safety
    /// The event exists and belongs to the current GPU.
    ///
    /// # Errors
    /// If the driver reports an error, or work before the event failed.
    pub(super) unsafe fn has_happened(&self, event: Pointer) -> Result<bool, Failed> {
        let Function { name, call } = self.shared.event_query;
        // SAFETY: the caller promises an event.
        self.complete(name, unsafe { call(event) })
    }

    /// Makes an event happen when the work queued on a stream so far is complete.
    ///
    /// # Safety
    /// Both exist and belong to the current GPU; a null stream is the default stream.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) unsafe fn record(&self, event: Pointer, stream: Pointer) -> Result<(), Failed> {
        let Function { name, call } = self.shared.event_record;
        // SAFETY: the caller promises both.
        self.checked(name, unsafe { call(event, stream) })
    }

    /// Makes the work queued on a stream from now on wait for an event.
    ///
    /// # Safety
    /// Both exist and belong to the current GPU.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) unsafe fn wait(&self, stream: Pointer, event: Pointer) -> Result<(), Failed> {
        let Function { name, call } = self.shared.stream_wait_event;
        // SAFETY: the caller promises both; 0 is the only flag.
        self.checked(name, unsafe { call(stream, event, 0) })
    }

    /// Starts a copy to the GPU.
    ///
    /// # Safety
    /// Both ranges have `bytes` bytes, one on the current GPU and one in pinned memory. Neither is
    /// freed or used otherwise before the copy is complete. The stream exists.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) unsafe fn upload(
        &self,
        to: Pointer,
        from: Pointer,
        bytes: usize,
        stream: Pointer,
    ) -> Result<(), Failed> {
        match &self.own {
            Own::Cuda(Cuda { upload: Function { name, call }, .. }) => {
                // SAFETY: the caller promises both ranges.
                self.checked(name, unsafe { call(to as c_ulonglong, from, bytes, stream) })
            }
            Own::Hip(Hip { copy: Function { name, call }, .. }) => {
                // SAFETY: the caller promises both ranges.
                self.checked(name, unsafe { call(to, from, bytes, UPLOAD, stream) })
            }
        }
    }

    /// Starts a copy from the GPU.
    ///
    /// # Safety
    /// As [`Driver::upload`].
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) unsafe fn download(
        &self,
        to: Pointer,
        from: Pointer,
        bytes: usize,
        stream: Pointer,
    ) -> Result<(), Failed> {
        match &self.own {
            Own::Cuda(Cuda { download: Function { name, call }, .. }) => {
                // SAFETY: the caller promises both ranges.
                self.checked(name, unsafe { call(to, from as c_ulonglong, bytes, stream) })
            }
            Own::Hip(Hip { copy: Function { name, call }, .. }) => {
                // SAFETY: the caller promises both ranges.
                self.checked(name, unsafe { call(to, from, bytes, DOWNLOAD, stream) })
            }
        }
    }
}

/// The kinds of objects of a driver.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Stream,
    Event,
    Memory,
    Pinned,
}
