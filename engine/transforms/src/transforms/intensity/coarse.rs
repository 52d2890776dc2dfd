//! Random boxes, for the transforms that change the image in them.

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;

use crate::Draw;
use crate::params::resolve_size;

/// The maximum number of boxes: each is drawn and written in turn, so more are probably a mistake.
const MOST: usize = 1 << 20;

/// The number of boxes, and their sizes.
pub(super) struct Holes<'a> {
    pub holes: usize,
    pub spatial_size: &'a OneOrMany<i64>,
    pub max_holes: Option<usize>,
    pub max_spatial_size: Option<&'a OneOrMany<i64>>,
}

/// A box of voxels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub start: [usize; 3],
    pub size: [usize; 3],
}

impl Hole {
    /// Returns the starts of its rows in a row-major array of this shape.
    pub fn rows(&self, [_, ny, nz]: [usize; 3]) -> impl Iterator<Item = usize> {
        let Hole { start: [x, y, z], size: [sx, sy, _] } = *self;
        (x..x + sx).flat_map(move |x| (y..y + sy).map(move |y| (x * ny + y) * nz + z))
    }

    /// Returns the part of an image of this shape that the box covers.
    pub fn within(&self, shape: [usize; 3]) -> Hole {
        let start = std::array::from_fn(|axis| self.start[axis].min(shape[axis]));
        let size = std::array::from_fn(|axis| self.size[axis].min(shape[axis] - start[axis]));
        Hole { start, size }
    }
}

impl Holes<'_> {
    /// Draws the boxes: their number, then size and corner of each.
    ///
    /// MONAI draws each size from the previous one up to the largest; this implementation draws
    /// every size from the whole range.
    pub fn draw(&self, draw: &Draw, shape: [usize; 3], n: usize) -> Result<Vec<Hole>, TransformError> {
        let more = self.max_holes.map_or(0, |most| draw.below(most.saturating_sub(self.holes) as u64 + 1) as usize);
        let least = resolve_size(self.spatial_size, shape, n)?;
        let most = self.max_spatial_size.map(|size| resolve_size(size, shape, n)).transpose()?;
        let one = |_| {
            let mut hole = Hole { start: [0; 3], size: shape };
            for axis in 0..n {
                let size = match most {
                    Some(most) => least[axis] + draw.below(most[axis].saturating_sub(least[axis]) as u64 + 1) as usize,
                    None => least[axis],
                };
                hole.size[axis] = size.min(shape[axis]);
            }
            for (axis, size) in shape.iter().enumerate().take(n) {
                let room = size - hole.size[axis];
                hole.start[axis] = if room > 0 { draw.below(room as u64 + 1) as usize } else { 0 };
            }
            hole
        };
        Ok((0..self.holes + more).map(one).collect())
    }

    /// Checks that there is at least one hole and not more than the maximum, and that no upper
    /// limit is below the lower one.
    pub fn check(&self) -> Result<(), Fault> {
        if self.holes < 1 {
            return Err(Fault::at("holes", "must be at least 1"));
        }
        if self.max_holes.is_some_and(|most| most < self.holes) {
            return Err(Fault::at("max_holes", format!("is smaller than holes = {}", self.holes)));
        }
        for (key, count) in [("holes", Some(self.holes)), ("max_holes", self.max_holes)] {
            if let Some(count) = count.filter(|count| *count > MOST) {
                return Err(Fault::at(key, format!("{count} boxes are too many, at most {MOST} are drawn")));
            }
        }
        let Some(most) = self.max_spatial_size else { return Ok(()) };
        let axes = most.as_slice().len().max(self.spatial_size.as_slice().len());
        let smaller = (0..axes).any(|axis| match (self.spatial_size.at(axis), most.at(axis)) {
            (Some(least), Some(most)) => most > 0 && least > most,
            _ => false,
        });
        if smaller { Err(Fault::at("max_spatial_size", "is smaller than spatial_size")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;

    #[test]
    fn boxes_have_the_sizes_asked_for_and_lie_everywhere() {
        let (least, most) = (OneOrMany::from([2, 3, -1]), OneOrMany::from([4, 3, -1]));
        let holes = Holes { holes: 2, spatial_size: &least, max_holes: Some(5), max_spatial_size: Some(&most) };
        let (mut counts, mut sizes, mut starts) = ([0; 7], [0; 6], [0; 8]);
        for i in 0..2000 {
            let drawn = holes.draw(&DrawKey::new(i, 0, 0).draw("", 0, 0), [9, 7, 5], 3).expect("sound");
            counts[drawn.len()] += 1;
            for hole in drawn {
                assert_eq!((hole.size[1], hole.size[2], hole.start[2]), (3, 5, 0));
                assert!((0..3).all(|a| hole.start[a] + hole.size[a] <= [9, 7, 5][a]), "{hole:?}");
                sizes[hole.size[0]] += 1;
                starts[hole.start[1]] += 1;
            }
        }
        assert!(counts[2..=5].iter().all(|n| (420..580).contains(n)) && counts[..2] == [0, 0], "{counts:?}");
        assert!(sizes[2..=4].iter().all(|n| (2100..2600).contains(n)), "{sizes:?}");
        assert!(starts[..=4].iter().all(|n| (1250..1550).contains(n)), "{starts:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (two, one) = (OneOrMany::One(2), OneOrMany::One(1));
        let holes = |holes, max_holes, most| Holes { holes, spatial_size: &two, max_holes, max_spatial_size: most };
        assert!(holes(1, None, None).check().is_ok());
        assert!(holes(0, None, None).check().is_err());
        assert!(holes(3, Some(2), None).check().is_err());
        assert!(holes(1, None, Some(&one)).check().is_err());
        for (least, most) in [(usize::MAX, None), (MOST + 1, None), (1, Some(usize::MAX))] {
            let error = holes(least, most, None).check().expect_err("too many");
            assert!(error.text().contains("at most 1048576"), "{}", error.text());
        }
        assert!(holes(1, Some(MOST), None).check().is_ok());
    }
}
