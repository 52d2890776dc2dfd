//! The voxels that a coordinate reads, and their weights.

use super::{Interpolation, Padding, Sampling, Target};
use crate::interpolate::cubic_weights;
use crate::separable::AxisTaps;

/// The maximum number of taps of any mode along one axis (a spline of order 5).
pub(crate) const MOST_TAPS: usize = 6;

impl Interpolation {
    /// The number of voxels that one coordinate reads along one axis.
    pub(crate) fn taps(self) -> usize {
        match self {
            Interpolation::Nearest => 1,
            Interpolation::Linear => 2,
            Interpolation::Cubic => 4,
            Interpolation::Spline(order) => usize::from(order) + 1,
        }
    }

    /// The first tap of a coordinate.
    #[inline(always)]
    pub(crate) fn first_tap(self, c: f64) -> f64 {
        match self {
            Interpolation::Nearest => c.round_ties_even(),
            Interpolation::Linear => c.floor(),
            Interpolation::Cubic => c.floor() - 1.0,
            Interpolation::Spline(order) if order % 2 == 1 => c.floor() - f64::from(order / 2),
            Interpolation::Spline(order) => (c + 0.5).floor() - f64::from(order / 2),
        }
    }

    /// The weights of a coordinate's taps, the first of which is `first`.
    #[inline(always)]
    pub(crate) fn weigh(self, c: f64, first: f64, weights: &mut [f32]) {
        match self {
            Interpolation::Nearest | Interpolation::Spline(0) => weights[0] = 1.0,
            Interpolation::Linear | Interpolation::Spline(1) => {
                let fraction = c - first;
                weights[0] = (1.0 - fraction) as f32;
                weights[1] = fraction as f32;
            }
            Interpolation::Cubic => {
                let t = c - first - 1.0;
                weights.iter_mut().zip(cubic_weights(t)).for_each(|(weight, value)| *weight = value as f32);
            }
            Interpolation::Spline(order) => b_spline(order, c - first - f64::from(order / 2), weights),
        }
    }
}

/// The B-spline's values at its taps, for a coordinate `x` from its middle tap (order 2 and 4) or
/// the one before its middle.
#[inline(always)]
fn b_spline(order: u8, x: f64, weights: &mut [f32]) {
    let mut put = |values: [f64; MOST_TAPS]| {
        weights.iter_mut().zip(values).for_each(|(weight, value)| *weight = value as f32);
    };
    let y = 1.0 - x;
    match order {
        2 => {
            let (a, b) = (0.5 - x, 0.5 + x);
            put([a * a / 2.0, 0.75 - x * x, b * b / 2.0, 0.0, 0.0, 0.0]);
        }
        3 => {
            let middle = |d: f64| (d * d * (d * 3.0 - 6.0) + 4.0) / 6.0;
            put([y * y * y / 6.0, middle(x), middle(y), x * x * x / 6.0, 0.0, 0.0]);
        }
        4 => {
            let (a, b, t) = ((0.5 - x) * (0.5 - x), (0.5 + x) * (0.5 + x), x * x);
            let side = |d: f64| (((-4.0 * d + 20.0) * d - 30.0) * d + 5.0) * d / 24.0 + 55.0 / 96.0;
            let middle = (t - 2.5) * t / 4.0 + 115.0 / 192.0;
            put([a * a / 24.0, side(1.0 + x), middle, side(y), b * b / 24.0, 0.0]);
        }
        _ => {
            let fifth = |d: f64| d * d * d * d * d / 120.0;
            let side = |d: f64| ((((d - 9.0) * d + 30.0) * d - 42.0) * d + 15.0) * d / 24.0 + 0.425;
            let middle = |d: f64| d * d * (d * d * (3.0 - d) - 6.0) / 12.0 + 0.55;
            put([fifth(y), side(1.0 + x), middle(x), middle(y), side(1.0 + y), fifth(x)]);
        }
    }
}

/// Finds the taps of a coordinate on an axis of `n` voxels; `index` and `weight` have one element
/// per tap.
#[inline(always)]
pub(crate) fn find(c: f64, n: usize, sampling: Sampling, index: &mut [usize], weight: &mut [f32]) {
    index.fill(0);
    weight.fill(0.0);
    if n == 1 && c == 0.0 {
        weight[0] = 1.0;
        return;
    }
    // A NaN coordinate counts as outside.
    let Some(c) = fold(c, n, sampling).filter(|c| !c.is_nan()) else { return };
    let c = c.clamp(-1e15, 1e15);
    let first = sampling.mode.first_tap(c);
    sampling.mode.weigh(c, first, weight);
    for (t, (index, weight)) in index.iter_mut().zip(weight).enumerate() {
        match place(first as i64 + t as i64, n as i64, sampling.padding) {
            Some(i) => *index = i,
            None => *weight = 0.0,
        }
    }
}

