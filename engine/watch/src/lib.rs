//! A run as it goes on, from nothing but its folder: whoever watches needs no connection to the
//! process that trains, and cannot disturb it.
//!
//! - [`Follower`] looks at a folder, and reads it again where its files have changed: a run, or many
//!   runs by rank.
//! - [`lines`] tells what happens line by line, [`screen`] draws it in a terminal, and [`page`]
//!   serves it to a browser on this machine.
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
