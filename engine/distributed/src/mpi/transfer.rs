//! An operation as a sequence of non-blocking calls: [`Transfer`].

use super::abi::Handle;
use super::calls::{Blocks, Buffer, Mpi, Request};
use crate::wire::{from_bf16, sum_in_order, to_bf16, values_of};
use crate::{AllReduce, Cause, Operation, Order, Received, Wire};

/// The largest number of bytes of one broadcast; longer data is sent in pieces.
const PIECE: usize = 1 << 30;

/// An operation in progress: the current call, and the calls that follow.
pub(super) struct Transfer<H> {
    stage: Stage,
    request: Request<H>,
}

/// The purpose of the current call.
enum Stage {
    /// `MPI_Iallreduce`.
    Sum,
    /// Receives this rank's slice of each rank's values, to add them in the order of ranks.
    Slices { wire: Wire, len: usize },
    /// Receives the sums of the other ranks.
    Sums,
    /// Receives the number of bytes of a broadcast.
    Length { root: usize, own: Vec<u8> },
    /// Receives a piece of a broadcast.
    Piece { root: usize, own: Vec<u8>, all: Vec<u8>, length: usize },
    /// Receives the number of bytes of each rank.
    Lengths { root: Option<usize>, own: Vec<u8> },
    /// Receives the bytes of each rank.
    Parts { lengths: Vec<u64>, receives: bool },
    /// `MPI_Ibarrier`.
    Barrier,
}

/// This rank, and the number of ranks.
pub(super) type Place = (usize, usize);

/// The length in bytes of each rank's slice of `len` values.
fn slices(len: usize, wire: Wire, world: usize) -> impl Iterator<Item = u64> {
    let each = len.div_ceil(world);
    let length = move |rank: usize| (len.min((rank + 1) * each) - len.min(rank * each)) * wire.bytes_per_value();
    (0..world).map(move |rank| length(rank) as u64)
}

fn encoded(values: Vec<f32>, wire: Wire) -> Buffer {
    match wire {
        Wire::F32 => Buffer::Floats(values),
        Wire::Bf16 => Buffer::Bf16(to_bf16(&values)),
    }
}

/// A buffer for `bytes` bytes of values.
fn room(bytes: usize, wire: Wire) -> Buffer {
    match wire {
        Wire::F32 => Buffer::Floats(vec![0.0; bytes / 4]),
        Wire::Bf16 => Buffer::Bf16(vec![half::bf16::ZERO; bytes / 2]),
    }
}

fn decoded(buffer: Buffer) -> Vec<f32> {
    match buffer {
        Buffer::Floats(values) => values,
        Buffer::Bf16(words) => from_bf16(&words),
        Buffer::Bytes(bytes) => values_of(&bytes),
    }
}

fn bytes(buffer: Buffer) -> Vec<u8> {
    match buffer {
        Buffer::Bytes(bytes) => bytes,
        Buffer::Bf16(words) => bytemuck::cast_slice(&words).to_vec(),
        Buffer::Floats(values) => bytemuck::cast_slice(&values).to_vec(),
    }
}

impl<H: Handle> Transfer<H> {
    /// Makes the first call of an operation.
    ///
    /// # Errors
    /// If the library reports an error, or there are more bytes than it can count.
    pub(super) fn begin(mpi: &Mpi<H>, comm: H, (rank, world): Place, operation: Operation) -> Result<Self, Cause> {
        let (stage, request) = match operation {
            Operation::AllReduce { values, how: AllReduce { wire: Wire::F32, order: Order::Any } } => {
                (Stage::Sum, mpi.all_reduce(comm, values)?)
            }
            Operation::AllReduce { values, how: AllReduce { wire, .. } } => {
                let len = values.len();
                let lengths: Vec<u64> = slices(len, wire, world).collect();
                let (sent, received) = (Blocks::new(&lengths)?, Blocks::new(&vec![lengths[rank]; world])?);
                let receive = room(lengths[rank] as usize * world, wire);
                let request = mpi.all_to_all(comm, (encoded(values, wire), sent), (receive, received), world)?;
                (Stage::Slices { wire, len }, request)
            }
            Operation::Broadcast { bytes, root } => {
                let length = Buffer::Bytes((bytes.len() as u64).to_le_bytes().to_vec());
                (Stage::Length { root, own: bytes }, mpi.broadcast(comm, length, root)?)
            }
            Operation::Gather { bytes, root } => lengths(mpi, comm, (rank, world), bytes, Some(root))?,
            Operation::AllGather { bytes } => lengths(mpi, comm, (rank, world), bytes, None)?,
            Operation::Barrier => (Stage::Barrier, mpi.barrier(comm)?),
        };
        Ok(Transfer { stage, request })
    }

