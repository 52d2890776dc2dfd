//! How values of the host reach the card and return: [`Staging`].
//!
//! A chunk has a slot: pinned memory, and two places on the card. It is copied up on one stream, the
//! collective runs on another, and the result is copied down on a third, with events between them; so
//! the copies of one chunk run beside the collective of another.

use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::card::{Event, Here, Memory, Pinned, Stream};
use super::driver::Failed;
use super::nccl::{Comm, Operands};
use super::plan::{Kind, Leg, Task};
use super::symbols::Pointer;
use crate::Wire;
use crate::wire::{from_bf16, to_bf16, values_of};

/// How many chunks are under way at once.
const SLOTS: usize = 4;

struct Slot {
    pinned: Pinned,
    from: Memory,
    to: Memory,
    uploaded: Event,
    worked: Event,
    downloaded: Event,
}

struct Parts {
    up: Stream,
    work: Stream,
    down: Stream,
    slots: Vec<Slot>,
    /// Those that no chunk is in.
    free: Vec<usize>,
}

/// Streams and slots. Dropped while work is under way, they are leaked: the card may still use them.
pub(super) struct Staging {
    parts: ManuallyDrop<Parts>,
    here: Rc<Here>,
    place: (usize, usize),
    bytes: usize,
}

/// Values of a caller that are on the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardValues {
    /// Where they begin.
    pub address: u64,
    /// How many.
    pub count: usize,
    /// Their type.
    pub wire: Wire,
}

impl Staging {
    /// Slots for chunks of about `bytes` bytes.
    ///
    /// # Errors
    /// Where the driver has no more memory.
    pub(super) fn new(here: &Rc<Here>, place: (usize, usize), bytes: usize) -> Result<Self, Failed> {
        // A slice of each rank, of at least one value.
        let bytes = bytes.max(place.1 * 4);
        let slot = || {
            Ok(Slot {
                pinned: here.pinned(bytes)?,
                from: here.memory(bytes)?,
                to: here.memory(bytes)?,
                uploaded: here.event()?,
                worked: here.event()?,
                downloaded: here.event()?,
            })
        };
        let slots = (0..SLOTS).map(|_| slot()).collect::<Result<_, Failed>>()?;
        let (up, work, down) = (here.stream()?, here.stream()?, here.stream()?);
        let parts = Parts { up, work, down, slots, free: (0..SLOTS).collect() };
        Ok(Staging { parts: ManuallyDrop::new(parts), here: here.clone(), place, bytes })
    }

    /// The card's current thread.
    pub(super) fn here(&self) -> &Rc<Here> {
        &self.here
    }

    /// This rank, and the number of ranks.
    pub(super) fn place(&self) -> (usize, usize) {
        self.place
    }

    /// How many values a chunk has at most: as many for each rank.
    pub(super) fn chunk(&self, wire: Wire) -> usize {
        let world = self.place.1;
        self.bytes / wire.bytes_per_value() / world * world
    }

    /// A slot for a chunk, if one is free. It is free again after [`Staging::take`].
    pub(super) fn slot(&mut self) -> Option<usize> {
        self.parts.free.pop()
    }

