//! Convolutions by the vendor's library, which is opened at run time: cuDNN 9.15 or later.
//!
//! Building needs neither cuDNN nor CUDA. [`Library::open`] finds the library or returns the reason
//! why it cannot be used. A [`Convolution`] describes the layer and the direction; [`plan`] asks
//! the library's heuristics for engines, filters them by [`Options`] and returns a [`Plan`];
//! [`Plan::execute`] queues it on a stream without waiting.
//!
//! Planning needs no GPU: a [`GpuDescription`] takes the place of a [`Handle`].
//!
//! ```no_run
//! use hearth_cudnn::{
//!     Axis, Convolution, Direction, Element, GpuDescription, Layout, Library, Options, Search, Target,
//! };
//!
//! let library = Library::open(&Search::standard())?;
//! let h100 = GpuDescription::default();
//! let layer = Convolution {
//!     direction: Direction::Forward,
//!     batch: 2,
//!     channels_in: 32,
//!     channels_out: 64,
//!     axes: vec![Axis { size: 128, kernel: 3, stride: 2, padding: 1, dilation: 1 }; 3],
//!     groups: 1,
//!     layout: Layout::ChannelsLast,
//!     element: Element::Bf16,
//!     epilogue: None,
//! };
//! let plan = hearth_cudnn::plan(&Target::described(&library, &h100)?, &layer, &Options::default())?;
//! println!("engine {}, {} bytes of workspace", plan.engine(), plan.workspace_bytes());
//! # Ok::<(), hearth_cudnn::Error>(())
//! ```
//!
//! Nothing in Hearth uses this crate for its convolutions yet.

// Unsafe code: this crate calls a C library whose functions are found at run time. `raw` has the
// calls and keeps their arguments alive; `execute` passes addresses on a GPU.

mod agreement;
mod cache;
mod convolution;
mod error;
mod execute;
mod gpu;
mod graph;
mod names;
mod numbers;
mod plan;
mod raw;
mod search;
mod transposed;
mod version;

pub use agreement::{Disagreement, Fallback, Tolerance, agree};
pub use cache::PlanCache;
pub use convolution::{Activation, Axis, Convolution, Direction, Element, Epilogue, Invalid, Layout, Slope};
pub use error::{Error, Refused, Status, Why};
pub use execute::{Operands, Workspace};
pub use gpu::GpuDescription;
pub use names::INSTALL;
pub use plan::{Described, Options, Plan, Target, plan};
pub use raw::{Handle, Library};
pub use search::Search;
pub use transposed::{Transposed, TransposedAxis};
pub use version::Version;
