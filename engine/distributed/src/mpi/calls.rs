//! The calls of MPI, over functions that were found at run time.
//!
//! All calls belong to the thread that created `Mpi` (which is not `Sync`). A non-blocking call
//! owns its buffers until MPI has completed it: [`Request`].

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use half::bf16;

use super::abi::{Constants, Handle};
use super::symbols::Functions;
use crate::Cause;

/// The size of a buffer for any text of an MPI library: the largest `MPI_MAX_*` is 8192.
const TEXT: usize = 8192 + 1;

/// The largest count of one call.
pub(super) const LIMIT: u64 = i32::MAX as u64;

/// An MPI library, owned by the thread that initialized it.
pub(super) struct Mpi<H> {
    functions: Functions<H>,
    constants: Constants<H>,
    /// Keeps the calls in the thread that initialized MPI.
    one_thread: PhantomData<Cell<()>>,
}

/// Memory that MPI sends from or receives into. A vector's memory stays in place when the vector is
/// moved.
#[derive(Debug)]
pub(super) enum Buffer {
    Bytes(Vec<u8>),
    Bf16(Vec<bf16>),
    Floats(Vec<f32>),
}

impl Buffer {
    pub(super) fn none() -> Self {
        Buffer::Bytes(Vec::new())
    }

    /// The start address. An empty vector gets memory first: its dangling address of about 1 would
    /// be `MPI_IN_PLACE`.
    fn start(&mut self) -> *mut c_void {
        fn start<T>(values: &mut Vec<T>) -> *mut c_void {
            if values.is_empty() {
                values.reserve(1);
            }
            values.as_mut_ptr().cast()
        }
        match self {
            Buffer::Bytes(values) => start(values),
            Buffer::Bf16(values) => start(values),
            Buffer::Floats(values) => start(values),
        }
    }

    /// The length in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Buffer::Bytes(values) => values.len(),
            Buffer::Bf16(values) => size_of_val(values.as_slice()),
            Buffer::Floats(values) => size_of_val(values.as_slice()),
        }
    }
}

/// The blocks of the ranks within a buffer: their lengths and offsets.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    counts: Vec<c_int>,
    starts: Vec<c_int>,
    total: usize,
}

impl Blocks {
    /// Consecutive blocks of these lengths in bytes.
    ///
    /// # Errors
    /// If they have more bytes together than a call can count.
    pub(super) fn new(lengths: &[u64]) -> Result<Self, Cause> {
        let total = lengths.iter().fold(0_u64, |sum, length| sum.saturating_add(*length));
        if total > LIMIT {
            return Err(Cause::TooLarge { bytes: total, limit: LIMIT });
        }
        // Each length is at most the limit.
        let counts: Vec<c_int> = lengths.iter().map(|length| *length as c_int).collect();
        let starts = counts.iter().scan(0, |next, count| Some(std::mem::replace(next, *next + count))).collect();
        Ok(Blocks { counts, starts, total: total as usize })
    }

    fn fits(&self, buffer: &Buffer, world: usize) {
        assert_eq!((self.total, self.counts.len()), (buffer.bytes(), world), "blocks of all ranks fill the buffer");
    }
}

/// A call that MPI may not have completed. It owns the memory that MPI reads and writes. If it is
/// dropped before completion, that memory is leaked, because MPI may still use it.
pub(super) struct Request<H> {
    handle: H,
    memory: Option<Memory>,
    complete: bool,
}

struct Memory {
    send: Buffer,
    receive: Buffer,
    /// MPI reads counts and starts until completion.
    blocks: Vec<Blocks>,
}

impl<H> Request<H> {
    /// The sent and received data of a completed call.
    pub(super) fn into_buffers(mut self) -> (Buffer, Buffer) {
        assert!(self.complete, "MPI still uses the buffers");
        let memory = self.memory.take();
        memory.map_or_else(|| (Buffer::none(), Buffer::none()), |memory| (memory.send, memory.receive))
    }
}

impl<H> Drop for Request<H> {
    fn drop(&mut self) {
        if !self.complete {
            std::mem::forget(self.memory.take());
        }
    }
}

/// A call that failed, without its text.
pub(super) struct Failed {
    pub function: &'static str,
    pub code: c_int,
}

fn checked(function: &'static str, code: c_int) -> Result<(), Failed> {
    // `MPI_SUCCESS` is 0 in the standard.
    if code == 0 { Ok(()) } else { Err(Failed { function, code }) }
}

fn text(buffer: &[u8; TEXT], length: c_int) -> String {
    let length = usize::try_from(length).unwrap_or(0).min(TEXT);
    String::from_utf8_lossy(&buffer[..length]).trim_end_matches(['\0', '\n', ' ']).to_owned()
}

