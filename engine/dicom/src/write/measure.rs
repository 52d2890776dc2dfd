//! Measurements of regions for reports: volumes and diameters.

use crate::geometry::Grid;
use crate::regions::RegionVolume;

/// The extent of a region within one slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Diameters {
    /// The index of the slice, from 0.
    pub slice: usize,
    /// The longest distance between two outline points of one connected part, in mm.
    pub long: f64,
    /// The longest chord perpendicular to it, in mm.
    pub short: f64,
}

/// The measurements of one region.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The number of voxels.
    pub voxels: usize,
    /// The volume in mm^3.
    pub volume: f64,
    /// The diameters on the slice where the region is longest; `None` without a voxel.
    pub diameters: Option<Diameters>,
}

/// The volumes and diameters of regions, in their order. Diameters are those of RECIST 1.1 and the
/// World Health Organization: the longest within a slice, and the longest across it. The outline
/// runs halfway between pixels inside and outside; parts that touch only at corners are measured
/// separately.
pub fn measure(volume: &RegionVolume) -> Vec<Measured> {
    let [_, nx, ny, nz] = volume.shape;
    let voxel = voxel_volume(&volume.grid);
    let [dx, dy, _] = volume.grid.spacing();
    let of = |(index, region): (usize, &crate::Region)| {
        let values = match volume.channels {
            true => &volume.values[index * nx * ny * nz..][..nx * ny * nz],
            false => &volume.values[..nx * ny * nz],
        };
        let has = |value: f32| if volume.channels { value >= 0.5 } else { value == region.label as f32 };
        let voxels = values.iter().filter(|value| has(**value)).count();
        let in_slice = |slice: usize| {
            let mask: Vec<bool> = (0..nx * ny).map(|i| has(values[i * nz + slice])).collect();
            let parts = parts(mask, [nx, ny]);
            let diameters = parts.iter().map(|part| longest(&hull(part, [dx, dy])));
            diameters.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(long, short)| Diameters { slice, long, short })
        };
        let diameters = match voxels {
            0 => None,
            _ => (0..nz).filter_map(in_slice).max_by(|a, b| a.long.total_cmp(&b.long).then(b.slice.cmp(&a.slice))),
        };
        Measured { voxels, volume: voxels as f64 * voxel, diameters }
    };
    volume.regions.iter().enumerate().map(of).collect()
}

fn voxel_volume(grid: &Grid) -> f64 {
    let column = |c: usize| [grid.affine()[0][c], grid.affine()[1][c], grid.affine()[2][c]];
    crate::geometry::dot(column(0), crate::geometry::cross(column(1), column(2))).abs()
}

/// The connected parts of a mask `[X, Y]`, each as its border pixels.
fn parts(mut mask: Vec<bool>, [nx, ny]: [usize; 2]) -> Vec<Vec<[usize; 2]>> {
    let mut all = Vec::new();
    let inside = mask.clone();
    let beside = |[x, y]: [usize; 2]| {
        let [left, right] = [x.wrapping_sub(1), x + 1].map(|x| [x, y]);
        let [above, below] = [y.wrapping_sub(1), y + 1].map(|y| [x, y]);
        [left, right, above, below].map(|[x, y]| (x < nx && y < ny).then_some([x, y]))
    };
    for start in 0..nx * ny {
        if !mask[start] {
            continue;
        }
        mask[start] = false;
        let (mut waiting, mut border) = (vec![[start / ny, start % ny]], Vec::new());
        while let Some(pixel) = waiting.pop() {
            let around = beside(pixel);
            if around.iter().any(|next| next.is_none_or(|[x, y]| !inside[x * ny + y])) {
                border.push(pixel);
            }
            for [x, y] in around.into_iter().flatten() {
                if std::mem::take(&mut mask[x * ny + y]) {
                    waiting.push([x, y]);
                }
            }
        }
        all.push(border);
    }
    all
}

