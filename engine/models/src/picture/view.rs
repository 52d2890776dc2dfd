//! From voxels as they are stored to the axes that a picture is drawn in.

use hearth_data::Image;
use hearth_data::orientation::{RAS_LABELS, Reorder, directions};

/// Which axes a picture is drawn in.
///
/// A volume is drawn in the world's axes, the anatomical ones that are closest to its own: which
/// they are, and which way they run, the affine says. So any order of storage gives the same
/// picture, and an oblique volume is drawn along its own grid with the closest letters.
///
/// What is flipped at random is to look flipped. A view is therefore taken once, of the image as
/// the deterministic part of a chain gives it, and shows every draw: voxels go where they would go
/// without the draw, so a mirrored patient looks mirrored. The letters of a draw come from its own
/// affine, which flips carry along: they stay true of the patient, and change sides with him.
///
/// A flat picture, or a volume whose affine has no clear axes, is drawn as it is stored, without
/// letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The image's axes as right, anterior, superior; none where they are drawn as stored.
    axes: Option<Reorder>,
}

impl View {
    /// The view of an image by its own affine.
    pub fn of(image: &Image) -> Self {
        if image.meta.spatial_dims != 3 {
            return Self { axes: None };
        }
        let labels = image.meta.space.labels();
        let towards: [(usize, bool); 3] = std::array::from_fn(|axis| (axis, labels[axis].1 != RAS_LABELS[axis].1));
        Self { axes: Reorder::between(&directions(&image.affine, 3), &towards) }
    }

    /// How an image lies in this view.
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
    /// Voxels along each axis.
    pub shape: [usize; 3],
    /// mm from voxel to voxel.
    pub spacing: [f64; 3],
    /// Where the first voxel is stored.
    start: isize,
    /// From one voxel to the next along each axis, in storage.
    step: [isize; 3],
    /// The letters of beginning and end of each axis; none where it is drawn as stored.
    ends: Option<[[char; 2]; 3]>,
}

impl Grid {
    /// Where a voxel is stored.
    pub fn place(&self, voxel: [usize; 3]) -> usize {
        let steps = voxel.iter().zip(self.step).map(|(index, step)| *index as isize * step);
        (self.start + steps.sum::<isize>()) as usize
    }

    /// The planes that show something: those with more than a row and a column.
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

/// A way to cut.
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
    /// The axis of columns and that of rows, and whether they run against the axis.
    pub fn axes(self) -> [(usize, bool); 2] {
        match self {
            Self::Axial => [(0, true), (1, true)],
            Self::Coronal => [(0, true), (2, true)],
            Self::Sagittal => [(1, true), (2, true)],
            Self::Stored => [(0, false), (1, false)],
        }
    }

    /// The axis that it cuts across.
    pub fn across(self) -> usize {
        match self {
            Self::Axial | Self::Stored => 2,
            Self::Coronal => 1,
            Self::Sagittal => 0,
        }
    }

    /// What a slice is called; one of one has no number.
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
