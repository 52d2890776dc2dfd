//! The axes of pictures with curves: sizes, scales, grid.

use hearth_pictures::colours::{FAINT, GRID, TEXT};
use hearth_pictures::{Canvas, axis, text};

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
    fn ticks(&self) -> Vec<f64> {
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

fn number(value: f64, axis: Axis) -> String {
    match axis {
        Axis::Log => format!("{value:.0e}"),
        Axis::Linear => axis::number(value),
    }
}

/// Draws the grid with its numbers.
pub(super) fn grid(canvas: &mut Canvas, across: &Scale, down: &Scale) {
    for tick in across.ticks() {
        let x = across.place(tick) as usize;
        canvas.fill(x, TOP, 1, HEIGHT - BOTTOM - TOP, GRID);
        let words = number(tick, across.axis);
        let half = text::width(text::BODY, &words) / 2;
        canvas.text(x.saturating_sub(half), HEIGHT - BOTTOM + 6, text::BODY, FAINT, &words);
    }
    for tick in down.ticks() {
        let y = down.place(tick) as usize;
        canvas.fill(LEFT, y, WIDTH - RIGHT - LEFT, 1, GRID);
        let words = number(tick, down.axis);
        let left = LEFT.saturating_sub(text::width(text::BODY, &words) + 10);
        canvas.text(left, y.saturating_sub(11), text::BODY, FAINT, &words);
    }
}

/// Draws the label of the axis of `x`.
pub(super) fn label_below(canvas: &mut Canvas, label: &str) {
    let middle = (LEFT + WIDTH - RIGHT).saturating_sub(text::width(text::BODY, label)) / 2;
    canvas.text(middle, HEIGHT - 36, text::BODY, TEXT, label);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_decades_or_round_steps() {
        let log = Scale::new(Axis::Log, [1e-7, 10.0].into_iter(), (0, 100));
        let texts: Vec<String> = log.ticks().into_iter().map(|tick| number(tick, Axis::Log)).collect();
        assert_eq!(texts, ["1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "1e0", "1e1"]);
        let linear = Scale::new(Axis::Linear, [0.0, 1.0].into_iter(), (0, 100));
        assert_eq!(linear.ticks().len(), 6);
    }
}
