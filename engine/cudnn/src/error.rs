//! The errors of opening the library, planning and executing: [`Error`].

use std::fmt;
use std::path::PathBuf;

use crate::convolution::{Convolution, Invalid};
use crate::version::Version;

/// The category of a code that the library returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The library or a part of it cannot be used: not initialized, parts of other versions, no GPU.
    Unusable,
    /// An argument is wrong.
    BadParameter,
    /// The arguments are right, and nothing in the library computes them.
    NotSupported,
    /// A fault of the library, such as a lack of memory.
    Internal,
    /// The GPU did not execute.
    ExecutionFailed,
    /// A code that cuDNN 9 does not have.
    Unknown,
}

impl Status {
    /// The category of a code: its thousands.
    pub(crate) fn of(code: i32) -> Self {
        match code / 1000 {
            1 => Status::Unusable,
            2 => Status::BadParameter,
            3 => Status::NotSupported,
            4 => Status::Internal,
            5 => Status::ExecutionFailed,
            _ => Status::Unknown,
        }
    }
}

/// The reason why an engine was not taken.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Why {
    /// Its results differ from run to run.
    Nondeterministic,
    /// It computes with fewer bits than the convolution asks for.
    ReducedPrecision,
    /// It needs more workspace than is allowed.
    Workspace {
        /// The bytes that it needs.
        bytes: u64,
    },
    /// The library refuses it.
    Failed {
        /// The category of the code.
        status: Status,
        /// The library's text.
        text: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Nondeterministic => f.write_str("not deterministic"),
            Why::ReducedPrecision => f.write_str("reduced precision"),
            Why::Workspace { bytes } => write!(f, "{} MiB of workspace", bytes.div_ceil(1 << 20)),
            Why::Failed { text, .. } => f.write_str(text),
        }
    }
}

/// An engine that was not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The engine's number; `None` where the library proposed none.
    pub engine: Option<i64>,
    /// The reason.
    pub why: Why,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.engine {
            Some(engine) => write!(f, "engine {engine}: {}", self.why),
            None => write!(f, "no engine: {}", self.why),
        }
    }
}

/// The first reasons, and the number of others.
fn listed(refused: &[Refused]) -> String {
    const SHOWN: usize = 3;
    let mut text: Vec<String> = refused.iter().take(SHOWN).map(ToString::to_string).collect();
    if refused.len() > SHOWN {
        text.push(format!("{} more", refused.len() - SHOWN));
    }
    if text.is_empty() { "none was proposed".to_owned() } else { text.join("; ") }
}

/// The reason why the library cannot be used, or why a convolution cannot be planned or executed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No file of the library was found.
    #[error(
        "{library} was not found: no {file} in the loader's path and {folders} folders; {install}, or name its folder in {variable}"
    )]
    NotFound {
        /// The library.
        library: &'static str,
        /// The name of its file.
        file: &'static str,
        /// The number of folders that were searched.
        folders: usize,
        /// The command that installs it.
        install: &'static str,
        /// The variable that names its folder.
        variable: &'static str,
    },
    /// The variable names no file of the library.
    #[error("{variable}={}: expected {file}, or a folder that contains it", .path.display())]
    Named {
        /// The variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
        /// The name of the library's file.
        file: &'static str,
    },
    /// The file exists, and the system's loader refuses it.
    #[error("{} cannot be opened: {why}", .path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The text of the loader.
        why: String,
    },
    /// The library lacks a function.
    #[error("{} lacks {symbol}: it is not {library} 9.15 or later", .path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// The library.
        library: &'static str,
        /// The missing function.
        symbol: &'static str,
    },
    /// The library is too old.
    #[error("{library} {found} ({}) is too old: expected {oldest} or later, because {faults}", .path.display())]
    Old {
        /// The file.
        path: PathBuf,
        /// The library.
        library: &'static str,
        /// Its version.
        found: Version,
        /// The oldest version that is used.
        oldest: Version,
        /// The faults of older versions.
        faults: &'static str,
    },
    /// A call failed.
    #[error("{function}{} failed with code {code}: {text}", on(.of))]
    Call {
        /// The function.
        function: &'static str,
        /// The descriptor or attribute of the call; empty where it has none.
        of: &'static str,
        /// The code.
        code: i32,
        /// The category of the code.
        status: Status,
        /// The library's text.
        text: String,
    },
    /// The library returned something that its documentation excludes.
    #[error("{function}({of}) returned {got}; expected {expected}")]
    Unexpected {
        /// The function.
        function: &'static str,
        /// The descriptor or attribute of the call.
        of: &'static str,
        /// What it returned.
        got: String,
        /// What its documentation allows.
        expected: &'static str,
    },
    /// The description of the convolution contradicts itself.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No engine computes the convolution on the GPU within the options.
    #[error("no engine on {gpu} for {convolution}: {}", listed(.refused))]
    NoPlan {
        /// The GPU.
        gpu: String,
        /// The convolution.
        convolution: Box<Convolution>,
        /// The engines that were not taken.
        refused: Vec<Refused>,
    },
    /// The plan was made for a description of a GPU, which nothing can be executed on.
    #[error("this plan was made for the description of {gpu}: plan with a handle of a GPU to execute it")]
    NotExecutable {
        /// The described GPU.
        gpu: String,
    },
    /// An address is null or not aligned, or a bias is given without need or missing.
    #[error("{operand} has the address {address:#x}: expected {expected}")]
    Address {
        /// The operand.
        operand: &'static str,
        /// Its address.
        address: usize,
        /// The expected address.
        expected: &'static str,
    },
    /// The workspace is too small.
    #[error("the workspace has {given} bytes: expected {needed}")]
    Workspace {
        /// The bytes that the plan needs.
        needed: u64,
        /// The bytes that were given.
        given: u64,
    },
}

/// A descriptor or an attribute in brackets.
fn on(of: &str) -> String {
    if of.is_empty() { String::new() } else { format!("({of})") }
}

impl Error {
    /// The reason in a call's code, if the library refused a combination that it does not compute.
    pub(crate) fn unsupported(&self) -> Option<Why> {
        match self {
            Error::Call { status: Status::NotSupported, text, .. } => {
                Some(Why::Failed { status: Status::NotSupported, text: text.clone() })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_categories() {
        for (code, status) in [
            (1001, Status::Unusable),
            (2004, Status::BadParameter),
            (3000, Status::NotSupported),
            (3007, Status::NotSupported),
            (4003, Status::Internal),
            (5003, Status::ExecutionFailed),
            (1, Status::Unknown),
            (-3000, Status::Unknown),
        ] {
            assert_eq!(Status::of(code), status, "{code}");
        }
    }

    #[test]
    fn a_list_of_reasons_is_short() {
        let one = Refused { engine: Some(4), why: Why::Workspace { bytes: (3 << 20) + 1 } };
        assert_eq!(listed(std::slice::from_ref(&one)), "engine 4: 4 MiB of workspace");
        assert!(listed(&vec![one; 9]).ends_with("; 6 more"));
        assert_eq!(listed(&[]), "none was proposed");
    }
}