/// Folds a coordinate into the image, for the modes and paddings that fold coordinates; `None`
/// where nothing is read.
#[inline(always)]
pub(crate) fn fold(c: f64, n: usize, Sampling { mode, padding }: Sampling) -> Option<f64> {
    let last = (n - 1) as f64;
    // grid_sample reflects coordinates for these two modes, and taps for cubic; so do splines.
    let simple = matches!(mode, Interpolation::Nearest | Interpolation::Linear);
    Some(match padding {
        Padding::Zeros => c,
        Padding::Border if mode == Interpolation::Cubic => c,
        Padding::Border => c.clamp(0.0, last),
        Padding::Reflection if simple => reflect(c, -0.5, n as f64).clamp(0.0, last),
        Padding::Mirror if simple => reflect(c, 0.0, last).clamp(0.0, last),
        Padding::Reflection | Padding::Mirror => c,
        Padding::Cut => {
            // Rounding errors must not blank the edge.
            if c < -EDGE || c > last + EDGE {
                return None;
            }
            c.clamp(0.0, last)
        }
        Padding::Wrap if n == 1 => 0.0,
        Padding::Wrap if (0.0..=last).contains(&c) => c,
        // A coordinate a whole period below 0 is the last voxel, above it the first.
        Padding::Wrap if c < 0.0 => c + last * ((-c / last).trunc() + 1.0),
        Padding::Wrap => c % last,
        Padding::GridWrap => c,
    })
}

/// The distance beyond the outermost voxels at which [`Padding::Cut`] still reads them.
pub(crate) const EDGE: f64 = 1e-6;

/// The voxel that a tap reads.
#[inline(always)]
fn place(i: i64, n: i64, padding: Padding) -> Option<usize> {
    if (0..n).contains(&i) {
        return Some(i as usize);
    }
    let folded = match padding {
        Padding::Zeros => return None,
        Padding::Border => i.clamp(0, n - 1),
        Padding::Reflection => {
            let f = i.rem_euclid(2 * n);
            f.min(2 * n - 1 - f)
        }
        Padding::Mirror | Padding::Cut | Padding::Wrap if n == 1 => 0,
        Padding::Mirror | Padding::Cut | Padding::Wrap => {
            let f = i.rem_euclid(2 * n - 2);
            f.min(2 * n - 2 - f)
        }
        Padding::GridWrap => i.rem_euclid(n),
    };
    Some(folded as usize)
}

fn reflect(c: f64, low: f64, span: f64) -> f64 {
    if span <= 0.0 {
        return 0.0;
    }
    let distance = (c - low).abs();
    let rest = distance % span;
    if (distance / span).floor() % 2.0 == 0.0 { rest + low } else { span - rest + low }
}

/// The coordinates whose taps all lie within `n` voxels, where no padding rule is needed:
/// `low <= c < high`.
pub(crate) fn interior(n: usize, mode: Interpolation) -> (f64, f64) {
    let n = n as f64;
    match mode {
        Interpolation::Nearest => (0.0, n - 1.0),
        Interpolation::Linear => (0.0, n - 1.0),
        Interpolation::Cubic => (1.0, n - 2.0),
        Interpolation::Spline(order) => {
            let (half, order) = (f64::from(order / 2), f64::from(order));
            if order % 2.0 == 1.0 {
                (half, n - order + half)
            } else {
                // The splines' own fold is the identity only between the outermost centres.
                ((half - 0.5).max(0.0), (n - half - 0.5).min(n - 1.0))
            }
        }
    }
}

