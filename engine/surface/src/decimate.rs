//! Decimation: edges are collapsed in the order of their quadric errors.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::mesh::{cross, dot, minus, norm};
use crate::{Mesh, SurfaceError};

/// The smallest number of triangles of a surface, those of a tetrahedron.
const LEAST: usize = 4;

/// The smallest allowed cosine between a triangle's normals before and after a collapse.
const TURN: f64 = 0.2;

/// The sum of squared distances from planes, `x' A x + 2 b' x + c`. The upper half of A is stored
/// by rows.
#[derive(Clone, Copy, Default)]
struct Quadric {
    a: [f64; 6],
    b: [f64; 3],
    c: f64,
}

impl Quadric {
    /// The quadric of a triangle's plane, weighted by the triangle's area.
    fn of([p, q, r]: [[f64; 3]; 3]) -> Self {
        let normal = cross(minus(q, p), minus(r, p));
        let double = norm(normal);
        if double <= 0.0 {
            return Quadric::default();
        }
        let [x, y, z] = normal.map(|v| v / double);
        let d = -(x * p[0] + y * p[1] + z * p[2]);
        let by = double / 2.0;
        Quadric {
            a: [x * x, x * y, x * z, y * y, y * z, z * z].map(|v| v * by),
            b: [x * d, y * d, z * d].map(|v| v * by),
            c: d * d * by,
        }
    }

    fn plus(&self, other: &Quadric) -> Self {
        Quadric {
            a: std::array::from_fn(|i| self.a[i] + other.a[i]),
            b: std::array::from_fn(|i| self.b[i] + other.b[i]),
            c: self.c + other.c,
        }
    }

    fn at(&self, p: [f64; 3]) -> f64 {
        let [xx, xy, xz, yy, yz, zz] = self.a;
        let [x, y, z] = p;
        let square = xx * x * x + yy * y * y + zz * z * z + 2.0 * (xy * x * y + xz * x * z + yz * y * z);
        (square + 2.0 * dot(self.b, p) + self.c).max(0.0)
    }

    /// The point with the smallest sum, if it is unique.
    fn least(&self) -> Option<[f64; 3]> {
        let [xx, xy, xz, yy, yz, zz] = self.a;
        let rows = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]];
        let determinant = dot(rows[0], cross(rows[1], rows[2]));
        let scale = (xx + yy + zz) / 3.0;
        if determinant.abs() <= 1e-4 * scale * scale * scale || !determinant.is_finite() {
            return None;
        }
        // The inverse of a symmetric matrix: the cross products of its rows are its columns.
        let columns = [cross(rows[1], rows[2]), cross(rows[2], rows[0]), cross(rows[0], rows[1])];
        Some(std::array::from_fn(|r| -(0..3).map(|c| columns[c][r] * self.b[c]).sum::<f64>() / determinant))
    }
}

/// A candidate edge, and the state of its ends for which the collapse was computed.
struct Collapse {
    cost: f64,
    ends: [u32; 2],
    state: [u32; 2],
    to: [f64; 3],
}

impl Collapse {
    fn key(&self) -> (f64, [u32; 2], [u32; 2]) {
        (self.cost, self.ends, self.state)
    }
}

impl PartialEq for Collapse {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Collapse {}

impl PartialOrd for Collapse {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Collapse {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((cost, ends, state), (other_cost, other_ends, other_state)) = (self.key(), other.key());
        cost.total_cmp(&other_cost).then(ends.cmp(&other_ends)).then(state.cmp(&other_state))
    }
}

struct Work<'a> {
    mesh: &'a mut Mesh,
    /// The triangles of each vertex.
    around: Vec<Vec<u32>>,
    quadrics: Vec<Quadric>,
    /// Number of changes of each vertex.
    state: Vec<u32>,
    alive: Vec<bool>,
    queue: BinaryHeap<Reverse<Collapse>>,
}

impl Mesh {
    /// Removes this share of the triangles, from 0 to less than 1, starting with those that
    /// contribute least to the shape. The surface stays closed, and no triangle is flipped. Stops
    /// early if no further edge can be collapsed.
    ///
    /// # Errors
    /// Fails if the share is not from 0 to less than 1.
    pub fn decimate(&mut self, part: f64) -> Result<(), SurfaceError> {
        if !(0.0..1.0).contains(&part) {
            let what = format!("a part of {part} of the triangles to remove; expected 0 to less than 1");
            return Err(SurfaceError::Option(what));
        }
        let wanted = ((self.faces.len() as f64 * (1.0 - part)).ceil() as usize).max(LEAST);
        if wanted >= self.faces.len() {
            return Ok(());
        }
        let mut around = vec![Vec::new(); self.vertices.len()];
        let mut quadrics = vec![Quadric::default(); self.vertices.len()];
        for (place, face) in self.faces.iter().enumerate() {
            let quadric = Quadric::of(self.corners(*face));
            for vertex in face {
                around[*vertex as usize].push(place as u32);
                quadrics[*vertex as usize] = quadrics[*vertex as usize].plus(&quadric);
            }
        }
        let (vertices, mut left) = (self.vertices.len(), self.faces.len());
        let alive = vec![true; left];
        let mut work = Work { mesh: self, around, quadrics, state: vec![0; vertices], alive, queue: BinaryHeap::new() };
        for place in 0..left {
            let [a, b, c] = work.mesh.faces[place];
            for (from, to) in [(a, b), (b, c), (c, a)] {
                if from < to {
                    work.consider(from, to);
                }
            }
        }
        while left > wanted {
            let Some(Reverse(collapse)) = work.queue.pop() else { break };
            let current = collapse.ends.map(|end| work.state[end as usize]);
            if current == collapse.state && work.may(&collapse) {
                work.collapse(&collapse);
                left -= 2;
            }
        }
        let alive = work.alive;
        self.keep(&alive);
        Ok(())
    }

