//! Surfaces of labels in patient coordinates, as files for 3D Slicer and other mesh viewers. The
//! crate does not depend on a tensor library.
//!
//! ```
//! use hearth_surface::{Mesh, Space};
//!
//! # fn main() -> Result<(), hearth_surface::SurfaceError> {
//! // A cube of 4 x 4 x 4 voxels of 1 mm within 6 x 6 x 6; [X, Y, Z], Z fastest.
//! let inside = |i: usize| [i / 36, i / 6 % 6, i % 6].iter().all(|at| (1..5).contains(at));
//! let values: Vec<f32> = (0..216).map(|i| f32::from(u8::from(inside(i)))).collect();
//! let affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
//! let mesh = Mesh::of_label(&values, [6, 6, 6], &affine, 1.0)?;
//! assert!(mesh.is_watertight());
//! // Half-way between voxels, with bevelled edges and corners: 64 - 12 * 3 / 8 - 8 * 5 / 48 mm^3.
//! assert!((mesh.volume() - 176.0 / 3.0).abs() < 1e-4);
//! let bytes: Vec<u8> = mesh.to_stl(Space::Lps);
//! # assert_eq!(bytes.len(), 84 + 50 * mesh.faces().len());
//! # Ok(())
//! # }
//! ```
//!
//! - [`Mesh::of_label`] and [`Mesh::of_level`]: marching cubes (Lorensen and Cline 1987). On a cube
//!   face whose corners alternate, the inside corners are separated in both cubes that share the face.
//!   The surface is therefore always closed, and each edge has exactly two triangles.
//! - [`Mesh::smooth`]: Taubin's filter (1995), which avoids shrinkage.
//! - [`Mesh::decimate`]: edge collapses by quadric error (Garland and Heckbert 1997).
//! - [`Mesh::to_stl`], [`Mesh::to_obj`]: export with the coordinate system in the header, in the
//!   format of 3D Slicer.

#![forbid(unsafe_code)]

mod cubes;
mod decimate;
mod error;
mod extract;
mod files;
mod mesh;
mod smooth;

pub use error::SurfaceError;
pub use files::Space;
pub use mesh::{Affine, Mesh};
pub use smooth::Smoothing;
