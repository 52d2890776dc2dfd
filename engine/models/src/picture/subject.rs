//! The image of a picture.

use hearth_data::Image;
use hearth_pictures::axis;

use super::panel::{Line, Panel};
use super::view::{Plane, View};
use super::volume::{Volume, range};

/// An image, and how it is drawn.
pub struct Subject<'a> {
    /// The title above the picture.
    pub title: &'a str,
    /// The image on its own grid. Its first channel is drawn, or three channels of a 2-D image as
    /// colours.
    pub image: &'a Image,
    /// The values that are drawn black and white; `None` to derive them from the image.
    pub window: Option<(f32, f32)>,
}

impl Subject<'_> {
    /// A panel of each plane, through the slices with the largest area of these layers, or the
    /// middle ones without layers.
    pub fn planes(&self, layers: Vec<(Line, &[u8])>) -> Vec<Panel> {
        self.drawn(layers, |volume| {
            volume.grid.planes().into_iter().map(|p| volume.slice(p, volume.telling(p))).collect()
        })
    }

    /// The panels of [`planes`](Self::planes), and below them the slices with the most differences
    /// between truth and prediction, if both exist and differ.
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
                // A slice that is already above is not drawn again.
                let other = worst.filter(|(index, _)| *index != telling && !flat);
                below.extend(other.map(|(index, _)| slice(plane, index, worst)));
            }
            if below.is_empty() { vec![above] } else { vec![above, below] }
        })
    }

    /// The subject with a fixed window, so that the window can be named next to the picture.
    pub fn settled(&self) -> Self {
        let window = self.window.unwrap_or_else(|| range(&shown(self.image, &self.image.to_vec())));
        Self { window: Some(window), ..*self }
    }

    /// A description of the window; `None` for colours.
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

/// The drawn channels of an image: the first, or all three of a 2-D one.
pub fn shown<'a>(image: &Image, values: &'a [f32]) -> Vec<&'a [f32]> {
    let size = image.shape().iter().product::<usize>().max(1);
    let coloured = image.meta.spatial_dims == 2 && image.channels() == 3;
    values.chunks_exact(size).take(if coloured { 3 } else { 1 }).collect()
}
