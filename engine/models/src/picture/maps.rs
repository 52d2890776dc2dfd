//! Pictures of label maps: classes and regions, outlined on the image.

use hearth_data::Image;
use hearth_pictures::Canvas;

use super::board::{Board, MARGIN};
use super::legend::Legend;
use super::panel::Line;
use super::subject::Subject;

/// Draws exclusive classes on their image: the three planes through the slices with the largest
/// area of classes, and below them through those with the most differences between truth and
/// prediction. `names` are those of class 0, 1, ...; maps are `[1, X, Y, Z]` on the image's grid.
/// The truth is solid, the prediction dashed.
pub fn labels(subject: &Subject<'_>, names: &[String], prediction: &Image, truth: Option<&Image>) -> Canvas {
    let classes = |map: &Image| map.to_vec().into_iter().map(|class| class.round() as u8).collect::<Vec<u8>>();
    let (truth, prediction) = (truth.map(classes), classes(prediction));
    let mut layers: Vec<(Line, &[u8])> = truth.iter().map(|truth| (Line::Solid, &truth[..])).collect();
    layers.push((Line::Dashed, &prediction));
    outlined(&subject.settled(), layers, names.get(1..).unwrap_or(&[]))
}

/// Draws regions that may overlap, otherwise like [`labels`]: a channel of 0 and 1 for each of
/// `names`, with its own colour, so that a region within another is visible.
pub fn regions(subject: &Subject<'_>, names: &[String], prediction: &Image, truth: Option<&Image>) -> Canvas {
    let masks = |map: &Image| {
        let size = map.shape().iter().product::<usize>().max(1);
        let (values, last) = (map.to_vec(), usize::from(u8::MAX));
        let mask = |(region, values): (usize, &[f32])| {
            let colour = (region + 1).min(last) as u8;
            values.iter().map(|value| if *value > 0.5 { colour } else { 0 }).collect::<Vec<u8>>()
        };
        values.chunks_exact(size).enumerate().map(mask).collect::<Vec<_>>()
    };
    let (truth, prediction) = (truth.map(masks).unwrap_or_default(), masks(prediction));
    let truth = truth.iter().map(|mask| (Line::Solid, &mask[..]));
    let layers = truth.chain(prediction.iter().map(|mask| (Line::Dashed, &mask[..]))).collect();
    outlined(&subject.settled(), layers, names)
}

/// Draws panels in rows; below them the legend of outlines and of the window.
fn outlined(subject: &Subject<'_>, layers: Vec<(Line, &[u8])>, names: &[String]) -> Canvas {
    let rows = subject.planes_and_worst(layers);
    let legend = Legend::new(rows.iter().flatten(), names).with(subject.window_words());
    let mut board = Board::new(subject.title, &rows, |width| legend.height(width));
    legend.draw(&mut board.canvas, MARGIN, board.top, board.width);
    board.canvas
}
