//! Outlines of the pixels of a mask, as closed polygons.
//!
//! Corners lie halfway between a pixel of the mask and its neighbour outside, so that no pixel
//! centre is close to an edge: rounding coordinates to a file's decimals never changes the mask. A
//! hole is joined to the polygon around it by a keyhole, so every polygon is complete by itself:
//! filled one by one or together, by the even-odd rule or by winding numbers, the polygons yield
//! the mask.

use std::collections::HashMap;

/// Column and row in half pixels: even numbers are pixel centres.
type Corner = [i32; 2];

/// Polygons around the pixels of an image for which `inside` holds. Corners are in pixels (column,
/// row); whole numbers are pixel centres.
pub(crate) fn outlines(width: usize, height: usize, inside: impl Fn(usize, usize) -> bool) -> Vec<Vec<[f64; 2]>> {
    let (mut polygons, holes): (Vec<_>, Vec<_>) =
        loops(width, height, inside).into_iter().partition(|corners| doubled_area(corners) < 0);
    // From left to right: left of a hole is a polygon, or a hole already joined to one.
    let mut holes: Vec<(Corner, Vec<Corner>)> = holes.into_iter().map(opened).collect();
    holes.sort_by_key(|(left, _)| *left);
    for (left, hole) in holes {
        join(&mut polygons, left, &hole);
    }
    polygons.into_iter().map(|corners| corners.iter().map(|c| c.map(|v| f64::from(v) / 2.0)).collect()).collect()
}

/// Closed lines between inside and outside, with the inside to the left in the displayed image, by
/// marching squares. Pixels that only touch at a corner are separate.
fn loops(width: usize, height: usize, inside: impl Fn(usize, usize) -> bool) -> Vec<Vec<Corner>> {
    let is_in = |x: i32, y: i32| {
        (0..width as i32).contains(&x) && (0..height as i32).contains(&y) && inside(x as usize, y as usize)
    };
    let mut next: HashMap<Corner, Corner> = HashMap::new();
    let mut starts = Vec::new();
    for y in -1..height as i32 {
        for x in -1..width as i32 {
            let corners = [is_in(x, y), is_in(x + 1, y), is_in(x + 1, y + 1), is_in(x, y + 1)];
            let (top, right) = ([2 * x + 1, 2 * y], [2 * x + 2, 2 * y + 1]);
            let (bottom, left) = ([2 * x + 1, 2 * y + 2], [2 * x, 2 * y + 1]);
            let lines: &[(Corner, Corner)] = match corners {
                [false, false, false, false] | [true, true, true, true] => continue,
                [true, false, false, false] => &[(left, top)],
                [false, true, false, false] => &[(top, right)],
                [false, false, true, false] => &[(right, bottom)],
                [false, false, false, true] => &[(bottom, left)],
                [true, true, false, false] => &[(left, right)],
                [false, true, true, false] => &[(top, bottom)],
                [false, false, true, true] => &[(right, left)],
                [true, false, false, true] => &[(bottom, top)],
                [true, false, true, false] => &[(left, top), (right, bottom)],
                [false, true, false, true] => &[(top, right), (bottom, left)],
                [true, true, true, false] => &[(left, bottom)],
                [true, true, false, true] => &[(bottom, right)],
                [true, false, true, true] => &[(right, top)],
                [false, true, true, true] => &[(top, left)],
            };
            for (from, to) in lines {
                next.insert(*from, *to);
                starts.push(*from);
            }
        }
    }
    let mut found = Vec::new();
    for start in starts {
        let (mut corners, mut at) = (Vec::new(), start);
        // Each corner begins one line, so that the walk ends where it began.
        while let Some(to) = next.remove(&at) {
            corners.push(at);
            at = to;
        }
        if !corners.is_empty() {
            found.push(straightened(&corners));
        }
    }
    found
}

/// Removes corners at which the direction does not change.
fn straightened(corners: &[Corner]) -> Vec<Corner> {
    let n = corners.len();
    let turns = |i: &usize| {
        let [a, b, c] = [corners[(i + n - 1) % n], corners[*i], corners[(i + 1) % n]];
        (b[0] - a[0]) * (c[1] - b[1]) != (b[1] - a[1]) * (c[0] - b[0])
    };
    (0..n).filter(turns).map(|i| corners[i]).collect()
}

/// Twice the signed area within a closed line; negative around an inside.
fn doubled_area(corners: &[Corner]) -> i64 {
    let wide = |c: Corner| c.map(i64::from);
    let edges = (0..corners.len()).map(|i| (wide(corners[i]), wide(corners[(i + 1) % corners.len()])));
    edges.map(|(a, b)| a[0] * b[1] - b[0] * a[1]).sum()
}

/// The crossings of a closed line with a row at `y` half pixels: edge and column.
fn crossings(corners: &[Corner], y: i32) -> impl Iterator<Item = (usize, i32)> + '_ {
    (0..corners.len()).filter_map(move |i| {
        let (a, b) = (corners[i], corners[(i + 1) % corners.len()]);
        if a[1] == y {
            return Some((i, a[0]));
        }
        // Edges are level, upright or diagonal: the column is a whole number.
        let between = (a[1] < y && y < b[1]) || (b[1] < y && y < a[1]);
        between.then(|| (i, a[0] + (b[0] - a[0]).signum() * (y - a[1]).abs()))
    })
}

