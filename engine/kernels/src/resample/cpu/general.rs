//! Samples voxel by voxel: with any matrix, or at explicit coordinates.
//!
//! Coordinates are `start + step * z` in f64, so that no errors accumulate along a row. Output is
//! computed in tiles: the inputs of a rotated tile fit the cache, for any image size.

use rayon::prelude::*;

use super::super::taps::{EDGE, find, fold, interior};
use super::super::{Interpolation, Padding, Sampling, Target};
use crate::simd::{LANES, each, widest};

/// The numbers of planes, rows and columns of a tile.
const TILE: [usize; 3] = [8, 8, 64];

/// One channel, and its sampling.
struct Volume<'a> {
    values: &'a [f32],
    shape: [usize; 3],
    sampling: Sampling,
    /// Coordinates from here...
    low: [f64; 3],
    /// ...to here (not included) read only voxels inside.
    high: [f64; 3],
    /// Whether the volume is one plane that is read at 0.
    flat: bool,
}

impl<'a> Volume<'a> {
    fn new(values: &'a [f32], shape: [usize; 3], sampling: Sampling, flat: bool) -> Self {
        let ranges = shape.map(|n| interior(n, sampling.mode));
        Volume { values, shape, sampling, low: ranges.map(|r| r.0), high: ranges.map(|r| r.1), flat }
    }

    #[inline(always)]
    fn is_inside(&self, axis: usize, c: f64) -> bool {
        c >= self.low[axis] && c < self.high[axis]
    }

    /// Whether all taps of a position lie within the image.
    #[inline(always)]
    fn holds<const FLAT: bool>(&self, at: [f64; 3]) -> bool {
        let mut inside = true;
        for (axis, c) in at.into_iter().enumerate().skip(usize::from(FLAT)) {
            inside &= self.is_inside(axis, c);
        }
        inside
    }

    /// The value at any coordinate.
    #[inline(always)]
    fn anywhere<const T: usize, const FLAT: bool>(&self, at: [f64; 3]) -> f32 {
        let first = usize::from(FLAT);
        // Beyond the edge everything is 0, except for a shell in which the image fades out.
        let reach = match self.sampling.padding {
            Padding::Zeros => T as f64,
            Padding::Cut => EDGE,
            _ => f64::INFINITY,
        };
        if (first..3).any(|a| at[a] < -reach || at[a] > self.shape[a] as f64 - 1.0 + reach) {
            return 0.0;
        }
        // One or two taps lie inside after folding the coordinate.
        if T <= 2 && self.sampling.padding != Padding::Zeros {
            let mut folded = at;
            let mut inside = true;
            for a in first..3 {
                match fold(at[a], self.shape[a], self.sampling) {
                    Some(c) => {
                        // The last voxel itself is read from the one before it.
                        folded[a] = c;
                        inside &= c >= 0.0 && c <= self.shape[a] as f64 - 1.0 && self.shape[a] >= T;
                    }
                    None => return 0.0,
                }
            }
            if inside {
                // SAFETY: checked above.
                return unsafe { self.inside::<T, FLAT>(folded) };
            }
        }
        self.by_taps::<T>(at)
    }

    /// Computes the value by definition, handling every tap separately.
    #[inline(never)]
    fn by_taps<const T: usize>(&self, at: [f64; 3]) -> f32 {
        let (mut index, mut weight) = ([[0; T]; 3], [[0.0; T]; 3]);
        for axis in 0..3 {
            find(at[axis], self.shape[axis], self.sampling, &mut index[axis], &mut weight[axis]);
        }
        let [_, ny, nz] = self.shape;
        let mut sum = 0.0;
        for (i, wi) in index[0].iter().zip(weight[0]).filter(|(_, w)| *w != 0.0) {
            let mut plane = 0.0;
            for (j, wj) in index[1].iter().zip(weight[1]).filter(|(_, w)| *w != 0.0) {
                let line = &self.values[(i * ny + j) * nz..][..nz];
                plane += wj * index[2].iter().zip(weight[2]).map(|(k, wk)| line[*k] * wk).sum::<f32>();
            }
            sum += wi * plane;
        }
        sum
    }

