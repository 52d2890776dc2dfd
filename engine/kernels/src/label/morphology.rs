//! Binary morphology. Neighbours are those of a connectivity, as
//! `scipy.ndimage.generate_binary_structure` defines them.

use std::ops::Range;

use rayon::prelude::*;

use super::{Grid, LabelError, MAX_RANK, components};

/// Set voxels whose neighbours are all set; voxels beyond the edge count as `border`
/// (`scipy.ndimage.binary_erosion`: `false`).
///
/// # Errors
/// Where shape, values and connectivity do not match.
pub fn erode<T>(values: &[T], shape: &[usize], connectivity: usize, border: bool) -> Result<Vec<bool>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    spread::<T, true>(values, shape, connectivity, border)
}

/// Voxels that are set or have a set neighbour; voxels beyond the edge count as `border`
/// (`scipy.ndimage.binary_dilation`: `false`).
///
/// # Errors
/// Where shape, values and connectivity do not match.
pub fn dilate<T>(values: &[T], shape: &[usize], connectivity: usize, border: bool) -> Result<Vec<bool>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    spread::<T, false>(values, shape, connectivity, border)
}

/// Set voxels with a neighbour that is not set, or at the edge of the volume. With `connectivity` 1
/// these are the edges on which MONAI's surface metrics measure (`get_mask_edges`).
///
/// # Errors
/// Where shape, values and connectivity do not match.
pub fn surface<T>(values: &[T], shape: &[usize], connectivity: usize) -> Result<Vec<bool>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    let mut out = erode(values, shape, connectivity, false)?;
    out.par_iter_mut().zip(values).for_each(|(inner, value)| *inner = *value != T::default() && !*inner);
    Ok(out)
}

/// Sets to `label` every voxel that `label` separates from the edge of the volume, regardless of
/// its value, and returns the number of changed voxels.
///
/// `connectivity` is that of the path to the edge: with 1, the parts of a wall may touch only at
/// their corners.
///
/// # Errors
/// Where shape, values and connectivity do not match.
pub fn fill_holes<T>(values: &mut [T], shape: &[usize], connectivity: usize, label: T) -> Result<usize, LabelError>
where
    T: Copy + PartialEq + Send + Sync,
{
    let grid = Grid::new(values.len(), shape)?;
    grid.check(connectivity)?;
    let Some(bounds) = Bounds::find(&grid, values, label) else { return Ok(0) };
    // Holes lie within the label's box, and a voxel connected to the box's edge is not in a hole.
    let open: Vec<bool> = bounds.lines().flat_map(|line| values[line].iter().map(|v| *v != label)).collect();
    let size = bounds.size();
    let axes = &size[MAX_RANK - grid.rank..];
    let parts = components(&open, axes, connectivity)?;
    let regions = parts.regions();
    let shut = |part: usize| (0..grid.rank).all(|a| regions[part].start[a] > 0 && regions[part].end[a] < axes[a]);
    let count = (0..parts.len()).filter(|part| shut(*part)).map(|part| regions[part].size).sum();
    if count > 0 {
        let mut holes = vec![false; open.len()];
        parts.paint(&mut holes, |part| shut(part).then_some(true));
        for (line, holes) in bounds.lines().zip(holes.chunks_exact(size[MAX_RANK - 1])) {
            for (value, hole) in values[line].iter_mut().zip(holes) {
                if *hole {
                    *value = label;
                }
            }
        }
    }
    Ok(count)
}

/// A box within a grid, with axes padded like the grid's.
#[derive(Clone, Copy)]
struct Bounds {
    grid: Grid,
    start: [usize; MAX_RANK],
    end: [usize; MAX_RANK],
}

impl Bounds {
    /// The bounding box of a value.
    fn find<T: PartialEq + Sync>(grid: &Grid, values: &[T], label: T) -> Option<Bounds> {
        let none = || Bounds { grid: *grid, start: [usize::MAX; MAX_RANK], end: [0; MAX_RANK] };
        let found =
            values.par_chunks(grid.line.max(1)).with_min_len(64).enumerate().fold(none, |bounds, (line, row)| {
                let Some(first) = row.iter().position(|v| *v == label) else { return bounds };
                let last = row.iter().rposition(|v| *v == label).unwrap_or(first);
                let [a, b, c] = grid.place(line);
                bounds.around([a, b, c, first], [a + 1, b + 1, c + 1, last + 1])
            });
        let all = found.reduce(none, |a, b| a.around(b.start, b.end));
        (all.end[MAX_RANK - 1] > 0).then_some(all)
    }

    fn around(mut self, start: [usize; MAX_RANK], end: [usize; MAX_RANK]) -> Bounds {
        for axis in 0..MAX_RANK {
            self.start[axis] = self.start[axis].min(start[axis]);
            self.end[axis] = self.end[axis].max(end[axis]);
        }
        self
    }

    fn size(&self) -> [usize; MAX_RANK] {
        std::array::from_fn(|axis| self.end[axis] - self.start[axis])
    }

    /// The box's parts of the volume's lines, in order, as flat indices.
    fn lines(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let Bounds { grid, start, end } = self;
        let [_, nb, nc] = grid.lead;
        let places = (start[0]..end[0]).flat_map(move |a| {
            (start[1]..end[1]).flat_map(move |b| (start[2]..end[2]).map(move |c| (a * nb + b) * nc + c))
        });
        places.map(|line| line * grid.line + start[3]..line * grid.line + end[3])
    }
}

/// Combines each voxel with its neighbours: whether all of them are set (`ALL`), or any.
fn spread<T, const ALL: bool>(
    values: &[T],
    shape: &[usize],
    connectivity: usize,
    border: bool,
) -> Result<Vec<bool>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    let grid = Grid::new(values.len(), shape)?;
    grid.check(connectivity)?;
    if values.is_empty() {
        return Ok(Vec::new());
    }
    // Bytes, of which the loops below process 16 to 64 at a time.
    let mask: Vec<bool> = values.par_iter().map(|v| *v != T::default()).collect();
    let near = grid.neighbours(connectivity, false);
    let row = |line: usize| &mask[line * grid.line..][..grid.line];
    let join = |value: &mut bool, other: bool| if ALL { *value &= other } else { *value |= other };
    let mut out = mask.clone();
    out.par_chunks_mut(grid.line).with_min_len(16).enumerate().for_each(|(line, target)| {
        let place = grid.place(line);
        let mut take = |from: Option<&[bool]>, reach: bool| {
            let Some(from) = from else {
                return target.iter_mut().for_each(|value| join(value, border));
            };
            target.iter_mut().zip(from).for_each(|(value, other)| join(value, *other));
            if reach {
                let last = target.len() - 1;
                join(&mut target[0], border);
                join(&mut target[last], border);
                target[..last].iter_mut().zip(&from[1..]).for_each(|(value, other)| join(value, *other));
                target[1..].iter_mut().zip(from).for_each(|(value, other)| join(value, *other));
            }
        };
        take(Some(row(line)), true);
        for near in &near {
            take(near.of(line, place, &grid).map(row), near.reach);
        }
    });
    // At the edge of an axis of length 1 both neighbours are missing, and `neighbours` lists
    // neither.
    if border != ALL && (0..MAX_RANK - 1).any(|axis| axis + grid.rank >= MAX_RANK && grid.lead[axis] == 1) {
        out.fill(border);
    }
    Ok(out)
}
