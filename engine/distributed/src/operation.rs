//! What ranks do together: [`Operation`].

use crate::Wire;

/// In which order the values of the ranks are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By rank, accumulated in f64, by one rank for each value: the result is the same on every
    /// rank, and does not depend on the library's algorithm.
    #[default]
    Rank,
    /// As the library likes (`MPI_Iallreduce`, `ncclAllReduce`). Where values travel as bf16, MPI and
    /// threads add them by rank all the same, and NCCL rounds each partial sum.
    Any,
}

/// How an all-reduce adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct AllReduce {
    /// The type in which values travel.
    pub wire: Wire,
    /// The order of the sum.
    pub order: Order,
}

/// What all ranks do together. All start the same operations in the same order.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// The sum of the ranks' values, on each: [`Received::Values`].
    AllReduce {
        /// This rank's values; as many on each rank.
        values: Vec<f32>,
        /// How they are added.
        how: AllReduce,
    },
    /// The root's bytes, on each rank: [`Received::Bytes`].
    Broadcast {
        /// What the root sends; ignored on other ranks.
        bytes: Vec<u8>,
        /// The rank that sends.
        root: usize,
    },
    /// The bytes of each rank, in the order of ranks, on the root: [`Received::Parts`] there,
    /// [`Received::Nothing`] elsewhere.
    Gather {
        /// What this rank sends, of any length.
        bytes: Vec<u8>,
        /// The rank that receives.
        root: usize,
    },
    /// The bytes of each rank, in the order of ranks, on each: [`Received::Parts`].
    AllGather {
        /// What this rank sends, of any length.
        bytes: Vec<u8>,
    },
    /// Ends when all have arrived: [`Received::Nothing`].
    Barrier,
}

impl Operation {
    /// Its name in messages.
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

    /// Bytes that this rank contributes.
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

/// What an operation gives a rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// Of an all-reduce.
    Values(Vec<f32>),
    /// Of a broadcast.
    Bytes(Vec<u8>),
    /// Of a gather, in the order of ranks.
    Parts(Vec<Vec<u8>>),
    /// Of a barrier, and of a gather on a rank that is not its root.
    Nothing,
}

impl Received {
    /// The values of an all-reduce; none for others.
    pub fn into_values(self) -> Vec<f32> {
        if let Received::Values(values) = self { values } else { Vec::new() }
    }

    /// The bytes of a broadcast; none for others.
    pub fn into_bytes(self) -> Vec<u8> {
        if let Received::Bytes(bytes) = self { bytes } else { Vec::new() }
    }

    /// The parts of a gather, where this rank received them.
    pub fn into_parts(self) -> Option<Vec<Vec<u8>>> {
        if let Received::Parts(parts) = self { Some(parts) } else { None }
    }
}
