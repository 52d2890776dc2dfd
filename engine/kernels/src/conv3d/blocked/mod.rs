//! The sums of a convolution, block by block.
//!
//! A task packs a block of the source that fits the second-level cache ([`pack`]), and iterates
//! over rows of outputs ([`plan`]). The lanes of a register are output channels where there are
//! many ([`channel_tile`]), and neighbours of a row where there are few ([`position_tile`]). Every
//! output is one sum in one order, and the split of weight gradients into partial sums depends on
//! the shape only: results do not depend on the number of threads.

pub mod channel_tile;
mod few_weights;
mod many_weights;
mod outputs;
pub mod pack;
mod plan;
pub mod position_tile;
mod turn;

pub use few_weights::weight_gradient as weight_gradient_of_few;
pub use many_weights::weight_gradient as weight_gradient_of_many;
pub use outputs::{Along, Behind, Chunk, Epilogue, Source, Weight, chunks_of_channels, outputs};
pub use plan::{Plan, RUN};
pub use turn::{turn, turn_into, write_whole};

use super::winograd::transform::{Every, TRANSFORMS};

/// The number of values in one register of lanes.
pub const WIDTH: usize = 16;

/// The inner loops of one CPU.
#[derive(Clone, Copy)]
pub struct Loops<'a> {
    pub channels: &'a channel_tile::Kernels,
    pub positions: &'a position_tile::Kernels,
    pub transforms: &'a Every,
    /// Factors are pairs of bf16, which can only be multiplied, so minimal filtering is not
    /// possible.
    pub of_pairs: bool,
}

impl Loops<'_> {
    /// The loops for this CPU.
    pub fn here() -> Loops<'static> {
        Loops {
            channels: &channel_tile::KERNELS,
            positions: &position_tile::KERNELS,
            transforms: &TRANSFORMS,
            of_pairs: false,
        }
    }

    /// The loops for factors packed as two bf16 per word, where the CPU supports them.
    pub fn of_pairs() -> Option<Loops<'static>> {
        let channels = channel_tile::PAIRS.as_ref()?;
        Some(Loops { channels, of_pairs: true, ..Loops::here() })
    }
}
