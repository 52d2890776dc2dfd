//! What can go wrong.

/// A surface cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceError {
    /// The values are not those of the shape.
    #[error("{values} values for a volume of {shape:?} voxels")]
    Shape {
        /// How many there are.
        values: usize,
        /// `[X, Y, Z]`.
        shape: [usize; 3],
    },
    /// No voxel lies inside, so there is no surface.
    #[error("no voxel has {what}: there is no surface")]
    Empty {
        /// What was looked for, as in `the label 3`.
        what: String,
    },
    /// Voxels have no extent along some direction.
    #[error("the affine {0:?} maps voxels to a plane or a line; expected three independent axes")]
    Affine(Box<[[f64; 4]; 4]>),
    /// More vertices than a file of triangles can number.
    #[error("the surface has more than {0} vertices; resample the volume to larger voxels")]
    Large(usize),
    /// An option is out of its range.
    #[error("{0}")]
    Option(String),
}
