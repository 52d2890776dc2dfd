//! Cubic B-splines of lines, as scikit-image's `resize` evaluates them: padded by repeated values,
//! filtered once, four weights per sample (Unser, <https://doi.org/10.1109/79.799930>).

/// The number of repeated values at each end.
pub(super) const PAD: usize = 12;

/// The filter's pole.
const POLE: f64 = -0.267_949_192_431_122_7;

/// Four neighbours in the padded line, and their weights.
pub(super) struct Tap {
    first: usize,
    weights: [f64; 4],
}

/// The index of the value at a place of the padded line.
pub(super) fn source(at: usize, n: usize) -> usize {
    at.saturating_sub(PAD).min(n - 1)
}

/// The taps of a sample at this position of `n` values. Positions lie at most half a voxel outside,
/// and the padding is wider than that.
pub(super) fn tap(position: f64, n: usize) -> Tap {
    let at = (position + PAD as f64).clamp(1.0, (n + 2 * PAD - 3) as f64);
    let low = at.floor();
    let t = at - low;
    let (s, t2, t3) = (1.0 - t, t * t, t * t * t);
    let weights =
        [s * s * s / 6.0, (4.0 - 6.0 * t2 + 3.0 * t3) / 6.0, (1.0 + 3.0 * t + 3.0 * t2 - 3.0 * t3) / 6.0, t3 / 6.0];
    Tap { first: low as usize - 1, weights }
}

/// Converts the values of several lines to coefficients in place. The ends are reflected between
/// voxels.
pub(super) fn filter<const LANES: usize>(line: &mut [[f64; LANES]]) {
    let n = line.len();
    let gain = (1.0 - POLE) * (1.0 - 1.0 / POLE);
    line.iter_mut().flatten().for_each(|value| *value *= gain);
    let last = line[n - 1];
    let mut power = POLE;
    let end = POLE.powi(n as i32);
    let mut sum: [f64; LANES] = std::array::from_fn(|lane| line[0][lane] + end * last[lane]);
    for i in 1..n {
        let mirrored = POLE.powi((i + n).min(i32::MAX as usize) as i32);
        let back = line[n - 1 - i];
        for lane in 0..LANES {
            sum[lane] += power * line[i][lane] + mirrored * back[lane];
        }
        power *= POLE;
        // Further terms are below the last bit of any sum.
        if power.abs() < 1e-40 {
            break;
        }
    }
    let scale = POLE / (1.0 - POLE.powi(2 * n as i32));
    for lane in 0..LANES {
        line[0][lane] += scale * sum[lane];
    }
    for i in 1..n {
        let before = line[i - 1];
        line[i].iter_mut().zip(before).for_each(|(value, before)| *value += POLE * before);
    }
    let end = POLE / (POLE - 1.0);
    line[n - 1].iter_mut().for_each(|value| *value *= end);
    for i in (0..n - 1).rev() {
        let after = line[i + 1];
        line[i].iter_mut().zip(after).for_each(|(value, after)| *value = POLE * (after - *value));
    }
}

/// Evaluates a sample of each line.
pub(super) fn value<const LANES: usize>(line: &[[f64; LANES]], tap: &Tap) -> [f64; LANES] {
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| &line[tap.first + i]);
    let [wa, wb, wc, wd] = tap.weights;
    std::array::from_fn(|lane| wa * a[lane] + wb * b[lane] + wc * c[lane] + wd * d[lane])
}
