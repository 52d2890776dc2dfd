//! The image that a picture is about.

use hearth_data::Image;
use hearth_pictures::axis;

use super::panel::{Line, Panel};
use super::view::{Plane, View};
use super::volume::{Volume, range};

/// An image, and how it is drawn.
pub struct Subject<'a> {
    /// Above the picture.
    pub title: &'a str,
    /// The image on its own grid. Its first channel is drawn; the three of a flat one are colours.
    pub image: &'a Image,
    /// What is drawn black and white; none where its values say it.
    pub window: Option<(f32, f32)>,
}

impl Subject<'_> {
    /// A panel of each plane, through the slices that show most of these layers: the middle ones
    /// where there are none.
    pub fn planes(&self, layers: Vec<(Line, &[u8])>) -> Vec<Panel> {
        self.drawn(layers, |volume| {
            volume.grid.planes().into_iter().map(|p| volume.slice(p, volume.telling(p))).collect()
        })
    }

    /// The same, and below them the slices in which truth and prediction differ most, where both
    /// are there and differ.
    pub fn planes_and_worst(&self, layers: Vec<(Line, &[u8])>) -> Vec<Vec<Panel>> {
        self.drawn(layers, |volume| {
            // One slice is both.
            let flat = volume.grid.shape[2] == 1;
            let slice = |plane: Plane, index: usize, worst: Option<(usize, usize)>| {
                let mut panel = volume.slice(plane, index);
                if let Some((_, voxels)) = worst.filter(|(worst, _)| *worst == index && !flat) {
                    panel.caption += &format!(", the worst: {voxels} voxels differ");
                }
                panel
            };
            let (mut above, mut below) = (Vec::new(), Vec::new());
            for plane in volume.grid.planes() {
                let (telling, worst) = (volume.telling(plane), volume.worst(plane));
                above.push(slice(plane, telling, worst));
                // One that is above already is not drawn twice.
                let other = worst.filter(|(index, _)| *index != telling && !flat);
                below.extend(other.map(|(index, _)| slice(plane, index, worst)));
            }
            if below.is_empty() { vec![above] } else { vec![above, below] }
        })
    }

    /// The same with its window decided, so that it can be named beside the picture.
    pub fn settled(&self) -> Self {
        let window = self.window.unwrap_or_else(|| range(&shown(self.image, &self.image.to_vec())));
        Self { window: Some(window), ..*self }
    }

    /// What is drawn black and white, in words; none of colours.
    pub fn window_words(&self) -> Option<String> {
        let coloured = self.image.meta.spatial_dims == 2 && self.image.channels() == 3;
        let (low, high) = self.window.filter(|_| !coloured)?;
        let number = |value: f32| axis::number(f64::from((value * 1e3).round() / 1e3));
        Some(format!("black {} to white {}", number(low), number(high)))
    }

    fn drawn<T>(&self, layers: Vec<(Line, &[u8])>, draw: impl FnOnce(&Volume<'_>) -> T) -> T {
        let values = self.image.to_vec();
        let channels = shown(self.image, &values);
        let window = self.window.unwrap_or_else(|| range(&channels));
        draw(&Volume { grid: View::of(self.image).grid(self.image), channels, layers, window })
    }
}

/// The channels of an image that are drawn: the first, or all three of a flat one.
pub fn shown<'a>(image: &Image, values: &'a [f32]) -> Vec<&'a [f32]> {
    let size = image.shape().iter().product::<usize>().max(1);
    let coloured = image.meta.spatial_dims == 2 && image.channels() == 3;
    values.chunks_exact(size).take(if coloured { 3 } else { 1 }).collect()
}