    /// The value at a coordinate whose taps all lie inside.
    ///
    /// # Safety
    /// [`Volume::is_inside`] holds for every axis (for the last two of a flat volume); with one or
    /// two taps the coordinate may also be that of the last voxel, in an image of two or more.
    #[inline(always)]
    unsafe fn inside<const T: usize, const FLAT: bool>(&self, at: [f64; 3]) -> f32 {
        let mode = self.sampling.mode;
        let mut first = [0; 3];
        let mut weight = [[0.0; T]; 3];
        for axis in usize::from(FLAT)..3 {
            let c = at[axis];
            if T == 2 {
                // Not negative, so rounding towards zero rounds down.
                // SAFETY: the coordinate lies within the image.
                let low = unsafe { c.to_int_unchecked::<i32>() }.min(self.shape[axis] as i32 - 2);
                first[axis] = low as usize;
                let fraction = (c - f64::from(low)) as f32;
                (weight[axis][0], weight[axis][1]) = (1.0 - fraction, fraction);
            } else {
                let low = mode.first_tap(c);
                // SAFETY: the first tap lies within the image.
                first[axis] = unsafe { low.to_int_unchecked::<i32>() } as usize;
                mode.weigh(c, low, &mut weight[axis]);
            }
        }
        let [_, ny, nz] = self.shape;
        let start = (first[0] * ny + first[1]) * nz + first[2];
        let row = |i: usize, j: usize| -> [f32; T] {
            let at = start + (i * ny + j) * nz;
            // SAFETY: every tap lies within the image.
            each(|k| unsafe { *self.values.get_unchecked(at + k) })
        };
        let planes = if FLAT { 1 } else { T };
        let mut sums = [0.0; T];
        for i in 0..planes {
            for j in 0..T {
                let both = if FLAT { weight[1][j] } else { weight[0][i] * weight[1][j] };
                for (sum, value) in sums.iter_mut().zip(row(i, j)) {
                    *sum += both * value;
                }
            }
        }
        sums.iter().zip(weight[2]).map(|(sum, w)| sum * w).sum()
    }

    /// Same as [`Volume::inside`] for one coordinate per lane of a register, with the same
    /// arithmetic.
    ///
    /// # Safety
    /// Same as for [`Volume::inside`], for each coordinate; and the volume has fewer than 2^31
    /// voxels and one or two taps.
    #[inline(always)]
    unsafe fn inside_lanes<const T: usize, const FLAT: bool>(
        &self,
        at: impl Fn(usize, usize) -> f64,
        out: &mut [f32; LANES],
    ) {
        let half_up = self.sampling.mode == Interpolation::Spline(0);
        let (mut first, mut after, mut before) = ([[0_i32; LANES]; 3], [[0.0_f32; LANES]; 3], [[1.0_f32; LANES]; 3]);
        for axis in usize::from(FLAT)..3 {
            let last = self.shape[axis] as i32 - 2;
            for lane in 0..LANES {
                let c = at(axis, lane);
                let whole = match T {
                    2 => c,
                    _ if half_up => (c + 0.5).floor(),
                    _ => c.round_ties_even(),
                };
                // SAFETY: the coordinate lies within the image.
                let low = unsafe { whole.to_int_unchecked::<i32>() };
                let low = if T == 2 { low.min(last) } else { low };
                let fraction = (c - f64::from(low)) as f32;
                (first[axis][lane], after[axis][lane], before[axis][lane]) = (low, fraction, 1.0 - fraction);
            }
        }
        let [_, ny, nz] = self.shape.map(|n| n as i32);
        let mut start = [0_i32; LANES];
        for (lane, start) in start.iter_mut().enumerate() {
            *start = (first[0][lane] * ny + first[1][lane]) * nz + first[2][lane];
        }
        let read = |i: usize, j: usize, k: usize| -> [f32; LANES] {
            let offset = (i as i32 * ny + j as i32) * nz + k as i32;
            // SAFETY: every tap lies within the image.
            each(|lane| unsafe { *self.values.get_unchecked((start[lane] + offset) as usize) })
        };
        if T == 1 {
            let values = read(0, 0, 0);
            for (out, value) in out.iter_mut().zip(values) {
                *out = 0.0 + value;
            }
            return;
        }
        let mut sums = [[0.0_f32; LANES]; 2];
        for i in 0..if FLAT { 1 } else { 2 } {
            for j in 0..2 {
                let both: [f32; LANES] = each(|lane| {
                    let along = |axis: usize, far: usize| if far == 1 { after[axis][lane] } else { before[axis][lane] };
                    if FLAT { along(1, j) } else { along(0, i) * along(1, j) }
                });
                for (k, sums) in sums.iter_mut().enumerate() {
                    let values = read(i, j, k);
                    for lane in 0..LANES {
                        sums[lane] += both[lane] * values[lane];
                    }
                }
            }
        }
        for (lane, out) in out.iter_mut().enumerate() {
            *out = sums[0][lane] * before[2][lane] + sums[1][lane] * after[2][lane];
        }
    }

