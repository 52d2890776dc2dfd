//! [`Place`]: where a named thing does its work.

use std::fmt;

/// Where a named thing does its work while a run goes on, as the reference says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the device of the run, whichever that is.
    AnyDevice,
    /// Where the tensor lives that it is given.
    WithTensor,
    /// On the host: a tensor on a GPU is copied there, and back where it is changed.
    ThroughHost,
    /// On the host, which hands on what it made.
    Host,
}

impl Place {
    /// A word for a column.
    pub fn word(self) -> &'static str {
        match self {
            Place::AnyDevice => "any device",
            Place::WithTensor => "its tensor's device",
            Place::ThroughHost => "through the host",
            Place::Host => "host",
        }
    }
}

/// The rest of a sentence about it: `runs on any device`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::AnyDevice => "runs on any device",
            Place::WithTensor => "runs where its tensor lives",
            Place::ThroughHost => "goes through the host on a GPU",
            Place::Host => "runs on the host",
        })
    }
}
