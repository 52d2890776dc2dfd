//! Python's pickles, protocols 0 to 5, as data.
//!
//! A pickle is a small program that Python runs when it opens the file. Here a machine carries out
//! the operations that put values together, and knows the calls by which Python, NumPy and PyTorch
//! store theirs: dictionaries, sets, numbers and arrays, tensors, whole modules. Nothing is imported
//! or called. What becomes of any other name is up to the reader ([`Others`]): an error with that
//! name, or an object of which the name and the fields are kept. A name that runs programs or
//! evaluates text is an error in each case.
//!
//! Objects are in one list and refer to each other by their places in it, so neither parsing nor
//! dropping them recurses, and an object that stands in many places takes memory once.
//! [`Options`] limits how many there are and what they take; a length is compared with the bytes
//! that are left before anything is allocated. A list may hold itself, as in Python: who walks
//! through objects limits the depth.
//!
//! ```
//! use hearth_pickle::{Object, Options, parse};
//!
//! // pickle.dumps({"a": 1}, protocol=2)
//! let (pickled, length) = parse(b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01K\x01s.", &Options::default())?;
//! let Object::Dict(entries) = pickled.root() else { panic!("a dictionary") };
//! assert_eq!((pickled.text(entries[0].0), length), (Some("a"), 17));
//! # Ok::<(), hearth_pickle::PickleError>(())
//! ```

#![forbid(unsafe_code)]

mod build;
mod calls;
mod known;
mod line;
mod machine;
mod numpy;
mod object;
mod operations;
mod tensor;
pub mod torch;

use std::collections::HashMap;
use std::sync::Arc;

pub use object::{Array, Foreign, Number, Object, Pickled, Place, Type};
pub use tensor::{Dtype, Storage, Tensor};

/// What becomes of a function or class that is not among those this crate knows.
#[derive(Clone, Copy, Debug, Default)]
pub enum Others {
    /// The pickle is refused, with its name.
    #[default]
    Refused,
    /// Those that fit may be named, as the functions in a list are; calling them is refused, and so
    /// are others.
    Named(fn(&str) -> bool),
    /// What calling it would give is an [`Object::Foreign`]. Refused are those that would execute
    /// something, and calls that hide tensors.
    PassedOver,
}

/// How pickles are read.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Functions and classes that are not known.
    pub others: Others,
    /// Whether NumPy's numbers and arrays are read; otherwise, they are among the others.
    pub numpy: bool,
    /// The most objects.
    pub objects: usize,
    /// The most bytes that they may take: a short pickle can ask for one thing many times.
    pub bytes: usize,
    /// The most values of an array.
    pub array: usize,
}

impl Default for Options {
    /// Two million objects of 256 MiB; arrays of a million values; other names are refused.
    fn default() -> Self {
        Options { others: Others::Refused, numpy: true, objects: 2_000_000, bytes: 256 << 20, array: 1 << 20 }
    }
}

impl Options {
    /// For files of weights: tensors among values of any kind. The most objects are 16 million, of at
    /// most 1 GiB.
    pub fn weights() -> Self {
        Options { others: Others::PassedOver, numpy: false, objects: 1 << 24, bytes: 1 << 30, array: 0 }
    }
}

/// A pickle that is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// It names a function or class that it may not.
    #[error("the pickle asks Python for {0}, which plain values and arrays do not need; nothing was executed")]
    Refused(String),
    /// It is damaged, ends early, or has what is not read.
    #[error("{0}")]
    Invalid(String),
}

impl From<String> for PickleError {
    fn from(what: String) -> Self {
        PickleError::Invalid(what)
    }
}

impl From<&str> for PickleError {
    fn from(what: &str) -> Self {
        PickleError::Invalid(what.to_owned())
    }
}

type Result<T> = std::result::Result<T, PickleError>;

/// What a pickle finds beside itself.
#[derive(Clone, Copy)]
pub(crate) enum Beside<'a> {
    /// Storages of tensors, by their keys.
    Storages,
    /// Tensors, by their keys.
    Tensors(&'a HashMap<String, Arc<Tensor>>),
}

/// Parses the pickle at the beginning of `bytes`: what it holds, and how many bytes it has. Tensors
/// are described; their values lie beside the pickle ([`torch::Saved`]).
///
/// # Errors
/// What is damaged, ends early, is beyond the limits, or names what it may not.
pub fn parse(bytes: &[u8], options: &Options) -> Result<(Pickled, usize)> {
    machine::Machine::new(bytes, options, Beside::Storages).run()
}
