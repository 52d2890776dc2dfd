//! Algorithms on masks and label maps, over plain slices in row-major order (the last axis
//! fastest).
//!
//! - [`components`], [`components_by_value`]: connected components, with their sizes and boxes.
//! - [`squared_distances`], [`distances`], [`signed_distances`], [`nearest`]: the exact Euclidean
//!   distance transform.
//! - [`erode`], [`dilate`], [`surface`], [`fill_holes`]: binary morphology.
//!
//! All take time proportional to the number of voxels and use all threads; the result does not
//! depend on the number of threads. They work on host memory only: labelling is serial by nature,
//! so a caller first reads the values of a tensor ([`crate::host`]).
//!
//! A voxel is *set* where it is not its type's default: not `false`, not 0. `connectivity` counts
//! the orthogonal steps that still make a neighbour, as in scikit-image: in 3-D, 1 means 6
//! neighbours, 2 means 18, 3 means 26.
//!
//! ```
//! use hearth_kernels::label;
//! let mask = [1_u8, 1, 0, 0,  0, 0, 0, 1,  0, 0, 1, 0];
//! let found = label::components(&mask, &[3, 4], 2)?;
//! assert_eq!(found.labels(), [1, 1, 0, 0,  0, 0, 0, 2,  0, 0, 2, 0]);
//! let edt = label::distances(&mask, &[3, 4], &[1.0, 1.0], label::To::Set)?;
//! assert_eq!(edt[2], 1.0);
//! # Ok::<(), label::LabelError>(())
//! ```

mod components;
mod distance;
mod morphology;

pub use components::{Components, Region, components, components_by_value};
pub use distance::{To, distances, nearest, signed_distances, squared_distances};
pub use morphology::{dilate, erode, fill_holes, surface};

/// The maximum number of axes of a volume: channels and three spatial axes.
pub const MAX_RANK: usize = 4;

/// The reason why a volume cannot be labelled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// The shape does not match the number of values.
    #[error("{found} values for a volume of shape {shape:?}")]
    Length {
        /// The number of values.
        found: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The number of axes is 0 or above the maximum.
    #[error("a volume of {found} axes; expected 1 to {most}")]
    Rank {
        /// The number of axes.
        found: usize,
        /// The maximum.
        most: usize,
    },
    /// The volume is too large to number its parts with 32 bits.
    #[error("a volume of shape {0:?} is too large to be labelled")]
    TooLarge(Vec<usize>),
    /// The connectivity is larger than the number of axes, or 0.
    #[error("connectivity {found} for {rank} axes; expected 1 to {rank}")]
    Connectivity {
        /// The connectivity.
        found: usize,
        /// The number of axes.
        rank: usize,
    },
    /// The spacing is not one positive number per axis.
    #[error("spacing {found:?} for {rank} axes; expected {rank} positive numbers")]
    Spacing {
        /// The spacing.
        found: Vec<f64>,
        /// The number of axes.
        rank: usize,
    },
}

/// A volume as lines along its last axis; the other axes are padded in front to three with ones.
#[derive(Clone, Copy, Debug)]
struct Grid {
    rank: usize,
    lead: [usize; MAX_RANK - 1],
    line: usize,
}

impl Grid {
    fn new(values: usize, shape: &[usize]) -> Result<Grid, LabelError> {
        let rank = shape.len();
        let Some((line, rest)) = shape.split_last().filter(|_| rank <= MAX_RANK) else {
            return Err(LabelError::Rank { found: rank, most: MAX_RANK });
        };
        let count = shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d));
        if count != Some(values) {
            return Err(LabelError::Length { found: values, shape: shape.to_vec() });
        }
        let mut lead = [1; MAX_RANK - 1];
        lead[MAX_RANK - rank..].copy_from_slice(rest);
        // Lines, indices within a line and runs are counted in 32 bits.
        if values >= u32::MAX as usize {
            return Err(LabelError::TooLarge(shape.to_vec()));
        }
        Ok(Grid { rank, lead, line: *line })
    }

    fn lines(&self) -> usize {
        self.lead.iter().product()
    }

    fn check(&self, connectivity: usize) -> Result<(), LabelError> {
        if (1..=self.rank).contains(&connectivity) {
            Ok(())
        } else {
            Err(LabelError::Connectivity { found: connectivity, rank: self.rank })
        }
    }

    /// The indices of a line on the leading axes.
    fn place(&self, line: usize) -> [usize; MAX_RANK - 1] {
        let [_, b, c] = self.lead;
        [line / (b * c), line / c % b, line % c]
    }

    /// The lines next to a line, by offset: only those before it, or all of them.
    fn neighbours(&self, connectivity: usize, before_only: bool) -> Vec<Neighbour> {
        let [_, b, c] = self.lead;
        let mut out = Vec::new();
        let steps = |axis: usize| if self.lead[axis] > 1 { -1..=1_isize } else { 0..=0 };
        for da in steps(0) {
            for db in steps(1) {
                for dc in steps(2) {
                    let used = [da, db, dc].iter().filter(|d| **d != 0).count();
                    let back = (da, db, dc) < (0, 0, 0);
                    if (1..=connectivity).contains(&used) && (back || !before_only) {
                        let by = (da * b as isize + db) * c as isize + dc;
                        out.push(Neighbour { step: [da, db, dc], by, reach: connectivity > used });
                    }
                }
            }
        }
        out
    }
}

/// A line next to another one.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    /// Steps along the leading axes.
    step: [isize; MAX_RANK - 1],
    /// The same offset as a number of lines.
    by: isize,
    /// Whether voxels one step further along the line are also neighbours.
    reach: bool,
}

impl Neighbour {
    /// The neighbour of the line at `place`; `None` outside of the volume.
    fn of(&self, line: usize, place: [usize; MAX_RANK - 1], grid: &Grid) -> Option<usize> {
        let inside = (0..MAX_RANK - 1)
            .all(|axis| place[axis].checked_add_signed(self.step[axis]).is_some_and(|moved| moved < grid.lead[axis]));
        inside.then(|| line.checked_add_signed(self.by)).flatten()
    }
}
