//! A GPU with its streams, events and memory.
//!
//! They belong to the thread that created them, in which the GPU stays the current one: each keeps
//! [`Here`]. Work in progress may use them, so drop one only after its work is complete; otherwise
//! forget it.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use super::NcclError;
use super::driver::{Context, Driver, Failed, Kind, Previous};
use super::symbols::Pointer;

/// A GPU that this process uses.
pub(super) struct Card {
    pub driver: Driver,
    context: Context,
    /// The GPU's index among those that the process sees.
    pub index: usize,
    /// The number of GPUs that the process sees.
    pub count: usize,
    /// The GPU's address on the bus.
    pub bus: String,
}

impl Card {
    /// Opens a GPU.
    ///
    /// # Errors
    /// If the driver has no such GPU, or cannot open it.
    pub(super) fn open(driver: Driver, choose: impl FnOnce(usize) -> usize) -> Result<Self, NcclError> {
        driver.init()?;
        let count = driver.count()?;
        if count == 0 {
            return Err(NcclError::NoCard { name: driver.name });
        }
        let index = choose(count);
        if index >= count {
            return Err(NcclError::NoSuchCard { card: index, cards: count });
        }
        let context = driver.open(index)?;
        let mut card = Card { driver, context, index, count, bus: String::new() };
        card.bus = card.driver.bus_id(context)?;
        Ok(card)
    }

    /// Makes it the current GPU of this thread.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Rc<Here>, Failed> {
        let previous = self.driver.enter(self.context)?;
        Ok(Rc::new(Here { card: self.clone(), previous }))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if let Err(failed) = self.driver.close(self.context) {
            tracing::debug!(?failed, "GPU not released");
        }
    }
}

/// A thread whose current GPU this is. `Rc` keeps it in the thread.
pub(super) struct Here {
    pub card: Arc<Card>,
    previous: Previous,
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Err(failed) = self.card.driver.leave(&self.previous) {
            tracing::debug!(?failed, "the previous GPU of the thread is not restored");
        }
    }
}

impl Here {
    fn own(self: &Rc<Self>, kind: Kind, handle: Pointer) -> Owned {
        Owned { here: self.clone(), kind, handle }
    }

    /// # Errors
    /// If the driver reports an error, here and below.
    pub(super) fn stream(self: &Rc<Self>) -> Result<Stream, Failed> {
        Ok(Stream(self.own(Kind::Stream, self.card.driver.create_stream()?)))
    }

    pub(super) fn event(self: &Rc<Self>) -> Result<Event, Failed> {
        Ok(Event(self.own(Kind::Event, self.card.driver.create_event()?)))
    }

    pub(super) fn memory(self: &Rc<Self>, bytes: usize) -> Result<Memory, Failed> {
        Ok(Memory { own: self.own(Kind::Memory, self.card.driver.allocate(bytes)?), bytes })
    }

    pub(super) fn pinned(self: &Rc<Self>, bytes: usize) -> Result<Pinned, Failed> {
        let pinned = Pinned { own: self.own(Kind::Pinned, self.card.driver.allocate_pinned(bytes)?), bytes };
        // SAFETY: the driver allocated this number of bytes, which nothing uses yet. They are
        // zeroed so that a slice of them is initialized.
        unsafe { ptr::write_bytes(pinned.own.handle.cast::<u8>(), 0, bytes) };
        Ok(pinned)
    }
}

/// A handle or memory that is released when it is dropped.
struct Owned {
    here: Rc<Here>,
    kind: Kind,
    handle: Pointer,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // The event was sent to another thread.
        if self.handle.is_null() {
            return;
        }
        // SAFETY: `Here` made it, and the GPU is current in this thread; it is dropped once, after
        // the work that used it (see the top of this file).
        if let Err(failed) = unsafe { self.here.card.driver.release(self.kind, self.handle) } {
            tracing::debug!(kind = ?self.kind, ?failed, "not released");
        }
    }
}

/// A queue of work of the GPU.
pub(super) struct Stream(Owned);

/// A point in the work of a stream.
pub(super) struct Event(Owned);

