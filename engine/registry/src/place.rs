//! [`Place`]: where a component works.

use std::fmt;

/// The place where a component works during a run, as shown in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the device of the run.
    AnyDevice,
    /// On the device of the tensor that it is given.
    WithTensor,
    /// On the host: a tensor on a GPU is copied to the host, and back if it is changed.
    ThroughHost,
    /// On the host, where its results stay.
    Host,
}

impl Place {
    /// The text of a table column.
    pub fn word(self) -> &'static str {
        match self {
            Place::AnyDevice => "any device",
            Place::WithTensor => "its tensor's device",
            Place::ThroughHost => "through the host",
            Place::Host => "host",
        }
    }
}

/// The end of a sentence: `runs on any device`.
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
