//! Connected components by union-find over runs: stretches of set voxels along the last axis.
//!
//! Lines are divided into slabs, one thread each; the slabs' seams are joined afterwards (after Wu,
//! Otoo and Suzuki, "Optimizing two-pass connected-component labeling algorithms", 2009, with runs
//! instead of voxels).

use std::ops::Range;

use rayon::prelude::*;

use super::{Grid, LabelError, MAX_RANK, Neighbour};

/// The connected components of a volume, in the order of their first voxels, as in
/// `scipy.ndimage.label`.
#[derive(Clone, Debug)]
pub struct Components {
    grid: Grid,
    runs: Vec<Run>,
    /// The component of each run.
    of: Vec<u32>,
    /// The first run of each line, and at the end the number of runs.
    lines: Vec<u32>,
    regions: Vec<Region>,
}

/// One connected component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The number of voxels.
    pub size: usize,
    /// The flat index of the first voxel.
    pub first: usize,
    /// The first voxel of the bounding box per axis; 0 for axes that the volume does not have.
    pub start: [usize; MAX_RANK],
    /// The exclusive end of the bounding box per axis; 1 for axes that the volume does not have.
    pub end: [usize; MAX_RANK],
}

#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    end: u32,
}

/// The components of the set voxels, regardless of their values.
///
/// `shape` has 1 to [`MAX_RANK`] axes; `connectivity` is 1 to the number of axes.
///
/// # Errors
/// Where shape, values and connectivity do not match.
pub fn components<T>(values: &[T], shape: &[usize], connectivity: usize) -> Result<Components, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    find::<T, false>(values, shape, connectivity)
}

/// The components of equal values: neighbours with different values are not connected. This is
/// `skimage.measure.label` of a label map.
///
/// # Errors
/// Where shape, values and connectivity do not match.
pub fn components_by_value<T>(values: &[T], shape: &[usize], connectivity: usize) -> Result<Components, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    find::<T, true>(values, shape, connectivity)
}

impl Components {
    /// The number of components.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Whether no voxel is set.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The size and the bounding box of each component.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The volume of labels: 0 for background, `i + 1` for component `i`.
    pub fn labels(&self) -> Vec<u32> {
        let mut out = vec![0; self.grid.lines() * self.grid.line];
        self.paint(&mut out, |component| Some(component as u32 + 1));
        out
    }

    /// Overwrites each component for which `value` returns `Some`; other voxels are unchanged.
    ///
    /// # Panics
    /// Where `volume` and the labelled volume differ in their number of voxels.
    pub fn paint<T: Copy + Send + Sync>(&self, volume: &mut [T], value: impl Fn(usize) -> Option<T> + Sync) {
        assert_eq!(volume.len(), self.grid.lines() * self.grid.line, "the volume has the labelled one's size");
        if self.runs.is_empty() {
            return;
        }
        volume.par_chunks_mut(self.grid.line).with_min_len(64).enumerate().for_each(|(line, target)| {
            for run in self.lines[line] as usize..self.lines[line + 1] as usize {
                if let Some(value) = value(self.of[run] as usize) {
                    target[self.runs[run].range()].fill(value);
                }
            }
        });
    }

    /// The components from the largest to the smallest; of equal sizes, the later one comes first,
    /// as in MONAI's ranking.
    pub fn by_size(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by_key(|i| std::cmp::Reverse((self.regions[*i].size, *i)));
        order
    }
}

impl Run {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The runs of some lines, joined among themselves.
struct Slab {
    first_line: usize,
    runs: Vec<Run>,
    parents: Vec<u32>,
    /// The number of runs before each line, and in total.
    lines: Vec<u32>,
}

fn find<T, const BY_VALUE: bool>(values: &[T], shape: &[usize], connectivity: usize) -> Result<Components, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    let grid = Grid::new(values.len(), shape)?;
    grid.check(connectivity)?;
    let lines = if grid.line == 0 { 0 } else { grid.lines() };
    let near = grid.neighbours(connectivity, true);
    let join = Join::<T, BY_VALUE> { grid: &grid, near: &near, values };
    // Several slabs per thread, so that an uneven volume keeps all threads busy; not so small that
    // seams matter.
    let size = lines.div_ceil(4 * rayon::current_num_threads()).max(64);
    let starts: Vec<usize> = (0..lines).step_by(size).collect();
    let slabs: Vec<Slab> = starts.par_iter().map(|start| join.slab(*start..(start + size).min(lines))).collect();

    let count = slabs.iter().map(|s| s.runs.len()).sum();
    let (mut runs, mut parents) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut line_starts = Vec::with_capacity(lines + 1);
    for slab in &slabs {
        let before = runs.len() as u32;
        runs.extend_from_slice(&slab.runs);
        parents.extend(slab.parents.iter().map(|p| p + before));
        line_starts.extend(slab.lines[..slab.lines.len() - 1].iter().map(|n| n + before));
    }
    line_starts.push(runs.len() as u32);
    let furthest = near.iter().map(|n| n.by.unsigned_abs()).max().unwrap_or(0);
    for slab in slabs.iter().skip(1) {
        let seam = slab.first_line..(slab.first_line + furthest.min(size)).min(lines);
        for line in seam {
            join.line(line, 0..slab.first_line, &runs, &line_starts, 0, &mut parents);
        }
    }
    Ok(number(grid, runs, parents, line_starts))
}

