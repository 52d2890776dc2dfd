//! An allocator that keeps large blocks for reuse: [`KeepLarge`].

mod failed;
mod owners;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator for small blocks; large ones are kept when they are freed, and reused.
///
/// Volumes and activations are megabytes each, live for milliseconds, and recur in the same sizes.
/// The system unmaps such a block when it is freed, and clears every page of the next one at its
/// first use, which costs more than many operations on it. (PyTorch keeps GPU memory for the same
/// reason.) Blocks are on huge pages where the system has them available. Where no block of a size
/// is free, a part of a larger one is used, or several adjacent ones are joined.
///
/// Blocks of up to a few hundred kilobytes come from the system's allocator, which is configured to
/// keep them as well (by default, glibc maps and clears each one again).
///
/// The memory held in large blocks, used or not, never exceeds the peak use by more than [`slack`];
/// where it is limited ([`limit_to`]), free blocks are returned to the system from seven eighths of
/// the limit on. This works on Linux only; elsewhere, all blocks come from the system's allocator.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();
///
/// let volume = vec![0.0_f32; 1 << 20];
/// assert!(volume.iter().all(|v| *v == 0.0));
/// ```
#[derive(Debug, Default)]
pub struct KeepLarge {
    #[cfg(target_os = "linux")]
    kept: std::sync::Mutex<kept::Kept>,
}

/// Bytes of all large blocks in use, and their maximum since [`begin_peak`].
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Bytes of all large blocks, including those kept for reuse, and their maximum since
/// [`begin_peak`].
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK_HELD: AtomicUsize = AtomicUsize::new(0);

/// The maximum number of bytes of large blocks in use at a time.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

pub use failed::report_failures;
pub use owners::{no_owners, owners, owns};

