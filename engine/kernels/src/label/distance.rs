//! The exact Euclidean distance transform: one sweep along lines, then the lower envelope of
//! parabolas along each further axis (Felzenszwalb and Huttenlocher, "Distance transforms of
//! sampled functions", 2012). Each axis passes on the position of the nearest voxel, not a rounded
//! distance, so every distance is computed once, from whole numbers.

use rayon::prelude::*;

use super::{Grid, LabelError};

/// The target of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The nearest set voxel.
    Set,
    /// The nearest voxel that is not set, as `scipy.ndimage.distance_transform_edt` measures.
    Unset,
}

/// The squared distance of every voxel to the nearest target voxel, in units of `spacing` (one
/// number per axis, 1 to 3 axes). Infinite where there is no target voxel.
///
/// # Errors
/// Where shape, values and spacing do not match.
pub fn squared_distances<T>(values: &[T], shape: &[usize], spacing: &[f64], to: To) -> Result<Vec<f64>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    transform(values, shape, spacing, to, |squared, _| squared)
}

/// The distance of every voxel to the nearest target voxel; see [`squared_distances`]. The root is
/// taken in f64.
///
/// # Errors
/// Where shape, values and spacing do not match.
pub fn distances<T>(values: &[T], shape: &[usize], spacing: &[f64], to: To) -> Result<Vec<f32>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    transform(values, shape, spacing, to, |squared, _| squared.sqrt() as f32)
}

/// The distance to the border of the set voxels: positive outside (to the nearest set voxel),
/// negative inside (to the nearest voxel that is not set).
///
/// # Errors
/// Where shape, values and spacing do not match.
pub fn signed_distances<T>(values: &[T], shape: &[usize], spacing: &[f64]) -> Result<Vec<f32>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    let mut out = distances(values, shape, spacing, To::Set)?;
    let inside = distances(values, shape, spacing, To::Unset)?;
    out.par_iter_mut().zip(inside).for_each(|(value, inside)| {
        if inside > 0.0 {
            *value = -inside;
        }
    });
    Ok(out)
}

/// The flat index of the nearest target voxel, `None` without a target. Of several at the same
/// distance, an arbitrary one.
///
/// # Errors
/// Where shape, values and spacing do not match.
pub fn nearest<T>(values: &[T], shape: &[usize], spacing: &[f64], to: To) -> Result<Vec<Option<u32>>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
{
    let grid = Grid::new(values.len(), shape)?;
    let [_, _, ny] = grid.lead;
    transform(values, shape, spacing, to, |squared, [x, y, z]| {
        // Below the limit of `Grid`, so it fits.
        squared.is_finite().then_some(((x as usize * ny + y as usize) * grid.line) as u32 + z)
    })
}

/// A position on an axis, in as few bytes as possible: moving positions from pass to pass takes
/// much of the time.
trait Place: Copy + PartialEq + Send + Sync {
    /// No position.
    const NONE: Self;
    fn new(place: usize) -> Self;
    fn get(self) -> u32;
}

macro_rules! place {
    ($type:ty) => {
        impl Place for $type {
            const NONE: Self = Self::MAX;

            fn new(place: usize) -> Self {
                place as Self
            }

            fn get(self) -> u32 {
                self.into()
            }
        }
    };
}

place!(u16);
place!(u32);

/// A voxel in the plane of the first and last axis; none where `z` is [`Place::NONE`].
#[derive(Clone, Copy)]
struct Site<P> {
    x: P,
    z: P,
}

/// Calls `emit` with each voxel's squared distance and its nearest target voxel.
fn transform<T, O>(
    values: &[T],
    shape: &[usize],
    spacing: &[f64],
    to: To,
    emit: impl Fn(f64, [u32; 3]) -> O + Sync,
) -> Result<Vec<O>, LabelError>
where
    T: Copy + Default + PartialEq + Sync,
    O: Copy + Send + Sync,
{
    let grid = Grid::new(values.len(), shape)?;
    let rank = grid.rank;
    if rank > 3 {
        return Err(LabelError::Rank { found: rank, most: 3 });
    }
    if spacing.len() != rank || !spacing.iter().all(|s| s.is_finite() && *s > 0.0) {
        return Err(LabelError::Spacing { found: spacing.to_vec(), rank });
    }
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let mut scale = [1.0; 3];
    scale[3 - rank..].copy_from_slice(spacing);
    let counts = |value: T| (value != T::default()) == (to == To::Set);
    let short = grid.lead[1].max(grid.line) <= usize::from(u16::MAX);
    Ok(if short {
        passes::<_, _, u16>(values, &grid, scale, counts, emit)
    } else {
        passes::<_, _, u32>(values, &grid, scale, counts, emit)
    })
}

