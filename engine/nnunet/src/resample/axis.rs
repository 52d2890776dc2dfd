//! Resamples one channel in f64, one axis at a time: nearest, linear or cubic, with an optional
//! separate axis.

use rayon::prelude::*;

use super::spline;
use crate::volume::Axes3;

/// The number of lines that are filtered together.
const LANES: usize = 16;

/// Resamples a volume. The separate axis uses nearest, after the other axes of each of its slices.
/// Results are clamped to the range of the input: of each slice, or of the whole volume.
pub(super) fn resample(mut data: Vec<f64>, from: Axes3, to: Axes3, order: u8, separate: Option<usize>) -> Vec<f64> {
    let Some(apart) = separate else {
        let limits = limits(&data);
        let mut shape = from;
        for (axis, size) in to.into_iter().enumerate() {
            data = along(data, &mut shape, axis, size, order);
        }
        clip(&mut data, limits);
        return data;
    };
    // The slices of the separate axis, one after the other.
    let bounds: Vec<(f64, f64)> = (0..from[apart]).map(|index| limits_of(&data, from, apart, index)).collect();
    let mut shape = from;
    for axis in (0..3).filter(|axis| *axis != apart) {
        data = along(data, &mut shape, axis, to[axis], order);
    }
    let inner: usize = shape[apart + 1..].iter().product();
    data.par_chunks_mut(inner.max(1)).enumerate().for_each(|(row, values)| clip(values, bounds[row % shape[apart]]));
    along(data, &mut shape, apart, to[apart], 0)
}

fn limits(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
}

/// The smallest and the largest value of one slice.
fn limits_of(data: &[f64], shape: Axes3, axis: usize, index: usize) -> (f64, f64) {
    let inner: usize = shape[axis + 1..].iter().product();
    let rows = data.chunks(inner.max(1)).skip(index).step_by(shape[axis]);
    rows.map(limits).fold((f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b.0), a.1.max(b.1)))
}

fn clip(values: &mut [f64], (low, high): (f64, f64)) {
    values.iter_mut().for_each(|value| *value = value.max(low).min(high));
}

/// The index below a sample's position, and the distance from it.
pub(super) fn position(i: usize, n: usize, m: usize) -> f64 {
    (i as f64 + 0.5) * (n as f64 / m as f64) - 0.5
}

/// The two neighbours of a position within an axis, and the weight of the second one.
pub(super) fn linear(i: usize, n: usize, m: usize) -> (usize, usize, f64) {
    let at = position(i, n, m).clamp(0.0, (n - 1) as f64);
    let low = at.floor() as usize;
    (low, (low + 1).min(n - 1), at - low as f64)
}

/// The nearest index of an axis; a half rounds up.
pub(super) fn nearest(i: usize, n: usize, m: usize) -> usize {
    (position(i, n, m) + 0.5).floor().clamp(0.0, (n - 1) as f64) as usize
}

/// Resamples an axis to `m` voxels with this order, and updates the shape.
fn along(data: Vec<f64>, shape: &mut Axes3, axis: usize, m: usize, order: u8) -> Vec<f64> {
    let n = shape[axis];
    if n == m {
        return data;
    }
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    shape[axis] = m;
    let lines = Lines { n, m, order, table: Table::new(n, m, order) };
    let mut out = vec![0.0; outer * m * inner];
    if outer == 1 {
        // All threads write rows of the result, one group of columns after the other.
        let width = (inner.div_ceil(4 * rayon::current_num_threads().max(1))).next_multiple_of(LANES).min(inner.max(1));
        let strips: Vec<Vec<f64>> = (0..inner.div_ceil(width.max(1)))
            .into_par_iter()
            .map(|strip| {
                let columns = strip * width..((strip + 1) * width).min(inner);
                let mut part = vec![0.0; m * columns.len()];
                lines.columns(&data, inner, columns, &mut part);
                part
            })
            .collect();
        out.par_chunks_mut(inner).enumerate().for_each(|(row, out)| {
            for (part, target) in strips.iter().zip(out.chunks_mut(width)) {
                target.copy_from_slice(&part[row * target.len()..][..target.len()]);
            }
        });
        return out;
    }
    if inner == 1 {
        let pairs = out.par_chunks_mut(m * LANES).zip(data.par_chunks(n * LANES));
        pairs.for_each(|(out, rows)| lines.rows(rows, out));
        return out;
    }
    let blocks = out.par_chunks_mut(m * inner).zip(data.par_chunks(n * inner));
    blocks.for_each(|(out, block)| lines.columns(block, inner, 0..inner, out));
    out
}

/// How a line of the result is computed.
enum Table {
    Nearest(Vec<usize>),
    Linear(Vec<(usize, usize, f64)>),
    Cubic(Vec<spline::Tap>),
}

impl Table {
    fn new(n: usize, m: usize, order: u8) -> Self {
        match order {
            0 => Table::Nearest((0..m).map(|i| nearest(i, n, m)).collect()),
            1 => Table::Linear((0..m).map(|i| linear(i, n, m)).collect()),
            _ => Table::Cubic((0..m).map(|i| spline::tap(position(i, n, m), n)).collect()),
        }
    }
}

/// Lines of `n` values that are resampled to `m`.
struct Lines {
    n: usize,
    m: usize,
    order: u8,
    table: Table,
}

