//! Ranges for the vendors' profilers: [`Markers`], with NVTX for NVIDIA (Nsight Systems) and roctx
//! for AMD (rocprof).

// Unsafe code: this folder calls the libraries of profilers, found at run time.

mod category;
mod nvtx;
mod roctx;

use std::fmt;
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::layer::is_range;

pub use category::Category;
pub use nvtx::Nvtx;
pub use roctx::Roctx;

/// A profiler that shows ranges.
pub trait Markers: Send + Sync + 'static {
    /// Begins a range of this thread, within those that it has begun.
    fn push(&self, name: &str, category: Category);

    /// Ends the innermost range of this thread.
    fn pop(&self);

    /// Begins a range that any thread may end; returns its number.
    fn start(&self, name: &str, category: Category) -> u64;

    /// Ends a range that [`Markers::start`] has begun.
    fn end(&self, id: u64);
}

/// The profiler to which ranges go, once one was chosen.
static CHOSEN: OnceLock<Box<dyn Markers>> = OnceLock::new();

/// The error of a profiler that is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMarkers(pub(crate) String);

impl fmt::Display for NoMarkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoMarkers {}

/// Passes every range on to the profiler with this name from now on: `nvtx`, or `roctx`, whose library is
/// loaded. The subscriber needs [`markers_layer`]. Only the first profiler gets them.
///
/// # Errors
/// For any other name, and where the library is missing or refuses.
pub fn show_ranges(name: &str) -> Result<(), NoMarkers> {
    let markers: Box<dyn Markers> = match name {
        "nvtx" => Box::new(Nvtx::open()?),
        "roctx" => Box::new(Roctx::open()?),
        _ => return Err(NoMarkers(format!("{name:?} is not a kind of ranges: give nvtx or roctx"))),
    };
    if CHOSEN.set(markers).is_ok() {
        // Spans were disabled until now.
        tracing::callsite::rebuild_interest_cache();
    }
    Ok(())
}

/// A range that began in one thread and may end in another: it ends when it is dropped.
#[derive(Debug)]
#[must_use = "the range ends when it is dropped"]
pub struct OpenRange(Option<u64>);

/// Begins a range that may end in another thread, for the profiler of [`show_ranges`]; without one it costs
/// a branch. The timeline of this crate does not have it.
///
/// ```
/// let range = hearth_profile::start_range("upload");
/// std::thread::spawn(move || {
///     // ... the work, in another thread ...
///     drop(range);
/// });
/// ```
pub fn start_range(name: &str) -> OpenRange {
    OpenRange(CHOSEN.get().map(|markers| markers.start(name, Category::of(name))))
}

impl Drop for OpenRange {
    fn drop(&mut self) {
        if let (Some(markers), Some(id)) = (CHOSEN.get(), self.0) {
            markers.end(id);
        }
    }
}

/// The label of a range, from its span.
struct Label(String);

struct Name<'a>(&'a mut String);

impl tracing::field::Visit for Name<'_> {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        if field.name() == "name" {
            self.0.push(' ');
            self.0.push_str(value);
        }
    }

    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        if field.name() == "name" {
            self.0.push_str(&format!(" {value:?}"));
        }
    }
}

/// Passes every range on to the chosen profiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkersLayer;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for MarkersLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut label = span.name().to_owned();
        attributes.record(&mut Name(&mut label));
        span.extensions_mut().insert(Label(label));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let (Some(markers), Some(span)) = (CHOSEN.get(), context.span(id)) else { return };
        if let Some(Label(label)) = span.extensions().get() {
            markers.push(label, Category::of(span.name()));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let (Some(markers), Some(span)) = (CHOSEN.get(), context.span(id)) else { return };
        if span.extensions().get::<Label>().is_some() {
            markers.pop();
        }
    }
}

/// Enables ranges once a profiler was chosen.
#[derive(Clone, Copy, Debug, Default)]
struct Chosen;

impl<S> Filter<S> for Chosen {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        CHOSEN.get().is_some() && is_range(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if CHOSEN.get().is_some() && is_range(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if CHOSEN.get().is_some() { LevelFilter::TRACE } else { LevelFilter::OFF })
    }
}

/// The subscriber's layer that passes every range on to the profiler of [`show_ranges`]:
/// `registry().with(hearth_profile::markers_layer())`.
pub fn markers_layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    MarkersLayer.with_filter(Chosen)
}
