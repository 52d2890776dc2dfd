//! Triangle meshes and their measurements.

use std::collections::HashMap;

/// An affine from voxel indices to mm, RAS+.
pub type Affine = [[f64; 4]; 4];

/// A closed surface of triangles in mm, RAS+, counter-clockwise as seen from outside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    pub(crate) vertices: Vec<[f64; 3]>,
    pub(crate) faces: Vec<[u32; 3]>,
}

pub(crate) fn minus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(crate) fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(crate) fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn norm(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

impl Mesh {
    /// Positions of the vertices in mm, RAS+.
    pub fn vertices(&self) -> &[[f64; 3]] {
        &self.vertices
    }

    /// Indices of the three vertices of each triangle, counter-clockwise as seen from outside.
    pub fn faces(&self) -> &[[u32; 3]] {
        &self.faces
    }

    pub(crate) fn corners(&self, face: [u32; 3]) -> [[f64; 3]; 3] {
        face.map(|vertex| self.vertices[vertex as usize])
    }

    /// The enclosed volume in mm^3, by the divergence theorem, without cavities.
    pub fn volume(&self) -> f64 {
        // Relative to a vertex, to avoid cancellation with coordinates far from zero.
        let origin = self.vertices.first().copied().unwrap_or_default();
        let of = |face: &[u32; 3]| {
            let [a, b, c] = self.corners(*face).map(|corner| minus(corner, origin));
            dot(a, cross(b, c)) / 6.0
        };
        self.faces.iter().map(of).sum()
    }

    /// The surface area in mm^2.
    pub fn area(&self) -> f64 {
        let of = |face: &[u32; 3]| {
            let [a, b, c] = self.corners(*face);
            norm(cross(minus(b, a), minus(c, a))) / 2.0
        };
        self.faces.iter().map(of).sum()
    }

    /// Whether each edge belongs to exactly two triangles, which traverse it in opposite
    /// directions.
    pub fn is_watertight(&self) -> bool {
        let mut edges: HashMap<(u32, u32), [u32; 2]> = HashMap::with_capacity(self.faces.len() * 2);
        for [a, b, c] in &self.faces {
            for (from, to) in [(*a, *b), (*b, *c), (*c, *a)] {
                let (key, way) = if from < to { ((from, to), 0) } else { ((to, from), 1) };
                edges.entry(key).or_default()[way] += 1;
            }
        }
        !edges.is_empty() && edges.values().all(|ways| *ways == [1, 1])
    }
}
