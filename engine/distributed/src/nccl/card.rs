//! A card, and what belongs to it: streams, events and memory.
//!
//! They belong to the thread that made them, in which the card stays the current one meanwhile:
//! each keeps [`Here`]. Work that is under way may use them, so whoever drops one has seen that the
//! work is complete, or forgets it instead.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use super::NcclError;
use super::driver::{Context, Driver, Failed, Kind, Previous};
use super::symbols::Pointer;

/// A card that this process uses.
pub(super) struct Card {
    pub driver: Driver,
    context: Context,
    /// Its number among those that the process sees.
    pub index: usize,
    /// How many the process sees.
    pub count: usize,
    /// Its address on the bus.
    pub bus: String,
}

impl Card {
    /// Opens a card.
    ///
    /// # Errors
    /// Where the driver has no such card, or cannot open it.
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

    /// Makes it the current card of this thread.
    ///
    /// # Errors
    /// Where the driver reports one.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Rc<Here>, Failed> {
        let previous = self.driver.enter(self.context)?;
        Ok(Rc::new(Here { card: self.clone(), previous }))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if let Err(failed) = self.driver.close(self.context) {
            tracing::debug!(?failed, "card not given back");
        }
    }
}

/// A thread whose current card this is. `Rc` keeps it in the thread.
pub(super) struct Here {
    pub card: Arc<Card>,
    previous: Previous,
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Err(failed) = self.card.driver.leave(&self.previous) {
            tracing::debug!(?failed, "the thread's previous card is not restored");
        }
    }
}

impl Here {
    fn own(self: &Rc<Self>, kind: Kind, handle: Pointer) -> Owned {
        Owned { here: self.clone(), kind, handle }
    }

    /// # Errors
    /// Where the driver reports one, here and below.
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
        // SAFETY: the driver allocated so many bytes, which nothing uses yet. They are zeroed so that
        // a slice of them is one of initialized bytes.
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
        // An event that was sent to another thread.
        if self.handle.is_null() {
            return;
        }
        // SAFETY: `Here` made it, and the card is current in this thread; it is dropped once, after
        // the work that used it (see the head of this file).
        if let Err(failed) = unsafe { self.here.card.driver.release(self.kind, self.handle) } {
            tracing::debug!(kind = ?self.kind, ?failed, "not released");
        }
    }
}

/// A queue of work of the card.
pub(super) struct Stream(Owned);

/// A moment in the work of a stream.
pub(super) struct Event(Owned);

/// Memory of the card.
pub(super) struct Memory {
    own: Owned,
    bytes: usize,
}

/// Memory of the host that the card reads and writes by itself.
pub(super) struct Pinned {
    own: Owned,
    bytes: usize,
}

/// An event on its way to another thread.
pub(super) struct Sent(Pointer, Arc<Card>);

// SAFETY: a driver's events belong to no thread; this one is nobody else's.
unsafe impl Send for Sent {}

impl Event {
    /// Records it on the stream of a caller.
    ///
    /// # Safety
    /// The stream exists, of the current card; null is the default one.
    ///
    /// # Errors
    /// Where the driver reports one.
    pub(super) unsafe fn record_on(&self, stream: Pointer) -> Result<(), Failed> {
        // SAFETY: the event exists, and the caller promises the stream.
        unsafe { self.0.here.card.driver.record(self.0.handle, stream) }
    }

    /// # Errors
    /// Where the driver reports one, or work before the event failed.
    pub(super) fn has_happened(&self) -> Result<bool, Failed> {
        // SAFETY: the event exists, and its card is current.
        unsafe { self.0.here.card.driver.has_happened(self.0.handle) }
    }

    /// For another thread, which releases it.
    pub(super) fn send(mut self) -> Sent {
        let handle = std::mem::replace(&mut self.0.handle, ptr::null_mut());
        Sent(handle, self.0.here.card.clone())
    }

    pub(super) fn receive(Sent(handle, card): Sent, here: &Rc<Here>) -> Self {
        debug_assert!(Arc::ptr_eq(&card, &here.card), "an event of this card");
        Event(here.own(Kind::Event, handle))
    }
}

impl Stream {
    pub(super) fn handle(&self) -> Pointer {
        self.0.handle
    }

    /// # Errors
    /// Where the driver reports one, here and below.
    pub(super) fn record(&self, event: &Event) -> Result<(), Failed> {
        // SAFETY: both exist, and their card is current.
        unsafe { self.0.here.card.driver.record(event.0.handle, self.0.handle) }
    }

    pub(super) fn wait(&self, event: &Event) -> Result<(), Failed> {
        // SAFETY: both exist, and their card is current.
        unsafe { self.0.here.card.driver.wait(self.0.handle, event.0.handle) }
    }

    pub(super) fn is_idle(&self) -> Result<bool, Failed> {
        // SAFETY: the stream exists, and its card is current.
        unsafe { self.0.here.card.driver.is_idle(self.0.handle) }
    }

    /// Starts a copy of the first `bytes` bytes. Neither is dropped, or used without the order of
    /// events, before it is complete.
    ///
    /// # Panics
    /// Where one of them has fewer.
    pub(super) fn upload(&self, to: &Memory, from: &Pinned, bytes: usize) -> Result<(), Failed> {
        assert!(bytes <= to.bytes && bytes <= from.bytes, "the copy fits");
        // SAFETY: both have so many bytes; `Staging` keeps them, and events order what uses them.
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
    /// Its bytes, while no copy of them is under way.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the driver allocated so many bytes, and they are initialized. `Staging` reads them
        // after the copies to them are complete.
        unsafe { std::slice::from_raw_parts(self.own.handle.cast::<u8>(), self.bytes) }
    }

    /// As [`Pinned::bytes`], to write them.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nothing else has a reference to them.
        unsafe { std::slice::from_raw_parts_mut(self.own.handle.cast::<u8>(), self.bytes) }
    }
}
