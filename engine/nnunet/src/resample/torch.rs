//! torch's `interpolate` in f32, without aligned corners.

use rayon::prelude::*;

use crate::volume::Axes3;

/// Two neighbours and their weights.
pub(super) struct Pair {
    low: usize,
    high: usize,
    weights: [f32; 2],
}

/// The neighbours of each output along an axis; `exact` is nearest-exact.
fn pairs(n: usize, m: usize, exact: bool) -> Vec<Pair> {
    let scale = n as f32 / m as f32;
    let of = |i: usize| {
        if exact {
            let at = (((i as f32 + 0.5) * scale).floor() as usize).min(n - 1);
            return Pair { low: at, high: at, weights: [1.0, 0.0] };
        }
        let at = ((i as f32 + 0.5) * scale - 0.5).max(0.0);
        let low = (at as usize).min(n - 1);
        let t = (at - low as f32).clamp(0.0, 1.0);
        Pair { low, high: (low + 1).min(n - 1), weights: [1.0 - t, t] }
    };
    (0..m).map(of).collect()
}

/// Linear interpolation; the separate axis, if any, uses nearest-exact after the others.
pub(crate) fn linear(values: &[f32], from: Axes3, to: Axes3, separate: Option<usize>) -> Vec<f32> {
    let pairs: [Vec<Pair>; 3] = std::array::from_fn(|axis| pairs(from[axis], to[axis], separate == Some(axis)));
    let mut out = vec![0.0_f32; to.iter().product()];
    let row = |z: usize, y: usize| &values[(z * from[1] + y) * from[2]..][..from[2]];
    out.par_chunks_mut((to[1] * to[2]).max(1)).zip(&pairs[0]).for_each(|(plane, z)| {
        for (out, y) in plane.chunks_mut(to[2]).zip(&pairs[1]) {
            let rows = [row(z.low, y.low), row(z.low, y.high), row(z.high, y.low), row(z.high, y.high)];
            for (out, x) in out.iter_mut().zip(&pairs[2]) {
                let [a, b, c, d] = rows.map(|row| x.weights[0] * row[x.low] + x.weights[1] * row[x.high]);
                let near = y.weights[0] * a + y.weights[1] * b;
                let far = y.weights[0] * c + y.weights[1] * d;
                *out = z.weights[0] * near + z.weights[1] * far;
            }
        }
    });
    out
}
