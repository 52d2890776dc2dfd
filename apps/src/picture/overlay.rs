//! Slices of a volume with the outlines of the label (solid) and of the prediction (dashed).

use super::canvas::{Canvas, Rgb};

const BACKGROUND: Rgb = [18, 18, 22];
const TEXT: Rgb = [235, 235, 235];
const FAINT: Rgb = [160, 160, 165];
const LABEL: Rgb = [60, 220, 90];
const PREDICTION: Rgb = [255, 90, 200];
const HALO: Rgb = [0, 0, 0];

/// Pixels between and around the panels.
const MARGIN: usize = 16;
/// Pixels of the line with the title, and of the one with the legend.
const LINE: usize = 30;
/// How wide a panel is drawn, about.
const PANEL_WIDTH: usize = 340;

/// One slice: rows from anterior to posterior, columns from the patient's right to left, as radiologists look at it.
pub struct Panel {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// How high a row is, in columns.
    pub aspect: f64,
    /// Brightness, 0 to 255.
    pub gray: Vec<u8>,
    /// True classes, 0 is the background.
    pub label: Vec<u8>,
    /// Predicted classes.
    pub prediction: Vec<u8>,
    /// What is written below.
    pub caption: String,
}

/// The three axial slices that show most: where the label and prediction are largest, and halfway to either end.
///
/// `image`, `label`, `prediction` are `[X, Y, Z]` volumes, row-major, oriented RAS; `window` is what is drawn black and
/// white. Shorter volumes give fewer slices.
pub fn panels(
    shape: [usize; 3],
    spacing: [f64; 3],
    image: &[f32],
    label: &[u8],
    prediction: &[u8],
    window: (f32, f32),
) -> Vec<Panel> {
    let [nx, ny, nz] = shape;
    let area = |z: usize| (0..nx * ny).filter(|i| label[i * nz + z] > 0 || prediction[i * nz + z] > 0).count();
    let areas: Vec<usize> = (0..nz).map(area).collect();
    let filled: Vec<usize> = (0..nz).filter(|&z| areas[z] > 0).collect();
    let mut chosen = match (filled.first(), filled.last()) {
        (Some(&first), Some(&last)) => {
            let largest = filled.iter().copied().max_by_key(|&z| areas[z]).unwrap_or(first);
            vec![(first + largest) / 2, largest, (largest + last).div_ceil(2)]
        }
        _ => vec![nz / 4, nz / 2, nz * 3 / 4],
    };
    chosen.dedup();
    let (low, high) = window;
    let width = (high - low).max(f32::MIN_POSITIVE);
    chosen
        .into_iter()
        .map(|z| {
            let at = |row: usize, column: usize| ((nx - 1 - column) * ny + (ny - 1 - row)) * nz + z;
            let places = || (0..ny).flat_map(move |row| (0..nx).map(move |column| (row, column)));
            Panel {
                width: nx,
                height: ny,
                aspect: spacing[1] / spacing[0],
                gray: places()
                    .map(|(r, c)| ((image[at(r, c)] - low) / width * 255.0).round().clamp(0.0, 255.0) as u8)
                    .collect(),
                label: places().map(|(r, c)| label[at(r, c)]).collect(),
                prediction: places().map(|(r, c)| prediction[at(r, c)]).collect(),
                caption: format!("slice {} of {nz}", z + 1),
            }
        })
        .collect()
}

/// Draws the panels side by side under a title, with a legend.
pub fn render(title: &str, panels: &[Panel]) -> Canvas {
    let sizes: Vec<(usize, usize)> = panels
        .iter()
        .map(|panel| {
            let height = PANEL_WIDTH as f64 * panel.height as f64 * panel.aspect / panel.width.max(1) as f64;
            (PANEL_WIDTH, (height.round() as usize).clamp(1, 3 * PANEL_WIDTH))
        })
        .collect();
    let tallest = sizes.iter().map(|(_, height)| *height).max().unwrap_or(0);
    let width = MARGIN + panels.len().max(1) * (PANEL_WIDTH + MARGIN);
    let mut canvas = Canvas::new(width, 3 * LINE + tallest + MARGIN, BACKGROUND);
    canvas.text(MARGIN, 9, 2, TEXT, title);
    for (index, (panel, (w, h))) in panels.iter().zip(&sizes).enumerate() {
        let left = MARGIN + index * (PANEL_WIDTH + MARGIN);
        draw(&mut canvas, panel, left, LINE, *w, *h);
        canvas.text(left, LINE + tallest + 10, 2, FAINT, &panel.caption);
    }
    legend(&mut canvas, 2 * LINE + tallest + 10);
    canvas
}

