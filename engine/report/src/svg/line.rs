//! Curves over epochs.

use maud::{Markup, html};

use super::{Axis, Glyph, WIDTH, at, image};
use crate::palette;
use crate::text::{figure, tick};

const HEIGHT: f64 = 262.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
/// The space above the curves: with shapes of events, or without.
const TOP: f64 = 34.0;
const TOP_WITHOUT: f64 = 24.0;
const BOTTOM: f64 = 36.0;

/// The number of points above which only the lowest and the highest of each stretch are drawn.
const MANY: usize = 800;

/// The maximum number of points of a curve that has a shape at each point.
const FEW: usize = 64;

/// A curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its run, which decides colour, dashes and shapes.
    pub run: usize,
    /// Positions and values, ordered by position. Non-finite values leave a gap.
    pub points: Vec<(f64, f64)>,
    /// Whether it is drawn in the background: single steps behind their means.
    pub faint: bool,
}

/// An event of a run.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The position of the event.
    pub x: f64,
    /// The value of the event, if it has one.
    pub y: Option<f64>,
    /// Its shape.
    pub glyph: Glyph,
    /// Its run.
    pub run: usize,
    /// A description of the event.
    pub text: String,
}

/// Curves with one axis.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// The start of its ids, unique within the page.
    pub id: String,
    /// The title.
    pub title: String,
    /// The name of the horizontal axis.
    pub x: String,
    /// The curves.
    pub series: Vec<Series>,
    /// The events.
    pub marks: Vec<Mark>,
    /// Whether values that span decades may be shown on a logarithmic scale.
    pub may_be_log: bool,
}

impl LineChart {
    /// Draws the chart.
    pub fn draw(&self) -> Markup {
        let xs = self.series.iter().flat_map(|series| series.points.iter().map(|(x, _)| *x));
        let ys = self.series.iter().flat_map(|series| series.points.iter().map(|(_, y)| *y));
        let (low, high) = xs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let (low, high) = if low < high { (low, high) } else { (low - 1.0, high + 1.0) };
        let (x, y) = (Axis::exact(low, high, 6), Axis::around(ys, 4, self.may_be_log));
        let top = if self.marks.iter().any(|mark| mark.y.is_none()) { TOP } else { TOP_WITHOUT };
        let px = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
        let py = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - top - BOTTOM);
        let (floor, end) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let whole = |value: &&f64| value.fract() == 0.0;
        let inside = html! {
            g.grid {
                @for value in &y.ticks { line x1=(at(LEFT)) x2=(at(end)) y1=(at(py(*value))) y2=(at(py(*value))) {} }
            }
            g.ticks {
                @for value in &y.ticks { text x=(at(LEFT - 7.0)) y=(at(py(*value))) dy=".35em" text-anchor="end" { (tick(*value)) } }
                @for value in x.ticks.iter().filter(whole) {
                    text x=(at(px(*value))) y=(at(floor + 15.0)) text-anchor="middle" { (tick(*value)) }
                }
                text.axis x=(at((LEFT + end) / 2.0)) y=(at(HEIGHT - 4.0)) text-anchor="middle" { (self.x) }
                @if y.is_log() { text.axis x=(at(LEFT - 7.0)) y=(at(top - 12.0)) text-anchor="end" { "log" } }
            }
            line.floor x1=(at(LEFT)) x2=(at(end)) y1=(at(floor)) y2=(at(floor)) {}
            @for mark in self.marks.iter().filter(|mark| mark.y.is_none()) {
                g.mark.(class_of(mark.glyph)) {
                    line x1=(at(px(mark.x))) x2=(at(px(mark.x))) y1=(at(top)) y2=(at(floor)) {}
                    path d=(mark.glyph.path(px(mark.x), row_of(mark.glyph), 4.6)) { title { (mark.text) } }
                }
            }
            @for series in &self.series {
                g.curve.(palette::class(series.run)).faint[series.faint] data-run=(series.run) {
                    path d=(path(&series.points, px, py)) stroke-dasharray=[dashes(series)] {}
                    @if !series.faint && series.points.len() <= FEW {
                        @for (at_x, value) in series.points.iter().filter(|(_, value)| value.is_finite()) {
                            path.dot d=(Glyph::of_run(series.run).path(px(*at_x), py(*value), 2.9)) {
                                title { (series.name) ", " (self.x) " " (tick(*at_x)) ": " (figure(*value)) }
                            }
                        }
                    }
                }
            }
            @for mark in &self.marks {
                @if let Some(value) = mark.y.filter(|value| value.is_finite()) {
                    g.best.(palette::class(mark.run)) data-run=(mark.run) {
                        path d=(mark.glyph.path(px(mark.x), py(value), 6.2)) { title { (mark.text) } }
                    }
                }
            }
        };
        image(&self.id, HEIGHT, &self.title, &self.description(), &inside)
    }

    /// A description of the curves in words.
    fn description(&self) -> String {
        let mut words = Vec::new();
        for series in self.series.iter().filter(|series| !series.faint) {
            let known: Vec<(f64, f64)> = series.points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
            let (Some(first), Some(last)) = (known.first(), known.last()) else { continue };
            let low = known.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
            let high = known.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
            words.push(format!(
                "{}: {} at {} {}, {} at {} {}, between {} and {}.",
                series.name,
                figure(first.1),
                self.x,
                tick(first.0),
                figure(last.1),
                self.x,
                tick(last.0),
                figure(low),
                figure(high)
            ));
        }
        words.extend(self.marks.iter().map(|mark| format!("{}.", mark.text)));
        words.join(" ")
    }
}