/// Memory of the GPU.
pub(super) struct Memory {
    own: Owned,
    bytes: usize,
}

/// Pinned host memory, which the GPU reads and writes directly.
pub(super) struct Pinned {
    own: Owned,
    bytes: usize,
}

/// An event that is sent to another thread.
pub(super) struct Sent(Pointer, Arc<Card>);

// SAFETY: a driver's events belong to no thread, and this one has no other owner.
unsafe impl Send for Sent {}

impl Event {
    /// Records the event on a caller's stream.
    ///
    /// # Safety
    /// The stream exists and belongs to the current GPU; null is the default stream.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(super) unsafe fn record_on(&self, stream: Pointer) -> Result<(), Failed> {
        // SAFETY: the event exists, and the caller promises the stream.
        unsafe { self.0.here.card.driver.record(self.0.handle, stream) }
    }

    /// # Errors
    /// If the driver reports an error, or work before the event failed.
    pub(super) fn has_happened(&self) -> Result<bool, Failed> {
        // SAFETY: the event exists, and its GPU is current.
        unsafe { self.0.here.card.driver.has_happened(self.0.handle) }
    }

    /// Prepares the event for another thread, which releases it.
    pub(super) fn send(mut self) -> Sent {
        let handle = std::mem::replace(&mut self.0.handle, ptr::null_mut());
        Sent(handle, self.0.here.card.clone())
    }

    pub(super) fn receive(Sent(handle, card): Sent, here: &Rc<Here>) -> Self {
        debug_assert!(Arc::ptr_eq(&card, &here.card), "an event of this GPU");
        Event(here.own(Kind::Event, handle))
    }
}

impl Stream {
    pub(super) fn handle(&self) -> Pointer {
        self.0.handle
    }

    /// # Errors
    /// If the driver reports an error, here and below.
    pub(super) fn record(&self, event: &Event) -> Result<(), Failed> {
        // SAFETY: both exist, and their GPU is current.
        unsafe { self.0.here.card.driver.record(event.0.handle, self.0.handle) }
    }

    pub(super) fn wait(&self, event: &Event) -> Result<(), Failed> {
        // SAFETY: both exist, and their GPU is current.
        unsafe { self.0.here.card.driver.wait(self.0.handle, event.0.handle) }
    }

    pub(super) fn is_idle(&self) -> Result<bool, Failed> {
        // SAFETY: the stream exists, and its GPU is current.
        unsafe { self.0.here.card.driver.is_idle(self.0.handle) }
    }

    /// Starts a copy of the first `bytes` bytes. Before it is complete, neither may be dropped, or
    /// used without ordering by events.
    ///
    /// # Panics
    /// If one of them has fewer bytes.
    pub(super) fn upload(&self, to: &Memory, from: &Pinned, bytes: usize) -> Result<(), Failed> {
        assert!(bytes <= to.bytes && bytes <= from.bytes, "the copy fits");
        // SAFETY: both have this number of bytes; `Staging` keeps them, and events order their
        // uses.
        unsafe { self.0.here.card.driver.upload(to.own.handle, from.own.handle, bytes, self.0.handle) }
    }

    /// As [`Stream::upload`], in the other direction.
    pub(super) fn download(&self, to: &Pinned, from: &Memory, bytes: usize) -> Result<(), Failed> {
        assert!(bytes <= to.bytes && bytes <= from.bytes, "the copy fits");
        // SAFETY: as above.
        unsafe { self.0.here.card.driver.download(to.own.handle, from.own.handle, bytes, self.0.handle) }
    }
}

impl Memory {
    pub(super) fn address(&self) -> Pointer {
        self.own.handle
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Pinned {
    /// The bytes, while no copy of them is in progress.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the driver allocated this number of bytes, and they are initialized. `Staging`
        // reads them after the copies to them are complete.
        unsafe { std::slice::from_raw_parts(self.own.handle.cast::<u8>(), self.bytes) }
    }

    /// As [`Pinned::bytes`], to write them.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nothing else has a reference to them.
        unsafe { std::slice::from_raw_parts_mut(self.own.handle.cast::<u8>(), self.bytes) }
    }
}
