//! Serving of models: an HTTP server, and a DICOM listener (feature `dicom-net`).
//!
//! The crate uses models only through the trait [`Model`], and has no tensor library. A [`Server`]
//! holds some models, computes a limited number of predictions at a time, and answers
//!
//! * `POST /predict/{model}`: predicts the label map of a volume, a study as a zip, or several files;
//! * MONAI Label's REST interface, as far as the client of 3D Slicer uses it: `/info/`,
//!   `/infer/{model}`, `/datastore/`, `/session/`, `/activelearning/`, `/logs/`, `/auth/`;
//! * `/health` and `/metrics` (the text format of Prometheus).
//!
//! ```no_run
//! use std::sync::Arc;
//! use hearth_serve::{Model, Options, Server};
//!
//! fn serve(models: Vec<Arc<dyn Model>>) -> Result<(), hearth_serve::ServeError> {
//!     let server = Server::bind(Options::default(), models)?;
//!     println!("http://{}", server.address());
//!     server.run()
//! }
//! ```
//!
//! Every limit is in [`Options`]: the number of waiting requests, the bytes of a request and of
//! temporary files, the number of connections, the times.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod datastore;
#[cfg(feature = "dicom-net")]
pub mod dicom;
mod error;
mod folder;
mod grid;
mod http;
mod journal;
mod metrics;
mod model;
mod names;
mod options;
mod patience;
mod queue;
mod server;
mod sessions;
mod sniff;
mod spool;
mod tls;
mod unpack;

pub use error::ServeError;
pub use grid::{Grid, Volumes};
pub use model::{Answer, Card, Format, Kind, Model, Refusal, Request};
pub use options::{Options, Token};
pub use server::{Server, Stopper};
