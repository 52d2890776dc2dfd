//! Marching cubes over the voxels of a volume.

use crate::cubes::{self, EDGES};
use crate::mesh::{cross, dot};
use crate::{Affine, Mesh, SurfaceError};

/// The smallest distance of a vertex from the centres of voxels, relative to the distance between
/// voxels. Readers of STL would merge vertices at the same position.
const MARGIN: f64 = 0.01;

/// The index of a missing vertex.
const NONE: u32 = u32::MAX;

impl Mesh {
    /// Extracts the surface around the voxels with value `label` in a label map `[X, Y, Z]`, Z
    /// fastest. The surface runs halfway between inside and outside voxels, and is closed at the
    /// border of the volume.
    ///
    /// # Errors
    /// Fails if the sizes do not match, if no voxel has the label, or if the affine has no inverse.
    pub fn of_label(values: &[f32], shape: [usize; 3], affine: &Affine, label: f32) -> Result<Self, SurfaceError> {
        let what = || format!("the label {label}");
        march(values, shape, affine, &|value| f32::from(u8::from(value == label)) - 0.5, &what)
    }

    /// Extracts the surface around the voxels of `[X, Y, Z]`, Z fastest, whose values are at least
    /// `level`, interpolated between voxels. For probabilities and images.
    ///
    /// # Errors
    /// Fails as [`Mesh::of_label`] does.
    pub fn of_level(values: &[f32], shape: [usize; 3], affine: &Affine, level: f32) -> Result<Self, SurfaceError> {
        let what = || format!("a value of {level} or more");
        march(values, shape, affine, &|value| if value.is_finite() { value - level } else { -1.0 }, &what)
    }
}

/// Extracts the surface at the sign changes of `side`; values of at least 0 are inside.
fn march(
    values: &[f32],
    shape @ [nx, ny, nz]: [usize; 3],
    affine: &Affine,
    side: &dyn Fn(f32) -> f32,
    what: &dyn Fn() -> String,
) -> Result<Mesh, SurfaceError> {
    if nx.checked_mul(ny).and_then(|n| n.checked_mul(nz)) != Some(values.len()) {
        return Err(SurfaceError::Shape { values: values.len(), shape });
    }
    let column = |c: usize| [affine[0][c], affine[1][c], affine[2][c]];
    let determinant = dot(column(0), cross(column(1), column(2)));
    if !determinant.is_normal() || affine.as_flattened().iter().any(|v| !v.is_finite()) {
        return Err(SurfaceError::Affine(Box::new(*affine)));
    }
    // The bounding box of the inside voxels, with one voxel of margin on each side.
    let (mut low, mut high) = ([usize::MAX; 3], [0; 3]);
    for (i, _) in values.iter().enumerate().filter(|(_, value)| side(**value) >= 0.0) {
        for (axis, at) in [i / (ny * nz), i / nz % ny, i % nz].into_iter().enumerate() {
            low[axis] = low[axis].min(at);
            high[axis] = high[axis].max(at);
        }
    }
    if low[0] == usize::MAX {
        return Err(SurfaceError::Empty { what: what() });
    }
    let size: [usize; 3] = std::array::from_fn(|a| high[a] - low[a] + 3);
    let value = |[i, j, k]: [usize; 3]| {
        let at = [i, j, k].iter().zip(low).map(|(at, low)| (at + low).checked_sub(1)).collect::<Option<Vec<_>>>();
        match at.as_deref() {
            Some([x, y, z]) if *x < nx && *y < ny && *z < nz => side(values[(x * ny + y) * nz + z]),
            // The same distance from the surface as an outside neighbour of a label.
            _ => -0.5,
        }
    };
    let world = |at: [f64; 3]| -> [f64; 3] {
        let index: [f64; 3] = std::array::from_fn(|a| at[a] + low[a] as f64 - 1.0);
        std::array::from_fn(|r| (0..3).map(|c| affine[r][c] * index[c]).sum::<f64>() + affine[r][3])
    };
    let mut mesh = Mesh::default();
    // For each node of two planes, the vertices on the edges that start at it, by axis.
    let plane = size[1] * size[2];
    let mut planes = [vec![[NONE; 3]; plane], vec![[NONE; 3]; plane]];
    for i in 0..size[0] - 1 {
        for j in 0..size[1] - 1 {
            for k in 0..size[2] - 1 {
                let node = |corner: usize| [i + (corner & 1), j + (corner >> 1 & 1), k + (corner >> 2 & 1)];
                let at: [f32; 8] = std::array::from_fn(|corner| value(node(corner)));
                let bits = at.iter().enumerate().fold(0_u8, |bits, (c, v)| bits | u8::from(*v >= 0.0) << c);
                if bits == 0 || bits == 255 {
                    continue;
                }
                for polygon in cubes::of(bits) {
                    let vertices: Vec<u32> = polygon
                        .edges
                        .iter()
                        .map(|edge| {
                            let (corner, axis) = EDGES[*edge];
                            let [x, y, z] = node(corner);
                            let kept = &mut planes[x - i][y * size[2] + z][axis];
                            if *kept == NONE {
                                let (a, b) = (f64::from(at[corner]), f64::from(at[corner | 1 << axis]));
                                let mut position = [x, y, z].map(|v| v as f64);
                                position[axis] += (a / (a - b)).clamp(MARGIN, 1.0 - MARGIN);
                                *kept = mesh.vertices.len() as u32;
                                mesh.vertices.push(world(position));
                            }
                            *kept
                        })
                        .collect();
                    mesh.fill(&vertices, polygon.apex);
                }
                if mesh.vertices.len() > NONE as usize - 64 {
                    return Err(SurfaceError::Large(NONE as usize - 64));
                }
            }
        }
        planes.swap(0, 1);
        planes[1].fill([NONE; 3]);
    }
    // An affine with a reflection reverses the orientation of the triangles.
    if determinant < 0.0 {
        mesh.faces.iter_mut().for_each(|face| face.swap(1, 2));
    }
    Ok(mesh)
}

impl Mesh {
    /// Adds the triangles of a polygon, from its apex or from an interior point.
    fn fill(&mut self, polygon: &[u32], apex: Option<usize>) {
        let count = polygon.len();
        let at = |place: usize| polygon[place % count];
        if let Some(apex) = apex {
            self.faces.extend((1..count - 1).map(|by| [at(apex), at(apex + by), at(apex + by + 1)]));
            return;
        }
        let mut centre = [0.0; 3];
        for vertex in polygon {
            let position = self.vertices[*vertex as usize];
            (0..3).for_each(|a| centre[a] += position[a] / count as f64);
        }
        let middle = self.vertices.len() as u32;
        self.vertices.push(centre);
        self.faces.extend((0..count).map(|place| [middle, at(place), at(place + 1)]));
    }
}
