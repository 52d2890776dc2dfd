//! Slices of a volume with the outlines of the label (solid) and of the prediction (dashed).

use super::canvas::Canvas;
use super::colours::{BACKGROUND, FAINT, TEXT};
use super::panel::{Panel, Volume, legend};

/// Pixels between and around the panels.
const MARGIN: usize = 16;
/// Pixels of the line with the title, and of the one with the legend.
const LINE: usize = 30;
/// How wide a panel is drawn, about.
const PANEL_WIDTH: usize = 340;

/// The three axial slices that show most: where the label and prediction are largest, and halfway
/// to either end. Shorter volumes have fewer slices.
pub fn panels(volume: &Volume<'_>) -> Vec<Panel> {
    let nz = volume.shape[2];
    let areas = volume.areas();
    let filled: Vec<usize> = (0..nz).filter(|&z| areas[z] > 0).collect();
    let mut chosen = match (filled.first(), filled.last()) {
        (Some(&first), Some(&last)) => {
            let largest = filled.iter().copied().max_by_key(|&z| areas[z]).unwrap_or(first);
            vec![(first + largest) / 2, largest, (largest + last).div_ceil(2)]
        }
        _ => vec![nz / 4, nz / 2, nz * 3 / 4],
    };
    chosen.dedup();
    chosen.into_iter().map(|z| volume.slice(z, format!("slice {} of {nz}", z + 1))).collect()
}

/// Draws the panels side by side under a title, with a legend.
pub fn render(title: &str, panels: &[Panel]) -> Canvas {
    let heights: Vec<usize> = panels.iter().map(|panel| panel.height_at(PANEL_WIDTH)).collect();
    let tallest = heights.iter().copied().max().unwrap_or(0);
    let width = MARGIN + panels.len().max(1) * (PANEL_WIDTH + MARGIN);
    let mut canvas = Canvas::new(width, 3 * LINE + tallest + MARGIN, BACKGROUND);
    canvas.text(MARGIN, 9, 2, TEXT, title);
    for (index, (panel, height)) in panels.iter().zip(&heights).enumerate() {
        let left = MARGIN + index * (PANEL_WIDTH + MARGIN);
        panel.draw(&mut canvas, left, LINE, PANEL_WIDTH, *height);
        canvas.text(left, LINE + tallest + 10, 2, FAINT, &panel.caption);
    }
    let y = 2 * LINE + tallest + 10;
    let end = legend(&mut canvas, MARGIN, y, TEXT, true);
    let side = "R: patient's right";
    let left = canvas.width().saturating_sub(MARGIN + Canvas::text_width(2, side));
    if left > end {
        canvas.text(left, y, 2, FAINT, side);
    }
    canvas
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
        let shown = panels(&Volume {
            shape,
            spacing: [1.0, 1.0, 2.0],
            channels: vec![&image],
            label: &label,
            prediction: &label,
            window: (0.0, 20.0),
            side: Some('R'),
        });
        let captions: Vec<&str> = shown.iter().map(|panel| panel.caption.as_str()).collect();
        assert_eq!(captions, ["slice 4 of 9", "slice 5 of 9", "slice 6 of 9"]);
        assert_eq!(shown[0].pixels[0], [128; 3]);
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
            pixels: vec![[200; 3]; 32 * 32],
            label: label.clone(),
            prediction: label,
            side: Some('R'),
            caption: String::new(),
        };
        let canvas = render("a title", &[panel]);
        let count = |colour: [u8; 3]| {
            (0..canvas.height())
                .flat_map(|y| (0..canvas.width()).map(move |x| (x, y)))
                .filter(|&(x, y)| canvas.get(x, y) == colour)
                .count()
        };
        let (label, prediction) = (count([60, 220, 90]), count([255, 90, 200]));
        assert!(label > 300 && prediction > 300, "{label} {prediction}");
    }
}
