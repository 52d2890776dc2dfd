//! What the code of a plugin must not do to the process: end it, or leave its working folder.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use hearth_engine::{Context, Event, Handler, HandlerError, OnError, Ranks, When};
use hearth_registry::component::{Answer, Component, HostArray, Network};

thread_local! {
    /// The plugin whose code this thread runs.
    static RUNS: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// The program's working folder during the plugin's code.
    static FOLDER: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Returns to the program's working folder: for a request to the host within a plugin's code, which may
/// have left it.
pub fn come_back() {
    FOLDER.with_borrow(|folder| {
        if let (Some(folder), Some(name)) = (folder, RUNS.get()) {
            restore(name, folder);
        }
    });
}

/// Sets the working folder again if it has changed.
fn restore(name: &str, folder: &Path) {
    let moved = std::env::current_dir().map_or(true, |now| now != folder);
    // Where it fails, requests and steps that need a file fail by themselves.
    if moved && std::env::set_current_dir(folder).is_ok() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::warn!("the plugin `{name}` changes the working folder of the program, which is undone");
        });
    }
}

/// Whether another process reports how this one ends, so that a plugin may end it with any code.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Leaves `exit` to plugins: for the process of an isolated plugin, whose end the program reports.
#[cfg(target_os = "linux")]
pub fn leave_exit() {
    REPORTED.store(true, Ordering::Relaxed);
}

/// A plugin's name, kept for the rest of the process as its library is.
#[derive(Clone, Copy, Debug)]
pub struct Name(&'static str);

impl Name {
    /// Keeps the name.
    pub fn new(name: &str) -> Self {
        Self(Box::leak(name.to_owned().into_boxed_str()))
    }

    /// Calls the plugin's code. If it ends the process by `exit`, the process fails, whatever code it
    /// gives; if it changes the working folder, that is undone, since the program's relative paths would
    /// mean other files.
    pub fn call<T>(self, code: impl FnOnce() -> T) -> T {
        at_exit();
        let folder = std::env::current_dir().ok();
        let _running = Running(RUNS.replace(Some(self.0)), FOLDER.replace(folder.clone()));
        let done = code();
        if let Some(folder) = folder {
            restore(self.0, &folder);
        }
        done
    }
}

/// Restores the plugin that ran before, also after a panic.
struct Running(Option<&'static str>, Option<PathBuf>);

impl Drop for Running {
    fn drop(&mut self) {
        RUNS.set(self.0);
        FOLDER.replace(self.1.take());
    }
}

/// Makes `exit` within a plugin's code a failure of the process.
#[cfg(unix)]
fn at_exit() {
    extern "C" fn check() {
        if let Some(name) = RUNS.get().filter(|_| !REPORTED.load(Ordering::Relaxed)) {
            eprintln!("error: the plugin `{name}` has ended the program (exit); run it with --isolated={name}");
            // SAFETY: it ends the process at once, without further handlers; nothing is used after it.
            unsafe { libc::_exit(1) }
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function is never unloaded, and needs no state but a constant thread-local. If it
        // cannot be registered, `exit` has its usual effect.
        unsafe { libc::atexit(check) };
    });
}

/// Other systems have no such hook here.
#[cfg(not(unix))]
fn at_exit() {}

/// A handler whose calls are watched.
pub struct Watched {
    name: Name,
    inner: Box<dyn Handler>,
}

impl Watched {
    /// Watches the calls of a plugin's handler.
    pub fn new(name: Name, inner: Box<dyn Handler>) -> Self {
        Self { name, inner }
    }
}

impl Handler for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn subscriptions(&self) -> Vec<When> {
        self.inner.subscriptions()
    }

    fn events(&self) -> Vec<String> {
        self.inner.events()
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.name.call(|| self.inner.handle(event, cx))
    }

    fn on_error(&self) -> OnError {
        self.inner.on_error()
    }

    fn ranks(&self) -> Ranks {
        self.inner.ranks()
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        self.name.call(|| self.inner.save_state())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        self.name.call(|| self.inner.load_state(state))
    }
}

/// A component whose calls are watched.
pub struct WatchedComponent {
    name: Name,
    inner: Arc<dyn Component>,
}

impl WatchedComponent {
    /// Watches the calls of a plugin's component.
    pub fn new(name: Name, inner: Arc<dyn Component>) -> Self {
        Self { name, inner }
    }
}

impl Component for WatchedComponent {
    fn run(&self, inputs: &[HostArray<'_>], text: &str) -> Result<Vec<HostArray<'static>>, String> {
        self.name.call(|| self.inner.run(inputs, text))
    }

    fn call(
        &self,
        operation: &str,
        inputs: &[HostArray<'_>],
        text: &str,
        network: Option<&mut Network<'_>>,
    ) -> Result<Answer, String> {
        self.name.call(|| self.inner.call(operation, inputs, text, network))
    }

    fn version(&self) -> String {
        self.inner.version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_folder_is_restored_and_calls_may_nest() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = std::env::current_dir().expect("a folder");
        let (outer, inner) = (Name::new("outer"), Name::new("inner"));
        let names = outer.call(|| {
            std::env::set_current_dir(folder.path()).expect("it exists");
            let nested = inner.call(|| RUNS.get());
            come_back();
            assert_eq!(std::env::current_dir().expect("a folder"), before);
            std::env::set_current_dir(folder.path()).expect("it exists");
            (nested, RUNS.get())
        });
        assert_eq!(names, (Some("inner"), Some("outer")));
        assert_eq!((RUNS.get(), std::env::current_dir().expect("a folder")), (None, before));
        let panics = std::panic::catch_unwind(|| outer.call(|| panic!("in the plugin")));
        assert!(panics.is_err() && RUNS.get().is_none());
    }
}
