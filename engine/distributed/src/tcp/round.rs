//! One operation of all ranks: what each contributes, and the result: [`Round`].
//!
//! Each rank sends a part to each other rank, which may be empty. When all parts have arrived, all
//! ranks have started the operation. Values are then added by rank, a slice on each rank, and the
//! sums of the slices are sent to all.

use std::sync::Arc;

use half::bf16;
use serde::{Deserialize, Serialize};

use super::frame::short;
use crate::wire::{from_bf16, sum_in_order, to_bf16, values_of};
use crate::{AllReduce, At, Operation, Received, Wire};

/// What an operation is; the same on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    name: String,
    phase: String,
    step: u64,
    root: Option<usize>,
    /// The number of values of an all-reduce, and how they are added.
    sum: Option<(usize, AllReduce)>,
}

impl About {
    pub(super) fn of(operation: &Operation, at: &At) -> Self {
        let sum = match operation {
            Operation::AllReduce { values, how } => Some((values.len(), *how)),
            _ => None,
        };
        let (name, phase) = (operation.name().to_owned(), short(&at.phase));
        About { name, phase, step: at.step, root: operation.root(), sum }
    }

    /// The operation in words.
    pub(super) fn describe(&self) -> String {
        format!("{} of phase {}, step {}", self.name, self.phase, self.step)
    }

    /// The operation in words, with what makes it another one than `own`; `None` if it is the same.
    fn differs(&self, own: &Self) -> Option<String> {
        if self == own {
            return None;
        }
        let said = self.describe();
        Some(match (self.root, self.sum) {
            (Some(root), _) => format!("{said}, root {root}"),
            (None, Some((values, how))) if said == own.describe() => {
                format!("{said}, {values} values, {:?}, order {:?}", how.wire, how.order)
            }
            _ => said,
        })
    }
}

/// Bytes that are sent to several ranks.
pub(super) type Bytes = Arc<Vec<u8>>;

/// The part of each rank, from this rank's operation.
fn parts(operation: Operation, (rank, world): (usize, usize)) -> Vec<Bytes> {
    let none = || vec![Bytes::default(); world];
    match operation {
        Operation::AllReduce { values, how } => {
            (0..world).map(|to| Arc::new(encoded(&values[slice(values.len(), to, world)], how.wire))).collect()
        }
        Operation::Broadcast { bytes, root } if root == rank => shared(bytes, world),
        Operation::Gather { bytes, root } => {
            let mut parts = none();
            parts[root] = Arc::new(bytes);
            parts
        }
        Operation::AllGather { bytes } => shared(bytes, world),
        Operation::Broadcast { .. } | Operation::Barrier => none(),
    }
}

/// The same bytes for all ranks.
fn shared(bytes: Vec<u8>, world: usize) -> Vec<Bytes> {
    let bytes = Arc::new(bytes);
    vec![bytes; world]
}

/// The values that a rank adds, of `len`.
fn slice(len: usize, rank: usize, world: usize) -> std::ops::Range<usize> {
    len * rank / world..len * (rank + 1) / world
}

fn encoded(values: &[f32], wire: Wire) -> Vec<u8> {
    match wire {
        Wire::F32 => bytemuck::cast_slice(values).to_vec(),
        Wire::Bf16 => bytemuck::cast_slice(&to_bf16(values)).to_vec(),
    }
}

fn decoded(bytes: &[u8], wire: Wire) -> Vec<f32> {
    match wire {
        Wire::F32 => values_of(bytes),
        Wire::Bf16 => from_bf16(&values_of::<bf16>(bytes)),
    }
}

/// What this rank gets from an operation.
#[derive(Clone, Copy, Debug)]
enum Want {
    /// The sum of this number of values.
    Sum(usize, AllReduce),
    /// The part of this rank.
    PartOf(usize),
    /// All parts.
    Parts,
    Nothing,
}

impl Want {
    fn of(operation: &Operation, rank: usize) -> Self {
        match operation {
            Operation::AllReduce { values, how } => Want::Sum(values.len(), *how),
            Operation::Broadcast { root, .. } => Want::PartOf(*root),
            Operation::Gather { root, .. } if *root != rank => Want::Nothing,
            Operation::Gather { .. } | Operation::AllGather { .. } => Want::Parts,
            Operation::Barrier => Want::Nothing,
        }
    }
}