    /// Whether [`Volume::inside_lanes`] can be used.
    #[inline(always)]
    fn has_lanes<const T: usize>(&self) -> bool {
        T <= 2 && i32::try_from(self.values.len()).is_ok()
    }

    /// The part of `from..to` in which a row stays inside; its coordinates are `start + step * z`.
    fn inner(&self, start: [f64; 3], step: [f64; 3], from: usize, to: usize) -> (usize, usize) {
        let (mut a, mut b) = (from as f64, to as f64);
        for axis in usize::from(self.flat)..3 {
            let (low, high) = (self.low[axis] - start[axis], self.high[axis] - start[axis]);
            if step[axis] == 0.0 {
                if !(low <= 0.0 && 0.0 < high) {
                    return (from, from);
                }
                continue;
            }
            let (near, far) = (low / step[axis], high / step[axis]);
            a = a.max(near.min(far));
            b = b.min(near.max(far) + 1.0);
        }
        if !(a < b) {
            return (from, from);
        }
        let (mut a, mut b) = (a.ceil() as usize, b.floor() as usize);
        // The division rounds, so the coordinates themselves are checked. A row is straight: if its
        // ends are inside, all of it is.
        let holds = |z: usize| {
            let z = z as f64;
            (usize::from(self.flat)..3).all(|axis| self.is_inside(axis, start[axis] + step[axis] * z))
        };
        while a < b && !holds(a) {
            a += 1;
        }
        while a < b && !holds(b - 1) {
            b -= 1;
        }
        (a, b.max(a))
    }
}

/// Samples a `[C, ...]` image at `matrix * output voxel`.
pub(super) fn by_matrix<const T: usize>(
    source: &[f32],
    dims: [usize; 4],
    target: &Target,
    sampling: Sampling,
    out: &mut [f32],
) {
    let flat = dims[1] == 1 && target.reads_zero(0);
    let shape = [dims[1], dims[2], dims[3]];
    tasks(out, target.size).into_par_iter().for_each(|task| {
        let image = Volume::new(channel(source, shape, task.channel), shape, sampling, flat);
        if flat {
            widest(
                #[inline(always)]
                move || tiles::<T, true>(&image, target, task),
            );
        } else {
            widest(
                #[inline(always)]
                move || tiles::<T, false>(&image, target, task),
            );
        }
    });
}

fn channel(source: &[f32], shape: [usize; 3], index: usize) -> &[f32] {
    let volume = shape.iter().product::<usize>();
    &source[index * volume..][..volume]
}

/// A box of one channel's output that is contiguous in memory: whole planes, or rows of one plane.
struct Task<'a> {
    channel: usize,
    x: usize,
    y: usize,
    /// The number of rows of a plane in the task.
    rows: usize,
    out: &'a mut [f32],
}

fn tasks(out: &mut [f32], size: [usize; 3]) -> Vec<Task<'_>> {
    let mut tasks = Vec::new();
    for (channel, volume) in out.chunks_mut(size.iter().product()).enumerate() {
        if size[0] >= TILE[0] {
            for (i, out) in volume.chunks_mut(TILE[0] * size[1] * size[2]).enumerate() {
                tasks.push(Task { channel, x: i * TILE[0], y: 0, rows: size[1], out });
            }
            continue;
        }
        for (x, plane) in volume.chunks_mut(size[1] * size[2]).enumerate() {
            for (i, out) in plane.chunks_mut(4 * TILE[1] * size[2]).enumerate() {
                tasks.push(Task { channel, x, y: i * 4 * TILE[1], rows: out.len() / size[2], out });
            }
        }
    }
    tasks
}

