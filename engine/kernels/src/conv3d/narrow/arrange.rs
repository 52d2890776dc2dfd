//! The arrangement that every convolution reads: padded, and split by the phase of the stride.
//!
//! With stride `s`, tap `k` of an axis reads input positions `o * s + k * dilation - padding`. Splitting the padded axis
//! into its `s` phases (positions equal modulo `s`) makes those positions neighbours: tap `k` reads phase
//! `k * dilation % s`, shifted by `k * dilation / s`. So for stride 1 and for any other stride alike, a tap is an
//! offset, and the values for a whole run of outputs follow one another in memory. Rows keep their padding, so that
//! a run may go over the end of a row: the few outputs computed there are thrown away.

use rayon::prelude::*;

use super::super::geometry::Geometry;
use super::tile::LANES;

/// Values read past the end of a run by the last tile, or by a tap at the end of the last plane.
const SLACK: usize = 4 * LANES;

/// Where the values of one arrangement lie: `[phase][channel][depth][height][width]` for each image of the batch.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Lengths of one phase's axes.
    pub extent: [usize; 3],
    /// Values of one image.
    pub image: usize,
    /// For tap `(channel, kx, ky, kz)`, in the weight's order: where its first value lies within an image.
    pub offsets: Vec<usize>,
}

impl Layout {
    /// Values from one plane to the next, within a channel.
    pub fn plane(&self) -> usize {
        self.extent[1] * self.extent[2]
    }

    fn channel(&self) -> usize {
        self.extent.iter().product()
    }
}

/// An arrangement of a number of images.
pub struct Arranged {
    pub layout: Layout,
    pub values: Vec<f32>,
}

/// How one axis splits: for each tap its phase (numbered among those that occur) and shift.
struct AxisSplit {
    /// The residues modulo the stride that taps fall on, in order.
    phases: Vec<usize>,
    /// For each tap: index into `phases`, and shift.
    taps: Vec<(usize, usize)>,
}

fn split(kernel: usize, stride: usize, dilation: usize) -> AxisSplit {
    let mut phases: Vec<usize> = (0..kernel).map(|k| k * dilation % stride).collect();
    phases.sort_unstable();
    phases.dedup();
    let taps = (0..kernel)
        .map(|k| {
            let residue = k * dilation % stride;
            (phases.partition_point(|phase| *phase < residue), k * dilation / stride)
        })
        .collect();
    AxisSplit { phases, taps }
}

/// Arranges the input of a convolution for its forward sum and its weight gradient.
pub fn input(x: &[f32], g: &Geometry) -> Arranged {
    let axes: [AxisSplit; 3] = std::array::from_fn(|a| split(g.kernel[a], g.stride[a], g.dilation[a]));
    let extent: [usize; 3] =
        std::array::from_fn(|a| g.output[a] + axes[a].taps.iter().map(|(_, shift)| *shift).max().unwrap_or(0));
    let phases = axes[0].phases.len() * axes[1].phases.len() * axes[2].phases.len();
    let mut layout = Layout { extent, image: 0, offsets: Vec::with_capacity(g.channels_in * g.taps()) };
    let (plane, channel) = (layout.plane(), layout.channel());
    layout.image = phases * g.channels_in * channel;
    for c in 0..g.channels_in {
        for &(pd, sd) in &axes[0].taps {
            for &(ph, sh) in &axes[1].taps {
                for &(pw, sw) in &axes[2].taps {
                    let phase = (pd * axes[1].phases.len() + ph) * axes[2].phases.len() + pw;
                    let first = (phase * g.channels_in + c) * channel;
                    layout.offsets.push(first + sd * plane + sh * extent[2] + sw);
                }
            }
        }
    }
    let mut values = vec![0.0; g.batch * layout.image + SLACK];
    let input_plane = g.input[1] * g.input[2];
    let length = g.batch * layout.image;
    values[..length].par_chunks_mut(channel).enumerate().for_each(|(index, target)| {
        let (image, rest) = (index / (phases * g.channels_in), index % (phases * g.channels_in));
        let (phase, c) = (rest / g.channels_in, rest % g.channels_in);
        let pw = axes[2].phases[phase % axes[2].phases.len()];
        let ph = axes[1].phases[phase / axes[2].phases.len() % axes[1].phases.len()];
        let pd = axes[0].phases[phase / axes[2].phases.len() / axes[1].phases.len()];
        let source = &x[(image * g.channels_in + c) * g.input[0] * input_plane..][..g.input[0] * input_plane];
        let columns = valid(pw, 2, extent[2], g);
        for d in valid(pd, 0, extent[0], g) {
            let from_plane = (d * g.stride[0] + pd - g.padding[0]) * input_plane;
            for h in valid(ph, 1, extent[1], g) {
                let from_row = from_plane + (h * g.stride[1] + ph - g.padding[1]) * g.input[2];
                let row = &mut target[d * plane + h * extent[2]..][..extent[2]];
                let Some(first) = columns.clone().next() else { continue };
                let from = from_row + first * g.stride[2] + pw - g.padding[2];
                if g.stride[2] == 1 {
                    row[columns.clone()].copy_from_slice(&source[from..from + columns.len()]);
                } else {
                    let picks = source[from..].iter().step_by(g.stride[2]);
                    row[columns.clone()].iter_mut().zip(picks).for_each(|(to, value)| *to = *value);
                }
            }
        }
    });
    Arranged { layout, values }
}

