//! Surfaces between voxels: the area that separates set from unset voxels in every cell of
//! neighbouring voxels.

use super::normals::NORMALS;

/// The cells of a mask whose border of one voxel is unset: whether the surface crosses each cell,
/// and its area there.
pub(super) struct Cells {
    pub(super) edge: Vec<bool>,
    pub(super) area: Vec<f32>,
}

/// The area of each code, for cells of eight voxels.
fn areas(spacing: [f64; 3]) -> Vec<f32> {
    let [sx, sy, sz] = spacing.map(|s| s as f32);
    let face = [sy * sz, sx * sz, sx * sy];
    let area = |normals: &[i8; 12]| {
        let triangles = normals.chunks(3).map(|n| {
            let square = |a: usize| (f32::from(n[a]) / 8.0 * face[a]).powi(2);
            (square(0) + square(1) + square(2)).sqrt()
        });
        triangles.sum()
    };
    NORMALS.iter().map(area).collect()
}

/// The length of each code, for cells of four pixels.
fn lengths([first, second]: [f64; 2]) -> Vec<f32> {
    let diagonal = 0.5 * first.hypot(second);
    let of = |code: u32| match code {
        0b0000 | 0b1111 => 0.0,
        0b0011 | 0b1100 => second,
        0b0101 | 0b1010 => first,
        0b0110 | 0b1001 => 2.0 * diagonal,
        _ => diagonal,
    };
    (0..16).map(|code| of(code) as f32).collect()
}

/// The cells of a mask with one voxel of unset border, `[x, y, z]`. Each axis has one cell fewer
/// than voxels. A flat mask (`z = 1`) has cells of four pixels.
pub(super) fn cells(mask: &[bool], [nx, ny, nz]: [usize; 3], spacing: [f64; 3]) -> Cells {
    let flat = nz == 1;
    let table = if flat { lengths([spacing[0], spacing[1]]) } else { areas(spacing) };
    let last = table.len() - 1;
    let depth = if flat { 1 } else { nz - 1 };
    let count = (nx - 1) * (ny - 1) * depth;
    let mut found = Cells { edge: Vec::with_capacity(count), area: Vec::with_capacity(count) };
    for x in 0..nx - 1 {
        for y in 0..ny - 1 {
            for z in 0..depth {
                // The first corner is the highest bit.
                let corner = |dx: usize, dy: usize, dz: usize| mask[((x + dx) * ny + y + dy) * nz + z + dz];
                let mut code = 0;
                for (dx, dy) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    code = code << 1 | usize::from(corner(dx, dy, 0));
                    if !flat {
                        code = code << 1 | usize::from(corner(dx, dy, 1));
                    }
                }
                found.edge.push(code != 0 && code != last);
                found.area.push(table[code]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::cells;

    /// A mask of one voxel becomes an octahedron.
    #[test]
    fn one_voxel_has_the_surface_of_an_octahedron() {
        let mut mask = vec![false; 27];
        mask[13] = true;
        let found = cells(&mask, [3, 3, 3], [1.0; 3]);
        assert_eq!(found.edge, [true; 8]);
        let area: f32 = found.area.iter().sum();
        assert!((area - 3.0_f32.sqrt()).abs() < 1e-5, "{area}");
    }

    #[test]
    fn a_straight_border_is_as_long_as_it_is() {
        let mask: Vec<bool> = (0..20).map(|i| (1..3).contains(&(i / 5))).collect();
        let found = cells(&mask, [4, 5, 1], [2.0, 3.0, 1.0]);
        assert_eq!(found.area.iter().sum::<f32>(), 2.0 * 4.0 * 3.0);
        assert_eq!(found.edge.iter().filter(|edge| **edge).count(), 8);
    }
}