/// The leftmost point of a hole between two rows of centres, and the hole as a line that begins
/// there.
fn opened(corners: Vec<Corner>) -> (Corner, Vec<Corner>) {
    let low = corners.iter().map(|c| c[1]).min().unwrap_or_default();
    let high = corners.iter().map(|c| c[1]).max().unwrap_or_default();
    let rows = (low..=high).filter(|y| y % 2 != 0);
    let points = rows.flat_map(|y| crossings(&corners, y).map(move |(edge, x)| ([x, y], edge)));
    let Some((left, edge)) = points.min() else { return (corners[0], corners) };
    let n = corners.len();
    let rest = (1..=n).map(|i| corners[(edge + i) % n]).filter(|c| *c != left);
    let line = std::iter::once(left).chain(rest).collect();
    (left, line)
}

/// Joins a hole to the polygon on its left, by a line between two rows of centres.
fn join(polygons: &mut [Vec<Corner>], left: Corner, hole: &[Corner]) {
    let of = |(p, corners): (usize, &Vec<Corner>)| {
        let nearest = crossings(corners, left[1]).filter(|(_, x)| *x < left[0]).max_by_key(|(_, x)| *x);
        nearest.map(|(edge, x)| (x, p, edge))
    };
    let Some((x, p, edge)) = polygons.iter().enumerate().filter_map(of).max_by_key(|(x, ..)| *x) else { return };
    let at = [x, left[1]];
    let way = std::iter::once(at).chain(hole.iter().copied()).chain([left, at]);
    let corners = &mut polygons[p];
    // The corner at the crossing itself already exists.
    let after = if corners[edge] == at { way.skip(1).collect::<Vec<_>>() } else { way.collect() };
    corners.splice(edge + 1..edge + 1, after);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polygon::fill;
    use proptest::prelude::*;

    fn outlined(rows: &[&str]) -> Vec<Vec<[f64; 2]>> {
        let at = |x: usize, y: usize| rows[y].as_bytes()[x] == b'#';
        outlines(rows[0].len(), rows.len(), at)
    }

    fn area(polygon: &[[f64; 2]]) -> f64 {
        let n = polygon.len();
        let sum: f64 =
            (0..n).map(|i| polygon[i][0] * polygon[(i + 1) % n][1] - polygon[(i + 1) % n][0] * polygon[i][1]).sum();
        (sum / 2.0).abs()
    }

    #[test]
    fn one_pixel_is_a_diamond() {
        let got = outlined(&["...", ".#.", "..."]);
        let expected = [[1.0, 0.5], [0.5, 1.0], [1.0, 1.5], [1.5, 1.0]];
        assert_eq!(got.len(), 1);
        assert!(got[0].len() == 4 && expected.iter().all(|corner| got[0].contains(corner)), "{got:?}");
    }

    #[test]
    fn a_ring_is_one_polygon_whose_area_lacks_the_hole() {
        let got = outlined(&[".....", ".###.", ".#.#.", ".###.", "....."]);
        assert_eq!(got.len(), 1, "{got:?}");
        // A square of 3 pixels without its four corners of 1/8, minus a diamond of 1/2.
        assert!((area(&got[0]) - (9.0 - 0.5 - 0.5)).abs() < 1e-12, "{got:?}");
        // Only the keyhole is walked twice.
        let twice = got[0].iter().filter(|a| got[0].iter().filter(|b| a == b).count() > 1).count();
        assert_eq!(twice, 4, "{got:?}");
    }

    #[test]
    fn an_island_in_a_hole_is_a_polygon_of_its_own() {
        let rows = ["#######", "#.....#", "#.#.#.#", "#.....#", "#######"];
        assert_eq!(outlined(&rows).len(), 3);
    }

    proptest! {
        /// Together by the even-odd rule, and one by one, also after rounding to a file's decimals.
        #[test]
        fn the_mask_comes_back(
            bits in prop::collection::vec(prop::bool::weighted(0.6), 99),
            shift in -3e-6_f64..3e-6,
        ) {
            let (width, height) = (11, 9);
            let polygons = outlines(width, height, |x, y| bits[y * width + x]);
            // Coordinates read from a file are not exact.
            let moved = |p: &Vec<[f64; 2]>| p.iter().map(|[x, y]| [x + shift * (1.0 + y), y - shift * x]).collect();
            for polygons in [polygons.clone(), polygons.iter().map(moved).collect()] {
                let mut together = vec![false; width * height];
                fill(&polygons, width, height, |x, y| together[y * width + x] = true);
                prop_assert_eq!(&together, &bits, "together");
                let mut alone = vec![false; width * height];
                for polygon in &polygons {
                    fill(std::slice::from_ref(polygon), width, height, |x, y| alone[y * width + x] = true);
                }
                prop_assert_eq!(&alone, &bits, "one by one");
            }
        }
    }
}
