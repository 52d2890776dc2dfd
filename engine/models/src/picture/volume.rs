//! A volume from which slices are drawn.

use super::panel::{Layer, Line, Panel};
use super::view::{Grid, Plane};

/// A volume in the axes of a view, with its outlined layers. Values keep their storage order.
pub struct Volume<'a> {
    /// The grid of the values.
    pub grid: Grid,
    /// One channel, or red, green and blue.
    pub channels: Vec<&'a [f32]>,
    /// Outlined classes with their styles; a layer with missing voxels has no class there.
    pub layers: Vec<(Line, &'a [u8])>,
    /// The values that are drawn black and white.
    pub window: (f32, f32),
}

impl Volume<'_> {
    /// The number of voxels of each slice that belong to a class.
    pub fn areas(&self, plane: Plane) -> Vec<usize> {
        let is_class = |classes: &[u8], place: usize| classes.get(place).is_some_and(|class| *class > 0);
        self.count(plane, |place| self.layers.iter().any(|(_, classes)| is_class(classes, place)))
    }

    /// The slice with the most voxels in which truth and prediction differ, and their number;
    /// `None` without truth or difference.
    pub fn worst(&self, plane: Plane) -> Option<(usize, usize)> {
        let of = |wanted: Line| self.layers.iter().filter(move |(line, _)| *line == wanted).map(|(_, classes)| classes);
        let pairs: Vec<_> = of(Line::Solid).zip(of(Line::Dashed)).collect();
        let differing =
            self.count(plane, |place| pairs.iter().any(|(truth, found)| truth.get(place) != found.get(place)));
        differing.into_iter().enumerate().rev().max_by_key(|(_, voxels)| *voxels).filter(|(_, voxels)| *voxels > 0)
    }

    /// The number of counted voxels of each slice; `counts` gets storage indices.
    fn count(&self, plane: Plane, counts: impl Fn(usize) -> bool) -> Vec<usize> {
        let [(across, _), (down, _)] = plane.axes();
        let shape = self.grid.shape;
        let in_slice = |index: usize| {
            let inside = |column: usize, row: usize| {
                let mut voxel = [index; 3];
                (voxel[across], voxel[down]) = (column, row);
                counts(self.grid.place(voxel))
            };
            (0..shape[down]).map(|row| (0..shape[across]).filter(|column| inside(*column, row)).count()).sum()
        };
        (0..shape[plane.across()]).map(in_slice).collect()
    }

    /// The voxel with the largest value of the first channel, nearest to the first one among equal ones.
    pub fn peak(&self) -> [usize; 3] {
        let [x, y, z] = self.grid.shape;
        let mut best = ([0; 3], f32::NEG_INFINITY);
        for voxel in (0..x * y * z).map(|i| [i / (y * z), i / z % y, i % z]) {
            let value = self.channels.first().and_then(|values| values.get(self.grid.place(voxel)));
            if let Some(value) = value.filter(|value| **value > best.1) {
                best = (voxel, *value);
            }
        }
        best.0
    }

    /// The slice with the largest area of classes, nearest to the middle among equal ones.
    pub fn telling(&self, plane: Plane) -> usize {
        let middle = self.grid.shape[plane.across()] / 2;
        let areas = if self.layers.is_empty() { Vec::new() } else { self.areas(plane) };
        (0..areas.len()).max_by_key(|z| (areas[*z], usize::MAX - z.abs_diff(middle))).unwrap_or(middle)
    }

    /// A slice by its index along the axis perpendicular to the plane.
    pub fn slice(&self, plane: Plane, index: usize) -> Panel {
        let [(across, from_right), (down, from_bottom)] = plane.axes();
        let (shape, count) = (self.grid.shape, self.grid.shape[plane.across()]);
        let (width, height) = (shape[across], shape[down]);
        let places: Vec<usize> = (0..width * height)
            .map(|i| {
                let (column, row) = (i % width, i / width);
                let mut voxel = [index; 3];
                voxel[across] = if from_right { width - 1 - column } else { column };
                voxel[down] = if from_bottom { height - 1 - row } else { row };
                self.grid.place(voxel)
            })
            .collect();
        let (low, high) = self.window;
        let range = (high - low).max(f32::MIN_POSITIVE);
        let bright = |value: f32| ((value - low) / range * 255.0).round().clamp(0.0, 255.0) as u8;
        let colour = |i: usize| match self.channels[..] {
            [red, green, blue] => [bright(red[i]), bright(green[i]), bright(blue[i])],
            _ => [self.channels.first().map_or(0, |grey| bright(grey[i])); 3],
        };
        let layer = |(line, classes): &(Line, &[u8])| Layer {
            line: *line,
            classes: places.iter().map(|place| classes.get(*place).copied().unwrap_or(0)).collect(),
        };
        Panel {
            width,
            height,
            pixel: [self.grid.spacing[across], self.grid.spacing[down]],
            pixels: places.iter().map(|place| colour(*place)).collect(),
            layers: self.layers.iter().map(layer).collect(),
            letters: self.grid.letters(plane),
            caption: plane.caption(index, count),
        }
    }
}

/// The default window: all values except the lowest and highest half per cent.
pub fn range(channels: &[&[f32]]) -> (f32, f32) {
    let mut values: Vec<f32> = channels.iter().flat_map(|c| c.iter().copied()).filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        return (0.0, 1.0);
    }
    let cut = values.len() / 200;
    let last = values.len() - 1;
    let low = *values.select_nth_unstable_by(cut, f32::total_cmp).1;
    let high = *values.select_nth_unstable_by(last - cut, f32::total_cmp).1;
    if low < high { (low, high) } else { (low, low + 1.0) }
}
