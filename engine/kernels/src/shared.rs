//! A buffer that tasks write disjoint parts of.

/// The output buffer.
#[derive(Clone, Copy)]
pub struct Shared {
    start: *mut f32,
    len: usize,
}

// SAFETY: tasks write disjoint positions, as the callers of `part` guarantee.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The elements of a vector, initialized or not.
    pub fn new(buffer: &mut [std::mem::MaybeUninit<f32>]) -> Self {
        Shared { start: buffer.as_mut_ptr().cast(), len: buffer.len() }
    }

    /// Returns `count` elements from `index` on.
    ///
    /// # Safety
    /// No other task may use them at the same time.
    #[expect(clippy::mut_from_ref, reason = "tasks write disjoint parts of one buffer")]
    pub unsafe fn part(&self, index: usize, count: usize) -> &mut [std::mem::MaybeUninit<f32>] {
        assert!(index + count <= self.len, "an output lies outside its buffer");
        // SAFETY: within the buffer; the caller guarantees exclusive use.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(index).cast(), count) }
    }

    /// The start of the first of `rows` rows of `count` elements each, `step` apart from `index`
    /// on. No other task may use them at the same time.
    pub fn rows(&self, index: usize, step: usize, [rows, count]: [usize; 2]) -> *mut f32 {
        assert!(index + (rows - 1) * step + count <= self.len, "rows lie outside their buffer");
        // SAFETY: within the buffer.
        unsafe { self.start.add(index) }
    }
}