/// An operation in progress on one rank.
#[derive(Debug)]
pub(super) struct Round {
    /// This rank, and the number of ranks.
    place: (usize, usize),
    /// What this rank started, once it has.
    own: Option<(About, Want)>,
    parts: Vec<Option<(About, Bytes)>>,
    sums: Vec<Option<Bytes>>,
}

/// The next step of an operation.
#[derive(Debug)]
pub(super) enum Progress {
    /// Parts are missing.
    Waits,
    /// These sums are for all other ranks.
    Send(Bytes),
    /// The operation is complete.
    Done(Received),
}

impl Round {
    pub(super) fn new(place: (usize, usize)) -> Self {
        Round { place, own: None, parts: vec![None; place.1], sums: vec![None; place.1] }
    }

    /// Whether a rank has started the operation.
    pub(super) fn has(&self, rank: usize) -> bool {
        self.parts[rank].is_some()
    }

    /// This rank starts the operation. Returns the parts for all ranks.
    pub(super) fn start(&mut self, operation: Operation, about: About) -> Vec<Bytes> {
        let want = Want::of(&operation, self.place.0);
        let parts = parts(operation, self.place);
        self.own = Some((about.clone(), want));
        self.parts[self.place.0] = Some((about, parts[self.place.0].clone()));
        parts
    }

    /// A part arrives.
    pub(super) fn part(&mut self, from: usize, about: About, part: Vec<u8>) {
        self.parts[from] = Some((about, Arc::new(part)));
    }

    /// Sums arrive.
    pub(super) fn sum(&mut self, from: usize, sum: Vec<u8>) {
        self.sums[from] = Some(Arc::new(sum));
    }

    /// A rank that started another operation than this one, and which.
    pub(super) fn mismatch(&self) -> Option<(usize, String)> {
        let (own, want) = self.own.as_ref()?;
        let (rank, world) = self.place;
        for (from, (part, sum)) in self.parts.iter().zip(&self.sums).enumerate() {
            if let Some(theirs) = part.as_ref().and_then(|(about, _)| about.differs(own)) {
                return Some((from, theirs));
            }
            // Ranks of one program send what they announce.
            let Want::Sum(len, how) = *want else { continue };
            let is_whole =
                |bytes: &Bytes, of: usize| bytes.len() == slice(len, of, world).len() * how.wire.bytes_per_value();
            let part_is_whole = part.as_ref().is_none_or(|(_, part)| is_whole(part, rank));
            if !part_is_whole || !sum.as_ref().is_none_or(|sum| is_whole(sum, from)) {
                return Some((from, format!("{}, with another number of bytes", own.describe())));
            }
        }
        None
    }

    /// Does what is possible with what has arrived. The operation of all ranks is the same.
    pub(super) fn advance(&mut self) -> Progress {
        let Some((_, want)) = self.own else { return Progress::Waits };
        if self.parts.iter().any(Option::is_none) {
            return Progress::Waits;
        }
        let (len, how) = match want {
            Want::Sum(len, how) => (len, how),
            Want::Nothing => return Progress::Done(Received::Nothing),
            Want::PartOf(root) => {
                let part = self.parts.swap_remove(root).map(|(_, part)| Arc::unwrap_or_clone(part));
                return Progress::Done(Received::Bytes(part.unwrap_or_default()));
            }
            Want::Parts => {
                let parts = std::mem::take(&mut self.parts).into_iter().flatten();
                return Progress::Done(Received::Parts(parts.map(|(_, part)| Arc::unwrap_or_clone(part)).collect()));
            }
        };
        if self.sums[self.place.0].is_none() {
            let parts: Vec<Vec<f32>> = self.parts.iter().flatten().map(|(_, part)| decoded(part, how.wire)).collect();
            let parts: Vec<&[f32]> = parts.iter().map(Vec::as_slice).collect();
            let sum = Arc::new(encoded(&sum_in_order(&parts), how.wire));
            self.sums[self.place.0] = Some(sum.clone());
            return Progress::Send(sum);
        }
        if self.sums.iter().any(Option::is_none) {
            return Progress::Waits;
        }
        let mut values = Vec::with_capacity(len);
        self.sums.iter().flatten().for_each(|sum| values.extend(decoded(sum, how.wire)));
        Progress::Done(Received::Values(values))
    }
}
