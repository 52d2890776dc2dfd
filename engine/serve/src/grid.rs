//! The voxels of an image in space, to compare a label with its image: [`Grid`], [`Volumes`].

use std::path::Path;

/// Reads volumes for a server, which knows no file format itself.
pub trait Volumes: std::fmt::Debug + Send + Sync {
    /// Reads all of an image, from a file or a folder.
    ///
    /// # Errors
    /// A file that is damaged or is not an image, as a message.
    fn grid(&self, path: &Path) -> Result<Grid, String>;

    /// Reads all of a label map. By default any image is one.
    ///
    /// # Errors
    /// As [`Volumes::grid`]; values that are not those of a label map.
    fn label(&self, path: &Path) -> Result<Grid, String> {
        self.grid(path)
    }
}

/// The voxels of an image in space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// The number of voxels along each axis.
    pub shape: [usize; 3],
    /// From voxels to mm.
    pub affine: [[f64; 4]; 4],
}

/// The tolerance between two grids, in voxels: headers are stored in f32, and programs round them.
const TOLERANCE: f64 = 0.1;

impl Grid {
    /// Checks that a label is on this grid. With `part` it may have a part of the voxels, as 3D Slicer
    /// stores segmentations.
    ///
    /// # Errors
    /// The difference.
    pub fn check(&self, label: &Grid, part: bool) -> Result<(), String> {
        let [x, y, z] = self.shape;
        if !part && label.shape != self.shape {
            let [a, b, c] = label.shape;
            return Err(format!("it has {a} x {b} x {c} voxels, and the image {x} x {y} x {z}"));
        }
        let inverse = self.inverse().ok_or("the image has no voxels in space")?;
        let ends = label.shape.map(|length| length.saturating_sub(1) as f64);
        let at = |corner: usize| -> [f64; 3] {
            std::array::from_fn(|axis| if corner >> axis & 1 == 1 { ends[axis] } else { 0.0 })
        };
        // The distance of each corner from where it is in the image's grid.
        let moved = |corner: usize| -> [f64; 3] {
            let voxel = at(corner);
            let found = apply(&inverse, apply(&label.affine, voxel));
            std::array::from_fn(|axis| found[axis] - voxel[axis])
        };
        let start = if part { moved(0).map(f64::round) } else { [0.0; 3] };
        let apart = (0..8).flat_map(|corner| {
            let moved = moved(corner);
            (0..3).map(move |axis| (moved[axis] - start[axis]).abs())
        });
        // A number that is not finite is no distance.
        let apart = apart.fold(0.0, |most: f64, one| if one.is_finite() { most.max(one) } else { f64::INFINITY });
        if apart > TOLERANCE {
            return Err(format!("its voxels lie up to {apart:.2} voxels off those of the image"));
        }
        let within = |axis: usize| start[axis] >= 0.0 && start[axis] + ends[axis] < self.shape[axis] as f64;
        if (0..3).all(within) {
            return Ok(());
        }
        Err(format!("it is not within the {x} x {y} x {z} voxels of the image"))
    }

    /// From mm to voxels; `None` if the axes do not span a space.
    fn inverse(&self) -> Option<[[f64; 4]; 4]> {
        let a = &self.affine;
        let minor = |r: usize, c: usize| {
            let [r0, r1] = [(r + 1) % 3, (r + 2) % 3];
            let [c0, c1] = [(c + 1) % 3, (c + 2) % 3];
            a[r0][c0] * a[r1][c1] - a[r0][c1] * a[r1][c0]
        };
        let determinant: f64 = (0..3).map(|column| a[0][column] * minor(0, column)).sum();
        if !determinant.is_finite() || determinant == 0.0 {
            return None;
        }
        let row = |row: usize| {
            let [x, y, z] = std::array::from_fn(|column| minor(column, row) / determinant);
            [x, y, z, -(x * a[0][3] + y * a[1][3] + z * a[2][3])]
        };
        Some([row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]])
    }
}

fn apply(affine: &[[f64; 4]; 4], at: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|row| affine[row][3] + (0..3).map(|column| affine[row][column] * at[column]).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rotated grid of 0.5 x 0.8 x 3 mm.
    fn image() -> Grid {
        let (sin, cos) = 0.3_f64.sin_cos();
        let affine = [
            [0.5 * cos, -0.8 * sin, 0.0, -120.0],
            [0.5 * sin, 0.8 * cos, 0.0, 33.5],
            [0.0, 0.0, -3.0, 7.0],
            [0.0, 0.0, 0.0, 1.0],
        ];
        Grid { shape: [40, 30, 12], affine }
    }

    /// The part of a grid from a voxel on.
    fn part(of: Grid, start: [f64; 3], shape: [usize; 3]) -> Grid {
        let origin = apply(&of.affine, start);
        let mut affine = of.affine;
        (0..3).for_each(|row| affine[row][3] = origin[row]);
        Grid { shape, affine }
    }

    #[test]
    fn a_label_is_on_the_grid_of_its_image() {
        let image = image();
        assert_eq!(image.check(&image, false), Ok(()));
        assert_eq!(image.check(&part(image, [0.05, 0.0, 0.0], image.shape), false), Ok(()), "rounded");
        let said = |label: Grid| image.check(&label, false).unwrap_err();
        assert!(
            said(Grid { shape: [40, 30, 11], ..image }).contains("40 x 30 x 11 voxels, and the image 40 x 30 x 12")
        );
        assert!(said(part(image, [1.0, 0.0, 0.0], image.shape)).contains("1.00 voxels off"));
        let mut flipped = part(image, [39.0, 0.0, 0.0], image.shape);
        (0..3).for_each(|row| flipped.affine[row][0] *= -1.0);
        assert!(said(flipped).contains("39.00 voxels off"));
        let mut coarse = image;
        (0..3).for_each(|row| coarse.affine[row][2] *= 1.1);
        assert!(said(coarse).contains("1.10 voxels off"));
        let mut none = image;
        none.affine[1][1] = f64::NAN;
        assert!(image.check(&none, false).is_err() && none.check(&image, false).is_err());
        assert!(Grid { affine: [[0.0; 4]; 4], ..image }.check(&image, false).is_err());
    }

    #[test]
    fn a_segmentation_may_have_a_part_of_the_voxels() {
        let image = image();
        let inner = part(image, [3.0, 4.0, 2.0], [10, 20, 10]);
        assert!(image.check(&inner, true).is_ok() && image.check(&image, true).is_ok());
        assert!(image.check(&inner, false).is_err());
        for (start, what) in
            [([3.4, 4.0, 2.0], "voxels off"), ([31.0, 0.0, 0.0], "not within"), ([-1.0, 0.0, 0.0], "not within")]
        {
            let said = image.check(&part(image, start, [10, 20, 10]), true).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
    }
}
