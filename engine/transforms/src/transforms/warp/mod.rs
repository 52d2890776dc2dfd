//! Transforms that resample an image: affine transforms, resizing, elastic deformations,
//! distorted grids.

mod affine;
mod affine_grid;
mod affine_ranges;
mod elastic;
mod grid_distortion;
mod rand_2d_elastic;
mod rand_3d_elastic;
mod rand_affine;
mod rand_grid_distortion;
mod rand_rotate;
mod rand_simulate_low_resolution;
mod rand_smooth_deform;
mod rand_zoom;
mod resize;
mod rotate;
mod zoom;

pub use affine::Affine;
pub(super) use affine::given_matrix;
pub use affine_grid::AffineGrid;
pub use affine_ranges::{Span, Spans};
pub use grid_distortion::{GridDistortion, distort};
pub use rand_2d_elastic::{Elastic2D, Rand2DElastic};
pub use rand_3d_elastic::{Elastic3D, Rand3DElastic};
pub use rand_affine::RandAffine;
pub use rand_grid_distortion::RandGridDistortion;
pub use rand_rotate::RandRotate;
pub use rand_simulate_low_resolution::RandSimulateLowResolution;
pub use rand_smooth_deform::RandSmoothDeform;
pub use rand_zoom::RandZoom;
pub use resize::{Resize, SizeMode};
pub use rotate::{Rotate, rotate};
pub use zoom::{Zoom, Zooming};
