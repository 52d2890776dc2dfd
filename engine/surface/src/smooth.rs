//! Taubin's smoothing: a low-pass filter over the graph of vertices.

use crate::{Mesh, SurfaceError};

/// Options of smoothing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Smoothing {
    /// Number of iterations, each of which moves every vertex towards its neighbours and back.
    pub iterations: usize,
    /// Frequencies below this value are kept, from 0 to 2; smaller is smoother.
    pub pass_band: f64,
}

impl Default for Smoothing {
    fn default() -> Self {
        Smoothing { iterations: 20, pass_band: 0.1 }
    }
}

impl Smoothing {
    /// Sets the number of iterations.
    pub fn iterations(mut self, iterations: usize) -> Self {
        self.iterations = iterations;
        self
    }

    /// Sets the frequency above which detail is removed.
    pub fn pass_band(mut self, pass_band: f64) -> Self {
        self.pass_band = pass_band;
        self
    }
}

/// Size of the step towards the mean of the neighbours.
const TOWARDS: f64 = 0.5;

impl Mesh {
    /// Smooths the steps between voxels and preserves the volume: each step towards the mean of the
    /// neighbours is followed by a step away from it, so that low frequencies pass (G. Taubin, "A
    /// signal processing approach to fair surface design", 1995).
    ///
    /// # Errors
    /// Fails if the pass band is outside 0 to 2, or if there are more than 10,000 iterations.
    pub fn smooth(&mut self, smoothing: Smoothing) -> Result<(), SurfaceError> {
        let Smoothing { iterations, pass_band } = smoothing;
        if !(pass_band > 0.0 && pass_band < 2.0) {
            return Err(SurfaceError::Option(format!("a pass band of {pass_band}; expected more than 0, less than 2")));
        }
        if iterations > 10_000 {
            return Err(SurfaceError::Option(format!("{iterations} iterations; expected at most 10000")));
        }
        let (starts, neighbours) = self.neighbours();
        let away = 1.0 / (pass_band - 1.0 / TOWARDS);
        let mut moved = self.vertices.clone();
        for _ in 0..iterations {
            for step in [TOWARDS, away] {
                for (vertex, to) in moved.iter_mut().enumerate() {
                    let around = &neighbours[starts[vertex]..starts[vertex + 1]];
                    let from = self.vertices[vertex];
                    let mut mean = [0.0; 3];
                    for other in around {
                        let other = self.vertices[*other as usize];
                        (0..3).for_each(|a| mean[a] += other[a]);
                    }
                    let count = around.len().max(1) as f64;
                    *to = std::array::from_fn(|a| from[a] + step * (mean[a] / count - from[a]));
                }
                std::mem::swap(&mut self.vertices, &mut moved);
            }
        }
        Ok(())
    }

    /// The neighbours of all vertices in sequence, and the start of each vertex's neighbours.
    fn neighbours(&self) -> (Vec<usize>, Vec<u32>) {
        // Each edge of a closed surface is traversed once in each direction.
        let mut starts = vec![0; self.vertices.len() + 1];
        for face in &self.faces {
            face.iter().for_each(|vertex| starts[*vertex as usize + 1] += 1);
        }
        for vertex in 1..starts.len() {
            starts[vertex] += starts[vertex - 1];
        }
        let mut free = starts.clone();
        let mut neighbours = vec![0; self.faces.len() * 3];
        for [a, b, c] in &self.faces {
            for (from, to) in [(*a, *b), (*b, *c), (*c, *a)] {
                neighbours[free[from as usize]] = to;
                free[from as usize] += 1;
            }
        }
        (starts, neighbours)
    }
}
