//! Copies of host values to the GPU and back: [`Staging`].
//!
//! A chunk has a slot: pinned memory, and two buffers on the GPU. It is uploaded on one stream, the
//! collective runs on another, and the result is downloaded on a third, ordered by events. So the
//! copies of one chunk overlap with the collective of another.

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

/// The number of chunks in progress at once.
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
    /// The free slots.
    free: Vec<usize>,
}

/// Streams and slots. If dropped while work is in progress, they are leaked: the GPU may still use
/// them.
pub(super) struct Staging {
    parts: ManuallyDrop<Parts>,
    here: Rc<Here>,
    place: (usize, usize),
    bytes: usize,
}

/// A caller's values that are on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardValues {
    /// The address of the first value.
    pub address: u64,
    /// The number of values.
    pub count: usize,
    /// The type of the values.
    pub wire: Wire,
}

impl Staging {
    /// Allocates slots for chunks of about `bytes` bytes.
    ///
    /// # Errors
    /// If the driver is out of memory.
    pub(super) fn new(here: &Rc<Here>, place: (usize, usize), bytes: usize) -> Result<Self, Failed> {
        // A slice for each rank, with at least one value.
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

    /// The thread whose current GPU this is.
    pub(super) fn here(&self) -> &Rc<Here> {
        &self.here
    }

    /// This rank, and the number of ranks.
    pub(super) fn place(&self) -> (usize, usize) {
        self.place
    }

    /// The largest number of values of a chunk: the same number for each rank.
    pub(super) fn chunk(&self, wire: Wire) -> usize {
        let world = self.place.1;
        self.bytes / wire.bytes_per_value() / world * world
    }

    /// A slot for a chunk, if one is free. [`Staging::take`] frees it.
    pub(super) fn slot(&mut self) -> Option<usize> {
        self.parts.free.pop()
    }

    /// Queues a collective with its upload and download.
    ///
    /// # Errors
    /// If the driver or the library reports an error.
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
        // SAFETY: the two buffers have the values of the chunk and its padding, as was checked. The
        // slot belongs to this chunk until its download is complete.
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
    /// If the driver reports an error.
    pub(super) fn has_landed(&self, slot: usize) -> Result<bool, Failed> {
        self.parts.slots[slot].downloaded.has_happened()
    }

    /// The result of a chunk that has arrived. Frees the slot.
    pub(super) fn take(&mut self, slot: usize, leg: &Leg, wire: Wire) -> Vec<f32> {
        let bytes = &self.parts.slots[slot].pinned.bytes()[..leg.downloaded(self.place.1) * wire.bytes_per_value()];
        let values = match wire {
            Wire::F32 => values_of(bytes),
            Wire::Bf16 => from_bf16(&values_of(bytes)),
        };
        self.parts.free.push(slot);
        values
    }

    /// Queues a collective of a caller's values, in place, after the event `ready`. The returned
    /// event happens at its end.
    ///
    /// # Safety
    /// The values are on this GPU, and nothing uses them before that event.
    ///
    /// # Errors
    /// If the driver or the library reports an error.
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

    /// Waits for up to `patience` until no work is in progress; returns whether that is the case.
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
        // Failed work may still be running.
        [up, work, down].iter().all(|stream| matches!(stream.is_idle(), Ok(true)))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_idle() {
            // SAFETY: `self` ends here, and nothing uses its parts any more.
            unsafe { ManuallyDrop::drop(&mut self.parts) };
        } else {
            tracing::debug!("work of the GPU is still in progress; its memory is not released");
        }
    }
}

/// Writes values and padding.
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
