//! A picture of a curve with axes.

use hearth_pictures::colours::{BACKGROUND, CURVE, FAINT, TEXT};
use hearth_pictures::{Canvas, Rgb, text};

use super::axes::{Axis, BOTTOM, HEIGHT, LEFT, RIGHT, Scale, TOP, WIDTH, grid, label_below};

const POINT: Rgb = [128, 138, 168];
/// The orange of the classes' colours, which is distinguishable from the curve's blue for
/// colour-blind readers.
const MARK: Rgb = [230, 159, 0];

/// A curve `y` over `x`, with single points behind it and one marked point.
pub struct Plot<'a> {
    /// The title above the curve.
    pub title: &'a str,
    /// The label below the axis of `x`.
    pub x_label: &'a str,
    /// The label above the axis of `y`.
    pub y_label: &'a str,
    /// The legend entries of the curve and of the points; empty for no legend.
    pub legend: [&'a str; 2],
    /// The scale of `x`.
    pub x_axis: Axis,
    /// The points of the curve.
    pub curve: &'a [(f64, f64)],
    /// The range of the axis of `y`, if not that of the curve.
    pub y_range: Option<(f64, f64)>,
    /// The value above which the curve is cut off, so that lower values are visible.
    pub y_most: Option<f64>,
    /// Single points behind the curve.
    pub points: &'a [(f64, f64)],
    /// The marked point and its caption.
    pub mark: Option<((f64, f64), String)>,
}

impl Plot<'_> {
    /// Draws the picture.
    pub fn draw(&self) -> Canvas {
        let mut canvas = Canvas::new(WIDTH, HEIGHT, BACKGROUND);
        canvas.text(LEFT, 12, text::TITLE, TEXT, self.title);
        let all = || self.curve.iter().chain(self.points);
        let across = Scale::new(self.x_axis, all().map(|(x, _)| *x), (LEFT, WIDTH - RIGHT));
        let ends = self.y_range.into_iter().flat_map(|(low, high)| [low, high]);
        let most = self.y_most.unwrap_or(f64::INFINITY);
        let values = self.curve.iter().map(|(_, y)| y.min(most)).chain(ends);
        let down = Scale::new(Axis::Linear, values, (HEIGHT - BOTTOM, TOP));
        self.heads(&mut canvas);
        grid(&mut canvas, &across, &down);
        label_below(&mut canvas, self.x_label);

        let inside = |y: f64| y >= (TOP as f64 - 2.0) && y <= (HEIGHT - BOTTOM) as f64 + 2.0;
        for (x, y) in self.points.iter().map(|(x, y)| (across.place(*x), down.place(*y))) {
            // A point may lie far above the smoothed curve.
            if x.is_finite() && inside(y) {
                canvas.fill((x as usize).saturating_sub(1), (y as usize).saturating_sub(1), 4, 4, POINT);
            }
        }
        for pair in self.curve.windows(2) {
            let Some([a, b]) = below(most, [pair[0], pair[1]]) else { continue };
            let ends = [a, b].map(|(x, y)| (across.place(x), down.place(y)));
            canvas.line(ends[0], ends[1], CURVE);
            // Two pixels wide, also where it rises.
            canvas.line((ends[0].0 + 1.0, ends[0].1), (ends[1].0 + 1.0, ends[1].1), CURVE);
        }
        if let Some(((x, y), words)) = &self.mark {
            let (x, y) = (across.place(*x) as usize, down.place(*y) as usize);
            canvas.fill(x - 5, y - 5, 11, 11, MARK);
            let width = text::width(text::BODY, words);
            let left = if x + 16 + width < WIDTH { x + 16 } else { x.saturating_sub(16 + width) };
            canvas.rimmed_text(left, y.saturating_sub(30).max(TOP), text::BODY, MARK, words);
        }
        canvas
    }

    /// Draws the texts above the curve: the label of its values, and the legend.
    fn heads(&self, canvas: &mut Canvas) {
        let (mut left, top, middle) = (LEFT, 46, 46 + text::line_height(text::BODY) / 2);
        canvas.text(left, top, text::BODY, TEXT, self.y_label);
        left += text::width(text::BODY, self.y_label) + 36;
        let [curve, points] = self.legend;
        if !curve.is_empty() {
            canvas.fill(left, middle - 1, 28, 3, CURVE);
            canvas.text(left + 36, top, text::BODY, FAINT, curve);
            left += 36 + text::width(text::BODY, curve) + 28;
        }
        if !points.is_empty() {
            (0..3).for_each(|dot| canvas.fill(left + dot * 10, middle - 2, 4, 4, POINT));
            canvas.text(left + 36, top, text::BODY, FAINT, points);
        }
    }
}

