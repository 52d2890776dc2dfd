//! Profiles the time of a run. Every step of the program (reading a case, a transform, waiting for
//! data, the forward pass, a step of the optimizer, a handler, ...) is a `tracing` span. These
//! spans are the only source of every view: the recorded [`Timeline`], the [`Summary`] of its
//! statistics, the trace that [`chrome`] writes for Perfetto, and any other `tracing` subscriber.
//!
//! [`layer`] connects the timeline with the program's subscriber. While nothing is recorded, a span
//! costs one branch.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! let _guard = tracing_subscriber::registry().with(hearth_profile::layer()).set_default();
//! let recording = hearth_profile::Recording::start()?;
//! hearth_profile::range!("forward").in_scope(|| std::hint::black_box(2 + 2));
//! let timeline = recording.stop();
//! assert_eq!(timeline.ranges[0].name, "forward");
//! # Ok::<(), hearth_profile::Busy>(())
//! ```

pub mod chrome;
mod history;
mod idle;
mod kernels;
mod layer;
mod layers;
mod markers;
mod memory;
mod owners;
mod picture;
mod profile;
mod reports;
mod schedule;
mod statistics;
mod summary;
mod timeline;
mod trace_file;

pub use history::History;
pub use idle::{Cause, Group, Occupancy};
pub use kernels::{KernelRow, Roof, kernels, table as kernel_table};
pub use layer::{Busy, Owners, Recording, TARGET, TimelineLayer, layer, measure_memory};
pub use layers::{LayerRow, layers, table as layer_table};
pub use markers::{
    Category, Markers, MarkersLayer, NoMarkers, Nvtx, OpenRange, Roctx, markers_layer, show_ranges, start_range,
};
pub use memory::{Activation, Memory};
pub use owners::MemoryByOwner;
pub use profile::Profile;
pub use reports::{Format, Report};
pub use schedule::{Action, Schedule, ScheduleError};
pub use statistics::Statistics;
pub use summary::{Row, Summary};
pub use timeline::{Range, Timeline, Value};
pub use trace_file::{StepTimes, TraceError, TraceSummary, summarize};
pub use tracing;

/// Makes a range of the timeline: a span that is entered with `.entered()` or `.in_scope(...)`. Its
/// name is the kind of work; the optional field `name` distinguishes several of one kind.
///
/// ```
/// let transform = "Spacing";
/// let _range = hearth_profile::range!("transform", name = transform).entered();
/// ```
#[macro_export]
macro_rules! range {
    ($name:literal $(, $($fields:tt)*)?) => {
        $crate::tracing::trace_span!(target: $crate::TARGET, $name $(, $($fields)*)?)
    };
}
