//! Numbers along the three axes, as kernel arguments.

use cubecl::prelude::*;

/// A size along each axis.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Three {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

pub(super) fn three(sizes: [usize; 3]) -> ThreeLaunch {
    let [x, y, z] = sizes.map(|size| size as u32);
    ThreeLaunch { x, y, z }
}

#[cube]
impl Three {
    /// The three sizes, for computing indices.
    pub fn axes(&self) -> (usize, usize, usize) {
        (self.x as usize, self.y as usize, self.z as usize)
    }
}

/// A distance along each axis, which may be negative.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Offsets {
    pub x: i32,
    pub y: i32,
    pub z: i32,
}

pub(super) fn offsets(distances: [i64; 3]) -> OffsetsLaunch {
    let [x, y, z] = distances.map(|distance| distance as i32);
    OffsetsLaunch { x, y, z }
}
