//! Selects the loops for the sums of a convolution on the CPU.

use rayon::prelude::*;

use super::blocked::{self, Along, Behind, Loops, Plan, RUN, Source, Weight};
use super::few_positions::Few;
use super::geometry::Geometry;
use super::groups;
use super::winograd::{self, Walk};

/// The number of output channels from which they fill the lanes of a register well enough.
pub const MANY: usize = 9;

/// The meaning of the lanes for this number of output channels, and the number of combined taps.
fn along(channels: usize) -> (Along, usize) {
    if channels < MANY { (Along::Positions, 1) } else { (Along::Channels, RUN) }
}

/// The path for layers with many weights and few outputs.
fn few<'a>(loops: Loops<'_>, g: &'a Geometry) -> Option<Few<'a>> {
    // Words of two values cannot replace single values.
    if loops.of_pairs { None } else { Few::new(g) }
}

/// The convolution: `x` is `[B, I, ...input]`, `weight` `[O, I / groups, ...kernel]`; returns `[B,
/// O, ...output]`.
///
/// # Panics
/// Where there are groups and the source lies in two tensors.
pub fn forward<'a>(
    loops: Loops<'_>,
    x: impl Into<Source<'a>>,
    weight: &[f32],
    behind: Behind<'_>,
    g: &Geometry,
) -> Vec<f32> {
    let x = x.into();
    if g.groups > 1 {
        let run = |x: &[f32], weight: &[f32], behind: Behind<'_>| forward(loops, x, weight, behind, &g.one());
        return groups::forward(g, x.whole(), weight, behind, run);
    }
    let g = &g.flat_first();
    let (along, run) = along(g.channels_out);
    if let Some(y) = few(loops, g).and_then(|few| few.forward(x, weight, behind)) {
        return y;
    }
    let weight = Weight { values: weight, lane: g.channels_in * g.taps(), channel: g.taps() };
    let walk = if loops.of_pairs { None } else { Walk::forward(g) };
    if let Some(y) = walk.and_then(|walk| winograd::outputs(loops, &walk, g.batch, x, weight, behind)) {
        return y;
    }
    blocked::outputs(loops, along, &Plan::forward(g, run), g.batch, x, weight, behind)
}

/// The gradient with respect to the input, which is also the transposed convolution: `dy` is
/// `[B, O, ...output]`; returns `[B, I, ...input]`.
///
/// # Panics
/// Where there are groups and the source lies in two tensors.
pub fn input_gradient<'a>(
    loops: Loops<'_>,
    dy: impl Into<Source<'a>>,
    weight: &[f32],
    behind: Behind<'_>,
    g: &Geometry,
) -> Vec<f32> {
    let dy = dy.into();
    if g.groups > 1 {
        let run = |dy: &[f32], weight: &[f32], behind: Behind<'_>| input_gradient(loops, dy, weight, behind, &g.one());
        return groups::input_gradient(g, dy.whole(), weight, behind, run);
    }
    let g = &g.flat_first();
    let (along, run) = along(g.channels_in);
    if let Some(dx) = few(loops, g).and_then(|few| few.input_gradient(dy, weight, behind)) {
        return dx;
    }
    let weight = Weight { values: weight, lane: g.taps(), channel: g.channels_in * g.taps() };
    let walk = if loops.of_pairs { None } else { Walk::input_gradient(g) };
    if let Some(dx) = walk.and_then(|walk| winograd::outputs(loops, &walk, g.batch, dy, weight, behind)) {
        return dx;
    }
    blocked::outputs(loops, along, &Plan::input_gradient(g, run), g.batch, dy, weight, behind)
}

/// The gradient with respect to the weight, `[O, I / groups, ...kernel]`.
pub fn weight_gradient(loops: Loops<'_>, x: &[f32], dy: &[f32], g: &Geometry) -> Vec<f32> {
    if g.groups > 1 {
        return groups::weight_gradient(g, x, dy, |x, dy| weight_gradient(loops, x, dy, &g.one()));
    }
    let g = &g.flat_first();
    if let Some(dw) = few(loops, g).and_then(|few| few.weight_gradient(x, dy)) {
        return dw;
    }
    let fewer = if loops.of_pairs { None } else { winograd::weight_gradient(loops, x, dy, g) };
    if let Some(dw) = fewer {
        return dw;
    }
    match along(g.channels_out).0 {
        Along::Positions => blocked::weight_gradient_of_few(loops.positions, x, dy, g),
        Along::Channels => blocked::weight_gradient_of_many(loops.channels, x, dy, g),
    }
}

/// The gradient with respect to the bias: the sum of `values` (`[B, channels, ...]`) over
/// everything but the channel.
pub fn bias_gradient(values: &[f32], batch: usize, channels: usize) -> Vec<f32> {
    let each = values.len() / (batch * channels).max(1);
    let planes: Vec<f64> = values.par_chunks(each.max(1)).map(sum).collect();
    (0..channels).map(|c| planes.iter().skip(c).step_by(channels).sum::<f64>() as f32).collect()
}

/// Sums runs of values in f32 lanes, and combines them in f64.
fn sum(values: &[f32]) -> f64 {
    let runs = values.chunks(4096).map(|run| {
        let mut lanes = [0.0_f32; 32];
        let (whole, rest) = run.as_chunks::<32>();
        for chunk in whole {
            lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane += value);
        }
        lanes.iter().chain(rest).map(|value| f64::from(*value)).sum::<f64>()
    });
    runs.sum()
}