    /// The result, if the last call is complete. If an earlier call is complete, makes the next
    /// one.
    ///
    /// # Errors
    /// As [`Transfer::begin`].
    pub(super) fn poll(mut self, mpi: &Mpi<H>, comm: H, place: Place) -> Result<Step<H>, Cause> {
        if !mpi.test(&mut self.request)? {
            return Ok(Step::Waits(self));
        }
        let (rank, world) = place;
        let (_, received) = self.request.into_buffers();
        let (stage, request) = match self.stage {
            Stage::Sum | Stage::Sums => return Ok(Step::Done(Received::Values(decoded(received)))),
            Stage::Slices { wire, len } => {
                let values = decoded(received);
                let each = values.len() / world;
                let parts: Vec<&[f32]> = (0..world).map(|from| &values[from * each..(from + 1) * each]).collect();
                let sum = encoded(sum_in_order(&parts), wire);
                let lengths: Vec<u64> = slices(len, wire, world).collect();
                let receive = room(len * wire.bytes_per_value(), wire);
                let request = mpi.gather(comm, sum, (receive, Blocks::new(&lengths)?), None, place)?;
                (Stage::Sums, request)
            }
            Stage::Length { root, own } => {
                let length = u64::from_le_bytes(bytes(received).try_into().unwrap_or_default());
                let length =
                    usize::try_from(length).map_err(|_| Cause::TooLarge { bytes: length, limit: usize::MAX as u64 })?;
                piece(mpi, comm, rank, root, own, Vec::new(), length)?
            }
            Stage::Piece { root, own, mut all, length } => {
                let received = bytes(received);
                if all.is_empty() {
                    all = received;
                } else {
                    all.extend_from_slice(&received);
                }
                if all.len() == length {
                    return Ok(Step::Done(Received::Bytes(all)));
                }
                piece(mpi, comm, rank, root, own, all, length)?
            }
            Stage::Lengths { root, own } => {
                let lengths: Vec<u64> = values_of(&bytes(received));
                let blocks = Blocks::new(&lengths)?;
                let receives = root.is_none_or(|root| root == rank);
                let room = if receives { lengths.iter().sum::<u64>() as usize } else { 0 };
                let receive = (Buffer::Bytes(vec![0; room]), blocks);
                let request = mpi.gather(comm, Buffer::Bytes(own), receive, root, place)?;
                (Stage::Parts { lengths, receives }, request)
            }
            Stage::Parts { receives: false, .. } | Stage::Barrier => return Ok(Step::Done(Received::Nothing)),
            Stage::Parts { lengths, .. } => {
                let all = bytes(received);
                let mut rest = all.as_slice();
                let parts = lengths.iter().map(|length| {
                    let (part, after) = rest.split_at(*length as usize);
                    rest = after;
                    part.to_vec()
                });
                return Ok(Step::Done(Received::Parts(parts.collect())));
            }
        };
        Ok(Step::Next(Transfer { stage, request }))
    }
}

/// The state of an operation.
pub(super) enum Step<H> {
    /// A call is in progress.
    Waits(Transfer<H>),
    /// The next call was made.
    Next(Transfer<H>),
    /// The operation has ended.
    Done(Received),
}

/// The first call of a gather.
fn lengths<H: Handle>(
    mpi: &Mpi<H>,
    comm: H,
    place: Place,
    own: Vec<u8>,
    root: Option<usize>,
) -> Result<(Stage, Request<H>), Cause> {
    let world = place.1;
    let length = Buffer::Bytes((own.len() as u64).to_ne_bytes().to_vec());
    let receive = (Buffer::Bytes(vec![0; 8 * world]), Blocks::new(&vec![8; world])?);
    Ok((Stage::Lengths { root, own }, mpi.gather(comm, length, receive, None, place)?))
}

/// The next call of a broadcast.
fn piece<H: Handle>(
    mpi: &Mpi<H>,
    comm: H,
    rank: usize,
    root: usize,
    own: Vec<u8>,
    all: Vec<u8>,
    length: usize,
) -> Result<(Stage, Request<H>), Cause> {
    let next = all.len()..length.min(all.len() + PIECE);
    let buffer = if rank == root { own[next].to_vec() } else { vec![0; next.len()] };
    let request = mpi.broadcast(comm, Buffer::Bytes(buffer), root)?;
    Ok((Stage::Piece { root, own, all, length }, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_the_values() {
        let lengths = |len, world| slices(len, Wire::F32, world).map(|bytes| bytes / 4).collect::<Vec<_>>();
        assert_eq!(lengths(10, 4), [3, 3, 3, 1]);
        assert_eq!(lengths(5, 4), [2, 2, 1, 0]);
        assert_eq!(lengths(0, 3), [0, 0, 0]);
        assert_eq!(slices(10, Wire::Bf16, 4).sum::<u64>(), 20);
    }
}
