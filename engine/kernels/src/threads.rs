//! The threads that run kernels.

use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};

/// Makes the calling thread one of the `threads` threads that run kernels (rayon's global pool); 0
/// means the number of cores, or the value of `RAYON_NUM_THREADS`.
///
/// Otherwise, every kernel that this thread calls runs on another thread, and both sleep and wake
/// for it. With a thousand small kernels per step, as in a deep network or one on small patches,
/// that takes a quarter of the time. Call it once, on the thread that trains or infers, before the
/// first kernel. While this thread waits for batches of a loader, it helps to produce them. A pool
/// of one thread is not joined: it must make progress while this thread sleeps.
///
/// # Errors
/// Where the pool already exists.
pub fn join_thread_pool(threads: usize) -> Result<(), ThreadPoolBuildError> {
    let threads = if threads == 0 { usual() } else { threads };
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    if threads > 1 { builder.use_current_thread().build_global() } else { builder.build_global() }
}

/// The number of threads that rayon uses by default.
fn usual() -> usize {
    let told = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    told.filter(|n| *n > 0).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}
