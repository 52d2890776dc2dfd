//! Pictures of what the numbers of a whole image depend on.

use hearth_data::Image;
use hearth_pictures::colours::FAINT;
use hearth_pictures::{Canvas, axis, text};

use super::board::{Board, MARGIN};
use super::panel::Panel;
use super::scale::{colour, over, over_signed};
use super::subject::{Subject, shown};
use super::view::View;
use super::volume::{Volume, range};

/// Width and height of the bar of colours.
const BAR: [usize; 2] = [320, 14];

/// Draws an image, and below it the same slices with the map `[1, X, Y, Z]` over them: the planes through the
/// voxel with the largest value. `words` say what the values are; they are named below. With `signed` the
/// colours have 0 in their middle.
pub fn saliency(subject: &Subject<'_>, map: &Image, signed: bool, words: &str) -> Canvas {
    let (values, map) = (subject.image.to_vec(), map.to_vec());
    let channels = shown(subject.image, &values);
    let window = subject.window.unwrap_or_else(|| range(&channels));
    let grid = View::of(subject.image).grid(subject.image);
    let (low, high) = ends(&map, signed);
    let over = if signed { over_signed } else { over };
    let image = Volume { grid: grid.clone(), channels, layers: Vec::new(), window };
    let heat = Volume { grid, channels: vec![&map], layers: Vec::new(), window: (low, high) };
    let peak = heat.peak();
    let (mut above, mut below): (Vec<Panel>, Vec<Panel>) = (Vec::new(), Vec::new());
    for plane in image.grid.planes() {
        let index = peak[plane.across()];
        let (plain, mut drawn) = (image.slice(plane, index), image.slice(plane, index));
        let shares = heat.slice(plane, index).pixels.into_iter().map(|[grey, ..]| f64::from(grey) / 255.0);
        drawn.pixels.iter_mut().zip(shares).for_each(|(pixel, share)| *pixel = over(*pixel, share));
        above.push(plain);
        below.push(drawn);
    }
    let line = text::line_height(text::SMALL);
    let mut board = Board::new(subject.title, &[above, below], |_| BAR[1] + line);
    let (width, top) = (BAR[0].min(board.width), board.top);
    for x in 0..width {
        board.canvas.fill(MARGIN + x, top, 1, BAR[1], colour(x as f64 / (width - 1).max(1) as f64));
    }
    let number = |value: f32| axis::number(rounded(f64::from(value)));
    let (first, last) = (number(low), number(high));
    let room = text::width(text::SMALL, &last);
    board.canvas.text(MARGIN, top + BAR[1], text::SMALL, FAINT, &first);
    board.canvas.text(MARGIN + width.saturating_sub(room), top + BAR[1], text::SMALL, FAINT, &last);
    board.canvas.text(MARGIN + width + MARGIN, top, text::SMALL, FAINT, words);
    board.canvas
}

/// The values at the ends of the scale.
fn ends(map: &[f32], signed: bool) -> (f32, f32) {
    let finite = || map.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f32::INFINITY, f32::min), finite().fold(f32::NEG_INFINITY, f32::max));
    if signed {
        let largest = finite().map(f32::abs).fold(f32::MIN_POSITIVE, f32::max);
        return (-largest, largest);
    }
    if low < high { (low, high) } else { (high.min(0.0), high.max(0.0).max(f32::MIN_POSITIVE)) }
}

/// The value with three significant digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let power = 10_f64.powf(2.0 - value.abs().log10().floor());
    (value * power).round() / power
}

#[cfg(test)]
mod tests {
    use hearth_data::affine::IDENTITY;
    use hearth_data::host_device;

    use super::*;

    #[test]
    fn the_slices_show_the_largest_value() {
        let shape = [6, 5, 4];
        let size = shape.iter().product::<usize>();
        let image = |values: Vec<f32>| Image::from_values(values, [1, 6, 5, 4], IDENTITY, &host_device());
        let mut map = vec![0.0; size];
        // Voxel [4, 1, 3], counted from the left and the back in the patient.
        map[4 * 20 + 4 + 3] = 2.0;
        let (image, map) = (image(vec![0.5; size]), image(map));
        let subject = Subject { title: "t", image: &image, window: Some((0.0, 1.0)) };
        let grid = View::of(&image).grid(&image);
        let values = map.to_vec();
        let heat = Volume { grid, channels: vec![&values], layers: Vec::new(), window: (0.0, 2.0) };
        let place = heat.grid.place(heat.peak());
        assert_eq!(values[place], 2.0);
        let canvas = saliency(&subject, &map, false, "support");
        let red = |[r, g, b]: [u8; 3]| r > 120 && g < 90 && b < 110;
        let pixels = || (0..canvas.height()).flat_map(|y| (0..canvas.width()).map(move |x| (x, y)));
        // In each of the three planes, and at the end of the bar of colours.
        assert!(pixels().filter(|(x, y)| red(canvas.get(*x, *y))).count() > 300);
        // A value that speaks against the class does not make all the others speak for it.
        let against = Image::from_values(values.iter().map(|v| -v).collect(), [1, 6, 5, 4], IDENTITY, &host_device());
        let canvas = saliency(&subject, &against, true, "support");
        let pixels = || (0..canvas.height()).flat_map(|y| (0..canvas.width()).map(move |x| (x, y)));
        let bar = canvas.height() - MARGIN - text::line_height(text::SMALL) - BAR[1];
        assert!(!pixels().any(|(x, y)| y < bar && red(canvas.get(x, y))));
        assert_eq!((ends(&[-4.0, 1.0], true), ends(&[-4.0, 1.0], false)), ((-4.0, 4.0), (-4.0, 1.0)));
        assert_eq!((rounded(0.012_345), rounded(-1234.0), rounded(0.0)), (0.0123, -1230.0, 0.0));
    }
}
