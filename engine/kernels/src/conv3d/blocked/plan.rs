//! The sums of a convolution as a plan over grids of outputs: one representation for the forward
//! sum and the input gradient.
//!
//! Along an axis of stride `s`, the source is split into its `s` phases, where positions that are
//! equal modulo `s` become neighbours; a tap is then a phase and a shift. The input gradient of a
//! strided convolution is one grid of outputs for each phase of the input; all grids read the same
//! source at different shifts.

use super::super::geometry::Geometry;

/// The maximum number of neighbouring taps along a row that one step of a kernel combines.
pub const RUN: usize = 3;

/// One axis of the source: position `j` of phase `p` is index `j * stride + phases[p] - padding`
/// of the tensor.
#[derive(Clone, Debug)]
pub struct SourceAxis {
    pub stride: usize,
    pub padding: usize,
    pub length: usize,
    pub phases: Vec<usize>,
}

impl SourceAxis {
    /// The positions below `end` of a phase that lie within the tensor.
    #[inline(always)]
    pub fn valid(&self, phase: usize, end: usize) -> std::ops::Range<usize> {
        let residue = self.phases[phase];
        let first = self.padding.saturating_sub(residue).div_ceil(self.stride);
        let last = (self.length + self.padding).saturating_sub(residue).div_ceil(self.stride).min(end);
        first.min(last)..last
    }

    /// The index in the tensor of a valid position.
    pub fn index(&self, phase: usize, position: usize) -> usize {
        position * self.stride + self.phases[phase] - self.padding
    }
}

/// Taps that are neighbours along a row and equal along the other axes.
#[derive(Clone, Debug)]
pub struct Run {
    /// Phase and shift along each axis; along the last axis, those of the first tap.
    pub phase: [usize; 3],
    pub shift: [usize; 3],
    /// The index of each tap within the kernel.
    pub taps: Vec<usize>,
}

/// One grid of outputs along the last axis.
#[derive(Clone, Debug)]
pub struct Column {
    pub count: usize,
    /// The coordinate of the first output; the next ones follow at the plan's `step`.
    pub start: usize,
    /// Sorted by length, the longest first.
    pub runs: Vec<Run>,
}

/// Grids in the same rows of the output.
#[derive(Clone, Debug)]
pub struct RowGroup {
    pub count: [usize; 2],
    pub start: [usize; 2],
    pub columns: Vec<Column>,
}

/// The sums of a convolution as grids of outputs.
#[derive(Clone, Debug)]
pub struct Plan {
    pub source: [SourceAxis; 3],
    /// The number of channels of the source.
    pub channels: usize,
    pub groups: Vec<RowGroup>,
    /// The distance between neighbouring outputs of a grid.
    pub step: [usize; 3],
    /// The largest shift along each axis.
    pub reach: [usize; 3],
    /// The axes of the output tensor, and its channels.
    pub output: [usize; 3],
    pub lanes: usize,
}

/// The part of a grid along one axis.
struct AxisGrid {
    count: usize,
    start: usize,
    /// Kernel index, phase and shift.
    taps: Vec<(usize, usize, usize)>,
}

impl Plan {
    /// The plan of outputs from inputs; up to `run` neighbouring taps of a row are combined.
    pub fn forward(g: &Geometry, run: usize) -> Self {
        let source: [SourceAxis; 3] = std::array::from_fn(|a| {
            let mut phases: Vec<usize> = (0..g.kernel[a]).map(|k| k * g.dilation[a] % g.stride[a]).collect();
            phases.sort_unstable();
            phases.dedup();
            SourceAxis { stride: g.stride[a], padding: g.padding[a], length: g.input[a], phases }
        });
        let axes: [Vec<AxisGrid>; 3] = std::array::from_fn(|a| {
            let tap = |k: usize| {
                let reach = k * g.dilation[a];
                let phase = source[a].phases.partition_point(|phase| *phase < reach % g.stride[a]);
                (k, phase, reach / g.stride[a])
            };
            vec![AxisGrid { count: g.output[a], start: 0, taps: (0..g.kernel[a]).map(tap).collect() }]
        });
        Self::new(source, g.channels_in, axes, [1; 3], g.output, g.channels_out, (g.kernel, run))
    }

