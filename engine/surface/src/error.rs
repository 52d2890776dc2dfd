//! The errors of this crate.

/// An error of creating or changing a surface.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceError {
    /// The number of values does not match the shape.
    #[error("{values} values for a volume of {shape:?} voxels")]
    Shape {
        /// Number of values.
        values: usize,
        /// Shape of the volume, `[X, Y, Z]`.
        shape: [usize; 3],
    },
    /// No voxel is inside, so there is no surface.
    #[error("no voxel has {what}: there is no surface")]
    Empty {
        /// The search criterion, for example `the label 3`.
        what: String,
    },
    /// The voxels have no extent along some direction.
    #[error("the affine {0:?} maps voxels to a plane or a line; expected three independent axes")]
    Affine(Box<[[f64; 4]; 4]>),
    /// The number of vertices exceeds the limit of a triangle file.
    #[error("the surface has more than {0} vertices; resample the volume to larger voxels")]
    Large(usize),
    /// An option is out of its range.
    #[error("{0}")]
    Option(String),
}
