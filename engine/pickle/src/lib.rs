//! Reads Python's pickles, protocols 0 to 5, as data, and writes plain values as one ([`Writer`]).
//!
//! A pickle is a small program that Python runs when it opens the file. The machine in this crate
//! carries out the operations that construct values, and knows the calls by which Python, NumPy and
//! PyTorch store theirs: dictionaries, sets, numbers and arrays, tensors, whole modules. Nothing is
//! imported or called. The caller decides what happens to any other name ([`Others`]): an error
//! with that name, or an object that keeps the name and the fields. A name that runs programs or
//! evaluates text is always an error.
//!
//! Objects are in one list and refer to each other by index, so neither parsing nor dropping them
//! recurses, and a shared object takes memory once. [`Options`] limits the number of objects and
//! their size; a length is compared with the remaining bytes before anything is allocated. A list
//! may contain itself, as in Python: code that traverses objects must limit the depth.
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
mod writer;

use std::collections::HashMap;
use std::sync::Arc;

pub use object::{Array, Foreign, Number, Object, Pickled, Place, Type};
pub use tensor::{Dtype, Storage, Tensor};
pub use writer::{Kept, Writer};

/// The handling of functions and classes that this crate does not know.
#[derive(Clone, Copy, Debug, Default)]
pub enum Others {
    /// The pickle is refused, with the name.
    #[default]
    Refused,
    /// Names that the function accepts may occur, such as functions in a list; calling them is
    /// refused, and so are other names.
    Named(fn(&str) -> bool),
    /// The result of a call becomes an [`Object::Foreign`]. Calls that would execute code, and
    /// calls that hide tensors, are refused.
    PassedOver,
}

/// The options of reading a pickle.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The handling of unknown functions and classes.
    pub others: Others,
    /// Whether NumPy's numbers and arrays are read; otherwise they count as unknown.
    pub numpy: bool,
    /// The largest number of objects.
    pub objects: usize,
    /// The largest number of bytes of all objects: a short pickle can duplicate an object many
    /// times.
    pub bytes: usize,
    /// The largest number of values of an array.
    pub array: usize,
}

impl Default for Options {
    /// Two million objects of 256 MiB in total; arrays of a million values; other names are
    /// refused.
    fn default() -> Self {
        Options { others: Others::Refused, numpy: true, objects: 2_000_000, bytes: 256 << 20, array: 1 << 20 }
    }
}

impl Options {
    /// Options for files of weights: tensors among values of any kind. At most 16 million objects
    /// of 1 GiB in total.
    pub fn weights() -> Self {
        Options { others: Others::PassedOver, numpy: false, objects: 1 << 24, bytes: 1 << 30, array: 0 }
    }
}

/// An error of reading a pickle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// The pickle names a function or class that is not allowed.
    #[error("the pickle requires {0}, which plain values and arrays do not use; nothing was executed")]
    Refused(String),
    /// The pickle is damaged, ends early, or has an unsupported content.
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

/// The data that belong to a pickle.
#[derive(Clone, Copy)]
pub(crate) enum Beside<'a> {
    /// Storages of tensors, by key.
    Storages,
    /// Tensors, by key.
    Tensors(&'a HashMap<String, Arc<Tensor>>),
}

/// Parses the pickle at the beginning of `bytes`; returns its content and its length in bytes.
/// Tensors are only described; their values lie outside the pickle ([`torch::Saved`]).
///
/// # Errors
/// If the pickle is damaged, ends early, exceeds the limits, or has a name that is not allowed.
pub fn parse(bytes: &[u8], options: &Options) -> Result<(Pickled, usize)> {
    machine::Machine::new(bytes, options, Beside::Storages).run()
}
