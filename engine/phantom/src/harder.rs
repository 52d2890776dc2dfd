//! What makes a volume harder than an ordinary one: noise, organs of like intensity, voxels of several
//! tissues, and another field of view in every case.
//!
//! Easy phantoms are learned within a few epochs, so that the programs and settings that train on them
//! differ by little. These take tens of epochs.

use hearth_image::affine::{self, Affine};
use hearth_transforms::{Draw, DrawKey};

use super::shapes::Organ;

/// The largest difference in HU between an organ and its neighbours.
const ALIKE: f64 = 12.0;
/// Points along each axis at which a voxel is sampled.
const POINTS: usize = 2;

/// The difficulty of one case.
pub(super) struct Harder {
    draw: Draw,
    /// Standard deviation of the noise in HU.
    pub noise: f32,
    zoom: f64,
    shift: [f64; 3],
}

impl Harder {
    /// Draws the difficulty of a case. The numbers are independent of those of its anatomy, so that the
    /// anatomy is the same as in the easy case.
    pub fn new(seed: u64, case: usize) -> Self {
        let draw = DrawKey::new(seed, 0, 0).draw(&format!("harder phantom {case}"), 0, 0);
        let noise = draw.between(34.0, 46.0) as f32;
        let zoom = draw.between(0.85, 1.2);
        let shift = [12.0, 12.0, 20.0].map(|most| draw.between(-most, most));
        Harder { draw, noise, zoom, shift }
    }

    /// Changes the field of view: its width and its middle.
    pub fn view(&self, grid: &mut Affine) {
        for (row, shift) in grid.iter_mut().zip(self.shift) {
            row.iter_mut().for_each(|value| *value *= self.zoom);
            row[3] += shift;
        }
    }

    /// Gives organs almost the same intensity.
    pub fn alike<'a>(&self, organs: impl IntoIterator<Item = &'a mut Organ>, hu: f64) {
        for organ in organs {
            organ.hu = hu + self.draw.between(-ALIKE, ALIKE);
        }
    }
}

/// The mean of the values in a voxel, and whether at least half of its points are inside the organ.
pub(super) fn partial_volume(grid: &Affine, voxel: [f64; 3], value: impl Fn([f64; 3]) -> (f64, bool)) -> (f64, bool) {
    let place = |n: usize| (n as f64 + 0.5) / POINTS as f64 - 0.5;
    let (mut sum, mut inside) = (0.0, 0);
    for point in 0..POINTS.pow(3) {
        let at = [point / (POINTS * POINTS), point / POINTS % POINTS, point % POINTS].map(place);
        let (hu, is_inside) = value(affine::apply(grid, std::array::from_fn(|axis| voxel[axis] + at[axis])));
        sum += hu;
        inside += usize::from(is_inside);
    }
    (sum / POINTS.pow(3) as f64, 2 * inside >= POINTS.pow(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A half space that cuts a voxel: the mean is the part of the voxel inside of it, at the points.
    #[test]
    fn a_voxel_has_the_mean_of_its_points() {
        let half = |edge: f64| move |[x, _, _]: [f64; 3]| (f64::from(u8::from(x < edge)) * 100.0, x < edge);
        let voxel = |edge| partial_volume(&affine::IDENTITY, [4.0, 1.0, 1.0], half(edge));
        assert_eq!(voxel(3.5), (0.0, false));
        assert_eq!(voxel(4.0), (50.0, true));
        assert_eq!(voxel(4.5), (100.0, true));
    }

    #[test]
    fn the_field_of_view_changes_its_middle_and_its_width() {
        let harder = Harder::new(3, 1);
        let mut grid = affine::IDENTITY;
        harder.view(&mut grid);
        let [a, b] = [[0.0; 3], [1.0, 0.0, 0.0]].map(|at| affine::apply(&grid, at));
        assert_eq!(a, harder.shift);
        assert!((b[0] - a[0] - harder.zoom).abs() < 1e-12 && (0.85..1.2).contains(&harder.zoom));
    }
}
