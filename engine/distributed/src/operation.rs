//! The operations between ranks: [`Operation`].

use crate::Wire;

/// The order in which the values of the ranks are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// In the order of ranks, accumulated in f64, by one rank for each value. The result is the
    /// same on every rank, and does not depend on the library's algorithm.
    #[default]
    Rank,
    /// In the library's order (`MPI_Iallreduce`, `ncclAllReduce`). With bf16, MPI and threads add
    /// in the order of ranks all the same, and NCCL rounds each partial sum.
    Any,
}

/// The settings of an all-reduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct AllReduce {
    /// The type in which values are transferred.
    pub wire: Wire,
    /// The order of the sum.
    pub order: Order,
}

/// An operation of all ranks. All ranks start the same operations in the same order.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// The sum of the ranks' values, on each: [`Received::Values`].
    AllReduce {
        /// This rank's values; the number is the same on each rank.
        values: Vec<f32>,
        /// The type and the order of the sum.
        how: AllReduce,
    },
    /// The root's bytes, on each rank: [`Received::Bytes`].
    Broadcast {
        /// The bytes to send; ignored on other ranks.
        bytes: Vec<u8>,
        /// The rank that sends.
        root: usize,
    },
    /// The bytes of each rank, in the order of ranks, on the root: [`Received::Parts`] there,
    /// [`Received::Nothing`] elsewhere.
    Gather {
        /// This rank's bytes, of any length.
        bytes: Vec<u8>,
        /// The rank that receives.
        root: usize,
    },
    /// The bytes of each rank, in the order of ranks, on each: [`Received::Parts`].
    AllGather {
        /// This rank's bytes, of any length.
        bytes: Vec<u8>,
    },
    /// A wait until all ranks have arrived: [`Received::Nothing`].
    Barrier,
}

impl Operation {
    /// The operation's name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::AllReduce { .. } => "all-reduce",
            Operation::Broadcast { .. } => "broadcast",
            Operation::Gather { .. } => "gather",
            Operation::AllGather { .. } => "all-gather",
            Operation::Barrier => "barrier",
        }
    }

    /// The rank that sends or receives for all.
    pub fn root(&self) -> Option<usize> {
        match self {
            Operation::Broadcast { root, .. } | Operation::Gather { root, .. } => Some(*root),
            _ => None,
        }
    }

    /// The number of bytes that this rank contributes.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Operation::AllReduce { values, how } => values.len() * how.wire.bytes_per_value(),
            Operation::Broadcast { bytes, .. } | Operation::Gather { bytes, .. } | Operation::AllGather { bytes } => {
                bytes.len()
            }
            Operation::Barrier => 0,
        };
        bytes as u64
    }
}

/// The result of an operation for a rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// The result of an all-reduce.
    Values(Vec<f32>),
    /// The result of a broadcast.
    Bytes(Vec<u8>),
    /// The result of a gather, in the order of ranks.
    Parts(Vec<Vec<u8>>),
    /// The result of a barrier, and of a gather on a rank that is not the root.
    Nothing,
}

impl Received {
    /// The values of an all-reduce; empty for other operations.
    pub fn into_values(self) -> Vec<f32> {
        if let Received::Values(values) = self { values } else { Vec::new() }
    }

    /// The bytes of a broadcast; empty for other operations.
    pub fn into_bytes(self) -> Vec<u8> {
        if let Received::Bytes(bytes) = self { bytes } else { Vec::new() }
    }

    /// The parts of a gather, if this rank received them.
    pub fn into_parts(self) -> Option<Vec<Vec<u8>>> {
        if let Received::Parts(parts) = self { Some(parts) } else { None }
    }
}
