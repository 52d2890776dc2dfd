//! The work of a launch along one axis.

use crate::conv3d::geometry::Geometry;

/// One axis of a launch: output `first + i * step` is the sum over the taps `t` of input
/// `i * stride + t * apart + begin` with the kernel's tap `tap + t * skip`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub outputs: usize,
    pub first: usize,
    pub step: usize,
    pub stride: usize,
    pub taps: usize,
    pub apart: usize,
    pub begin: i64,
    pub tap: i64,
    pub skip: i64,
}

impl Axis {
    /// The axis of a convolution.
    pub fn plain(g: &Geometry, axis: usize) -> Self {
        Axis {
            outputs: g.output[axis],
            first: 0,
            step: 1,
            stride: g.stride[axis],
            taps: g.kernel[axis],
            apart: g.dilation[axis],
            begin: -(g.padding[axis] as i64),
            tap: 0,
            skip: 1,
        }
    }

    /// The axis of an input gradient: for each remainder of the position by the stride, the taps
    /// that reach it.
    pub fn remainders(g: &Geometry, axis: usize) -> Vec<Self> {
        let [stride, apart, padding] = [g.stride[axis], g.dilation[axis], g.padding[axis]].map(|n| n as i64);
        let common = gcd(stride, apart);
        let of = |first: usize| {
            let reaches = |tap: &i64| (first as i64 + padding - tap * apart) % stride == 0;
            let taps: Vec<i64> = (0..g.kernel[axis] as i64).filter(reaches).collect();
            // The last tap comes first: its input is the lowest.
            let last = taps.last().copied().unwrap_or(0);
            Axis {
                outputs: (g.input[axis] - first).div_ceil(g.stride[axis]),
                first,
                step: g.stride[axis],
                stride: 1,
                taps: taps.len(),
                apart: (apart / common) as usize,
                begin: (first as i64 + padding - last * apart).div_euclid(stride),
                tap: last,
                skip: -(stride / common),
            }
        };
        (0..g.stride[axis].min(g.input[axis])).map(of).collect()
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