fn passes<T, O, P>(
    values: &[T],
    grid: &Grid,
    scale: [f64; 3],
    counts: impl Fn(T) -> bool + Sync,
    emit: impl Fn(f64, [u32; 3]) -> O + Sync,
) -> Vec<O>
where
    T: Copy + Sync,
    O: Copy + Send + Sync,
    P: Place,
{
    let ([_, nx, ny], nz) = (grid.lead, grid.line);
    let none = Site { x: P::NONE, z: P::NONE };
    let apart = |a: usize, b: P| a as f64 - f64::from(b.get());

    // The nearest voxel within each plane y = const, as [Y][X][Z], so that each thread writes a
    // contiguous range.
    let mut planes = vec![none; values.len()];
    planes.par_chunks_mut(nx * nz).enumerate().for_each_init(
        || (vec![P::NONE; nx * nz], Tile::new(nx, P::NONE), Tile::new(nx, none), Envelope::new(nx)),
        |(sweeps, tile, found, envelope), (y, plane)| {
            for (x, sweep) in sweeps.chunks_exact_mut(nz).enumerate() {
                along_line(&values[(x * ny + y) * nz..][..nz], sweep, &counts);
            }
            for start in (0..nz).step_by(WIDE) {
                tile.gather(start, nz, |x| &sweeps[x * nz..][..nz]);
                for (z, (sites, found)) in (start..nz).zip(tile.columns().zip(found.columns_mut())) {
                    envelope.fill(scale[0], |x| match sites[x] {
                        none if none == P::NONE => f64::INFINITY,
                        site => square(apart(z, site) * scale[2]),
                    });
                    envelope.walk(|x, from| found[x] = Site { x: P::new(from), z: sites[from] });
                    if envelope.is_empty() {
                        found.fill(none);
                    }
                }
                found.scatter(start, nz, plane);
            }
        },
    );

    // A single target voxel gives every column one, so a column without one means that all
    // distances are infinite.
    let infinite = emit(f64::INFINITY, [0; 3]);
    let mut out = vec![infinite; values.len()];
    out.par_chunks_mut(ny * nz).enumerate().for_each_init(
        || (Tile::new(ny, none), Tile::new(ny, infinite), Envelope::new(ny)),
        |(tile, found, envelope), (x, target)| {
            let height =
                |site: Site<P>, z: usize| square(apart(x, site.x) * scale[0]) + square(apart(z, site.z) * scale[2]);
            for start in (0..nz).step_by(WIDE) {
                tile.gather(start, nz, |y| &planes[(y * nx + x) * nz..][..nz]);
                for (z, (sites, found)) in (start..nz).zip(tile.columns().zip(found.columns_mut())) {
                    envelope.fill(scale[1], |y| match sites[y] {
                        Site { z, .. } if z == P::NONE => f64::INFINITY,
                        site => height(site, z),
                    });
                    envelope.walk(|y, from| {
                        let site = sites[from];
                        let squared = height(site, z) + square((y as f64 - from as f64) * scale[1]);
                        found[y] = emit(squared, [site.x.get(), from as u32, site.z.get()]);
                    });
                }
                found.scatter(start, nz, target);
            }
        },
    );
    out
}

/// The number of columns that are processed together: their values are far apart in memory, and are
/// fetched as whole cache lines.
const WIDE: usize = 16;

/// A few columns of a plane, each contiguous.
struct Tile<T> {
    length: usize,
    values: Vec<T>,
}

impl<T: Copy> Tile<T> {
    fn new(length: usize, fill: T) -> Self {
        Tile { length, values: vec![fill; WIDE * length] }
    }

