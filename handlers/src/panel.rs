//! Slices of volumes side by side, as a PNG.

use hearth_engine::{DType, HandlerError, HostTensor};
use hearth_pictures::colours::of_class;
use hearth_pictures::{Canvas, Rgb};

/// A two-dimensional slice of one item of a batch: per channel `height * width` values, row by row.
pub(crate) struct Slice {
    width: usize,
    height: usize,
    channels: Vec<Vec<f32>>,
}

impl Slice {
    /// The middle slice of `[B, C, X, Y, Z]` across an axis, or all of `[B, C, X, Y]`. X points
    /// right, Y (or Z) up.
    pub fn middle(tensor: &HostTensor<'_>, item: usize, axis: usize) -> Result<Self, String> {
        let (items, channels, size) = match tensor.shape[..] {
            [b, c, x, y] => (b, c, [x, y, 1]),
            [b, c, x, y, z] => (b, c, [x, y, z]),
            _ => return Err(format!("it is {:?}, not [B, C, X, Y] or [B, C, X, Y, Z]", tensor.shape)),
        };
        if item >= items {
            return Err(format!("item {item} was requested, but the batch has {items}"));
        }
        if tensor.is_empty() || tensor.bytes.len() != tensor.len() * tensor.dtype.size() {
            return Err(format!("shape {:?} and {} bytes do not fit", tensor.shape, tensor.bytes.len()));
        }
        // A depth of 1 means 2-D data: there is one slice to show.
        let axis = if size[2] == 1 { 2 } else { axis };
        let [across, up] = [[1, 2], [0, 2], [0, 1]][axis];
        let stride = [size[1] * size[2], size[2], 1];
        let volume = size[0] * size[1] * size[2];
        let cut = size[axis] / 2 * stride[axis];
        let value = |channel: usize, column: usize, row: usize| {
            let place = cut + column * stride[across] + (size[up] - 1 - row) * stride[up];
            element(tensor, (item * channels + channel) * volume + place)
        };
        let (width, height) = (size[across], size[up]);
        let plane = |channel| (0..height * width).map(|i| value(channel, i % width, i / width)).collect();
        Ok(Self { width, height, channels: (0..channels).map(plane).collect() })
    }

    /// Grey from the smallest to the largest finite value of the first channel.
    fn grey(&self) -> Vec<Rgb> {
        let plane = &self.channels[0];
        let finite = plane.iter().copied().filter(|v| v.is_finite());
        let (low, high) = finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let range = if high > low { high - low } else { 1.0 };
        plane.iter().map(|v| [(((v - low) / range).clamp(0.0, 1.0) * 255.0).round() as u8; 3]).collect()
    }

    /// Classes in colour: for one channel its value, for several the index of the largest. Grey if
    /// a single channel does not hold class numbers (a probability, a reconstruction).
    fn classes(&self) -> Vec<Rgb> {
        let classes: Vec<usize> = match &self.channels[..] {
            [plane] if plane.iter().any(|v| v.fract() != 0.0 || *v < 0.0 || !v.is_finite()) => return self.grey(),
            [plane] => plane.iter().map(|v| *v as usize).collect(),
            planes => (0..self.width * self.height)
                .map(|i| (1..planes.len()).fold(0, |best, c| if planes[c][i] > planes[best][i] { c } else { best }))
                .collect(),
        };
        classes.into_iter().map(of_class).collect()
    }
}

fn element(tensor: &HostTensor<'_>, index: usize) -> f32 {
    let size = tensor.dtype.size();
    let bytes = &tensor.bytes[index * size..(index + 1) * size];
    let wide = || <[u8; 8]>::try_from(bytes).unwrap_or_default();
    match tensor.dtype {
        DType::F32 => f32::from_ne_bytes(<[u8; 4]>::try_from(bytes).unwrap_or_default()),
        DType::F64 => f64::from_ne_bytes(wide()) as f32,
        DType::I64 => i64::from_ne_bytes(wide()) as f32,
        DType::U8 => f32::from(bytes[0]),
        _ => f32::NAN,
    }
}

/// Rows of pictures next to each other, with grey lines between them.
pub(crate) struct Panel(Vec<Vec<Picture>>);

struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
}

impl Default for Panel {
    fn default() -> Self {
        Self(vec![Vec::new()])
    }
}

/// Pixels between two pictures.
const GAP: usize = 2;

impl Panel {
    /// Adds a slice on the right of the last row, in grey or as classes.
    pub fn add(&mut self, slice: Slice, classes: bool) {
        let pixels = if classes { slice.classes() } else { slice.grey() };
        let picture = Picture { width: slice.width, height: slice.height, pixels };
        match self.0.last_mut() {
            Some(row) => row.push(picture),
            None => self.0.push(vec![picture]),
        }
    }

    /// Starts another row.
    pub fn next_row(&mut self) {
        self.0.push(Vec::new());
    }

    /// Width, height and the file; `None` when nothing was added.
    pub fn png(&self) -> Result<Option<(u32, u32, Vec<u8>)>, HandlerError> {
        let rows = self.0.iter().filter(|row| !row.is_empty());
        let width_of = |row: &Vec<Picture>| row.iter().map(|picture| picture.width + GAP).sum::<usize>() - GAP;
        let height_of = |row: &Vec<Picture>| row.iter().map(|picture| picture.height).max().unwrap_or(0);
        let Some(width) = rows.clone().map(width_of).max() else { return Ok(None) };
        let height = rows.clone().map(|row| height_of(row) + GAP).sum::<usize>() - GAP;
        let mut canvas = Canvas::new(width, height, [96; 3]);
        let mut top = 0;
        for row in rows {
            let mut left = 0;
            for Picture { width, height, pixels } in row {
                for (index, pixel) in pixels.iter().enumerate().take(width * height) {
                    canvas.set(left + index % width, top + index / width, *pixel);
                }
                left += width + GAP;
            }
            top += height_of(row) + GAP;
        }
        Ok(Some((u32::try_from(width)?, u32::try_from(height)?, canvas.png()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_wide_as_the_widest_and_keep_their_gaps() {
        let mut panel = Panel::default();
        assert!(panel.png().expect("nothing").is_none());
        let slice = || Slice { width: 3, height: 2, channels: vec![vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] };
        panel.add(slice(), false);
        panel.add(slice(), false);
        panel.next_row();
        panel.add(slice(), false);
        // An empty row takes no room.
        panel.next_row();
        let (width, height, _) = panel.png().expect("a picture").expect("some");
        assert_eq!((width, height), (3 + 2 + 3, 2 + 2 + 2));
    }
}
