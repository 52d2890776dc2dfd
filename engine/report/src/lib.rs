//! Self-contained HTML pages about one or several training runs.
//!
//! A page works offline and without a server: styles, curves, pictures and a small script are in the
//! file. Without the script everything is still visible; the script only sorts tables and hides curves.
//!
//! ```
//! use hearth_report::{Report, Run};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("recipe.toml"), "task = \"spleen\"\n")?;
//! std::fs::write(folder.path().join("metrics.csv"), "epoch,iteration,learning_rate,dice\n1,8,0.1,0.75\n")?;
//! let page = Report::new(vec![Run::read(folder.path())?])?.html();
//! assert!(page.starts_with("<!DOCTYPE html>") && page.contains("0.75"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Run::read`] reads a run's folder, file by file. If a file is missing or damaged, only its part
//!   of the page is missing, and the page lists it ([`Run::gaps`]).
//! - [`Report`] combines runs with pictures of cases ([`Overlay`]) and volumes for a viewer
//!   ([`Volume`]).
//! - [`Board`] ranks runs, and [`live`] makes pages of running trainings, for a server.

#![forbid(unsafe_code)]

mod board;
mod diff;
mod error;
pub mod live;
mod page;
mod palette;
mod pictures;
mod remarks;
mod report;
pub mod run;
mod svg;
pub mod text;
mod volumes;

pub use board::{Board, Row};
pub use diff::changed_lines;
pub use error::ReportError;
pub use pictures::{Overlay, overlays_in};
pub use remarks::{Remark, remarks_in, remarks_on};
pub use report::Report;
pub use run::Run;
pub use volumes::Volume;