    /// The plan of input gradients from output gradients; also the transposed convolution.
    pub fn input_gradient(g: &Geometry, run: usize) -> Self {
        let mut source = Vec::with_capacity(3);
        let mut axes: [Vec<AxisGrid>; 3] = [vec![], vec![], vec![]];
        for (a, grids) in axes.iter_mut().enumerate() {
            let (stride, padding, dilation) = (g.stride[a], g.padding[a], g.dilation[a]);
            // The first and last index of a phase, and the shifts of the taps that reach it,
            // counted backwards.
            let phases: Vec<_> = (0..stride)
                .map(|residue| {
                    let first = padding.saturating_sub(residue).div_ceil(stride);
                    let end = (g.input[a] + padding).saturating_sub(residue).div_ceil(stride);
                    let taps = (0..g.kernel[a]).filter(|k| k * dilation % stride == residue);
                    (residue, first, end, taps.map(|k| (k, k * dilation / stride)).collect::<Vec<_>>())
                })
                .filter(|(_, first, end, _)| end > first)
                .collect();
            let low = phases.iter().flat_map(|(_, first, _, taps)| taps.iter().map(|(_, s)| s.saturating_sub(*first)));
            let low = low.max().unwrap_or(0);
            for (residue, first, end, taps) in phases {
                grids.push(AxisGrid {
                    count: end - first,
                    start: first * stride + residue - padding,
                    taps: taps.into_iter().map(|(k, shift)| (k, 0, first + low - shift)).collect(),
                });
            }
            source.push(SourceAxis { stride: 1, padding: low, length: g.output[a], phases: vec![0] });
        }
        let source = std::array::from_fn(|a| source[a].clone());
        Self::new(source, g.channels_out, axes, g.stride, g.input, g.channels_in, (g.kernel, run))
    }

    fn new(
        source: [SourceAxis; 3],
        channels: usize,
        axes: [Vec<AxisGrid>; 3],
        step: [usize; 3],
        output: [usize; 3],
        lanes: usize,
        (kernel, run): ([usize; 3], usize),
    ) -> Self {
        let reach = std::array::from_fn(|a| {
            axes[a].iter().flat_map(|grid| grid.taps.iter().map(|tap| tap.2)).max().unwrap_or(0)
        });
        let [depth, height, width] = &axes;
        let groups = depth
            .iter()
            .flat_map(|d| height.iter().map(move |h| (d, h)))
            .map(|(d, h)| RowGroup {
                count: [d.count, h.count],
                start: [d.start, h.start],
                columns: width
                    .iter()
                    .map(|w| Column { count: w.count, start: w.start, runs: runs([d, h, w], kernel, run) })
                    .collect(),
            })
            .collect();
        Plan { source, channels, groups, step, reach, output, lanes }
    }

    /// The largest number of taps of any grid.
    pub fn most_taps(&self) -> usize {
        let columns = self.groups.iter().flat_map(|group| &group.columns);
        columns.map(|column| column.runs.iter().map(|run| run.taps.len()).sum()).max().unwrap_or(0)
    }

    /// The largest number of positions along each axis of any grid.
    pub fn largest(&self) -> [usize; 3] {
        let most = |f: &dyn Fn(&RowGroup) -> usize| self.groups.iter().map(f).max().unwrap_or(0);
        [
            most(&|group| group.count[0]),
            most(&|group| group.count[1]),
            most(&|group| group.columns.iter().map(|column| column.count).max().unwrap_or(0)),
        ]
    }
}

/// The taps of one grid, grouped in runs.
fn runs([depth, height, width]: [&AxisGrid; 3], kernel: [usize; 3], longest: usize) -> Vec<Run> {
    // Neighbours along the row: the same phase, and the next shift.
    let mut row = width.taps.clone();
    row.sort_by_key(|(_, phase, shift)| (*phase, *shift));
    let mut pieces: Vec<Vec<(usize, usize, usize)>> = Vec::new();
    for tap in row {
        match pieces.last_mut() {
            Some(piece) if piece.len() < longest && piece.last().is_some_and(|l| l.1 == tap.1 && l.2 + 1 == tap.2) => {
                piece.push(tap);
            }
            _ => pieces.push(vec![tap]),
        }
    }
    let mut found = Vec::new();
    for &(kd, pd, sd) in &depth.taps {
        for &(kh, ph, sh) in &height.taps {
            for piece in &pieces {
                found.push(Run {
                    phase: [pd, ph, piece[0].1],
                    shift: [sd, sh, piece[0].2],
                    taps: piece.iter().map(|(kw, ..)| (kd * kernel[1] + kh) * kernel[2] + kw).collect(),
                });
            }
        }
    }
    found.sort_by_key(|run| std::cmp::Reverse(run.taps.len()));
    found
}
