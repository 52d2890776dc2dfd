//! Rasterizes contours.

/// Marks the pixels of an image of `width` columns whose centres lie within the polygons, by the
/// even-odd rule over all of them: a polygon within another is a hole. Corners are in pixels
/// (column, row); whole numbers are centres. Centres on an edge belong to the polygon on their
/// lower right.
pub(crate) fn fill(polygons: &[Vec<[f64; 2]>], width: usize, height: usize, mut mark: impl FnMut(usize, usize)) {
    let edges: Vec<([f64; 2], [f64; 2])> = polygons
        .iter()
        .flat_map(|p| (0..p.len()).map(move |i| (p[i], p[(i + 1) % p.len()])))
        // From top to bottom; horizontal edges cross no line of centres.
        .map(|(a, b)| if a[1] <= b[1] { (a, b) } else { (b, a) })
        .filter(|(a, b)| a[1] < b[1])
        .collect();
    let top = edges.iter().map(|(a, _)| a[1]).fold(f64::INFINITY, f64::min).ceil().max(0.0);
    let bottom = edges.iter().map(|(_, b)| b[1]).fold(f64::NEG_INFINITY, f64::max).min(height as f64 - 1.0);
    if top > bottom {
        return;
    }
    let mut crossings = Vec::new();
    for row in top as usize..=bottom as usize {
        let y = row as f64;
        crossings.clear();
        let cross = edges.iter().filter(|(a, b)| a[1] <= y && y < b[1]);
        crossings.extend(cross.map(|(a, b)| a[0] + (y - a[1]) * (b[0] - a[0]) / (b[1] - a[1])));
        crossings.sort_unstable_by(f64::total_cmp);
        for pair in crossings.as_chunks::<2>().0 {
            let begin = pair[0].ceil().max(0.0) as usize;
            let end = pair[1].ceil().clamp(0.0, width as f64) as usize;
            (begin..end).for_each(|column| mark(column, row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picture(polygons: &[Vec<[f64; 2]>], width: usize, height: usize) -> Vec<String> {
        let mut rows = vec![vec!['.'; width]; height];
        fill(polygons, width, height, |x, y| rows[y][x] = '#');
        rows.into_iter().map(|r| r.into_iter().collect()).collect()
    }

    #[test]
    fn a_square_with_a_hole() {
        let square = |a: f64, b: f64| vec![[a, a], [b, a], [b, b], [a, b]];
        let got = picture(&[square(0.5, 5.5), square(1.5, 3.5)], 7, 6);
        assert_eq!(got, [".......", ".#####.", ".#..##.", ".#..##.", ".#####.", ".#####."]);
    }

    #[test]
    fn neighbours_share_no_pixel_and_leave_none_out() {
        // Corners on centres: each centre belongs to exactly one of the two.
        let left = vec![[0.0, 0.0], [3.0, 0.0], [3.0, 4.0], [0.0, 4.0]];
        let right = vec![[3.0, 0.0], [6.0, 0.0], [6.0, 4.0], [3.0, 4.0]];
        let (a, b) = (picture(&[left], 8, 5), picture(&[right], 8, 5));
        assert_eq!(a, ["###.....", "###.....", "###.....", "###.....", "........"]);
        assert_eq!(b, ["...###..", "...###..", "...###..", "...###..", "........"]);
    }

    /// The winding-free test for one point, as in W. R. Franklin's `pnpoly`.
    fn inside(polygon: &[[f64; 2]], [x, y]: [f64; 2]) -> bool {
        let mut inside = false;
        for i in 0..polygon.len() {
            let (a, b) = (polygon[i], polygon[(i + polygon.len() - 1) % polygon.len()]);
            if (a[1] > y) != (b[1] > y) && x < (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]) + a[0] {
                inside = !inside;
            }
        }
        inside
    }

    proptest! {
        #[test]
        fn every_centre_is_as_the_point_test_says(
            corners in prop::collection::vec((-3.0_f64..13.0, -3.0_f64..13.0), 3..12),
        ) {
            let polygon: Vec<[f64; 2]> = corners.into_iter().map(|(x, y)| [x, y]).collect();
            let mut got = [[false; 10]; 10];
            fill(std::slice::from_ref(&polygon), 10, 10, |x, y| got[y][x] = true);
            for (y, row) in got.iter().enumerate() {
                for (x, value) in row.iter().enumerate() {
                    prop_assert_eq!(*value, inside(&polygon, [x as f64, y as f64]), "{} {}", x, y);
                }
            }
        }
    }
}
