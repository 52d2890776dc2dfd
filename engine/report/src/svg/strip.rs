//! The values of cases as dots in a row for each class or run, with their quartiles.

use maud::{Markup, html};

use super::{Axis, Glyph, WIDTH, at, image};
use crate::palette;
use crate::text::{figure, tick};

const LEFT: f64 = 14.0;
const RIGHT: f64 = 18.0;
const ROW: f64 = 58.0;
const HEAD: f64 = 17.0;
const BOTTOM: f64 = 38.0;

/// The case of a dot.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Its name.
    pub case: String,
    /// Its value.
    pub value: f64,
}

/// The dots of a class or a run.
#[derive(Clone, Debug)]
pub struct StripRow {
    /// Its name.
    pub name: String,
    /// Its run, which decides colour and shape.
    pub run: usize,
    /// The cases with a value.
    pub dots: Vec<Dot>,
}

/// Rows with one axis.
#[derive(Clone, Debug)]
pub struct Strip {
    /// The start of its ids, unique within the page.
    pub id: String,
    /// The title.
    pub title: String,
    /// The name of the values.
    pub x: String,
    /// The rows.
    pub rows: Vec<StripRow>,
}

impl Strip {
    /// Draws the rows.
    pub fn draw(&self) -> Markup {
        let finite =
            |row: &StripRow| row.dots.iter().map(|dot| dot.value).filter(|v| v.is_finite()).collect::<Vec<_>>();
        let values: Vec<f64> = self.rows.iter().flat_map(finite).collect();
        let axis = Axis::around(values.iter().copied(), 5, true);
        let px = |value: f64| LEFT + 6.0 + axis.place(value) * (WIDTH - LEFT - RIGHT - 6.0);
        let height = self.rows.len() as f64 * ROW + BOTTOM;
        let floor = height - BOTTOM;
        let inside = html! {
            g.grid {
                @for value in &axis.ticks { line x1=(at(px(*value))) x2=(at(px(*value))) y1=(at(HEAD)) y2=(at(floor)) {} }
            }
            g.ticks {
                @for value in &axis.ticks {
                    text x=(at(px(*value))) y=(at(floor + 15.0)) text-anchor="middle" { (tick(*value)) }
                }
                text.axis x=(at(WIDTH / 2.0)) y=(at(height - 4.0)) text-anchor="middle" {
                    (self.x) @if axis.is_log() { " (log)" }
                }
            }
            @for (place, row) in self.rows.iter().enumerate() {
                @let top = place as f64 * ROW;
                @let middle = top + HEAD + (ROW - HEAD) / 2.0;
                @let known = finite(row);
                g.strip.(palette::class(row.run)) {
                    text.name x=(at(LEFT)) y=(at(top + 13.0)) {
                        (row.name)
                        @if let Some([low, median, high]) = quartiles(&known) {
                            tspan.aside { "  median " (figure(median)) ", quartiles " (figure(low)) " to " (figure(high)) }
                        } @else { tspan.aside { "  no values" } }
                    }
                    @if let Some([low, median, high]) = quartiles(&known) {
                        rect.box x=(at(px(low))) width=(at((px(high) - px(low)).max(1.0))) y=(at(middle - 13.0)) height="26" rx="2" {}
                        line.median x1=(at(px(median))) x2=(at(px(median))) y1=(at(middle - 13.0)) y2=(at(middle + 13.0)) {}
                    }
                    @for (number, dot) in row.dots.iter().enumerate().filter(|(_, dot)| dot.value.is_finite()) {
                        path.dot d=(Glyph::of_run(row.run).path(px(dot.value), middle + jitter(number), 3.4)) {
                            title { (dot.case) ": " (figure(dot.value)) }
                        }
                    }
                }
            }
            line.floor x1=(at(LEFT)) x2=(at(WIDTH - RIGHT + 6.0)) y1=(at(floor)) y2=(at(floor)) {}
        };
        image(&self.id, height, &self.title, &self.description(), &inside)
    }

    fn description(&self) -> String {
        let words = self.rows.iter().map(|row| {
            let known: Vec<f64> = row.dots.iter().map(|dot| dot.value).filter(|value| value.is_finite()).collect();
            match quartiles(&known) {
                Some([low, median, high]) => {
                    let lowest = known.iter().copied().fold(f64::INFINITY, f64::min);
                    let highest = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    format!(
                        "{}: {} values from {} to {}, median {}, quartiles {} and {}.",
                        row.name,
                        known.len(),
                        figure(lowest),
                        figure(highest),
                        figure(median),
                        figure(low),
                        figure(high)
                    )
                }
                None => format!("{}: no values.", row.name),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The distance of a dot from the middle of its row, so that equal values do not hide each other. It is
/// always the same.
fn jitter(number: usize) -> f64 {
    // Multiples of the golden ratio spread evenly.
    ((number as f64 * 0.618_033_988_75).fract() - 0.5) * 20.0
}

/// Lower quartile, median and upper quartile, interpolated as in NumPy.
fn quartiles(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([0.25, 0.5, 0.75].map(|share| {
        let place = share * last as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + place.fract() * (above - below)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.percentile([0.2, 0.9, 0.4, 0.7], [25, 50, 75])` is 0.35, 0.55, 0.75.
    #[test]
    fn quartiles_are_those_of_numpy() {
        let found = quartiles(&[0.2, 0.9, 0.4, 0.7]).expect("values");
        assert!(found.iter().zip([0.35, 0.55, 0.75]).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        assert_eq!((quartiles(&[]), quartiles(&[3.0])), (None, Some([3.0; 3])));
        assert!((0..1000).all(|number| jitter(number).abs() <= 10.0));
    }
}
