//! The calls of NCCL and RCCL, over functions that were found at run time: [`Nccl`] and [`Comm`].

use std::ffi::c_int;
use std::fmt;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::card::{Here, Stream};
use super::driver::{Failed, text_at};
use super::library::LastError;
use super::symbols::{Collectives, Function, Pointer, UniqueId};
use super::{NcclError, Vendor};
use crate::Wire;

/// The codes `ncclSuccess` and, from `ncclCommGetAsyncError`, "in progress".
const SUCCESS: c_int = 0;
const IN_PROGRESS: c_int = 7;
/// `ncclSum`.
const SUM: c_int = 0;
/// The first version with bf16.
const FIRST: Version = Version(21000);

/// A version of NCCL. RCCL has the number of the NCCL that it is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(i32);

impl Version {
    /// Major, minor and patch numbers. In `NCCL_VERSION_CODE` the major number has the factor 1000
    /// up to 2.8, and 10000 later.
    fn parts(self) -> (i32, i32, i32) {
        let major = if self.0 < 10000 { 1000 } else { 10000 };
        (self.0 / major, self.0 % major / 100, self.0 % 100)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.parts();
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// `ncclFloat32` and `ncclBfloat16`.
fn data_type(wire: Wire) -> c_int {
    match wire {
        Wire::F32 => 7,
        Wire::Bf16 => 9,
    }
}

/// A library of collectives, which is never unloaded.
pub(super) struct Nccl {
    pub name: String,
    pub vendor: Vendor,
    pub version: Version,
    functions: Collectives,
    last_error: Option<LastError>,
}

impl Nccl {
    /// # Errors
    /// If the library does not return its version, or is too old.
    pub(super) fn new(
        name: String,
        vendor: Vendor,
        functions: Collectives,
        last_error: Option<LastError>,
    ) -> Result<Self, NcclError> {
        let mut nccl = Nccl { name, vendor, version: Version(0), functions, last_error };
        let Function { name, call } = nccl.functions.get_version;
        let mut version = 0;
        // SAFETY: `version` is a valid place.
        nccl.checked(name, unsafe { call(&raw mut version) }, ptr::null_mut())?;
        nccl.version = Version(version);
        if nccl.version < FIRST {
            return Err(NcclError::Old { name: nccl.name, found: nccl.version.to_string() });
        }
        Ok(nccl)
    }

    fn checked(&self, function: &'static str, code: c_int, comm: Pointer) -> Result<(), Failed> {
        if code == SUCCESS { Ok(()) } else { Err(Failed { function, code, text: self.text(code, comm) }) }
    }

    /// The library's text for a code, and its last error.
    fn text(&self, code: c_int, comm: Pointer) -> String {
        // SAFETY: the library gives a constant string for any code.
        let text = unsafe { text_at((self.functions.get_error_string.call)(code)) };
        let Some(last_error) = self.last_error else { return text };
        // SAFETY: the communicator exists or is null, and the string stays until the next error.
        let last = unsafe { text_at(last_error(comm)) };
        let last = last.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
        if last.is_empty() { text } else { format!("{text} ({last})") }
    }

    /// The identifier that the ranks of one communicator share.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn unique_id(&self) -> Result<UniqueId, Failed> {
        let Function { name, call } = self.functions.get_unique_id;
        let mut id = UniqueId([0; UniqueId::BYTES]);
        // SAFETY: `id` is a valid place.
        self.checked(name, unsafe { call(&raw mut id) }, ptr::null_mut())?;
        Ok(id)
    }
}

/// The operands of a collective on the GPU: addresses and the number of values. The addresses may
/// be equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub from: Pointer,
    pub to: Pointer,
    pub count: usize,
    pub wire: Wire,
}

/// A rank of a communicator. It is destroyed once or aborted once; dropping it aborts it.
pub(super) struct Comm {
    nccl: Arc<Nccl>,
    /// Null after it was destroyed or aborted.
    handle: Pointer,
    world: usize,
    /// Keeps the GPU current, as it was when the communicator was created and must be in each call.
    _here: Rc<Here>,
}