#[inline(always)]
fn tiles<const T: usize, const FLAT: bool>(image: &Volume, target: &Target, task: Task) {
    let size = target.size;
    let planes = task.out.len() / (task.rows * size[2]);
    let step = target.matrix.map(|row| row[2]);
    let first = target.origin[2];
    for y0 in (0..task.rows).step_by(TILE[1]) {
        for z0 in (0..size[2]).step_by(TILE[2]) {
            let z1 = (z0 + TILE[2]).min(size[2]);
            for x in 0..planes {
                for y in y0..(y0 + TILE[1]).min(task.rows) {
                    let row = &mut task.out[(x * task.rows + y) * size[2]..][..size[2]];
                    // Counted from the start of the whole result, so that a part has exactly the
                    // coordinates of the whole.
                    let voxel = [(target.origin[0] + task.x + x) as f64, (target.origin[1] + task.y + y) as f64];
                    let start = target.matrix.map(|m| m[0] * voxel[0] + m[1] * voxel[1] + m[3]);
                    let at = |z: usize| std::array::from_fn(|a| start[a] + step[a] * (first + z) as f64);
                    let (a, b) = image.inner(start, step, first + z0, first + z1);
                    let (a, b) = (a - first, b - first);
                    for z in (z0..a).chain(b..z1) {
                        row[z] = image.anywhere::<T, FLAT>(at(z));
                    }
                    let mut z = a;
                    let lanes = if image.has_lanes::<T>() { row[a..b].as_chunks_mut::<LANES>().0 } else { &mut [] };
                    for out in lanes {
                        let from = (first + z) as f64;
                        let at = |axis: usize, lane: usize| start[axis] + step[axis] * (from + lane as f64);
                        // SAFETY: as below; `has_lanes`.
                        unsafe { image.inside_lanes::<T, FLAT>(at, out) };
                        z += LANES;
                    }
                    for (z, value) in (z..b).zip(&mut row[z..b]) {
                        // SAFETY: `inner` yields inside coordinates only.
                        *value = unsafe { image.inside::<T, FLAT>(at(z)) };
                    }
                }
            }
        }
    }
}

/// Samples a `[C, X, Y, Z]` image at coordinates, `[3, size]`.
pub(super) fn by_grid<const T: usize>(
    source: &[f32],
    dims: [usize; 4],
    grid: &[f32],
    size: [usize; 3],
    sampling: Sampling,
    out: &mut [f32],
) {
    let count = size.iter().product::<usize>();
    let axes: [&[f32]; 3] = std::array::from_fn(|a| &grid[a * count..][..count]);
    let shape = [dims[1], dims[2], dims[3]];
    // A 2-D image is treated as one plane, see `two_dimensional`.
    let flat = dims[3] == 1 && axes[2].iter().all(|c| *c == 0.0);
    let (axes, plane) = if flat { ([axes[2], axes[0], axes[1]], [1, shape[0], shape[1]]) } else { (axes, shape) };
    const RUN: usize = 4096;
    let mut tasks = Vec::new();
    for (c, volume) in out.chunks_mut(count).enumerate() {
        tasks.extend(volume.chunks_mut(RUN).enumerate().map(|(i, out)| (c, i * RUN, out)));
    }
    tasks.into_par_iter().for_each(|(c, first, out)| {
        let image = Volume::new(channel(source, shape, c), plane, sampling, flat);
        let axes = axes.map(|axis| &axis[first..][..out.len()]);
        if flat {
            widest(
                #[inline(always)]
                move || run::<T, true>(&image, axes, out),
            );
        } else {
            widest(
                #[inline(always)]
                move || run::<T, false>(&image, axes, out),
            );
        }
    });
}

#[inline(always)]
fn run<const T: usize, const FLAT: bool>(image: &Volume, axes: [&[f32]; 3], out: &mut [f32]) {
    let at = |i: usize| each(|axis| f64::from(axes[axis][i]));
    for first in (0..out.len()).step_by(LANES) {
        let last = (first + LANES).min(out.len());
        let lanes = image.has_lanes::<T>() && (first..last).all(|i| image.holds::<FLAT>(at(i)));
        if let (true, Some(out)) = (lanes, out[first..last].first_chunk_mut::<LANES>()) {
            // SAFETY: checked above.
            unsafe { image.inside_lanes::<T, FLAT>(|axis, lane| f64::from(axes[axis][first + lane]), out) };
            continue;
        }
        for (i, value) in (first..last).zip(&mut out[first..last]) {
            let at = at(i);
            *value = if image.holds::<FLAT>(at) {
                // SAFETY: checked above.
                unsafe { image.inside::<T, FLAT>(at) }
            } else {
                image.anywhere::<T, FLAT>(at)
            };
        }
    }
}