/// Refuses large blocks from now on if more than `bytes` bytes of them would be in use. A system
/// that overcommits memory kills a process that uses too much; a refused block can be reported.
pub fn limit_to(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// The maximum number of bytes of large blocks that are held while some of them are free: small
/// blocks, the program and the system's file cache need the rest.
#[cfg(target_os = "linux")]
fn limit_of_held() -> usize {
    LIMIT.load(Ordering::Relaxed) / 8 * 7
}

/// Whether [`KeepLarge`] is the allocator of this process and counts its large blocks.
pub fn is_counted() -> bool {
    // A large block that is in use while the count is read; its pages are never touched.
    let block = std::hint::black_box(Vec::<u8>::with_capacity(8 << 20));
    let counted = in_use() > 0;
    drop(block);
    counted
}

/// Bytes of the large blocks that this process uses now: volumes, activations, weights. 0 where
/// [`KeepLarge`] is not its allocator ([`is_counted`]).
pub fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// The maximum number of bytes of large blocks in use since [`begin_peak`].
pub fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// The maximum number of bytes of large blocks, including those kept for reuse, since
/// [`begin_peak`].
pub fn peak_held() -> usize {
    PEAK_HELD.load(Ordering::Relaxed)
}

/// Restarts [`peak`] and [`peak_held`] at the current values.
pub fn begin_peak() {
    PEAK.store(in_use(), Ordering::Relaxed);
    PEAK_HELD.store(HELD.load(Ordering::Relaxed), Ordering::Relaxed);
}

#[cfg(target_os = "linux")]
fn mapped(size: usize) {
    let held = HELD.fetch_add(size, Ordering::Relaxed) + size;
    PEAK_HELD.fetch_max(held, Ordering::Relaxed);
}

#[cfg(target_os = "linux")]
fn took(size: usize) {
    let used = IN_USE.fetch_add(size, Ordering::Relaxed) + size;
    PEAK.fetch_max(used, Ordering::Relaxed);
}

/// The number of bytes that may be held above the peak use: three eighths of the peak, at least 256
/// MiB and at most 1 GiB. With less, blocks of many different sizes are rarely reused.
pub fn slack(most: usize) -> usize {
    (most / 8 * 3).clamp(256 << 20, 1 << 30)
}

impl KeepLarge {
    /// Makes an allocator that keeps no blocks yet.
    pub const fn new() -> Self {
        KeepLarge {
            #[cfg(target_os = "linux")]
            kept: std::sync::Mutex::new(kept::Kept::new()),
        }
    }
}

// SAFETY: only size and alignment determine whether a block is the system allocator's or one of
// `kept`, which gives each block to one owner at a time.
unsafe impl GlobalAlloc for KeepLarge {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        #[cfg(target_os = "linux")]
        if let Some(size) = kept::size(layout) {
            return kept::take(&self.kept, size).0;
        }
        small::prepare();
        // SAFETY: the caller's promise about the layout is passed on.
        failed::noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        #[cfg(target_os = "linux")]
        if let Some(size) = kept::size(layout) {
            let (block, zero) = kept::take(&self.kept, size);
            if !zero && !block.is_null() {
                // SAFETY: the block has at least the layout's size.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        small::prepare();
        // SAFETY: as in `alloc`.
        failed::noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        #[cfg(target_os = "linux")]
        if let Some(size) = kept::size(layout) {
            // SAFETY: `alloc` returned it for this size, and the caller no longer uses it.
            return unsafe { kept::give(&self.kept, block, size) };
        }
        // SAFETY: the block came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size is sound with the old alignment.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        #[cfg(target_os = "linux")]
        {
            let (from, to) = (kept::size(layout), kept::size(new));
            if from.is_some() && from == to {
                return block;
            }
            if from.is_some() || to.is_some() {
                // SAFETY: the new block does not overlap the old one, and both hold the copied
                // bytes; the old one came from `alloc`.
                unsafe {
                    let target = self.alloc(new);
                    if !target.is_null() {
                        target.copy_from_nonoverlapping(block, layout.size().min(new_size));
                        self.dealloc(block, layout);
                    }
                    return target;
                }
            }
        }
        // SAFETY: as in `dealloc`.
        failed::noted(unsafe { System.realloc(block, layout, new.size()) }, new.size())
    }
}

/// Settings of the system's allocator for blocks that are not large.
mod small {
    /// Configures glibc, once per process: these blocks are placed in its heap instead of being
    /// mapped individually, and the heap's end is returned to the system only when it is large.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub fn prepare() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static DONE: AtomicBool = AtomicBool::new(false);
        if DONE.load(Ordering::Relaxed) || DONE.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: sets two thresholds of the allocator, under its own lock; a rejected value
        // changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
        }
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub fn prepare() {}
}

#[cfg(target_os = "linux")]
mod kept {
    use std::alloc::Layout;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::slack;

    /// A huge page.
    const PAGE: usize = 2 << 20;
    /// Blocks of at least this size are kept.
    const LARGE: usize = 256 << 10;
    /// Blocks of at least this size are whole huge pages: smaller ones would waste too much memory.
    const WHOLE: usize = PAGE * 3 / 4;
    /// Smaller blocks are multiples of this.
    const STEP: usize = 64 << 10;
    /// The maximum number of free blocks that are kept.
    const BLOCKS: usize = 512;

    /// Free blocks, the oldest first, and the bytes in use. Nothing here may allocate.
    #[derive(Debug)]
    pub struct Kept {
        blocks: [(usize, *mut u8); BLOCKS],
        count: usize,
        free: usize,
        used: usize,
        most: usize,
    }

    // SAFETY: the blocks are free memory without another owner.
    unsafe impl Send for Kept {}

    impl Default for Kept {
        fn default() -> Self {
            Kept::new()
        }
    }

    impl Kept {
        pub const fn new() -> Self {
            Kept { blocks: [(0, std::ptr::null_mut()); BLOCKS], count: 0, free: 0, used: 0, most: 0 }
        }

        fn remove(&mut self, i: usize) -> (usize, *mut u8) {
            let block = self.blocks[i];
            self.blocks.copy_within(i + 1..self.count, i);
            self.count -= 1;
            self.free -= block.0;
            block
        }

        /// A free block of this size: the newest one, or the start of the smallest larger one.
        fn reuse(&mut self, size: usize) -> Option<*mut u8> {
            if let Some(i) = (0..self.count).rev().find(|i| self.blocks[*i].0 == size) {
                return Some(self.remove(i).1);
            }
            if !size.is_multiple_of(PAGE) {
                return None;
            }
            let i = self.smallest(size).or_else(|| {
                self.join();
                self.smallest(size)
            })?;
            let (all, block) = self.blocks[i];
            if all == size {
                return Some(self.remove(i).1);
            }
            // SAFETY: the block is longer than `size`.
            self.blocks[i] = (all - size, unsafe { block.add(size) });
            self.free -= size;
            Some(block)
        }

        /// The smallest free block of at least `size` bytes, among those that are whole huge pages.
        fn smallest(&self, size: usize) -> Option<usize> {
            let fitting = (0..self.count).filter(|i| self.blocks[*i].0 >= size && whole(self.blocks[*i]));
            fitting.min_by_key(|i| self.blocks[*i].0)
        }

        /// Joins adjacent free blocks, each of whole huge pages.
        fn join(&mut self) {
            let mut i = 0;
            while i < self.count {
                let (size, block) = self.blocks[i];
                let next = (block.wrapping_add(size), whole(self.blocks[i]));
                match (0..self.count).find(|j| next == (self.blocks[*j].1, whole(self.blocks[*j])) && next.1) {
                    Some(j) => {
                        let (more, _) = self.remove(j);
                        i -= usize::from(j < i);
                        self.blocks[i].0 += more;
                        self.free += more;
                    }
                    None => i += 1,
                }
            }
        }

        /// Returns the oldest blocks, or the end of one, to the system until at most `free` bytes
        /// and `count` blocks are left.
        fn shrink(&mut self, free: usize, count: usize) {
            while self.count > 0 && (self.free > free || self.count > count) {
                let (size, block) = self.blocks[0];
                let surplus = self.free.saturating_sub(free).next_multiple_of(PAGE);
                if self.count <= count && whole(self.blocks[0]) && surplus < size {
                    self.blocks[0].0 -= surplus;
                    self.free -= surplus;
                    // SAFETY: the block is longer than the surplus.
                    unmap(unsafe { block.add(size - surplus) }, surplus);
                } else {
                    self.remove(0);
                    unmap(block, size);
                }
            }
        }
    }

    /// Whether a block is whole huge pages; such blocks start at a huge page.
    fn whole((size, _): (usize, *mut u8)) -> bool {
        size.is_multiple_of(PAGE)
    }

    /// The block size for a layout, if it is a large one: rounded up by a quarter at most, above 2
    /// MiB by an eighth or to a huge page.
    pub fn size(layout: Layout) -> Option<usize> {
        if layout.size() < LARGE || layout.align() > PAGE {
            return None;
        }
        let least = if layout.size() < WHOLE { STEP } else { PAGE };
        let step = (layout.size().checked_next_power_of_two()? / 16).max(least);
        layout.size().checked_next_multiple_of(step)
    }

    /// A block of this size (null where there is no memory), and whether it is known to be zeroed.
    pub fn take(kept: &Mutex<Kept>, size: usize) -> (*mut u8, bool) {
        let mut state = lock(kept);
        if let Some(block) = state.reuse(size) {
            state.used += size;
            super::took(size);
            return (block, false);
        }
        let used = state.used.saturating_add(size);
        if used > super::LIMIT.load(super::Ordering::Relaxed) {
            return (super::failed::noted(std::ptr::null_mut(), size), true);
        }
        let most = state.most.max(used);
        let room = most.saturating_add(slack(most)).min(super::limit_of_held()).saturating_sub(used);
        state.shrink(room, BLOCKS);
        drop(state);
        let mut block = map(size);
        if block.is_null() {
            lock(kept).shrink(0, 0);
            block = map(size);
        }
        if !block.is_null() {
            let mut state = lock(kept);
            state.used += size;
            state.most = state.most.max(state.used);
            super::took(size);
        }
        (super::failed::noted(block, size), true)
    }

    /// Keeps a block.
    ///
    /// # Safety
    /// [`take`] must have returned it for this size, and it must no longer be in use.
    pub unsafe fn give(kept: &Mutex<Kept>, block: *mut u8, size: usize) {
        let mut state = lock(kept);
        state.shrink(usize::MAX, BLOCKS - 1);
        let count = state.count;
        state.blocks[count] = (size, block);
        state.count += 1;
        state.free += size;
        state.used -= size;
        super::IN_USE.fetch_sub(size, super::Ordering::Relaxed);
    }

    fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
        kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps new memory, which is zeroed, on huge pages where available; null on failure.
    fn map(size: usize) -> *mut u8 {
        let Some(length) = size.checked_add(PAGE) else { return std::ptr::null_mut() };
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address of the system's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        let before = start.cast::<u8>().align_offset(PAGE);
        // SAFETY: `before` is less than `PAGE`, so block and remainder lie within the mapping.
        // Ignored advice does no harm.
        unsafe {
            let block = start.cast::<u8>().add(before);
            if before > 0 {
                libc::munmap(start, before);
            }
            if before < PAGE {
                libc::munmap(block.add(size).cast(), PAGE - before);
            }
            libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE);
            super::mapped(size);
            block
        }
    }

    fn unmap(block: *mut u8, size: usize) {
        super::HELD.fetch_sub(size, super::Ordering::Relaxed);
        // SAFETY: the block is a mapping of this size that nothing uses.
        unsafe { libc::munmap(block.cast(), size) };
    }

    #[cfg(test)]
    impl Kept {
        pub fn counts(&self) -> [usize; 4] {
            [self.count, self.free, self.used, self.most]
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEGABYTE: usize = 1 << 20;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 16).expect("a layout")
    }

    fn counts(keeper: &KeepLarge) -> [usize; 4] {
        keeper.kept.lock().expect("not poisoned").counts()
    }

    #[test]
    fn a_freed_block_is_given_out_again_and_zero_where_asked_for() {
        let keeper = KeepLarge::new();
        let layout = layout(5 * MEGABYTE);
        // SAFETY: each block is used within its size while it is allocated.
        unsafe {
            let first = keeper.alloc(layout);
            first.write_bytes(7, layout.size());
            keeper.dealloc(first, layout);
            let second = keeper.alloc_zeroed(layout);
            assert_eq!(first, second);
            assert!(std::slice::from_raw_parts(second, layout.size()).iter().all(|v| *v == 0));
            keeper.dealloc(second, layout);
        }
        assert_eq!(counts(&keeper), [1, 6 * MEGABYTE, 0, 6 * MEGABYTE]);
    }

    #[test]
    fn a_block_is_part_of_a_larger_one_or_of_several_side_by_side() {
        let keeper = KeepLarge::new();
        let [large, half, third] = [24, 12, 8].map(|size| layout(size * MEGABYTE));
        // SAFETY: each block is used within its size while it is allocated.
        unsafe {
            let first = keeper.alloc(large);
            keeper.dealloc(first, large);
            let parts = [keeper.alloc(third), keeper.alloc(third), keeper.alloc(third)];
            assert_eq!(parts, [first, first.add(third.size()), first.add(2 * third.size())]);
            assert_eq!(counts(&keeper), [0, 0, 24 * MEGABYTE, 24 * MEGABYTE]);
            // The middle block is freed last, but still lies between the others.
            for part in [parts[2], parts[0], parts[1]] {
                part.write_bytes(1, third.size());
                keeper.dealloc(part, third);
            }
            assert_eq!(counts(&keeper), [3, 24 * MEGABYTE, 0, 24 * MEGABYTE]);
            let halves = [keeper.alloc_zeroed(half), keeper.alloc(half)];
            assert_eq!(halves, [first, first.add(half.size())]);
            assert!(std::slice::from_raw_parts(halves[0], half.size()).iter().all(|v| *v == 0));
            halves.into_iter().for_each(|block| keeper.dealloc(block, half));
        }
        assert_eq!(counts(&keeper), [2, 24 * MEGABYTE, 0, 24 * MEGABYTE]);
    }

    #[test]
    fn more_than_was_ever_used_is_not_held() {
        let keeper = KeepLarge::new();
        for size in 1..200 {
            let layout = layout(size * MEGABYTE);
            // SAFETY: as above.
            unsafe {
                let block = keeper.alloc(layout);
                block.write(1);
                keeper.dealloc(block, layout);
            }
            let [_, free, used, most] = counts(&keeper);
            assert!(used == 0 && free <= most + slack(most), "{free} bytes are kept, at most {most} were used");
        }
    }

    #[test]
    fn more_than_the_limit_is_refused_and_what_is_freed_is_given_again() {
        let keeper = KeepLarge::new();
        let layout = layout(8 * MEGABYTE);
        // SAFETY: as above.
        unsafe {
            let block = keeper.alloc(layout);
            // Other tests run at the same time with their own allocators: they use less.
            limit_to(1 << 34);
            assert!(keeper.alloc(super::tests::layout((1 << 34) + 1)).is_null());
            keeper.dealloc(block, layout);
            let again = keeper.alloc(layout);
            limit_to(usize::MAX);
            assert_eq!(block, again);
            keeper.dealloc(again, layout);
        }
    }

    #[test]
    fn a_size_that_no_machine_has_is_refused_and_not_counted() {
        let keeper = KeepLarge::new();
        // SAFETY: the result is not used.
        assert!(unsafe { keeper.alloc(layout(1 << 60)) }.is_null());
        assert_eq!(counts(&keeper), [0; 4]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Blocks that are in use at the same time keep their contents, also when their size
        /// changes.
        #[test]
        fn blocks_keep_their_contents(sizes in prop::collection::vec((1usize..9_000_000, 1usize..9_000_000), 1..12)) {
            let keeper = KeepLarge::new();
            let mark = |i: usize| (i + 1) as u8;
            let blocks: Vec<_> = sizes.iter().enumerate().map(|(i, (size, _))| {
                // SAFETY: as above.
                unsafe {
                    let block = keeper.alloc(layout(*size));
                    block.write_bytes(mark(i), *size);
                    block
                }
            }).collect();
            for (i, (block, (size, new))) in blocks.into_iter().zip(&sizes).enumerate() {
                // SAFETY: as above.
                unsafe {
                    let block = keeper.realloc(block, layout(*size), *new);
                    let held = std::slice::from_raw_parts(block, *size.min(new));
                    prop_assert!(held.iter().all(|v| *v == mark(i)));
                    keeper.dealloc(block, layout(*new));
                }
            }
            prop_assert_eq!(counts(&keeper)[2], 0);
        }
    }
}
