//! A picture of a curve with axes.

use hearth_pictures::colours::{BACKGROUND, CURVE, FAINT, GRID, TEXT};
use hearth_pictures::{Canvas, Rgb, axis, text};

const POINT: Rgb = [128, 138, 168];
/// The orange of the classes' colours, which is distinguishable from the curve's blue for
/// colour-blind readers.
const MARK: Rgb = [230, 159, 0];

pub(super) const WIDTH: usize = 960;
pub(super) const HEIGHT: usize = 600;
pub(super) const LEFT: usize = 110;
pub(super) const RIGHT: usize = 30;
pub(super) const TOP: usize = 84;
pub(super) const BOTTOM: usize = 70;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Equal steps for equal differences.
    Linear,
    /// Equal steps for equal factors; for values above 0.
    Log,
}

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

/// The mapping from values to pixels along one axis.
pub(super) struct Scale {
    axis: Axis,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    pub(super) fn new(axis: Axis, values: impl Iterator<Item = f64>, (from, to): (usize, usize)) -> Self {
        let bent = |value: f64| if axis == Axis::Log { value.log10() } else { value };
        let finite = values.map(bent).filter(|value| value.is_finite());
        let (mut low, mut high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if high - low < 1e-12 * high.abs().max(1.0) {
            (low, high) = (low - 0.5, high + 0.5);
        }
        Self { axis, low, high, from: from as f64, to: to as f64 }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.axis == Axis::Log { value.log10() } else { value };
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// The positions of grid lines: whole decades, or round steps.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let range = self.high - self.low;
        let step = match self.axis {
            Axis::Log => (range / 8.0).ceil().max(1.0),
            Axis::Linear => axis::step(range, 6.0),
        };
        let first = (self.low / step).ceil() as i64;
        let all = (first..).map(|i| i as f64 * step).take_while(|tick| *tick <= self.high + 1e-9 * range);
        all.map(|tick| if self.axis == Axis::Log { 10_f64.powf(tick) } else { tick }).collect()
    }
}

pub(super) fn number(value: f64, axis: Axis) -> String {
    match axis {
        Axis::Log => format!("{value:.0e}"),
        Axis::Linear => axis::number(value),
    }
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
        for tick in across.ticks() {
            let x = across.place(tick) as usize;
            canvas.fill(x, TOP, 1, HEIGHT - BOTTOM - TOP, GRID);
            let words = number(tick, self.x_axis);
            let half = text::width(text::BODY, &words) / 2;
            canvas.text(x.saturating_sub(half), HEIGHT - BOTTOM + 6, text::BODY, FAINT, &words);
        }
        for tick in down.ticks() {
            let y = down.place(tick) as usize;
            canvas.fill(LEFT, y, WIDTH - RIGHT - LEFT, 1, GRID);
            let words = number(tick, Axis::Linear);
            let left = LEFT.saturating_sub(text::width(text::BODY, &words) + 10);
            canvas.text(left, y.saturating_sub(11), text::BODY, FAINT, &words);
        }
        let middle = (LEFT + WIDTH - RIGHT).saturating_sub(text::width(text::BODY, self.x_label)) / 2;
        canvas.text(middle, HEIGHT - 36, text::BODY, TEXT, self.x_label);

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

    #[test]
    fn ticks_are_decades_or_round_steps() {
        let log = Scale::new(Axis::Log, [1e-7, 10.0].into_iter(), (0, 100));
        let texts: Vec<String> = log.ticks().into_iter().map(|tick| number(tick, Axis::Log)).collect();
        assert_eq!(texts, ["1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "1e0", "1e1"]);
        let linear = Scale::new(Axis::Linear, [0.0, 1.0].into_iter(), (0, 100));
        assert_eq!(linear.ticks().len(), 6);
    }
}
