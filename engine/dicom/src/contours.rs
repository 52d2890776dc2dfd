//! The area of the contours in one plane: duplicates count once, a contour within another is a hole,
//! and contours that cross are united.

use crate::polygon::fill;

/// A closed polygon, its corners in pixels (column, row).
pub(crate) type Polygon = Vec<[f64; 2]>;

/// The pixels within the contours of a plane, and what was unusual about them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// Whether each pixel lies within, `[columns, rows]`, rows fastest.
    pub pixels: Vec<bool>,
    /// The number of contours that repeat another one.
    pub repeated: usize,
    /// The number of contours that cross another one.
    pub crossing: usize,
}

/// The area of closed contours in a plane of `width` columns and `height` rows.
///
/// A pixel belongs to a contour if its centre does, by the even-odd rule of a single polygon. A contour
/// within another is a hole, a contour within a hole an island, and so on; contours that cross are united
/// (PS3.3, C.8.8.6: CLOSED_PLANAR contours describe an area each).
pub(crate) fn area(contours: &[Polygon], [width, height]: [usize; 2]) -> Area {
    let mut polygons: Vec<&Polygon> = Vec::with_capacity(contours.len());
    for contour in contours {
        if !polygons.iter().any(|known| is_same(known, contour)) {
            polygons.push(contour);
        }
    }
    let repeated = contours.len() - polygons.len();
    let count = polygons.len();
    let relations: Vec<Vec<Relation>> =
        (0..count).map(|a| (0..count).map(|b| relation(polygons[a], polygons[b])).collect()).collect();
    let is_within = |inner: usize, outer: usize| relations[inner][outer] == Relation::Within;
    // The contours directly within another: none lies between them.
    let holes_of = |outer: usize| -> Vec<usize> {
        let within = (0..count).filter(|inner| is_within(*inner, outer));
        within.filter(|inner| !(0..count).any(|mid| is_within(*inner, mid) && is_within(mid, outer))).collect()
    };
    // Smaller ones first, so that the areas of holes are known.
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|one| (0..count).filter(|inner| is_within(*inner, *one)).count());
    let mut areas: Vec<Vec<bool>> = vec![Vec::new(); count];
    for one in order {
        let mut own = raster(std::slice::from_ref(polygons[one]), [width, height]);
        for hole in holes_of(one) {
            own.iter_mut().zip(&areas[hole]).filter(|(_, hole)| **hole).for_each(|(pixel, _)| *pixel = false);
        }
        areas[one] = own;
    }
    let mut pixels = vec![false; width * height];
    for (one, own) in areas.iter().enumerate() {
        if !(0..count).any(|outer| is_within(one, outer)) {
            pixels.iter_mut().zip(own).for_each(|(pixel, own)| *pixel |= *own);
        }
    }
    let crosses = |a: usize| (0..count).any(|b| a != b && relations[a][b] == Relation::Crossing);
    let crossing = (0..count).filter(|a| crosses(*a)).count();
    Area { pixels, repeated, crossing }
}

/// The pixels within polygons by the even-odd rule over all of them, `[columns, rows]`.
pub(crate) fn raster(polygons: &[Polygon], [width, height]: [usize; 2]) -> Vec<bool> {
    let mut pixels = vec![false; width * height];
    fill(polygons, width, height, |column, row| pixels[column * height + row] = true);
    pixels
}

/// How a polygon lies to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Apart,
    /// It lies within the other.
    Within,
    /// The other lies within it.
    Around,
    /// Parts of it lie within the other, and parts outside.
    Crossing,
}

/// Distances in pixels below which points coincide.
const SAME: f64 = 1e-4;

/// Whether two polygons have the same corners, from any start and in either direction.
fn is_same(a: &Polygon, b: &Polygon) -> bool {
    let (a, b) = (corners(a), corners(b));
    let count = a.len();
    let equal = |p: [f64; 2], q: [f64; 2]| (p[0] - q[0]).abs() < SAME && (p[1] - q[1]).abs() < SAME;
    count == b.len()
        && (0..count).any(|start| {
            (0..count).all(|i| equal(a[i], b[(start + i) % count]))
                || (0..count).all(|i| equal(a[i], b[(start + count - i) % count]))
        })
}

/// The corners without repeated ones: some programs repeat the first as the last.
fn corners(polygon: &Polygon) -> Polygon {
    let mut corners = polygon.clone();
    corners.dedup_by(|a, b| (a[0] - b[0]).abs() < SAME && (a[1] - b[1]).abs() < SAME);
    while let ([first, .., last], true) = (&corners[..], corners.len() > 1)
        && (first[0] - last[0]).abs() < SAME
        && (first[1] - last[1]).abs() < SAME
    {
        corners.pop();
    }
    corners
}

fn relation(a: &Polygon, b: &Polygon) -> Relation {
    if !boxes_meet(a, b) {
        return Relation::Apart;
    }
    // Corners on the other's edge are on either side.
    let sides = |of: &Polygon, to: &Polygon| {
        let known = of.iter().filter_map(|point| side(*point, to));
        known.fold([false; 2], |[inside, outside], is_inside| [inside | is_inside, outside | !is_inside])
    };
    match (edges_cross(a, b), sides(a, b), sides(b, a)) {
        (true, ..) | (_, [true, true], _) | (_, _, [true, true]) => Relation::Crossing,
        (_, [true, false], _) => Relation::Within,
        (_, _, [true, false]) => Relation::Around,
        // All corners on the other's edges, of both.
        (_, [false, false], [false, false]) => Relation::Crossing,
        (_, [false, false], _) => Relation::Within,
        (_, _, [false, false]) => Relation::Around,
        _ => Relation::Apart,
    }
}