/// The positions of a phase's axis that lie within the input, not in its padding.
fn valid(phase: usize, axis: usize, extent: usize, g: &Geometry) -> std::ops::Range<usize> {
    let (stride, padding, length) = (g.stride[axis], g.padding[axis], g.input[axis]);
    let first = padding.saturating_sub(phase).div_ceil(stride);
    let end = (length + padding).saturating_sub(phase).div_ceil(stride).min(extent);
    first.min(end)..end
}

/// One phase of the input gradient: the positions of the input whose padded coordinate has this residue.
pub struct PhaseGrid {
    /// How many positions each axis has.
    pub count: [usize; 3],
    /// The input coordinate of the first position; the next ones follow at the stride.
    pub start: [usize; 3],
    /// For each tap that reaches this phase, `(channel_out, kx, ky, kz)` ascending: where its first value lies.
    pub offsets: Vec<usize>,
    /// The same taps, by flat kernel index; every output channel has all of them.
    pub taps: Vec<usize>,
}

/// Arranges an output gradient (or the input of a transposed convolution) for the input gradient: one padded copy that all
/// phases read, and the phases.
pub fn output(dy: &[f32], g: &Geometry) -> (Arranged, Vec<PhaseGrid>) {
    // Along each axis: the range of `position - shift` over all phases decides how much zero padding both ends need.
    let mut low = [0_usize; 3];
    let mut high = [0_usize; 3];
    let mut axes: [Vec<AxisPhase>; 3] = [vec![], vec![], vec![]];
    for a in 0..3 {
        for residue in 0..g.stride[a] {
            let phase = axis_phase(residue, a, g);
            if phase.count > 0 {
                for &(_, shift) in &phase.taps {
                    low[a] = low[a].max(shift.saturating_sub(phase.first));
                    high[a] = high[a].max((phase.first + phase.count).saturating_sub(g.output[a] + shift));
                }
                axes[a].push(phase);
            }
        }
    }
    let extent: [usize; 3] = std::array::from_fn(|a| low[a] + g.output[a] + high[a]);
    let mut layout = Layout { extent, image: 0, offsets: Vec::new() };
    let (plane, channel) = (layout.plane(), layout.channel());
    layout.image = g.channels_out * channel;
    let mut values = vec![0.0; g.batch * layout.image + SLACK];
    let [od, oh, ow] = g.output;
    let length = g.batch * layout.image;
    values[..length].par_chunks_mut(channel).zip(dy.par_chunks(od * oh * ow)).for_each(|(target, source)| {
        for d in 0..od {
            for h in 0..oh {
                let to = (d + low[0]) * plane + (h + low[1]) * extent[2] + low[2];
                target[to..to + ow].copy_from_slice(&source[(d * oh + h) * ow..][..ow]);
            }
        }
    });
    let mut grids = Vec::new();
    for x in &axes[0] {
        for y in &axes[1] {
            for z in &axes[2] {
                grids.push(grid([x, y, z], &low, channel, plane, extent[2], g));
            }
        }
    }
    (Arranged { layout, values }, grids)
}

/// One phase of one axis of the input.
struct AxisPhase {
    /// First index `j` such that `j * stride + residue` lies within the input.
    first: usize,
    count: usize,
    start: usize,
    /// Kernel index and shift of the taps that reach it.
    taps: Vec<(usize, usize)>,
}

fn axis_phase(residue: usize, axis: usize, g: &Geometry) -> AxisPhase {
    let (stride, padding, dilation) = (g.stride[axis], g.padding[axis], g.dilation[axis]);
    let first = padding.saturating_sub(residue).div_ceil(stride);
    let end = (g.input[axis] + padding).saturating_sub(residue).div_ceil(stride);
    let taps = (0..g.kernel[axis]).filter(|k| k * dilation % stride == residue);
    AxisPhase {
        first,
        count: end.saturating_sub(first),
        start: (first * stride + residue).saturating_sub(padding),
        taps: taps.map(|k| (k, k * dilation / stride)).collect(),
    }
}

fn grid(axes: [&AxisPhase; 3], low: &[usize; 3], channel: usize, plane: usize, row: usize, g: &Geometry) -> PhaseGrid {
    let mut within = Vec::new();
    let mut taps = Vec::new();
    for &(kx, sx) in &axes[0].taps {
        for &(ky, sy) in &axes[1].taps {
            for &(kz, sz) in &axes[2].taps {
                // `low` was chosen so that no difference is negative.
                let at = |a: usize, shift: usize| axes[a].first + low[a] - shift;
                within.push(at(0, sx) * plane + at(1, sy) * row + at(2, sz));
                taps.push((kx * g.kernel[1] + ky) * g.kernel[2] + kz);
            }
        }
    }
    let offsets = (0..g.channels_out).flat_map(|c| within.iter().map(move |w| c * channel + w)).collect();
    PhaseGrid { count: axes.map(|a| a.count), start: axes.map(|a| a.start), offsets, taps }
}
