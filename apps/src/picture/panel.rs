//! One slice as it is drawn: pixels, and outlines of the label (solid) and of the prediction
//! (dashed).

use super::canvas::{Canvas, Rgb};
use super::colours::FAINT;

const LABEL: Rgb = [60, 220, 90];
const PREDICTION: Rgb = [255, 90, 200];
const HALO: Rgb = [0, 0, 0];

/// A slice: for volumes, rows from anterior to posterior and columns from the patient's right to
/// left, as radiologists view it; 2-D pictures as they are stored.
pub struct Panel {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// How high a row is, in columns.
    pub aspect: f64,
    /// Colours, row by row.
    pub pixels: Vec<Rgb>,
    /// True classes, 0 is the background.
    pub label: Vec<u8>,
    /// Predicted classes.
    pub prediction: Vec<u8>,
    /// Which side of the patient is on the left: `R`.
    pub side: Option<char>,
    /// What is written below.
    pub caption: String,
}

/// A volume to take slices of. Values are row-major `[X, Y, Z]`.
pub struct Volume<'a> {
    /// `[X, Y, Z]`.
    pub shape: [usize; 3],
    /// mm.
    pub spacing: [f64; 3],
    /// One channel, or red, green and blue.
    pub channels: Vec<&'a [f32]>,
    /// True classes; empty where there is none.
    pub label: &'a [u8],
    /// Predicted classes; empty where there is none.
    pub prediction: &'a [u8],
    /// The display window.
    pub window: (f32, f32),
    /// Which side of the patient the first axis ends at: `R` where it is oriented RAS. `None` for a
    /// 2-D picture, which is drawn as it is stored.
    pub side: Option<char>,
}

impl Volume<'_> {
    /// How many voxels of each slice belong to a class.
    pub fn areas(&self) -> Vec<usize> {
        let [nx, ny, nz] = self.shape;
        let inside = |classes: &[u8], i: usize| classes.get(i).is_some_and(|class| *class > 0);
        (0..nz)
            .map(|z| {
                (0..nx * ny)
                    .map(|i| i * nz + z)
                    .filter(|i| inside(self.label, *i) || inside(self.prediction, *i))
                    .count()
            })
            .collect()
    }

    /// The slice at `z`.
    pub fn slice(&self, z: usize, caption: String) -> Panel {
        let [nx, ny, nz] = self.shape;
        let (low, high) = self.window;
        let range = (high - low).max(f32::MIN_POSITIVE);
        let at = |row: usize, column: usize| {
            let (x, y) = if self.side.is_none() { (column, row) } else { (nx - 1 - column, ny - 1 - row) };
            (x * ny + y) * nz + z
        };
        let places = || (0..ny).flat_map(move |row| (0..nx).map(move |column| (row, column)));
        let bright = |value: f32| ((value - low) / range * 255.0).round().clamp(0.0, 255.0) as u8;
        let colour = |i: usize| match self.channels[..] {
            [red, green, blue] => [bright(red[i]), bright(green[i]), bright(blue[i])],
            _ => [self.channels.first().map_or(0, |gray| bright(gray[i])); 3],
        };
        let classes = |classes: &[u8]| places().map(|(r, c)| classes.get(at(r, c)).copied().unwrap_or(0)).collect();
        Panel {
            width: nx,
            height: ny,
            aspect: self.spacing[1] / self.spacing[0],
            pixels: places().map(|(r, c)| colour(at(r, c))).collect(),
            label: classes(self.label),
            prediction: classes(self.prediction),
            side: self.side,
            caption,
        }
    }
}

impl Panel {
    /// How high it is when drawn this wide.
    pub fn height_at(&self, width: usize) -> usize {
        let height = width as f64 * self.height as f64 * self.aspect / self.width.max(1) as f64;
        (height.round() as usize).clamp(1, 3 * width)
    }
    /// Draws it into a rectangle.
    pub fn draw(&self, canvas: &mut Canvas, left: usize, top: usize, width: usize, height: usize) {
        let panel = self;
        let colour = |row: usize, column: usize| panel.pixels[row * panel.width + column].map(f64::from);
        for y in 0..height {
            let v =
                ((y as f64 + 0.5) * panel.height as f64 / height as f64 - 0.5).clamp(0.0, (panel.height - 1) as f64);
            let (row, fy) = (v as usize, v.fract());
            let below = (row + 1).min(panel.height - 1);
            for x in 0..width {
                let u =
                    ((x as f64 + 0.5) * panel.width as f64 / width as f64 - 0.5).clamp(0.0, (panel.width - 1) as f64);
                let (column, fx) = (u as usize, u.fract());
                let right = (column + 1).min(panel.width - 1);
                let corners = [colour(row, column), colour(row, right), colour(below, column), colour(below, right)];
                let mixed = std::array::from_fn(|c| {
                    let [a, b, d, e] = corners.map(|corner| corner[c]);
                    ((a * (1.0 - fx) + b * fx) * (1.0 - fy) + (d * (1.0 - fx) + e * fx) * fy).round() as u8
                });
                canvas.set(left + x, top + y, mixed);
            }
        }
        if let Some(side) = panel.side {
            canvas.text(left + 6, top + 6, 2, FAINT, &side.to_string());
        }
        for (classes, colour, dashed) in [(&panel.label, LABEL, false), (&panel.prediction, PREDICTION, true)] {
            let at = |x: usize, y: usize| classes[y * panel.height / height * panel.width + x * panel.width / width];
            let edge: Vec<(usize, usize)> = (0..height)
                .flat_map(|y| (0..width).map(move |x| (x, y)))
                .filter(|&(x, y)| {
                    let class = at(x, y);
                    class > 0
                        && (x == 0
                            || y == 0
                            || x + 1 == width
                            || y + 1 == height
                            || [at(x - 1, y), at(x + 1, y), at(x, y - 1), at(x, y + 1)]
                                .iter()
                                .any(|other| *other != class))
                })
                .collect();
            // A dark rim keeps the solid line readable on bright tissue; the dashes are drawn on
            // top.
            if !dashed {
                for &(x, y) in &edge {
                    canvas.fill((left + x).saturating_sub(1), (top + y).saturating_sub(1), 4, 4, HALO);
                }
            }
            for &(x, y) in edge.iter().filter(|(x, y)| !dashed || ((x + y) / 6) % 2 == 0) {
                canvas.fill(left + x, top + y, 2, 2, colour);
            }
        }
    }
}

/// Draws what the outlines mean; returns where the next thing may be drawn.
pub fn legend(canvas: &mut Canvas, left: usize, y: usize, text: Rgb, prediction: bool) -> usize {
    canvas.fill(left, y + 5, 36, 3, LABEL);
    let next = canvas.text(left + 46, y, 2, text, "label");
    if !prediction {
        return next;
    }
    for dash in 0..3 {
        canvas.fill(next + 30 + dash * 13, y + 5, 8, 3, PREDICTION);
    }
    canvas.text(next + 76, y, 2, text, "prediction")
}