fn legend(canvas: &mut Canvas, y: usize) {
    canvas.fill(MARGIN, y + 5, 36, 3, LABEL);
    let next = canvas.text(MARGIN + 46, y, 2, TEXT, "label") + 30;
    for dash in 0..3 {
        canvas.fill(next + dash * 13, y + 5, 8, 3, PREDICTION);
    }
    let end = canvas.text(next + 46, y, 2, TEXT, "prediction");
    let side = "R: patient's right";
    let left = canvas.width().saturating_sub(MARGIN + Canvas::text_width(2, side));
    if left > end {
        canvas.text(left, y, 2, FAINT, side);
    }
}

fn draw(canvas: &mut Canvas, panel: &Panel, left: usize, top: usize, width: usize, height: usize) {
    let gray = |row: usize, column: usize| f64::from(panel.gray[row * panel.width + column]);
    for y in 0..height {
        let v = ((y as f64 + 0.5) * panel.height as f64 / height as f64 - 0.5).clamp(0.0, (panel.height - 1) as f64);
        let (row, fy) = (v as usize, v.fract());
        let below = (row + 1).min(panel.height - 1);
        for x in 0..width {
            let u = ((x as f64 + 0.5) * panel.width as f64 / width as f64 - 0.5).clamp(0.0, (panel.width - 1) as f64);
            let (column, fx) = (u as usize, u.fract());
            let right = (column + 1).min(panel.width - 1);
            let value = (gray(row, column) * (1.0 - fx) + gray(row, right) * fx) * (1.0 - fy)
                + (gray(below, column) * (1.0 - fx) + gray(below, right) * fx) * fy;
            canvas.set(left + x, top + y, [value.round() as u8; 3]);
        }
    }
    canvas.text(left + 6, top + 6, 2, FAINT, "R");
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
                        || [at(x - 1, y), at(x + 1, y), at(x, y - 1), at(x, y + 1)].iter().any(|other| *other != class))
            })
            .collect();
        // A dark rim keeps the solid line readable on bright tissue; the dashes lie on it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_slices_around_the_largest_area() {
        let shape = [8, 8, 9];
        let mut label = vec![0u8; 8 * 8 * 9];
        for z in 2..7 {
            let reach = if z == 4 { 6 } else { 4 };
            for x in 2..reach {
                label[(x * 8 + 3) * 9 + z] = 1;
            }
        }
        let image = vec![10.0; label.len()];
        let shown = panels(shape, [1.0, 1.0, 2.0], &image, &label, &label, (0.0, 20.0));
        let captions: Vec<&str> = shown.iter().map(|panel| panel.caption.as_str()).collect();
        assert_eq!(captions, ["slice 4 of 9", "slice 5 of 9", "slice 6 of 9"]);
        assert_eq!(shown[0].gray[0], 128);
        // x = 2 is the patient's left of the middle: column 8 - 1 - 2, row 8 - 1 - 3.
        assert_eq!(shown[1].label[4 * 8 + 5], 1);
        assert_eq!(shown[1].label.iter().filter(|class| **class > 0).count(), 4);
    }

    #[test]
    fn both_outlines_can_be_seen_where_they_coincide() {
        let mut label = vec![0u8; 32 * 32];
        for y in 8..24 {
            label[y * 32 + 8..y * 32 + 24].fill(1);
        }
        let panel = Panel {
            width: 32,
            height: 32,
            aspect: 1.0,
            gray: vec![200; 32 * 32],
            label: label.clone(),
            prediction: label,
            caption: String::new(),
        };
        let canvas = render("a title", &[panel]);
        let count = |colour: Rgb| {
            (0..canvas.height())
                .flat_map(|y| (0..canvas.width()).map(move |x| (x, y)))
                .filter(|&(x, y)| canvas.get(x, y) == colour)
                .count()
        };
        assert!(count(LABEL) > 300 && count(PREDICTION) > 300, "{} {}", count(LABEL), count(PREDICTION));
    }
}