fn boxes_meet(a: &Polygon, b: &Polygon) -> bool {
    let bounds = |polygon: &Polygon, axis: usize| {
        let values = || polygon.iter().map(|point| point[axis]);
        [values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)]
    };
    (0..2).all(|axis| {
        let ([a0, a1], [b0, b1]) = (bounds(a, axis), bounds(b, axis));
        a0 <= b1 && b0 <= a1
    })
}

fn edges(polygon: &Polygon) -> impl Iterator<Item = ([f64; 2], [f64; 2])> + '_ {
    (0..polygon.len()).map(|i| (polygon[i], polygon[(i + 1) % polygon.len()]))
}

/// Whether a point lies inside a polygon; `None` on its edge.
fn side([x, y]: [f64; 2], polygon: &Polygon) -> Option<bool> {
    let mut inside = false;
    for (a, b) in edges(polygon) {
        let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
        let length = dx * dx + dy * dy;
        let along = if length > 0.0 { (((x - a[0]) * dx + (y - a[1]) * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
        let (away_x, away_y) = (x - a[0] - along * dx, y - a[1] - along * dy);
        if away_x * away_x + away_y * away_y < SAME * SAME {
            return None;
        }
        if (a[1] > y) != (b[1] > y) && x < dx * (y - a[1]) / dy + a[0] {
            inside = !inside;
        }
    }
    Some(inside)
}

/// Whether an edge of one passes through an edge of the other; touching is not passing.
fn edges_cross(a: &Polygon, b: &Polygon) -> bool {
    let turn = |p: [f64; 2], q: [f64; 2], r: [f64; 2]| {
        let (qx, qy, rx, ry) = (q[0] - p[0], q[1] - p[1], r[0] - p[0], r[1] - p[1]);
        let area = qx * ry - qy * rx;
        if area.abs() < SAME * (qx.hypot(qy) + rx.hypot(ry)) { 0.0 } else { area.signum() }
    };
    edges(a)
        .any(|(p, q)| edges(b).any(|(r, s)| turn(p, q, r) * turn(p, q, s) < 0.0 && turn(r, s, p) * turn(r, s, q) < 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(from: f64, to: f64) -> Polygon {
        vec![[from, from], [to, from], [to, to], [from, to]]
    }

    fn count(contours: &[Polygon]) -> (usize, usize, usize) {
        let found = area(contours, [40, 40]);
        (found.pixels.iter().filter(|pixel| **pixel).count(), found.repeated, found.crossing)
    }

    #[test]
    fn holes_islands_and_holes_in_islands() {
        let [a, b, c, d] = [(0.5, 20.5), (2.5, 18.5), (4.5, 16.5), (6.5, 14.5)].map(|(from, to)| square(from, to));
        assert_eq!(count(std::slice::from_ref(&a)), (400, 0, 0));
        assert_eq!(count(&[a.clone(), b.clone()]), (400 - 256, 0, 0));
        assert_eq!(count(&[c.clone(), a.clone(), b.clone()]), (400 - 256 + 144, 0, 0));
        assert_eq!(count(&[d, c, b, a]), (400 - 256 + 144 - 64, 0, 0));
    }

    #[test]
    fn repeated_contours_count_once() {
        let a = square(0.5, 20.5);
        let turned: Polygon = a.iter().rev().copied().collect();
        let shifted = vec![a[2], a[3], a[0], a[1], a[2]];
        assert_eq!(count(&[a.clone(), a.clone()]), (400, 1, 0));
        assert_eq!(count(&[a.clone(), turned, shifted, a.clone()]), (400, 3, 0));
        // A hole that is drawn twice is one hole.
        let hole = square(4.5, 8.5);
        assert_eq!(count(&[a, hole.clone(), hole]), (400 - 16, 1, 0));
    }

    #[test]
    fn crossing_contours_are_united() {
        let (a, b) = (square(0.5, 20.5), square(10.5, 30.5));
        assert_eq!(count(&[a.clone(), b.clone()]), (400 + 400 - 100, 0, 2));
        // Edges cross although no corner lies within the other.
        let flat = vec![[-0.5, 8.5], [30.5, 8.5], [30.5, 12.5], [-0.5, 12.5]];
        assert_eq!(count(&[a.clone(), flat]), (400 + 31 * 4 - 20 * 4, 0, 2));
        // A hole of one of them, in the part that both share, is a hole of both.
        assert_eq!(count(&[a, b, square(12.5, 14.5)]), (700 - 4, 0, 2));
    }

    #[test]
    fn neighbours_that_share_an_edge_are_both_there() {
        let left = vec![[0.5, 0.5], [10.5, 0.5], [10.5, 10.5], [0.5, 10.5]];
        let right = vec![[10.5, 0.5], [20.5, 0.5], [20.5, 10.5], [10.5, 10.5]];
        assert_eq!(count(&[left, right]), (200, 0, 0));
    }

    /// A hole that touches the outer contour at an edge.
    #[test]
    fn a_hole_may_touch_the_outer_contour() {
        let hole = vec![[0.5, 4.5], [6.5, 4.5], [6.5, 8.5], [0.5, 8.5]];
        assert_eq!(count(&[square(0.5, 20.5), hole]), (400 - 24, 0, 0));
    }
}