    /// Keeps the triangles that are `alive` and their vertices, and removes all others.
    fn keep(&mut self, alive: &[bool]) {
        let mut kept = alive.iter();
        self.faces.retain(|_| kept.next() == Some(&true));
        let mut number = vec![u32::MAX; self.vertices.len()];
        let mut vertices = Vec::new();
        for vertex in self.faces.iter_mut().flatten() {
            let new = &mut number[*vertex as usize];
            if *new == u32::MAX {
                *new = vertices.len() as u32;
                vertices.push(self.vertices[*vertex as usize]);
            }
            *vertex = *new;
        }
        self.vertices = vertices;
    }
}

impl Work<'_> {
    /// Adds an edge to the queue.
    fn consider(&mut self, a: u32, b: u32) {
        let sum = self.quadrics[a as usize].plus(&self.quadrics[b as usize]);
        let (p, q) = (self.mesh.vertices[a as usize], self.mesh.vertices[b as usize]);
        let middle: [f64; 3] = std::array::from_fn(|i| f64::midpoint(p[i], q[i]));
        let length = norm(minus(p, q));
        // On a nearly flat surface the optimal point can be far away; it is then not used.
        let best = sum.least().filter(|at| norm(minus(*at, middle)) <= 2.0 * length);
        let candidates = [best.unwrap_or(middle), middle, p, q];
        let costs = candidates.map(|at| sum.at(at));
        let least = (0..4).min_by(|i, j| costs[*i].total_cmp(&costs[*j])).unwrap_or(0);
        // On a flat surface, shorter edges come first.
        let cost = costs[least] + 1e-9 * length * length;
        let state = [a, b].map(|end| self.state[end as usize]);
        self.queue.push(Reverse(Collapse { cost, ends: [a, b], state, to: candidates[least] }));
    }

    fn neighbours(&self, vertex: u32) -> Vec<u32> {
        let faces = &self.around[vertex as usize];
        let mut all: Vec<u32> = faces.iter().flat_map(|face| self.mesh.faces[*face as usize]).collect();
        all.retain(|other| *other != vertex);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the surface stays closed and no triangle is flipped.
    fn may(&self, Collapse { ends: [a, b], to, .. }: &Collapse) -> bool {
        let (of_a, of_b) = (self.neighbours(*a), self.neighbours(*b));
        let common: Vec<u32> = of_a.iter().copied().filter(|vertex| of_b.contains(vertex)).collect();
        // The two vertices opposite the edge must keep at least three neighbours.
        if common.len() != 2 || common.iter().any(|vertex| self.neighbours(*vertex).len() <= 3) {
            return false;
        }
        let stays = |moved: u32, other: u32| {
            self.around[moved as usize].iter().all(|face| {
                let face = self.mesh.faces[*face as usize];
                if face.contains(&other) {
                    return true;
                }
                let before = self.mesh.corners(face);
                let after: [[f64; 3]; 3] = std::array::from_fn(|i| if face[i] == moved { *to } else { before[i] });
                let normal = |[p, q, r]: [[f64; 3]; 3]| cross(minus(q, p), minus(r, p));
                let (before, after) = (normal(before), normal(after));
                dot(before, after) > TURN * norm(before) * norm(after)
            })
        };
        stays(*a, *b) && stays(*b, *a)
    }

    /// Replaces both ends of the edge by the first.
    fn collapse(&mut self, Collapse { ends: [a, b], to, .. }: &Collapse) {
        let (a, b) = (*a, *b);
        self.quadrics[a as usize] = self.quadrics[a as usize].plus(&self.quadrics[b as usize]);
        self.mesh.vertices[a as usize] = *to;
        self.state[a as usize] += 1;
        self.state[b as usize] += 1;
        for face in std::mem::take(&mut self.around[b as usize]) {
            let corners = &mut self.mesh.faces[face as usize];
            if corners.contains(&a) {
                self.alive[face as usize] = false;
                for corner in *corners {
                    self.around[corner as usize].retain(|other| *other != face);
                }
            } else {
                corners.iter_mut().filter(|corner| **corner == b).for_each(|corner| *corner = a);
                self.around[a as usize].push(face);
            }
        }
        for other in self.neighbours(a) {
            self.consider(a.min(other), a.max(other));
        }
    }
}
