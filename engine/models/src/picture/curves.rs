//! A picture of several curves over the same axes.

use hearth_pictures::colours::{BACKGROUND, FAINT, TEXT, of_class};
use hearth_pictures::{Canvas, Rgb, text};

use super::axes::{Axis, BOTTOM, HEIGHT, LEFT, RIGHT, Scale, TOP, WIDTH, grid, label_below};

/// The height of a line of the legend.
const ROW: usize = 24;
/// The length of the line in front of a name.
const SAMPLE: usize = 28;
/// Dashes and gaps of the level.
const DASH: usize = 8;

/// One curve.
pub struct Curve {
    /// The name in the legend. Curves of one name have one colour and one entry.
    pub name: String,
    /// The points, from left to right; those with a non-finite value are skipped.
    pub points: Vec<(f64, f64)>,
}

/// Curves over common axes.
pub struct Curves<'a> {
    /// The title above the curves.
    pub title: &'a str,
    /// The label below the axis of `x`.
    pub x_label: &'a str,
    /// The label above the axis of `y`.
    pub y_label: &'a str,
    /// The scale of `x`; points that are not above 0 are skipped if it is logarithmic.
    pub x_axis: Axis,
    /// The curves.
    pub curves: &'a [Curve],
    /// A value that is marked by a dashed line, such as a target.
    pub level: Option<f64>,
}

impl Curves<'_> {
    /// Draws the picture, with the legend below it.
    pub fn draw(&self) -> Canvas {
        let names = self.names();
        let mut canvas = Canvas::new(WIDTH, HEIGHT + ROW * names.len() + 12, BACKGROUND);
        canvas.text(LEFT, 12, text::TITLE, TEXT, self.title);
        canvas.text(LEFT, 46, text::BODY, TEXT, self.y_label);
        label_below(&mut canvas, self.x_label);
        let points = || self.curves.iter().flat_map(|curve| self.drawn(curve));
        let across = Scale::new(self.x_axis, points().map(|(x, _)| x), (LEFT, WIDTH - RIGHT));
        let values = points().map(|(_, y)| y).chain(self.level);
        let down = Scale::new(Axis::Linear, values, (HEIGHT - BOTTOM, TOP));
        grid(&mut canvas, &across, &down);
        self.mark(&mut canvas, &down);
        for curve in self.curves {
            let colour = colour(&names, &curve.name);
            let places: Vec<(f64, f64)> = self.drawn(curve).map(|(x, y)| (across.place(x), down.place(y))).collect();
            for pair in places.windows(2) {
                canvas.line(pair[0], pair[1], colour);
            }
            for (x, y) in places {
                canvas.fill((x as usize).saturating_sub(2), (y as usize).saturating_sub(2), 6, 6, colour);
            }
        }
        for (row, name) in names.iter().enumerate() {
            let top = HEIGHT + row * ROW;
            canvas.fill(LEFT, top + ROW / 2 - 2, SAMPLE, 4, colour(&names, name));
            canvas.text(LEFT + SAMPLE + 10, top, text::BODY, FAINT, name);
        }
        canvas
    }

    /// The points of a curve that have a place.
    fn drawn<'a>(&self, curve: &'a Curve) -> impl Iterator<Item = (f64, f64)> + 'a {
        let least = if self.x_axis == Axis::Log { f64::MIN_POSITIVE } else { f64::MIN };
        curve.points.iter().copied().filter(move |(x, y)| x.is_finite() && y.is_finite() && *x >= least)
    }

    /// The names in the order of the curves, each once.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for curve in self.curves {
            if !names.contains(&curve.name.as_str()) {
                names.push(&curve.name);
            }
        }
        names
    }

    /// Draws the dashed line of the level.
    fn mark(&self, canvas: &mut Canvas, down: &Scale) {
        if let Some(level) = self.level {
            let y = down.place(level) as usize;
            for left in (LEFT..WIDTH - RIGHT).step_by(2 * DASH) {
                canvas.fill(left, y, DASH, 2, FAINT);
            }
        }
    }
}

/// The colour of a name: that of the class with its place.
fn colour(names: &[&str], name: &str) -> Rgb {
    of_class(names.iter().position(|found| *found == name).unwrap_or(0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        Curve { name: name.to_owned(), points: points.to_vec() }
    }

    fn plot<'a>(curves: &'a [Curve], x_axis: Axis, level: Option<f64>) -> Curves<'a> {
        Curves { title: "t", x_label: "seconds", y_label: "Dice", x_axis, curves, level }
    }

    /// Two seeds of one row share a colour; another row has another one. The level extends the axis.
    #[test]
    fn curves_of_one_name_have_one_colour() {
        let curves = [
            curve("plain", &[(0.0, 0.0), (10.0, 0.5)]),
            curve("plain", &[(0.0, 0.1), (10.0, 0.6)]),
            curve("cache", &[(0.0, 0.0), (5.0, 0.5)]),
        ];
        let plot = plot(&curves, Axis::Linear, Some(1.0));
        assert_eq!(plot.names(), ["plain", "cache"]);
        let canvas = plot.draw();
        assert_eq!(canvas.height(), HEIGHT + 2 * ROW + 12);
        let right = WIDTH - RIGHT;
        let rows = |colour: Rgb, x: usize| (TOP..HEIGHT - BOTTOM + 4).filter(|y| canvas.get(x, *y) == colour).count();
        assert!(rows(of_class(1), right) > 0 && rows(of_class(2), right) == 0, "the second ends in the middle");
        assert_eq!(canvas.get(LEFT, TOP), FAINT, "the level is the top of the axis");
        // 0.5 is in the middle between 0 and the level.
        let middle = (TOP + HEIGHT - BOTTOM) / 2;
        assert_eq!(canvas.get((LEFT + right) / 2, middle), of_class(2));
    }

    #[test]
    fn points_without_a_place_are_skipped() {
        let odd = [curve("odd", &[(0.0, 0.4), (1.0, f64::NAN), (10.0, 0.2), (100.0, 0.3)]), curve("empty", &[])];
        let canvas = plot(&odd, Axis::Log, None).draw();
        assert_eq!(canvas.get(LEFT, HEIGHT - BOTTOM), of_class(1), "10 is the first value of the axis");
        assert_eq!(plot(&[], Axis::Linear, None).draw().width(), WIDTH);
    }
}