/// Numbers the components by their first runs, and measures them.
fn number(grid: Grid, runs: Vec<Run>, mut parents: Vec<u32>, lines: Vec<u32>) -> Components {
    let mut regions: Vec<Region> = Vec::new();
    for line in 0..lines.len() - 1 {
        let [a, b, c] = grid.place(line);
        for run in lines[line] as usize..lines[line + 1] as usize {
            let Run { start, end } = runs[run];
            // Roots come first in their components, so a parent's entry is already a component's
            // number.
            let root = parents[run] as usize;
            let component = if root == run { regions.len() as u32 } else { parents[root] };
            parents[run] = component;
            let (low, high) = ([a, b, c, start as usize], [a + 1, b + 1, c + 1, end as usize]);
            if root == run {
                let first = line * grid.line + start as usize;
                regions.push(Region { size: 0, first, start: low, end: high });
            }
            let region = &mut regions[component as usize];
            region.size += (end - start) as usize;
            for axis in 0..MAX_RANK {
                region.start[axis] = region.start[axis].min(low[axis]);
                region.end[axis] = region.end[axis].max(high[axis]);
            }
        }
    }
    // Axes were padded in front; boxes list the volume's axes first.
    let pad = MAX_RANK - grid.rank;
    for region in &mut regions {
        region.start.rotate_left(pad);
        region.end.rotate_left(pad);
    }
    Components { grid, runs, of: parents, lines, regions }
}

/// The data for joining runs of neighbouring lines.
struct Join<'a, T, const BY_VALUE: bool> {
    grid: &'a Grid,
    near: &'a [Neighbour],
    values: &'a [T],
}

impl<T: Copy + Default + PartialEq, const BY_VALUE: bool> Join<'_, T, BY_VALUE> {
    fn slab(&self, range: Range<usize>) -> Slab {
        let mut slab = Slab {
            first_line: range.start,
            runs: Vec::new(),
            parents: Vec::new(),
            lines: Vec::with_capacity(range.len() + 1),
        };
        slab.lines.push(0);
        for line in range.clone() {
            self.scan(line, &mut slab.runs);
            slab.parents.extend(slab.parents.len() as u32..slab.runs.len() as u32);
            slab.lines.push(slab.runs.len() as u32);
            self.line(line, range.start..line, &slab.runs, &slab.lines, range.start, &mut slab.parents);
        }
        // Every run points at its root, so that joining slabs needs few steps.
        for run in 0..slab.parents.len() {
            slab.parents[run] = slab.parents[slab.parents[run] as usize];
        }
        slab
    }

    /// Appends the runs of a line.
    fn scan(&self, line: usize, runs: &mut Vec<Run>) {
        let values = &self.values[line * self.grid.line..][..self.grid.line];
        let unset = T::default();
        let mut at = 0;
        while let Some(start) = values[at..].iter().position(|v| *v != unset).map(|n| at + n) {
            let value = values[start];
            let rest = values[start + 1..].iter();
            let length = if BY_VALUE {
                rest.take_while(|v| **v == value).count()
            } else {
                rest.take_while(|v| **v != unset).count()
            };
            at = start + 1 + length;
            runs.push(Run { start: start as u32, end: at as u32 });
        }
    }

    /// Joins the runs of a line with those of its neighbours within some lines.
    fn line(
        &self,
        line: usize,
        within: Range<usize>,
        runs: &[Run],
        lines: &[u32],
        first_line: usize,
        parents: &mut [u32],
    ) {
        let of = |line: usize| lines[line - first_line] as usize..lines[line - first_line + 1] as usize;
        let here = of(line);
        if here.is_empty() {
            return;
        }
        let place = self.grid.place(line);
        let others =
            self.near.iter().filter_map(|near| Some((near.of(line, place, self.grid)?, u32::from(near.reach))));
        for (other, reach) in others.filter(|(other, _)| within.contains(other)) {
            let there = of(other);
            let mut low = there.start;
            for run in here.clone() {
                let Run { start, end } = runs[run];
                while low < there.end && runs[low].end + reach <= start {
                    low += 1;
                }
                for candidate in (low..there.end).take_while(|c| runs[*c].start < end + reach) {
                    let same = || self.value(line, start) == self.value(other, runs[candidate].start);
                    if !BY_VALUE || same() {
                        unite(parents, run as u32, candidate as u32);
                    }
                }
            }
        }
    }

    fn value(&self, line: usize, place: u32) -> T {
        self.values[line * self.grid.line + place as usize]
    }
}

/// The smaller root becomes the other's parent, so the root is a component's first run.
fn unite(parents: &mut [u32], a: u32, b: u32) {
    let (a, b) = (root(parents, a), root(parents, b));
    let (low, high) = (a.min(b), a.max(b));
    parents[high as usize] = low;
}

fn root(parents: &mut [u32], mut run: u32) -> u32 {
    while parents[run as usize] != run {
        let above = parents[parents[run as usize] as usize];
        parents[run as usize] = above;
        run = above;
    }
    run
}
