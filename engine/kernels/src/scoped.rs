//! Sets a thread-local value for the duration of a call.

use std::cell::Cell;
use std::thread::LocalKey;

/// Runs work with another value in this thread's cell, and restores the previous value afterwards,
/// even if the work panics.
pub fn scoped<T: Copy + 'static, R>(cell: &'static LocalKey<Cell<T>>, value: T, run: impl FnOnce() -> R) -> R {
    struct Back<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);
    impl<T: Copy + 'static> Drop for Back<T> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _back = Back(cell, cell.replace(value));
    run()
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static DEPTH: Cell<u8> = const { Cell::new(0) };
    }

    #[test]
    fn the_value_is_as_before_even_after_a_panic() {
        let inner = scoped(&DEPTH, 1, || scoped(&DEPTH, 2, || DEPTH.get()) * 10 + DEPTH.get());
        assert_eq!((inner, DEPTH.get()), (21, 0));
        std::panic::catch_unwind(|| scoped(&DEPTH, 3, || panic!("on purpose"))).unwrap_err();
        assert_eq!(DEPTH.get(), 0);
    }
}
