//! Frequencies of an image. Fourier transforms run on the CPU, by `rustfft`.

use std::f64::consts::TAU;

use rayon::prelude::*;
use realfft::RealFftPlanner;
use realfft::num_complex::{Complex32, Complex64};
use rustfft::{Fft, FftPlanner};

/// The spectrum of one channel. The spectrum of real values is symmetric, so half of the last axis
/// is sufficient.
pub(super) struct Spectrum {
    /// Coefficients, row-major `[zh, y, x]` with `zh = z / 2 + 1`.
    values: Vec<Complex32>,
    /// Shape `[x, y, z]` of the channel; `[1, x, y]` for a 2-D image, so that its last axis has
    /// more than one value.
    shape: [usize; 3],
}

/// A 2-D channel is one plane of rows.
fn rows_last(shape: [usize; 3]) -> [usize; 3] {
    if shape[2] == 1 { [1, shape[0], shape[1]] } else { shape }
}

/// Converts a frequency of the spectrum's axes to the channel's own axes.
fn own_axes(shape: [usize; 3], frequency: [usize; 3]) -> [usize; 3] {
    if shape[2] == 1 { [frequency[1], frequency[2], 0] } else { frequency }
}

impl Spectrum {
    /// Transforms the values, `[x, y, z]` row-major. No axis may be empty.
    pub fn of(values: &[f32], shape: [usize; 3]) -> Self {
        let shape = rows_last(shape);
        let [nx, ny, nz] = shape;
        let half = nz / 2 + 1;
        let rows = RealFftPlanner::<f32>::new().plan_fft_forward(nz);
        let columns = FftPlanner::<f32>::new().plan_fft_forward(ny);
        let mut planes = vec![Complex32::default(); nx * ny * half];
        planes.par_chunks_mut(ny * half).zip(values.par_chunks(ny * nz)).for_each_init(
            || (rows.make_input_vec(), rows.make_scratch_vec(), vec![Complex32::default(); ny * half]),
            |(row, scratch, plane), (out, values)| {
                for (out, values) in plane.chunks_exact_mut(half).zip(values.chunks_exact(nz)) {
                    row.copy_from_slice(values);
                    // Lengths are those of the plan.
                    let _ = rows.process_with_scratch(row, out, scratch);
                }
                transpose(plane, ny, half, out);
                columns.process(out);
            },
        );
        let mut values = vec![Complex32::default(); planes.len()];
        across(&planes, nx, ny * half, &mut values);
        each_line(&mut values, nx, &*FftPlanner::<f32>::new().plan_fft_forward(nx));
        Spectrum { values, shape }
    }

    /// Transforms back to values, divided by their number.
    pub fn into_values(mut self, values: &mut [f32]) {
        let [nx, ny, nz] = self.shape;
        let half = nz / 2 + 1;
        each_line(&mut self.values, nx, &*FftPlanner::<f32>::new().plan_fft_inverse(nx));
        let mut planes = vec![Complex32::default(); self.values.len()];
        across(&self.values, ny * half, nx, &mut planes);
        let columns = FftPlanner::<f32>::new().plan_fft_inverse(ny);
        let rows = RealFftPlanner::<f32>::new().plan_fft_inverse(nz);
        let scale = 1.0 / (nx * ny * nz) as f32;
        values.par_chunks_mut(ny * nz).zip(planes.par_chunks_mut(ny * half)).for_each_init(
            || (rows.make_scratch_vec(), vec![Complex32::default(); ny * half]),
            |(scratch, plane), (values, transposed)| {
                columns.process(transposed);
                transpose(transposed, half, ny, plane);
                for (values, line) in values.chunks_exact_mut(nz).zip(plane.chunks_exact_mut(half)) {
                    // The values are real up to rounding, and the plan requires exactly real ones.
                    line[0].im = 0.0;
                    if nz % 2 == 0 {
                        line[half - 1].im = 0.0;
                    }
                    let _ = rows.process_with_scratch(line, values, scratch);
                    values.iter_mut().for_each(|v| *v *= scale);
                }
            },
        );
    }

    /// Multiplies each coefficient by a real number; `weight` receives its frequency along the
    /// channel's own axes, and must return the same number for the opposite frequency.
    pub fn weigh(&mut self, shape: [usize; 3], weight: impl Fn([usize; 3]) -> f32 + Sync) {
        let [nx, ny, _] = self.shape;
        self.values.par_chunks_mut(nx).enumerate().for_each(|(line, values)| {
            for (x, value) in values.iter_mut().enumerate() {
                *value *= weight(own_axes(shape, [x, line % ny, line / ny]));
            }
        });
    }

    /// Returns the mean of `ln(|k| + 1e-10)` over all frequencies.
    pub fn mean_log(&self) -> f64 {
        let [nx, ny, nz] = self.shape;
        let total: Vec<f64> = self
            .values
            .par_chunks(nx)
            .enumerate()
            .map(|(line, values)| {
                let z = line / ny;
                // Every other coefficient also represents its mirror image.
                let times = if z == 0 || 2 * z == nz { 1.0 } else { 2.0 };
                times * values.iter().map(|k| f64::from(k.norm() + 1e-10).ln()).sum::<f64>()
            })
            .collect();
        total.iter().sum::<f64>() / (nx * ny * nz) as f64
    }
}

/// Transforms each row of `n` values.
fn each_line(values: &mut [Complex32], n: usize, plan: &dyn Fft<f32>) {
    // Several lines at a time share one scratch buffer.
    values.par_chunks_mut(n * 4096_usize.div_ceil(n)).for_each(|lines| plan.process(lines));
}

