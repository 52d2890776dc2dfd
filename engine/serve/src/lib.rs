//! Models as a service: an HTTP server, and a DICOM listener beside it (feature `dicom-net`).
//!
//! The crate knows models by the trait [`Model`] alone, and no tensor library. A [`Server`] holds
//! some, computes one prediction at a time, and answers
//!
//! * `POST /predict/{model}`: a volume, a study as a zip, several files; a label map comes back;
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
//! Every limit is in [`Options`]: the number of requests that wait, the bytes of a request, the bytes
//! of temporary files, the number of connections, the times.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod datastore;
#[cfg(feature = "dicom-net")]
pub mod dicom;
mod error;
mod http;
mod journal;
mod metrics;
mod model;
mod names;
mod options;
mod queue;
mod server;
mod sessions;
mod sniff;
mod spool;
mod tls;
mod unpack;

pub use error::ServeError;
pub use model::{Answer, Card, Format, Kind, Model, Refusal, Request};
pub use options::{Options, Token};
pub use server::{Server, Stopper};