impl Lines {
    /// Resamples lines across rows: some columns of `[n, inner]`, written as `[m, columns]`.
    fn columns(&self, data: &[f64], inner: usize, columns: std::ops::Range<usize>, out: &mut [f64]) {
        let width = columns.len();
        let row = |at: usize| &data[at * inner..][columns.clone()];
        match &self.table {
            Table::Nearest(table) => {
                out.chunks_mut(width).zip(table).for_each(|(out, at)| out.copy_from_slice(row(*at)));
            }
            Table::Linear(table) => {
                for (out, (low, high, t)) in out.chunks_mut(width).zip(table) {
                    let pairs = row(*low).iter().zip(row(*high));
                    out.iter_mut().zip(pairs).for_each(|(out, (a, b))| *out = (1.0 - t) * a + t * b);
                }
            }
            Table::Cubic(table) => {
                let padded = self.n + 2 * spline::PAD;
                let mut lines = vec![[0.0; LANES]; padded];
                for first in (0..width).step_by(LANES) {
                    let lanes = LANES.min(width - first);
                    for (at, line) in lines.iter_mut().enumerate() {
                        let source = &row(spline::source(at, self.n))[first..first + lanes];
                        line[..lanes].copy_from_slice(source);
                    }
                    spline::filter(&mut lines);
                    for (out, tap) in out.chunks_mut(width).zip(table) {
                        out[first..first + lanes].copy_from_slice(&spline::value(&lines, tap)[..lanes]);
                    }
                }
            }
        }
    }

    /// Resamples lines along rows: up to [`LANES`] rows of `n`, written as rows of `m`.
    fn rows(&self, rows: &[f64], out: &mut [f64]) {
        match &self.table {
            Table::Nearest(table) => {
                for (out, row) in out.chunks_mut(self.m).zip(rows.chunks(self.n)) {
                    out.iter_mut().zip(table).for_each(|(out, at)| *out = row[*at]);
                }
            }
            Table::Linear(table) => {
                for (out, row) in out.chunks_mut(self.m).zip(rows.chunks(self.n)) {
                    let pairs = out.iter_mut().zip(table);
                    pairs.for_each(|(out, (low, high, t))| *out = (1.0 - t) * row[*low] + t * row[*high]);
                }
            }
            Table::Cubic(table) => {
                debug_assert_eq!(self.order, 3);
                let mut lines = vec![[0.0; LANES]; self.n + 2 * spline::PAD];
                for (at, line) in lines.iter_mut().enumerate() {
                    let source = spline::source(at, self.n);
                    line.iter_mut().zip(rows.chunks(self.n)).for_each(|(value, row)| *value = row[source]);
                }
                spline::filter(&mut lines);
                for (i, tap) in table.iter().enumerate() {
                    let values = spline::value(&lines, tap);
                    out.chunks_mut(self.m).zip(values).for_each(|(out, value)| out[i] = value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_images_stay_linear_inside() {
        let [nz, ny, nx] = [9, 7, 20];
        let value = |z: f64, y: f64, x: f64| 2.0 * z - y + 0.5 * x;
        let mut data = Vec::new();
        for z in 0..nz {
            for y in 0..ny {
                data.extend((0..nx).map(|x| value(z as f64, y as f64, x as f64)));
            }
        }
        let to = [13, 5, 33];
        for order in [1, 3] {
            let out = resample(data.clone(), [nz, ny, nx], to, order, None);
            // Away from the edges, where values are repeated.
            for (z, y, x) in [(6, 2, 16), (5, 2, 14), (7, 3, 20)] {
                let at = [(z, nz, to[0]), (y, ny, to[1]), (x, nx, to[2])].map(|(i, n, m)| position(i, n, m));
                let expected = value(at[0], at[1], at[2]);
                let found = out[(z * to[1] + y) * to[2] + x];
                // The influence of an axis's ends decays inside by powers of 0.27.
                assert!((found - expected).abs() < 0.1, "order {order}: {found}, expected {expected}");
            }
        }
    }

    #[test]
    fn a_separate_axis_is_nearest_and_clipped_by_slice() {
        let data: Vec<f64> = (0..3 * 4 * 4).map(|i| if i % 16 == 5 { (i / 16 + 1) as f64 } else { 0.0 }).collect();
        let out = resample(data, [3, 4, 4], [6, 8, 8], 3, Some(0));
        for z in 0..6 {
            let slice = &out[z * 64..][..64];
            let (low, high) = limits(slice);
            assert!(low == 0.0 && high <= (z / 2 + 1) as f64, "slice {z}: {low} to {high}");
            assert_eq!(slice, &out[(z / 2 * 2) * 64..][..64]);
        }
    }

    /// `skimage.transform.resize(a, (5,), order=3, mode="edge", anti_aliasing=False)` of scikit-image
    /// 0.26.0.
    #[test]
    fn every_axis_gives_the_same_line() {
        let line = [0.0, 1.0, 4.0, 2.0, -3.0, 7.0, 5.0, 5.0];
        let as_axis = |axis: usize| {
            let mut from = [1; 3];
            from[axis] = 8;
            let mut to = [1; 3];
            to[axis] = 5;
            resample(line.to_vec(), from, to, 3, None)
        };
        let [a, b, c] = [0, 1, 2].map(as_axis);
        assert_eq!(a, b);
        assert_eq!(b, c);
    }
}
