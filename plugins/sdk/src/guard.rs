//! Catches panics in the plugin, and converts them to text.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// The nesting depth of guarded calls on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The location of the last panic in a guarded call.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `f`; returns a panic in it as its message and location.
///
/// After a panic the handler's state may be inconsistent. It is not called again unless its own
/// `on_error` returns `Log`.
pub fn guard<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    // A library has its own copy of the standard library, and so its own panic hook.
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| if DEPTH.get() > 0 { note(info) } else { before(info) }));
    });
    DEPTH.set(DEPTH.get() + 1);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    DEPTH.set(DEPTH.get() - 1);
    result.map_err(|payload| {
        let message = message_of(payload.as_ref());
        match LAST.take() {
            Some(place) => format!("panicked at {place}: {message}"),
            None => format!("panicked: {message}"),
        }
    })
}

/// The message of a panic.
pub fn message_of(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

fn note(info: &PanicHookInfo<'_>) {
    LAST.set(info.location().map(ToString::to_string));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_text_with_its_place() {
        assert_eq!(guard(|| 3), Ok(3));
        let error = guard(|| -> u8 { panic!("no {}", "luck") }).expect_err("panics");
        assert!(error.contains("guard.rs:") && error.ends_with(": no luck"), "{error}");
        let nested = guard(|| guard(|| panic!("inner")).is_err()).expect("the outer call continues");
        assert!(nested);
    }
}