impl Comm {
    /// Connects this rank with the others. Returns when all of them have called it.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn connect(
        nccl: &Arc<Nccl>,
        here: &Rc<Here>,
        id: UniqueId,
        (rank, world): (usize, usize),
    ) -> Result<Self, Failed> {
        let Function { name, call } = nccl.functions.comm_init_rank;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a valid place, the rank is one of `world`, and the GPU is current.
        let code = unsafe { call(&raw mut handle, world as c_int, id, rank as c_int) };
        nccl.checked(name, code, ptr::null_mut())?;
        Ok(Comm { nccl: nccl.clone(), handle, world, _here: here.clone() })
    }

    fn checked(&self, function: &'static str, code: c_int) -> Result<(), Failed> {
        self.nccl.checked(function, code, self.handle)
    }

    /// Queues the sum of the ranks' values, in the library's order.
    ///
    /// # Safety
    /// Both addresses have `count` values on the GPU, and nothing else uses them before the work is
    /// complete, here and below.
    ///
    /// # Errors
    /// If the library reports an error, here and below.
    pub(super) unsafe fn all_reduce(&self, data: Operands, stream: &Stream) -> Result<(), Failed> {
        let Function { name, call } = self.nccl.functions.all_reduce;
        let Operands { from, to, count, wire } = data;
        // SAFETY: the communicator and the stream exist; the caller promises the memory.
        self.checked(name, unsafe { call(from, to, count, data_type(wire), SUM, self.handle, stream.handle()) })
    }

    /// Queues the broadcast of the root's values.
    ///
    /// # Safety
    /// As [`Comm::all_reduce`]. The root is a rank.
    pub(super) unsafe fn broadcast(&self, data: Operands, root: usize, stream: &Stream) -> Result<(), Failed> {
        let Function { name, call } = self.nccl.functions.broadcast;
        let Operands { from, to, count, wire } = data;
        let root = root as c_int;
        // SAFETY: the communicator, the root and the stream exist; the caller promises the memory.
        self.checked(name, unsafe { call(from, to, count, data_type(wire), root, self.handle, stream.handle()) })
    }

    /// Queues the gather of each rank's `count` values, in the order of ranks, on each rank.
    ///
    /// # Safety
    /// As [`Comm::all_reduce`], with `count` values at `from` for each rank at `to`.
    pub(super) unsafe fn all_gather(&self, data: Operands, stream: &Stream) -> Result<(), Failed> {
        let Function { name, call } = self.nccl.functions.all_gather;
        let Operands { from, to, count, wire } = data;
        // SAFETY: the communicator and the stream exist; the caller promises the memory.
        self.checked(name, unsafe { call(from, to, count, data_type(wire), self.handle, stream.handle()) })
    }

    /// Queues the exchange of slices of `count` values: rank `r` receives slice `r` of each rank, in
    /// the order of ranks.
    ///
    /// # Safety
    /// As [`Comm::all_reduce`], with a slice for each rank at both addresses, which must differ.
    pub(super) unsafe fn exchange(&self, data: Operands, stream: &Stream) -> Result<(), Failed> {
        let Function { name, call } = self.nccl.functions.group_start;
        // SAFETY: no arguments; the group ends below.
        self.checked(name, unsafe { call() })?;
        // SAFETY: the caller promises the memory.
        let queued = (0..self.world).try_for_each(|peer| unsafe { self.slice(data, peer, stream) });
        let Function { name, call } = self.nccl.functions.group_end;
        // SAFETY: no arguments. The group ends whether or not its calls succeeded.
        let ended = self.checked(name, unsafe { call() });
        queued.and(ended)
    }

    /// # Safety
    /// As [`Comm::exchange`]. The peer is a rank, and a group has started.
    unsafe fn slice(
        &self,
        Operands { from, to, count, wire }: Operands,
        peer: usize,
        stream: &Stream,
    ) -> Result<(), Failed> {
        let offset = peer * count * wire.bytes_per_value();
        let (from, to) = (from.wrapping_byte_add(offset), to.wrapping_byte_add(offset));
        let Collectives { send, recv, .. } = &self.nccl.functions;
        let (rank, kind) = (peer as c_int, data_type(wire));
        // SAFETY: the slice is within the memory that the caller promises.
        self.checked(send.name, unsafe { (send.call)(from, count, kind, rank, self.handle, stream.handle()) })?;
        // SAFETY: as above.
        self.checked(recv.name, unsafe { (recv.call)(to, count, kind, rank, self.handle, stream.handle()) })
    }

    /// The code and text of an error that the library found after a call had returned.
    ///
    /// # Errors
    /// If the query fails.
    pub(super) fn asynchronous_error(&self) -> Result<Option<(c_int, String)>, Failed> {
        let Function { name, call } = self.nccl.functions.comm_get_async_error;
        let mut code = SUCCESS;
        // SAFETY: the communicator exists, and `code` is a valid place.
        self.checked(name, unsafe { call(self.handle, &raw mut code) })?;
        Ok((code != SUCCESS && code != IN_PROGRESS).then(|| (code, self.nccl.text(code, self.handle))))
    }

    /// Ends the communicator. All ranks call it when no work is in progress.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn destroy(mut self) -> Result<(), Failed> {
        let Function { name, call } = self.nccl.functions.comm_destroy;
        let handle = std::mem::replace(&mut self.handle, ptr::null_mut());
        // SAFETY: the communicator exists, and `self` ends here, so that nothing uses it later.
        self.nccl.checked(name, unsafe { call(handle) }, ptr::null_mut())
    }
}

impl Drop for Comm {
    /// Ends the communicator and its work in progress, without the other ranks.
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        let Function { name, call } = self.nccl.functions.comm_abort;
        // SAFETY: the communicator exists, and nothing uses it later.
        if let Err(failed) = self.nccl.checked(name, unsafe { call(self.handle) }, ptr::null_mut()) {
            tracing::debug!(?failed, "communicator not aborted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_codes_are_read_as_the_header_writes_them() {
        for (code, text) in [(2708, "2.7.8"), (2804, "2.8.4"), (20908, "2.9.8"), (21003, "2.10.3"), (22705, "2.27.5")] {
            assert_eq!(Version(code).to_string(), text);
        }
        assert!(Version(20908) < FIRST && Version(2804) < FIRST && Version(21003) > FIRST);
    }
}
