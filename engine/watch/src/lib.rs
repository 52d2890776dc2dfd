//! Following of running trainings, using only the run's folder: watching needs no connection to the
//! training process, and cannot disturb it.
//!
//! - [`Follower`] checks a folder, and reads it again when its files have changed: a run, or many runs
//!   by rank.
//! - [`lines`] reports events line by line, [`screen`] draws them in a terminal, and [`page`] serves a
//!   page to a browser on this machine.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("recipe.toml"), "task = \"spleen\"\n[training]\nepochs = 2\n")?;
//! std::fs::write(folder.path().join("summary.json"), r#"{"outcome": "completed", "epochs": 2}"#)?;
//! let mut follower = hearth_watch::Follower::new(folder.path(), false)?;
//! let mut said = Vec::new();
//! let end = hearth_watch::lines(&mut follower, &AtomicBool::new(false), |line| said.push(line.to_owned()))?;
//! assert!(end.is_good() && said.last().is_some_and(|line| line.contains("completed in epoch 2")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod discover;
mod end;
mod error;
mod follow;
mod lines;
mod narrate;
mod screen;
mod server;

pub use end::End;
pub use error::WatchError;
pub use follow::{Follower, Seen};
pub use lines::{lines, once};
pub use screen::screen;
pub use server::{Server, page};
