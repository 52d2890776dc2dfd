//! Pictures of image-to-image predictions: input, output and difference next to each other.

use hearth_data::Image;
use hearth_pictures::Canvas;

use super::board::Board;
use super::panel::Panel;
use super::subject::{Subject, shown};
use super::view::View;
use super::volume::{Volume, range};

/// Draws the input, the output and their absolute difference, with the same window and through the
/// middle of each plane. If the true image is known, it is drawn next to the output, and the
/// difference is taken from it. Images of different sizes have no difference. The subject's image
/// is the input in the output's units.
pub fn reconstruction(subject: &Subject<'_>, output: &Image, truth: Option<&Image>) -> Canvas {
    let truth = truth.filter(|truth| truth.shape() == output.shape());
    let images = [("input", Some(subject.image)), ("output", Some(output)), ("label", truth)];
    let drawn: Vec<(&str, &Image, Vec<f32>)> =
        images.into_iter().filter_map(|(name, image)| image.map(|image| (name, image, image.to_vec()))).collect();
    let all: Vec<&[f32]> = drawn.iter().flat_map(|(_, image, values)| shown(image, values)).collect();
    let (low, high) = subject.window.unwrap_or_else(|| range(&all));

    let (against, _, other) = &drawn[if truth.is_some() { 2 } else { 0 }];
    let same = truth.is_some() || subject.image.shape() == output.shape();
    let made = &drawn[1].2;
    let difference: Option<Vec<f32>> =
        (same && other.len() == made.len()).then(|| made.iter().zip(other).map(|(a, b)| (a - b).abs()).collect());

    let slices = |image: &Image, values: &[f32], window: (f32, f32), words: &str| -> Vec<Panel> {
        let volume =
            Volume { grid: View::of(image).grid(image), channels: shown(image, values), layers: Vec::new(), window };
        let slice = |plane| {
            let mut panel = volume.slice(plane, volume.telling(plane));
            panel.caption = format!("{words}   {}", panel.caption).trim_end().to_owned();
            panel
        };
        volume.grid.planes().into_iter().map(slice).collect()
    };
    let mut columns: Vec<Vec<Panel>> =
        drawn.iter().map(|(name, image, values)| slices(image, values, (low, high), name)).collect();
    if let Some(difference) = &difference {
        let mean = difference.iter().map(|value| f64::from(*value)).sum::<f64>() / difference.len().max(1) as f64;
        let most = difference.iter().copied().fold(0.0, f32::max);
        let words = format!("|output - {against}|, mean {mean:.3}, at most {most:.3}");
        columns.push(slices(output, difference, (0.0, high - low), &words));
    }
    // One row per plane.
    let mut rows: Vec<Vec<Panel>> = Vec::new();
    for column in columns {
        for (index, panel) in column.into_iter().enumerate() {
            if rows.len() == index {
                rows.push(Vec::new());
            }
            rows[index].push(panel);
        }
    }
    Board::new(subject.title, &rows, |_| 0).canvas
}