/// The taps of every output index along one axis of a diagonal matrix, from `n` inputs.
pub(crate) fn table(target: &Target, axis: usize, n: usize, sampling: Sampling) -> AxisTaps {
    let (step, start) = (target.matrix[axis][axis], target.matrix[axis][3]);
    let (origin, size) = (target.origin[axis], target.size[axis]);
    let taps = sampling.mode.taps();
    let (mut index, mut weight) = (vec![0; size * taps], vec![0.0_f32; size * taps]);
    let mut found = [0; MOST_TAPS];
    let mut counts = None;
    for (i, (index, weight)) in index.chunks_exact_mut(taps).zip(weight.chunks_exact_mut(taps)).enumerate() {
        find(start + step * (origin + i) as f64, n, sampling, &mut found[..taps], weight);
        // A tap of weight 0 reads the same voxel as another one, so that no additional voxel is
        // accessed.
        counts = weight.iter().position(|w| *w != 0.0).map(|t| found[t]).or(counts);
        for (t, index) in index.iter_mut().enumerate() {
            *index = if weight[t] == 0.0 { counts.unwrap_or(usize::MAX) } else { found[t] } as u32;
        }
    }
    // Taps before the first one with a weight.
    let first = index.iter().copied().find(|i| *i != u32::MAX).unwrap_or(0);
    index.iter_mut().filter(|i| **i == u32::MAX).for_each(|i| *i = first);
    AxisTaps::new(taps, index, weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(c: f64, n: usize, mode: Interpolation, padding: Padding) -> Vec<(usize, f32)> {
        let taps = mode.taps();
        let (mut index, mut weight) = ([0; MOST_TAPS], [0.0; MOST_TAPS]);
        find(c, n, Sampling { mode, padding }, &mut index[..taps], &mut weight[..taps]);
        (0..taps).map(|t| (index[t], weight[t])).collect()
    }

    #[test]
    fn zero_padding_fades_out_over_one_voxel() {
        let t = found(-0.25, 4, Interpolation::Linear, Padding::Zeros);
        assert_eq!((t[0].1, t[1]), (0.0, (0, 0.75)));
        assert!(found(5.0, 4, Interpolation::Linear, Padding::Zeros).iter().all(|(_, w)| *w == 0.0));
    }

    #[test]
    fn half_way_goes_to_the_even_voxel() {
        let pick = |c, mode| found(c, 5, mode, Padding::Border)[0].0;
        assert_eq!([0.5, 1.5, 2.5, 3.5].map(|c| pick(c, Interpolation::Nearest)), [0, 2, 2, 4]);
        // scipy's order 0 rounds up.
        assert_eq!([0.5, 1.5, 2.5, 3.5].map(|c| pick(c, Interpolation::Spline(0))), [1, 2, 3, 4]);
    }

    #[test]
    fn reflection_repeats_the_edge_and_mirror_does_not() {
        let pick = |c, padding| found(c, 3, Interpolation::Nearest, padding)[0].0;
        assert_eq!([-1.0, -2.0, 3.0, 4.0].map(|c| pick(c, Padding::Reflection)), [0, 1, 2, 1]);
        assert_eq!([-1.0, -2.0, 3.0, 4.0].map(|c| pick(c, Padding::Mirror)), [1, 2, 1, 0]);
        assert_eq!([-1.0, -2.0, 3.0, 4.0].map(|c| pick(c, Padding::GridWrap)), [2, 1, 0, 1]);
    }

    #[test]
    fn weights_add_to_one_and_interiors_need_no_padding() {
        for mode in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic]
            .into_iter()
            .chain((0..=5).map(Interpolation::Spline))
        {
            let (low, high) = interior(9, mode);
            for i in 0..200 {
                let c = low + (high - low) * f64::from(i) / 200.0;
                let found = found(c, 9, mode, Padding::Zeros);
                let sum: f32 = found.iter().map(|(_, w)| w).sum();
                assert!((sum - 1.0).abs() < 1e-6, "{mode:?} at {c}: {found:?}");
                assert!(found.windows(2).all(|p| p[1].0 == p[0].0 + 1), "{mode:?} at {c}: {found:?}");
            }
        }
    }

    /// B-splines by their definition, a sum of truncated powers.
    #[test]
    fn spline_weights_are_truncated_powers() {
        for order in 2..=5_u8 {
            for i in 0..=40 {
                let c = 10.0 + f64::from(i) / 40.0;
                for (index, weight) in found(c, 21, Interpolation::Spline(order), Padding::Mirror) {
                    let distance = (c - index as f64).abs();
                    let (mut sum, mut binomial) = (0.0, 1.0);
                    for k in 0..=u32::from(order) + 1 {
                        let base = f64::from(order + 1) / 2.0 - f64::from(k) - distance;
                        sum += binomial * base.max(0.0).powi(i32::from(order));
                        binomial *= -f64::from(u32::from(order) + 1 - k) / f64::from(k + 1);
                    }
                    let expected = (sum / (1..=order).map(f64::from).product::<f64>()) as f32;
                    assert!((weight - expected).abs() < 1e-6, "order {order}, {distance}: {weight} for {expected}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_reads_nothing() {
        for padding in [Padding::Border, Padding::Reflection, Padding::Cut, Padding::Wrap] {
            assert_eq!(found(f64::NAN, 4, Interpolation::Cubic, padding), [(0, 0.0); 4]);
            assert!(found(f64::INFINITY, 4, Interpolation::Linear, padding).iter().all(|(i, _)| *i < 4));
        }
    }
}
