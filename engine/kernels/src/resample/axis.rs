//! Where a coordinate reads, and with what weights.

use super::{Interpolation, Matrix, Padding, Sampling};

/// The two voxels that one coordinate reads, and their weights (0 outside the image under zero padding).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taps {
    pub low: usize,
    pub high: usize,
    pub weight_low: f32,
    pub weight_high: f32,
}

/// The taps of every output index along one axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub low: Vec<u32>,
    pub high: Vec<u32>,
    pub weight_low: Vec<f32>,
    pub weight_high: Vec<f32>,
}

/// Builds the table of axis `axis` of a diagonal matrix, for `size` outputs from `n` inputs.
pub(crate) fn axis_table(matrix: &Matrix, axis: usize, n: usize, size: usize, sampling: Sampling) -> Axis {
    let (step, start) = (matrix[axis][axis], matrix[axis][3]);
    let mut table = Axis {
        low: Vec::with_capacity(size),
        high: Vec::with_capacity(size),
        weight_low: Vec::with_capacity(size),
        weight_high: Vec::with_capacity(size),
    };
    for i in 0..size {
        let t = taps(start + step * i as f64, n, sampling);
        table.low.push(t.low as u32);
        table.high.push(t.high as u32);
        table.weight_low.push(t.weight_low);
        table.weight_high.push(t.weight_high);
    }
    table
}

/// What a coordinate reads on an axis of `n` voxels.
#[inline]
pub(crate) fn taps(coordinate: f64, n: usize, sampling: Sampling) -> Taps {
    let c = fold(coordinate, n, sampling.padding);
    let last = (n - 1) as f64;
    match sampling.mode {
        Interpolation::Nearest => {
            let rounded = c.round_ties_even();
            let inside = rounded >= 0.0 && rounded <= last;
            let index = if inside { rounded as usize } else { 0 };
            Taps { low: index, high: index, weight_low: if inside { 1.0 } else { 0.0 }, weight_high: 0.0 }
        }
        Interpolation::Linear => {
            let floor = c.floor();
            let fraction = c - floor;
            let (low, low_in) = place(floor, last);
            let (high, high_in) = place(floor + 1.0, last);
            Taps {
                low,
                high,
                weight_low: if low_in { (1.0 - fraction) as f32 } else { 0.0 },
                weight_high: if high_in { fraction as f32 } else { 0.0 },
            }
        }
    }
}

#[inline]
fn place(index: f64, last: f64) -> (usize, bool) {
    // A NaN coordinate counts as outside.
    let inside = index >= 0.0 && index <= last;
    (if inside { index as usize } else { 0 }, inside)
}

/// Brings a coordinate into the image as the padding says; zero padding leaves it alone.
#[inline]
fn fold(c: f64, n: usize, padding: Padding) -> f64 {
    let last = (n - 1) as f64;
    match padding {
        Padding::Zeros => c,
        Padding::Border => c.clamp(0.0, last),
        Padding::Reflection => reflect(c, -0.5, n as f64).clamp(0.0, last),
        Padding::Mirror => reflect(c, 0.0, last).clamp(0.0, last),
    }
}

fn reflect(c: f64, low: f64, span: f64) -> f64 {
    if span <= 0.0 {
        return 0.0;
    }
    let distance = (c - low).abs();
    let rest = distance % span;
    if (distance / span).floor() % 2.0 == 0.0 { rest + low } else { span - rest + low }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: Interpolation = Interpolation::Linear;

    #[test]
    fn zero_padding_fades_out_over_one_voxel() {
        let s = Sampling { mode: LINEAR, padding: Padding::Zeros };
        let t = taps(-0.25, 4, s);
        assert_eq!((t.weight_low, t.high, t.weight_high), (0.0, 0, 0.75));
        let t = taps(5.0, 4, s);
        assert_eq!((t.weight_low, t.weight_high), (0.0, 0.0));
    }

    #[test]
    fn half_way_goes_to_the_even_voxel() {
        let s = Sampling { mode: Interpolation::Nearest, padding: Padding::Border };
        let picked: Vec<usize> = [0.5, 1.5, 2.5, 3.5].iter().map(|c| taps(*c, 5, s).low).collect();
        assert_eq!(picked, [0, 2, 2, 4]);
    }

    #[test]
    fn reflection_repeats_the_edge_and_mirror_does_not() {
        let pick = |c, padding| taps(c, 3, Sampling { mode: Interpolation::Nearest, padding }).low;
        assert_eq!([-1.0, -2.0, 3.0, 4.0].map(|c| pick(c, Padding::Reflection)), [0, 1, 2, 1]);
        assert_eq!([-1.0, -2.0, 3.0, 4.0].map(|c| pick(c, Padding::Mirror)), [1, 2, 1, 0]);
    }
}
