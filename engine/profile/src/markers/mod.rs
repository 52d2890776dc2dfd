//! Ranges for the vendors' profilers: [`Markers`], with NVTX for NVIDIA (Nsight Systems) and roctx
//! for AMD (rocprof).

mod roctx;

use std::fmt;

use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

pub use roctx::Roctx;

/// A profiler that shows ranges; the ranges of a thread are nested.
pub trait Markers: Send + Sync + 'static {
    /// Begins a range of this thread.
    fn push(&self, name: &str);

    /// Ends the innermost range of this thread.
    fn pop(&self);
}

/// NVTX: NVIDIA's profiler that the program runs under, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nvtx;

impl Markers for Nvtx {
    fn push(&self, name: &str) {
        nvtx::range_push!("{name}");
    }

    fn pop(&self) {
        nvtx::range_pop!();
    }
}

/// The error of a profiler that is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMarkers(pub(crate) String);

impl fmt::Display for NoMarkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoMarkers {}

/// Opens the profiler with this name: `nvtx`, or `roctx`, whose library is loaded.
///
/// # Errors
/// For any other name, and where the library is missing.
pub fn markers(name: &str) -> Result<Box<dyn Markers>, NoMarkers> {
    match name {
        "nvtx" => Ok(Box::new(Nvtx)),
        "roctx" => Ok(Box::new(Roctx::open()?)),
        _ => Err(NoMarkers(format!("{name:?} is not a kind of ranges: give nvtx or roctx"))),
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

/// Forwards every range to a profiler.
pub struct MarkersLayer(Box<dyn Markers>);

impl fmt::Debug for MarkersLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MarkersLayer").finish_non_exhaustive()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for MarkersLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut label = span.name().to_owned();
        attributes.record(&mut Name(&mut label));
        span.extensions_mut().insert(Label(label));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(Label(label)) = span.extensions().get() {
            self.0.push(label);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if span.extensions().get::<Label>().is_some() {
            self.0.pop();
        }
    }
}

/// The subscriber's layer that forwards every range:
/// `registry().with(hearth_profile::markers_layer(Box::new(Nvtx)))`.
pub fn markers_layer<S: Subscriber + for<'a> LookupSpan<'a>>(to: Box<dyn Markers>) -> impl Layer<S> {
    MarkersLayer(to).with_filter(filter_fn(crate::layer::is_range))
}
