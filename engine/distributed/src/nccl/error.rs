//! Why ranks cannot be connected over their cards: [`NcclError`].

use std::sync::Arc;

use super::Vendor;
use crate::CommError;

/// Why ranks cannot be connected over their cards.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// No library of either vendor, or not the driver that belongs to it.
    #[error(
        "neither NCCL nor RCCL can be used ({looked}); install one with the driver of its cards, or name its file in \
         HEARTH_NCCL"
    )]
    NoLibrary {
        /// What was tried, and what the system's loader said.
        looked: String,
    },
    /// The library that a variable names cannot be opened.
    #[error("{variable}={name} cannot be opened: {why}")]
    Named {
        /// `HEARTH_NCCL` or `HEARTH_GPU_DRIVER`.
        variable: &'static str,
        /// Its value.
        name: String,
        /// What the system's loader says.
        why: String,
    },
    /// The driver's library cannot be opened.
    #[error(
        "{library} was found, but not the driver of {vendor} ({looked}); install it, or name its file in HEARTH_GPU_DRIVER"
    )]
    NoDriver {
        /// The library of collectives.
        library: String,
        /// Whose cards it drives.
        vendor: Vendor,
        /// What was tried.
        looked: String,
    },
    /// A library lacks a function.
    #[error("{name} lacks {symbol}: {advice}")]
    Lacks {
        /// Its name.
        name: String,
        /// The missing symbol.
        symbol: &'static str,
        /// What is needed in place of it.
        advice: &'static str,
    },
    /// The library is older than what is used of it.
    #[error("{name} has version {found}, and 2.10 or later is needed")]
    Old {
        /// Its name.
        name: String,
        /// Its version.
        found: String,
    },
    /// The driver sees no card.
    #[error("{name} sees no card; are CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES right?")]
    NoCard {
        /// The driver's library.
        name: String,
    },
    /// There is no such card.
    #[error("there is no card {card}; the driver sees {cards}, numbered from 0")]
    NoSuchCard {
        /// The number that was asked for.
        card: usize,
        /// How many there are.
        cards: usize,
    },
    /// A function failed.
    #[error("{function} failed with code {code}: {text}")]
    Call {
        /// The function.
        function: &'static str,
        /// What it returned.
        code: i32,
        /// What the library says of it.
        text: String,
    },
    /// One rank cannot use its card. All ranks get this error.
    #[error("rank {rank} on {host} cannot be connected over its card: {why}")]
    Rank {
        /// The first such rank.
        rank: usize,
        /// Its host.
        host: Arc<str>,
        /// Its error.
        why: String,
    },
    /// The ranks have different libraries. All ranks get this error, which names the ranks.
    #[error("the ranks have different libraries for their cards: {0}; install the same on every host")]
    Differ(String),
    /// Ranks of one host have the same card, which NCCL refuses. All ranks get this error.
    #[error(
        "ranks {first} and {second} on {host} have the same card ({card}): start at most as many ranks on a host as it \
         has cards, or give each rank a card of its own"
    )]
    SharedCard {
        /// A rank.
        first: usize,
        /// Another one.
        second: usize,
        /// Their host.
        host: Arc<str>,
        /// The card's address on the bus.
        card: String,
    },
    /// The ranks were all there, but the library did not connect them in time.
    #[error("not connected after {seconds} s: {function} does not return (NCCL_DEBUG=INFO has more)")]
    Late {
        /// The deadline, in seconds.
        seconds: f64,
        /// What the thread that owns the card is in.
        function: &'static str,
    },
    /// The first sum over the ranks was wrong.
    #[error("the first sum over the cards was {got}, and {expected} is right; the connection cannot be trusted")]
    WrongSum {
        /// What the library computed.
        got: f32,
        /// The right sum.
        expected: f32,
    },
    /// The exchange between the ranks before the cards are connected failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// The system has no thread for the communication.
    #[error("no thread can be started for the card: {0}")]
    Thread(String),
}