impl<H: Handle> Mpi<H> {
    pub(super) fn new(functions: Functions<H>, constants: Constants<H>) -> Self {
        Mpi { functions, constants, one_thread: PhantomData }
    }

    /// Initializes MPI in this thread. All other calls come later.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn initialize(&self) -> Result<(), Failed> {
        let mut provided = 0;
        let funneled = self.constants.thread_funneled;
        // SAFETY: MPI allows null for both arguments of `main`, and `provided` is a valid place. A
        // process opens MPI once, which `MpiCommunicator::open` ensures.
        let code =
            unsafe { (self.functions.init_thread)(ptr::null_mut(), ptr::null_mut(), funneled, &raw mut provided) };
        checked("MPI_Init_thread", code)?;
        tracing::debug!(provided, "MPI initialized");
        // SAFETY: the world exists after initialization; the handler is a predefined one.
        let code = unsafe { (self.functions.comm_set_errhandler)(self.constants.world, self.constants.errors_return) };
        checked("MPI_Comm_set_errhandler", code)
    }

    /// This rank, and the number of ranks.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn place(&self) -> Result<(usize, usize), Failed> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the world exists, and both are valid places.
        checked("MPI_Comm_rank", unsafe { (self.functions.comm_rank)(self.constants.world, &raw mut rank) })?;
        // SAFETY: as above.
        checked("MPI_Comm_size", unsafe { (self.functions.comm_size)(self.constants.world, &raw mut size) })?;
        Ok((usize::try_from(rank).unwrap_or(0), usize::try_from(size).unwrap_or(0)))
    }

    /// A duplicate communicator of all ranks, whose messages are separate. All ranks call it.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn duplicate_world(&self) -> Result<H, Failed> {
        let mut duplicate = MaybeUninit::uninit();
        // SAFETY: the world exists, and `duplicate` is a place for a handle.
        let code = unsafe { (self.functions.comm_dup)(self.constants.world, duplicate.as_mut_ptr()) };
        checked("MPI_Comm_dup", code)?;
        // SAFETY: MPI wrote it, since it succeeded.
        Ok(unsafe { duplicate.assume_init() })
    }

    /// The name of this host.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn processor_name(&self) -> Result<String, Failed> {
        let (mut name, mut length) = ([0_u8; TEXT], 0);
        // SAFETY: the buffer is longer than `MPI_MAX_PROCESSOR_NAME` of any interface.
        let code = unsafe { (self.functions.get_processor_name)(name.as_mut_ptr().cast::<c_char>(), &raw mut length) };
        checked("MPI_Get_processor_name", code)?;
        Ok(text(&name, length))
    }

    /// The first line of the library's version.
    pub(super) fn version(&self) -> String {
        let (mut version, mut length) = ([0_u8; TEXT], 0);
        // SAFETY: the buffer is longer than `MPI_MAX_LIBRARY_VERSION_STRING` of any interface.
        let code =
            unsafe { (self.functions.get_library_version)(version.as_mut_ptr().cast::<c_char>(), &raw mut length) };
        let version = if code == 0 { text(&version, length) } else { String::new() };
        version.lines().next().unwrap_or_default().split(',').next().unwrap_or_default().trim().replace('\t', " ")
    }

    /// The cause of a failed call, with the library's text for it.
    pub(super) fn explain(&self, Failed { function, code }: Failed) -> Cause {
        let (mut said, mut length) = ([0_u8; TEXT], 0);
        // SAFETY: the buffer is longer than `MPI_MAX_ERROR_STRING` of any interface, and MPI allows
        // the call at any time.
        let known = unsafe { (self.functions.error_string)(code, said.as_mut_ptr().cast::<c_char>(), &raw mut length) };
        let text = if known == 0 { text(&said, length) } else { "unknown".to_owned() };
        Cause::Call { function, code, text }
    }

    /// Starts a call that yields a request, and keeps its memory until completion.
    fn begin(
        &self,
        function: &'static str,
        mut memory: Memory,
        call: impl FnOnce(&mut Memory, *mut H) -> c_int,
    ) -> Result<Request<H>, Cause> {
        let mut handle = MaybeUninit::uninit();
        let code = call(&mut memory, handle.as_mut_ptr());
        match checked(function, code) {
            // SAFETY: MPI wrote the request, since it succeeded.
            Ok(()) => Ok(Request { handle: unsafe { handle.assume_init() }, memory: Some(memory), complete: false }),
            Err(failed) => {
                // MPI may still use it.
                std::mem::forget(memory);
                Err(self.explain(failed))
            }
        }
    }

    /// Starts the sum of f32 values in the library's order.
    ///
    /// # Errors
    /// If the library reports an error, or there are more values than it can count.
    pub(super) fn all_reduce(&self, comm: H, values: Vec<f32>) -> Result<Request<H>, Cause> {
        let count = c_int::try_from(values.len())
            .map_err(|_| Cause::TooLarge { bytes: values.len() as u64 * 4, limit: LIMIT * 4 })?;
        let receive = Buffer::Floats(vec![0.0; values.len()]);
        let memory = Memory { send: Buffer::Floats(values), receive, blocks: Vec::new() };
        let (float, sum) = (self.constants.float, self.constants.sum);
        self.begin("MPI_Iallreduce", memory, |memory, request| {
            let (send, receive) = (memory.send.start(), memory.receive.start());
            // SAFETY: both buffers have `count` f32 values and are kept until completion.
            unsafe { (self.functions.iallreduce)(send, receive, count, float, sum, comm, request) }
        })
    }

    /// Starts the exchange of blocks: rank `r` receives block `r` of each rank, in the order of
    /// ranks.
    ///
    /// # Errors
    /// If the library reports an error.
    ///
    /// # Panics
    /// If blocks and buffers do not match.
    pub(super) fn all_to_all(
        &self,
        comm: H,
        (send, sent): (Buffer, Blocks),
        (receive, received): (Buffer, Blocks),
        world: usize,
    ) -> Result<Request<H>, Cause> {
        sent.fits(&send, world);
        received.fits(&receive, world);
        let byte = self.constants.byte;
        let memory = Memory { send, receive, blocks: vec![sent, received] };
        self.begin("MPI_Ialltoallv", memory, |memory, request| {
            let (send, receive) = (memory.send.start(), memory.receive.start());
            let [sent, received] = [&memory.blocks[0], &memory.blocks[1]];
            // SAFETY: the blocks of all ranks lie within the buffers, as was checked; buffers and
            // blocks are kept until completion.
            unsafe {
                (self.functions.ialltoallv)(
                    send,
                    sent.counts.as_ptr(),
                    sent.starts.as_ptr(),
                    byte,
                    receive,
                    received.counts.as_ptr(),
                    received.starts.as_ptr(),
                    byte,
                    comm,
                    request,
                )
            }
        })
    }

    /// Starts a gather of blocks to each rank, or to `root` (where `receive` of other ranks is
    /// ignored).
    ///
    /// # Errors
    /// If the library reports an error, or it can't count the bytes.
    ///
    /// If blocks and buffers do not match.
    /// Where blocks and buffer do not fit each other.
    pub(super) fn gather(
        &self,
        comm: H,
        send: Buffer,
        (receive, received): (Buffer, Blocks),
        root: Option<usize>,
        (rank, world): (usize, usize),
    ) -> Result<Request<H>, Cause> {
        let receives = root.is_none_or(|root| root == rank);
        if receives {
            received.fits(&receive, world);
        }
        let count = self.count(&send)?;
        let byte = self.constants.byte;
        let memory = Memory { send, receive, blocks: vec![received] };
        let function = if root.is_some() { "MPI_Igatherv" } else { "MPI_Iallgatherv" };
        self.begin(function, memory, |memory, request| {
            let (send, receive) = (memory.send.start(), memory.receive.start());
            let (counts, starts) = (memory.blocks[0].counts.as_ptr(), memory.blocks[0].starts.as_ptr());
            match root {
                // SAFETY: `send` has `count` bytes, and where this rank receives, the blocks of all
                // ranks lie within its buffer, as was checked; all are kept until completion.
                Some(root) => unsafe {
                    let root = root as c_int;
                    (self.functions.igatherv)(send, count, byte, receive, counts, starts, byte, root, comm, request)
                },
                // SAFETY: as above.
                None => unsafe {
                    (self.functions.iallgatherv)(send, count, byte, receive, counts, starts, byte, comm, request)
                },
            }
        })
    }

    /// Starts a broadcast: the buffer of `root` is received into those of the others, which have
    /// the same length.
    ///
    /// # Errors
    /// If the library reports an error, or it can't count the bytes.
    pub(super) fn broadcast(&self, comm: H, buffer: Buffer, root: usize) -> Result<Request<H>, Cause> {
        let (count, byte) = (self.count(&buffer)?, self.constants.byte);
        let memory = Memory { send: Buffer::none(), receive: buffer, blocks: Vec::new() };
        self.begin("MPI_Ibcast", memory, |memory, request| {
            let buffer = memory.receive.start();
            // SAFETY: the buffer has `count` bytes and is kept until completion; the root is a rank.
            unsafe { (self.functions.ibcast)(buffer, count, byte, root as c_int, comm, request) }
        })
    }

    /// Starts a barrier.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn barrier(&self, comm: H) -> Result<Request<H>, Cause> {
        let memory = Memory { send: Buffer::none(), receive: Buffer::none(), blocks: Vec::new() };
        // SAFETY: the communicator exists.
        self.begin("MPI_Ibarrier", memory, |_, request| unsafe { (self.functions.ibarrier)(comm, request) })
    }

    /// Starts to send a message.
    ///
    /// # Errors
    /// If the library reports an error, or it can't count the bytes.
    pub(super) fn send(&self, comm: H, message: Vec<u8>, to: usize, tag: c_int) -> Result<Request<H>, Cause> {
        let send = Buffer::Bytes(message);
        let (count, byte) = (self.count(&send)?, self.constants.byte);
        let memory = Memory { send, receive: Buffer::none(), blocks: Vec::new() };
        self.begin("MPI_Isend", memory, |memory, request| {
            let message = memory.send.start();
            // SAFETY: the message has `count` bytes and is kept until completion; `to` is a rank.
            unsafe { (self.functions.isend)(message, count, byte, to as c_int, tag, comm, request) }
        })
    }

    /// A message of at most `N` bytes, if one has arrived, padded with zeros.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn receive<const N: usize>(&self, comm: H, tag: c_int) -> Result<Option<[u8; N]>, Cause> {
        let (any, byte) = (self.constants.any_source, self.constants.byte);
        let ignore: *mut c_void = ptr::without_provenance_mut(self.constants.status_ignore);
        let mut arrived = 0;
        // SAFETY: the communicator exists, and the status is ignored.
        let code = unsafe { (self.functions.iprobe)(any, tag, comm, &raw mut arrived, ignore) };
        checked("MPI_Iprobe", code).map_err(|failed| self.explain(failed))?;
        if arrived == 0 {
            return Ok(None);
        }
        let mut message = [0_u8; N];
        // SAFETY: the buffer has `N` bytes; MPI reports a longer message as an error. The message
        // has arrived, and no other thread receives, so the call returns.
        let code =
            unsafe { (self.functions.recv)(message.as_mut_ptr().cast(), N as c_int, byte, any, tag, comm, ignore) };
        checked("MPI_Recv", code).map_err(|failed| self.explain(failed))?;
        Ok(Some(message))
    }

    /// Whether a call is complete. Lets the library make progress on all calls.
    ///
    /// # Errors
    /// If the library reports an error. The request is then not complete.
    pub(super) fn test(&self, request: &mut Request<H>) -> Result<bool, Cause> {
        if !request.complete {
            let mut complete = 0;
            let ignore: *mut c_void = ptr::without_provenance_mut(self.constants.status_ignore);
            // SAFETY: the request was started and is not complete, so its handle is valid; the
            // status is ignored.
            let code = unsafe { (self.functions.test)(&raw mut request.handle, &raw mut complete, ignore) };
            checked("MPI_Test", code).map_err(|failed| self.explain(failed))?;
            request.complete = complete != 0;
        }
        Ok(request.complete)
    }

    /// Ends all processes of the run.
    pub(super) fn abort(&self, code: i32) {
        // SAFETY: the world exists, and MPI allows the call at any time.
        unsafe { (self.functions.abort)(self.constants.world, code) };
    }

    /// Ends MPI. All ranks call it.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn finalize(self) -> Result<(), Cause> {
        // SAFETY: this is the thread that initialized MPI; `self` ends here, so no call follows.
        checked("MPI_Finalize", unsafe { (self.functions.finalize)() }).map_err(|failed| self.explain(failed))
    }

    fn count(&self, buffer: &Buffer) -> Result<c_int, Cause> {
        c_int::try_from(buffer.bytes()).map_err(|_| Cause::TooLarge { bytes: buffer.bytes() as u64, limit: LIMIT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_each_other_up_to_the_limit() {
        let blocks = Blocks::new(&[3, 0, 5]).expect("small");
        assert_eq!((blocks.counts, blocks.starts, blocks.total), (vec![3, 0, 5], vec![0, 3, 3], 8));
        assert!(Blocks::new(&[LIMIT - 1, 1]).is_ok());
        let cause = Blocks::new(&[LIMIT, 1]).expect_err("too large");
        assert_eq!(cause, Cause::TooLarge { bytes: LIMIT + 1, limit: LIMIT });
    }
}
