//! The threads that kernels work on.

use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};

/// Makes the calling thread one of the threads that kernels work on (rayon's global pool), of which
/// there are `threads` then; 0 for as many as there are cores, or as `RAYON_NUM_THREADS` says.
///
/// Without it every kernel that this thread calls is handed to another one, and both sleep and wake
/// for it: at a thousand small kernels in a step of a deep network, or of one on small patches, a
/// quarter of the time. For the thread that trains or infers, once, before the first kernel. While
/// it waits for batches of a loader it helps to make them. A pool of one thread is left to itself:
/// somebody must work while this one sleeps.
///
/// # Errors
/// Where the pool is there already.
pub fn join_thread_pool(threads: usize) -> Result<(), ThreadPoolBuildError> {
    let threads = if threads == 0 { usual() } else { threads };
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    if threads > 1 { builder.use_current_thread().build_global() } else { builder.build_global() }
}

/// As many as rayon takes by itself.
fn usual() -> usize {
    let told = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    told.filter(|n| *n > 0).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}
