//! The error of connecting ranks over their GPUs: [`NcclError`].

use std::sync::Arc;

use super::Vendor;
use crate::CommError;

/// The reason why ranks cannot be connected over their GPUs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// There is no library of either vendor, or its driver is missing.
    #[error(
        "neither NCCL nor RCCL can be used ({looked}); install one with the driver of its GPUs, or name its file in \
         HEARTH_NCCL"
    )]
    NoLibrary {
        /// The libraries that were tried, and the errors of the system's loader.
        looked: String,
    },
    /// The library that a variable names cannot be opened.
    #[error("{variable}={name} cannot be opened: {why}")]
    Named {
        /// `HEARTH_NCCL` or `HEARTH_GPU_DRIVER`.
        variable: &'static str,
        /// The variable's value.
        name: String,
        /// The error of the system's loader.
        why: String,
    },
    /// The driver's library cannot be opened.
    #[error(
        "{library} was found, but not the driver of {vendor} ({looked}); install it, or name its file in HEARTH_GPU_DRIVER"
    )]
    NoDriver {
        /// The library of collectives.
        library: String,
        /// The vendor of the GPUs.
        vendor: Vendor,
        /// The names that were tried.
        looked: String,
    },
    /// A library lacks a function.
    #[error("{name} lacks {symbol}: {advice}")]
    Lacks {
        /// The library's name.
        name: String,
        /// The missing symbol.
        symbol: &'static str,
        /// The advice.
        advice: &'static str,
    },
    /// The library is too old.
    #[error("{name} has version {found}, and 2.10 or later is needed")]
    Old {
        /// The library's name.
        name: String,
        /// The library's version.
        found: String,
    },
    /// The driver sees no GPU.
    #[error("{name} sees no GPU; are CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES right?")]
    NoCard {
        /// The driver's library.
        name: String,
    },
    /// There is no such GPU.
    #[error("there is no GPU {card}; the driver sees {cards}, numbered from 0")]
    NoSuchCard {
        /// The requested index.
        card: usize,
        /// The number of GPUs.
        cards: usize,
    },
    /// A function failed.
    #[error("{function} failed with code {code}: {text}")]
    Call {
        /// The function.
        function: &'static str,
        /// The returned code.
        code: i32,
        /// The library's text for the code.
        text: String,
    },
    /// One rank cannot use its GPU. All ranks get this error.
    #[error("rank {rank} on {host} cannot be connected over its GPU: {why}")]
    Rank {
        /// The first such rank.
        rank: usize,
        /// The rank's host.
        host: Arc<str>,
        /// The rank's error.
        why: String,
    },
    /// The ranks have different libraries. All ranks get this error, which names the ranks.
    #[error("the ranks have different libraries for their GPUs: {0}; install the same on every host")]
    Differ(String),
    /// Ranks of one host have the same GPU, which NCCL refuses. All ranks get this error.
    #[error(
        "ranks {first} and {second} on {host} have the same GPU ({card}): start at most as many ranks on a host as it \
         has GPUs, or give each rank its own GPU"
    )]
    SharedCard {
        /// The first rank.
        first: usize,
        /// The second rank.
        second: usize,
        /// Their host.
        host: Arc<str>,
        /// The GPU's address on the bus.
        card: String,
    },
    /// All ranks arrived, but the library did not connect them in time.
    #[error("not connected after {seconds} s: {function} does not return (NCCL_DEBUG=INFO has more)")]
    Late {
        /// The deadline, in seconds.
        seconds: f64,
        /// The call that does not return.
        function: &'static str,
    },
    /// The first sum over the ranks was wrong.
    #[error("the first sum over the GPUs was {got}, and {expected} is right; the connection cannot be trusted")]
    WrongSum {
        /// The sum that the library computed.
        got: f32,
        /// The right sum.
        expected: f32,
    },
    /// The exchange between the ranks before their GPUs are connected failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// The system cannot start a thread for the communication.
    #[error("no thread can be started for the GPU: {0}")]
    Thread(String),
}
