//! The mapping from stored voxels to the axes of a picture.

use hearth_data::Image;
use hearth_data::orientation::{RAS_LABELS, Reorder, directions};

/// The axes in which a picture is drawn.
///
/// A volume is drawn in the world's axes: the anatomical axes closest to its own, with directions
/// given by the affine. So the order of storage does not affect the picture, and an oblique volume
/// is drawn along its own grid with the closest letters.
///
/// Random flips must be visible. A view is therefore made once, from the image after the
/// deterministic part of a chain, and is used for every draw: voxels are placed as without the
/// draw, so a mirrored patient looks mirrored. The letters of a draw come from its own affine,
/// which includes flips: they stay correct for the patient, and change sides with the patient.
///
/// A 2-D picture, or a volume whose affine has no clear axes, is drawn as it is stored, without
/// letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The image's axes as right, anterior, superior; `None` if drawn as stored.
    axes: Option<Reorder>,
}

impl View {
    /// The view of an image from its own affine.
    pub fn of(image: &Image) -> Self {
        if image.meta.spatial_dims != 3 {
            return Self { axes: None };
        }
        let labels = image.meta.space.labels();
        let towards: [(usize, bool); 3] = std::array::from_fn(|axis| (axis, labels[axis].1 != RAS_LABELS[axis].1));
        Self { axes: Reorder::between(&directions(&image.affine, 3), &towards) }
    }

    /// The grid of an image in this view.
    pub fn grid(&self, image: &Image) -> Grid {
        let (stored, spacing) = (image.shape(), image.spacing());
        let steps = [stored[1] * stored[2], stored[2], 1].map(|step| step as isize);
        let axes = self.axes.unwrap_or(Reorder::NONE);
        let labels = image.meta.space.labels();
        let directions = directions(&image.affine, 3);
        let mut grid = Grid {
            shape: axes.source.map(|axis| stored[axis]),
            spacing: axes.source.map(|axis| if spacing[axis].is_normal() { spacing[axis] } else { 1.0 }),
            start: 0,
            step: axes.source.map(|axis| steps[axis]),
            ends: None,
        };
        for axis in (0..3).filter(|axis| axes.flip[*axis]) {
            grid.start += grid.step[axis] * (grid.shape[axis] as isize - 1);
            grid.step[axis] = -grid.step[axis];
        }
        grid.ends = self.axes.map(|axes| {
            std::array::from_fn(|axis| match directions[axes.source[axis]] {
                Some((world, reversed)) if reversed == axes.flip[axis] => labels[world].into(),
                Some((world, _)) => [labels[world].1, labels[world].0],
                None => ['?'; 2],
            })
        });
        grid
    }
}

/// A volume in the axes of a [`View`]: right, anterior, superior.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The number of voxels along each axis.
    pub shape: [usize; 3],
    /// The distance of voxels in mm.
    pub spacing: [f64; 3],
    /// The storage index of the first voxel.
    start: isize,
    /// The step in storage from one voxel to the next, for each axis.
    step: [isize; 3],
    /// The letters at the start and the end of each axis; `None` if drawn as stored.
    ends: Option<[[char; 2]; 3]>,
}

impl Grid {
    /// The storage index of a voxel.
    pub fn place(&self, voxel: [usize; 3]) -> usize {
        let steps = voxel.iter().zip(self.step).map(|(index, step)| *index as isize * step);
        (self.start + steps.sum::<isize>()) as usize
    }

    /// The planes with more than one row and one column.
    pub fn planes(&self) -> Vec<Plane> {
        if self.ends.is_none() {
            return vec![Plane::Stored];
        }
        let wide = |plane: &Plane| plane.axes().iter().all(|(axis, _)| self.shape[*axis] > 1);
        let planes: Vec<Plane> = [Plane::Axial, Plane::Coronal, Plane::Sagittal].into_iter().filter(wide).collect();
        if planes.is_empty() { vec![Plane::Axial] } else { planes }
    }

    /// The letters at the left, right, top and bottom of a plane.
    pub fn letters(&self, plane: Plane) -> Option<[char; 4]> {
        let ends = self.ends?;
        let [across, down] = plane.axes().map(|(axis, reversed)| {
            let [low, high] = ends[axis];
            if reversed { [high, low] } else { [low, high] }
        });
        Some([across[0], across[1], down[0], down[1]])
    }
}

/// A cutting plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// The patient's right at the left, anterior at the top.
    Axial,
    /// The patient's right at the left, superior at the top.
    Coronal,
    /// Anterior at the left, superior at the top.
    Sagittal,
    /// As it is stored: the first axis to the right, the second down.
    Stored,
}

impl Plane {
    /// The axis of columns and that of rows, and whether each is reversed.
    pub fn axes(self) -> [(usize, bool); 2] {
        match self {
            Self::Axial => [(0, true), (1, true)],
            Self::Coronal => [(0, true), (2, true)],
            Self::Sagittal => [(1, true), (2, true)],
            Self::Stored => [(0, false), (1, false)],
        }
    }

    /// The axis perpendicular to the plane.
    pub fn across(self) -> usize {
        match self {
            Self::Axial | Self::Stored => 2,
            Self::Coronal => 1,
            Self::Sagittal => 0,
        }
    }

    /// The caption of a slice; a single slice has no number.
    pub fn caption(self, index: usize, count: usize) -> String {
        let name = match self {
            Self::Axial => "axial",
            Self::Coronal => "coronal",
            Self::Sagittal => "sagittal",
            Self::Stored if count == 1 => return String::new(),
            Self::Stored => "as stored",
        };
        if count == 1 { name.to_owned() } else { format!("{name}, slice {} of {count}", index + 1) }
    }
}