/// Transposes `[rows, columns]` to `[columns, rows]`.
fn transpose(from: &[Complex32], rows: usize, columns: usize, to: &mut [Complex32]) {
    for (column, to) in to.chunks_exact_mut(rows).enumerate() {
        for (row, to) in to.iter_mut().enumerate() {
            *to = from[row * columns + column];
        }
    }
}

/// Transposes arrays that are larger than the cache, in threads.
fn across(from: &[Complex32], rows: usize, columns: usize, to: &mut [Complex32]) {
    /// The number of columns that are read together: a cache line of them.
    const WIDE: usize = 8;
    to.par_chunks_mut(rows * WIDE).enumerate().for_each(|(block, to)| {
        let wide = to.len() / rows;
        for row in 0..rows {
            let line = &from[row * columns + block * WIDE..][..wide];
            line.iter().enumerate().for_each(|(column, value)| to[column * rows + row] = *value);
        }
    });
}

/// A wave along an axis: `exp(2 pi i * frequency * index / length)` per index.
fn wave(frequency: usize, n: usize) -> Vec<Complex64> {
    (0..n).map(|place| Complex64::cis(TAU * ((frequency * place) % n) as f64 / n as f64)).collect()
}

/// Returns the waves along the three axes, and their shape, whose last axis is a long row.
fn waves(shape: [usize; 3], frequency: [usize; 3]) -> ([usize; 3], [Vec<Complex64>; 3]) {
    let frequency = if shape[2] == 1 { [0, frequency[0], frequency[1]] } else { frequency };
    let shape = rows_last(shape);
    (shape, std::array::from_fn(|axis| wave(frequency[axis], shape[axis])))
}

/// Returns one coefficient of the transform, by its definition.
pub(super) fn coefficient(values: &[f32], shape: [usize; 3], frequency: [usize; 3]) -> Complex64 {
    let (shape, [xs, ys, zs]) = waves(shape, frequency);
    let rows: Vec<Complex64> = values
        .par_chunks(shape[2])
        .enumerate()
        .map(|(row, values)| {
            let inner = values.iter().zip(&zs).map(|(v, e)| e.conj() * f64::from(*v)).sum::<Complex64>();
            inner * (xs[row / shape[1]] * ys[row % shape[1]]).conj()
        })
        .collect();
    rows.iter().sum()
}

/// Adds the real part of the wave of one coefficient.
pub(super) fn add_wave(values: &mut [f32], shape: [usize; 3], frequency: [usize; 3], change: Complex64) {
    let (shape, [xs, ys, zs]) = waves(shape, frequency);
    let change = change / shape.iter().product::<usize>() as f64;
    values.par_chunks_mut(shape[2]).enumerate().for_each(|(row, values)| {
        let here = change * xs[row / shape[1]] * ys[row % shape[1]];
        values.iter_mut().zip(&zs).for_each(|(v, e)| *v += (here.re * e.re - here.im * e.im) as f32);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919) % 101) as f32 / 10.0).collect()
    }

    #[test]
    fn there_and_back() {
        for shape in [[4, 5, 6], [3, 8, 7], [9, 6, 1], [1, 1, 1], [5, 1, 1], [2, 1, 3]] {
            let before = values(shape.iter().product());
            let mut after = vec![0.0; before.len()];
            Spectrum::of(&before, shape).into_values(&mut after);
            for (a, b) in after.iter().zip(&before) {
                assert!((a - b).abs() < 1e-4, "{shape:?}: {a} for {b}");
            }
        }
    }

    /// Removing all frequencies except one leaves the wave of its coefficient, which the definition
    /// yields.
    #[test]
    fn one_frequency_is_one_wave() {
        for (shape, frequency) in [([4, 5, 6], [1, 2, 2]), ([4, 6, 1], [3, 5, 0]), ([3, 4, 5], [0, 0, 0])] {
            let before = values(shape.iter().product());
            let opposite: [usize; 3] = std::array::from_fn(|a| (shape[a] - frequency[a]) % shape[a]);
            let mut spectrum = Spectrum::of(&before, shape);
            spectrum.weigh(shape, |k| f32::from(k == frequency || k == opposite));
            let mut kept = vec![0.0; before.len()];
            spectrum.into_values(&mut kept);
            let mut waves = vec![0.0; before.len()];
            add_wave(&mut waves, shape, frequency, coefficient(&before, shape, frequency));
            if opposite != frequency {
                add_wave(&mut waves, shape, opposite, coefficient(&before, shape, opposite));
            }
            for (a, b) in kept.iter().zip(&waves) {
                assert!((a - b).abs() < 1e-4, "{shape:?}: {a} for {b}");
            }
        }
    }

    #[test]
    fn the_mean_counts_every_frequency() {
        for shape in [[4, 5, 6], [3, 2, 7], [4, 6, 1]] {
            let values = values(shape.iter().product());
            let mut sum = 0.0;
            for x in 0..shape[0] {
                for y in 0..shape[1] {
                    for z in 0..shape[2] {
                        sum += (coefficient(&values, shape, [x, y, z]).norm() + 1e-10).ln();
                    }
                }
            }
            let mean = sum / values.len() as f64;
            let got = Spectrum::of(&values, shape).mean_log();
            // Where a coefficient is almost 0, rounding to f32 dominates its logarithm.
            assert!((got - mean).abs() < 2e-2, "{shape:?}: {got} for {mean}");
        }
    }
}
