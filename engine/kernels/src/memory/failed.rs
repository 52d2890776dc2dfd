//! Ends the program with a message when an allocation fails: [`report_failures`].

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the last allocation that failed.
static FAILED: AtomicUsize = AtomicUsize::new(0);

/// The thread of that allocation.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The second of that allocation, on a clock that only goes forward.
static WHEN: AtomicUsize = AtomicUsize::new(0);

/// The number of seconds within which an abort follows the allocation that caused it. Rust may write a
/// backtrace in between, which allocates other blocks.
const SOON: usize = 10;

/// Records a block that is null. A caller that can do without the block continues: a later abort has
/// another reason.
#[inline]
pub(super) fn noted(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        failed(size);
    }
    block
}

#[cold]
fn failed(size: usize) {
    ASKED.store(this_thread(), Ordering::Relaxed);
    WHEN.store(seconds(), Ordering::Relaxed);
    FAILED.store(size, Ordering::Relaxed);
}

/// Bytes of the allocation that ends this thread; 0 if none failed, or not just now.
fn fatal() -> usize {
    let soon = seconds().saturating_sub(WHEN.load(Ordering::Relaxed)) <= SOON;
    let own = ASKED.load(Ordering::Relaxed) == this_thread();
    if soon && own { FAILED.load(Ordering::Relaxed) } else { 0 }
}

/// Seconds on a clock that only goes forward.
fn seconds() -> usize {
    #[cfg(unix)]
    {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is valid for writes; the call may be made in a signal handler.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        usize::try_from(now.tv_sec).unwrap_or(0)
    }
    #[cfg(not(unix))]
    0
}

/// A number that is unique among running threads.
fn this_thread() -> usize {
    // SAFETY: it has no requirements, and may be called in a signal handler.
    #[cfg(unix)]
    return unsafe { libc::pthread_self() } as usize;
    #[cfg(not(unix))]
    0
}

/// Makes allocations that fail from now on end the program with a message and exit code 1. By
/// default, Rust aborts, which looks like a bug of the program and leaves a core file. Other causes
/// of an abort are not affected. On systems other than Unix, this does nothing.
pub fn report_failures() {
    // SAFETY: `aborted` only makes calls that are allowed in a signal handler.
    #[cfg(unix)]
    unsafe {
        let handler = aborted as extern "C" fn(libc::c_int);
        libc::signal(libc::SIGABRT, handler as libc::sighandler_t);
    }
}

/// The handler of `SIGABRT`: nothing here allocates, locks or panics.
#[cfg(unix)]
extern "C" fn aborted(signal: libc::c_int) {
    // The abort belongs to the thread whose allocation failed.
    let size = fatal();
    if size == 0 {
        // SAFETY: restores the system's default handling, which applies to the abort when this
        // returns.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    write(b"error: out of memory: there is no room for a block of ");
    let mut digits = [0_u8; 20];
    write(decimal(size / (1 << 20), &mut digits));
    write(b" MiB more\n  `hearth doctor` shows the limits of this process, `hearth memory` what a training takes\n");
    // SAFETY: ends the process at once; an abort skips the destructors, too.
    unsafe { libc::_exit(1) }
}

#[cfg(unix)]
fn write(text: &[u8]) {
    // SAFETY: the length is that of the text; text that cannot be written is lost.
    let _ = unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// The digits of a number.
#[cfg(unix)]
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || at == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_long_ago_is_forgotten() {
        assert_eq!(fatal(), 0);
        noted(std::ptr::null_mut(), 1 << 30);
        // What Rust allocates to write a backtrace.
        let mut byte = 0_u8;
        noted(&raw mut byte, 1);
        assert_eq!(fatal(), 1 << 30);
        assert_eq!(std::thread::spawn(fatal).join().expect("no panic"), 0, "of another thread");
        WHEN.fetch_sub(SOON + 1, Ordering::Relaxed);
        assert_eq!(fatal(), 0);
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        let mut digits = [0; 20];
        for number in [0, 7, 10, 1234, usize::MAX] {
            assert_eq!(decimal(number, &mut digits), number.to_string().as_bytes());
        }
    }
}
