//! Free blocks of the allocator within a memory limit. A separate process: the limit is global.

#![cfg(target_os = "linux")]

use std::alloc::{GlobalAlloc, Layout};

use hearth_kernels::memory::{KeepLarge, begin_peak, limit_to, peak, peak_held};

const MEGABYTE: usize = 1 << 20;

/// The maximum number of bytes in use, and held, with blocks that are freed between others, so that
/// a larger one fits into none of them.
fn peaks() -> [usize; 2] {
    let keeper = KeepLarge::new();
    let [small, large] = [8, 20].map(|size| Layout::from_size_align(size * MEGABYTE, 16).expect("a layout"));
    begin_peak();
    // SAFETY: nothing is written, and each block is returned with its layout.
    unsafe {
        let blocks: Vec<*mut u8> = (0..5).map(|_| keeper.alloc(small)).collect();
        blocks.iter().step_by(2).for_each(|block| keeper.dealloc(*block, small));
        let block = keeper.alloc(large);
        assert!(!block.is_null(), "there is memory for it");
        keeper.dealloc(block, large);
        blocks.iter().skip(1).step_by(2).for_each(|block| keeper.dealloc(*block, small));
    }
    [peak(), peak_held()]
}

#[test]
fn free_blocks_are_given_back_where_memory_is_limited() {
    let [used, held] = peaks();
    assert_eq!([used, held], [40 * MEGABYTE, 60 * MEGABYTE], "all are kept");
    limit_to(64 * MEGABYTE);
    let before = held;
    let [used, held] = peaks();
    // What the first keeper left behind is still held.
    assert!(used == 40 * MEGABYTE && held - before <= 56 * MEGABYTE, "{held} bytes are held");
}