fn turn(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

/// The convex hull of the midpoints of the pixels' sides, in mm (A. M. Andrew's monotone chain,
/// 1979).
fn hull(pixels: &[[usize; 2]], [dx, dy]: [f64; 2]) -> Vec<[f64; 2]> {
    let sides = |[x, y]: &[usize; 2]| {
        let (x, y) = (*x as f64, *y as f64);
        [[x - 0.5, y], [x + 0.5, y], [x, y - 0.5], [x, y + 0.5]].map(|[x, y]| [x * dx, y * dy])
    };
    let mut points: Vec<[f64; 2]> = pixels.iter().flat_map(sides).collect();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    points.dedup();
    let mut hull: Vec<[f64; 2]> = Vec::new();
    let mut half = |points: &mut dyn Iterator<Item = &[f64; 2]>| {
        let floor = hull.len();
        for point in points {
            while hull.len() >= floor + 2 && turn(hull[hull.len() - 2], hull[hull.len() - 1], *point) <= 0.0 {
                hull.pop();
            }
            hull.push(*point);
        }
        // The last point is the first of the other half.
        hull.pop();
    };
    half(&mut points.iter());
    half(&mut points.iter().rev());
    hull
}

/// The longest distance of two corners of a convex polygon, and the longest chord perpendicular to
/// it.
fn longest(hull: &[[f64; 2]]) -> (f64, f64) {
    let (mut long, mut along) = (0.0, [1.0, 0.0]);
    for (i, a) in hull.iter().enumerate() {
        for b in &hull[i + 1..] {
            let step = [b[0] - a[0], b[1] - a[1]];
            let length = step[0].hypot(step[1]);
            if length > long {
                (long, along) = (length, step.map(|v| v / length));
            }
        }
    }
    // In the frame of the long axis, the length of a chord is concave along it, and largest at a
    // corner.
    let turned: Vec<[f64; 2]> =
        hull.iter().map(|p| [p[0] * along[0] + p[1] * along[1], p[1] * along[0] - p[0] * along[1]]).collect();
    let chord = |at: f64| {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (i, a) in turned.iter().enumerate() {
            let b = turned[(i + 1) % turned.len()];
            let (from, to) = (a[0].min(b[0]), a[0].max(b[0]));
            if from > at || to < at {
                continue;
            }
            let crossings = match to - from {
                width if width > 0.0 => [a[1] + (b[1] - a[1]) * (at - a[0]) / (b[0] - a[0]); 2],
                _ => [a[1], b[1]],
            };
            crossings.into_iter().for_each(|v| (low, high) = (low.min(v), high.max(v)));
        }
        (high - low).max(0.0)
    };
    (long, turned.iter().map(|p| chord(p[0])).fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[test]
    fn an_ellipse_has_its_axes_and_a_box_its_volume() {
        let shape = [120, 100, 3];
        let affine = [[0.5, 0.0, 0.0, 0.0], [0.0, 0.8, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        // Semi-axes of 25 and 12 mm, rotated by 30 degrees; a smaller ellipse below; a box above.
        let inside = |[x, y]: [f64; 2], scale: f64| {
            let (p, q) = (x * 0.5 - 30.0, y * 0.8 - 40.0);
            let (c, s) = (30_f64.to_radians().cos(), 30_f64.to_radians().sin());
            ((p * c + q * s) / 25.0 / scale).powi(2) + ((q * c - p * s) / 12.0 / scale).powi(2) <= 1.0
        };
        let values: Vec<f32> = (0..120 * 100 * 3)
            .map(|i| {
                let [x, y, z] = [i / 300, i / 3 % 100, i % 3];
                match z {
                    2 if (10..16).contains(&x) && (20..24).contains(&y) => 2.0,
                    0 if inside([x as f64, y as f64], 0.5) => 1.0,
                    1 if inside([x as f64, y as f64], 1.0) => 1.0,
                    _ => 0.0,
                }
            })
            .collect();
        let regions = vec![Region::new(1, "ellipse"), Region::new(2, "box"), Region::new(3, "nothing")];
        let measured = measure(&RegionVolume::of_labels(values, regions, Grid::new(shape, affine)));
        let ellipse = measured[0].diameters.expect("voxels");
        assert_eq!(ellipse.slice, 1);
        assert!((ellipse.long - 50.0).abs() < 0.8 && (ellipse.short - 24.0).abs() < 0.8, "{ellipse:?}");
        let volume = std::f64::consts::PI * 25.0 * 12.0 * 1.25 * 2.0;
        assert!((measured[0].volume / volume - 1.0).abs() < 0.01, "{}", measured[0].volume);
        assert_eq!((measured[1].voxels, measured[1].volume), (24, 24.0 * 0.8));
        assert_eq!((measured[2].voxels, measured[2].volume, measured[2].diameters), (0, 0.0, None));
    }

    #[test]
    fn parts_are_measured_apart() {
        // Two bars of one pixel that touch at a corner.
        let values: Vec<f32> =
            (0..100).map(|i| f32::from(u8::from(matches!((i / 10, i % 10), (0..5, 3) | (5..8, 4))))).collect();
        let affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        let grid = Grid::new([10, 10, 1], affine);
        let [measured] = &measure(&RegionVolume::of_labels(values, vec![Region::new(1, "bar")], grid))[..] else {
            panic!("one region")
        };
        let Diameters { long, short, .. } = measured.diameters.expect("voxels");
        assert_eq!((long, short), (5.0, 1.0));
    }
}
