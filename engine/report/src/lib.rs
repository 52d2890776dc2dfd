//! One self-contained HTML page of one run or several.
//!
//! The page needs no network and no server: styles, curves, pictures and a small script are in the
//! file. Without the script all is still shown; it only sorts tables and hides curves.
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
//! - [`Run::read`] reads a run's folder, file by file. A file that is missing or damaged costs its
//!   part of the page, and the page names it ([`Run::gaps`]).
//! - [`Report`] puts runs together, with pictures of cases ([`Overlay`]) and volumes to look through
//!   ([`Volume`]).
//! - [`Board`] ranks runs, and [`live`] makes pages of runs that go on, for a server.

#![forbid(unsafe_code)]

mod board;
mod diff;
mod error;
pub mod live;
mod page;
mod palette;
mod pictures;
mod report;
pub mod run;
mod svg;
pub mod text;
mod volumes;

pub use board::{Board, Row};
pub use diff::changed_lines;
pub use error::ReportError;
pub use pictures::{Overlay, overlays_in};
pub use report::Report;
pub use run::Run;
pub use volumes::Volume;