    /// Copies columns `start..` of a plane of `width` columns, given by its rows.
    fn gather<'a>(&mut self, start: usize, width: usize, row: impl Fn(usize) -> &'a [T])
    where
        T: 'a,
    {
        let end = width.min(start + WIDE);
        for place in 0..self.length {
            for (column, value) in row(place)[start..end].iter().enumerate() {
                self.values[column * self.length + place] = *value;
            }
        }
    }

    /// Writes the columns back to a plane.
    fn scatter(&self, start: usize, width: usize, plane: &mut [T]) {
        let end = width.min(start + WIDE);
        for (place, row) in plane.chunks_exact_mut(width).enumerate() {
            for (column, value) in row[start..end].iter_mut().enumerate() {
                *value = self.values[column * self.length + place];
            }
        }
    }

    fn columns(&self) -> impl Iterator<Item = &[T]> {
        self.values.chunks_exact(self.length)
    }

    fn columns_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        self.values.chunks_exact_mut(self.length)
    }
}

fn square(x: f64) -> f64 {
    x * x
}

/// The position of the nearest target voxel, along one line.
fn along_line<T: Copy, P: Place>(values: &[T], nearest: &mut [P], counts: impl Fn(T) -> bool) {
    let mut last = P::NONE;
    for (place, (value, out)) in values.iter().zip(nearest.iter_mut()).enumerate() {
        if counts(*value) {
            last = P::new(place);
        }
        *out = last;
    }
    let mut next = P::NONE;
    for (place, out) in nearest.iter_mut().enumerate().rev() {
        let here = P::new(place);
        if *out == here {
            next = here;
        } else if next != P::NONE && (*out == P::NONE || next.get() - here.get() < here.get() - out.get()) {
            *out = next;
        }
    }
}

/// The lower envelope of parabolas `height(q) + (spacing * (p - q))^2`, one for each position `q`
/// of a line.
///
/// Everything is divided by `spacing^2`: a parabola is `p^2 - 2 p q + lift`, and comparing two at
/// `p` needs no `p^2`.
struct Envelope {
    heights: Vec<f64>,
    /// The parabolas that are lowest somewhere, from left to right; the first `count` entries.
    parabolas: Vec<Parabola>,
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Parabola {
    /// The parabola's position.
    at: f64,
    /// `height / spacing^2 + at^2`.
    lift: f64,
}

impl Parabola {
    fn above(self, place: f64) -> f64 {
        self.lift - 2.0 * place * self.at
    }
}

impl Envelope {
    fn new(length: usize) -> Self {
        Envelope { heights: vec![0.0; length], parabolas: vec![Parabola::default(); length], count: 0 }
    }

    /// Whether there are no parabolas.
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Builds the envelope; an infinite height adds no parabola.
    fn fill(&mut self, spacing: f64, height: impl Fn(usize) -> f64) {
        let per_square = 1.0 / square(spacing);
        for (place, value) in self.heights.iter_mut().enumerate() {
            *value = height(place) * per_square;
        }
        let (heights, kept) = (&self.heights, &mut self.parabolas);
        let zero = |place: usize| heights.get(place) == Some(&0.0);
        let mut count = 0;
        for (place, height) in heights.iter().enumerate() {
            // Within a run of zeros a parabola is lowest at its own position only, which `walk`
            // handles.
            let hidden = *height == 0.0 && place > 0 && zero(place - 1) && zero(place + 1);
            if hidden || *height == f64::INFINITY {
                continue;
            }
            let at = place as f64;
            let new = Parabola { at, lift: height + at * at };
            while count >= 2 {
                let [left, last] = [kept[count - 2], kept[count - 1]];
                // Where `last` intersects `left`, it is already above `new`: intersections are
                // compared without a division.
                if (last.lift - left.lift) * (new.at - last.at) < (new.lift - last.lift) * (last.at - left.at) {
                    break;
                }
                count -= 1;
            }
            kept[count] = new;
            count += 1;
        }
        self.count = count;
    }

    /// Calls `visit(p, q)` for each position `p` with the `q` whose parabola is lowest there;
    /// never, without parabolas.
    fn walk(&self, mut visit: impl FnMut(usize, usize)) {
        let Some((mut lowest, mut rest)) = self.parabolas[..self.count].split_first() else { return };
        for (place, height) in self.heights.iter().enumerate() {
            if *height == 0.0 {
                visit(place, place);
                continue;
            }
            let mut least = lowest.above(place as f64);
            while let Some((next, others)) = rest.split_first() {
                let value = next.above(place as f64);
                if value >= least {
                    break;
                }
                (lowest, rest, least) = (next, others, value);
            }
            visit(place, lowest.at as usize);
        }
    }
}
