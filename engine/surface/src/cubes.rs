//! The triangles of a cube for each combination of inside corners, computed once from one rule.
//!
//! Corner `c` lies at `(c & 1, c >> 1 & 1, c >> 2 & 1)`. Published tables cut a face with
//! alternating corners in different ways, and some leave holes. Here each face is cut separately:
//! seen from outside, each run of inside corners is cut off from the others. The two cubes at a
//! face see the same runs, so their cuts coincide. The cuts of a cube's faces form closed loops.

use std::sync::LazyLock;

/// An edge of a cube: the corner nearer to the origin, and the axis.
pub(crate) const EDGES: [(usize, usize); 12] = {
    let mut edges = [(0, 0); 12];
    let (mut count, mut axis) = (0, 0);
    while axis < 3 {
        let mut corner = 0;
        while corner < 8 {
            if corner >> axis & 1 == 0 {
                edges[count] = (corner, axis);
                count += 1;
            }
            corner += 1;
        }
        axis += 1;
    }
    edges
};

/// Corners of each face, counter-clockwise as seen from outside.
const FACES: [[usize; 4]; 6] = [[0, 4, 6, 2], [1, 3, 7, 5], [0, 1, 5, 4], [2, 6, 7, 3], [0, 2, 3, 1], [4, 5, 7, 6]];

/// The loops of edges for each combination of corners, indexed by the bits of the inside corners;
/// counter-clockwise as seen from outside.
static LOOPS: LazyLock<Vec<Vec<Loop>>> = LazyLock::new(|| (0..256).map(loops).collect());

/// A closed polygon on the edges of a cube.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loop {
    /// The corners of the polygon, as indices into [`EDGES`].
    pub edges: Vec<usize>,
    /// A corner from which all diagonals stay off the faces of the cube, where they could coincide
    /// with those of the neighbouring cube. Without one, the polygon needs a point in its
    /// interior.
    pub apex: Option<usize>,
}

pub(crate) fn of(corners: u8) -> &'static [Loop] {
    &LOOPS[usize::from(corners)]
}

fn edge_between(a: usize, b: usize) -> usize {
    let (low, axis) = (a.min(b), (a ^ b).trailing_zeros() as usize);
    EDGES.iter().position(|edge| *edge == (low, axis)).unwrap_or_default()
}

fn loops(corners: usize) -> Vec<Loop> {
    let inside = |corner: usize| corners >> corner & 1 == 1;
    // The end of the cut that starts at each edge.
    let mut next: [Option<usize>; 12] = [None; 12];
    for face in FACES {
        for start in 0..4 {
            // A run of inside corners: it starts here, and ends before the first corner outside.
            if !inside(face[start]) || inside(face[(start + 3) % 4]) {
                continue;
            }
            let length = (1..4).find(|by| !inside(face[(start + by) % 4])).unwrap_or(4);
            let enters = edge_between(face[(start + 3) % 4], face[start]);
            let leaves = edge_between(face[(start + length - 1) % 4], face[(start + length) % 4]);
            next[enters] = Some(leaves);
        }
    }
    let mut all = Vec::new();
    for start in 0..12 {
        let mut edges = Vec::new();
        let mut at = start;
        while let Some(following) = next[at].take() {
            edges.push(at);
            at = following;
        }
        if !edges.is_empty() {
            let apex = apex(&edges);
            all.push(Loop { edges, apex });
        }
    }
    all
}

fn apex(edges: &[usize]) -> Option<usize> {
    let on = |face: &[usize; 4], edge: usize| {
        let (low, axis) = EDGES[edge];
        face.contains(&low) && face.contains(&(low | 1 << axis))
    };
    let in_a_face = |a: usize, b: usize| FACES.iter().any(|face| on(face, a) && on(face, b));
    let count = edges.len();
    (0..count).find(|apex| (2..count - 1).all(|by| !in_a_face(edges[*apex], edges[(apex + by) % count])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_that_is_cut_belongs_to_one_loop() {
        for corners in 0..256_usize {
            let mut used = [0; 12];
            of(corners as u8).iter().for_each(|polygon| polygon.edges.iter().for_each(|edge| used[*edge] += 1));
            for (edge, (low, axis)) in EDGES.iter().enumerate() {
                let cut = (corners >> low ^ corners >> (low | 1 << axis)) & 1;
                assert_eq!(used[edge], cut, "{corners:08b}, edge {edge}");
            }
        }
    }

    #[test]
    fn one_corner_has_a_triangle_that_faces_away_from_it() {
        let [polygon] = of(1) else { panic!("{:?}", of(1)) };
        let at = |edge: usize| EDGES[edge].1;
        let axes: Vec<usize> = polygon.edges.iter().map(|edge| at(*edge)).collect();
        // Points on x, y, z in this order are counter-clockwise as seen from (1, 1, 1).
        assert!([[0, 1, 2], [1, 2, 0], [2, 0, 1]].contains(&[axes[0], axes[1], axes[2]]), "{axes:?}");
    }
}