    /// Queues a leg: its copy up, the collective and the copy down.
    ///
    /// # Errors
    /// Where the driver or the library reports one.
    pub(super) fn launch(
        &mut self,
        comm: &Comm,
        slot: usize,
        leg: &Leg,
        wire: Wire,
        values: &[f32],
    ) -> Result<(), Failed> {
        let (rank, world) = self.place;
        let width = wire.bytes_per_value();
        let Parts { up, work, down, slots, .. } = &mut *self.parts;
        let Slot { pinned, from, to, uploaded, worked, downloaded } = &mut slots[slot];
        let bytes = leg.uploaded(rank, world) * width;
        if bytes > 0 {
            fill(&mut pinned.bytes_mut()[..bytes], values, wire);
            up.upload(from, pinned, bytes)?;
            up.record(uploaded)?;
            work.wait(uploaded)?;
        }
        let data = Operands { from: from.address(), to: to.address(), count: leg.count(world), wire };
        let down_bytes = leg.downloaded(world) * width;
        assert!(bytes.max(down_bytes) <= from.bytes().min(to.bytes()), "a chunk fits in its slot");
        // SAFETY: the two places have the values of the leg and of what fills it up, as was checked.
        // The slot is this chunk's until its copy down is complete.
        unsafe {
            match leg.kind {
                Kind::Sum => comm.all_reduce(data, work)?,
                Kind::Exchange => comm.exchange(data, work)?,
                Kind::Collect => comm.all_gather(data, work)?,
                Kind::Broadcast { root } => comm.broadcast(data, root, work)?,
            }
        }
        work.record(worked)?;
        down.wait(worked)?;
        down.download(pinned, to, down_bytes)?;
        down.record(downloaded)
    }

    /// Whether the result of a slot's chunk has arrived.
    ///
    /// # Errors
    /// Where the driver reports one.
    pub(super) fn has_landed(&self, slot: usize) -> Result<bool, Failed> {
        self.parts.slots[slot].downloaded.has_happened()
    }

    /// The result of a chunk that has arrived. Its slot is free again.
    pub(super) fn take(&mut self, slot: usize, leg: &Leg, wire: Wire) -> Vec<f32> {
        let bytes = &self.parts.slots[slot].pinned.bytes()[..leg.downloaded(self.place.1) * wire.bytes_per_value()];
        let values = match wire {
            Wire::F32 => values_of(bytes),
            Wire::Bf16 => from_bf16(&values_of(bytes)),
        };
        self.parts.free.push(slot);
        values
    }

    /// Queues a collective of a caller's values, in place, after what `ready` waits for. The event
    /// that is returned happens at its end.
    ///
    /// # Safety
    /// The values are on this card, and nothing uses them before that event.
    ///
    /// # Errors
    /// Where the driver or the library reports one.
    pub(super) unsafe fn launch_in_place(
        &self,
        comm: &Comm,
        task: Task,
        CardValues { address, count, wire }: CardValues,
        ready: &Event,
    ) -> Result<Event, Failed> {
        let work = &self.parts.work;
        work.wait(ready)?;
        let address = address as usize as Pointer;
        let data = Operands { from: address, to: address, count, wire };
        // SAFETY: the caller promises the values.
        unsafe {
            match task {
                Task::Sum(_) => comm.all_reduce(data, work)?,
                Task::Broadcast { root } => comm.broadcast(data, root, work)?,
            }
        }
        let done = self.here.event()?;
        work.record(&done)?;
        Ok(done)
    }

    /// Waits until nothing is under way, for up to `patience`; whether that is so.
    pub(super) fn drain(&self, patience: Duration) -> bool {
        let begin = Instant::now();
        loop {
            if self.is_idle() {
                return true;
            }
            if begin.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_idle(&self) -> bool {
        let Parts { up, work, down, .. } = &*self.parts;
        // Work that failed is not known to be over.
        [up, work, down].iter().all(|stream| matches!(stream.is_idle(), Ok(true)))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_idle() {
            // SAFETY: `self` ends here, and nothing uses its parts any more.
            unsafe { ManuallyDrop::drop(&mut self.parts) };
        } else {
            tracing::debug!("work of the card is under way still; its memory is not released");
        }
    }
}

/// Writes values and what fills them up.
fn fill(bytes: &mut [u8], values: &[f32], wire: Wire) {
    let bf16;
    let own: &[u8] = match wire {
        Wire::F32 => bytemuck::cast_slice(values),
        Wire::Bf16 => {
            bf16 = to_bf16(values);
            bytemuck::cast_slice(&bf16)
        }
    };
    let (start, rest) = bytes.split_at_mut(own.len());
    start.copy_from_slice(own);
    rest.fill(0);
}