/// The part of a line that lies below a value, if any.
fn below(most: f64, [a, b]: [(f64, f64); 2]) -> Option<[(f64, f64); 2]> {
    let crossing = |low: (f64, f64), high: (f64, f64)| {
        let part = (most - low.1) / (high.1 - low.1);
        (low.0 + part * (high.0 - low.0), most)
    };
    match (a.1 > most, b.1 > most) {
        (true, true) => None,
        (false, true) => Some([a, crossing(a, b)]),
        (true, false) => Some([crossing(b, a), b]),
        (false, false) => Some([a, b]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot<'a>(curve: &'a [(f64, f64)], points: &'a [(f64, f64)]) -> Plot<'a> {
        let (x_axis, y_range, y_most, mark) = (Axis::Log, None, None, None);
        Plot { title: "t", x_label: "x", y_label: "y", legend: ["", ""], x_axis, y_range, y_most, curve, points, mark }
    }

    #[test]
    fn what_is_above_the_useful_part_is_cut_off() {
        let curve = [(1e-3, 1.0), (1e-2, 0.5), (1e-1, 9.0), (1.0, 100.0)];
        let canvas = Plot { y_most: Some(1.5), ..plot(&curve, &[]) }.draw();
        // The value 0.5 is at the bottom; from 1 to 0.5 the curve falls through half of the height.
        let at = |x: usize| (TOP..HEIGHT).filter(|y| canvas.get(x, *y) == CURVE).count();
        let right = (LEFT + WIDTH - RIGHT) / 2 + 60;
        assert!((right..WIDTH - RIGHT).all(|x| at(x) == 0) && at(LEFT + 2) > 0);
        let middle = TOP + (HEIGHT - BOTTOM - TOP) / 2;
        assert!((middle - 3..middle + 4).any(|y| canvas.get(LEFT, y) == CURVE));
        assert_eq!(below(2.0, [(0.0, 0.0), (1.0, 4.0)]), Some([(0.0, 0.0), (0.5, 2.0)]));
        assert_eq!(below(2.0, [(0.0, 3.0), (1.0, 4.0)]), None);
    }

    #[test]
    fn a_curve_goes_from_edge_to_edge_and_its_mark_lies_on_it() {
        let curve: Vec<(f64, f64)> = (0..5).map(|i| (10_f64.powi(i - 4), f64::from((i - 2).pow(2)))).collect();
        let mark = Some((curve[2], "here".to_owned()));
        let plot = Plot { mark, ..plot(&curve, &curve) };
        let canvas = plot.draw();
        assert!(canvas.count(CURVE) > WIDTH - LEFT - RIGHT, "a pixel for each column");
        // The smallest value in the middle of a logarithmic axis, at its lower end.
        assert_eq!(canvas.get((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM), MARK);
        assert_eq!(canvas.get(LEFT, TOP), CURVE);
    }

    #[test]
    fn odd_values_draw_something() {
        for curve in [vec![], vec![(1.0, 1.0)], vec![(1.0, f64::NAN), (2.0, 1.0)], vec![(0.0, 1.0), (1.0, 2.0)]] {
            assert_eq!(plot(&curve, &[]).draw().width(), WIDTH);
        }
    }
}