/// The row of a shape above the curves; there are two, so that events at one position do not hide each
/// other.
fn row_of(glyph: Glyph) -> f64 {
    if glyph == Glyph::Diamond { TOP - 9.0 } else { TOP - 23.0 }
}

fn class_of(glyph: Glyph) -> &'static str {
    if glyph == Glyph::Star { "strong" } else { "weak" }
}

fn dashes(series: &Series) -> Option<&'static str> {
    Some(palette::dashes(series.run)).filter(|dashes| !series.faint && *dashes != "none")
}

/// The line through points, with gaps at non-finite values.
fn path(points: &[(f64, f64)], px: impl Fn(f64) -> f64, py: impl Fn(f64) -> f64) -> String {
    let (mut path, mut drawing) = (String::new(), false);
    for (x, y) in thinned(points) {
        if !y.is_finite() {
            drawing = false;
            continue;
        }
        path.push_str(if drawing { "L" } else { "M" });
        path.push_str(&format!("{} {}", at(px(x)), at(py(y))));
        drawing = true;
    }
    path
}

/// The lowest and the highest point of each stretch, in their order, if there are very many points.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MANY {
        return points.to_vec();
    }
    let mut thin = Vec::with_capacity(MANY + 2);
    for stretch in points.chunks(points.len().div_ceil(MANY / 2)) {
        let known = || stretch.iter().enumerate().filter(|(_, (_, value))| value.is_finite());
        let low = known().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let high = known().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        match (low, high) {
            (Some((a, low)), Some((b, high))) if a < b => thin.extend([*low, *high]),
            (Some((a, low)), Some((b, high))) if a > b => thin.extend([*high, *low]),
            (Some((_, one)), _) => thin.push(*one),
            _ => thin.extend(stretch.first().copied()),
        }
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_keep_their_extremes_and_gaps() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        points[5_000].1 = 1e6;
        let thin = thinned(&points);
        assert!(thin.len() <= MANY + 2 && thin.contains(&(5_000.0, 1e6)), "{}", thin.len());
        assert!(thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let line = path(&[(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 4.0)], |x| x, |y| y);
        assert_eq!(line, "M0 1M2 3L3 4");
    }
}
